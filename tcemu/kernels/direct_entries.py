"""The loop over the blocks of `tcemu.kernels.direct`, and where each of them finds its operands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numba import uint64

from tcemu.kernels.ahead import fetch_lines
from tcemu.kernels.calls import call, number
from tcemu.kernels.compiling import merged
from tcemu.kernels.direct_numbers import (
    ACCUMULATORS,
    APART,
    BLOCKS,
    ENTRY,
    EXCHANGE,
    EXPONENTS,
    MARKS,
    PAIRS,
    PICK,
    PICKED,
    PICKED_Y,
    PICKS,
    PICKS_Y,
    SPREAD,
    STEP,
    TABLE,
    TO_BLOCK,
    TO_REGISTERS,
    VALUES,
    WORDS_X,
    WORDS_Y,
)
from tcemu.kernels.lanes import LONG, WORD, WORDS, Lanes
from tcemu.kernels.loading import within
from tcemu.kernels.rule import DEPTH, HALF, ROWS, SUMS
from tcemu.kernels.sides import InRegisters
from tcemu.kernels.simd import Code


class Entries(ABC):
    """The loop over blocks, while it is emitted."""

    def __init__(self, code: Code, tables: Any, numbers: Any) -> None:
        self.code = code
        self.step, self.apart, self.count, self.exchange = (
            code.load(numbers, int(place), LONG, unit=8) for place in (STEP, APART, BLOCKS, EXCHANGE)
        )
        self.entries, self.pairs, *orders = (
            (code.number(tables) + code.load(numbers, int(place), LONG, unit=8).up(2)).value
            for place in (TABLE, PAIRS, TO_BLOCK, TO_REGISTERS)
        )
        self.orders = [[code.load(order, i, WORDS, unit=64) for i in range(2)] for order in orders]
        half, depth, sums, sparse = (code.load(numbers, place, LONG, unit=8) for place in (HALF, DEPTH, SUMS, SPREAD))
        self.half, self.met = half.compare("!=", 0), sparse.compare("!=", 0).choose(depth * sums, 0)

    @abstractmethod
    def block(self, sides: InRegisters, of_x: Sequence[Any], of_y: Sequence[Any]) -> None:
        """Emit the arithmetic of a block; of_x, of_y: where it has values, exponents, marks and squares."""

    def emit(self, tiles: Any, room: Any, given: Sequence[Any], marked: Any, ahead: Any) -> None:
        """The loop over all blocks of some tiles, from the accumulators in the registers to the results.

        room: of the first tile; given: addresses of C and D, and the bytes from a tile's to the next. marked: whether
        there are marks. ahead: see `expect`.
        """
        code = self.code
        c, d, step_c, step_d = (code.number(each) for each in given)
        with code.each(tiles) as t:
            tile, given_c, given_d = code.number(room) + t * self.apart, c + t * step_c, d + t * step_d
            with code.each(self.units) as unit:
                fetch_lines(code, ahead, t * self.units + unit)
                self.unit(unit, (tile, given_c, given_d), marked)

    @property
    def units(self) -> Lanes:
        """The parts of a tile that are computed one after the other: its blocks."""
        return self.count

    def unit(self, unit: Lanes, starts: tuple[Lanes, Lanes, Lanes], marked: Any) -> None:
        """Emit a part of a tile. starts: where the tile has room, C and D."""
        self.block(*self.operands(unit, starts, marked))

    def operands(
        self, block: Lanes, starts: tuple[Lanes, Lanes, Lanes], marked: Any
    ) -> tuple[InRegisters, Sequence[Any], Sequence[Any]]:
        """What `block` takes."""
        code, (tile, c, d) = self.code, starts
        places = [
            code.wide(code.load(self.entries, block * ENTRY + i, WORD, unit=4)) for i in range(ACCUMULATORS + ROWS)
        ]
        of_x, of_y = ([(tile + place).value for place in places[start : start + 4]] for start in (0, 4))
        given, results = ([(start + place).value for place in places[ACCUMULATORS:]] for start in (c, d))
        sides = InRegisters(
            code, of_x[VALUES], of_x[EXPONENTS], of_y[VALUES], of_y[EXPONENTS], self.step, self.pairs, given, results,
            self.half, self.orders, self.exchange, marked, of_x[MARKS], of_y[MARKS], self.met,
        )  # fmt: skip
        return sides, of_x, of_y


@merged
def places_of(numbers, place):  # type: ignore[no-untyped-def]
    """The bytes before values, exponents, marks and squares in a tile's room."""
    return number(numbers, place), number(numbers, place + 1), number(numbers, place + 2), number(numbers, place + 3)


@merged
def pick_words(tiles, x, y, step_x, step_y, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Pick the words of x of some tiles, and of y; returns where these are, and the bytes from a tile to the next."""
    through, apart, picks = within(room, numbers, WORDS_X), number(numbers, PICKED), uint64(number(numbers, PICK))
    call(picks, (tiles, x, step_x, within(tables, numbers, PICKS), through, apart))
    if number(numbers, PICKS_Y):
        through, apart = within(room, numbers, WORDS_Y), number(numbers, PICKED_Y)
        call(picks, (tiles, y, step_y, within(tables, numbers, PICKS_Y), through, apart))
        return through, apart
    return y, step_y
