"""Instructions that the machine executes: their operands, by the records of tcemu's table, to the machine and back.

No instruction's name occurs here: what an operand is, its record says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tcemu.assembly import Immediate, Memory, Negated, Pair, Register, Sink, Symbol, Vector
from tcemu.assembly import Instruction as Text
from tcemu.assembly import Operand as Argument
from tcemu.instructions import Instruction
from tcemu.instructions.elements import space_of
from tcemu.instructions.operand import Operand
from tcemu.machine.addresses import BLOCK, PARAM, window_of
from tcemu.machine.masks import FULL, bits_of, lanes_of
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map_words import BYTES, map_of
from tcemu.simt import values
from tcemu.simt.errors import Unsupported
from tcemu.simt.lowering import Lowering
from tcemu.simt.register_file import LANES, Constant, Slot, Source

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame

Read: TypeAlias = "Callable[[Frame], Any]"
Write: TypeAlias = "Callable[[Frame, Any], None]"
_U32, _I64 = np.dtype(np.uint32), np.dtype(np.int64)
#: The kinds of operands that are addresses in memory.
_PLACES = ("address", "pointer", "tensor map")


class Bound(NamedTuple):
    """An instruction of the machine with its operands: executes it, and writes the result, if there is one."""

    act: Callable[[Frame], Any]
    write: Write | None


def bind(instruction: Instruction, text: Text, lowering: Lowering) -> Bound:
    """How frames execute an instruction of the machine."""
    outs, ins, given_outs, arguments = matched(instruction, text.operands)
    later = accumulates(instruction)
    into = [_later(lowering, each) for one, each in zip(outs, given_outs, strict=True) if one.later]
    shared = space_of(instruction) == "shared" and len([each for each in ins if each.kind in _PLACES]) == 1
    reads = [_reader(lowering, operand, each, later, shared) for operand, each in zip(ins, arguments, strict=True)]
    writes = [_writer(lowering, operand, each) for operand, each in zip(outs, given_outs, strict=True)]
    both, opcode = len(writes) == 2, text.opcode  # a string is found faster than an instruction

    def act(frame: Frame) -> Any:
        return frame.run.core.execute(opcode, *[read(frame) for read in reads], both=both)

    fixed = [read(None) for read in reads if isinstance(read, _Always)]

    def again(frame: Frame) -> Any:
        return frame.run.core.execute(opcode, *fixed)

    executes: Callable[[Frame], Any] = again if len(fixed) == len(reads) and not both else act  # as bar.sync 0
    if instruction.family.startswith("cp.") and not outs:
        executes = _in_turn(executes, _one_for_all(lowering, ins, arguments))
    if into:
        further = writes[1] if both else None
        return Bound(_into(executes, into[0]), _second(further) if further else _discard)
    return Bound(executes, _both(writes) if both else (writes[0] if writes else None) or _discard)


def _later(lowering: Lowering, argument: Argument) -> Read:
    """The registers of a result that is written later."""
    vector = argument if isinstance(argument, Vector) else Vector((argument,))
    if not all(isinstance(each, Register) for each in vector.items):
        raise Unsupported(f"{argument} are no registers, which get the result later")
    return _registers(lowering, vector, accumulates=True)


def _into(act: Callable[[Frame], Any], registers: Read) -> Callable[[Frame], Any]:
    """An instruction that writes its result later, into these registers."""

    def acts(frame: Frame) -> Any:
        core = frame.run.core
        core.into = registers(frame)
        try:
            return act(frame)
        finally:
            core.into = None

    return acts


def _second(write: Write) -> Write:
    """Of two results, the first of which is there already."""
    return lambda frame, result: write(frame, result[1])


def _one_for_all(lowering: Lowering, operands: Sequence[Operand], arguments: Sequence[Argument]) -> list[Slot]:
    """The registers of operands that the machine takes once for all lanes."""
    sources: list[Source] = []
    for operand, each in zip(operands, arguments, strict=True):
        base = each.base if isinstance(each, Memory) else each
        if operand.uniform and isinstance(base, Register | Vector):
            items = base.items if isinstance(base, Vector) else (base,)
            sources += [lowering.source(item, 32) for item in items]
    return [each for each in sources if isinstance(each, Slot)]


def _in_turn(act: Callable[[Frame], Any], slots: Sequence[Slot]) -> Callable[[Frame], Any]:
    """A copy that each thread starts for itself: lanes with other coordinates, map or size than the first have it next.

    The machine takes these once for all lanes that execute a copy.
    """
    if not slots:
        return act

    def acts(frame: Frame) -> None:
        run, left = frame.run, frame.run.bits
        whole = left
        while left:
            first = (left & -left).bit_length() - 1
            same = np.ones(LANES, bool)
            for slot in slots:
                lanes = frame.lanes(slot)
                same &= lanes == lanes[first]
            group = left & bits_of(same)
            run.activate(group)
            act(frame)
            left &= ~group
        run.activate(whole)

    return acts


def _discard(frame: Frame, result: Any) -> None:
    """Nobody wants the result."""


def _both(writes: Sequence[Write | None]) -> Write:
    """Write two results."""

    def write(frame: Frame, results: Any) -> None:
        for each, result in zip(writes, results, strict=True):
            if each is not None:
                each(frame, result)

    return write


def accumulates(instruction: Instruction) -> bool:
    """Whether the machine writes the destination later, so that it needs the registers themselves."""
    return any(
        each.later or (each.direction == "in out" and each.fragment is not None) for each in instruction.operands
    )


def matched(
    instruction: Instruction, operands: Sequence[Argument]
) -> tuple[list[Operand], list[Operand], list[Argument], list[Argument]]:
    """Records and operands, side by side: the destinations, then the sources that are there.

    A pair d|p is two destinations; a tensor map and its coordinates are two operands in one pair of brackets. A
    destination may be absent, or a sink where the record has none.
    """
    flat: list[Argument] = []
    for each in operands:
        if isinstance(each, Pair):
            flat += [each.first, each.second]
        elif isinstance(each, Memory) and each.coordinates:
            flat += [Memory(each.base, each.offset), Vector(each.coordinates)]
        else:
            flat.append(each)
    outs = [each for each in instruction.operands if each.direction == "out"]
    ins = [each for each in instruction.operands if each.direction != "out"]
    least = sum(not each.optional for each in ins)
    paired = bool(operands) and isinstance(operands[0], Pair)
    if len(outs) == 2 and not paired and any(each.optional for each in outs):
        outs = [next(each for each in outs if not each.optional)]
    if not outs and flat and isinstance(flat[0], Sink):
        flat = flat[1:]
    elif outs and not paired and len(flat) < len(outs) + least:
        outs = []
    arguments = flat[len(outs) :]
    if not least <= len(arguments) <= len(ins):
        raise Unsupported(f"it takes {least} to {len(ins)} operands after its result; got {len(arguments)}")
    ins = _present(ins, arguments)
    return outs, ins, flat[: len(outs)], arguments


def _present(operands: list[Operand], arguments: Sequence[Argument]) -> list[Operand]:
    """The operands that are given: the last optional ones are left out, or a mask of lanes where there is no vector."""
    missing = len(operands) - len(arguments)
    absent = [
        each for number, each in enumerate(operands)
        if each.kind == "lane mask" and missing and not isinstance(arguments[number], Vector)
    ]  # fmt: skip
    rest = [each for each in reversed(operands) if each.optional and each not in absent]
    absent += rest[: missing - len(absent)]
    return [each for each in operands if each not in absent]


# ---------------------------------------------------------------------------------------------------- sources


def _reader(lowering: Lowering, operand: Operand, argument: Argument, accumulates: bool, shared: bool) -> Read:
    """A function of a frame: the operand as the machine takes it; `shared`: an address of 64 bits is one there."""
    kind = operand.kind
    if kind == "coordinates":
        return _numbers(lowering, argument, np.int32)
    if kind in ("pair", "lane mask"):
        several = _numbers(lowering, argument, np.uint32)
        return lambda frame: tuple(several(frame))
    if kind == "tensor map":
        return _tensor_map(lowering, argument)
    tensor = kind == "tensor address" or (operand.described and isinstance(argument, Memory))
    if tensor or kind in ("address", "pointer"):
        base = argument.base if isinstance(argument, Memory) else argument
        narrow = isinstance(base, Register) and lowering.slots.by_name[base.name].bits == 32
        return _address(lowering, argument, tensor or kind == "pointer", shared=not tensor and (shared or narrow))
    if isinstance(argument, Vector) or (isinstance(argument, Register) and len(lowering.halves(argument)) > 1):
        return _registers(lowering, argument if isinstance(argument, Vector) else Vector((argument,)), accumulates)
    source = lowering.source(argument, max(operand.bits, 32), "b")
    if kind == "predicate":
        return _predicate(source, isinstance(argument, Negated), one=operand.uniform)
    if kind == "membermask" and isinstance(source, Constant):
        return _Always(source.value & FULL)
    if isinstance(source, Constant):
        value = argument.value if isinstance(argument, Immediate) else source.value
        return _Always(value - (1 << 64) if value >= 1 << 63 else value)
    if isinstance(source, Slot) and (operand.uniform or operand.described):
        return lambda frame: _agreed(frame, frame.lanes(source))
    if kind in ("registers", "metadata", "scale", "value") and isinstance(source, Slot):
        if kind == "registers":
            return _registers(lowering, Vector((argument,)), accumulates)
        if source.bits == 16 or source.bits == 8:
            return lambda frame: frame.lanes(source).astype(_U32)
        return lambda frame: frame.lanes(source)
    return lambda frame: values.value(frame, source)


class _Always:
    """Reads what is always the same."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, frame: Frame | None) -> Any:
        return self.value


