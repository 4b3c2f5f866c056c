"""The kernel that computes tiles of groups of products with scales; `tcemu.kernels.products` says what it takes."""

from __future__ import annotations

from numba import int64, uint64

from tcemu.kernels import sums as fast
from tcemu.kernels.ahead import expect, fetch
from tcemu.kernels.calls import number, put
from tcemu.kernels.compiling import merged, njit
from tcemu.kernels.lanes import WIDTH
from tcemu.kernels.loading import (
    AHEAD,
    BLOCKS,
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
    STORED,
    TOGETHER,
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
from tcemu.kernels.moves import ENTRIES, addresses, look_up
from tcemu.kernels.packing import PLACES, pack, survey
from tcemu.kernels.rule import DEPTH, ROWS, SUMS
from tcemu.kernels.scaled import grouped_block


@merged
def _packed(x, y, all_x, all_y, value_x, value_y, rest, numbers):  # type: ignore[no-untyped-def]
    """Pack so many vectors of x and of y without exponents; returns what `grouped_block` calls `unit`."""
    form_x, form_y = numbers + uint64(8 * FORMAT_X), numbers + uint64(8 * FORMAT_Y)
    seen_x, seen_y = survey(x, form_x, all_x), survey(y, form_y, all_y)
    pack(x, form_x, all_x, seen_x, value_x, rest, int64(0))
    pack(y, form_y, all_y, seen_y, value_y, rest, int64(0))
    return (seen_x >> PLACES) + (seen_y >> PLACES) + int64(2 * fast.CENTRE) - number(numbers, OPTION)


@merged
def _value_tables(numbers, room):  # type: ignore[no-untyped-def]
    """Make tables of the values of all codes of x and of y, where elements are loaded otherwise; returns the unit."""
    x, y, every = within(room, numbers, IN_X), within(room, numbers, IN_Y), within(room, numbers, IN_C)
    for i in range(ENTRIES // 2):
        put(every, i, int64(2 * i) | int64(2 * i + 1) << 32)
    return _packed(every, every, int64(1), int64(1), x, y, within(room, numbers, PACKED), numbers)


@merged
def _values(tiles, words, step, tables, numbers, room, first, table, into):  # type: ignore[no-untyped-def]
    """The values of an operand of some tiles, whose numbers begin at `first`, from a table of those of all codes."""
    through, apart, vectors = within(room, numbers, WORDS_X), number(numbers, PICKED), number(numbers, first + 3)
    picked(tiles, words, step, within(tables, numbers, first), numbers, through, apart)
    source, bits = within(tables, numbers, first + 1), within(tables, numbers, first + 2)
    look_up(tiles, through, apart, source, bits, vectors, table, into)


@merged
def _all_values(tiles, x, y, steps, tables, numbers, room):  # type: ignore[no-untyped-def]
    """The values of x and y of some tiles; the metadata is loaded. x, y: addresses of words."""
    value_x, stored, sparse = within(room, numbers, PACKED), within(room, numbers, STORED), number(numbers, SPREAD + 1)
    value_y = value_x + uint64(64 * tiles * number(numbers, VECTORS))
    to_x = stored if sparse else value_x
    _values(tiles, x, steps[0], tables, numbers, room, int64(X), within(room, numbers, IN_X), to_x)
    if sparse:
        spread_stored(tiles, (stored,), tables, numbers, room, (int64(0),), (value_x,))
    _values(tiles, y, steps[1], tables, numbers, room, int64(Y), within(room, numbers, IN_Y), value_y)


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
            _all_values(tiles, at_x, at_y, steps, at, told, room)
        else:
            load_factors(tiles, at_x, at_y, steps, at, told, room)
            all_x, all_y = tiles * numbers[VECTORS], tiles * numbers[VECTORS + 1]
            value_y = packed + uint64(64 * all_x)
            rest = value_y + uint64(64 * all_y)
            unit = _packed(in_x, in_y, all_x, all_y, packed, value_y, rest, told)
        load_addends(tiles, given[2] + uint64(t * steps[2]), steps[2], at, told, room)
        widen_addends(tiles, told, room)
        of_x, of_y = scales_x + uint64(t * step_x), scales_y + uint64(t * step_y)
        ahead = expect(within(room, told, AHEAD), t + tiles, count, given, steps, to_d, step_d, numbers[BLOCKS])
        _grouped(tiles, told, room, of_x, of_y, step_x, step_y, unit, ahead)
        store_results(tiles, at, told, room, to_d + uint64(t * step_d), step_d)
    return True
