"""A product of two small tiles by a warpgroup, whose result is known: what the tests of wgmma in kernels share."""

import numpy as np

import tcemu
from tcemu.layouts import Descriptor
from tcemu.machine.launch import launch
from tcemu.machine.registers import POISON

F16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"
#: scale_d and the immediates of a plain D = A B + D.
ONES = (True, 1, 1, 0, 0)
#: A tile of A and one of B at 0 and 2048, and what is there: whole numbers, so that sums are exact.
A, B = Descriptor.for_tile("f16", 64, 16), Descriptor.for_tile("f16", 8, 16, start=2048)
NUMBERS = np.random.default_rng(4)
TILE_A, TILE_B = NUMBERS.integers(-8, 9, (64, 16)), NUMBERS.integers(-8, 9, (8, 16))
PRODUCT = (TILE_A @ TILE_B.T).astype(np.float32)
D = tcemu.parse(F16).fragments["d"]
ACCUMULATED = D.pack(PRODUCT)


def lay(bytes_, descriptor, matrix):
    """Write a matrix (mn, k) of f16 where a descriptor says."""
    for i, j in np.ndindex(*matrix.shape):
        at = descriptor.address(i, j, "f16")
        bytes_[at : at + 2] = np.frombuffer(np.float16(matrix[i, j]).tobytes(), np.uint8)


IMAGE = np.zeros(4096, np.uint8)
lay(IMAGE, A, TILE_A)
lay(IMAGE, B, TILE_B)


def prepared(warp):
    """Both tiles in shared memory."""
    if warp.warpid % 4 == 0:
        warp.core.block.shared.bytes[:4096] = IMAGE
    warp.bar_sync()
    warp.wgmma_fence()


def mine(warp):
    return slice(32 * (warp.warpid % 4), 32 * (warp.warpid % 4) + 32)


def ended(warp, registers, times=1):
    """Whether registers hold `times` the product; if not, the result is pending and they hold poison."""
    seen = registers.copy()
    if registers.pending:
        assert (seen == POISON).all()
        assert "result pending" in repr(registers)
        return False
    assert np.array_equal(
        D.unpack(np.tile(seen, (4, 1)))[16 * (warp.warpid % 4) :][:16], times * PRODUCT[mine_rows(warp)]
    )
    return True


def mine_rows(warp):
    """A warp of a warpgroup has 16 rows of D."""
    return slice(16 * (warp.warpid % 4), 16 * (warp.warpid % 4) + 16)


def run_group(kernel, policy="late", block=128, **options):
    return launch(kernel, 1, block, shared=4096, policy=policy, **options)
