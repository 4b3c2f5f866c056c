"""Batches of instructions whose accumulators blocks take from the registers as they are; see `direct_tables`.

It computes as `tcemu.kernels.products` does, from and to the same words, if all elements are zeros, NaN, or numbers in
a window. If others are among them, it calls a function of that module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels import direct_packing as packing
from tcemu.kernels import loading, short_sums
from tcemu.kernels.ahead import NOTES, expect
from tcemu.kernels.blocks import Chain
from tcemu.kernels.calls import call, number, put
from tcemu.kernels.compiling import merged, njit
from tcemu.kernels.direct_bare import bare_columns, bare_rows
from tcemu.kernels.direct_entries import Entries, pick_words, places_of
from tcemu.kernels.direct_numbers import (
    AHEAD,
    APART,
    BARE,
    BASE,
    BLOCKS,
    CHUNK,
    CHUNKS,
    ENTRY,
    FEW,
    GROUPS,
    HALF,
    LONG_Y,
    MARKS,
    OF_GROUP,
    OF_STORED_THERE,
    OF_X_THERE,
    OF_Y,
    OF_Y_THERE,
    ORDER,
    PAIRED,
    PAIRS_BLOCKS,
    PARTS,
    PER,
    PICKED,
    RUNS,
    SOURCE,
    SPREAD,
    SQUARES,
    START_X,
    START_Y,
    STORED,
    TABLE,
    TAKEN,
    TILES,
    TOGETHER,
    UPS_X,
    UPS_Y,
    WORDS_OF_X,
    WORDS_X,
)
from tcemu.kernels.direct_packing import clear, fold_marks, pack_columns, pack_rows
from tcemu.kernels.direct_sparse import spread_rows
from tcemu.kernels.lanes import LONG, Lanes
from tcemu.kernels.loading import FORMAT_X, FORMAT_Y, within
from tcemu.kernels.moves import addresses
from tcemu.kernels.rule import FRACTION, ROWS
from tcemu.kernels.sharing import LEFT, PART, finish_some, leave, take, wait_for_all
from tcemu.kernels.short_sums import is_short, may_be_short
from tcemu.kernels.sides import InRegisters
from tcemu.kernels.simd import Code, Slot, vector_code

#: After tiles with NaN, so many times as many are expected to have them too; likewise after sums that are not short. If
#: tiles have to be computed elsewhere again and again, so many times as many are not tried, at most.
PATIENCE = 16
#: No way to compute tiles elsewhere: the address of `_any_tiles`; those of the tables, numbers, room and what is
#: fetched ahead there, and of two functions; and whether x and y change places.
NOT_THERE = (0,) * 8


class _Blocks(Entries):
    """The loop over blocks, while it is emitted. short: whether sums may be short, so that there are squares."""

    def __init__(self, code: Code, tables: Any, numbers: Any, bases: Sequence[Any], short: Any) -> None:
        super().__init__(code, tables, numbers)
        base, self.base = bases
        self.emitted, self.short = Chain(code, numbers, base), short
        self.fraction = code.short(code.load(numbers, FRACTION, LONG, unit=8))
        self.paired = code.load(numbers, int(PAIRED), LONG, unit=8)

    def block(self, sides: InRegisters, of_x: Sequence[Any], of_y: Sequence[Any]) -> None:
        """Short sums, or any."""
        code, emitted = self.code, self.emitted
        left = Slot(code.long(1))

        def try_it() -> None:
            def add() -> None:
                short_sums.emit(code, sides, emitted.sums, emitted.depth, self.base)
                left.set(code.long(0))

            few = short_sums.is_short_at(code, of_x[SQUARES], of_y[SQUARES], self.fraction)
            code.branch(few, add)

        code.branch(self.short, try_it)
        code.branch(left.get(), lambda: emitted.emit(sides))

    @property
    def units(self) -> Lanes:
        """Blocks, or pairs of them."""
        return self.count.down(self.paired)

    def unit(self, unit: Lanes, starts: tuple[Lanes, Lanes, Lanes], marked: Any) -> None:
        """A block, or both of a pair at once if they need no special care."""
        code, first, left = self.code, unit.up(self.paired), Slot(self.code.long(1).up(self.paired))

        def both() -> None:
            sides = [self.operands(first + i, starts, marked)[0] for i in range(2)]
            self.emitted.emit_together(sides, lambda: left.set(code.long(0)))

        if PAIRS_BLOCKS:
            short = code.number(self.short).compare("!=", 0)
            code.branch(self.paired.compare("!=", 0).both(self.emitted.usual).but_not(short), both)
        with code.each(left.get()) as i:
            self.block(*self.operands(first + i, starts, marked))


@intrinsic
def _blocks(typingctx, tiles, tables, numbers, room, given, bases, marked, short, ahead):  # type: ignore[no-untyped-def]
    """All blocks of some tiles: see `Entries`, `_Blocks`. bases: as for `nests.blocks`, and of short sums."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, tables, numbers, room, given, bases, marked, short, ahead = args
        loop = _Blocks(vector_code(builder), tables, numbers, cgutils.unpack_tuple(builder, bases), short)
        loop.emit(tiles, room, cgutils.unpack_tuple(builder, given), marked, ahead)
        return context.get_dummy_value()

    address, long = types.uint64, types.int64
    kinds = [long, address, address, address, types.UniTuple(address, 4), types.UniTuple(long, 2), long, long, address]
    return types.none(*kinds), codegen


