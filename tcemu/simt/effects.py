"""What instructions do with registers that lack a value: which results then lack theirs, and which uses nobody undoes.

Compilers move what only computes, and let it read registers without a value as long as its result is not used. So a use
that counts is a store, an address, a condition or a vote. Where it is not certain that a result lacks its value, it
counts as defined: of a logic operation on numbers, whose other operand may drop the bits, of a struct that is put
together in parts, and of a matrix product, whose rows do not depend on each other, but for what it adds to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple

from tcemu.assembly import Immediate, Memory, Negated, Operand, Register, Vector
from tcemu.assembly import Instruction as Text
from tcemu.machine.events import UseOf
from tcemu.machine.shuffles import asked_lanes
from tcemu.simt import operations
from tcemu.simt.register_file import Slot, Source
from tcemu.simt.steps import Access, Branch, Compute, Guard
from tcemu.simt.touches import registers_of, slots_of
from tcemu.simt.values import value

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program

#: Instructions whose result lacks its value if one of their sources does.
_WHOLE = {
    *("mov", "cvt", "cvta", "add", "sub", "mul", "mad", "fma", "div", "rem", "abs", "neg", "min", "max", "not", "xor"),
    *("sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh", "copysign", "testp", "setp", "set", "shl", "shr"),
    *("popc", "clz", "bfind", "brev", "sad", "mul24", "mad24", "dp4a", "dp2a", "addc", "subc", "madc"),
}
#: Operations that store what other instructions have computed; what is only copied may lie beyond the edge of a tile.
_STORING = frozenset({"wmma.store", "stmatrix"})
#: Operations of the machine that use their operands at once.
_USING = frozenset({"st", "atom", "red", "vote", "redux", "match", "multimem"})


class Use(NamedTuple):
    """An instruction uses registers in a way that nobody undoes."""

    of: UseOf
    slots: tuple[Slot, ...]


class Move(NamedTuple):
    """A result that lacks its value where `meaning` says so, of the shadows of `sources` and the values of `plain`.

    `every`: only if all sources may.
    """

    result: Slot
    sources: tuple[Slot, ...]
    plain: tuple[Slot, ...]
    meaning: Callable[..., Any]
    every: bool = False
    #: whether the result is one of the sources itself
    copies: bool = False
    #: for lanes that get what others have: the lane that each of them asks for
    lanes: Callable[[Frame], Any] | None = None


class Effect(NamedTuple):
    """What an instruction does: what it uses, and its results; those without a move get a value."""

    number: int
    guard: Guard | None
    uses: tuple[Use, ...]
    moves: tuple[Move, ...]
    results: tuple[Slot, ...]
    #: what a load or store accesses
    access: Access | None = None


def any_of(ops: Any, *shadows: Any) -> Any:
    """A result lacks its value where one of the sources does."""
    return reduce(or_, shadows)


def _all_of(ops: Any, *shadows: Any) -> Any:
    return reduce(and_, shadows)


def effects_of(program: Program, block: int) -> Iterator[Effect]:
    """What the instructions of a block do, one after the other; its ending is not among them."""
    here = program.blocks[block]
    if here.operation is None:
        for step in here.steps:
            text = program.function.body[step.number]
            yield _accessed(step) if isinstance(step, Access) else _computed(program, step, text)
        if isinstance(here.ending, Branch) and here.ending.guard is not None:
            yield Effect(here.ending.number, None, (Use("condition", (here.ending.guard.slot,)),), (), ())
        return
    number, guard = here.first, here.operation.guard
    text = program.function.body[number]
    steps = program.lowering.steps(number, text)
    if steps is not None:
        yield from (_accessed(step) for step in steps if isinstance(step, Access))
        return
    instruction = program.instruction(text)
    if instruction is None:  # a clock, a call, a policy: its registers get values
        yield Effect(number, guard, (), (), tuple(slots_of(program, text.operands)))
        return
    _, ins, given, arguments = operations.matched(instruction, text.operands)
    both = [each for record, each in zip(ins, arguments, strict=True) if record.direction == "in out"]
    results = tuple(slots_of(program, [*given, *both]))
    uses: tuple[Use, ...] = ()
    moves: tuple[Move, ...] = ()
    family = instruction.family
    if family == "shfl.sync":
        moves = tuple(_shuffled(program, text, results))
        uses = _uses(exchanged=slots_of(program, arguments[:1]))
    elif family.partition(".")[0] in _USING:
        values = [each for each in arguments if not isinstance(each, Memory)]
        uses = _uses(address=slots_of(program, [each for each in arguments if isinstance(each, Memory)]),
                     value=slots_of(program, values))  # fmt: skip
    elif family in _STORING:
        uses = _uses(kept=slots_of(program, [each for each in arguments if not isinstance(each, Memory)]))
    else:
        moves = tuple(_added(program, {each.role: of for each, of in zip(ins, arguments, strict=True)}, results))
    yield Effect(number, guard, uses, moves, results)


def _uses(**slots: Iterator[Slot]) -> tuple[Use, ...]:
    return tuple(Use(of, found) for of, each in slots.items() if (found := tuple(each)))  # type: ignore[arg-type]


def _only(sources: Sequence[Source | None]) -> Iterator[Slot]:
    return (each for each in sources if isinstance(each, Slot))


def _accessed(step: Access) -> Effect:
    """A load or store: its address is used, and what it stores elsewhere than in local memory."""
    _, results = registers_of(step)
    stored = _only(step.registers if step.writes else ())
    uses = _uses(address=_only([step.address]), **{"kept" if step.space == "local" else "value": stored})
    return Effect(step.number, step.guard, uses, (), tuple(_only(results)), step)


def _computed(program: Program, step: Compute, text: Text) -> Effect:
    head, *words = text.opcode.split(".")
    sources, results = tuple(_only(step.sources)), tuple(_only(step.results))
    moves: tuple[Move, ...] = ()
    if head == "selp":
        moves = (_selected(step, text),)
    elif head in ("and", "or") and words == ["pred"]:
        moves = (_joined(step, text, head == "and"),)
    elif head in _WHOLE and len(set(sources)) == len(sources) and not (head == "setp" and len(step.sources) > 2):
        packs = (head == "mov" and isinstance(text.operands[-1], Vector)) or (head == "cvt" and len(step.sources) > 1)
        if not packs or len(sources) == len(step.sources):
            meaning = _all_of if packs else any_of
            moves = tuple(Move(to, sources, (), meaning, packs, head == "mov") for to in results if sources)
    return Effect(step.number, step.guard, (), moves, results)


def _selected(step: Compute, text: Text) -> Move:
    """selp d, a, b, p: the source that is chosen, or either if p lacks its value."""
    turned = isinstance(text.operands[-1], Negated)
    *ab, p = step.sources
    (result,) = step.results

    def meaning(ops: Any, one: Any, other: Any, chosen: Any, yes: Any) -> Any:
        first, second = (other, one) if turned else (one, other)
        return yes & first | ~yes & second | chosen

    return Move(result, (*ab, p), (p,), meaning, copies=True)  # type: ignore[arg-type]


def _joined(step: Compute, text: Text, both: bool) -> Move:
    """and.pred, or.pred: the result has a value if one source decides it."""
    turned = [isinstance(each, Negated) for each in text.operands[1:]]
    (result,) = step.results

    def meaning(ops: Any, one: Any, other: Any, x: Any, y: Any) -> Any:
        x, y = (~each if turn else each for each, turn in zip((x, y), turned, strict=True))
        x, y = (x, y) if both else (~x, ~y)  # where the source does not decide
        return one & other | one & y | other & x

    return Move(result, step.sources, step.sources, meaning)  # type: ignore[arg-type]


def _added(program: Program, given: Mapping[str, Operand], results: Sequence[Slot]) -> Iterator[Move]:
    """A product of matrices: what it adds to, if scale-d of wgmma does not leave that out."""
    scale = given.get("scale_d")
    added = given.get("c") if scale is None else given.get("d")
    summed = list(slots_of(program, [added])) if added is not None else []
    if len(summed) != len(results) or (isinstance(scale, Immediate) and not scale.value):
        return
    of = program.lowering.source(scale, 1) if isinstance(scale, Register | Negated) else None
    turned = isinstance(scale, Negated)

    def adds(ops: Any, shadow: Any, scales: Any) -> Any:
        return shadow & (~scales if turned else scales)

    for to, each in zip(results, summed, strict=True):
        yield Move(to, (each,), (), any_of) if of is None else Move(to, (each,), (of,), adds)  # type: ignore[arg-type]


def _shuffled(program: Program, text: Text, results: Sequence[Slot]) -> Iterator[Move]:
    """shfl.sync: the source of the lane that each lane reads."""
    mode = text.opcode.split(".")[2]
    of, b, c = (program.lowering.source(each, 32) for each in text.operands[1:4])
    if isinstance(of, Slot) and results:

        def lanes(frame: Frame) -> Any:
            return asked_lanes(mode, value(frame, b), value(frame, c))

        yield Move(results[0], (of,), (), any_of, lanes=lanes)
