"""fence.proxy.async between the barrier and the use: a hint if all threads that use the bytes execute it there.

Triton's kernels for Hopper do so, and the memory model (PTX ISA 9.1, 8.9.5) has no rule about it.
"""

from __future__ import annotations

import numpy as np
import pytest

import tcemu
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, finish


def stores(warp, g):
    for place in range(0, 4096, 512):
        warp.st_shared(place + 4 * warp.threads, 0x3C003C00)


def copies(warp, g):
    for place in range(0, 4096, 512):
        warp.cp_async(place + 4 * warp.threads, g + place + 4 * warp.threads, 4)
    warp.cp_async_commit_group()
    warp.cp_async_wait_group(0)


def multiply(warp):
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)


def leave(warp):
    with warp.only(warp.threads == 0):
        warp.cp_async_bulk_global_shared(256, 0, 256)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@pytest.mark.parametrize("use", [multiply, leave])
@pytest.mark.parametrize("fill", [stores, copies])
@pytest.mark.parametrize("who", ["all", "all warps but one", "all lanes but one", "nobody"])
def test_who_fences_behind_the_barrier(fill, use, who):
    fences = {"all": lambda warp: True, "all warps but one": lambda warp: warp.warpid != 2,
              "all lanes but one": lambda warp: warp.laneid > 0, "nobody": lambda warp: False}[who]  # fmt: skip
    # the warp that issues the copy has fenced as a whole
    severity = "hint" if who == "all" or (who == "all warps but one" and use is leave) else "error"

    def kernel(warp, g):
        fill(warp, g)
        warp.bar_sync()
        with warp.only(np.broadcast_to(fences(warp), 32)):
            warp.fence_proxy_async()
        use(warp)

    found = tcemu.launch(kernel, block=128, args=(np.zeros(4096, np.uint8),), shared=8192, sanitizer="collect").reports
    assert {report.severity for report in found} == {severity}
    if severity == "hint":
        assert {report.rule for report in found} == {"proxy-fence-barrier"}
        assert "Triton" in found[0].message


def test_a_fence_before_the_barrier_gives_nothing():
    def kernel(warp, g):
        stores(warp, g)
        warp.fence_proxy_async()
        warp.bar_sync()
        multiply(warp)

    assert not tcemu.launch(kernel, block=128, args=(np.zeros(4096, np.uint8),), shared=8192).reports
