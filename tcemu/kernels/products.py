"""The kernel that computes tiles: it loads their elements from words, multiplies by blocks, and stores the results.

Which arithmetic it does, and where everything is, are numbers and tables, so that it is compiled once for all of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import int64, uint64

from tcemu.kernels import sums as fast
from tcemu.kernels.ahead import expect, fetch
from tcemu.kernels.calls import address_of, call, number
from tcemu.kernels.compiling import merged, njit
from tcemu.kernels.dots import bit_block, integer_block, integers
from tcemu.kernels.groups import chain_block, widen_halves
from tcemu.kernels.lanes import WIDTH
from tcemu.kernels.loading import (
    ADDENDS,
    AHEAD,
    BLOCKS,
    FEW,
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
    load_addends,
    load_codes,
    load_factors,
    picked,
    spread_stored,
    store_results,
    widen_addends,
    within,
)
from tcemu.kernels.moves import HALVES, addresses
from tcemu.kernels.nests import blocks
from tcemu.kernels.packing import PLACES, SEARCHED, pack, survey
from tcemu.kernels.packing_rest import pack_special, pack_wide
from tcemu.kernels.packing_words import exponents, pack_words
from tcemu.kernels.rule import BITS, CHAINS, DEPTH, HALF, INTEGERS, KEEP, ROWS, SUMS
from tcemu.kernels.sharing import PART, finish_some, leave, take, wait_for_all
from tcemu.kernels.short_sums import bits_below, is_short, may_be_short, short_block, squares

#: After tiles with NaN, an infinity or an element outside the window, so many are not expected to be better.
PATIENCE = 16
#: What is expected of elements: that there are NaN and infinities, and some outside any window.
CARE, WIDE = 1, 2
#: Four times the exponent of an element that a sparse A does not store.
_ABSENT = np.int64((fast.ABSENT & 0xFF) * 0x01010101)


@merged
def multiply(  # type: ignore[no-untyped-def]
    tiles, x, vectors_x, y, vectors_y, steps, numbers, room, c, scales, chains, ahead, expected
):
    """c = `steps` chains that start from c, one after the other, for each of some tiles; returns what `pack` found.

    All but counts are addresses. x (tiles, groups, steps, sums, depth, 16) has the elements in vectors, and y (tiles,
    groups, steps, sums, depth, 4) those taken one at a time; vectors_x and vectors_y count those of a tile in vectors
    of 16. c (tiles, groups of x, groups of y, 4, 16): float32 patterns. numbers: the rule as `blocks` reads it, and
    both formats as `pack` reads them. room: three words for each pattern. scales: where those of x and of y are, as
    `blocks` takes them, for all groups; the bytes from a tile's to the next, of both; and whether there are any. If an
    exponent is outside the window, only float32 results with all their bits are computed. chains: see `chains_at`;
    ahead: see `expect`. expected: CARE, WIDE, both, or 0.
    """
    all_x, all_y = tiles * vectors_x, tiles * vectors_y
    value_x, word_x, sign_x, value_y, word_y, sign_y = _rooms(room, all_x, all_y)
    form_x, form_y = numbers + uint64(8 * FORMAT_X), numbers + uint64(8 * FORMAT_Y)
    may_be_wide, found, base = number(numbers, KEEP) == 23 and not number(numbers, HALF), int64(fast.OUTSIDE), int64(0)
    if not (may_be_wide and expected & WIDE):
        care = int64(expected & CARE)
        seen_x, seen_y = survey(x, form_x, all_x), survey(y, form_y, all_y)
        base = (seen_x >> PLACES) + (seen_y >> PLACES)
        found = (seen_x | seen_y) >> 1 & (fast.SPECIAL | fast.OUTSIDE)
        if not (found & fast.OUTSIDE and seen_x & seen_y & SEARCHED):
            found = pack(x, form_x, all_x, seen_x | care, value_x, word_x, int64(1))
            found |= pack(y, form_y, all_y, seen_y | care, value_y, word_y, int64(0))
    if found & fast.OUTSIDE:
        if not may_be_wide:
            return found
        found |= pack_wide(x, form_x, all_x, value_x, word_x, int64(1))
        found |= pack_wide(y, form_y, all_y, value_y, word_y, int64(0))
    if found & fast.SPECIAL:
        pack_special(x, form_x, all_x, sign_x)
        pack_special(y, form_y, all_y, sign_y)
    call(chains[0], (tiles, room, vectors_x, vectors_y, steps, numbers, c, *scales, base, found, ahead, chains[1]))
    return found


@merged
def _rooms(room, vectors_x, vectors_y):  # type: ignore[no-untyped-def]
    """Where values, exponents and signs of packed elements go, of x and then of y, for so many vectors of all tiles."""
    size_x, size_y = uint64(64 * vectors_x), uint64(64 * vectors_y)
    other = room + uint64(3) * size_x
    return room, room + size_x, room + uint64(2) * size_x, other, other + size_y, other + uint64(2) * size_y


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _blocks(  # type: ignore[no-untyped-def]
    tiles, of_x, of_y, steps, chain, value_x, word_x, sign_x, value_y, word_y, sign_y, scale_x, scale_y, step_x, step_y,
    c, rule, base, wide, special, scaled, short, ahead, first,
):
    """`blocks` as a function of its own."""
    packed, scales, apart = (value_x, word_x, sign_x, value_y, word_y, sign_y), (scale_x, scale_y), (step_x, step_y)
    flags = wide, special, scaled, short
    blocks(tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, *flags, ahead, first)


@merged
def _mostly_short(tiles, of_x, of_y, steps, squares_x, squares_y, numbers):  # type: ignore[no-untyped-def]
    """Whether most chains of some tiles are short; squares_x, squares_y: from `squares`.

    If fewer are, all of them together take less time as ordinary chains.
    """
    size, count = uint64(4), int64(0)
    for group in range(tiles * of_x):
        first = group // of_x * of_y
        for column in range(of_y):
            for step in range(steps):
                at_x, at_y = uint64(group * steps + step) * size, uint64((first + column) * steps + step) * size
                count += is_short(squares_x + at_x, squares_y + at_y, numbers)
    return 2 * count > tiles * of_x * of_y * steps


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _chains(  # type: ignore[no-untyped-def]
    tiles, room, vectors_x, vectors_y, steps, numbers, c, scale_x, scale_y, step_x, step_y, scaled, base, found, ahead,
    code,
):
    """The blocks of `multiply`, whose elements are packed.

    base: the sum of both starts. found: by `pack`, or BARE. code: the address of `_blocks`.
    """
    wide, special, bare = int64(found & fast.OUTSIDE), int64(found & fast.SPECIAL), int64(found & fast.BARE)
    depth, sums = number(numbers, DEPTH), number(numbers, SUMS)
    chain = depth * sums
    of_x, of_y = vectors_x // (chain * steps), vectors_y * WIDTH // (chain * steps * ROWS)
    value_x, word_x, sign_x, value_y, word_y, sign_y = _rooms(room, tiles * vectors_x, tiles * vectors_y)
    scales = scale_x, scale_y, step_x, step_y
    counts, size, at_x, at_y, into = (tiles, of_x, of_y, steps), uint64(4), uint64(0), uint64(0), c
    possible = not (wide | special) and may_be_short(numbers, FORMAT_X, FORMAT_Y, scaled)
    if possible:
        squares(value_x, tiles * of_x * steps, sums, depth, int64(0), sign_x)
        squares(value_y, tiles * of_y * steps, sums, depth // (WIDTH // ROWS), int64(1), sign_y)
    # With scales, `blocks` looks at each chain. Without, each is looked at here if most are short; if not, all are
    # computed at once.
    below = bits_below(numbers, FORMAT_X) + bits_below(numbers, FORMAT_Y)
    short = 1 + below if possible and scaled else int64(0)
    one_by_one = possible and not scaled and _mostly_short(tiles, of_x, of_y, steps, sign_x, sign_y, numbers)
    group, column, step, first, block = int64(0), int64(0), int64(-1), int64(0), int64(0)
    for _ in range(tiles * of_x * of_y * steps if one_by_one else 1):
        if one_by_one:
            counts, step = (int64(1), int64(1), int64(1), int64(1)), step + 1
            if step == steps:
                step, column = int64(0), column + 1
            if column == of_y:
                column, group = int64(0), group + 1
                first = group // of_x * of_y
            number_x, number_y = uint64(group * steps + step), uint64((first + column) * steps + step)
            at_x, at_y = number_x * uint64(chain * WIDTH) * size, number_y * uint64(chain * ROWS)
            block = group * of_y + column
            into = c + uint64(block * ROWS * WIDTH) * size
            if is_short(sign_x + number_x * size, sign_y + number_y * size, numbers):
                fetch(ahead, block)
                short_block(value_x + at_x, value_y + at_y * size, into, sums, depth, base)
                continue
        if bare:
            exponents(value_x, tiles * vectors_x, word_x, int64(1))
            exponents(value_y, tiles * vectors_y, word_y, int64(0))
            bare = int64(0)
        packed = (value_x + at_x, word_x + at_x, sign_x, value_y + at_y * size, word_y + at_y, sign_y)
        flags = wide, special, int64(scaled), short
        call(code, (*counts, chain, *packed, *scales, into, numbers, base, *flags, ahead, block))


@cache
def chains_at() -> tuple[int, int]:
    """The addresses of the compiled `_chains`, which `multiply` and `run_fused` call, and of `_blocks`."""
    scales, end = [uint64, uint64, int64, int64], [uint64, int64]
    inner = address_of(_blocks, *[int64] * 5, *[uint64] * 6, *scales, uint64, uint64, *[int64] * 5, *end)
    kinds = int64, uint64, *[int64] * 3, uint64, uint64, *scales, uint64, int64, int64, uint64, uint64
    return address_of(_chains, *kinds), inner


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
        if number(numbers, ADDENDS) == HALVES:
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
    value_x, word_x, _, value_y, word_y, _ = _rooms(packed, tiles * vectors_x, tiles * vectors_y)
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
# `tcemu.kernels.loading`; the numbers of `multiply` are first. scratch: numbers[ROOM] words; the caller makes them,
# because numba frees an array after its last use, and does not count the uses of its address. There is a function for
# each arithmetic, so that no process compiles what it does not compute. All others take addresses: numba counts the
# users of an array that is passed on, with an instruction that stops the processor for some twenty cycles.


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
    bare = int64(fast.BARE) if not scaled and may_be_short(told, FORMAT_X, FORMAT_Y, uint64(0)) else int64(0)
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
                found = multiply(
                    tiles, in_x, vectors_x, in_y, vectors_y, 1, told, packed, in_c, scales, chains, ahead, expected,
                )  # fmt: skip
                if found & fast.OUTSIDE and t >= wide:
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
    """Sums of small integers, of bits, or of chains of multiply-adds; whether all metadata was legal."""
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