def _one(frame: Frame, source: Source) -> int:
    """A source in the first active lane."""
    if isinstance(source, Constant):
        return source.value
    return frame.one(source) if isinstance(source, Slot) else int(values.uniform(frame, source))


def _numbers(lowering: Lowering, argument: Argument, kind: Any) -> Callable[[Frame], list[int]]:
    """A list of numbers of 32 bits, one for the warp each."""
    items = argument.items if isinstance(argument, Vector) else (argument,)
    sources = [lowering.source(each, 32) for each in items]
    return lambda frame: [int(np.uint32(_one(frame, each) & FULL).astype(kind)) for each in sources]


def _predicate(source: Source, negated: bool, one: bool) -> Read:
    if isinstance(source, Constant):
        return _Always(bool(source.value) != negated)
    flip = FULL * negated
    if isinstance(source, Slot) and source.bits > 1:  # an integer where PTX takes a predicate or 0 and 1
        return lambda frame: bool(frame.one(source))
    if one:
        return lambda frame: bool(frame.one(source)) != negated  # type: ignore[arg-type]
    return lambda frame: lanes_of(frame.mask(source) ^ flip)  # type: ignore[arg-type]


def _address(lowering: Lowering, argument: Argument, one: bool, shared: bool) -> Read:
    """An address for each lane; one for all lanes if they give the same, where the machine takes one.

    For the machine, the block's own addresses in `shared` memory begin at 0.
    """
    memory = argument if isinstance(argument, Memory) else Memory(argument)  # type: ignore[arg-type]
    layout, base, offset = lowering.layout, memory.base, memory.offset
    if isinstance(base, Symbol) and base.name in layout.shared:
        return _Always(layout.shared[base.name] + base.offset + offset)
    source = lowering.source(base, 64)
    if isinstance(source, Constant):
        return _Always(source.value + offset)
    if not isinstance(source, Slot):
        raise Unsupported(f"{argument} is no address")
    slot: Slot = source
    wrapped = np.dtype(f"u{slot.bits // 8}").type(offset & (1 << slot.bits) - 1)

    def read(frame: Frame) -> Any:
        # not the register itself, which changes before an asynchronous copy has read what the address points to
        lanes = frame.lanes(slot) + wrapped
        addresses = lanes.view(_I64) if slot.bits == 64 else lanes.astype(_I64)
        origin = frame.run.origin if shared else 0
        if origin:
            addresses = np.where((addresses >= origin) & (addresses < origin + BLOCK), addresses - origin, addresses)
        return _agreed(frame, addresses) if one else addresses

    return read


