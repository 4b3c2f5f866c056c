"""Kernels on Tensor Memory that tests of several files share."""

import numpy as np

import tcemu
from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.machine.allocation import Shared
from tcemu.machine.launch import launch

#: Every policy, in the fixed order and in one that a seed decides.
ORDERS = [(policy, seed) for policy in ("early", "late", "random") for seed in (0, 5)]
#: Where tests keep the address of their columns, and an mbarrier.
SLOT, BARRIER = 0, 8


def one_warp(body, *, columns=32, policy="late", seed=0, block=32, **more):
    """Run body(warp, address of allocated columns) in each warp; the first allocates and frees."""

    def kernel(warp):
        if warp.warpid == 0:
            warp.tcgen05_alloc(SLOT, columns)
        warp.bar_sync()
        taddr = int(warp.ld_shared(SLOT)[0, 0])
        body(warp, taddr)
        warp.bar_sync()
        if warp.warpid == 0:
            warp.tcgen05_dealloc(taddr, columns)

    return launch(kernel, 1, block, shared=4096, target="sm_100a", policy=policy, seed=seed, **more)


def gemm(a, b, *, kind="f16", form="f16", idesc=None, k=16, swizzle=128, policy="late", seed=0, observers=()):
    """D (M, N) f32 of A (M, K) and B (N, K), given as patterns: the smallest whole kernel of one block."""
    (m, depth), n = a.shape, len(b)
    size = a.dtype.itemsize
    shared = Shared(A=(a.shape, a.dtype), B=(b.shape, b.dtype), bar=(1, np.uint64), slot=(1, np.uint32))
    tiles = {
        "A": Descriptor.for_tile(form, m, depth, swizzle=swizzle, start=int(shared.A)),
        "B": Descriptor.for_tile(form, n, depth, swizzle=swizzle, start=int(shared.B)),
    }
    columns = max(32, 1 << (n - 1).bit_length())
    bits = instruction_descriptor(m, n) if idesc is None else idesc

    def kernel(warp, a, b, out):
        slot, bar = int(shared.slot), int(shared.bar)
        if warp.warpid == 0:
            warp.tcgen05_alloc(slot, columns)
            warp.tcgen05_relinquish_alloc_permit()
        if warp.warpid == 1:
            with warp.only(warp.elect_sync()):
                warp.mbarrier_init(bar, 1)
                warp.fence_mbarrier_init()
        for name, source, rows in (("A", a, m), ("B", b, n)):
            with warp.only(warp.threads < rows):
                here = np.minimum(warp.threads, rows - 1)
                for chunk in range(0, depth, 16 // size):
                    at = np.array([tiles[name].address(int(row), chunk, form) for row in here])
                    warp.st_shared(at, warp.ld_global(source.at(here, chunk), "v4.b32"), "v4.b32")
        warp.fence_proxy_async()
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        warp.tcgen05_fence_after_thread_sync()
        d = int(warp.ld_shared(slot)[0, 0])
        if warp.warpid == 2:
            with warp.only(warp.elect_sync()):
                for step in range(0, depth, k):
                    left, right = (tcgen05_descriptor(tiles[name].advance(form, k=step)) for name in "AB")
                    warp.tcgen05_mma(kind, d, left, right, bits, step > 0)
                warp.tcgen05_commit(bar)
        warp.mbarrier_wait(bar, 0)
        warp.tcgen05_fence_after_thread_sync()
        row = warp.threads if m == 128 else np.where(warp.laneid < 16, 16 * warp.warpid + warp.laneid, 0)
        for column in range(0, n, 8):
            found = warp.tcgen05_ld(d + (warp.warpid * 32 << 16) + column, "32x32b.x8")
            warp.tcgen05_wait_ld()
            with warp.only((warp.laneid < 16) | (m == 128)):
                for half in (0, 4):
                    warp.st_global(out.at(row, column + half), found[:, half : half + 4], "v4.b32")
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        if warp.warpid == 0:
            warp.tcgen05_dealloc(d, columns)

    out = np.zeros((m, n), np.uint32)
    launch(kernel, 1, 128, (a, b, out), shared=shared, target="sm_100a", policy=policy, seed=seed, observers=observers)
    return out


def expected(a, b, form="f16", d="f32"):
    """What tcemu.matmul of mma.sync says, which has the same sums on this chip."""
    opcode = f"mma.sync.aligned.m16n8k16.row.col.{d}.{form}.{form}.{d}"
    return tcemu.matmul(a, b.T, instruction=opcode, target="sm_100a").view(np.uint32)
