"""Wrong answers to the exercises of notebook 04, with words that the diagnosis must contain."""

from typing import Any

import numpy as np

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
INT8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"

# ---------------------------------------------------------------------------------------------- where_of_int8_b


def b_of_f16(row: int, column: int) -> tuple[int, int, int]:
    return 4 * column + row % 8 // 2, row // 8, row % 2


def rule_of_a(row: int, column: int) -> tuple[int, int, int]:
    return 4 * (row % 8) + column // 4, row // 8, column % 4


def register_forgotten(row: int, column: int) -> tuple[int, int, int]:
    return 4 * column + row % 16 // 4, 0, row % 4


def register_next_to_lane(row: int, column: int) -> tuple[int, int, int]:
    """Eight neighbours along k in a lane, as if a lane had a piece of a column."""
    return 4 * column + row // 8, row % 8 // 4, row % 4


# ---------------------------------------------------------------------------------------------- fill_b


def _fill(B: Any, swap: bool = False, along: bool = False, order: tuple[int, ...] = (0, 1)) -> Any:
    bits = B.view(np.uint16).astype(np.uint32)
    lane = np.arange(32)
    column, row = lane // 4, 2 * (lane % 4)
    low = np.stack([bits[row + 8 * c, column] for c in order], 1)
    high = np.stack([bits[row + 8 * c + 1, column] for c in order], 1)
    return high | low << 16 if swap else low | high << 16


def halves_exchanged(B: Any) -> Any:
    return _fill(B, swap=True)


def registers_exchanged(B: Any) -> Any:
    return _fill(B, order=(1, 0))


