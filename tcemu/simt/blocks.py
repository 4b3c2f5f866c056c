"""A function's body as blocks: where groups of lanes may start, stop, part and meet.

A block starts at a label, behind a branch, and at and behind each operation. Blocks are numbered in the order of the
text: a group's place is the number of its block, and groups with lower numbers run first.
"""

from __future__ import annotations

from collections.abc import Callable

from tcemu.assembly import Function, Instruction, Label
from tcemu.simt.errors import Unsupported
from tcemu.simt.events import Operation
from tcemu.simt.lowering import Lowering
from tcemu.simt.steps import Access, Block, Branch, Ending, Leave, Step

#: Ends a block in native code; anything else that is no step is an operation.
ENDINGS = frozenset({"bra", "ret", "exit"})
#: Makes the operation of an instruction, which may be an access.
Bind = Callable[[int, Instruction, Access | None], Operation]


def blocks_of(lowering: Lowering, bind: Bind, place: Callable[[Instruction], str]) -> tuple[Block, ...]:
    """The blocks of a function; the last one, behind the body, returns.

    `place` says where an instruction is, for the error about one that cannot be executed.
    """
    function = lowering.function
    steps: list[tuple[Step, ...] | None] = []
    for number, instruction in enumerate(function.body):
        try:
            steps.append(() if _head(instruction) in ENDINGS else lowering.steps(number, instruction))
        except Unsupported as error:
            raise Unsupported(f"{place(instruction)}: {instruction.opcode}: {error}") from None
    starts = _starts(function, steps)
    number_of = {start: number for number, start in enumerate(starts)}
    blocks = []
    for start, end in zip(starts, [*starts[1:], len(function.body) + 1], strict=True):
        if start == len(function.body):
            blocks.append(Block(start, ending=Leave(start, exits=False, guard=None)))
            continue
        first = steps[start]
        if first is None or _machine(first):
            access = None if first is None else next(each for each in first if isinstance(each, Access))
            blocks.append(Block(start, operation=bind(start, function.body[start], access)))
            continue
        here = [step for each in steps[start:end] for step in each or ()]
        last = end - 1
        blocks.append(Block(start, tuple(here), _ending(lowering, last, number_of)))
    return tuple(blocks)


def _head(instruction: Instruction) -> str:
    return instruction.opcode.partition(".")[0]


def _alone(steps: tuple[Step, ...] | None) -> bool:
    """Whether an instruction is a block of its own: operations, and accesses that the executor may have to finish."""
    if steps is None:
        return True
    return any(isinstance(each, Access) and (each.machine or each.space == "generic") for each in steps)


def _machine(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(each, Access) and each.machine for each in steps)


def _starts(function: Function, steps: list[tuple[Step, ...] | None]) -> list[int]:
    """Where blocks start; one starts behind the body."""
    starts = {0, len(function.body), *function.labels.values()}
    for number, instruction in enumerate(function.body):
        if _head(instruction) in ENDINGS:
            starts.add(number + 1)
        elif _alone(steps[number]):
            starts |= {number, number + 1}
    return sorted(starts)


def _ending(lowering: Lowering, number: int, number_of: dict[int, int]) -> Ending | None:
    """How a block ends whose last instruction is this one."""
    instruction = lowering.function.body[number]
    head, guard = _head(instruction), lowering.guard(instruction)
    if head == "bra":
        (label,) = instruction.operands
        if not isinstance(label, Label):
            raise Unsupported(f"bra to {label}, which is no label")
        return Branch(number, number_of[lowering.function.labels[label.name]], guard)
    if head in ("ret", "exit"):
        return Leave(number, head == "exit", guard)
    return None
