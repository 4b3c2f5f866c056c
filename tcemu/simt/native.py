"""A function as native code: one function for all its segments, which is entered again after each operation.

Registers lie in the frame's file, and a block loads those that it reads and stores those that it writes, in the lanes
of the group. Branches stay inside as long as the group does not part: see `reference.run`, which it equals.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from tcemu.native import access
from tcemu.native.context import DATA, SCRATCH, WORDS
from tcemu.native.warp import LANES, Value, WarpCode
from tcemu.simt.errors import FAULT, JOINED, LEFT, OPERATION, SPENT, SPLIT
from tcemu.simt.register_file import Constant, Slot, Source, Uniform
from tcemu.simt.steps import Access, Block, Branch, Compute, Guard, Leave

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.run import Run

_NAME = "tcemu_segment"
#: A function whose text is longer is hardly optimised: that would take LLVM minutes, and such code has few loops.
_LONG = 1_000_000
#: (context, block, lanes, limit) -> what `reference.run` returns.
_SIGNATURE = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
_MASKS = f"<{LANES} x i1>"


def runner(blocks: Sequence[Block]) -> Callable[[Run, Frame, int, int, int], int]:
    """The native function of a function's blocks, called as `reference.run` is."""
    from tcemu.native import compiled

    emitted = Emitted(blocks)
    symbols = {kind.name: helper(kind) for kind in emitted.kinds}
    text = emitted.text
    address = compiled.function(text, lambda: text, _NAME, symbols, level=int(len(text) <= _LONG))
    function = _SIGNATURE(address)

    def run(run: Run, frame: Frame, block: int, mask: int, limit: int) -> int:
        ended: int = function(run.context.address, block, mask, limit)
        return ended

    return run


@cache
def helper(kind: access.Kind) -> int:
    """The address of the function for a kind of access."""
    from tcemu.native import compiled

    text = access.text(kind)
    return compiled.function(text, lambda: text, kind.name, {}, level=2, passes=2)


