"""The kernel that computes batches of fused sums: it takes tiles, loads their elements, multiplies, stores the results.

Which sums they are, and where everything is, a PLAN says, so that it is compiled once for all of them. sharing.py says
how threads share the tiles.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from numba import int64, types, uint64
from numba.extending import intrinsic

from tcemu.kernels.batch.abi import PLAN, WORK, Fields, Packed, plan_at, work_at
from tcemu.kernels.batch.load import (
    addresses,
    expect,
    fetch,
    fetch_lines,
    load_addends,
    load_codes,
    load_factors,
    load_quickly,
    packed_vectors,
    store_results,
    widen_addends,
)
from tcemu.kernels.batch.sharing import PART, finish_some, leave, take, wait_for_all
from tcemu.kernels.emit.code import Code, Variable, address_of, call, vector_code
from tcemu.kernels.emit.lanes import REAL, WIDTH, Lanes
from tcemu.kernels.host.compiling import merged, njit
from tcemu.kernels.sums import BARE, CENTRE, OUTSIDE, QUIET, ROWS, SPECIAL
from tcemu.kernels.sums.block import Chain
from tcemu.kernels.sums.pack import PLACES, SEARCHED, exponents, pack, survey
from tcemu.kernels.sums.rounding import added_toward_zero
from tcemu.kernels.sums.short import added, bits_below, is_short, may_be_short, squares
from tcemu.kernels.sums.specials import pack_special
from tcemu.kernels.sums.wide import pack_wide

#: After tiles with NaN, an infinity or an element outside the window, so many are not expected to be better.
PATIENCE = 16
#: What is expected of elements: that there are NaN and infinities, and some outside any window.
CARE, WIDE = 1, 2


# ------------------------------------------------------------------------------------------------------ some tiles


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _multiply_tiles(plan_address, work_address):  # type: ignore[no-untyped-def]
    """c = `steps` chains that start from c, one after the other, for each of some tiles; WORK says where all is.

    x (tiles, groups, steps, sums, depth, 16) has the elements in vectors, and y (tiles, groups, steps, sums, depth, 4)
    those taken one at a time. c (tiles, groups of x, groups of y, 4, 16): float32 patterns. `packed`: three words for
    each pattern. If an exponent is outside the window, only float32 results with all their bits are computed; `seen`
    says it.
    """
    plan, work = plan_at(plan_address), work_at(work_address)
    all_x, all_y, x, y = work.tiles * plan.x.vectors, work.tiles * plan.y.vectors, work.x, work.y
    value_x, word_x, sign_x, value_y, word_y, sign_y = packed_vectors(work.packed, all_x, all_y)
    form_x, form_y, rule = plan.x.format, plan.y.format, plan.rule
    may_be_wide, seen, base = rule.keep == 23 and not rule.half, int64(OUTSIDE), int64(0)
    if not (may_be_wide and work.expected & WIDE):
        care = int64(work.expected & CARE)
        seen_x, seen_y = survey(x, form_x, all_x), survey(y, form_y, all_y)
        base = (seen_x >> PLACES) + (seen_y >> PLACES)
        seen = (seen_x | seen_y) >> 1 & (SPECIAL | OUTSIDE)
        if not (seen & OUTSIDE and seen_x & seen_y & SEARCHED):
            seen = pack(x, form_x, all_x, seen_x | care, value_x, word_x, int64(1))
            seen |= pack(y, form_y, all_y, seen_y | care, value_y, word_y, int64(0))
    if seen & OUTSIDE and may_be_wide:
        seen |= pack_wide(x, form_x, all_x, value_x, word_x, int64(1))
        seen |= pack_wide(y, form_y, all_y, value_y, word_y, int64(0))
    if seen & SPECIAL:
        pack_special(x, form_x, all_x, sign_x)
        pack_special(y, form_y, all_y, sign_y)
    work.seen, work.base = seen, base
    if may_be_wide or not seen & OUTSIDE:
        call(plan.compute_chains, (plan_address, work_address))


class _Chain:
    """How far the loop over all chains has come: tile, group of x, group of y, block, and the chain of x and of y."""

    def __init__(self, code: Code, of_x: Lanes, of_y: Lanes, steps: Lanes) -> None:
        self._of_x, self._of_y, self._steps, self._one = of_x, of_y, steps, code.long(1)
        zeros = (Variable(code.long(0)) for _ in range(7))
        self._tile, self._i, self._j, self._step, self._block, self._x, self._y = zeros

    def now(self) -> list[Lanes]:
        """The numbers of the tile, both groups, the block, and both chains."""
        return [each.get() for each in (self._tile, self._i, self._j, self._block, self._x, self._y)]

    def go_on(self) -> None:
        """To the next chain: steps first, then groups of y, then groups of x, then tiles."""
        done = self._count(self._step, self._steps, self._one)
        done_y = self._count(self._j, self._of_y, done)
        done_x = self._count(self._i, self._of_x, done_y)
        # The same chains of x for the next group of y; the same chains of y for the next group of x.
        self._x.set(self._x.get() + 1 - (done - done_y) * self._steps)
        self._y.set(self._y.get() + 1 - (done_y - done_x) * self._of_y * self._steps)
        self._block.set(self._block.get() + done)
        self._tile.set(self._tile.get() + done_x)

    def _count(self, number: Variable, most: Lanes, step: Lanes) -> Lanes:
        """Add to a number, which becomes 0 when it reaches `most`; returns 1 if it does, else 0."""
        next_number = number.get() + step
        done = next_number.compare("==", most)
        number.set(done.choose(next_number - most, next_number))
        return done.choose(self._one, 0)


#: Blocks of ordinary sums, of such with scales, of sums with NaN, infinities or exponents that are far apart; and two
#: of pairs, where each half of the lanes belongs to a product of its own. Each is a function, which is compiled when it
#: is needed.
PLAIN, SCALED, CAREFUL, PAIRS, CAREFUL_PAIRS = range(5)


@intrinsic(prefer_literal=True)
def blocks(typingctx, plan, work, path):  # type: ignore[no-untyped-def]
    """All blocks of some tiles: c[row, lane] = chains of fused sums that start from it. Addresses of PLAN and WORK.

    x (k, 16) float32 and its exponents (k, 16), each byte four times; y (k, 4) float32 and bytes, from `pack`. With
    `wide`, all come from `pack_wide`, and exponents have 16 bits. Specials come from `pack_special`; or if `short` is
    not 0, from `short.squares`. With `scaled`, scales (16) of x and (4) of y are int32 exponents, which add to those of
    the products, or SCALE_NAN; results are float32 with all their bits.
    """
    kind = path.literal_value

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        plan, work = Fields(code, args[0], PLAN), Fields(code, args[1], WORK)
        tiles, steps, of_x, of_y, chain = work.tiles, work.steps, work.groups_x, work.groups_y, work.chain
        values = [work.values_x, work.exponents_x, work.specials_x, work.values_y, work.exponents_y, work.specials_y]
        scales, apart = (work.scales_x, work.scales_y), (work.scale_step_x, work.scale_step_y)
        into, first, emitted = work.into, work.first, Chain(code, plan.rule, work.base)
        wide, special = work.wide, work.special
        unit = wide.compare("!=", 0).choose(code.long(2), code.long(1))

        def all_blocks(wide: Any, special: Any, scaled: Any, of_scales: Lanes, short: Any) -> None:
            place = _Chain(code, of_x, of_y, steps)
            # One loop instead of four nested ones, which are often short, and each has addresses to prepare.
            with code.loop(0, tiles * of_x * of_y * steps):
                tile, i, j, block, chain_x, chain_y = place.now()
                fetch_lines(code, work.prefetch, first + block)
                of_lanes = scales[0] + (tile * apart[0] + i * (4 * WIDTH)) * of_scales
                of_rows = scales[1] + (tile * apart[1] + j * (4 * ROWS)) * of_scales
                x, y = chain_x * chain * WIDTH, chain_y * chain * ROWS
                y = y * 2 if pairs else y
                moves = [x * 4, x * 4, x * 4, y * 4, y * unit, y * 4]
                if short is not False:  # a number for each chain
                    moves[2], moves[5] = chain_x * 4, chain_y * 4
                places = [value + move for value, move in zip(values, moves, strict=True)]
                places.append(into + block * (4 * WIDTH * ROWS))
                operands = Packed._make([code, *(each.value for each in places), pairs])
                flags = {"wide": wide, "special": special, "scaled": scaled, "short": short}
                emitted.emit(operands, (of_lanes.value, of_rows.value), **flags)
                place.go_on()

        pairs, scaled = kind in (PAIRS, CAREFUL_PAIRS), work.scaled
        if kind in (CAREFUL, CAREFUL_PAIRS):
            all_blocks(wide, special, False if pairs else scaled, scaled, False)
        else:
            all_blocks(False, False, kind == SCALED, scaled, work.short if kind == SCALED else False)
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, path), codegen


@intrinsic
def short_block(typingctx, x, y, c, sums, depth, base):  # type: ignore[no-untyped-def]
    """c[row, lane] += a chain of `sums` sums of `depth` products, an even number; see `blocks` for the others."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code, (x, y, c, sums, depth, base) = vector_code(builder), args
        operands, count = Packed(code, x, None, None, y, None, None, c), code.number(depth)
        chains = [Variable(code.lanes(0.0, REAL)) for _ in range(ROWS)]
        with code.each(sums) as i:
            for chain, part in zip(chains, added(code, operands, i * count, count), strict=True):
                chain.set(added_toward_zero(chain.get(), part))
        power = (code.short(code.number(base)) + (2 * CENTRE + 127)).up(23).seen_as(REAL).everywhere()
        results = [
            initial.floats() + chain.get() * power for initial, chain in zip(operands.initial(), chains, strict=True)
        ]
        operands.put([each.compare("==", each).choose(each.bits(), code.lanes(QUIET)) for each in results])
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, *[types.int64] * 3), codegen


