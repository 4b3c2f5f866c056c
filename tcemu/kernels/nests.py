"""The loops over all blocks of some tiles: `tcemu.kernels.blocks` has the code for one."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.ahead import fetch_lines
from tcemu.kernels.blocks import ROWS, Chain
from tcemu.kernels.simd import WIDTH, vector_code


@intrinsic
def blocks(  # type: ignore[no-untyped-def]
    typingctx, tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, wide, special, scaled, ahead,
    first,
):
    """c[row, lane] = chains of fused sums that start from it, for all blocks of some tiles: see `products.multiply`.

    of_x, of_y: the groups of x and of y in a tile. steps: chains for each output. chain: their products. packed:
    addresses of x (k, 16) float32 and ex (k, 16) its exponents, each byte four times, and what belongs to specials;
    then the same of y, (k, 4) float32 and bytes, from `pack`. scales: addresses of those of x and of y; apart: the
    bytes from a tile's to the next. c: address of float32 patterns. rule: see FRACTION. base: the sum of the starts of
    both windows. With `wide`, all come from `pack_wide` and exponents are int32. With `special`, what belongs to
    specials comes from `pack_special`. With `scaled`, scales (16) of x and (4) of y are int32 exponents, which add to
    those of the products, or SCALE_NAN; results are float32 with all their bits. ahead: see `ahead.expect`; first: the
    number of the first block.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, of_x, of_y, steps, chain, packed, scales, apart, c, rule, base, *flags, ahead, first = args
        code = vector_code(builder)
        tiles, of_x, of_y, steps, chain = (code.number(each) for each in (tiles, of_x, of_y, steps, chain))
        values, scales, apart = (
            [code.number(each) for each in cgutils.unpack_tuple(builder, given)] for given in (packed, scales, apart)
        )
        emitted = Chain(code, rule, base)
        wide, special, scaled = (code.number(each) for each in flags)
        unit = wide.compare("!=", 0).choose(code.long(4), code.long(1))

        def all_blocks(*known: Any) -> None:
            with code.loop(0, tiles) as t, code.loop(0, of_x) as i, code.loop(0, of_y) as j:
                block = (t * of_x + i) * of_y + j
                fetch_lines(code, ahead, code.number(first) + block)
                at_x, at_y = (t * of_x + i) * steps, (t * of_y + j) * steps
                of_lanes = scales[0] + (t * apart[0] + i * (4 * WIDTH)) * scaled
                of_rows = scales[1] + (t * apart[1] + j * (4 * ROWS)) * scaled
                found = code.number(c) + block * (4 * WIDTH * ROWS)
                with code.loop(0, steps) as step:
                    x, y = (at_x + step) * chain * WIDTH, (at_y + step) * chain * ROWS
                    moves = x * 4, x * 4, x * 4, y * 4, y * unit, y * 4
                    places = [value + move for value, move in zip(values, moves, strict=True)]
                    emitted.emit([each.value for each in (*places, of_lanes, of_rows, found)], *known)

        # Each case has loops of its own, because the addresses that all of them need do not fit the registers.
        code.branch(
            wide | special,
            lambda: all_blocks(wide, special, scaled),
            lambda: code.branch(
                scaled, lambda: all_blocks(False, False, True), lambda: all_blocks(False, False, False)
            ),
        )
        return context.get_dummy_value()

    address = types.uint64
    kinds = [*[types.int64] * 5, types.UniTuple(address, 6), types.UniTuple(address, 2), types.UniTuple(types.int64, 2)]
    return types.none(*kinds, address, address, *[types.int64] * 4, address, types.int64), codegen
