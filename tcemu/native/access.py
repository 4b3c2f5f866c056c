"""Loads and stores of a warp as native code: a function for each kind, which checks the addresses of all lanes first.

A kernel puts the addresses into its context, and what a store writes behind them; a load leaves there what it has
read. The function returns 0, or 1 if some lane lies outside the memory or is not aligned: then nothing has happened,
and the lanes are in the context.
With an observer it adds a record to the log: see tcemu.machine.events.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tcemu.native.context import DATA, SCRATCH, WORDS
from tcemu.native.warp import LANES, Value, WarpCode

#: As in tcemu.simt.steps.
Space = Literal["generic", "shared", "global", "const", "local", "param", "unset"]
#: What the local windows of two threads are apart, as in tcemu.machine.addresses.
STACK = 1 << 19
#: Spaces whose accesses observers hear of.
_LOGGED = ("generic", "shared", "global")
#: Bytes of a record before what a store writes.
_HEAD = 264
#: Lanes that are looked at together.
_HALF = LANES // 2
_I64 = f"<{LANES} x i64>"
_IOTA = ", ".join(f"i64 {lane}" for lane in range(LANES))


def writers(size: int) -> list[int]:
    """The lanes of a warp in the order in which a store of `size` bytes for each writes: of one place, the last stays.

    The manual leaves open which does. An H200, in shared and in global memory, keeps the lowest lane's value. It stores
    8 bytes for each lane half by half and 16 quarter by quarter: the lowest lane of the last part stays. That was
    measured with tools/same_address.cu; of parts in which not all lanes are active, it is inferred.
    """
    part = min(LANES, 4 * LANES // size)
    return [first + lane for first in range(0, LANES, part) for lane in reversed(range(part))]


class Kind(NamedTuple):
    """A kind of access: `elements` of `bits` each for each lane."""

    space: Space
    writes: bool
    bits: int
    elements: int

    @property
    def size(self) -> int:
        """Bytes of a lane."""
        return self.bits * self.elements // 8

    @property
    def name(self) -> str:
        """The function's name."""
        return f"tcemu_{'st' if self.writes else 'ld'}_{self.space}_{self.bits}x{self.elements}"

    @property
    def declaration(self) -> str:
        """The function's declaration: of the context, the lanes as bits, and the instruction's number."""
        return f"declare i32 @{self.name}(ptr, i32, i32)"


def text(kind: Kind) -> str:
    """The module of one access function."""
    code = _Access(kind)
    code.body()
    return "\n".join([*code.declarations.values(), f"define i32 @{kind.name}(ptr %ctx, i32 %mask, i32 %number) {{",
                      "entry:", *code.lines, "}", ""])  # fmt: skip