def lane_for_group(B: Any) -> Any:
    """lane % 8 for the column and lane // 8 for the row."""
    bits = B.view(np.uint16).astype(np.uint32)
    lane = np.arange(32)
    column, row = lane % 8, 2 * (lane // 8)
    return np.stack([bits[row + 8 * c, column] | bits[row + 8 * c + 1, column] << 16 for c in (0, 1)], 1)


def neighbours_in_a_row(B: Any) -> Any:
    lane = np.arange(32)
    words = np.ascontiguousarray(B).view(np.uint32)
    return np.stack([words[lane // 4 + 8 * c, lane % 4] for c in (0, 1)], 1)


def numbers_for_bits(B: Any) -> Any:
    lane = np.arange(32)
    column, row = lane // 4, 2 * (lane % 4)
    whole = B.astype(np.int64) & 0xFFFF
    pairs = [whole[row + 8 * c, column] | whole[row + 8 * c + 1, column] << 16 for c in (0, 1)]
    return np.stack(pairs, 1).astype(np.uint32)


def whole_numbers(B: Any) -> Any:
    lane = np.arange(32)
    column, row = lane // 4, 2 * (lane % 4)
    whole = B.astype(np.int64).astype(np.uint32)
    return np.stack([whole[row + 8 * c, column] | whole[row + 8 * c + 1, column] << 16 for c in (0, 1)], 1)


# ---------------------------------------------------------------------------------------------- d_as_a


def _pairs(tiles: Any, swap: bool = False) -> Any:
    bits = np.hstack([each.astype(np.float16).view(np.uint16).astype(np.uint32) for each in tiles])
    low, high = bits[:, 0::2], bits[:, 1::2]
    return high | low << 16 if swap else low | high << 16


def in_the_order_of_rows(left: Any, right: Any) -> Any:
    return _pairs((left, right))[:, [0, 2, 1, 3]]


def high_half_first(left: Any, right: Any) -> Any:
    return _pairs((left, right), swap=True)


def upper_halves(left: Any, right: Any) -> Any:
    bits = np.hstack([left, right]).view(np.uint32)
    return bits[:, 0::2] >> 16 | bits[:, 1::2] & 0xFFFF0000


def tile_beside_tile(left: Any, right: Any) -> Any:
    low, high = (each.astype(np.float16).view(np.uint16).astype(np.uint32) for each in (left, right))
    return low | high << 16


def right_first(left: Any, right: Any) -> Any:
    return _pairs((right, left))


# ---------------------------------------------------------------------------------------------- the kernels


def _product(
    warp: Any,
    a: Any,
    b: Any,
    d: Any,
    *,
    order: tuple[int, ...] = (0, 1, 2, 3),
    down: int = 8,
    chain: bool = True,
    steps: range = range(0, 64, 32),
    halves: int = 2,
    fill: int | None = 0,
    pair: int = 4,
    of_b: int = 1,
) -> None:
    g, t = warp.laneid // 4, warp.laneid % 4
    c = warp.registers(4, fill=fill)
    held_a, held_b = warp.registers(4), warp.registers(2)
    for k in steps:
        for register, place in enumerate(order):
            row, column = g + 8 * (place % 2), k + pair * t + 4 * pair * (place // 2)
            held_a[:, register] = warp.ld_global(a.at(row, column))[:, 0]
        for register in range(2):
            held_b[:, register] = warp.ld_global(b.at(g, of_b * k + pair * t + 4 * pair * register))[:, 0]
        c = warp.run(INT8, held_a, held_b, c if chain else warp.registers(4, fill=0))
    for half in range(halves):
        warp.st_global(d.at(g + down * half, 2 * t), c[:, 2 * half : 2 * half + 2], "v2.b32")


def not_accumulated(warp: Any, a: Any, b: Any, d: Any) -> None:
    _product(warp, a, b, d, chain=False)


def same_rows_of_b(warp: Any, a: Any, b: Any, d: Any) -> None:
    """b's address does not move along k."""
    _product(warp, a, b, d, of_b=0)


def a1_a2_exchanged(warp: Any, a: Any, b: Any, d: Any) -> None:
    _product(warp, a, b, d, order=(0, 2, 1, 3))


def layout_of_f16(warp: Any, a: Any, b: Any, d: Any) -> None:
    """Two elements to a register, as in the notebook."""
    _product(warp, a, b, d, pair=2)


def first_step_only(warp: Any, a: Any, b: Any, d: Any) -> None:
    _product(warp, a, b, d, steps=range(0, 32, 32))


def upper_rows_only(warp: Any, a: Any, b: Any, d: Any) -> None:
    _product(warp, a, b, d, halves=1)


def same_rows_twice(warp: Any, a: Any, b: Any, d: Any) -> None:
    _product(warp, a, b, d, down=0)


def accumulators_unwritten(warp: Any, a: Any, b: Any, d: Any) -> None:
    _product(warp, a, b, d, fill=None)


def _narrow(
    warp: Any, a: Any, b: Any, d: Any, *, transposed: bool = True, columns: int = 4, b_rows: bool = True
) -> None:
    g, t = warp.laneid // 4, warp.laneid % 4
    held_a, held_b = warp.registers(4), warp.registers(2)
    for register in range(4):
        row, k = g + 8 * (register % 2), 2 * t + 8 * (register // 2)
        if b_rows:
            held_a[:, register] = warp.ld_global(b.at(row, k))[:, 0]
        else:
            low, high = (warp.ld_global(b.at(k + each, row), "u16")[:, 0] for each in range(2))
            held_a[:, register] = low | high << 16
    for register in range(2):
        held_b[:, register] = warp.ld_global(a.at(g, 2 * t + 8 * register))[:, 0]
    c = warp.run(MMA, held_a, held_b, warp.registers(4, fill=0))
    for register in range(columns):
        row, column = g + 8 * (register // 2), 2 * t + register % 2
        where = d.at(column, row) if transposed else d.at(0, 8 * row + column)
        warp.st_global(where, c[:, register])


def stored_transposed(warp: Any, a: Any, b: Any, d: Any) -> None:
    _narrow(warp, a, b, d, transposed=False)


def half_of_the_columns(warp: Any, a: Any, b: Any, d: Any) -> None:
    _narrow(warp, a, b, d, columns=2)


def b_transposed(warp: Any, a: Any, b: Any, d: Any) -> None:
    _narrow(warp, a, b, d, b_rows=False)


def two_instructions(warp: Any, a: Any, b: Any, d: Any) -> None:
    """A padded with zeros to 16 rows, and B in two halves."""
    g, t = warp.laneid // 4, warp.laneid % 4
    held_a, held_b = warp.registers(4, fill=0), warp.registers(2)
    for register in (0, 2):
        held_a[:, register] = warp.ld_global(a.at(g, 2 * t + 4 * register))[:, 0]
    for n in (0, 8):
        for register in range(2):
            held_b[:, register] = warp.ld_global(b.at(n + g, 2 * t + 8 * register))[:, 0]
        c = warp.run(MMA, held_a, held_b, warp.registers(4, fill=0))
        warp.st_global(d.at(g, n + 2 * t), c[:, :2], "v2.b32")


WRONG = {
    "where_of_int8_b": [
        (b_of_f16, "This is the map of B with f16 elements"),
        (register_forgotten, "The register does not depend on row // 16"),
        (register_next_to_lane, "eight consecutive rows"),
        (rule_of_a, "This is A's rule"),
    ],
    "fill_b": [
        (halves_exchanged, "The two halves of each register are swapped"),
        (registers_exchanged, "b0 and b1 are swapped"),
        (lane_for_group, "In the lane, you swapped"),
        (neighbours_in_a_row, "You took neighbours in a row of B"),
        (numbers_for_bits, "use .view, not astype"),
        (whole_numbers, "use .view, not astype"),
    ],
    "d_as_a": [
        (in_the_order_of_rows, "a1 and a2 are swapped"),
        (high_half_first, "The two halves of each register are swapped"),
        (upper_halves, "That is a bf16"),
        (right_first, "The tiles are swapped"),
        (tile_beside_tile, "You paired the same element of both tiles"),
    ],
    "product_of_64": [
        (not_accumulated, "pass the D of one step as the C of the next"),
        (same_rows_of_b, "All steps multiply the same rows of B"),
        (a1_a2_exchanged, "a1 and a2 are swapped"),
        (layout_of_f16, "misaligned"),
        (first_step_only, "Only the first 32 columns of A"),
        (upper_rows_only, "Rows 8 to 15 are never stored"),
        (same_rows_twice, "d2 and d3 overwrite d0 and d1"),
        (accumulators_unwritten, "register"),
    ],
    "eight_rows": [
        (stored_transposed, "This is the transpose"),
        (half_of_the_columns, "Columns 8 to 15 are missing"),
        (b_transposed, "B is transposed once too often"),
        (two_instructions, "at most 1"),
    ],
}
