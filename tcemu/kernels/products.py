"""The kernel that computes tiles: it loads their elements from words, multiplies by blocks, and stores the results.

Which arithmetic it does, and where everything is, are numbers and tables, so that it is compiled once for all of them.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from tcemu.kernels import sums as fast
from tcemu.kernels.blocks import ROWS, block
from tcemu.kernels.compiling import njit
from tcemu.kernels.dots import bit_block, integer_block, integers
from tcemu.kernels.moves import illegal, load, spread, store, widen
from tcemu.kernels.packing import pack, pack_special, pack_wide, window
from tcemu.kernels.scaled import grouped_block
from tcemu.kernels.simd import WIDTH

#: Kinds of arithmetic.
FUSED, GROUPED, INTEGERS, BITS = range(4)
#: The places of the numbers that the kernels read besides the rule, which is first: the formats of x and y; the masks
#: of x, y and c; the bits of x and y to flip; the kinds of accumulators and of results; the bits of a result, and how
#: many results a word has; the size of the table by which `load` picks words and how many vectors it makes, for x, y, c
#: and the metadata; the words of a result; the kind of arithmetic, and what else it takes; the codes of metadata that
#: are not legal, the rows of `spread` and how many elements may belong to one; the size of the tables of `store`.
FORMAT_X, FORMAT_Y, MASKS, FLIPS, HALVES, RESULTS, COUNTS = 7, 14, 21, 24, 26, 28, 30
WORDS_D, KIND, OPTION, ILLEGAL, SPREAD, OUT, NUMBERS = 38, 39, 40, 41, 42, 44, 45


@njit(cache=True, nogil=True, error_model="numpy")
def multiply(  # type: ignore[no-untyped-def]
    x, vectors_x, y, vectors_y, steps, numbers, numbers_at, room, c, scale_x, scale_y, scaled
):
    """c = `steps` chains that start from c, one after the other; returns what `pack` found.

    All but counts are addresses. x (groups, steps, sums, depth, 16) has the elements in vectors, and y (groups, steps,
    sums, depth, 4) those taken one at a time; vectors_x and vectors_y count both in vectors of 16. c (groups of x,
    groups of y, 4, 16): float32 patterns. numbers: the rule as `block` reads it, and both formats as `pack` reads them.
    room: three words for each pattern. With `scaled`, scale_x and scale_y are what `block` takes, for all groups. If an
    exponent is outside the window, only float32 results with all their bits are computed; for others nothing is.
    """
    size_x, size_y = uint64(64 * vectors_x), uint64(64 * vectors_y)
    value_x, word_x, sign_x = room, room + size_x, room + uint64(2) * size_x
    value_y = room + uint64(3) * size_x
    word_y, sign_y = value_y + size_y, value_y + uint64(2) * size_y
    form_x, form_y = numbers_at + uint64(8 * FORMAT_X), numbers_at + uint64(8 * FORMAT_Y)
    start_x, start_y = window(x, form_x, vectors_x), window(y, form_y, vectors_y)
    found = pack(x, form_x, vectors_x, start_x, value_x, word_x, int64(1))
    found |= pack(y, form_y, vectors_y, start_y, value_y, word_y, int64(0))
    wide, special = int64(found & fast.OUTSIDE), int64(found & fast.SPECIAL)
    if wide:
        if numbers[2] != 23 or numbers[3]:
            return found
        pack_wide(x, form_x, vectors_x, value_x, word_x)
        pack_wide(y, form_y, vectors_y, value_y, word_y)
    if special:
        pack_special(x, form_x, vectors_x, sign_x)
        pack_special(y, form_y, vectors_y, sign_y)
    at, size, unit = c, uint64(4), uint64(4 if wide else 1)
    chain = numbers[5] * numbers[6]
    for i in range(vectors_x // (chain * steps)):
        for j in range(vectors_y * WIDTH // (chain * steps * ROWS)):
            for step in range(steps):
                at_x = uint64((i * steps + step) * chain * WIDTH) * size
                at_y = uint64((j * steps + step) * chain * ROWS)
                block(
                    value_x + at_x, word_x + at_x, value_y + at_y * size, word_y + at_y * unit, sign_x + at_x,
                    sign_y + at_y * size, scale_x + uint64(64 * i) * scaled, scale_y + uint64(16 * j) * scaled, at,
                    numbers_at, start_x + start_y, wide, special, int64(scaled),
                )  # fmt: skip
            at += uint64(ROWS * WIDTH) * size
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _exactly(x, vectors_x, y, vectors_y, numbers, numbers_at, room, c):  # type: ignore[no-untyped-def]
    """c += x times y, for integers or bits; the arguments are those of `multiply`."""
    depth, size = numbers[5] * numbers[6], uint64(4)
    whole, option = numbers[KIND] == INTEGERS, numbers[OPTION]
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
    start_x, start_y = window(x, form_x, vectors_x), window(y, form_y, vectors_y)
    size = uint64(4)
    value_y = room + uint64(64 * vectors_x)
    rest = value_y + uint64(64 * vectors_y)
    pack(x, form_x, vectors_x, start_x, room, rest, int64(0))
    pack(y, form_y, vectors_y, start_y, value_y, rest, int64(0))
    unit = start_x + start_y + int64(2 * fast.CENTRE) - numbers[OPTION]
    at = c
    for i in range(vectors_x // (depth * groups)):
        for j in range(vectors_y * WIDTH // (depth * groups * ROWS)):
            grouped_block(
                room + uint64(i * groups * depth * WIDTH) * size, value_y + uint64(j * groups * depth * ROWS) * size,
                scale_x + uint64(i * groups * WIDTH) * size, scale_y + uint64(j * groups * ROWS) * size, at, rest,
                numbers_at, depth, groups, unit,
            )  # fmt: skip
            at += uint64(ROWS * WIDTH) * size


@njit(cache=True, nogil=True, error_model="numpy")
def run(x, y, c, e, scale_x, scale_y, tables, numbers, d):  # type: ignore[no-untyped-def]
    """d[t] = the results of tile t, for words x, y, c and metadata e (tiles, words); whether all metadata was legal.

    x is the operand whose elements are in vectors, y the one whose elements are taken one at a time. e has no words if
    x is dense. scale_x and scale_y (tiles, scales): as the blocks take them, or empty. tables: what `load` takes for
    x, y, c and e, then what `store` takes, then what `spread` takes. numbers: those of `multiply`, then see FORMAT_X.
    """
    kind, option_e = numbers[KIND], numbers[ILLEGAL]
    mask_x, mask_y, mask_c = numbers[MASKS], numbers[MASKS + 1], numbers[MASKS + 2]
    flip_x, flip_y = numbers[FLIPS], numbers[FLIPS + 1]
    half_c, half_d, width, per = numbers[HALVES], numbers[HALVES + 1], numbers[RESULTS], numbers[RESULTS + 1]
    pick_x, count_x = numbers[COUNTS], numbers[COUNTS + 1]
    pick_y, count_y = numbers[COUNTS + 2], numbers[COUNTS + 3]
    pick_c, count_c = numbers[COUNTS + 4], numbers[COUNTS + 5]
    pick_e, count_e, words_d = numbers[COUNTS + 6], numbers[COUNTS + 7], numbers[WORDS_D]
    rows, elements = numbers[SPREAD], numbers[SPREAD + 1]
    size, table = uint64(4), uint64(tables.ctypes.data)
    # for each operand: the words to pick, the source of each vector, bits
    x_1 = table + uint64(pick_x) * size
    x_2 = x_1 + uint64(count_x) * size
    y_0 = x_2 + uint64(count_x) * uint64(64)
    y_1 = y_0 + uint64(pick_y) * size
    y_2 = y_1 + uint64(count_y) * size
    c_0 = y_2 + uint64(count_y) * uint64(64)
    c_1 = c_0 + uint64(pick_c) * size
    c_2 = c_1 + uint64(count_c) * size
    e_0 = c_2 + uint64(count_c) * uint64(64)
    e_1 = e_0 + uint64(pick_e) * size
    e_2 = e_1 + uint64(count_e) * size
    out = e_2 + uint64(count_e) * uint64(64)
    of_spread = out + uint64(numbers[OUT] * per) * size
    sparse = count_e > 0
    stored, codes = np.empty(count_x * WIDTH if sparse else 0, np.uint32), np.empty(count_e * WIDTH, np.uint32)
    packed_x = rows if sparse else count_x
    patterns_x, patterns_y = np.empty(packed_x * WIDTH, np.uint32), np.empty(count_y * WIDTH, np.uint32)
    scratch = (packed_x + count_y) * 3 * WIDTH + numbers[6] * 2 * ROWS * WIDTH
    packed = np.empty(scratch, np.int32)
    held = np.empty(max(pick_x, pick_y, pick_c, pick_e, numbers[OUT]), np.uint32)
    running = np.empty(count_c * WIDTH, np.int32)
    # addresses, taken once: each access to one changes the array's reference count
    all_x, all_y, at_c = uint64(patterns_x.ctypes.data), uint64(patterns_y.ctypes.data), uint64(running.ctypes.data)
    at_x, at_e = uint64(stored.ctypes.data) if sparse else all_x, uint64(codes.ctypes.data)
    room, pack_room, numbers_at = uint64(held.ctypes.data), uint64(packed.ctypes.data), uint64(numbers.ctypes.data)
    from_x, from_y, from_c = uint64(x.ctypes.data), uint64(y.ctypes.data), uint64(c.ctypes.data)
    from_e, step_e = uint64(e.ctypes.data), uint64(e.shape[1]) * size
    step_x, step_y, step_c = uint64(x.shape[1]) * size, uint64(y.shape[1]) * size, uint64(c.shape[1]) * size
    to_d, scaled = uint64(d.ctypes.data), uint64(1 if scale_x.shape[0] else 0)
    scales_x, scales_y = uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data)
    step_scale_x, step_scale_y = uint64(scale_x.shape[1]) * size, uint64(scale_y.shape[1]) * size
    for _ in range(c.shape[0]):
        load(from_x, table, x_1, x_2, count_x, mask_x, flip_x, room, at_x)
        if sparse:
            load(from_e, e_0, e_1, e_2, count_e, int64(15), int64(0), room, at_e)
            if illegal(at_e, count_e, option_e):
                return False
            spread(at_x, at_e, of_spread, rows, elements, all_x)
        load(from_y, y_0, y_1, y_2, count_y, mask_y, flip_y, room, all_y)
        load(from_c, c_0, c_1, c_2, count_c, mask_c, int64(0), room, at_c)
        if kind >= INTEGERS:
            _exactly(all_x, packed_x, all_y, count_y, numbers, numbers_at, pack_room, at_c)
        else:
            widen(at_c, half_c, count_c, at_c)
            if kind == GROUPED:
                _grouped(
                    all_x, packed_x, all_y, count_y, numbers, numbers_at, pack_room, at_c, scales_x, scales_y
                )
            else:
                multiply(
                    all_x, packed_x, all_y, count_y, 1, numbers, numbers_at, pack_room, at_c, scales_x, scales_y, scaled
                )
        store(at_c, count_c, half_d, out, numbers[OUT], per, width, words_d, room, to_d)
        scales_x, scales_y, from_e = scales_x + step_scale_x, scales_y + step_scale_y, from_e + step_e
        from_x, from_y, from_c, to_d = from_x + step_x, from_y + step_y, from_c + step_c, to_d + uint64(words_d) * size
    return True