def _agreed(frame: Frame, values: Any) -> Any:
    """One number, if the active lanes agree; else the values, about which the machine says more."""
    run, raw, size = frame.run, values.tobytes(), values.itemsize
    first = run.first * size
    if raw == raw[first : first + size] * LANES:
        return int(values[run.first])
    active = run.active
    if active is not None and ((values == values[run.first]) | ~active).all():
        return int(values[run.first])
    return values


def _tensor_map(lowering: Lowering, argument: Argument) -> Read:
    """A tensor map: the one that lies in the parameters, or the address of one in global memory."""
    base = argument.base if isinstance(argument, Memory) else None
    if isinstance(argument, Memory) and isinstance(base, Symbol) and base.name in lowering.layout.parameters:
        at = lowering.layout.parameters[base.name] + argument.offset
        return lambda frame: map_of(frame.run.parameters[at : at + BYTES].tobytes())
    read = _address(lowering, argument, one=True, shared=False)

    def read_map(frame: Frame) -> Any:
        at = read(frame)
        if type(at) is int and window_of(at) == "param":
            return map_of(frame.run.parameters[at - PARAM : at - PARAM + BYTES].tobytes())
        return at

    return read_map


def _registers(lowering: Lowering, vector: Vector, accumulates: bool) -> Read:
    """Registers (32, n): a view of the file where they are neighbours; those that are written later as such."""
    sources = [slot for each in vector.items for slot in _slots(lowering, each)]
    slots = [each for each in sources if isinstance(each, Slot)]
    widths = {each.bits for each in sources}
    if len(slots) == len(sources) and len(widths) == 1 and widths <= {32, 64}:
        (bits,) = widths
        rows: Any = _rows(slots)
        if accumulates and bits == 32:
            numbers = [each.row for each in slots]
            return lambda frame: frame.bank.view(numbers)
        if isinstance(rows, slice):
            return lambda frame: frame.rows[bits][rows].T
        return lambda frame: frame.rows[bits].T[:, rows]
    kind = np.uint64 if 64 in widths else np.uint32
    return lambda frame: np.stack([values.value(frame, each).astype(kind) for each in sources], axis=1)


