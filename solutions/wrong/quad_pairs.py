"""Wrong answers of notebook 04 about mma.m8n8k4, with words that the diagnosis contains."""

from typing import Any

import numpy as np

# ---------------------------------------------------------------------------------------------- quad_pair_of_d


def f16_layout(lane: int, register: int) -> tuple[int, int, int]:
    return lane // 4 % 4, lane % 4 + 4 * (lane // 16), register


def consecutive_lanes(lane: int, register: int) -> tuple[int, int, int]:
    return lane // 8, lane % 2 + (register & 2) + 4 * (lane // 16), (register & 4) + (lane & 2) + register % 2


def lower_rows_forgotten(lane: int, register: int) -> tuple[int, int, int]:
    return lane // 4 % 4, lane % 2 + (register & 2), (register & 4) + (lane & 2) + register % 2


def column_from_the_register(lane: int, register: int) -> tuple[int, int, int]:
    return lane // 4 % 4, lane % 2 + (register & 2) + 4 * (lane // 16), (register & 4) + register % 2


# ---------------------------------------------------------------------------------------------- native_or_emulated


def too_close() -> tuple[Any, Any]:
    return np.array([1024, 1, 0, 0], np.float16), np.array([1024, 1, 0, 0], np.float16)


def too_far() -> tuple[Any, Any]:
    return np.array([4096, 2**-10, 0, 0], np.float16), np.array([4096, 2**-10, 0, 0], np.float16)


def one_product() -> tuple[Any, Any]:
    return np.array([1.001, 0, 0, 0], np.float16), np.array([1.001, 0, 0, 0], np.float16)


def infinite() -> tuple[Any, Any]:
    return np.array([np.inf, 1, 0, 0], np.float16), np.array([1, 1, 0, 0], np.float16)


WRONG = {
    "quad_pair_of_d": [
        (f16_layout, "layout of f16 accumulators"),
        (consecutive_lanes, "not eight consecutive lanes"),
        (lower_rows_forgotten, "you left out + 4"),
        (column_from_the_register, "The column does not depend on bit 1 of the lane"),
    ],
    "native_or_emulated": [
        (too_close, "so it fits into the sum on both"),
        (too_far, "too small even to be rounded up"),
        (one_product, "only one product that is not zero"),
        (infinite, "give finite numbers"),
    ],
}
