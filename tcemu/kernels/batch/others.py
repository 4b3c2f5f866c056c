"""The kernels that compute batches of other arithmetic: groups with scales, integers, bits, chains of multiply-adds.

`tcemu.kernels.batch.run` says what they take.
"""

from __future__ import annotations

from numba import int32, int64, uint64

from tcemu.kernels.batch.abi import plan_at, work_at
from tcemu.kernels.batch.load import (
    ENTRIES,
    FLOAT16,
    addresses,
    expect,
    fetch,
    load_addends,
    load_codes,
    load_factors,
    look_up,
    spread_stored,
    store_results,
    widen_addends,
)
from tcemu.kernels.chains import chain_block, widen_halves
from tcemu.kernels.emit.code import call, words_at
from tcemu.kernels.emit.lanes import WIDTH
from tcemu.kernels.host.compiling import merged, njit
from tcemu.kernels.integers import bit_block, integer_block, integers
from tcemu.kernels.sums import BITS, CENTRE, CHAINS, INTEGERS, ROWS
from tcemu.kernels.sums.pack import PLACES, pack, survey
from tcemu.kernels.sums.scaled import grouped_block


@merged
def _load(t, tiles, starts, steps, plan, scratch):  # type: ignore[no-untyped-def]
    """Load x, y and c of some tiles from tile t on; whether their metadata is legal. given: addresses of words."""
    if not load_codes(tiles, starts[3] + uint64(t * steps[3]), steps[3], plan, scratch):
        return False
    at_x, at_y = starts[0] + uint64(t * steps[0]), starts[1] + uint64(t * steps[1])
    load_factors(tiles, at_x, at_y, steps, plan, scratch)
    load_addends(tiles, starts[2] + uint64(t * steps[2]), steps[2], plan, scratch)
    return True


@merged
def _multiply(tiles, plan, scratch, kind, work_address):  # type: ignore[no-untyped-def]
    """c += x times y for some tiles, by integers, bits or chains."""
    x, y, at = scratch + uint64(plan.scratch.x), scratch + uint64(plan.scratch.y), scratch + uint64(plan.scratch.c)
    all_x, all_y, packed = tiles * plan.x.vectors, tiles * plan.y.vectors, scratch + uint64(plan.scratch.packed)
    per, sums, size = plan.rule.depth, plan.rule.sums, uint64(4)
    depth, value_y = per * sums, packed + uint64(64 * all_x)
    if kind == INTEGERS:
        integers(x, int32(plan.x.format.exponent), WIDTH * all_x, packed)
        integers(y, int32(plan.y.format.exponent), WIDTH * all_y, value_y)
    elif kind == CHAINS:
        widen_halves(x, all_x, packed)
        widen_halves(y, all_y, value_y)
        if plan.addends == FLOAT16:
            widen_halves(at, tiles * plan.c.vectors, at)
    if kind != BITS:
        x, y = packed, value_y
    block, of_x, of_y = int64(0), plan.x.vectors // depth, plan.y.vectors * WIDTH // (depth * ROWS)
    if plan.pairs:  # groups of y in a pair, which belong to one group of x
        of_y //= 2 * of_x
    for t in range(tiles):
        for i in range(of_x):
            for j in range(of_y):
                fetch(work_address, block)
                block += 1
                number = 2 * (i * of_y + j) if plan.pairs else j
                at_x = x + uint64((t * plan.x.vectors + i * depth) * WIDTH) * size
                at_y = y + uint64(t * plan.y.vectors * WIDTH + number * depth * ROWS) * size
                if kind == INTEGERS:
                    integer_block(at_x, at_y, at, depth, plan.option)
                elif kind == BITS:
                    bit_block(at_x, at_y, at, depth, plan.option)
                else:
                    chain_block(at_x, at_y, at, per, sums, plan.option)
                at += uint64(ROWS * WIDTH) * size


@njit(cache=True, nogil=True, error_model="numpy")
def run_plainly(x, y, c, e, kind, plan_address, memory, d):  # type: ignore[no-untyped-def]
    """Sums of small integers, of bits, or of chains of multiply-adds; whether all metadata was legal."""
    scratch, plan = uint64(memory.ctypes.data), plan_at(uint64(plan_address))
    work_address, (starts, steps) = scratch + uint64(plan.scratch.work), addresses(x, y, c, e)
    work, to_d, step_d = work_at(work_address), uint64(d.ctypes.data), 4 * d.shape[1]
    for t in range(0, d.shape[0], plan.together):
        tiles = min(plan.together, d.shape[0] - t)
        if not _load(t, tiles, starts, steps, plan, scratch):
            return False
        expect(work.prefetch, t + tiles, d.shape[0], starts, steps, to_d, step_d, plan.blocks)
        _multiply(tiles, plan, scratch, kind, work_address)
        store_results(tiles, plan, scratch, to_d + uint64(t * step_d), step_d)
    return True


# ------------------------------------------------------------------------------------------------------------ groups


@merged
def _packed(x, y, all_x, all_y, value_x, value_y, rest, plan):  # type: ignore[no-untyped-def]
    """Pack so many vectors of x and of y without exponents; returns what `grouped_block` calls `unit`."""
    form_x, form_y = plan.x.format, plan.y.format
    seen_x, seen_y = survey(x, form_x, all_x), survey(y, form_y, all_y)
    pack(x, form_x, all_x, seen_x, value_x, rest, int64(0))
    pack(y, form_y, all_y, seen_y, value_y, rest, int64(0))
    return (seen_x >> PLACES) + (seen_y >> PLACES) + int64(2 * CENTRE) - plan.option


