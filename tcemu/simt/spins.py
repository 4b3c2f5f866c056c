"""Loops that wait for a value in memory: ``while (*flag == 0);``.

Such a loop may find the value at once, and then it looks like any other load. So it is found in the program: a strong
load of one address that a loop repeats, with no other access and nothing that synchronises beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tcemu.assembly import Memory, Register
from tcemu.simt.behind import OUT
from tcemu.simt.steps import Access
from tcemu.simt.touches import registers_of

if TYPE_CHECKING:
    from tcemu.simt.program import Program

#: Operations that a loop may have beside the load.
_IDLE = ("nanosleep", "pause")


def spins(program: Program) -> Iterator[int]:
    """The numbers of the loads that such loops repeat."""
    for number, block in enumerate(program.blocks):
        operation = block.operation
        if operation is not None and operation.opcode.startswith("ld."):
            loop = _loop(program, number)
            memory = program.function.body[operation.number].operands[1]
            if loop and isinstance(memory, Memory) and not _changes(program, loop, memory):
                yield operation.number


def others(program: Program, spinning: int, all_spinning: Iterable[int]) -> Iterator[int]:
    """The blocks of loads on the line of such a load that belong to no such loop, nor to a first round before one.

    They read next to what it reads, or nothing leads from them to it.
    """
    body = program.function.body
    memory, waited = body[spinning].operands[1], [body[each].operands[1] for each in all_spinning]
    for number, block in enumerate(program.blocks):
        operation = block.operation
        if operation is None or not operation.opcode.startswith("ld."):
            continue
        own = body[operation.number].operands[1]
        if own in waited:
            continue
        if operation.site is program.sites[spinning] and isinstance(own, Memory) and isinstance(memory, Memory):
            beside = own.base == memory.base and own.offset != memory.offset
            if beside or program.block_of[spinning] not in _behind(program, number):
                yield number


def _behind(program: Program, start: int) -> set[int]:
    """The blocks that a block leads to."""
    follows, found, waiting = program.ways.follows, set[int](), [start]
    while waiting:
        new = [each for each in follows[waiting.pop()] if each != OUT and each not in found]
        found.update(new)
        waiting += new
    return found


def _loop(program: Program, load: int) -> set[int]:
    """The blocks that lead from a load back to it and do nothing with memory."""
    follows, blocks = program.ways.follows, program.blocks
    forward, waiting = set[int](), [each for each in follows[load] if each != OUT]
    while waiting:
        number = waiting.pop()
        operation = blocks[number].operation
        works = any(isinstance(each, Access) for each in blocks[number].steps)
        idle = not works and (operation is None or operation.opcode.startswith(_IDLE))
        if idle and number not in forward and number != load:
            forward.add(number)
            waiting += [each for each in follows[number] if each != OUT]
    back, before = set[int](), -1
    while before != (before := len(back)):
        back |= {each for each in forward if {load, *back} & set(follows[each])}
    return back


def _changes(program: Program, loop: set[int], memory: Memory) -> bool:
    """Whether the loop writes the register that the address is in."""
    if not isinstance(memory.base, Register):
        return False
    slot = program.slots.by_name[memory.base.name]
    return any(slot in registers_of(step)[1] for number in loop for step in program.blocks[number].steps)
