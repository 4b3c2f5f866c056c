"""The chains of a tile of binary64, by explicit vectors: blocks of four rows, with eight lanes each.

Numbers and tables say where everything is; `tcemu.kernels.chains64` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.ahead import fetch_lines
from tcemu.kernels.binary64 import INVALID
from tcemu.kernels.lanes import DOUBLE, LONG, WORD, Lanes, permutes_words
from tcemu.kernels.pairs64 import PAIR
from tcemu.kernels.raised64 import BITS, DOUBLES, LANES, LEAST, LONGS, in_units, size
from tcemu.kernels.simd import Code, Slot, vector_code

#: Rows of columns that are computed at once, LANES of them.
ROWS = 4
#: The places of the numbers that are read here: groups of columns, rows and products of a chain; where the tables begin
#: that say where each element of a is, each vector of b, and each of c, and the orders of lanes; whether vectors are
#: those of `tcemu.kernels.pairs64`.
SIZES, INDICES, PAIRED = 0, 3, 8
#: What `chains` takes for `raised`.
RAISED, SIGNS, CUT = 1, 2, 3
_INVALID, _QUIET_BIT = int(INVALID), 1 << 51


class _Chains:
    """The chains of a tile, while they are emitted."""

    def __init__(self, code: Code, operands: Sequence[Any], table: Any, numbers: Any, ahead: Any, paired: Any) -> None:
        """paired: whether vectors are those of `tcemu.kernels.pairs64`; a number says it if that is not known yet."""
        self.code, self.ahead, self.paired, (self.a, self.b, self.c, self.d) = code, ahead, paired, operands
        groups, self.rows, self.depth = (code.load(numbers, SIZES + i, LONG, unit=8) for i in range(3))
        self.blocks, self.count = self.rows.down(ROWS.bit_length() - 1), groups
        begin = (code.load(numbers, INDICES + i, LONG, unit=8) for i in range(PAIRED - INDICES))
        self.of_a, self.of_b, self.of_c, *orders = ((code.number(table) + each.up(2)).value for each in begin)
        self.orders = [code.load(order, 0, LONGS, unit=8 * LANES) for order in orders]
        self.found = Slot(code.lanes(0, LONG, LANES))

    def emit(self, first: Any, step: Any, *, vanishing: bool = False) -> Any:
        """All chains by a step; returns whether something was noted, or there is a NaN: not 0.

        vanishing: whether products only give zeros their signs.
        """
        code = self.code
        self.found.set(code.lanes(0, LONG, LANES))
        with code.loop(0, self.count) as group, code.loop(0, self.blocks) as block:
            number = group * self.blocks + block
            if self.paired is not False:  # what is in order, the processor fetches by itself
                fetch_lines(code, self.ahead, code.number(first) + number)
            self._block(group, block * ROWS, number * ROWS, step, vanishing)
        return code.number_of_any(self.found.get().compare("!=", 0))

    def _block(self, group: Lanes, first: Lanes, vector: Lanes, step: Any, vanishing: bool) -> None:
        """Rows from `first` on: they share the loads of B, and none waits for another."""
        code, unit, depth = self.code, 8 * LANES, self.depth
        at = [self._index(self.of_c, vector + row) for row in range(ROWS)]
        given = [self._ordered(code.load(self.c, place, DOUBLES, unit=unit), 0) for place in at]
        running = [Slot(_sign(c) if vanishing else c) for c in given]
        with code.loop(0, depth) as k:
            y = code.load(self.b, group * depth + self._index(self.of_b, k), DOUBLES, unit=unit)
            step(self._factors([self._index(self.of_a, (first + row) * depth + k) for row in range(ROWS)]), y, running)
        for place, so_far, c in zip(at, running, given, strict=True):
            if vanishing:
                some = (c.seen_as(LONGS).up(1)).compare("!=", 0)
                so_far.set(some.choose(c, so_far.get()))
            code.store(self._ordered(so_far.get(), 1), self.d, place, unit=unit)
            self._note(so_far.get().compare("!=", so_far.get(), unordered=True))

    def _factors(self, places: list[Lanes]) -> list[Lanes]:
        """Elements of a in all lanes, or pairs of them again and again."""
        code, found = self.code, [Slot(self.code.lanes(0.0, DOUBLE, LANES)) for _ in places]

        def load(kind: Any) -> None:
            for place, factor in zip(places, found, strict=True):
                factor.set(code.load(self.a, place, kind, unit=8).everywhere(LANES))

        self._if_paired(lambda: load(PAIR), lambda: load(DOUBLE))
        return [factor.get() for factor in found]

    def _ordered(self, found: Lanes, order: int) -> Lanes:
        """With `paired`, the lanes of a vector of the registers in the order of the chains (0), or back (1)."""
        lanes = Slot(found)
        self._if_paired(lambda: lanes.set(self.code.permuted(found, self.orders[order])), lambda: None)
        return lanes.get()

    def _if_paired(self, yes: Callable[[], object], no: Callable[[], object]) -> None:
        if isinstance(self.paired, bool):
            (yes if self.paired else no)()
        else:
            self.code.branch(self.paired, yes, no)

    def _index(self, table: Any, place: Lanes) -> Lanes:
        return self.code.wide(self.code.load(table, place, WORD, unit=4))

    def _note(self, where: Lanes) -> None:
        self.found.set(where.choose(self.code.lanes(1, LONG, LANES), self.found.get()))

    def in_units(self, factors: list[Lanes], y: Lanes, running: list[Slot], cut: Lanes) -> None:
        """A step at the scale of RAISE, rounded as it is at the usual one; notes where that does not succeed.

        cut: whether the processor rounds toward zero.
        """
        addends = [each.get() for each in running]
        found = [x.times_plus(y, addend) for x, addend in zip(factors, addends, strict=True)]
        tiny = [size(near).compare("<", LEAST) for near in found]
        for so_far, near in zip(running, found, strict=True):
            so_far.set(near)

        def round_again() -> None:
            for so_far, x, addend, near, where in zip(running, factors, addends, found, tiny, strict=True):
                self._note(where.both(size(addend).compare(">=", LEAST * 2.0**BITS)))
                so_far.set(where.choose(in_units(x, y, addend, near.seen_as(LONGS), cut), near))

        self.code.branch(self.code.any_set(reduce(Lanes.either, tiny)), round_again)


@intrinsic
def chains(typingctx, a, b, c, table, numbers, raised, ahead, first, d):  # type: ignore[no-untyped-def]
    """d[m, lane] = fma(a[m, k], b[k, lane], c[m, lane]) for ascending k, as the processor rounds; NaN as in `binary64`.

    a, b, c and d: addresses of the patterns of a tile. table, numbers: those of `run`. raised: RAISED if patterns are
    at the scale of RAISE, and finite; returns whether a chain could not be computed there: not 0. CUT: the same where
    the processor rounds toward zero. SIGNS if products are too small to change a number; of those of a and b, only the
    signs and zeros count then. Else 0. ahead: see `expect`; first: the number of the tile's first block there.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        a, b, c, table, numbers, raised, ahead, first, d = args
        code = vector_code(builder)
        lost, nan, paired = Slot(code.long(0)), Slot(code.long(0)), code.load(numbers, PAIRED, LONG, unit=8)

        def of(paired: Any) -> _Chains:
            return _Chains(code, (a, b, c, d), table, numbers, ahead, paired)

        def one_kind(paired: bool) -> None:
            nan.set(code.number(of(paired).emit(first, _each(Lanes.times_plus))))

        def usual() -> None:
            if permutes_words():
                code.branch(paired, lambda: one_kind(True), lambda: one_kind(False))
            else:
                one_kind(False)
            # A NaN stays a NaN to the end of its chain; only then does it matter which one it is.
            code.branch(nan.get(), lambda: rare.emit(first, _each(_careful)))

        def high() -> None:
            cut = raised.compare("==", CUT)
            lost.set(code.number(rare.emit(first, partial(rare.in_units, cut=cut))))

        def signs() -> None:
            rare.emit(first, _each(lambda x, y, zero: _sign(x.times_plus(y, zero))), vanishing=True)

        # One loop for both kinds of vectors takes longer to run, two take longer to compile.
        rare = of(paired if permutes_words() else False)
        raised = code.number(raised)
        code.branch(raised, lambda: code.branch(raised.compare("==", SIGNS), signs, high), usual)
        return lost.get().value

    address, count = types.uint64, types.int64
    return types.int64(*[address] * 5, count, address, count, address), codegen


def _sign(value: Lanes) -> Lanes:
    """Zeros with the signs of numbers."""
    return (value.seen_as(LONGS) & -(1 << 63)).seen_as(DOUBLES)


def _each(step: Callable[[Lanes, Lanes, Lanes], Lanes]) -> Callable[[list[Lanes], Lanes, list[Slot]], None]:
    """A step for all rows from that of one."""

    def steps(factors: list[Lanes], y: Lanes, running: list[Slot]) -> None:
        for x, so_far in zip(factors, running, strict=True):
            so_far.set(step(x, y, so_far.get()))

    return steps


def _careful(x: Lanes, y: Lanes, addend: Lanes) -> Lanes:
    """x * y + addend with the silicon's choice of NaN: that of y, of the addend, of x, or of an invalid operation."""
    result = x.times_plus(y, addend)
    chosen = result.seen_as(LONGS) & 0 | _INVALID
    for one in (x, addend, y):
        chosen = one.compare("!=", one, unordered=True).choose(one.seen_as(LONGS) | _QUIET_BIT, chosen)
    return result.compare("==", result).choose(result, chosen.seen_as(DOUBLES))
