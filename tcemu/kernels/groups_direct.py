"""Batches of chains of ordinary float32 multiply-adds, whose results are added: registers in, registers out.

Where everything is, `tcemu.kernels.direct_tables` finds, as for `tcemu.kernels.direct`. But elements are float16, which
the processor converts, NaN and infinities included, and computes with as it does with any float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels import direct_numbers as places
from tcemu.kernels.ahead import expect
from tcemu.kernels.compiling import njit
from tcemu.kernels.direct_entries import Entries, pick_words, places_of
from tcemu.kernels.direct_numbers import Direct
from tcemu.kernels.direct_packing import TWICE
from tcemu.kernels.groups import FROM_PRODUCT, FROM_ZERO
from tcemu.kernels.lanes import HALVES, WORD, WORDS, Lanes
from tcemu.kernels.loading import within
from tcemu.kernels.moves import addresses
from tcemu.kernels.registers import check_words
from tcemu.kernels.rooms import Kept, Tiles
from tcemu.kernels.rule import ROWS
from tcemu.kernels.sharing import PART, finish_some, share_tiles, take, wait_for_all
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import QUIET

Array = npt.NDArray[Any]
_KEPT = Kept()


def _halves(words: Lanes) -> Lanes:
    """The float16 in the upper half of each word, as float32."""
    return words.down(16).shorts().seen_as(HALVES).as_wide_reals()


@intrinsic
def _columns(typingctx, tiles, words, step, source, ups, vectors, room, apart, to):  # type: ignore[no-untyped-def]
    """x from words[source[v]] << ups[v], for `vectors` vectors v of a tile; see `direct_packing.pack_columns`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, source, ups, vectors, room, apart, to = args
        words, rooms = Tiles(words, code.number(step)), Tiles(room, code.number(apart))
        with code.each(tiles) as t, code.each(vectors) as v:
            picked, up = code.wide(code.load(source, v, WORD, unit=4)), code.load(ups, v, WORDS, unit=64)
            found = _halves(code.load(words.of(t), picked, WORDS, unit=64).up(up))
            into = (code.number(rooms.of(t)) + code.number(to)).value
            for place, lanes in enumerate(TWICE):
                code.store(found.shuffled(lanes), into, v.up(1) + place, unit=64)
        return context.get_dummy_value()

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64, types.uint64]
    return types.none(*kinds, types.int64, types.int64), codegen


@intrinsic
def _rows(typingctx, tiles, words, step, ups, per, vectors, room, apart, to):  # type: ignore[no-untyped-def]
    """y from words[v] << ups[p], for `vectors` vectors v and `per` places p; see `direct_packing.pack_rows`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, ups, per, vectors, room, apart, to = args
        words, rooms, per = Tiles(words, code.number(step)), Tiles(room, code.number(apart)), code.number(per)
        with code.each(tiles) as t, code.each(vectors) as v:
            word, into = code.load(words.of(t), v, WORDS, unit=64), code.number(rooms.of(t)) + code.number(to)
            with code.each(per) as p:
                code.store(_halves(word.up(code.load(ups, p, WORDS, unit=64))), into.value, v * per + p, unit=64)
        return context.get_dummy_value()

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.int64, types.int64, types.uint64]
    return types.none(*kinds, types.int64, types.int64), codegen


class _Groups(Entries):
    """The loop over blocks, while it is emitted."""

    def __init__(self, code: Code, tables: Any, numbers: Any, chains: Sequence[Any]) -> None:
        super().__init__(code, tables, numbers)
        self.order, count, per, start = chains
        self.chains, self.per = code.number(count), code.number(per)
        self.start = code.short(code.number(start)).everywhere().floats()

    def block(self, sides: Any, of_x: Sequence[Any], of_y: Sequence[Any]) -> None:
        """All chains of a block, and their sum."""
        code = self.code
        totals = [Slot(bits.floats()) for bits in sides.given()]
        with code.each(self.chains) as chain:
            running = [Slot(self.start) for _ in range(ROWS)]
            with code.each(self.per) as i:
                k = code.wide(code.load(self.order, chain * self.per + i, WORD, unit=4))
                x = sides.x(k)
                for row, so_far in enumerate(running):
                    so_far.set(x.times_plus(sides.y(k, row), so_far.get()))
            for total, so_far in zip(totals, running, strict=True):
                total.set(total.get() + so_far.get())
        found = [total.get() for total in totals]
        sides.put([x.compare("==", x).choose(x.bits(), QUIET) for x in found])


@intrinsic
def _blocks(typingctx, tiles, tables, numbers, room, given, chains, ahead):  # type: ignore[no-untyped-def]
    """All blocks of some tiles; see `direct`. chains: see `run_groups`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, tables, numbers, room, given, chains, ahead = args
        code = vector_code(builder)
        loop = _Groups(code, tables, numbers, cgutils.unpack_tuple(builder, chains))
        loop.emit(tiles, room, cgutils.unpack_tuple(builder, given), code.long(0).value, ahead)
        return context.get_dummy_value()

    address, long = types.uint64, types.int64
    told = types.Tuple([address, long, long, long])
    return types.none(long, address, address, address, types.UniTuple(address, 4), told, address), codegen


