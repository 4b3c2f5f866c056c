"""Tiles that threads write for tcgen05.mma: what another layout misreads is reported, and nothing that is right.

Each kernel multiplies, and numpy says whether its product is right.
"""

from dataclasses import replace

import numpy as np
import pytest
from tiles_table import rows, swizzled

import tcemu
from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor

#: The beginning of A's tile of 64 f16 in a row, of B's 16, of an mbarrier and of the address of columns.
A, B, BAR, SLOT = 4096, 24576, 32768, 32776
ORDERS = [("late", 0), ("early", 2), ("random", 5)]


def cores(row, unit):
    """8 columns of core matrices, 2048 bytes each."""
    return 2048 * unit + 16 * row


WRITERS = {each.__name__: each for each in (rows, swizzled, cores)}


def multiplied(writer, descriptor, base=A, policy="late", seed=0):
    """Whether D (128, 8) = A B^T is right, A written by `writer` from `base` on and read by `descriptor`; reports."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((128, 64), (8, 16)))
    right = Descriptor.for_tile("f16", 8, 16, swizzle=0, start=B)

    def kernel(warp, a, b, out):
        if warp.warpid == 0:
            warp.tcgen05_alloc(SLOT, 32)
        with warp.only(warp.threads == 0):
            warp.mbarrier_init(BAR, 1)
            warp.fence_mbarrier_init()
        for unit in range(8):
            at = np.array([base + writer(row, unit) for row in warp.threads.tolist()])
            warp.st_shared(at, warp.ld_global(a.at(warp.threads, 8 * unit), "v4.b32"), "v4.b32")
        with warp.only(warp.threads < 8):
            row = np.minimum(warp.threads, 7)
            for unit in range(2):
                at = np.array([right.address(each, 8 * unit, "f16") for each in row.tolist()])
                warp.st_shared(at, warp.ld_global(b.at(row, 8 * unit), "v4.b32"), "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync()
        d = int(warp.ld_shared(SLOT)[0, 0])
        with warp.only(warp.threads == 0):
            bits = tcgen05_descriptor(descriptor), tcgen05_descriptor(right)
            warp.tcgen05_mma("f16", d, *bits, instruction_descriptor(128, 8), 0)  # <- reported
            warp.tcgen05_commit(BAR)
        warp.mbarrier_wait(BAR, 0)
        warp.tcgen05_fence_after_thread_sync()
        found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")
        warp.tcgen05_wait_ld()
        for half in (0, 4):
            warp.st_global(out.at(warp.threads, half), found[:, half : half + 4], "v4.b32")
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        if warp.warpid == 0:
            warp.tcgen05_dealloc(d, 32)

    out = np.zeros((128, 8), np.float32)
    given = {"block": 128, "args": (a, b, out), "shared": 32832, "target": "sm_100a", "policy": policy, "seed": seed}
    reports = tcemu.launch(kernel, sanitizer="collect", **given).reports
    wanted = a[:, :16].astype(np.float32) @ b.T.astype(np.float32)
    return np.array_equal(out, wanted), [each for each in reports if each.severity != "hint"]


def described(swizzle, start=A):
    """The tile of 128 rows in one of the layouts that the writers have."""
    return Descriptor(start, *((16, 1024) if swizzle else (2048, 128)), swizzle)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_misread_is_reported_and_nothing_else(writer, swizzle):
    right, reports = multiplied(WRITERS[writer], described(swizzle))
    assert right == (not reports)
    assert {each.rule for each in reports} <= {"swizzle-mismatch", "tile-layout"}


@pytest.mark.parametrize(("policy", "seed"), ORDERS)
@pytest.mark.parametrize("base", [A, A + 128])
def test_a_swizzled_tile_begins_at_a_multiple_of_1024(base, policy, seed):
    """tilelang, issue 2379: rows were swizzled by their number, but the hardware does it by the address."""
    descriptor = replace(described(128), start=base)
    right, reports = multiplied(swizzled, descriptor, base, policy, seed)
    assert right == (base == A) == (not reports)
    for each in reports[:1]:
        assert each.rule in ("swizzle-mismatch", "tile-layout")
        assert each.site.function.endswith("kernel")
        assert "base offset 1" in each.fix
        assert "begin the tile at a multiple of 1024" in each.fix