@merged
def _spread(tiles, e, step, tables, numbers, room, bare):  # type: ignore[no-untyped-def]
    """Put what is stored of y into its places; returns MISFIT if the metadata is illegal, else 0."""
    if not number(numbers, SPREAD):
        return int64(0)
    bad = spread_rows(
        tiles, e, step, within(tables, numbers, SPREAD), number(numbers, OF_Y) // ROWS, number(numbers, CHUNKS),
        number(numbers, CHUNK), number(numbers, STORED), within(room, numbers, TILES), number(numbers, APART),
        places_of(numbers, int64(OF_STORED_THERE)), places_of(numbers, int64(OF_Y_THERE)), bare,
    )  # fmt: skip
    return int64(packing.MISFIT) if bad else int64(0)


@merged
def _pack(tiles, y, step, tables, numbers, room, care):  # type: ignore[no-untyped-def]
    """Pack x, whose words are picked, and y of some tiles; returns what `tcemu.kernels.direct_packing` finds."""
    groups, vectors, few = number(numbers, GROUPS), number(numbers, OF_Y), number(numbers, FEW)
    there, apart = within(room, numbers, TILES), number(numbers, APART)
    to_x, to_y = places_of(numbers, int64(OF_X_THERE)), places_of(numbers, int64(OF_STORED_THERE))
    if care:
        clear(tiles, there + uint64(to_x[MARKS]), apart, groups)
        clear(tiles, there + uint64(to_y[MARKS]), apart, vectors)
    found = pack_columns(
        tiles, within(room, numbers, WORDS_X), number(numbers, PICKED), within(tables, numbers, SOURCE),
        within(tables, numbers, UPS_X), number(numbers, OF_GROUP), groups, numbers + uint64(8 * FORMAT_X),
        number(numbers, START_X), few, care, there, apart, to_x,
    )  # fmt: skip
    if found & packing.MISFIT:
        return found
    found |= pack_rows(
        tiles, y, step, number(numbers, HALF), within(tables, numbers, TAKEN), within(tables, numbers, UPS_Y),
        number(numbers, PER), vectors, number(numbers, LONG_Y), numbers + uint64(8 * FORMAT_Y),
        number(numbers, START_Y), few, care, there, apart, to_y,
    )  # fmt: skip
    if found & packing.MARKED:
        fold_marks(tiles, there + uint64(to_y[MARKS]), apart, vectors, number(numbers, PARTS))
    return found


