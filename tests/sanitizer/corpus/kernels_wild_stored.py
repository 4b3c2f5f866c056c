"""Tiles that the threads store themselves: mistakes of layout, as people report them, and their right twins."""

import numpy as np
from kernels_wild_correct_wgmma import LDMATRIX, TILE, multiply, store, swizzled
from kernels_wild_table import correct, faulty, matrices, product

from tcemu.layouts import Descriptor

SQUARE = matrices(64, 64, 64)
RULES = ("tile-layout", "swizzle-mismatch")


def stored(warp, matrix, start, place):
    """64 rows of 64 f16, each unit of 16 bytes loaded into registers and stored at its place."""
    for first in range(0, 512, 128):
        row, unit = np.divmod(first + warp.threads, 8)
        warp.st_shared(start + place(row, unit), warp.ld_global(matrix.at(row, 8 * unit), "v4.b32"), "v4.b32")


def copied(warp, matrix, start, place):
    """The same, by cp.async."""
    for first in range(0, 512, 128):
        row, unit = np.divmod(first + warp.threads, 8)
        warp.cp_async(start + place(row, unit), matrix.at(row, 8 * unit), 16)
    warp.cp_async_commit_group()
    warp.cp_async_wait_group(0)


def rows(row, unit):
    return 128 * row + 16 * unit


def cores(row, unit):
    """Core matrices, those of a row one after the other."""
    return row // 8 * 1024 + 128 * unit + row % 8 * 16


def visible(warp):
    warp.fence_proxy_async()
    warp.bar_sync()


# ------------------------------------------------------------------------------------------------ wgmma


@correct(SQUARE, product, shared=2 * TILE)
def registers_to_a_swizzled_tile(warp, a, b, d):
    """Without TMA, the threads apply the swizzle of 128 bytes."""
    for start, matrix in ((0, a), (TILE, b)):
        stored(warp, matrix, start, swizzled)
    visible(warp)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    multiply(warp, c, 0, TILE)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


@faulty(RULES, SQUARE, shared=2 * TILE)
def registers_to_rows_and_a_swizzled_descriptor(warp, a, b, d):
    """The descriptor is that of a TMA kernel; the stores are those of a kernel without tensor cores."""
    for start, matrix in ((0, a), (TILE, b)):
        stored(warp, matrix, start, rows)
    visible(warp)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    for k in range(4):
        first, second = (Descriptor.for_tile("f16", 64, 64, swizzle=128, start=start) for start in (0, TILE))
        steps = first.step(32 * k), second.step(32 * k)
        warp.run("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", c, *steps, True, 1, 1, 0, 0)  # <- reported
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


@correct(SQUARE, product, shared=2 * TILE)
def core_matrices_by_cp_async(warp, a, b, d):
    """No swizzle: LBO leads to the next 8 columns, SBO to the next 8 rows."""
    for start, matrix in ((0, a), (TILE, b)):
        copied(warp, matrix, start, cores)
    visible(warp)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    for k in range(4):
        steps = (Descriptor(start + 256 * k, lbo=128, sbo=1024) for start in (0, TILE))
        warp.run("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", c, *steps, True, 1, 1, 0, 0)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


@faulty("tile-layout", SQUARE, shared=2 * TILE)
def core_matrices_with_lbo_and_sbo_exchanged(warp, a, b, d):
    """Two versions of the manual name the two strides differently."""
    for start, matrix in ((0, a), (TILE, b)):
        copied(warp, matrix, start, cores)
    visible(warp)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    steps = (Descriptor(start, lbo=1024, sbo=128) for start in (0, TILE))
    warp.run("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", c, *steps, True, 1, 1, 0, 0)  # <- reported
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


@faulty("tile-layout", SQUARE, shared=2 * TILE)
def rows_as_if_they_were_core_matrices(warp, a, b, d):
    """A flat copy of the matrices, and the strides of its rows in the descriptor."""
    for start, matrix in ((0, a), (TILE, b)):
        copied(warp, matrix, start, rows)
    visible(warp)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    steps = (Descriptor(start, lbo=16, sbo=1024) for start in (0, TILE))
    warp.run("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", c, *steps, True, 1, 1, 0, 0)  # <- reported
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


# ------------------------------------------------------------------------------------------------ ldmatrix


def loads(warp, place, d):
    """Each warp loads 16 rows as four operands A, and stores what its registers hold."""
    lane = warp.laneid
    for k in range(4):
        row = 16 * warp.warpid + lane % 16
        held = warp.run(LDMATRIX, place(row, 2 * k + lane // 16))  # <- reported
        for part in range(4):
            down, along = 16 * warp.warpid + lane // 4 + part % 2 * 8, 16 * k + part // 2 * 8 + lane % 4 * 2
            warp.st_global(d.at(down, along // 2), held[:, part])


def same(a, b):
    """The matrix itself, as words."""
    return a.view(np.uint32)


def one_matrix():
    a, b, _ = SQUARE()
    return a, b, np.zeros((64, 32), np.uint32)


@correct(one_matrix, same, shared=TILE)
def ldmatrix_with_the_swizzle_of_the_copies(warp, a, b, d):
    """The XOR of row and unit, on both sides."""
    copied(warp, a, 0, swizzled)
    warp.bar_sync()
    loads(warp, swizzled, d)


@faulty("swizzle-mismatch", one_matrix, shared=TILE)
def ldmatrix_without_the_swizzle_of_the_copies(warp, a, b, d):
    """The XOR was added against bank conflicts, but only where the tile is written."""
    copied(warp, a, 0, swizzled)
    warp.bar_sync()
    loads(warp, rows, d)  # <- reported


@faulty("swizzle-mismatch", one_matrix, shared=TILE)
def ldmatrix_with_another_phase(warp, a, b, d):
    """Row / 2 belongs to lines of 64 bytes."""
    stored(warp, a, 0, swizzled)
    warp.bar_sync()
    loads(warp, lambda row, unit: 128 * row + 16 * (unit ^ row // 2 % 4), d)  # <- reported
