"""Exercises of notebook 10: fragments of a warpgroup, and addresses in swizzled tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, registers_of, what_map, where_map
from tcemu.course.record import Exercise
from tcemu.layouts.swizzle import swizzled

Array = npt.NDArray[Any]
_D = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"
_SWIZZLES = (0, 32, 64, 128)
_LINE = 128
_HOLDS = what_map(_D, "d")


def _exchanged(lane: Array, register: Array) -> Array:
    return _HOLDS.right(lane, register)[..., ::-1]


# ---------------------------------------------------------------------------------------------- addresses


def _other_bits(width: int, shift: int) -> Any:
    """XOR of `width` address bits from bit `shift` on into the bits from 4 on; a width of 0 follows the swizzle."""

    def way(address: Array, swizzle: Array) -> Array:
        bits = np.select([swizzle == size for size in (32, 64, 128)], [1, 2, 3], 0)
        mask = (1 << (width or bits)) - 1
        return np.where(swizzle > 0, address ^ (address >> shift & mask) << 4, address)

    return way


def _in_tile(start: Array, row: Array, column: Array) -> Array:
    return np.asarray(swizzled(start + _LINE * row + 2 * column, _LINE))


def _by_row(start: Array, row: Array, column: Array) -> Array:
    """The swizzle of the row in the tile, which is right only if the tile begins with the pattern."""
    return np.asarray(start + _LINE * row + (2 * column ^ row % 8 << 4))


EXERCISES = [
    Exercise(
        "where_of_d_warpgroup",
        "Where is D[row][column] of a warpgroup?",
        "Write `where_of_d_warpgroup(row, column)`, which returns the lane of the warpgroup, 0 to 127, and the "
        "register that hold element D[row][column] of `wgmma` m64n16k16 with an f32 accumulator.",
        where_map(_D, "d", matrix="D"),
        minutes=5,
        only=(),
        know="the layout line of D",
        section="9.7.15.5.1.1",
        hints=(
            "Which 16 rows does each of the four warps hold?",
            (
                "Inside a warp, D looks like D of mma.sync: eight rows, two neighbours in a row, and the rows 8 "
                "further down in the next two registers."
            ),
            "The next eight columns are four registers further on.",
        ),
    ),
    Exercise(
        "swizzled_address",
        "Swizzle an address",
        "Write `swizzled_address(address, swizzle)`: where is the byte that would be at `address` without a swizzle? "
        "`swizzle` is 0, 32, 64 or 128 bytes.",
        Function(
            {"address": range(0, 4096, 8), "swizzle": _SWIZZLES},
            ("address",),
            swizzled,
            (
                ("You XOR three bits for every swizzle; 64 bytes use two bits and 32 bytes one.", _other_bits(3, 7)),
                ("You XOR bits 8 and up; the number of the 128-byte line begins at bit 7.", _other_bits(0, 8)),
                (
                    "The number of the line is XORed into bits 4 and up, the number of the unit: shift it left by 4.",
                    lambda a, s: a ^ (a // 128 & np.maximum(s // 16, 1) - 1) << 3,
                ),
                ("You XOR bits 6 and up; the number of the 128-byte line begins at bit 7.", _other_bits(0, 6)),
                ("You XOR the number of the unit with itself: the line's number begins at bit 7.", _other_bits(0, 4)),
                (
                    "Lines are not W bytes long here: the number of the line is address // 128 for every swizzle.",
                    lambda a, s: np.where(s > 0, a ^ (a // np.maximum(s, 1) & np.maximum(s // 16, 1) - 1) << 4, a),
                ),
                (
                    "You ORed the number of the line; it is XORed.",
                    lambda a, s: a | (a // 128 & np.maximum(s // 16, 1) - 1) << 4,
                ),
                (
                    "You added the number of the line; it is XORed.",
                    lambda a, s: a // 128 * 128 + (a % 128 + (a // 128 & np.maximum(s // 16, 1) - 1) * 16) % 128,
                ),
                (
                    "The number of the line is XORed into the byte in the unit: shift it left by 4.",
                    lambda a, s: a ^ a // 128 & np.maximum(s // 16, 1) - 1,
                ),
            ),
            how="512 addresses with each swizzle",
            device="swizzled_address",
            wider={"address": range(4096, 1 << 17)},
        ),
        minutes=10,
        only=(),
        know="the swizzle of shared memory",
        section="9.7.15.5.1.2",
        hints=(
            "A line has 128 bytes, eight units of 16. The swizzle permutes units inside a line.",
            "The number of the unit is address bits 6:4. What is it XORed with?",
            "128 bytes use three bits of the line's number, 64 bytes two, 32 bytes one.",
        ),
    ),
    Exercise(
        "what_a_warpgroup_lane_holds",
        "What does a lane of the warpgroup hold?",
        "Write `what_a_warpgroup_lane_holds(lane, register)`, which returns the row and the column of D that register "
        "`register` of lane `lane`, 0 to 127, holds after `wgmma` m64n16k16 with an f32 accumulator.",
        replace(_HOLDS, mistakes=(*_HOLDS.mistakes, ("You swapped row and column.", _exchanged))),
        minutes=10,
        only=(),
        know="the layout line of D",
        section="9.7.15.5.1.1",
        hints=(
            "Take the lane apart: lane // 32 is the warp. What do lane // 4 % 8 and lane % 4 stand for?",
            "Take the register apart: register % 2, register // 2 % 2 and register // 4 each mean something else.",
        ),
    ),
    Exercise(
        "a_of_warpgroup",
        "Fill the A registers of a warpgroup",
        "A may come from registers instead of shared memory. Write `a_of_warpgroup(A)`, which returns the "
        "registers of A, a matrix of 64 × 16 f16, as an array (128, 4) of uint32. Do not use `pack`.",
        registers_of(_D, "a", lambda given: given.A),
        minutes=20,
        only=(),
        know="the layout line of A",
        section="9.7.15.5.1.1",
        hints=(
            "It is the fragment of mma.sync m16n8k16, once for each warp, with 16 rows each.",
            "A view of A as uint32 pairs neighbours of a row, the first in the low half: an array (64, 8).",
            "For a lane and a register: which row, and which of the 8 pairs?",
        ),
        draw=lambda rng: {"A": rng.normal(size=(64, 16)).astype(np.float16)},
        points=2,
    ),
    Exercise(
        "address_in_tile",
        "An element in a swizzled tile",
        "A K-major f16 tile with rows of 64 elements and the 128-byte swizzle begins at byte `start`, which is a "
        "multiple of 128, but not always of 1024. Its descriptor has the base offset 0. Write "
        "`address_in_tile(start, row, column)`, which returns the byte address of element A[row][column].",
        Function(
            {"start": (0, 1024, 512, 3200), "row": range(16), "column": range(0, 64, 2)},
            ("address",),
            _in_tile,
            (
                (
                    (
                        "You swizzle with the row in the tile. The swizzle uses the bits of the address, so it matters "
                        "where the tile begins."
                    ),
                    _by_row,
                ),
                ("You left the swizzle out.", lambda start, row, column: start + _LINE * row + 2 * column),
                (
                    "You counted elements: an f16 has two bytes.",
                    lambda start, row, column: swizzled(start + 64 * row + column, _LINE),
                ),
                (
                    "The row is in bytes, but the column in elements: an f16 has two bytes.",
                    lambda start, row, column: swizzled(start + _LINE * row + column, _LINE),
                ),
                (
                    (
                        "You swizzled the offset in the tile and then added the start. Add first: the swizzle uses the "
                        "bits of the address."
                    ),
                    lambda start, row, column: start + swizzled(_LINE * row + 2 * column, _LINE),
                ),
            ),
            how="2,048 elements of four tiles",
            device="address_in_tile",
            wider={"start": range(128, 1 << 16, 128), "row": range(64)},
        ),
        minutes=15,
        only=(),
        know="the swizzle acts on addresses",
        section="9.7.15.5.1.2, 9.7.15.5.1.2.2",
        hints=(
            "Begin with the address without the swizzle: the start, plus the row's bytes and the column's.",
            "The swizzle depends on that address alone.",
        ),
        points=2,
    ),
]
