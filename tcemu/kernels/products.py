"""The kernel that computes tiles: it loads their elements from words, multiplies by blocks, and stores the results.

Which arithmetic it does, and where everything is, are numbers and tables, so that it is compiled once for all of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import int64, uint64

from tcemu.kernels import sums as fast
from tcemu.kernels.blocks import ROWS, block
from tcemu.kernels.calls import address_of, call
from tcemu.kernels.compiling import njit
from tcemu.kernels.dots import bit_block, integer_block, integers
from tcemu.kernels.moves import extract, illegal, pick, spread, store, widen
from tcemu.kernels.packing import pack, pack_normal, pack_special, pack_wide, survey
from tcemu.kernels.scaled import grouped_block
from tcemu.kernels.simd import WIDTH

#: The places of the numbers that the kernels read besides the rule, which is first: the formats of x and y; for each of
#: x, y, c and the metadata, how it is loaded (where three tables begin, vectors, mask, bits to flip, see `extract`; if
#: mask is 0, elements are the words that are picked); what `store` takes (where its tables begin, their size, results
#: of a word, bits of a result, words, kind); the kind of addends; what else an arithmetic takes; the codes of metadata
#: that are not legal; what `spread` takes (where its table begins, rows, elements that may belong to one); the vectors
#: of x, y and c as the blocks take them; whether `pack_normal` is tried, where its tables of x and of y begin, and the
#: starts of their windows; where room begins for picking, for picked words of x and of y, stored elements, codes, x, y,
#: c and packed elements, and all its words.
FORMAT_X, FORMAT_Y, LOADS, STORE, ADDENDS, OPTION, ILLEGAL, SPREAD, VECTORS = 7, 14, 21, 45, 51, 52, 53, 54, 57
NORMAL, UPS_X, UPS_Y, START_X, START_Y = range(60, 65)
HELD, WORDS_X, WORDS_Y, STORED, CODES, IN_X, IN_Y, IN_C, PACKED, ROOM, NUMBERS = range(65, 76)
#: The numbers of an operand, in the order of LOADS.
X, Y, C, E = (np.int64(LOADS + 6 * operand) for operand in range(4))
#: After a tile with an element that is no normal number, or outside the window, so many tiles are not expected to be
#: better.
PATIENCE = 15


@njit(cache=True, nogil=True, error_model="numpy")
def multiply(  # type: ignore[no-untyped-def]
    x, vectors_x, y, vectors_y, steps, numbers, numbers_at, room, c, scale_x, scale_y, scaled, chains
):
    """c = `steps` chains that start from c, one after the other; returns what `pack` found.

    All but counts are addresses. x (groups, steps, sums, depth, 16) has the elements in vectors, and y (groups, steps,
    sums, depth, 4) those taken one at a time; vectors_x and vectors_y count both in vectors of 16. c (groups of x,
    groups of y, 4, 16): float32 patterns. numbers: the rule as `block` reads it, and both formats as `pack` reads them.
    room: three words for each pattern. With `scaled`, scale_x and scale_y are what `block` takes, for all groups. If an
    exponent is outside the window, only float32 results with all their bits are computed; for others nothing is.
    chains: see `chains_at`.
    """
    value_x, word_x, sign_x, value_y, word_y, sign_y = _rooms(room, vectors_x, vectors_y)
    form_x, form_y = numbers_at + uint64(8 * FORMAT_X), numbers_at + uint64(8 * FORMAT_Y)
    seen_x, seen_y = survey(x, form_x, vectors_x), survey(y, form_y, vectors_y)
    found = pack(x, form_x, vectors_x, seen_x, value_x, word_x, int64(1))
    found |= pack(y, form_y, vectors_y, seen_y, value_y, word_y, int64(0))
    if found & fast.OUTSIDE:
        if numbers[2] != 23 or numbers[3]:
            return found
        pack_wide(x, form_x, vectors_x, value_x, word_x)
        pack_wide(y, form_y, vectors_y, value_y, word_y)
    if found & fast.SPECIAL:
        pack_special(x, form_x, vectors_x, sign_x)
        pack_special(y, form_y, vectors_y, sign_y)
    base = (seen_x >> 1) + (seen_y >> 1)
    chain = numbers[5] * numbers[6]
    call(chains, (room, vectors_x, vectors_y, steps, chain, numbers_at, c, scale_x, scale_y, scaled, base, found))
    return found


@njit(cache=True, nogil=True)
def _rooms(room, vectors_x, vectors_y):  # type: ignore[no-untyped-def]
    """Where values, exponents and signs of packed elements go, of x and then of y."""
    size_x, size_y = uint64(64 * vectors_x), uint64(64 * vectors_y)
    other = room + uint64(3) * size_x
    return room, room + size_x, room + uint64(2) * size_x, other, other + size_y, other + uint64(2) * size_y


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _chains(  # type: ignore[no-untyped-def]
    room, vectors_x, vectors_y, steps, chain, numbers_at, c, scale_x, scale_y, scaled, base, found
):
    """The blocks of `multiply`, whose elements are packed. base: the sum of both starts; found: by `pack`."""
    value_x, word_x, sign_x, value_y, word_y, sign_y = _rooms(room, vectors_x, vectors_y)
    wide, special = int64(found & fast.OUTSIDE), int64(found & fast.SPECIAL)
    at, size, unit = c, uint64(4), uint64(4 if wide else 1)
    for i in range(vectors_x // (chain * steps)):
        for j in range(vectors_y * WIDTH // (chain * steps * ROWS)):
            for step in range(steps):
                at_x = uint64((i * steps + step) * chain * WIDTH) * size
                at_y = uint64((j * steps + step) * chain * ROWS)
                block(
                    value_x + at_x, word_x + at_x, value_y + at_y * size, word_y + at_y * unit, sign_x + at_x,
                    sign_y + at_y * size, scale_x + uint64(64 * i) * scaled, scale_y + uint64(16 * j) * scaled, at,
                    numbers_at, base, wide, special, int64(scaled),
                )  # fmt: skip
            at += uint64(ROWS * WIDTH) * size


@cache
def chains_at() -> int:
    """The address of the compiled `_chains`, which `multiply` and `run_fused` call."""
    return address_of(_chains, uint64, *[int64] * 4, *[uint64] * 5, int64, int64)


@njit(cache=True, nogil=True, error_model="numpy")
def _exactly(x, vectors_x, y, vectors_y, numbers, numbers_at, room, c, whole):  # type: ignore[no-untyped-def]
    """c += x times y, for integers (`whole`) or bits; the arguments are those of `multiply`."""
    depth, size, option = numbers[5] * numbers[6], uint64(4), numbers[OPTION]
    value_x, value_y = x, y
    if whole:
        value_x, value_y = room, room + uint64(64 * vectors_x)
        integers(x, numbers_at + uint64(8 * FORMAT_X), vectors_x, value_x)
        integers(y, numbers_at + uint64(8 * FORMAT_Y), vectors_y, value_y)
    at = c
    for i in range(vectors_x // depth):
        for j in range(vectors_y * WIDTH // (depth * ROWS)):
            at_x, at_y = value_x + uint64(i * depth * WIDTH) * size, value_y + uint64(j * depth * ROWS) * size
            if whole:
                integer_block(at_x, at_y, at, depth, option)
            else:
                bit_block(at_x, at_y, at, depth, option)
            at += uint64(ROWS * WIDTH) * size


@njit(cache=True, nogil=True, error_model="numpy")
def _grouped(x, vectors_x, y, vectors_y, numbers, numbers_at, room, c, scale_x, scale_y):  # type: ignore[no-untyped-def]
    """c += the groups of x times y with their scales; the arguments are those of `multiply`."""
    depth, groups = numbers[5], numbers[6]
    form_x, form_y = numbers_at + uint64(8 * FORMAT_X), numbers_at + uint64(8 * FORMAT_Y)
    seen_x, seen_y = survey(x, form_x, vectors_x), survey(y, form_y, vectors_y)
    size = uint64(4)
    value_y = room + uint64(64 * vectors_x)
    rest = value_y + uint64(64 * vectors_y)
    pack(x, form_x, vectors_x, seen_x, room, rest, int64(0))
    pack(y, form_y, vectors_y, seen_y, value_y, rest, int64(0))
    unit = (seen_x >> 1) + (seen_y >> 1) + int64(2 * fast.CENTRE) - numbers[OPTION]
    at = c
    for i in range(vectors_x // (depth * groups)):
        for j in range(vectors_y * WIDTH // (depth * groups * ROWS)):
            grouped_block(
                room + uint64(i * groups * depth * WIDTH) * size, value_y + uint64(j * groups * depth * ROWS) * size,
                scale_x + uint64(i * groups * WIDTH) * size, scale_y + uint64(j * groups * ROWS) * size, at, rest,
                numbers_at, depth, groups, unit,
            )  # fmt: skip
            at += uint64(ROWS * WIDTH) * size


# ------------------------------------------------------------------------------------------------------ in and out


@njit(cache=True, nogil=True)
def _words(at, number):  # type: ignore[no-untyped-def]
    """The address a number of words after another."""
    return at + uint64(number) * uint64(4)


@njit(cache=True, nogil=True)
def _pick(words, tables, numbers, room, first, into):  # type: ignore[no-untyped-def]
    """Pick the words of an operand, whose numbers begin at `first`; words, tables, room and into are addresses."""
    pick(words, _words(tables, numbers[first]), _words(room, numbers[HELD]), into)


@njit(cache=True, nogil=True)
def _extract(picked, tables, numbers, first, into):  # type: ignore[no-untyped-def]
    """The elements of an operand, whose numbers begin at `first`, from the words that were picked; addresses."""
    source, bits = _words(tables, numbers[first + 1]), _words(tables, numbers[first + 2])
    extract(picked, source, bits, numbers[first + 3], numbers[first + 4], numbers[first + 5], into)


@njit(cache=True, nogil=True)
def _load(words, tables, numbers, room, first, through, into):  # type: ignore[no-untyped-def]
    """The elements of an operand of one tile; `through`: room for the words that are picked."""
    if numbers[first + 4]:
        _pick(words, tables, numbers, room, first, through)
        _extract(through, tables, numbers, first, into)
    else:
        _pick(words, tables, numbers, room, first, into)


@njit(cache=True, nogil=True)
def _operands(t, given, steps, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load tile t; whether its metadata is legal. given: addresses of the words of x, y, c and e; steps: of a tile."""
    rows, t, x = numbers[SPREAD + 1], uint64(t), _words(room, numbers[IN_X])
    stored, codes = _words(room, numbers[STORED]), _words(room, numbers[CODES])
    of_x, of_y = _words(room, numbers[WORDS_X]), _words(room, numbers[WORDS_Y])
    _load(given[0] + t * steps[0], tables, numbers, room, int64(X), of_x, stored if rows else x)
    if rows:
        _load(given[3] + t * steps[3], tables, numbers, room, int64(E), of_y, codes)
        if illegal(codes, numbers[E + 3], numbers[ILLEGAL]):
            return False
        spread(stored, codes, _words(tables, numbers[SPREAD]), rows, numbers[SPREAD + 2], x)
    _load(given[1] + t * steps[1], tables, numbers, room, int64(Y), of_y, _words(room, numbers[IN_Y]))
    _load(given[2] + t * steps[2], tables, numbers, room, int64(C), of_y, _words(room, numbers[IN_C]))
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _quickly(t, given, steps, tables, numbers, numbers_at, room, scale_x, scale_y, scaled, chains):  # type: ignore[no-untyped-def]
    """Load and multiply tile t if all its elements are normal numbers in a window; whether they are."""
    t, packed, c = uint64(t), _words(room, numbers[PACKED]), _words(room, numbers[IN_C])
    of_x, of_y = _words(room, numbers[WORDS_X]), _words(room, numbers[WORDS_Y])
    vectors_x, vectors_y = numbers[VECTORS], numbers[VECTORS + 1]
    form_x, form_y = numbers_at + uint64(8 * FORMAT_X), numbers_at + uint64(8 * FORMAT_Y)
    value_x, word_x, _, value_y, word_y, _ = _rooms(packed, vectors_x, vectors_y)
    _pick(given[0] + t * steps[0], tables, numbers, room, int64(X), of_x)
    source, ups = _words(tables, numbers[X + 1]), _words(tables, numbers[UPS_X])
    if pack_normal(of_x, source, ups, vectors_x, form_x, numbers[START_X], value_x, word_x, int64(1)):
        return False
    _pick(given[1] + t * steps[1], tables, numbers, room, int64(Y), of_y)
    source, ups = _words(tables, numbers[Y + 1]), _words(tables, numbers[UPS_Y])
    if pack_normal(of_y, source, ups, vectors_y, form_y, numbers[START_Y], value_y, word_y, int64(0)):
        return False
    _load(given[2] + t * steps[2], tables, numbers, room, int64(C), of_y, c)
    widen(c, numbers[ADDENDS], numbers[VECTORS + 2], c)
    base = numbers[START_X] + numbers[START_Y]
    chain = numbers[5] * numbers[6]
    call(chains, (packed, vectors_x, vectors_y, 1, chain, numbers_at, c, scale_x, scale_y, scaled, base, 0))
    return True


