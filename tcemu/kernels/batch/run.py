"""The kernels that compute batches: each takes tiles, loads their elements, multiplies, and stores the results.

Which arithmetic they do, and where everything is, are numbers and tables, so that they are compiled once for all of
them. Threads share the tiles of a batch: each takes some, computes them, and takes more until none are left. A thread
that joins late, or not at all, delays nothing: the others take its tiles. The caller waits for tiles and not for
threads, in the kernel: to wake a thread takes longer than to compute hundreds of tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

import numpy as np
import numpy.typing as npt
from numba import int64, uint64

from tcemu.kernels.batch.load import (
    ADDENDS,
    AHEAD,
    BLOCKS,
    ENTRIES,
    FEW,
    FLOAT16,
    FORMAT_X,
    FORMAT_Y,
    IN_C,
    IN_X,
    IN_Y,
    OPTION,
    PACKED,
    PICKED,
    QUICK,
    SPREAD,
    START_X,
    START_Y,
    STORED,
    TOGETHER,
    UPS_X,
    UPS_Y,
    VECTORS,
    WORDS_X,
    X,
    Y,
    addresses,
    load_addends,
    load_codes,
    load_factors,
    look_up,
    picked,
    spread_stored,
    store_results,
    widen_addends,
    within,
)
from tcemu.kernels.batch.multiply import CARE, WIDE, expect, fetch, multiply_tiles, rooms_of
from tcemu.kernels.chains import chain_block, widen_halves
from tcemu.kernels.emit.code import atomic_add, atomic_load, atomic_min, call, number, put_number
from tcemu.kernels.emit.lanes import WIDTH
from tcemu.kernels.host.compiling import merged, njit
from tcemu.kernels.host.threads import cores, join
from tcemu.kernels.integers import bit_block, integer_block, integers
from tcemu.kernels.sums import ABSENT, BARE, BITS, CENTRE, CHAINS, DEPTH, INTEGERS, OUTSIDE, ROWS, SUMS
from tcemu.kernels.sums.pack import PLACES, pack, pack_words, survey
from tcemu.kernels.sums.scaled import grouped_block
from tcemu.kernels.sums.short import may_be_short

#: More tiles are shared; and a thread takes so many times as many as the kernel computes together.
SHARED, PART = 1024, 32
#: The places of the numbers that threads share, each in a line of a cache of its own: the first tile that nobody has
#: taken, how many are done, and the first that was left out, or one after the last.
TAKEN, DONE, LEFT, SHARES = 0, 8, 16, 24


def share_tiles(count: int, compute: Callable[[npt.NDArray[np.int64], bool], None]) -> int:
    """Let all cores compute so many tiles, or one core a few; returns the first tile that was left out, or `count`.

    compute: a function of the numbers that threads share, and whether to wait for all tiles.
    """
    numbers, caller = np.zeros(SHARES, np.int64), get_ident()
    numbers[LEFT] = count

    def work() -> None:
        compute(numbers, get_ident() == caller)

    if count > SHARED:
        join(work, cores())
    else:
        work()
    return int(numbers[LEFT])


@merged
def take(shares, size):  # type: ignore[no-untyped-def]
    """Take so many tiles; returns the first. shares: the address of the numbers that `share_tiles` gives."""
    return atomic_add(shares + uint64(8 * TAKEN), size)


@merged
def leave(shares, tile):  # type: ignore[no-untyped-def]
    """Note that a tile and all after it may not be computed."""
    atomic_min(shares + uint64(8 * LEFT), tile)


@merged
def finish_some(shares, count):  # type: ignore[no-untyped-def]
    """Note that so many tiles are done, or left out."""
    atomic_add(shares + uint64(8 * DONE), count)


@merged
def wait_for_all(shares, count):  # type: ignore[no-untyped-def]
    """Wait until all tiles are done."""
    while atomic_load(shares + uint64(8 * DONE)) < count:
        pass


#: After tiles with NaN, an infinity or an element outside the window, so many are not expected to be better.
PATIENCE = 16
#: Four times the exponent of an element that a sparse A does not store.
_ABSENT = np.int64((ABSENT & 0xFF) * 0x01010101)


@merged
def _plainly(tiles, numbers, room, kind, ahead):  # type: ignore[no-untyped-def]
    """c += x times y for some tiles, by integers, bits or chains; numbers, room and ahead are addresses."""
    x, y, at = within(room, numbers, IN_X), within(room, numbers, IN_Y), within(room, numbers, IN_C)
    vectors_x, vectors_y = number(numbers, VECTORS), number(numbers, VECTORS + 1)
    per, sums, option = number(numbers, DEPTH), number(numbers, SUMS), number(numbers, OPTION)
    depth, size, packed = per * sums, uint64(4), within(room, numbers, PACKED)
    value_y = packed + uint64(64 * tiles * vectors_x)
    if kind == INTEGERS:
        integers(x, numbers + uint64(8 * FORMAT_X), tiles * vectors_x, packed)
        integers(y, numbers + uint64(8 * FORMAT_Y), tiles * vectors_y, value_y)
    elif kind == CHAINS:
        widen_halves(x, tiles * vectors_x, packed)
        widen_halves(y, tiles * vectors_y, value_y)
        if number(numbers, ADDENDS) == FLOAT16:
            widen_halves(at, tiles * number(numbers, VECTORS + 2), at)
    if kind != BITS:
        x, y = packed, value_y
    block = int64(0)
    for t in range(tiles):
        for i in range(vectors_x // depth):
            for j in range(vectors_y * WIDTH // (depth * ROWS)):
                fetch(ahead, block)
                block += 1
                at_x = x + uint64((t * vectors_x + i * depth) * WIDTH) * size
                at_y = y + uint64(t * vectors_y * WIDTH + j * depth * ROWS) * size
                if kind == INTEGERS:
                    integer_block(at_x, at_y, at, depth, option)
                elif kind == BITS:
                    bit_block(at_x, at_y, at, depth, option)
                else:
                    chain_block(at_x, at_y, at, per, sums, option)
                at += uint64(ROWS * WIDTH) * size


@merged
def _pack(tiles, words, step, tables, numbers, room, first, ups, start, form, into):  # type: ignore[no-untyped-def]
    """Pick and pack an operand of some tiles, whose numbers begin at `first`; see `pack_words`."""
    through, apart = within(room, numbers, WORDS_X), number(numbers, PICKED)
    picked(tiles, words, step, within(tables, numbers, first), numbers, through, apart)
    source, vectors, few = within(tables, numbers, first + 1), number(numbers, first + 3), number(numbers, FEW)
    places, begin = within(tables, numbers, ups), number(numbers, start)
    value, exponent, fourfold, bare = into
    return pack_words(
        tiles, through, apart, source, places, vectors, numbers + uint64(8 * form), begin, few, value, exponent,
        fourfold, bare,
    )  # fmt: skip


@merged
def _quickly(tiles, x, y, steps, tables, numbers, room, bare):  # type: ignore[no-untyped-def]
    """Load and pack x and y of some tiles if all their elements are zeros or in a window; whether they are.

    bare: without exponents.
    """
    vectors_x, vectors_y = number(numbers, VECTORS), number(numbers, VECTORS + 1)
    packed = within(room, numbers, PACKED)
    value_x, word_x, _, value_y, word_y, _ = rooms_of(packed, tiles * vectors_x, tiles * vectors_y)
    sparse = number(numbers, SPREAD + 1)
    value, word = value_x, word_x
    if sparse:
        value, word = within(room, numbers, STORED), within(room, numbers, IN_X)
    into = value, word, int64(1), bare
    if _pack(tiles, x, steps[0], tables, numbers, room, int64(X), UPS_X, START_X, FORMAT_X, into):
        return False
    if sparse and bare:
        spread_stored(tiles, (value,), tables, numbers, room, (int64(0),), (value_x,))
    elif sparse:
        spread_stored(tiles, (value, word), tables, numbers, room, (int64(0), _ABSENT), (value_x, word_x))
    into = value_y, word_y, int64(0), bare
    return not _pack(tiles, y, steps[1], tables, numbers, room, int64(Y), UPS_Y, START_Y, FORMAT_Y, into)


# ------------------------------------------------------------------------------------------------------ many tiles
# d[t] = the results of tile t, for words x, y, c and metadata e (tiles, words). x is the operand whose elements are in
# vectors, y the one whose elements are taken one at a time. e has no words if x is dense. tables and numbers: see
# `tcemu.kernels.batch.load`; the numbers of `multiply_tiles` are first. scratch: numbers[ROOM] words; the caller makes
# them, because numba frees an array after its last use, and does not count the uses of its address. There is a
# function for each arithmetic, so that no process compiles what it does not compute. All others take addresses: numba
# counts the users of an array that is passed on, with an instruction that stops the processor for some twenty cycles.


@njit(cache=True, nogil=True, error_model="numpy")
def run_fused(  # type: ignore[no-untyped-def]
    x, y, c, e, scale_x, scale_y, tables, numbers, scratch, d, chains, sharing, wait
):
    """Chains of fused sums; scale_x and scale_y (tiles, scales): as `blocks` takes them, or empty.

    Only of tiles that nobody else has taken; those with illegal metadata are left out. sharing: from `share_tiles`.
    With `wait`, all tiles are done when it returns.
    """
    room, at, told = uint64(scratch.ctypes.data), uint64(tables.ctypes.data), uint64(numbers.ctypes.data)
    given, steps = addresses(x, y, c, e)
    to_d, count, together = uint64(d.ctypes.data), d.shape[0], numbers[TOGETHER]
    scaled = uint64(1 if scale_x.shape[0] else 0)
    scales_x, scales_y = uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data)
    step_x, step_y, step_d = 4 * scale_x.shape[1], 4 * scale_y.shape[1], 4 * d.shape[1]
    in_x, in_y, in_c = within(room, told, IN_X), within(room, told, IN_Y), within(room, told, IN_C)
    packed = within(room, told, PACKED)
    vectors_x, vectors_y = numbers[VECTORS], numbers[VECTORS + 1]
    base = numbers[START_X] + numbers[START_Y]
    later = 0 if numbers[QUICK] else count
    # Short chains need no exponents; if some are not short, `_chains` makes them from the values.
    # Where `_quickly` has failed, now or lately, NaN and infinities are likely.
    care, wide = int64(CARE) if numbers[QUICK] else int64(0), int64(0)
    bare = int64(BARE) if not scaled and may_be_short(told, FORMAT_X, FORMAT_Y, uint64(0)) else int64(0)
    shares, size = uint64(sharing.ctypes.data), PART * together
    part = take(shares, size)
    while part < count:
        stop = min(part + size, count)
        for t in range(part, stop, together):
            tiles = min(together, stop - t)
            scales = scales_x + uint64(t * step_x), scales_y + uint64(t * step_y), step_x, step_y, scaled
            at_x, at_y = given[0] + uint64(t * steps[0]), given[1] + uint64(t * steps[1])
            ahead = expect(within(room, told, AHEAD), t + tiles, stop, given, steps, to_d, step_d, numbers[BLOCKS])
            if not load_codes(tiles, given[3] + uint64(t * steps[3]), steps[3], at, told, room):
                leave(shares, t)
                break
            load_addends(tiles, given[2] + uint64(t * steps[2]), steps[2], at, told, room)
            widen_addends(tiles, told, room)
            if t >= later and _quickly(tiles, at_x, at_y, steps, at, told, room, bare):
                counts = tiles, packed, vectors_x, vectors_y, 1
                call(chains[0], (*counts, told, in_c, *scales, base, bare, ahead, chains[1]))
            else:
                later = later if t < later else t + PATIENCE
                load_factors(tiles, at_x, at_y, steps, at, told, room)
                expected = care | (int64(WIDE) if t < wide else int64(0))
                found = multiply_tiles(
                    tiles, in_x, vectors_x, in_y, vectors_y, 1, told, packed, in_c, scales, chains, ahead, expected,
                )  # fmt: skip
                if found & OUTSIDE and t >= wide:
                    wide = t + PATIENCE * together
            store_results(tiles, at, told, room, to_d + uint64(t * step_d), step_d)
        finish_some(shares, stop - part)
        part = take(shares, size)
    if wait:
        wait_for_all(shares, count)


@merged
def _operands(t, tiles, given, steps, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load all elements of some tiles from tile t on; whether their metadata is legal. given: addresses of words."""
    if not load_codes(tiles, given[3] + uint64(t * steps[3]), steps[3], tables, numbers, room):
        return False
    at_x, at_y = given[0] + uint64(t * steps[0]), given[1] + uint64(t * steps[1])
    load_factors(tiles, at_x, at_y, steps, tables, numbers, room)
    load_addends(tiles, given[2] + uint64(t * steps[2]), steps[2], tables, numbers, room)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def run_plainly(x, y, c, e, kind, tables, numbers, scratch, d):  # type: ignore[no-untyped-def]
    """Sums of small integers, of bits, or of chains of multiply_tiles-adds; whether all metadata was legal."""
    room, at, told = uint64(scratch.ctypes.data), uint64(tables.ctypes.data), uint64(numbers.ctypes.data)
    given, steps = addresses(x, y, c, e)
    to_d, count, together, step_d = uint64(d.ctypes.data), d.shape[0], numbers[TOGETHER], 4 * d.shape[1]
    for t in range(0, count, together):
        tiles = min(together, count - t)
        if not _operands(t, tiles, given, steps, at, told, room):
            return False
        ahead = expect(within(room, told, AHEAD), t + tiles, count, given, steps, to_d, step_d, numbers[BLOCKS])
        _plainly(tiles, told, room, kind, ahead)
        store_results(tiles, at, told, room, to_d + uint64(t * step_d), step_d)
    return True


