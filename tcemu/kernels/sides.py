"""Where a block finds its factors and accumulators, and where it puts its results."""

from __future__ import annotations

from typing import Any, NamedTuple

from tcemu.kernels.lanes import BYTES, HALVES, LONG, REAL, REALS, SHORTS, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code, Slot
from tcemu.kernels.sums import NOT_A_NUMBER, NOT_STORED, QUIET


class Packed(NamedTuple):
    """All in the order of the blocks: addresses of what `nests.blocks` takes, those of one block.

    `y` has one element for each row, which all lanes take.
    """

    code: Code
    values_x: Any
    exponents_x: Any
    specials_x: Any
    values_y: Any
    exponents_y: Any
    specials_y: Any
    accumulators: Any

    def x(self, k: Lanes) -> Lanes:
        """The elements of x, a float in each lane."""
        return self.code.load(self.values_x, k, REALS, unit=64)

    def y(self, k: Lanes, row: int) -> Lanes:
        """The elements of y in a row, in the lanes in which they are multiplied."""
        return self.code.load(self.values_y, k.up(2) + row, REAL, unit=4).everywhere()

    def bytes_x(self, k: Lanes) -> Lanes:
        """The exponents of x, one byte for each row in each lane."""
        return self.code.load(self.exponents_x, k, BYTES, unit=64)

    def bytes_y(self, k: Lanes) -> Lanes:
        """The exponents of y, in the same order."""
        return self.code.load(self.exponents_y, k, WORD, unit=4).everywhere().seen_as(BYTES)

    def shorts_x(self, k: Lanes) -> Lanes:
        """Exponents of any size, twice in each lane: in the lower and in the upper half of a word."""
        return self.code.load(self.exponents_x, k, SHORTS, unit=64)

    def shorts_y(self, k: Lanes, pair: int) -> Lanes:
        """The same of y in two rows."""
        words = self.code.load(self.exponents_y, k.up(1) + pair, WORD, unit=4).everywhere()
        return words.seen_as(SHORTS)

    def special_x(self, k: Lanes) -> Lanes:
        """What `pack_special` has made of the elements of x."""
        return self.code.load(self.specials_x, k, REALS, unit=64)

    def special_y(self, k: Lanes, row: int) -> Lanes:
        """The same of y in a row."""
        return self.code.load(self.specials_y, k.up(2) + row, REAL, unit=4).everywhere()

    def given(self) -> list[Lanes]:
        """The accumulators of each row, which do not change before `put`."""
        return [self.code.load(self.accumulators, row, WORDS, unit=64) for row in range(ROWS)]

    def put(self, results: list[Lanes]) -> None:
        """Store the results of each row."""
        for row, result in enumerate(results):
            self.code.store(result, self.accumulators, row, unit=64)


class InRegisters(NamedTuple):
    """As `tcemu.kernels.direct` has it: x with each column twice, y in pairs of rows, accumulators in the registers.

    Addresses are those of a block. values_y: `step` bytes from row to row. pairs: how many bytes a k is after the
    first, there and in `exponents_y`. accumulators and results: the addresses of four vectors; float16 if `half`.
    orders: which lanes of two of them two rows of the block take, and back; without `exchange`, the first says it of
    each alone. marked: whether marks say which results are NaN; marks_y: 64 bytes from row to row. met: if y is sparse,
    the number of its k, else 0.
    """

    code: Code
    values_x: Any
    exponents_x: Any
    values_y: Any
    exponents_y: Any
    step: Lanes
    pairs: Any
    accumulators: list[Any]
    results: list[Any]
    half: Lanes
    orders: list[list[Lanes]]
    exchange: Lanes
    marked: Any
    marks_x: Any
    marks_y: Any
    met: Lanes

    def x(self, k: Lanes) -> Lanes:
        """The elements of x, a float in each lane."""
        return self.code.load(self.values_x, k, REALS, unit=64)

    def y(self, k: Lanes, row: int) -> Lanes:
        """The elements of y in a row: a pair, again and again."""
        return self._pairs(self.values_y, self._place(k) + self.step * row).seen_as(REALS)

    def bytes_x(self, k: Lanes) -> Lanes:
        """The exponents of x, one byte for each row in each lane."""
        return self.code.load(self.exponents_x, k, BYTES, unit=64)

    def bytes_y(self, k: Lanes) -> Lanes:
        """The exponents of y, in the same order."""
        return self._pairs(self.exponents_y, self._place(k)).seen_as(BYTES)

    def _place(self, k: Lanes) -> Lanes:
        return self.code.wide(self.code.load(self.pairs, k, WORD, unit=4))

    def _pairs(self, address: Any, place: Lanes) -> Lanes:
        return self.code.load(address, place, LONG, unit=1).everywhere(WIDTH // 2)

    def given(self) -> list[Lanes]:
        """The accumulators of each row, as float32 patterns; they do not change before `put`."""
        return self._exchanged([self._given(address) for address in self.accumulators], self.orders[0])

    def _exchanged(self, vectors: list[Lanes], order: list[Lanes]) -> list[Lanes]:
        """The first two and the last two vectors with lanes in an order."""
        code, found = self.code, [Slot(each) for each in vectors]

        def both() -> None:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            exchanged = (code.picked(one, other, indices) for one, other in pairs for indices in order)
            for each, words in zip(found, exchanged, strict=True):
                each.set(words)

        def alone() -> None:
            for each, words in zip(found, vectors, strict=True):
                each.set(code.permuted(words, order[0]))

        code.branch(self.exchange, both, alone)
        return [each.get() for each in found]

    def _given(self, address: Any) -> Lanes:
        code, found = self.code, Slot(self.code.lanes(0))
        code.branch(
            self.half,
            lambda: found.set(code.load(address, 0, HALVES, unit=1).as_wide_reals().bits()),
            lambda: found.set(code.load(address, 0, WORDS, unit=1)),
        )
        return found.get()

    def put(self, results: list[Lanes]) -> None:
        """Store the results of each row: NaN where marks are."""
        code, found = self.code, [Slot(each) for each in results]

        def mark() -> None:
            columns = self._columns()
            for row, each in enumerate(found):
                rows = code.load(self.marks_y, row, LONG, unit=64).everywhere(WIDTH // 2).seen_as(WORDS)
                either = rows | (columns & (0xFF << 8 * row))
                each.set(either.compare("!=", 0).choose(code.lanes(QUIET), each.get()))

        code.branch(self.marked, mark)
        vectors = self._exchanged([each.get() for each in found], self.orders[1])
        for words, address in zip(vectors, self.results, strict=True):
            self._put(words, address)

    def _columns(self) -> Lanes:
        """Where a NaN of x matters: a byte that is not 0 for each row, in each lane."""
        code, found = self.code, Slot(self.code.load(self.marks_x, 0, WORDS, unit=64))

        def of_met() -> None:
            held = Slot(code.lanes(0).seen_as(BYTES))
            with code.each(self.met) as k:
                nan = self.bytes_x(k).compare("==", NOT_A_NUMBER)
                some = nan.both(self.bytes_y(k).compare("!=", NOT_STORED))
                held.set(some.choose(code.lanes(-1).seen_as(BYTES), held.get()))
            found.set(held.get().seen_as(WORDS))

        code.branch(self.met, of_met)
        return found.get()

    def _put(self, words: Lanes, address: Any) -> None:
        self.code.branch(
            self.half,
            lambda: self.code.store(words.floats().as_halves(), address, 0, unit=1),
            lambda: self.code.store(words, address, 0, unit=1),
        )