@merged
def _pack_bare(tiles, y, step, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Pack x, whose words are picked, and y of some tiles without exponents; returns how many blocks are short.

    None of them if an element is not finite.
    """
    there, apart, runs = within(room, numbers, TILES), number(numbers, APART), number(numbers, RUNS)
    found = bare_columns(
        tiles, within(room, numbers, WORDS_X), number(numbers, PICKED), within(tables, numbers, ORDER),
        number(numbers, WORDS_OF_X), runs, numbers + uint64(8 * FORMAT_X), there, apart,
        places_of(numbers, int64(OF_X_THERE)),
    )  # fmt: skip
    if found:
        return int64(0)
    found = bare_rows(
        tiles, y, step, number(numbers, OF_Y), runs, number(numbers, PARTS), numbers + uint64(8 * FORMAT_Y), there,
        apart, places_of(numbers, int64(OF_STORED_THERE)),
    )  # fmt: skip
    return int64(0) if found else _short(tiles, tables, numbers, room)


@merged
def _short(tiles, tables, numbers, room):  # type: ignore[no-untyped-def]
    """How many blocks of some tiles have short sums, according to their squares."""
    there, entries, found = within(room, numbers, TILES), within(tables, numbers, TABLE), int64(0)
    for t in range(tiles):
        tile = there + uint64(t * number(numbers, APART))
        for block in range(number(numbers, BLOCKS)):
            entry = entries + uint64(4 * ENTRY * block)
            found += is_short(tile + _word(entry, SQUARES), tile + _word(entry, 4 + SQUARES), numbers)
    return found


@merged
def _word(words, place):  # type: ignore[no-untyped-def]
    """The word at a place of the words at an address."""
    return uint64(number(words, int64(place) // 2) >> (32 * (int64(place) % 2)) & int64(0xFFFFFFFF))


@merged
def _elsewhere(tiles, x, y, c, d, steps, step_d, there):  # type: ignore[no-untyped-def]
    """Compute some tiles as NOT_THERE says that it can be."""
    at_x, at_y, step_x, step_y = (y, x, steps[1], steps[0]) if there[7] == 0 else (x, y, steps[0], steps[1])
    together = number(uint64(there[2]), loading.TOGETHER)
    for t in range(0, tiles, together):
        of_x, of_y, of_c, of_d = uint64(t * step_x), uint64(t * step_y), uint64(t * steps[2]), uint64(t * step_d)
        some = min(together, tiles - t)
        operands = at_x + of_x, at_y + of_y, c + of_c, d + of_d, step_x, step_y, steps[2], step_d
        call(uint64(there[0]), (some, *operands, there[1], there[2], there[3], there[4], there[5], there[6]))


@njit(cache=True, nogil=True, error_model="numpy")
def run_direct(x, y, c, e, tables, numbers, scratch, d, sharing, wait, there):  # type: ignore[no-untyped-def]
    """The results d (tiles, words) of tiles that nobody else has taken; returns the first that is left out.

    x, y, c and e (tiles, words): words of B, A and C, or of A, B and C; and of metadata, if A is sparse. tables,
    numbers: of `Direct`; scratch: as much room. sharing: from `share_tiles`. With `wait`, all tiles are done when it
    returns. there: where tiles that do not fit are computed; if that is NOT_THERE, the first of them and all after it
    are left out, though some may have been computed.
    """
    room, at, told = uint64(scratch.ctypes.data), uint64(tables.ctypes.data), uint64(numbers.ctypes.data)
    given, steps = addresses(x, y, c, e)
    to_d, step_d = uint64(d.ctypes.data), 4 * d.shape[1]
    count, together, base = d.shape[0], numbers[TOGETHER], numbers[START_X] + numbers[START_Y]
    possible = numbers[BARE] and may_be_short(told, FORMAT_X, FORMAT_Y, uint64(0))
    shares, size = uint64(sharing.ctypes.data), PART * together
    notes = uint64(there[4]) if there[0] else within(room, told, AHEAD)
    if there[0]:
        put(notes, int64(NOTES), int64(0))
    # Until these tiles, there are likely NaN, sums that are not short, and elements that do not fit.
    careful, long, elsewhere, patience = int64(0), int64(0), int64(0), int64(0)
    part = take(shares, size)
    while part < count:
        stop, t, single = min(part + size, count), part, part
        while t < stop and t < number(shares, int64(LEFT)):
            # One by one where some of several tiles did not fit.
            tiles = int64(1) if t < single else min(together, stop - t)
            ahead = expect(notes, t + tiles, stop, given, steps, to_d, step_d, numbers[BLOCKS] >> numbers[PAIRED])
            at_x, at_y = given[0] + uint64(t * steps[0]), given[1] + uint64(t * steps[1])
            at_c, at_d = given[2] + uint64(t * steps[2]), to_d + uint64(t * step_d)
            few, every, found = int64(0), tiles * numbers[BLOCKS], int64(packing.MISFIT if t < elsewhere else 0)
            if not found:
                words_y, step_y = pick_words(tiles, at_x, at_y, steps[0], steps[1], at, told, room)
                if possible and t >= max(long, careful):
                    few = _pack_bare(tiles, words_y, step_y, at, told, room)
                    if 2 * few <= every:
                        # If only a few are short, all of them together take less time as ordinary sums.
                        few, long = int64(0), t + PATIENCE * together
                # First without care if no NaN is expected.
                found = int64(packing.MISFIT) if few != every else int64(0)
                for care in range(int64(t < careful), int64(2)):
                    if found & packing.MISFIT:
                        found = _pack(tiles, words_y, step_y, at, told, room, int64(care))
                        if found & packing.MISFIT and not care:
                            careful = t + PATIENCE * together
                if not found & packing.MISFIT:
                    at_e = given[3] + uint64(t * steps[3])
                    found |= _spread(tiles, at_e, steps[3], at, told, room, int64(few == every))
                if found & packing.MISFIT and there[0] == 0:
                    leave(shares, t)
                    break
                if found & packing.MISFIT and tiles > 1 and not patience:
                    single = t + tiles
                    continue
                if found & packing.MISFIT:
                    elsewhere, patience = t + (patience + 1) * tiles, min(2 * patience + 1, PATIENCE)
            if found & packing.MISFIT:
                _elsewhere(tiles, at_x, at_y, at_c, at_d, steps, step_d, there)
            else:
                patience = int64(0)
                accumulators = at_c, at_d, uint64(steps[2]), uint64(step_d)
                bases, marked = (base, numbers[BASE] if few == every else base), int64(found & packing.MARKED)
                _blocks(tiles, at, told, within(room, told, TILES), accumulators, bases, marked, few, ahead)
            t += tiles
        finish_some(shares, stop - part)
        part = take(shares, size)
    return wait_for_all(shares, count) if wait else count
