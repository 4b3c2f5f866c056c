"""Wrong answers of notebook 10 about tiles in memory, with words that the diagnosis contains."""

from dataclasses import replace

import numpy as np

import tcemu
from tcemu.layouts import copy_tile

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"


# ---------------------------------------------------------------------------------------------- addresses


def always_32_bytes(swizzle, step):
    return 32 * step


def next_rows(swizzle, step):
    return 8 * max(swizzle, 16) * step


def always_the_next_line(swizzle, step):
    return (64 * swizzle if swizzle else 2048) * step


def one_core_matrix(swizzle, step):
    right = {0: 1024 * step, 32: 2048 * step, 64: step // 2 * 4096 + step % 2 * 32, 128: 32 * step}
    return right[swizzle]


# ---------------------------------------------------------------------------------------------- memory and products


def filled(matrix, tile):
    shared = np.zeros(65536, np.uint8)
    copy_tile(matrix, shared, tile)
    return shared


def filled_without_swizzle(given):
    tile = given.descriptor
    row, byte = np.arange(64)[:, None], 2 * np.arange(64)
    line = tile.swizzle
    at = tile.start + row % 8 * line + row // 8 * tile.sbo + byte % line + byte // line * tile.lbo
    shared = np.zeros(65536, np.uint8)
    shared.view(np.uint16)[at // 2] = given.A.view(np.uint16)
    return shared


def filled_row_by_row(given):
    shared = np.zeros(65536, np.uint8)
    shared[given.descriptor.start :][:8192] = given.A.view(np.uint8).ravel()
    return shared


def filled_from_byte_0(given):
    return filled(given.A, replace(given.descriptor, start=0))


def filled_transposed(given):
    return filled(given.A.T.copy(), given.descriptor)


def summed(step, scale_d):
    """The answer with its own step of the descriptors and its own scale_d."""

    def answer(shared, a, b, d):
        for i in range(4):
            d = tcemu.run(WGMMA, d, step(a, i), step(b, i), scale_d(i), 1, 1, 0, 0, shared=shared)
        return tcemu.parse(WGMMA).fragments["d"].unpack(d)

    return answer


def by_32(tile, i):
    return tile.step(32 * i)


WRONG = {
    "start_of_k_step": [
        (always_32_bytes, "stays inside a line"),
        (next_rows, "goes to the next eight rows"),
        (always_the_next_line, "Inside a line, a step is 32 bytes"),
        (one_core_matrix, "two core matrices along K"),
    ],
    "fill_for_descriptor": [
        (("given", filled_without_swizzle), "left the swizzle out"),
        (("given", filled_row_by_row), "row by row"),
        (("given", filled_from_byte_0), "begins at byte 0"),
        (("given", filled_transposed), "transposed matrix"),
    ],
    "sum_over_k": [
        (summed(by_32, lambda i: 1), "never 0"),
        (summed(by_32, lambda i: 0), "always 0"),
        (summed(lambda tile, i: tile.step(32 * i if tile.start < 8192 else 0), lambda i: int(i > 0)), "Only the descr"),
        (summed(lambda tile, i: tile.step(16 * i), lambda i: int(i > 0)), "by 16 bytes"),
        (summed(lambda tile, i: tile, lambda i: int(i > 0)), "do not move"),
        (summed(lambda tile, i: replace(tile, lbo=tile.lbo + 32 * i), lambda i: int(i > 0)), "do not move"),
    ],
}
