"""Pairs of blocks: TMA to both, counted by the leader's mbarrier, one product of the pair, a commit to both."""

import re

import numpy as np
import pytest
from rows import rows
from tensor_kernels import ORDERS, expected

from tcemu.errors import Deadlock, LaunchError
from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.tensor_map import TensorMap

LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2"
A, B, FULL, DONE, SLOT = 0, 16384, 24576, 24584, 24592
M, N, K, COLUMNS = 256, 64, 64, 64


def pair(warp, a, b, out, *, change=""):
    """D (256, 64) of A (256, 64) and B (64, 64): each block loads its halves; the leader multiplies."""
    rank, leader = warp.cluster_ctarank, warp.cluster_ctarank == 0
    everyone = warp.elect_sync() & (warp.warpid == 0)
    if warp.warpid == 0:
        warp.tcgen05_alloc(SLOT, COLUMNS, cta_group=2)
        warp.tcgen05_relinquish_alloc_permit(cta_group=2)
    with warp.only(everyone):
        warp.mbarrier_init(FULL, 1)
        warp.mbarrier_init(DONE, 1)
        warp.fence_mbarrier_init()
    warp.tcgen05_fence_before_thread_sync()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    warp.tcgen05_fence_after_thread_sync()
    d = int(warp.ld_shared(SLOT)[0, 0])
    if warp.warpid == 0:
        with warp.only(everyone):
            full = warp.mapa(FULL, 0)  # the leader's counts both halves
            if leader:
                warp.mbarrier_arrive_expect_tx(FULL, 2 * (128 * K + 32 * K) * 2)
            warp.run(LOAD, A, TensorMap.of(a, (K, 128), swizzle=128), (0, 128 * rank), full)
            warp.run(LOAD, B, TensorMap.of(b, (K, 32), swizzle=128), (0, 32 * rank), full)
            if leader or change == "follower":
                if leader:
                    warp.mbarrier_wait(FULL, 0)
                left = Descriptor.for_tile("f16", 128, K, swizzle=128, start=A)
                right = Descriptor.for_tile("f16", 32, K, swizzle=128, start=B)
                for step in range(0, K, 16):
                    given = (tcgen05_descriptor(each.step(2 * step)) for each in (left, right))
                    warp.tcgen05_mma("f16", d, *given, instruction_descriptor(M, N), step > 0, cta_group=2)
                warp.tcgen05_commit(DONE, 1 if change == "one mbarrier" else 3, cta_group=2)
    warp.mbarrier_wait(DONE, 0)
    warp.tcgen05_fence_after_thread_sync()
    for column in range(0, N, 8):
        found = warp.tcgen05_ld(d + (32 * warp.warpid << 16) + column, "32x32b.x8")
        warp.tcgen05_wait_ld()
        for half in (0, 4):
            at = out.at(128 * rank + warp.threads, column + half)
            warp.st_global(at, found[:, half : half + 4], "v4.b32")
    warp.tcgen05_fence_before_thread_sync()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    if warp.warpid == 0 and not (change == "one frees" and not leader):
        warp.tcgen05_dealloc(d, COLUMNS, cta_group=2)


def run(change="", cluster=2, **more):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((count, K)).astype(np.float16) for count in (M, N))
    out = np.zeros((M, N), np.uint32)
    launch(
        lambda warp, *args: pair(warp, *args, change=change), cluster, 128, (a, b, out), shared=24640, target="sm_100a",
        cluster=cluster, **more,
    )  # fmt: skip
    return out, expected(a, b)


@pytest.mark.parametrize(("policy", "seed"), ORDERS)
def test_a_pair_multiplies_what_tma_brought_to_both(policy, seed):
    found, wanted = run(policy=policy, seed=seed)
    assert np.array_equal(found, wanted)


def test_events_name_the_blocks():
    heard = []
    run(observers=(heard.append,))
    copies = [each.copy for each in heard if type(each) is events.CopyIssued]
    assert {(copy.by.block, copy.owner, copy.counter) for copy in copies} == {(0, -1, None), (1, -1, 0)}
    mma = next(each.operation for each in heard if type(each) is events.Tcgen05Issued and each.operation.kind == "mma")
    assert [area.block for area in mma.writes] == [0, 1]
    assert [(role, block) for role, block, _, _ in mma.shared] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    commit = next(each.commit for each in heard if type(each) is events.Tcgen05Committed)
    assert commit.mbarriers == ((0, DONE, 0), (1, DONE, 0))
    allocated = [each for each in heard if type(each) is events.TensorAllocated]
    assert sorted((each.block, each.start, each.columns) for each in allocated) == [(0, 0, 64), (1, 0, 64)]


@rows(
    "change cluster error says",
    [
        ("follower", 2, LaunchError, "a thread of the leader, the block with the even rank, issues it for both blocks"),
        ("", 1, LaunchError, "needs a pair of blocks, those of a cluster whose ranks differ in the last bit"),
        ("one mbarrier", 2, Deadlock, "block 1"),
        ("one frees", 2, LaunchError, "block 1 exits with columns 0 to 63 of Tensor Memory"),
    ],
    ids=lambda change, cluster, error, says: says,
)
def test_what_is_wrong_with_a_pair(change, cluster, error, says):
    with pytest.raises(error, match=re.escape(says)):
        run(change, cluster)
