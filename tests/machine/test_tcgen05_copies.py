"""tcgen05.cp: every shape, from shared memory in every K-major layout, to the lanes that CuTe's copies have."""

import numpy as np
import pytest
from rows import rows
from tensor_kernels import BARRIER, ORDERS, SLOT

from tcemu.errors import LaunchError
from tcemu.layouts import Descriptor
from tcemu.machine.launch import launch

#: Words of a lane that nothing writes; where the matrix begins in shared memory.
POISON, START = 0x7FFFDEAD, 1024
#: By shape: rows, bytes of each, and the lanes of row r (CuTe; the manual has figures).
SHAPES = {
    "128x256b": (128, 32, lambda r: [r]),
    "128x128b": (128, 16, lambda r: [r]),
    "4x256b": (4, 32, lambda r: [32 * r]),  # a lane of each warp's quarter
    "64x128b.warpx2::02_13": (64, 16, lambda r: [r, r + 64]),
    "64x128b.warpx2::01_23": (64, 16, lambda r: [r % 32 + 64 * (r // 32), r % 32 + 64 * (r // 32) + 32]),
    "32x128b.warpx4": (32, 16, lambda r: [r, r + 32, r + 64, r + 96]),
}


def address(row, piece, swizzle):
    """Where 16 bytes of a row are: in a line as long as the swizzle; without one, in a core matrix of 8 rows."""
    if not swizzle:
        return row * 16 + piece * 2048
    line = row * swizzle + piece * 16
    return line ^ (line >> 7 & swizzle // 16 - 1) << 4


def described(swizzle):
    return Descriptor(START, *((2048, 128) if not swizzle else (16, 8 * swizzle)), swizzle)


def copied(shape, swizzle, taddr=0, group=1, policy="late", seed=0):
    """Tensor Memory (blocks, 128, 32) after a copy of an image that each block draws, and the images."""
    images, out = {}, {}

    def kernel(warp):
        block = warp.core.block
        rank = block.rank
        images[rank] = np.random.default_rng(rank).integers(0, 256, 16384, np.uint8)
        block.shared.bytes[START : START + 16384] = images[rank]
        if warp.warpid == 0:
            warp.tcgen05_alloc(SLOT, 32, cta_group=group)
            with warp.only(warp.elect_sync()):
                warp.mbarrier_init(BARRIER, 1)
                warp.fence_mbarrier_init()
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        if warp.warpid == 0 and rank == 0:
            with warp.only(warp.elect_sync()):
                warp.tcgen05_cp(taddr, described(swizzle), shape, cta_group=group)
                warp.tcgen05_commit(BARRIER, 3 if group == 2 else None, cta_group=group)
        warp.mbarrier_wait(BARRIER, 0)
        found = warp.tcgen05_ld(32 * warp.warpid << 16, "32x32b.x32")
        warp.tcgen05_wait_ld()
        out[rank, warp.warpid] = found[...].copy()
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        if warp.warpid == 0:
            warp.tcgen05_dealloc(0, 32, cta_group=group)

    launch(
        kernel, group, 128, shared=START + 16384, target="sm_100a", cluster=group, policy=policy, seed=seed
    )  # fmt: skip
    memory = [np.concatenate([out[rank, warp] for warp in range(4)]) for rank in range(group)]
    return memory, images


def wanted(shape, swizzle, image, lane=0, column=0):
    """What the shape's table says."""
    count, size, lanes = SHAPES[shape]
    found = np.full((128, 32), POISON, np.uint32)
    for row in range(count):
        pieces = [image[address(row, piece, swizzle) :][:16] for piece in range(size // 16)]
        for each in lanes(row):
            found[each + lane, column : column + size // 4] = np.concatenate(pieces).view(np.uint32)
    return found


@rows("shape swizzle", [(shape, swizzle) for shape in SHAPES for swizzle in (0, 32, 64, 128)])
def test_each_shape_copies_its_rows_to_its_lanes(shape, swizzle):
    (memory,), images = copied(shape, swizzle, taddr=3)
    assert np.array_equal(memory, wanted(shape, swizzle, images[0], column=3))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pair_copies_from_both_to_both(shape):
    memory, images = copied(shape, 0, group=2)
    for rank in (0, 1):
        assert np.array_equal(memory[rank], wanted(shape, 0, images[rank]))


@pytest.mark.parametrize(("policy", "seed"), ORDERS)
def test_a_copy_has_ended_when_its_commit_has_arrived(policy, seed):
    (memory,), images = copied("32x128b.warpx4", 0, policy=policy, seed=seed)
    assert np.array_equal(memory, wanted("32x128b.warpx4", 0, images[0]))


def test_four_rows_go_to_the_lane_of_the_address():
    """It refreshes the last lane of each quarter, behind a shift."""
    (memory,), images = copied("4x256b", 0, taddr=31 << 16)
    assert np.array_equal(memory, wanted("4x256b", 0, images[0], lane=31))


def test_others_begin_at_lane_0():
    with pytest.raises(LaunchError, match="must be a multiple of 128 below 128; got 32"):
        copied("128x256b", 0, taddr=32 << 16)