# ------------------------------------------------------------------------------------------------------------ groups


@merged
def _packed_groups(x, y, all_x, all_y, value_x, value_y, rest, numbers):  # type: ignore[no-untyped-def]
    """Pack so many vectors of x and of y without exponents; returns what `grouped_block` calls `unit`."""
    form_x, form_y = numbers + uint64(8 * FORMAT_X), numbers + uint64(8 * FORMAT_Y)
    seen_x, seen_y = survey(x, form_x, all_x), survey(y, form_y, all_y)
    pack(x, form_x, all_x, seen_x, value_x, rest, int64(0))
    pack(y, form_y, all_y, seen_y, value_y, rest, int64(0))
    return (seen_x >> PLACES) + (seen_y >> PLACES) + int64(2 * CENTRE) - number(numbers, OPTION)


@merged
def _value_tables(numbers, room):  # type: ignore[no-untyped-def]
    """Make tables of the values of all codes of x and of y, where elements are loaded otherwise; returns the unit."""
    x, y, every = within(room, numbers, IN_X), within(room, numbers, IN_Y), within(room, numbers, IN_C)
    for i in range(ENTRIES // 2):
        put_number(every, i, int64(2 * i) | int64(2 * i + 1) << 32)
    return _packed_groups(every, every, int64(1), int64(1), x, y, within(room, numbers, PACKED), numbers)


@merged
def _looked_up_values(tiles, words, step, tables, numbers, room, first, table, into):  # type: ignore[no-untyped-def]
    """The values of an operand of some tiles, whose numbers begin at `first`, from a table of those of all codes."""
    through, apart, vectors = within(room, numbers, WORDS_X), number(numbers, PICKED), number(numbers, first + 3)
    picked(tiles, words, step, within(tables, numbers, first), numbers, through, apart)
    source, bits = within(tables, numbers, first + 1), within(tables, numbers, first + 2)
    look_up(tiles, through, apart, source, bits, vectors, table, into)


@merged
def _all_looked_up_values(tiles, x, y, steps, tables, numbers, room):  # type: ignore[no-untyped-def]
    """The values of x and y of some tiles; the metadata is loaded. x, y: addresses of words."""
    value_x, stored, sparse = within(room, numbers, PACKED), within(room, numbers, STORED), number(numbers, SPREAD + 1)
    value_y = value_x + uint64(64 * tiles * number(numbers, VECTORS))
    to_x = stored if sparse else value_x
    _looked_up_values(tiles, x, steps[0], tables, numbers, room, int64(X), within(room, numbers, IN_X), to_x)
    if sparse:
        spread_stored(tiles, (stored,), tables, numbers, room, (int64(0),), (value_x,))
    _looked_up_values(tiles, y, steps[1], tables, numbers, room, int64(Y), within(room, numbers, IN_Y), value_y)


@merged
def _grouped(tiles, numbers, room, scale_x, scale_y, step_x, step_y, unit, ahead):  # type: ignore[no-untyped-def]
    """c += the groups of x times y with their scales, for some tiles; all but `tiles` and steps are addresses.

    unit: see `grouped_block`; x and y are packed.
    """
    value_x, at = within(room, numbers, PACKED), within(room, numbers, IN_C)
    vectors_x, vectors_y, size = number(numbers, VECTORS), number(numbers, VECTORS + 1), uint64(4)
    depth, groups = number(numbers, DEPTH), number(numbers, SUMS)
    value_y = value_x + uint64(64 * tiles * vectors_x)
    rest = value_y + uint64(64 * tiles * vectors_y)
    block = int64(0)
    for t in range(tiles):
        of_x, of_y = scale_x + uint64(t * step_x), scale_y + uint64(t * step_y)
        for i in range(vectors_x // (depth * groups)):
            for j in range(vectors_y * WIDTH // (depth * groups * ROWS)):
                fetch(ahead, block)
                block += 1
                grouped_block(
                    value_x + uint64((t * vectors_x + i * groups * depth) * WIDTH) * size,
                    value_y + uint64(t * vectors_y * WIDTH + j * groups * depth * ROWS) * size,
                    of_x + uint64(i * groups * WIDTH) * size, of_y + uint64(j * groups * ROWS) * size, at, rest,
                    numbers, depth, groups, unit,
                )  # fmt: skip
                at += uint64(ROWS * WIDTH) * size


@njit(cache=True, nogil=True, error_model="numpy")
def run_grouped(  # type: ignore[no-untyped-def]
    x, y, c, e, scale_x, scale_y, tables, numbers, scratch, d
):
    """Sums of groups of scaled products; whether all metadata was legal.

    scale_x and scale_y (tiles, scales): as `grouped_block` takes them.
    """
    room, at, told = uint64(scratch.ctypes.data), uint64(tables.ctypes.data), uint64(numbers.ctypes.data)
    given, steps = addresses(x, y, c, e)
    to_d, count, together = uint64(d.ctypes.data), d.shape[0], numbers[TOGETHER]
    scales_x, scales_y = uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data)
    step_x, step_y, step_d = 4 * scale_x.shape[1], 4 * scale_y.shape[1], 4 * d.shape[1]
    in_x, in_y, packed = within(room, told, IN_X), within(room, told, IN_Y), within(room, told, PACKED)
    quick = numbers[QUICK] != 0
    unit = _value_tables(told, room) if quick else int64(0)
    for t in range(0, count, together):
        tiles = min(together, count - t)
        if not load_codes(tiles, given[3] + uint64(t * steps[3]), steps[3], at, told, room):
            return False
        at_x, at_y = given[0] + uint64(t * steps[0]), given[1] + uint64(t * steps[1])
        if quick:
            _all_looked_up_values(tiles, at_x, at_y, steps, at, told, room)
        else:
            load_factors(tiles, at_x, at_y, steps, at, told, room)
            all_x, all_y = tiles * numbers[VECTORS], tiles * numbers[VECTORS + 1]
            value_y = packed + uint64(64 * all_x)
            rest = value_y + uint64(64 * all_y)
            unit = _packed_groups(in_x, in_y, all_x, all_y, packed, value_y, rest, told)
        load_addends(tiles, given[2] + uint64(t * steps[2]), steps[2], at, told, room)
        widen_addends(tiles, told, room)
        of_x, of_y = scales_x + uint64(t * step_x), scales_y + uint64(t * step_y)
        ahead = expect(within(room, told, AHEAD), t + tiles, count, given, steps, to_d, step_d, numbers[BLOCKS])
        _grouped(tiles, told, room, of_x, of_y, step_x, step_y, unit, ahead)
        store_results(tiles, at, told, room, to_d + uint64(t * step_d), step_d)
    return True
