"""Code that the kernels of this folder share: two tiles, and common beginnings and ends."""

from __future__ import annotations

from typing import Any

from tcemu.layouts import Descriptor

MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
#: The operands of MMA after the descriptors: scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b.
ORDINARY = (1, 1, 1, 0, 0)
#: A (64 x 16) and B (16 x 8) of f16 in shared memory, without a swizzle.
TILES = (
    Descriptor.for_tile("f16", 64, 16, swizzle=0),
    Descriptor.for_tile("f16", 8, 16, swizzle=0, start=2048),
)


def fill(warp: Any) -> None:
    """The threads of a warpgroup store both tiles."""
    warp.st_shared(16 * warp.threads, 0, "v4.b32")
    with warp.only(warp.threads < 16):
        warp.st_shared(2048 + 16 * warp.threads, 0, "v4.b32")


def ready(warp: Any) -> None:
    """Both tiles, stored, fenced for the async proxy, and behind a barrier."""
    fill(warp)
    warp.fence_proxy_async()
    warp.bar_sync()


def finish(warp: Any) -> None:
    """Commit, and wait for everything."""
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)


def barrier(warp: Any, address: int, count: int = 1) -> None:
    """One lane initialises an mbarrier and makes it visible to all threads."""
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(address, count)
            warp.fence_mbarrier_init()
    warp.bar_sync()
