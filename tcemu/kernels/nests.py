"""The loop over all blocks of some tiles: `tcemu.kernels.blocks` has the code for one."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.ahead import fetch_lines
from tcemu.kernels.blocks import Chain
from tcemu.kernels.lanes import WIDTH, Lanes
from tcemu.kernels.rule import ROWS
from tcemu.kernels.sides import Packed
from tcemu.kernels.simd import Code, Slot, vector_code


class _Place:
    """How far the loop over all chains has come: tile, group of x, group of y, block, and the chain of x and of y."""

    def __init__(self, code: Code, of_x: Lanes, of_y: Lanes, steps: Lanes) -> None:
        self._of_x, self._of_y, self._steps, self._one = of_x, of_y, steps, code.long(1)
        self._tile, self._i, self._j, self._step, self._block, self._x, self._y = (Slot(code.long(0)) for _ in range(7))

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

    def _count(self, number: Slot, most: Lanes, step: Lanes) -> Lanes:
        """Add to a number, which becomes 0 when it reaches `most`; returns 1 if it does, else 0."""
        found = number.get() + step
        done = found.compare("==", most)
        number.set(done.choose(found - most, found))
        return done.choose(self._one, 0)


@intrinsic
def blocks(  # type: ignore[no-untyped-def]
    typingctx, tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, wide, special, scaled, short,
    ahead, first,
):
    """c[row, lane] = chains of fused sums that start from it, for all blocks of some tiles: see `products.multiply`.

    of_x, of_y: the groups of x and of y in a tile. steps: chains for each output. chain: their products. packed:
    addresses of x (k, 16) float32 and ex (k, 16) its exponents, each byte four times, and what belongs to specials;
    then the same of y, (k, 4) float32 and bytes, from `pack`. scales: addresses of those of x and of y; apart: the
    bytes from a tile's to the next. c: address of float32 patterns. rule: see FRACTION. base: the sum of the starts of
    both windows. With `wide`, all come from `pack_wide`, and exponents have 16 bits. With `special`, what belongs to
    specials comes from `pack_special`. With `scaled`, scales (16) of x and (4) of y are int32 exponents, which add to
    those of the products, or SCALE_NAN; results are float32 with all their bits. If `short` is not 0, what
    belongs to specials are results of `short_sums.squares`; `short` is one more than the bits that products may have
    below `base`. ahead: see `ahead.expect`; first: the number of the first block.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, *flags, ahead, first = args
        code = vector_code(builder)
        tiles, of_x, of_y, steps, chain = (code.number(each) for each in (tiles, of_x, of_y, steps, chain))
        values, scales, apart = (
            [code.number(each) for each in cgutils.unpack_tuple(builder, given)] for given in (packed, scales, apart)
        )
        emitted = Chain(code, rule, base)
        wide, special, scaled, short = (code.number(each) for each in flags)
        unit = wide.compare("!=", 0).choose(code.long(2), code.long(1))

        def all_blocks(wide: Any, special: Any, scaled: Any, of_scales: Lanes, short: Any) -> None:
            place = _Place(code, of_x, of_y, steps)
            # One loop instead of four nested ones, which are often short, and each has addresses to prepare.
            with code.loop(0, tiles * of_x * of_y * steps):
                tile, i, j, block, chain_x, chain_y = place.now()
                fetch_lines(code, ahead, code.number(first) + block)
                of_lanes = scales[0] + (tile * apart[0] + i * (4 * WIDTH)) * of_scales
                of_rows = scales[1] + (tile * apart[1] + j * (4 * ROWS)) * of_scales
                found = code.number(c) + block * (4 * WIDTH * ROWS)
                x, y = chain_x * chain * WIDTH, chain_y * chain * ROWS
                moves = [x * 4, x * 4, x * 4, y * 4, y * unit, y * 4]
                if short is not False:  # a number for each chain
                    moves[2], moves[5] = chain_x * 4, chain_y * 4
                places = [value + move for value, move in zip(values, moves, strict=True)]
                sides = Packed(code, *(each.value for each in (*places, found)))
                flags = {"wide": wide, "special": special, "scaled": scaled, "short": short}
                emitted.emit(sides, (of_lanes.value, of_rows.value), **flags)
                place.go_on()

        # Each case has a loop of its own, because the addresses that all of them need do not fit the registers.
        code.branch(
            wide | special,
            lambda: all_blocks(wide, special, scaled, scaled, False),
            lambda: code.branch(
                scaled,
                lambda: all_blocks(False, False, True, scaled, short),
                lambda: all_blocks(False, False, False, scaled, False),
            ),
        )
        return context.get_dummy_value()

    address = types.uint64
    kinds = [*[types.int64] * 5, types.UniTuple(address, 6), types.UniTuple(address, 2), types.UniTuple(types.int64, 2)]
    return types.none(*kinds, address, address, *[types.int64] * 5, address, types.int64), codegen