class _Access(WarpCode):
    """The body of an access function."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind, self._moves = kind, 0

    def place(self, name: str) -> str:
        """Where a word of the context lies."""
        return self.let(f"getelementptr i64, ptr %ctx, i64 {WORDS[name]}")

    def word(self, name: str) -> str:
        """A word of the context."""
        return self.let(f"load i64, ptr {self.place(name)}")

    def same(self, word: str) -> Value:
        """One number of 64 bits in all lanes."""
        one = self.let(f"insertelement {_I64} poison, i64 {word}, i32 0")
        zeros = f"<{LANES} x i32> zeroinitializer"
        return self.value(self.let(f"shufflevector {_I64} {one}, {_I64} poison, {zeros}"), 64)

    def inside(self, addresses: Value, first: str, end: str) -> Value:
        """The lanes whose bytes all lie from `first` to `end`."""
        last = self.let(f"sub i64 {end}, {self.kind.size}")
        return self.less_equal(self.same(first), addresses) & self.less_equal(addresses, self.same(last))

    def pointers(self, base: str, offsets: Value) -> str:
        """The places in the host's memory."""
        start = self.let(f"inttoptr i64 {base} to ptr")
        return self.let(f"getelementptr i8, ptr {start}, {_I64} {offsets.name}")

    def body(self) -> None:
        """Check, report, and move."""
        kind = self.kind
        at = self.let(f"getelementptr i64, ptr %ctx, i64 {SCRATCH}")
        addresses = self.value(self.let(f"load {_I64}, ptr {at}, align 64"), 64)
        mask = self.value(self.let(f"bitcast i32 %mask to <{LANES} x i1>"), 1)
        if kind.space == "unset":
            self.marks(addresses, mask)
            return
        wanted = mask
        if kind.size > 1:
            wanted = mask & ((addresses & (kind.size - 1)) == 0)
        inside, pointers = self.located(addresses, mask)
        right = self.let(f"bitcast <{LANES} x i1> {(inside & wanted).name} to i32")
        good = self.let(f"icmp eq i32 {right}, %mask")
        self.emit(f"br i1 {good}, label %good, label %bad")
        self.lines.append("bad:")
        self.emit(f"store i64 {self.let('zext i32 %mask to i64')}, ptr {self.place('taken')}")
        self.emit("ret i32 1")
        self.lines.append("good:")
        data = self.let(f"getelementptr i64, ptr %ctx, i64 {DATA}")
        if kind.space in _LOGGED:
            self.log(addresses, pointers, mask, data)
        self.move(pointers, mask, data, writes=kind.writes)
        if kind.writes:
            self.emit(f"store i64 1, ptr {self.place('stored')}")
        self.emit("ret i32 0")

    # ------------------------------------------------------------------------------------------ spaces

    def located(self, addresses: Value, mask: Value) -> tuple[Value, str]:
        """The lanes whose bytes lie in the memory, and pointers to them."""
        if self.kind.space in ("global", "const"):
            return self.arrays(addresses, mask)
        if self.kind.space == "generic":
            return self.generic(addresses, mask)
        return {"shared": self.shared, "param": self.param, "local": self.local}[self.kind.space](addresses)

    def shared(self, addresses: Value) -> tuple[Value, str]:
        """The block's own shared memory."""
        return self.inside(addresses, "0", self.word("shared_bytes")), self.pointers(self.word("shared"), addresses)

    def param(self, addresses: Value) -> tuple[Value, str]:
        """The kernel's parameters."""
        inside = self.inside(addresses, "0", self.word("parameter_bytes"))
        return inside, self.pointers(self.word("parameters"), addresses)

    def local(self, addresses: Value) -> tuple[Value, str]:
        """The lane's own local memory."""
        size = self.word("local_bytes")
        inside = self.inside(addresses, "0", size)
        lanes = self.same(size) * self.value(f"<{_IOTA}>", 64)
        return inside, self.pointers(self.word("local"), lanes + addresses)

    def marks(self, addresses: Value, mask: Value) -> None:
        """What says which bytes of local memory lack a value: it lies behind all lanes' bytes. Others have a value."""
        size = self.word("local_bytes")
        inside = self.inside(addresses, "0", size) & mask
        lanes = self.same(size) * (self.value(f"<{_IOTA}>", 64) + LANES)
        data = self.let(f"getelementptr i64, ptr %ctx, i64 {DATA}")
        self.each(self.pointers(self.word("local"), lanes + addresses), inside.name, data, writes=self.kind.writes)
        self.emit("ret i32 0")

    def arrays(self, addresses: Value, mask: Value) -> tuple[Value, str]:
        """The arrays of the launch: a loop over them until all lanes are found."""
        pointers = self.pointers(self.word("memory"), addresses)
        ranges = self.let(f"inttoptr i64 {self.word('ranges')} to ptr")
        count = self.word("range_count")
        lanes = f"<{LANES} x i1>"
        self.emit("br label %loop")
        self.lines += [
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %look]",
            f"  %before = phi {lanes} [zeroinitializer, %entry], [%found, %look]",
            f"  %more = icmp ult i64 %i, {count}",
            "  br i1 %more, label %look, label %done",
            "look:",
        ]
        ends = [self.let(f"getelementptr [2 x i64], ptr {ranges}, i64 %i, i64 {each}") for each in range(2)]
        first, end = (self.let(f"load i64, ptr {each}") for each in ends)
        here = self.inside(addresses, first, end)
        self.lines.append(f"  %found = or {lanes} %before, {here.name}")
        self.lines.append("  %next = add i64 %i, 1")
        missing = self.let(f"bitcast {lanes} {(mask & ~self.value('%found', 1)).name} to i32")
        self.emit(f"br i1 {self.let(f'icmp eq i32 {missing}, 0')}, label %done, label %loop")
        self.lines += ["done:", f"  %all = phi {lanes} [%before, %loop], [%found, %look]"]
        return self.value("%all", 1), pointers

    def generic(self, addresses: Value, mask: Value) -> tuple[Value, str]:
        """Global memory, the block's own shared memory or the lane's own local memory, by the window."""
        known, pointers = self.arrays(addresses, mask)
        window = self.word("window")
        own = addresses - self.same(window)
        lanes = self.value(f"<{_IOTA}>", 64) * STACK
        shared, local = self.shared(own), self.local(addresses - self.same(self.word("local_window")) - lanes)
        for inside, place in (shared, local):
            several = f"<{LANES} x ptr>"
            text = f"select <{LANES} x i1> {inside.name}, {several} {place}, {several} {pointers}"
            pointers, known = self.let(text), known | inside
        return known, pointers

    # ------------------------------------------------------------------------------------------ what happens

    def log(self, addresses: Value, pointers: str, mask: Value, data: str) -> None:
        """Add a record to the log, if somebody observes: of a store, what it writes and what was there before."""
        kind = self.kind
        on = self.let(f"icmp ne i64 {self.word('observed')}, 0")
        self.emit(f"br i1 {on}, label %log, label %move")
        self.lines.append("log:")
        cursor = self.word("log")
        place = self.let(f"inttoptr i64 {cursor} to ptr")
        self.emit(f"store i32 %number, ptr {place}")
        self.emit(f"store i32 %mask, ptr {self.let(f'getelementptr i8, ptr {place}, i64 4')}")
        where = self.let(f"getelementptr i8, ptr {place}, i64 8")
        self.emit(f"store {_I64} {addresses.name}, ptr {where}, align 8")
        size, moved = _HEAD, LANES * kind.size
        if kind.writes:
            self.declarations["memcpy"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
            to, before = (self.let(f"getelementptr i8, ptr {place}, i64 {_HEAD + each}") for each in (0, moved))
            self.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {data}, i64 {moved}, i1 false)")
            self.move(pointers, mask, before, writes=False)
            size += 2 * moved
        self.emit(f"store i64 {self.let(f'add i64 {cursor}, {size}')}, ptr {self.place('log')}")
        self.emit("br label %move")
        self.lines.append("move:")

    def move(self, pointers: str, mask: Value, data: str, *, writes: bool) -> None:
        """Move each element of the vector between the memory and what lies at `data`.

        Most processors gather and scatter slowly. Where all lanes take part, each half of them is looked at first: its
        bytes may lie side by side, or all its lanes may read the same ones.
        """
        self._moves += 1
        name = f"{'st' if writes else 'ld'}{self._moves}"
        first, then = halves = (1, 0) if writes and self.kind.size <= 4 else (0, 1)  # as `writers` says
        whole = self.let("icmp eq i32 %mask, -1")
        self.emit(f"br i1 {whole}, label %{name}.{first}, label %{name}.some")
        self.lines.append(f"{name}.some:")
        self.each(pointers, mask.name, data, writes=writes)
        self.emit(f"br label %{name}.end")
        for half in halves:
            self.lines.append(f"{name}.{half}:")
            after = f"{name}.{then}" if half == first else f"{name}.end"
            self.half(name, half, pointers, self.let(f"getelementptr i8, ptr {data}, i64 {self.bytes(half)}"), after)
        self.lines.append(f"{name}.end:")

    def bytes(self, half: int) -> int:
        """Bytes of the lanes before a half, of one element of the vector."""
        return half * _HALF * self.kind.bits // 8

    def half(self, name: str, half: int, pointers: str, data: str, after: str) -> None:
        """Move what one half of the lanes accesses."""
        writes, lanes = name.startswith("st"), ", ".join(f"i32 {half * _HALF + lane}" for lane in range(_HALF))
        several, whole = f"<{_HALF} x ptr>", f"<{LANES} x ptr>"
        here = self.let(f"shufflevector {whole} {pointers}, {whole} poison, <{_HALF} x i32> <{lanes}>")
        first = self.let(f"extractelement {several} {here}, i32 0")
        numbers = f"<{_HALF} x i64>"
        places = self.let(f"ptrtoint {several} {here} to {numbers}")
        one = self.let(f"insertelement {numbers} poison, i64 {self.let(f'ptrtoint ptr {first} to i64')}, i32 0")
        start = self.let(f"shufflevector {numbers} {one}, {numbers} poison, <{_HALF} x i32> zeroinitializer")
        apart = self.let(f"sub {numbers} {places}, {start}")
        row = ", ".join(f"i64 {lane * self.kind.size}" for lane in range(_HALF))
        label = f"{name}.{half}"
        self._choose(f"icmp eq {numbers} {apart}, <{row}>", f"{label}.row", f"{label}.other")
        self.lines.append(f"{label}.row:")
        self.row(first, data, writes=writes)
        self.emit(f"br label %{after}")
        self.lines.append(f"{label}.other:")
        if not writes:
            self._choose(f"icmp eq {numbers} {apart}, zeroinitializer", f"{label}.same", f"{label}.each")
            self.lines.append(f"{label}.same:")
            self.same_for_all(first, data)
            self.emit(f"br label %{after}")
            self.lines.append(f"{label}.each:")
        self.each(here, "splat (i1 true)", data, writes=writes, lanes=_HALF)
        self.emit(f"br label %{after}")

    def _choose(self, condition: str, yes: str, no: str) -> None:
        """Branch on whether a condition holds in every lane of a half."""
        bits = self.let(f"bitcast <{_HALF} x i1> {self.let(condition)} to i{_HALF}")
        self.emit(f"br i1 {self.let(f'icmp eq i{_HALF} {bits}, -1')}, label %{yes}, label %{no}")

    def row(self, first: str, data: str, *, writes: bool) -> None:
        """A half whose bytes lie side by side: the elements of each lane one after the other."""
        bits, count = self.kind.bits, self.kind.elements
        size, part, whole = bits // 8, f"<{_HALF} x i{bits}>", f"<{_HALF * count} x i{bits}>"
        columns = [self.let(f"getelementptr i8, ptr {data}, i64 {LANES * size * each}") for each in range(count)]
        if not writes:
            loaded = self.let(f"load {whole}, ptr {first}, align {size}")
            for number, to in enumerate(columns):
                order = ", ".join(f"i32 {lane * count + number}" for lane in range(_HALF))
                column = self.let(f"shufflevector {whole} {loaded}, {whole} poison, <{_HALF} x i32> <{order}>")
                self.emit(f"store {part} {column}, ptr {to}, align {size}")
            return
        values = [self.let(f"load {part}, ptr {each}, align {size}") for each in columns]
        joined, lanes = values, _HALF
        while len(joined) > 1:  # pairs of columns, one behind the other
            order = ", ".join(f"i32 {lane}" for lane in range(2 * lanes))
            kind, mask = f"<{lanes} x i{bits}>", f"<{2 * lanes} x i32> <{order}>"
            pairs = zip(joined[::2], joined[1::2], strict=True)
            joined = [self.let(f"shufflevector {kind} {one}, {kind} {other}, {mask}") for one, other in pairs]
            lanes *= 2
        order = ", ".join(f"i32 {number * _HALF + lane}" for lane in range(_HALF) for number in range(count))
        value = self.let(f"shufflevector {whole} {joined[0]}, {whole} poison, <{_HALF * count} x i32> <{order}>")
        self.emit(f"store {whole} {value}, ptr {first}, align {size}")

    def same_for_all(self, first: str, data: str) -> None:
        """A half whose lanes all read the same bytes."""
        bits = self.kind.bits
        size, part = bits // 8, f"<{_HALF} x i{bits}>"
        for number in range(self.kind.elements):
            place = self.let(f"getelementptr i8, ptr {first}, i64 {number * size}")
            value = self.let(f"load i{bits}, ptr {place}, align {size}")
            one = self.let(f"insertelement {part} poison, i{bits} {value}, i32 0")
            several = self.let(f"shufflevector {part} {one}, {part} poison, <{_HALF} x i32> zeroinitializer")
            to = self.let(f"getelementptr i8, ptr {data}, i64 {LANES * size * number}")
            self.emit(f"store {part} {several}, ptr {to}, align {size}")

    def each(self, pointers: str, mask: str, data: str, *, writes: bool, lanes: int = LANES) -> None:
        """Lanes whose bytes lie anywhere."""
        bits, several, masks = self.kind.bits, f"<{lanes} x ptr>", f"<{lanes} x i1>"
        kind, size, name = f"<{lanes} x i{bits}>", bits // 8, f"v{lanes}i{bits}.v{lanes}p0"
        self.declarations[f"gather{lanes}"] = (
            f"declare {kind} @llvm.masked.gather.{name}({several}, i32, {masks}, {kind})"
        )
        self.declarations[f"scatter{lanes}"] = (
            f"declare void @llvm.masked.scatter.{name}({kind}, {several}, i32, {masks})"
        )
        if writes:  # in the order of the vector, as LLVM promises
            order = [lane for lane in writers(self.kind.size) if lane < lanes]
            pointers, mask = self.ordered(several, pointers, order), self.ordered(masks, mask, order)
        for number in range(self.kind.elements):
            shifted = pointers
            if number:
                shifted = self.let(f"getelementptr i8, {several} {pointers}, i64 {number * size}")
            place = self.let(f"getelementptr i8, ptr {data}, i64 {LANES * size * number}")
            where = f"{several} {shifted}, i32 {size}, {masks} {mask}"
            if writes:
                value = self.ordered(kind, self.let(f"load {kind}, ptr {place}, align {size}"), order)
                self.emit(f"call void @llvm.masked.scatter.{name}({kind} {value}, {where})")
            else:
                value = self.let(f"call {kind} @llvm.masked.gather.{name}({where}, {kind} zeroinitializer)")
                self.emit(f"store {kind} {value}, ptr {place}, align {size}")

    def ordered(self, kind: str, value: str, order: list[int]) -> str:
        """A vector with its lanes in another order."""
        lanes = ", ".join(f"i32 {lane}" for lane in order)
        return self.let(f"shufflevector {kind} {value}, {kind} poison, <{len(order)} x i32> <{lanes}>")