@njit(cache=True, nogil=True, error_model="numpy")
def run_groups(x, y, c, tables, numbers, order, chains, per, start, scratch, d, sharing, wait):  # type: ignore[no-untyped-def]
    """The results d (tiles, words) of tiles that nobody else has taken.

    x, y, c, tables, numbers, scratch, sharing, wait: as for `run_direct`. order: the number among x's vectors of each
    k, for `chains` chains of `per` products, which all start from the float32 pattern `start`; their results are added
    to c in this order.
    """
    room, at, told = uint64(scratch.ctypes.data), uint64(tables.ctypes.data), uint64(numbers.ctypes.data)
    given, steps = addresses(x, y, c, c)
    to_d, step_d, count, together = uint64(d.ctypes.data), 4 * d.shape[1], d.shape[0], numbers[places.TOGETHER]
    shares, size, in_tiles = uint64(sharing.ctypes.data), PART * together, within(room, told, places.TILES)
    vectors_x, apart = numbers[places.OF_GROUP] * numbers[places.GROUPS], numbers[places.APART]
    to_x, to_y = places_of(told, int64(places.OF_X_THERE)), places_of(told, int64(places.OF_Y_THERE))
    kinds = uint64(order.ctypes.data), int64(chains), int64(per), int64(start)
    part = take(shares, size)
    while part < count:
        stop = min(part + size, count)
        for t in range(part, stop, together):
            tiles = min(together, stop - t)
            ahead = expect(
                within(room, told, places.AHEAD), t + tiles, stop, given, steps, to_d, step_d, numbers[places.BLOCKS]
            )
            at_x, at_y = given[0] + uint64(t * steps[0]), given[1] + uint64(t * steps[1])
            words_y, step_y = pick_words(tiles, at_x, at_y, steps[0], steps[1], at, told, room)
            words_x, step_x = within(room, told, places.WORDS_X), numbers[places.PICKED]
            source, ups = within(at, told, places.SOURCE), within(at, told, places.UPS_X)
            _columns(tiles, words_x, step_x, source, ups, vectors_x, in_tiles, apart, to_x[0])
            _rows(
                tiles, words_y, step_y, within(at, told, places.UPS_Y), numbers[places.PER], numbers[places.OF_Y],
                in_tiles, apart, to_y[0],
            )  # fmt: skip
            at_c, at_d = given[2] + uint64(t * steps[2]), to_d + uint64(t * step_d)
            accumulators = at_c, at_d, uint64(steps[2]), uint64(step_d)
            _blocks(tiles, at, told, in_tiles, accumulators, kinds, ahead)
        finish_some(shares, stop - part)
        part = take(shares, size)
    if wait:
        wait_for_all(shares, count)


@dataclass(frozen=True, eq=False)
class Groups:
    """A batched product D = A B + C by chains of multiply-adds, each of some k; see `run_groups`.

    order: the k of each chain, (chains, products). from_zero: whether they start from +0, or from their first products.
    reach: the words that there must be of A, B, C, metadata and D.
    """

    direct: Direct
    order: Array
    from_zero: bool
    reach: Sequence[int]

    def __call__(self, a: Array, b: Array, c: Array, *, out: Array | None = None, known: bool = False) -> Array:
        """D as uint32 words (tiles, words), from contiguous words of A, B and C; `out` or a new array.

        known: arrays like these have been checked by an earlier call.
        """
        d = np.empty((len(c), self.reach[-1]), np.uint32) if out is None else out
        if not known:
            check_words(np.uint32, (*self.reach[:3], self.reach[-1]), (a, b, c, d))
        x, y = (a, b) if self.direct.swapped else (b, a)
        tables, numbers, order = self.direct.tables, self.direct.numbers, self._order
        start = FROM_ZERO if self.from_zero else FROM_PRODUCT

        def compute(sharing: Array, wait: bool) -> None:
            room = _KEPT.take("groups", self.direct.room, np.int32)
            chains, per = self.order.shape
            run_groups(x, y, c, tables, numbers, order, chains, per, start, room, d, sharing, wait)

        share_tiles(len(d), compute)
        return d

    @cached_property
    def _order(self) -> Array:
        """Where each k is among the vectors of x."""
        return self.direct.where[self.order].astype(np.uint32)

    @property
    def shares(self) -> bool:
        """Whether many tiles, in one call, are computed on all cores."""
        return True