@merged
def _mostly_short(work, of_x, of_y, fraction):  # type: ignore[no-untyped-def]
    """Whether most chains of some tiles are short, by what `squares` has stored for specials.

    If fewer are, all of them together take less time as ordinary chains.
    """
    size, steps, count = uint64(4), work.steps, int64(0)
    for group in range(work.tiles * of_x):
        first = group // of_x * of_y
        for column in range(of_y):
            for step in range(steps):
                at_x, at_y = uint64(group * steps + step) * size, uint64((first + column) * steps + step) * size
                count += is_short(work.specials_x + at_x, work.specials_y + at_y, fraction)
    return 2 * count > work.tiles * of_x * of_y * steps


_as_function = njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)


@_as_function
def _plain_blocks(plan, work):  # type: ignore[no-untyped-def]
    blocks(plan, work, PLAIN)


@_as_function
def _scaled_blocks(plan, work):  # type: ignore[no-untyped-def]
    blocks(plan, work, SCALED)


@_as_function
def _careful_blocks(plan, work):  # type: ignore[no-untyped-def]
    blocks(plan, work, CAREFUL)


@_as_function
def _pairs(plan, work):  # type: ignore[no-untyped-def]
    blocks(plan, work, PAIRS)


@_as_function
def _careful_pairs(plan, work):  # type: ignore[no-untyped-def]
    blocks(plan, work, CAREFUL_PAIRS)


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _compute_chains(plan_address, work_address):  # type: ignore[no-untyped-def]
    """The blocks of `_multiply_tiles`, whose elements are packed: all at once, or if most are short, one by one."""
    plan, work = plan_at(plan_address), work_at(work_address)
    rule, scaled, steps, tiles = plan.rule, work.scaled, work.steps, work.tiles
    all_x, all_y, size = tiles * plan.x.vectors, tiles * plan.y.vectors, uint64(4)
    wide, special, bare = int64(work.seen & OUTSIDE), int64(work.seen & SPECIAL), int64(work.seen & BARE)
    chain = rule.depth * rule.sums
    of_x, of_y = plan.x.vectors // (chain * steps), plan.y.vectors * WIDTH // (chain * steps * ROWS)
    value_x, word_x, sign_x, value_y, word_y, sign_y = packed_vectors(work.packed, all_x, all_y)
    if plan.pairs:  # a group of x has groups of y of its own, as a tile has
        tiles, of_x, of_y = tiles * of_x, 1, of_y // (2 * of_x)
        work.tiles = tiles
    work.groups_x, work.groups_y, work.chain, work.into, work.first = of_x, of_y, chain, work.c, 0
    work.values_x, work.exponents_x, work.specials_x = value_x, word_x, sign_x
    work.values_y, work.exponents_y, work.specials_y = value_y, word_y, sign_y
    possible = not (wide | special) and may_be_short(plan, scaled)
    if possible:
        squares(value_x, tiles * of_x * steps, rule.sums, rule.depth, int64(0), sign_x)
        squares(value_y, tiles * of_y * steps, rule.sums, rule.depth // (WIDTH // ROWS), int64(1), sign_y)
    # With scales, `blocks` looks at each chain. Without, each is looked at here if most are short; if not, all are
    # computed at once.
    work.wide, work.special = wide, special
    work.short = 1 + bits_below(plan.x.format) + bits_below(plan.y.format) if possible and scaled else 0
    if not (possible and not scaled and _mostly_short(work, of_x, of_y, rule.fraction)):
        if bare:
            exponents(value_x, all_x, word_x, int64(1))
            exponents(value_y, all_y, word_y, int64(0))
        call(plan.compute_careful if wide | special else plan.compute_blocks, (plan_address, work_address))
        return
    work.tiles, work.groups_x, work.groups_y, work.steps = 1, 1, 1, 1
    for group in range(tiles * of_x):
        for column in range(of_y):
            block = group * of_y + column
            work.first, work.into = block, work.c + uint64(block * ROWS * WIDTH) * size
            for step in range(steps):
                number_x, number_y = group * steps + step, (group // of_x * of_y + column) * steps + step
                at_x, at_y = uint64(number_x * chain * WIDTH), uint64(number_y * chain * ROWS)
                work.values_x, work.exponents_x = value_x + at_x * size, word_x + at_x * size
                work.values_y, work.exponents_y = value_y + at_y * size, word_y + at_y
                short_x, short_y = sign_x + uint64(number_x) * size, sign_y + uint64(number_y) * size
                if is_short(short_x, short_y, rule.fraction):
                    fetch(work_address, block)
                    short_block(work.values_x, work.values_y, work.into, rule.sums, rule.depth, work.base)
                    continue
                if bare:
                    exponents(value_x, all_x, word_x, int64(1))
                    exponents(value_y, all_y, word_y, int64(0))
                    bare = int64(0)
                call(plan.compute_blocks, (plan_address, work_address))


def with_functions(plan: npt.NDArray[Any], *, scaled: bool, careful: bool) -> None:
    """Note the addresses of functions in a PLAN of fused sums: large ones, which are compiled once for all.

    Without `careful`, those are left out that only few tiles need: `run_fused` stops where it would call one.
    """
    pairs = bool(plan["pairs"])
    blocks = _pairs if pairs else _scaled_blocks if scaled else _plain_blocks
    functions = {"compute_chains": _compute_chains, "compute_blocks": blocks}
    if careful:
        functions |= {
            "compute_careful": _careful_pairs if pairs else _careful_blocks,
            "multiply_tiles": _multiply_tiles,
        }
    for name, function in functions.items():
        plan[name] = address_of(function, uint64, uint64)


# ------------------------------------------------------------------------------------------------------ many tiles
# d[t] = the results of tile t, for words x, y, c and metadata e (tiles, words). x is the operand whose elements are in
# vectors, y the one whose elements are taken one at a time. e has no words if x is dense. plan_address: of a PLAN.
# scratch: as much memory as it says; the caller makes it, because numba frees an array after its last use, and does not
# count the uses of its address. There is a function for each arithmetic, so that no process compiles what it does not
# compute. All others take addresses: numba counts the users of an array that is passed on, with an instruction that
# stops the processor for some twenty cycles.


@njit(cache=True, nogil=True, error_model="numpy")
def run_fused(x, y, c, e, scale_x, scale_y, plan_address, memory, d, sharing, wait):  # type: ignore[no-untyped-def]
    """Chains of fused sums; scale_x and scale_y (tiles, scales): as `blocks` takes them, or empty.

    Only of tiles that nobody else has taken; those with illegal metadata are left out, and those for which the PLAN has
    no function. sharing: from `share_tiles`.
    With `wait`, all tiles are done when it returns.
    """
    scratch, address = uint64(memory.ctypes.data), uint64(plan_address)
    plan = plan_at(address)
    work_address = scratch + uint64(plan.scratch.work)
    work, (starts, steps) = work_at(work_address), addresses(x, y, c, e)
    to_d, step_d, count, together = uint64(d.ctypes.data), 4 * d.shape[1], d.shape[0], plan.together
    scales_x, scales_y = uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data)
    scaled = int64(1 if scale_x.shape[0] else 0)
    work.scale_step_x, work.scale_step_y, work.scaled = 4 * scale_x.shape[1], 4 * scale_y.shape[1], scaled
    work.x, work.y = scratch + uint64(plan.scratch.x), scratch + uint64(plan.scratch.y)
    work.c, work.packed = scratch + uint64(plan.scratch.c), scratch + uint64(plan.scratch.packed)
    later = 0 if plan.quick else count
    # Where `load_quickly` has failed, now or lately, NaN and infinities are likely.
    care, wide = int64(CARE) if plan.quick else int64(0), int64(0)
    # Short chains need no exponents; if some are not short, `_compute_chains` makes them from the values.
    bare = int64(BARE) if not scaled and may_be_short(plan, int64(0)) else int64(0)
    shares, size = uint64(sharing.ctypes.data), PART * together
    part = take(shares, size)
    while part < count:
        stop = min(part + size, count)
        for t in range(part, stop, together):
            tiles = min(together, stop - t)
            work.tiles, work.steps = tiles, 1
            work.scales_x = scales_x + uint64(t * work.scale_step_x)
            work.scales_y = scales_y + uint64(t * work.scale_step_y)
            at_x, at_y = starts[0] + uint64(t * steps[0]), starts[1] + uint64(t * steps[1])
            expect(work.prefetch, t + tiles, stop, starts, steps, to_d, step_d, plan.blocks)
            if not load_codes(tiles, starts[3] + uint64(t * steps[3]), steps[3], plan, scratch):
                leave(shares, t)
                break
            load_addends(tiles, starts[2] + uint64(t * steps[2]), steps[2], plan, scratch)
            widen_addends(tiles, plan, scratch)
            if t >= later and load_quickly(tiles, at_x, at_y, steps, plan, scratch, bare):
                work.seen, work.base = bare, plan.x.start + plan.y.start
                call(plan.compute_chains, (address, work_address))
            elif not plan.multiply_tiles:
                leave(shares, t)
                break
            else:
                later = later if t < later else t + PATIENCE
                load_factors(tiles, at_x, at_y, steps, plan, scratch)
                work.expected = care | (int64(WIDE) if t < wide else int64(0))
                call(plan.multiply_tiles, (address, work_address))
                if work.seen & OUTSIDE and t >= wide:
                    wide = t + PATIENCE * together
            store_results(tiles, plan, scratch, to_d + uint64(t * step_d), step_d)
        finish_some(shares, stop - part)
        part = take(shares, size)
    if wait:
        wait_for_all(shares, count)
