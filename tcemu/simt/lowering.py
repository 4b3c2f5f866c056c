"""Instructions to steps: where operands lie, and which meaning or access an opcode has.

What tcemu.alu has a row for computes. mov, ld, st, cvta, isspacep and control flow are here; everything else is an
operation, which leaves the segment: the machine or the executor does it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from tcemu import alu
from tcemu.assembly import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
    width,
)
from tcemu.machine.addresses import PARAM
from tcemu.simt import moves
from tcemu.simt.errors import Unsupported
from tcemu.simt.layout import Layout, packed
from tcemu.simt.moves import Meaning
from tcemu.simt.register_file import Constant, Slot, Slots, Source, Uniform
from tcemu.simt.selectors import selected
from tcemu.simt.special import CLOCKS, SPECIAL
from tcemu.simt.steps import Access, Compute, Guard, Space, Step

#: Words that make a load or store more than a weak one: the machine does it.
_STRONG = frozenset({"acquire", "relaxed", "release", "volatile", "mmio", "shared::cluster"})
_SPACES: dict[str, Space] = {
    "shared": "shared", "shared::cta": "shared", "global": "global", "const": "const", "local": "local",
    "param": "param", "param::entry": "param", "param::func": "param",
}  # fmt: skip
_COUNTS = {"v2": 2, "v4": 4, "v8": 8}
#: The names of registers that the executor adds to a function's own: the carry flag, what a generic address has more
#: than one in the block's shared memory, what the latter begin at, and what it has more than one in local memory.
CARRY, WINDOW, ORIGIN, STACKED = "CC.CF", "the shared window", "the first shared address", "the local window"


class Lowering:
    """The steps of one function's instructions; `memory` is whether they access global and shared memory themselves."""

    def __init__(self, function: Function, layout: Layout, memory: bool) -> None:
        self.function, self.layout, self.memory = function, layout, memory
        self.entry = function.entry
        #: what lies in a lane's local memory: the offset of each variable, from where the function's part starts
        stack = [each for each in function.variables.values() if each.space in ("local", "param")]
        formal = [] if self.entry else [*function.returns, *function.parameters]
        self.local, size = packed([*formal, *stack])
        self.local_bytes = -(-size // 16) * 16
        self._specials: dict[str, None] = {}
        self._addresses: dict[Symbol, None] = {}
        for instruction in function.body:
            for operand in instruction.operands:
                self._note(operand)
        self.slots = Slots.of(function, self._more())

    # ------------------------------------------------------------------------------------------ slots

    def _note(self, operand: object) -> None:
        """Note what needs a register of its own: special registers, and addresses that only the launch knows."""
        if isinstance(operand, Special):
            self._specials[operand.name] = None
        elif isinstance(operand, Symbol):
            self._addresses[operand] = None
        elif isinstance(operand, Memory):
            for each in (operand.base, *operand.coordinates):
                self._note(each)
        elif isinstance(operand, Vector):
            for each in operand.items:
                self._note(each)

    def _more(self) -> Iterable[tuple[str, int]]:
        yield WINDOW, 64
        yield ORIGIN, 64
        yield STACKED, 64
        yield CARRY, 1
        for name in self._specials:
            if name in SPECIAL:
                yield f"%{name}", SPECIAL[name].bits
        for symbol in self._addresses:
            if self._varies(symbol.name):
                yield f"&{symbol}", 64

    def _varies(self, name: str) -> bool:
        """Whether the address of a variable is known only when the function runs."""
        if name in self.local:
            return not self.entry
        if name in self.layout.shared:
            return self.layout.clustered
        return any(each.name == name for each in self.layout.variables)

    @cached_property
    def specials(self) -> dict[str, Slot]:
        """Where the special registers lie that the function reads, once it has been lowered."""
        return {name: self.slots.by_name[f"%{name}"] for name in self._specials if name in SPECIAL}

    @cached_property
    def addresses(self) -> dict[Symbol, Slot]:
        """Where the addresses lie that only the launch knows, once the function has been lowered."""
        return {each: self.slots.by_name[f"&{each}"] for each in self._addresses if self._varies(each.name)}

    def source(self, operand: Operand, bits: int, kind: str = "b") -> Source:
        """Where an operand's value is, of `bits` if it is a number; a `kind` of f32 or f64 reads decimals as such."""
        if isinstance(operand, Register):
            return self.slots.by_name[operand.name]
        if isinstance(operand, Negated):
            return self.slots.by_name[operand.register.name]
        if isinstance(operand, Immediate):
            return Constant(_bits(operand, bits, kind), bits)
        if isinstance(operand, Special):
            if operand.name == "WARP_SZ":
                return Constant(32, bits)
            slot = self.slots.by_name.get(f"%{operand.name}")
            if slot is None:
                raise Unsupported(f"the special register {operand} is none that the machine has")
            return slot
        if isinstance(operand, Symbol):
            return self.symbol(operand, bits)
        raise Unsupported(f"{operand} is no operand that this instruction takes")

    def symbol(self, symbol: Symbol, bits: int = 64) -> Source:
        """The address of a variable, in its own state space, or of a function."""
        name, layout = symbol.name, self.layout
        if name in self.local and self.entry:
            return Constant(self.local[name] + symbol.offset, bits)
        if f"&{symbol}" in self.slots.by_name:
            return self.slots.by_name[f"&{symbol}"]
        if name in layout.shared:
            return Constant(layout.shared[name] + symbol.offset, bits)
        if self.entry and name in layout.parameters:
            return Constant(layout.parameters[name] + symbol.offset, bits)
        if name in layout.pointers:
            return Constant(layout.pointers[name], bits)
        raise Unsupported(f"{name} is no variable or function of the module")

    def slot(self, operand: Operand) -> Slot | None:
        """Where a result goes; None for a sink."""
        if isinstance(operand, Sink):
            return None
        if isinstance(operand, Register):
            return self.slots.by_name[operand.name]
        raise Unsupported(f"{operand} cannot take a result")

    def guard(self, instruction: Instruction) -> Guard | None:
        """The predicate that guards an instruction."""
        if instruction.guard is None:
            return None
        return Guard(self.slots.by_name[instruction.guard.name], instruction.negated)

    # ------------------------------------------------------------------------------------------ steps

    def steps(self, number: int, instruction: Instruction) -> tuple[Step, ...] | None:
        """The steps of an instruction of straight code; None if it is an operation."""
        made = _LOWERED.get(instruction.opcode.partition(".")[0])
        if made is not None and not instruction.opcode.startswith(_ASYNCHRONOUS):
            return made(self, number, instruction)
        pair = bool(instruction.operands) and isinstance(instruction.operands[0], Pair)
        row = alu.find(instruction.opcode, pair=pair, operands=len(instruction.operands) - 1)
        return None if row is None else (self._computed(number, instruction, row),)

    def compute(
        self,
        number: int,
        instruction: Instruction,
        meaning: Meaning,
        sources: Sequence[Source],
        results: Sequence[Slot | None],
    ) -> Compute:
        """A step that computes."""
        return Compute(number, meaning, tuple(sources), tuple(results), self.guard(instruction))

    def _computed(self, number: int, instruction: Instruction, row: alu.Ordinary) -> Compute:
        """A step of an ordinary instruction."""
        operands, row = selected(instruction, row)
        outs, ins = _split(operands, len(row.results), len(row.operands), instruction.opcode)
        sources = [self.source(each, width(kind), kind) for each, kind in zip(ins, row.operands, strict=True)]
        results = [self.slot(each) for each in outs]
        meaning = moves.negated(row.meaning, [isinstance(each, Negated) for each in ins])
        meaning = _one_of_two(meaning, len(row.results), len(results))
        if row.carry_in:
            sources.append(self.slots.by_name[CARRY])
        if row.carry_out:
            results.append(self.slots.by_name[CARRY])
        wanted = [*row.operands, *["pred"] * row.carry_in]
        have = [(each.bits, width(kind), kind[0] == "s") for each, kind in zip(sources, wanted, strict=True)]
        made = [*row.results[: len(outs)], *["pred"] * row.carry_out]
        want = [
            (width(kind), width(kind) if slot is None else slot.bits, kind[0] == "s")
            for slot, kind in zip(results, made, strict=True)
        ]
        return self.compute(number, instruction, moves.fitted(meaning, have, want), sources, results)

    # ------------------------------------------------------------------------------------------ mov and addresses

    def mov(self, number: int, instruction: Instruction) -> tuple[Step, ...] | None:
        """mov: copies, packs or unpacks; a clock is read by the executor."""
        kind = instruction.opcode.rpartition(".")[2]
        to, of = instruction.operands
        if isinstance(of, Special) and of.name in CLOCKS:
            return None
        bits = width(kind)
        if bits == 128:
            return self._wide(number, instruction, to, of)
        if isinstance(to, Vector):
            results = [self.slot(each) for each in to.items]
            meaning = moves.unpack(len(results), bits)
            part = bits // len(results)
            fits = [(part, part if slot is None else slot.bits, False) for slot in results]
            source = self.source(of, bits, kind)
            meaning = moves.fitted(meaning, [(source.bits, bits, False)], fits)
            return (self.compute(number, instruction, meaning, [source], results),)
        if isinstance(of, Vector):
            part = bits // len(of.items)
            sources = [self.source(each, part) for each in of.items]
            fits = [(each.bits, part, False) for each in sources]
            meaning = moves.fitted(moves.pack(part), fits, [(bits, bits, False)])
            return (self.compute(number, instruction, meaning, sources, [self.slot(to)]),)
        return (self._copy(number, instruction, to, self.source(of, bits, kind), isinstance(of, Negated)),)

    def _copy(
        self, number: int, instruction: Instruction, to: Operand, source: Source, turned: bool = False
    ) -> Compute:
        slot = self.slot(to)
        bits = source.bits if slot is None else slot.bits
        meaning = moves.fitted(moves.negated(moves.same, [turned]), [(source.bits, bits, False)], [(bits, bits, False)])
        return self.compute(number, instruction, meaning, [source], [slot])

    def _wide(self, number: int, instruction: Instruction, to: Operand, of: Operand) -> tuple[Step, ...]:
        """mov.b128: two halves of 64 bits."""
        outs, ins = self.halves(to), self.halves(of)
        if len(outs) == len(ins) == 2:
            return tuple(
                self.compute(number, instruction, moves.same, [source], [slot])
                for source, slot in zip(ins, outs, strict=True)
            )
        raise Unsupported("mov.b128 takes a pair of 64-bit registers")

    def halves(self, operand: Operand) -> list[Slot]:
        """The registers of 64 bits of an operand of 128: both of a register, or those of a vector."""
        if isinstance(operand, Register) and f"{operand.name}.lo" in self.slots.by_name:
            return [self.slots.by_name[f"{operand.name}.{half}"] for half in ("lo", "hi")]
        if isinstance(operand, Vector):
            return [slot for each in operand.items for slot in self.halves(each)]
        own = self.slot(operand)
        return [] if own is None else [own]

    def cvta(self, number: int, instruction: Instruction) -> tuple[Step, ...]:
        """cvta, cvta.to: from and to generic addresses."""
        words = instruction.opcode.split(".")
        to = words[1] == "to"
        space = words[2 if to else 1]
        result, address = instruction.operands
        if words[-1] != "u64":
            raise Unsupported("addresses have 64 bits")
        source = self.source(address, 64)
        if space in ("global", "const"):
            return (self._copy(number, instruction, result, source),)
        window: Source = self.slots.by_name[WINDOW]
        if not space.startswith("shared"):
            local = space == "local" or not self.entry
            window = self.slots.by_name[STACKED] if local else Constant(PARAM, 64)
        meaning = moves.minus if to else moves.plus
        return (self.compute(number, instruction, meaning, [source, window], [self.slot(result)]),)

    def isspacep(self, number: int, instruction: Instruction) -> tuple[Step, ...]:
        """isspacep: whether a generic address lies in a space."""
        result, address = instruction.operands
        meaning = moves.INSIDE[instruction.opcode.partition(".")[2]]
        sources = [self.source(address, 64), self.slots.by_name[WINDOW], self.slots.by_name[ORIGIN]]
        return (self.compute(number, instruction, meaning, sources, [self.slot(result)]),)

    # ------------------------------------------------------------------------------------------ ld and st

    def access(self, number: int, instruction: Instruction) -> tuple[Step, ...]:
        """ld and st."""
        head, *words = instruction.opcode.split(".")
        space: Space = next((_SPACES[word] for word in words if word in _SPACES), "generic")
        memory, data = instruction.operands[:2] if head == "st" else instruction.operands[1::-1]
        if not isinstance(memory, Memory):
            raise Unsupported(f"{instruction.opcode} takes an address in brackets")
        kind, writes = words[-1], head == "st"
        bits, count = width(kind), next((_COUNTS[word] for word in words if word in _COUNTS), 1)
        registers = self._data(data, bits, kind, writes)
        if bits == 128:
            bits, count = 64, 2 * count
        where, space = self._where(memory, space)
        if space == "global" and self.layout.heap:
            space = "generic"  # native code leaves those in the heap to the machine
        offset = memory.offset
        if isinstance(where, Constant):
            where, offset = Constant(where.value + offset, 64), 0
        if space == "param" and isinstance(where, Constant) and not writes:
            return self._parameters(number, instruction, where.value, bits, kind[0] == "s", registers)
        machine = space not in ("local", "param", "const") and (not self.memory or bool(_STRONG & set(words)))
        signed, guard = kind[0] == "s", self.guard(instruction)
        varies = space == "shared" and self.layout.clustered and isinstance(where, Slot)
        origin = self.slots.by_name[ORIGIN] if varies else None
        to = tuple(registers)
        return (Access(number, space, writes, bits, count, signed, where, offset, to, guard, machine, origin),)

    def _data(self, data: Operand, bits: int, kind: str, writes: bool) -> list[Source | None]:
        """The registers that a load or store moves."""
        items = data.items if isinstance(data, Vector) else (data,)
        if bits == 128:
            return [slot for each in items for slot in self.halves(each)]
        return [self.source(each, bits, kind) if writes else self.slot(each) for each in items]

    def _where(self, memory: Memory, space: Space) -> tuple[Source, Space]:
        """The address of an access, and its memory: what a device function gets and returns lies in local memory."""
        base = memory.base
        source = self.source(base, 64)
        if space == "param" and (not self.entry or (isinstance(base, Symbol) and base.name in self.local)):
            return source, "local"
        return source, space

    def _parameters(
        self,
        number: int,
        instruction: Instruction,
        at: int,
        bits: int,
        signed: bool,
        registers: Sequence[Source | None],
    ) -> tuple[Step, ...]:
        """ld.param at a fixed place: the same bytes in all lanes."""
        size = bits // 8
        if at < 0 or at + size * len(registers) > self.layout.parameter_bytes:
            raise Unsupported(f"bytes {at} to {at + size * len(registers)} are outside the kernel's parameters")
        made = []
        for index, slot in enumerate(registers):
            if isinstance(slot, Slot):
                meaning = moves.fitted(moves.same, [(bits, bits, False)], [(bits, slot.bits, signed)])
                made.append(self.compute(number, instruction, meaning, [Uniform(at + index * size, bits)], [slot]))
        return tuple(made)


#: Stores that the machine carries out: they complete on an mbarrier, or have a size.
_ASYNCHRONOUS = ("st.async", "st.bulk")
_LOWERED: dict[str, Callable[[Lowering, int, Instruction], tuple[Step, ...] | None]] = {
    "mov": Lowering.mov,
    "cvta": Lowering.cvta,
    "isspacep": Lowering.isspacep,
    "ld": Lowering.access,
    "ldu": Lowering.access,
    "st": Lowering.access,
}


def _split(operands: Sequence[Operand], results: int, sources: int, opcode: str) -> tuple[list[Operand], list[Operand]]:
    """The results and sources among an instruction's operands; of two results d|p, the second may be absent."""
    first = operands[0] if operands else None
    outs: list[Operand] = [first.first, first.second] if isinstance(first, Pair) else [] if first is None else [first]
    ins = list(operands[1:])
    if len(outs) > results or len(ins) != sources:
        raise Unsupported(f"{opcode} takes {sources} operands after its result; got {len(ins)}")
    return outs, ins


def _one_of_two(meaning: Meaning, made: int, wanted: int) -> Meaning:
    """The first of two results, where the second is not written."""
    if made == wanted:
        return meaning
    return lambda ops, *values: meaning(ops, *values)[:wanted]


def _bits(immediate: Immediate, bits: int, kind: str) -> int:
    """The bits of a number as an operand of a type."""
    value = immediate.value
    if immediate.kind == "f64" and bits == 32:
        (number,) = struct.unpack("<d", struct.pack("<Q", value))
        (value,) = struct.unpack("<I", struct.pack("<f", number))
    elif immediate.kind == "int" and kind in ("f32", "f64"):
        real, whole = ("<f", "<I") if bits == 32 else ("<d", "<Q")
        (value,) = struct.unpack(whole, struct.pack(real, value))
    return value & ((1 << bits) - 1)