@njit(cache=True, nogil=True)
def _store(tables, numbers, room, words):  # type: ignore[no-untyped-def]
    """Store the results of one tile into words."""
    c, at, size = _words(room, numbers[IN_C]), _words(tables, numbers[STORE]), numbers[STORE + 1]
    per, width, count, kind = numbers[STORE + 2], numbers[STORE + 3], numbers[STORE + 4], numbers[STORE + 5]
    store(c, numbers[VECTORS + 2], kind, at, size, per, width, count, _words(room, numbers[HELD]), words)


@njit(cache=True, nogil=True)
def _addresses(x, y, c, e):  # type: ignore[no-untyped-def]
    """The addresses of the words of x, y, c and e (tiles, words), and the bytes of a tile."""
    size = uint64(4)
    given = uint64(x.ctypes.data), uint64(y.ctypes.data), uint64(c.ctypes.data), uint64(e.ctypes.data)
    sizes = uint64(x.shape[1]), uint64(y.shape[1]), uint64(c.shape[1]), uint64(e.shape[1])
    return given, (sizes[0] * size, sizes[1] * size, sizes[2] * size, sizes[3] * size)


# ------------------------------------------------------------------------------------------------------ many tiles
# d[t] = the results of tile t, for words x, y, c and metadata e (tiles, words); whether all metadata was legal. x is
# the operand whose elements are in vectors, y the one whose elements are taken one at a time. e has no words if x is
# dense. tables: what `load` takes for x, y, c and e, what `store` takes, and what `spread` takes. numbers: those of
# `multiply`, then see FORMAT_X. scratch: numbers[ROOM] words; the caller makes them, because numba frees an array after
# its last use, and does not count the uses of its address. There is a function for each arithmetic, so that no process
# compiles what it does not compute.


