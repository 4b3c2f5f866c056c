"""Rules for wgmma, and the smallest kernel that breaks each."""

from __future__ import annotations

from typing import Any

from tcemu.layouts import Descriptor
from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, finish, ready

rules(
    Rule(
        "wgmma-fence-first",
        "no wgmma.fence before the first mma_async",
        "9.7.15.7.1",
        "Every warp of a warpgroup must execute wgmma.fence before its first mma_async. Without the fence, the "
        "mma_async may read registers before earlier writes to them are visible.",
        "Execute wgmma.fence in all four warps before the first mma_async.",
    ),
    Rule(
        "wgmma-fence-touched",
        "registers accessed after the last wgmma.fence",
        "9.7.15.7.1",
        "After any access to registers, a warp must execute wgmma.fence before an mma_async uses them as its "
        "accumulator or as A. Only consecutive mma_asyncs of the same shape may share an accumulator without a fence.",
        "Move the access before the wgmma.fence, or execute another wgmma.fence after it.",
    ),
    Rule(
        "wgmma-fence-shape",
        "mma_asyncs of different shapes share an accumulator without a wgmma.fence",
        "9.7.15.7.1",
        "Without a wgmma.fence between them, mma_asyncs on the same accumulator are ordered only if they have the same "
        "shape.",
        "Wait for the first mma_async, then execute wgmma.fence before the second.",
    ),
    Rule(
        "wgmma-fence-unneeded",
        "a wgmma.fence that orders nothing",
        "9.7.15.7.1",
        "wgmma.fence orders earlier register accesses with later mma_asyncs. It orders nothing if no mma_async "
        "follows, or if it lies between mma_asyncs of one group without any register access between them.",
        "Remove the fence.",
        "hint",
    ),
    Rule(
        "wgmma-unwaited",
        "registers of an mma_async accessed before a wait",
        "9.7.15.4",
        "An mma_async reads and writes its registers asynchronously. Until a wgmma.wait_group covers it, no other "
        "instruction may read or write its accumulator or its A registers.",
        "Execute wgmma.commit_group and wgmma.wait_group before the access.",
    ),
    Rule(
        "wgmma-wait-weak",
        "wgmma.wait_group leaves the group pending",
        "9.7.15.7.3",
        "wgmma.wait_group N waits until at most the N latest groups are pending. The kernel must not access the "
        "registers of those N groups yet.",
        "Give wgmma.wait_group a smaller N before the access.",
    ),
    Rule(
        "wgmma-uncommitted",
        "an mma_async is never committed",
        "9.7.15.7.2",
        "wgmma.wait_group waits only for committed groups. An mma_async joins a group when a later wgmma.commit_group "
        "executes; until then no wait covers it.",
        "Execute wgmma.commit_group after the last mma_async of the group, and wait after that.",
    ),
    Rule(
        "wgmma-descriptors",
        "the warps of a warpgroup pass different matrix descriptors",
        "9.7.15.5.1",
        "The four warps of a warpgroup execute one mma_async together, on the same tiles, so all four must pass the "
        "same matrix descriptors.",
        "Compute the descriptors only from values that the four warps share, not from the warp's or the lane's number.",
    ),
    Rule(
        "warpgroup-start",
        "a warpgroup does not start at a multiple of four",
        "9.7.15.1",
        "A warpgroup is four consecutive warps, and the number of the first is a multiple of four.",
        "Execute wgmma in warps 0 to 3, 4 to 7 and so on, and round the number of warps up to a multiple of four.",
    ),
)

OTHER = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32"


@breaks("wgmma-fence-first")
def no_fence_at_all(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("wgmma-fence-touched")
def accumulator_zeroed_after_the_fence(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    d[...] = 0
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("wgmma-fence-shape")
def another_shape_on_the_same_accumulator(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    warp.run(OTHER, d, *TILES, 1, 1, 1)  # <- reported
    finish(warp)


@breaks("wgmma-fence-unneeded")
def two_fences_in_a_row(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()  # <- reported
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)


@breaks("wgmma-unwaited")
def accumulator_written_before_the_commit(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    d[:, 0] = 0  # <- reported
    finish(warp)


@breaks("wgmma-wait-weak")
def wait_group_leaves_the_only_group(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(1)
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")  # <- reported
    warp.wgmma_wait_group(0)


@breaks("wgmma-uncommitted")
def exits_without_a_commit(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported


@breaks("wgmma-descriptors")
def each_warp_its_own_tile_of_b(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    b = Descriptor.for_tile("f16", 8, 16, swizzle=0, start=256 * warp.warpid)
    warp.wgmma_fence()
    warp.run(MMA, d, TILES[0], b, *ORDINARY)  # <- reported
    finish(warp)


@breaks("warpgroup-start", block=64)
def two_warps_are_no_warpgroup(warp: Any, g: Any) -> None:
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()  # <- reported
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)
