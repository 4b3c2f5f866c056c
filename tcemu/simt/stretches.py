"""The ordinary instructions between two of a warp's operations: what a stretch of PTX leaves for an SM to execute.

Observers that want to know it (Sourced) hear of loads, stores and the machine's instructions; what a warp executes
between two of them follows from the text: the shortest way from one to the other. Of the instructions on it, those
count whose result is data: it is stored, or a product, shuffle or atomic operation gets it. What only makes addresses,
descriptors, conditions and counters does not, and neither do moves: ptxas puts most of it into other instructions
(immediate offsets, predicates, registers that are not copied), and the costs of operations include the rest.

A loop without memory accesses and operations counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING

from tcemu.assembly import Vector
from tcemu.machine.events import SELECTED_SOURCE, Ordinary, Stretch
from tcemu.simt import operations
from tcemu.simt.behind import OUT
from tcemu.simt.register_file import Slot
from tcemu.simt.steps import Access, Compute
from tcemu.simt.touches import registers_of, slots_of

if TYPE_CHECKING:
    from tcemu.simt.program import Program

#: What operands hold data, by their kind; values only of these instructions, since others' are sizes and counts.
_DATA = ("registers", "metadata", "scale")
_VALUES = ("st", "atom", "red", "shfl", "redux", "match", "vote")
#: Instructions that ptxas does without: it renames registers, and negates operands where they are read; what parameters
#: hold, others read as operands.
_FREE = {"mov", "cvta", "neg", "abs", "not", "ld"}
_NONE = {again: Stretch((), (), again) for again in (False, True)}
#: How much longer a way is on which another operation is left out by its guard.
_PAST = 1 << 20


class Stretches:
    """The stretches of a function."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps = {step.number: step for block in program.blocks for step in block.steps}
        self._counts = frozenset(self._counting())
        self._known: dict[tuple[int, int], Stretch] = {}

    def between(self, last: int, number: int) -> Stretch:
        """What is executed after instruction `last` (-1: from the function's start) until `number` begins."""
        key = last, number
        if key not in self._known:
            self._known[key] = self._found(last, number)
        return self._known[key]

    # ------------------------------------------------------------------------------------------ what counts

    def _counting(self) -> Iterator[int]:
        """The instructions whose results are data."""
        data, before = set(self._sinks()), -1
        computes = [step for step in self._steps.values() if isinstance(step, Compute)]
        while before != (before := len(data)):
            for step in reversed(computes):
                if any(each in data for each in step.results):
                    data.update(each for each in step.sources if isinstance(each, Slot))
        for step in computes:
            if any(each in data for each in step.results) and not self._free(step):
                yield step.number

    def _sinks(self) -> Iterator[Slot]:
        """The registers that are stored, or that the machine's instructions compute with."""
        program = self._program
        for block in program.blocks:
            if block.operation is None:
                stored = (step.registers for step in block.steps if isinstance(step, Access) and step.writes)
                yield from (each for registers in stored for each in registers if isinstance(each, Slot))
                continue
            text = program.function.body[block.first]
            instruction = program.instruction(text)
            if instruction is not None:
                takes = (*_DATA, "value") if instruction.opcode.partition(".")[0] in _VALUES else _DATA
                _, ins, _, arguments = operations.matched(instruction, text.operands)
                data = [
                    argument for record, argument in zip(ins, arguments, strict=True)
                    if record.kind in takes and (isinstance(argument, Vector) or not record.described)
                ]  # fmt: skip
                yield from slots_of(program, data)

    def _free(self, step: Compute) -> bool:
        """Whether ptxas needs no instruction for it; a move that packs parts of registers takes one."""
        text = self._program.function.body[step.number]
        head, *words = text.opcode.split(".")
        if head == "mov":
            return len({each.bits for each in (*step.sources, *step.results) if isinstance(each, Slot)} - {64}) < 2
        between = head == "cvt" and all(word[0] in "su" and word[1:].isdigit() for word in words[-2:])
        return head in _FREE or words[-1:] == ["pred"] or between

    # ------------------------------------------------------------------------------------------ ways

    def _found(self, last: int, number: int) -> Stretch:
        """The stretch, from its instructions."""
        whole = [*self._way(last, number), number]
        again = any(after <= before for before, after in pairwise([last, *whole]))
        way = [each for each in whole[:-1] if each in self._counts]
        if not way and not self._selects(last, number):
            return _NONE[again]
        made: dict[Slot, int] = {}
        ordinary: list[Ordinary] = []
        origins: set[tuple[int, int]] = set()
        for at, each in enumerate(way):
            step = self._steps[each]
            sources, results = registers_of(step)
            reads = tuple(sorted({made[slot] for slot in _slots(sources) if slot in made}))
            ordinary.append(Ordinary(self._program.opcode(each), reads))
            origins.update(self._program.flow.sources.get(each, ()))
            made.update(dict.fromkeys(_slots(results), at))
        if self._selects(last, number):
            ordinary.append(Ordinary(SELECTED_SOURCE, ()))
        return Stretch(tuple(ordinary), tuple(sorted(origins)), again)

    def _selects(self, last: int, number: int) -> bool:
        """Whether an instruction is a cp.async whose source depends on a test: two instructions before it write it."""
        text = self._program.function.body[number]
        if not text.opcode.startswith("cp.async.c") or not text.operands[1:]:
            return False
        source = set(slots_of(self._program, [text.operands[1]]))
        written = [each for each in self._before(last, number) if source & set(_slots(registers_of(each)[1]))]
        return len(written) > 1

    def _before(self, last: int, number: int) -> Iterator[Compute]:
        """What may be executed after an instruction and before another one, whichever way it comes."""
        program = self._program
        start, goal = program.block_of[max(last, 0)], program.block_of[number]
        seen, waiting = {start}, [start]
        while waiting:
            block = program.blocks[waiting.pop()]
            own = last if block is program.blocks[start] else -1
            yield from (step for step in block.steps if isinstance(step, Compute) and step.number > own)
            for each in program.ways.follows[program.block_of[block.first]]:
                if each not in (goal, OUT) and each not in seen and self._silent(each):
                    seen.add(each)
                    waiting.append(each)

    def _silent(self, block: int) -> bool:
        held = self._program.blocks[block]
        return held.operation is None and not any(isinstance(step, Access) for step in held.steps)

    def _way(self, last: int, number: int) -> Iterable[int]:
        """The instructions between two, by the shortest way; those before `number` in its block if there is none."""
        program = self._program
        start, goal = program.block_of[max(last, 0)], program.block_of[number]
        if start == goal and last < number:
            return range(last + 1, number)
        ends = [*(block.first for block in program.blocks[1:]), len(program.function.body)]
        way = self._shortest(start, goal)
        if way is None:
            return range(program.blocks[goal].first, number)
        between = [at for block in way for at in range(program.blocks[block].first, ends[block])]
        return [*range(last + 1, ends[start]), *between, *range(program.blocks[goal].first, number)]

    def _shortest(self, start: int, goal: int) -> Sequence[int] | None:
        """The blocks between two blocks."""
        follows = self._program.ways.follows
        seen: set[int] = set()
        heap: list[tuple[int, int, tuple[int, ...]]] = [(0, start, ())]
        while heap:
            length, block, way = heappop(heap)
            for each in follows[block]:
                if each == goal:
                    return way
                if each != OUT and each not in seen:
                    seen.add(each)
                    heappush(heap, (length + self._length(each), each, (*way, each)))
        return None

    def _length(self, block: int) -> int:
        """How long it is to go through a block."""
        held = self._program.blocks[block]
        accesses = sum(isinstance(step, Access) for step in held.steps)
        return len(held.steps) + 1 + _PAST * (accesses + (held.operation is not None))


def _slots(sources: Iterable[object]) -> Iterator[Slot]:
    return (each for each in sources if isinstance(each, Slot))