class Emitted(WarpCode):
    """The text of a function, block by block."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__()
        self.blocks = blocks
        self.kinds: set[access.Kind] = set()
        #: the registers that the block has read or written, and those that it has written
        self._held: dict[Slot, Value] = {}
        self._dirty: dict[Slot, None] = {}
        for number in range(len(blocks)):
            self._block(number)
        self.text = self._module()

    def _module(self) -> str:
        entries = " ".join(f"i32 {number}, label %e{number}" for number in range(len(self.blocks)))
        start = [
            "  %maskv = bitcast i32 %mask to <32 x i1>",
            "  %others = xor i32 %mask, -1",
            *(f"  %{name}.place = getelementptr i64, ptr %ctx, i64 {WORDS[name]}" for name in _USED),
            "  %registers = load ptr, ptr %registers.place",
            "  %parameters = load ptr, ptr %parameters.place",
            "  %counts = load ptr, ptr %counts.place",
            f"  %addresses = getelementptr i64, ptr %ctx, i64 {SCRATCH}",
            f"  %data = getelementptr i64, ptr %ctx, i64 {DATA}",
            f"  switch i32 %entry, label %nowhere [{entries}]",
            "nowhere:",
            "  ret i64 -1",
        ]
        head = f"define i64 @{_NAME}(ptr %ctx, i32 %entry, i32 %mask, i32 %limit) {{\nstart:"
        declared = [*self.declarations.values(), *(kind.declaration for kind in sorted(self.kinds))]
        return "\n".join([*declared, head, *start, *self.lines, "}", ""])

    def label(self, name: str) -> None:
        """Begin a block of LLVM's."""
        self.lines.append(f"{name}:")

    def leave(self, reason: int, place: int) -> None:
        """End the segment."""
        self.emit(f"ret i64 {reason | place << 4}")

    # ------------------------------------------------------------------------------------------ blocks

    def _block(self, number: int) -> None:
        block = self.blocks[number]
        self.label(f"b{number}")  # from another block: another group may be here
        joined = self.let(f"icmp uge i32 {number}, %limit")
        self.emit(f"br i1 {joined}, label %j{number}, label %e{number}")
        self.label(f"j{number}")
        self.leave(JOINED, number)
        self.label(f"e{number}")
        if block.operation is not None:
            self.leave(OPERATION, number)
            return
        place = self.let(f"getelementptr i64, ptr %counts, i64 {number}")
        count = self.let(f"load i64, ptr {place}")
        self.emit(f"store i64 {self.let(f'add i64 {count}, 1')}, ptr {place}")
        for step in block.steps:
            if isinstance(step, Compute):
                self._compute(step)
            else:
                self._access(step)
        taken = self._taken(block.ending)
        self._flush()
        if isinstance(block.ending, Branch):
            self._branch(number, block.ending, taken)
        elif isinstance(block.ending, Leave):
            self._leave(number, block.ending, taken)
        else:
            self.emit(f"br label %b{number + 1}")

    def _taken(self, ending: Branch | Leave | None) -> str:
        """The lanes, as bits, that an ending is for."""
        if ending is None or ending.guard is None:
            return "%mask"
        return self._bits(self._guard(ending.guard))

    def _bits(self, lanes: Value) -> str:
        """Lanes of the group, as bits."""
        return self.let(f"and i32 {self.let(f'bitcast {_MASKS} {lanes.name} to i32')}, %mask")

    def _branch(self, number: int, ending: Branch, taken: str) -> None:
        back = ending.target <= number
        to = f"%y{number}" if back else f"%b{ending.target}"
        if ending.guard is None:
            self.emit(f"br label {to}")
        else:
            self.emit(f"br i1 {self.let(f'icmp eq i32 {taken}, %mask')}, label {to}, label %n{number}")
            self.label(f"n{number}")
            self.emit(f"br i1 {self.let(f'icmp eq i32 {taken}, 0')}, label %b{number + 1}, label %d{number}")
            self.label(f"d{number}")
            self._tell("taken", taken)
            self._tell("target", str(ending.target))
            self.leave(SPLIT, number + 1)
        if back:
            self.label(f"y{number}")
            fuel = self.let("load i64, ptr %fuel.place")
            less = self.let(f"sub i64 {fuel}, 1")
            self.emit(f"store i64 {less}, ptr %fuel.place")
            self.emit(f"br i1 {self.let(f'icmp eq i64 {less}, 0')}, label %z{number}, label %b{ending.target}")
            self.label(f"z{number}")
            self.leave(SPENT, ending.target)

    def _leave(self, number: int, ending: Leave, taken: str) -> None:
        if ending.guard is not None:
            self.emit(f"br i1 {self.let(f'icmp eq i32 {taken}, 0')}, label %b{number + 1}, label %d{number}")
            self.label(f"d{number}")
        self._tell("taken", taken)
        self._tell("exits", str(int(ending.exits)))
        self.leave(LEFT, number + 1)

    def _tell(self, word: str, value: str) -> None:
        """Leave a number of 32 bits in a word of the context."""
        wide = self.let(f"zext i32 {value} to i64")
        self.emit(f"store i64 {wide}, ptr %{word}.place")

    # ------------------------------------------------------------------------------------------ registers

    def _slot(self, slot: Slot) -> str:
        return self.let(f"getelementptr i8, ptr %registers, i64 {slot.at}")

    def _read(self, slot: Slot) -> Value:
        held = self._held.get(slot)
        if held is None:
            where = self._slot(slot)
            if slot.bits == 1:
                word = self.let(f"load i32, ptr {where}")
                held = self.value(self.let(f"bitcast i32 {word} to {_MASKS}"), 1)
            else:
                held = self.value(self.let(f"load <32 x i{slot.bits}>, ptr {where}, align 32"), slot.bits)
            self._held[slot] = held
        return held

    def _write(self, slot: Slot, value: Value, guard: Value | None) -> None:
        if guard is not None:
            value = self.select(guard, value, self._read(slot))
        self._held[slot] = value
        self._dirty[slot] = None

    def _flush(self) -> None:
        """Store the registers that the block has written, in the lanes of the group."""
        for slot in self._dirty:
            value, where = self._held[slot], self._slot(slot)
            if slot.bits == 1:
                new = self._bits(value)
                old = self.let(f"and i32 {self.let(f'load i32, ptr {where}')}, %others")
                self.emit(f"store i32 {self.let(f'or i32 {new}, {old}')}, ptr {where}")
            else:
                kind = f"<32 x i{slot.bits}>"
                old = self.let(f"load {kind}, ptr {where}, align 32")
                both = self.let(f"select {_MASKS} %maskv, {kind} {value.name}, {kind} {old}")
                self.emit(f"store {kind} {both}, ptr {where}, align 32")
        self._held, self._dirty = {}, {}

    def _source(self, source: Source) -> Value:
        if isinstance(source, Slot):
            return self._read(source)
        if isinstance(source, Constant):
            return self.constant(source.value, source.bits)
        return self._uniform(source)

    def _uniform(self, source: Uniform) -> Value:
        kind, bits = f"<32 x i{source.bits}>", source.bits
        where = self.let(f"getelementptr i8, ptr %parameters, i64 {source.at}")
        one = self.let(f"insertelement {kind} poison, i{bits} {self.let(f'load i{bits}, ptr {where}, align 1')}, i32 0")
        return self.value(self.let(f"shufflevector {kind} {one}, {kind} poison, <32 x i32> zeroinitializer"), bits)

    def _guard(self, guard: Guard) -> Value:
        predicate = self._read(guard.slot)
        return ~predicate if guard.negated else predicate

    # ------------------------------------------------------------------------------------------ steps

    def _compute(self, step: Compute) -> None:
        guard = None if step.guard is None else self._guard(step.guard)
        result = step.meaning(self, *map(self._source, step.sources))
        for slot, value in zip(step.results, result if isinstance(result, tuple) else (result,), strict=True):
            if slot is not None:
                self._write(slot, value, guard)

    def _access(self, step: Access) -> None:
        kind = access.Kind(step.space, step.writes, step.bits, step.count)
        self.kinds.add(kind)
        guard = None if step.guard is None else self._guard(step.guard)
        mask = "%mask" if guard is None else self._bits(guard)
        addresses = self._source(step.address)
        if step.offset:
            addresses = addresses + (step.offset & (1 << addresses.bits) - 1)
        addresses = self.unsigned(addresses, 64)
        if step.origin is not None:
            addresses = addresses - self._source(step.origin)
        self.emit(f"store <32 x i64> {addresses.name}, ptr %addresses, align 64")
        element = f"<32 x i{step.bits}>"
        parts = [
            self.let(f"getelementptr i8, ptr %data, i64 {number * LANES * step.bits // 8}")
            for number in range(step.count)
        ]
        if step.writes:
            for source, where in zip(step.registers, parts, strict=True):
                if source is not None:
                    value = self.unsigned(self._source(source), step.bits)
                    self.emit(f"store {element} {value.name}, ptr {where}, align 32")
        failed = self.let(f"call i32 @{kind.name}(ptr %ctx, i32 {mask}, i32 {step.number})")
        name = failed.removeprefix("%")
        self.emit(f"br i1 {self.let(f'icmp eq i32 {failed}, 0')}, label %g.{name}, label %f.{name}")
        self.label(f"f.{name}")
        self.leave(FAULT, step.number)
        self.label(f"g.{name}")
        if step.writes:
            return
        for slot, where in zip(step.registers, parts, strict=True):
            if isinstance(slot, Slot):
                value = self.value(self.let(f"load {element}, ptr {where}, align 32"), step.bits)
                wide = self.signed if step.signed else self.unsigned
                self._write(slot, wide(value, slot.bits), guard)


#: The words of the context that a function uses itself.
_USED = ("registers", "parameters", "counts", "fuel", "taken", "target", "exits")