@merged
def _value_tables(plan, scratch):  # type: ignore[no-untyped-def]
    """Make tables of the values of all codes of x and of y, where elements are loaded otherwise; returns the unit."""
    every = scratch + uint64(plan.scratch.c)
    codes, to_x, to_y = words_at(every, ENTRIES), scratch + uint64(plan.scratch.x), scratch + uint64(plan.scratch.y)
    for i in range(ENTRIES):
        codes[i] = i
    return _packed(every, every, int64(1), int64(1), to_x, to_y, scratch + uint64(plan.scratch.packed), plan)


@merged
def _values(tiles, words, step, operand, plan, scratch, table, into):  # type: ignore[no-untyped-def]
    """The values of an operand of some tiles, from a table of those of all codes."""
    through = scratch + uint64(plan.scratch.words_x)
    call(plan.gather_words, (tiles, words, step, operand.gather, through, plan.gathered))
    look_up(tiles, through, plan.gathered, operand.source, operand.bits, operand.loaded, table, into)


@merged
def _all_values(tiles, x, y, steps, plan, scratch):  # type: ignore[no-untyped-def]
    """The values of x and y of some tiles; the metadata is loaded. x, y: addresses of words."""
    value_x, stored = scratch + uint64(plan.scratch.packed), scratch + uint64(plan.scratch.stored)
    value_y = value_x + uint64(64 * tiles * plan.x.vectors)
    to_x = stored if plan.spread_groups else value_x
    _values(tiles, x, steps[0], plan.x, plan, scratch, scratch + uint64(plan.scratch.x), to_x)
    if plan.spread_groups:
        spread_stored(tiles, (stored,), plan, scratch, (int64(0),), (value_x,))
    _values(tiles, y, steps[1], plan.y, plan, scratch, scratch + uint64(plan.scratch.y), value_y)


@merged
def _add_groups(plan, work_address, unit):  # type: ignore[no-untyped-def]
    """c += the groups of x times y with their scales, for some tiles; x and y are packed. unit: see `grouped_block`."""
    work, rule, size, at, block = work_at(work_address), plan.rule, uint64(4), work_at(work_address).c, int64(0)
    groups, depth = rule.sums, rule.depth
    value_y = work.packed + uint64(64 * work.tiles * plan.x.vectors)
    rest = value_y + uint64(64 * work.tiles * plan.y.vectors)
    for t in range(work.tiles):
        of_x, of_y = work.scales_x + uint64(t * work.scale_step_x), work.scales_y + uint64(t * work.scale_step_y)
        for i in range(plan.x.vectors // (depth * groups)):
            for j in range(plan.y.vectors * WIDTH // (depth * groups * ROWS)):
                fetch(work_address, block)
                block += 1
                grouped_block(
                    work.packed + uint64((t * plan.x.vectors + i * groups * depth) * WIDTH) * size,
                    value_y + uint64(t * plan.y.vectors * WIDTH + j * groups * depth * ROWS) * size,
                    of_x + uint64(i * groups * WIDTH) * size, of_y + uint64(j * groups * ROWS) * size, at, rest,
                    rule, depth, groups, unit,
                )  # fmt: skip
                at += uint64(ROWS * WIDTH) * size


@njit(cache=True, nogil=True, error_model="numpy")
def run_grouped(x, y, c, e, scale_x, scale_y, plan_address, memory, d):  # type: ignore[no-untyped-def]
    """Sums of groups of scaled products; whether all metadata was legal.

    scale_x and scale_y (tiles, scales): as `grouped_block` takes them.
    """
    scratch, plan = uint64(memory.ctypes.data), plan_at(uint64(plan_address))
    work_address, (starts, steps) = scratch + uint64(plan.scratch.work), addresses(x, y, c, e)
    work, to_d, step_d = work_at(work_address), uint64(d.ctypes.data), 4 * d.shape[1]
    scales_x, scales_y = uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data)
    work.scale_step_x, work.scale_step_y = 4 * scale_x.shape[1], 4 * scale_y.shape[1]
    work.packed, work.c = scratch + uint64(plan.scratch.packed), scratch + uint64(plan.scratch.c)
    unit = _value_tables(plan, scratch) if plan.quick else int64(0)
    for t in range(0, d.shape[0], plan.together):
        tiles = min(plan.together, d.shape[0] - t)
        work.tiles = tiles
        work.scales_x = scales_x + uint64(t * work.scale_step_x)
        work.scales_y = scales_y + uint64(t * work.scale_step_y)
        if plan.quick:
            if not load_codes(tiles, starts[3] + uint64(t * steps[3]), steps[3], plan, scratch):
                return False
            at_x, at_y = starts[0] + uint64(t * steps[0]), starts[1] + uint64(t * steps[1])
            _all_values(tiles, at_x, at_y, steps, plan, scratch)
            load_addends(tiles, starts[2] + uint64(t * steps[2]), steps[2], plan, scratch)
        else:
            if not _load(t, tiles, starts, steps, plan, scratch):
                return False
            all_x, all_y = tiles * plan.x.vectors, tiles * plan.y.vectors
            value_y = work.packed + uint64(64 * all_x)
            rest = value_y + uint64(64 * all_y)
            in_x, in_y = scratch + uint64(plan.scratch.x), scratch + uint64(plan.scratch.y)
            unit = _packed(in_x, in_y, all_x, all_y, work.packed, value_y, rest, plan)
        widen_addends(tiles, plan, scratch)
        expect(work.prefetch, t + tiles, d.shape[0], starts, steps, to_d, step_d, plan.blocks)
        _add_groups(plan, work_address, unit)
        store_results(tiles, plan, scratch, to_d + uint64(t * step_d), step_d)
    return True
