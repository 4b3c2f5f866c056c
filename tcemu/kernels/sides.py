"""Where a block finds its factors and accumulators, and where it puts its results."""

from __future__ import annotations

from typing import Any, NamedTuple

from tcemu.kernels.lanes import BYTES, REAL, REALS, SHORTS, WORD, WORDS, Lanes
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code


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


