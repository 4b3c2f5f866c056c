"""Rules for proxies, the paths to memory, and the smallest kernel that breaks each."""

from __future__ import annotations

from typing import Any

from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, fill, finish

rules(
    Rule(
        "proxy-fence-missing",
        "written by ordinary stores, used by the async proxy without fence.proxy.async",
        "9.7.13.4",
        "wgmma and bulk copies access shared memory through the async proxy, which may not see what st, cp.async and "
        "stmatrix wrote through the generic proxy. Each thread that wrote must execute fence.proxy.async after its "
        "writes.",
        "Execute fence.proxy.async in the writing threads after their stores, then a barrier.",
    ),
    Rule(
        "proxy-fence-thread",
        "fence.proxy.async in a different thread from the one that wrote",
        "9.7.13.4",
        "fence.proxy.async covers only the accesses of the thread that executes it. A fence in another thread does not "
        "make the store visible to the async proxy, even after a barrier.",
        "Execute fence.proxy.async in every thread that stores, then a barrier.",
    ),
    Rule(
        "proxy-fence-barrier",
        "no barrier between fence.proxy.async and the use of the bytes",
        "9.7.13.4",
        "The threads that use the bytes must synchronise with the writers after the writers' fence.proxy.async: with a "
        "barrier, or with an mbarrier's arrive and wait, between the fence and the use.",
        "Put the barrier after fence.proxy.async: stores, fence, barrier, use.",
    ),
)


@breaks("proxy-fence-missing")
def stores_a_barrier_and_wgmma(warp: Any, g: Any) -> None:
    fill(warp)
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("proxy-fence-thread")
def warp_0_fences_for_all(warp: Any, g: Any) -> None:
    fill(warp)
    if warp.warpid == 0:
        warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("proxy-fence-barrier")
def a_fence_and_no_barrier(warp: Any, g: Any) -> None:
    fill(warp)
    warp.fence_proxy_async()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)