@njit(cache=True, nogil=True, error_model="numpy")
def run_fused(  # type: ignore[no-untyped-def]
    x, y, c, e, scale_x, scale_y, tables, numbers, scratch, d, chains
):
    """Chains of fused sums; scale_x and scale_y (tiles, scales): as `block` takes them, or empty."""
    room = uint64(scratch.ctypes.data)
    at_x, at_y, at_c = _words(room, numbers[IN_X]), _words(room, numbers[IN_Y]), _words(room, numbers[IN_C])
    packed = _words(room, numbers[PACKED])
    given, steps = _addresses(x, y, c, e)
    at, numbers_at, to_d = uint64(tables.ctypes.data), uint64(numbers.ctypes.data), uint64(d.ctypes.data)
    scales_x, scales_y, scaled = (
        uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data), uint64(1 if scale_x.shape[0] else 0)
    )  # fmt: skip
    step_x, step_y, step_d = uint64(4 * scale_x.shape[1]), uint64(4 * scale_y.shape[1]), uint64(4 * d.shape[1])
    vectors_x, vectors_y, vectors_c = numbers[VECTORS], numbers[VECTORS + 1], numbers[VECTORS + 2]
    later = 0 if numbers[NORMAL] else d.shape[0]
    for t in range(d.shape[0]):
        of_x, of_y = scales_x + uint64(t) * step_x, scales_y + uint64(t) * step_y
        if t < later or not _quickly(t, given, steps, at, numbers, numbers_at, room, of_x, of_y, scaled, chains):
            later = later if t < later else t + PATIENCE
            if not _operands(t, given, steps, at, numbers, room):
                return False
            widen(at_c, numbers[ADDENDS], vectors_c, at_c)
            multiply(
                at_x, vectors_x, at_y, vectors_y, 1, numbers, numbers_at, packed, at_c, of_x, of_y, scaled, chains
            )
        _store(at, numbers, room, to_d + uint64(t) * step_d)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def run_grouped(  # type: ignore[no-untyped-def]
    x, y, c, e, scale_x, scale_y, tables, numbers, scratch, d
):
    """Sums of groups of scaled products; scale_x and scale_y (tiles, scales): as `grouped_block` takes them."""
    room = uint64(scratch.ctypes.data)
    at_x, at_y, at_c = _words(room, numbers[IN_X]), _words(room, numbers[IN_Y]), _words(room, numbers[IN_C])
    packed = _words(room, numbers[PACKED])
    given, steps = _addresses(x, y, c, e)
    at, numbers_at, to_d = uint64(tables.ctypes.data), uint64(numbers.ctypes.data), uint64(d.ctypes.data)
    scales_x, scales_y = uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data)
    step_x, step_y, step_d = uint64(4 * scale_x.shape[1]), uint64(4 * scale_y.shape[1]), uint64(4 * d.shape[1])
    vectors_x, vectors_y, vectors_c = numbers[VECTORS], numbers[VECTORS + 1], numbers[VECTORS + 2]
    for t in range(d.shape[0]):
        if not _operands(t, given, steps, at, numbers, room):
            return False
        widen(at_c, numbers[ADDENDS], vectors_c, at_c)
        of_x, of_y = scales_x + uint64(t) * step_x, scales_y + uint64(t) * step_y
        _grouped(at_x, vectors_x, at_y, vectors_y, numbers, numbers_at, packed, at_c, of_x, of_y)
        _store(at, numbers, room, to_d + uint64(t) * step_d)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def run_exactly(x, y, c, e, whole, tables, numbers, scratch, d):  # type: ignore[no-untyped-def]
    """Sums of small integers (`whole`), or of bits."""
    room = uint64(scratch.ctypes.data)
    at_x, at_y, at_c = _words(room, numbers[IN_X]), _words(room, numbers[IN_Y]), _words(room, numbers[IN_C])
    packed = _words(room, numbers[PACKED])
    given, steps = _addresses(x, y, c, e)
    at, numbers_at, to_d = uint64(tables.ctypes.data), uint64(numbers.ctypes.data), uint64(d.ctypes.data)
    step_d, vectors_x, vectors_y = uint64(4 * d.shape[1]), numbers[VECTORS], numbers[VECTORS + 1]
    for t in range(d.shape[0]):
        if not _operands(t, given, steps, at, numbers, room):
            return False
        _exactly(at_x, vectors_x, at_y, vectors_y, numbers, numbers_at, packed, at_c, whole)
        _store(at, numbers, room, to_d + uint64(t) * step_d)
    return True