def _slots(lowering: Lowering, argument: Argument) -> Sequence[Source]:
    """The registers of one item of a vector: two of a register of 128 bits."""
    return lowering.halves(argument) if isinstance(argument, Register) else [lowering.source(argument, 32)]


def _rows(slots: Sequence[Slot]) -> Any:
    """The rows of registers: a slice if they are neighbours."""
    rows = [each.row for each in slots]
    whole = range(rows[0], rows[0] + len(rows))
    return slice(whole.start, whole.stop) if rows == list(whole) else np.array(rows, np.intp)


# ---------------------------------------------------------------------------------------------------- destinations


def _writer(lowering: Lowering, operand: Operand, argument: Argument) -> Write | None:
    """A function of a frame and a result: write a destination's registers in the active lanes; None for a sink."""
    items = argument.items if isinstance(argument, Vector) else (argument,)
    slots: list[Slot | None] = []
    for each in items:
        slots += lowering.halves(each) or [None]
    named = [each for each in slots if each is not None]
    if not named:
        return None
    if named[0].bits == 1:
        slot = named[0]
        return lambda frame, result: frame.put(slot, _mask(result))
    rows = _rows(named) if len(named) == len(slots) and {each.bits for each in named} == {32} else None

    def write(frame: Frame, result: Any) -> None:
        values = result.bits if type(result) is Registers else np.asarray(result)
        if values.dtype.kind == "f":
            values = values.view(f"u{values.itemsize}")
        if rows is not None and frame.run.active is None and values.ndim == 2:
            frame.rows[32][rows] = values.T
            return
        for number, slot in enumerate(slots):
            if slot is not None:
                frame.put(slot, values if values.ndim == 0 else values if values.ndim == 1 else values[:, number])

    return write


def _mask(result: Any) -> int:
    """A result as a predicate: one for all lanes, or one for each."""
    if isinstance(result, bool | np.bool_):
        return FULL * bool(result)
    return result if isinstance(result, int) else bits_of(np.asarray(result))
