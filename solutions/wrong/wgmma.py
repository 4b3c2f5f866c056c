"""Wrong answers of notebook 10 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu
from tcemu.layouts.swizzle import swizzled

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"

# ---------------------------------------------------------------------------------------------- registers


def a_warp_s_map(row, column):
    """All 64 rows in one warp, as mma.sync has 16."""
    return row % 8 * 4 + column // 2 % 4, column // 8 * 4 + row // 8 % 2 * 2 + column % 2


def without_the_lower_rows(row, column):
    return row // 16 * 32 + row % 8 * 4 + column // 2 % 4, column // 8 * 4 + column % 2


def registers_by_row(row, column):
    return row // 16 * 32 + row % 8 * 4 + column // 2 % 4, row // 8 % 2 * 4 + column // 8 * 2 + column % 2


def holds_transposed(lane, register):
    row, column = holds(lane, register)
    return column, row


def holds(lane, register):
    return 16 * (lane // 32) + lane % 32 // 4 + register // 2 % 2 * 8, register // 4 * 8 + lane % 4 * 2 + register % 2


def holds_registers_by_row(lane, register):
    return (
        16 * (lane // 32) + lane % 32 // 4 + register // 4 * 8,
        register // 2 % 2 * 8 + lane % 4 * 2 + register % 2,
    )


def holds_neighbouring_lanes(lane, register):
    """Lane // 8 for the row."""
    return 16 * (lane // 32) + lane % 8 + register // 2 % 2 * 8, register // 4 * 8 + lane % 32 // 8 * 2 + register % 2


FRAGMENT = tcemu.parse(WGMMA).fragments["a"]


def halves_exchanged(given):
    registers = FRAGMENT.pack(given.A)
    return registers >> 16 | registers << 16


def a_rows_by_columns(given):
    """Registers 1 and 2 swapped: first along k, then 8 rows down."""
    return FRAGMENT.pack(given.A)[:, [0, 2, 1, 3]]


def a_as_numbers(given):
    """astype where view is meant."""
    row, column = np.indices(given.A.shape)
    lane = 32 * (row // 16) + 4 * (row % 8) + column // 2 % 4
    register = column // 8 * 2 + row // 8 % 2
    found = np.zeros((128, 4), np.int64)
    np.bitwise_or.at(found, (lane, register), (given.A.astype(np.int64) & 0xFFFF) << 16 * (column % 2))
    return found.astype(np.uint32)


# ---------------------------------------------------------------------------------------------- addresses


def three_bits_for_all(address, swizzle):
    return address ^ (address >> 7 & 7) << 4 if swizzle else address


def bits_from_8_on(address, swizzle):
    return address ^ (address >> 8 & max(swizzle // 16, 1) - 1) << 4


def lines_of_the_swizzle(address, swizzle):
    return address ^ (address // swizzle & swizzle // 16 - 1) << 4 if swizzle else address


def added(address, swizzle):
    line = address // 128 & max(swizzle // 16, 1) - 1
    return address // 128 * 128 + (address % 128 + 16 * line) % 128


def in_the_unit(address, swizzle):
    return address ^ (address // 128 & max(swizzle // 16, 1) - 1)


def by_the_row(start, row, column):
    return start + 128 * row + (2 * column ^ row % 8 << 4)


def unswizzled(start, row, column):
    return start + 128 * row + 2 * column


def in_elements(start, row, column):
    return int(swizzled(np.int64(start + 64 * row + column), 128))


WRONG = {
    "where_of_d_warpgroup": [
        (a_warp_s_map, "lane does not depend on row // 16"),
        (without_the_lower_rows, "register does not depend on row // 8 % 2"),
        (registers_by_row, "In the register, you swapped"),
    ],
    "what_a_warpgroup_lane_holds": [
        (holds_registers_by_row, "You swapped register // 4 and register // 2 % 2"),
        (holds_transposed, "swapped row and column"),
        (holds_neighbouring_lanes, "You swapped lane // 4 % 8 and lane % 4"),
    ],
    "a_of_warpgroup": [
        (("given", halves_exchanged), "two halves of each register are swapped"),
        (("given", a_rows_by_columns), "In the register, you swapped"),
        (("given", a_as_numbers), "stored the values as whole numbers"),
    ],
    "swizzled_address": [
        (three_bits_for_all, "three bits for every swizzle"),
        (bits_from_8_on, "begins at bit 7"),
        (lines_of_the_swizzle, "address // 128 for every swizzle"),
        (added, "it is XORed"),
        (in_the_unit, "shift it left by 4"),
    ],
    "address_in_tile": [
        (by_the_row, "uses the bits of the address"),
        (unswizzled, "left the swizzle out"),
        (in_elements, "an f16 has two bytes"),
    ],
}
