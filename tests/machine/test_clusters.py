"""Thread-block clusters: ranks, the barrier, distributed shared memory, remote mbarriers, copies to other blocks."""

import re

import numpy as np
import pytest

import tcemu
from tcemu.errors import Deadlock, LaunchError, MemoryFault, OperandError, UndefinedBehaviour
from tcemu.machine.launch import launch
from tcemu.machine.tensor_map import TensorMap

POLICIES = ("late", "early", "random")
each_seed = pytest.mark.parametrize("seed", [0, 1])


def meet(warp, order="release"):
    warp.barrier_cluster_arrive(order)
    warp.barrier_cluster_wait()


def first(warp):
    return warp.only(warp.threads == 0)


def clean(kernel, grid, block, args, **options):
    """Launch under every policy; neither the results nor the sanitizer may object."""
    result = tcemu.launch(kernel, grid, block, args, policy=POLICIES, **options)
    assert (result.parted, result.reports) == ([], [])
    return result


# ---------------------------------------------------------------------------------------------------- who and where


def test_special_registers():
    found = {}

    def kernel(warp):
        found[warp.ctaid] = (
            *(warp.clusterid, warp.nclusterid, warp.cluster_ctaid, warp.cluster_nctaid),
            *(warp.cluster_ctarank, warp.cluster_nctarank, warp.is_explicit_cluster),
        )

    launch(kernel, (4, 6), cluster=(2, 3))
    assert len(found) == 24
    for (x, y, z), told in found.items():
        cluster, place = (x // 2, y // 3, 0), (x % 2, y % 3, 0)
        assert (z, told) == (0, (cluster, (2, 2, 1), place, (2, 3, 1), place[0] + 2 * place[1], 6, True))
    launch(kernel, 2)
    assert found[1, 0, 0] == ((1, 0, 0), (2, 1, 1), (0, 0, 0), (1, 1, 1), 0, 1, False)


def test_what_a_launch_is_given(row):
    cases = [
        ({"cluster": 0}, "cluster must be one to three numbers from 1 to (16, 16, 16); got 0"),
        ({"cluster": True}, "got True"),
        ({"cluster": (4, 5)}, "a cluster has at most 16 blocks on sm_90a; (4, 5, 1) has 20"),
        ({"cluster": 16}, "more than 8 blocks is not portable; (16, 1, 1) has 16. On sm_90a, up to 16 are possible"),
        ({"cluster": (16, 1)}, "with non_portable_cluster=True"),
        ({"cluster": 2, "non_portable_cluster": 1}, "non_portable_cluster must be True or False; got 1"),
        ({"cluster": 9, "target": "sm_120", "non_portable_cluster": True}, "from 1 to (8, 8, 8); got 9"),
        ({"cluster": 2, "target": "sm_80"}, "clusters exist from sm_90 on; the target is sm_80"),
        ({"cluster": 3}, "must be a multiple of the cluster's; got (16, 1, 1) and (3, 1, 1)"),
        ({"cluster": 4, "resident": 3}, "at least 4, the blocks of a cluster; got 3"),
    ]
    for given, says in cases:
        with row(repr(given)), pytest.raises(LaunchError, match=re.escape(says)):
            launch(lambda *_: pytest.fail("it ran"), 16, **given)
    assert launch(meet, 16, cluster=16, non_portable_cluster=True).blocks == 16
    assert launch(meet, 8, cluster=8).blocks == 8


# ---------------------------------------------------------------------------------------------------- shared memory


@each_seed
def test_a_reduction_through_shared_memory(seed):
    """Each block sums its part; each thread of rank 0 then adds up what the blocks have in its place."""

    def kernel(warp, x, out):
        rank, count, here = warp.cluster_ctarank, warp.cluster_nctarank, 4 * warp.threads
        warp.st_shared(here, warp.ld_global(x.at(warp.ctaid[0], warp.threads)))
        meet(warp)
        if rank == 0:
            total = sum(warp.ld_shared_cluster(warp.mapa(here, each))[:, 0] for each in range(count))
            warp.st_global(out.at(warp.clusterid[0], warp.threads), total)
        meet(warp, "relaxed")  # nobody exits while rank 0 reads

    x = np.random.default_rng(1).integers(0, 1 << 20, (8, 64), np.uint32)
    out = np.zeros((2, 64), np.uint32)
    clean(kernel, 8, 64, (x, out), shared=256, cluster=4, seed=seed)
    assert np.array_equal(out, x.reshape(2, 4, 64).sum(axis=1, dtype=np.uint32))


@each_seed
def test_atomics_and_generic_addresses(seed):
    """A histogram spread over the blocks of a cluster: each bin is in one of them."""

    def kernel(warp, x, out):
        warp.st_shared(4 * warp.threads, 0)
        meet(warp)
        bins = warp.ld_global(x.at(warp.ctaid[0], warp.threads))[:, 0]
        place = warp.mapa(4 * (bins // 4), bins % 4)
        if warp.ctaid[0] % 2:
            warp.red_shared_cluster("add.u32", place, 1)
        else:
            whole = warp.run("mapa.u64", warp.generic(4 * (bins // 4)), bins % 4)
            assert np.array_equal(warp.run("getctarank.u64", whole), bins % 4)
            warp.run("atom.add.u32", whole, 1)
        meet(warp)
        warp.st_global(out.at(warp.cluster_ctarank, warp.threads), warp.ld_shared(4 * warp.threads))

    x = np.random.default_rng(2).integers(0, 128, (4, 32), np.uint32)
    out = np.zeros((4, 32), np.uint32)
    clean(kernel, 4, 32, (x, out), shared=128, cluster=4, seed=seed)
    assert np.array_equal(out.T.reshape(-1), np.bincount(x.reshape(-1).astype(np.intp), minlength=128))


def test_addresses_say_whose_they_are():
    def kernel(warp):
        if warp.cluster_ctarank == 1:
            own, other = warp.mapa(16, 1), warp.mapa(16, 0)
            assert (warp.getctarank(16), warp.getctarank(own), warp.getctarank(other)) == (1, 1, 0)
            assert warp.mapa(other, 1) == own  # an address that is already mapped
            assert warp.run("getctarank.u64", warp.generic(16)) == 1
            assert warp.run("mapa.u64", warp.generic(16), 1) == warp.generic(16)
            assert warp.mapa(4 * warp.laneid, warp.laneid % 2).dtype == np.int64
            warp.st_shared_cluster(own, 5)
            warp.bar_warp_sync()
            assert warp.ld_shared(16)[0, 0] == warp.run("ld.b32", warp.generic(16))[0, 0] == 5
        meet(warp)

    launch(kernel, 2, shared=128, cluster=2)


# ---------------------------------------------------------------------------------------------------- mbarriers


@each_seed
def test_a_remote_arrival_and_st_async(seed):
    """A ring: each block stores into the next one's shared memory, whose mbarrier counts the bytes."""

    def kernel(warp, out):
        rank, count = warp.cluster_ctarank, warp.cluster_nctarank
        with first(warp):
            warp.mbarrier_init(512, count)
            warp.fence_mbarrier_init()
            warp.mbarrier_expect_tx(512, 32 * 8 + 32 * 4)
        warp.st_shared(256 + 4 * warp.laneid, 1000)
        meet(warp)
        following = (rank + 1) % count
        mbarrier = warp.mapa(512, following)
        values = np.stack([100 * rank + warp.laneid, warp.laneid], axis=1).astype(np.uint32)
        warp.st_async(warp.mapa(8 * warp.laneid, following), values, mbarrier, "v2.b32")
        warp.red_async("add.u32", warp.mapa(256 + 4 * warp.laneid, following), rank, mbarrier)
        for each in range(count):
            with first(warp):
                warp.mbarrier_arrive_shared_cluster(warp.mapa(512, each))
        warp.mbarrier_wait(512, 0)
        warp.st_global(out.at(0, rank, warp.laneid), warp.ld_shared(8 * warp.laneid))
        warp.st_global(out.at(1, rank, warp.laneid), warp.ld_shared(256 + 4 * warp.laneid))
        meet(warp)

    out = np.zeros((2, 4, 32), np.uint32)
    clean(kernel, 4, 32, (out,), shared=520, cluster=4, seed=seed)
    before = (np.arange(4) - 1) % 4
    assert np.array_equal(out[0], 100 * before[:, None] + np.arange(32))
    assert np.array_equal(out[1], np.broadcast_to(1000 + before[:, None], (4, 32)))


@pytest.mark.parametrize("sanitizer", ["off", "raise"])
def test_st_async_stores_what_the_registers_held(sanitizer):
    """They may be overwritten before the store lands."""

    def kernel(warp, out):
        with first(warp):
            warp.mbarrier_init(512, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(512, 32 * 4)
        meet(warp)
        held = warp.registers(1, fill=0)
        held[:, 0] = warp.laneid
        other = 1 - warp.cluster_ctarank
        warp.st_async(warp.mapa(4 * warp.laneid, other), held, warp.mapa(512, other))
        held[:, 0] = 7
        warp.mbarrier_wait(512, 0)
        warp.st_global(out.at(warp.cluster_ctarank, warp.laneid), warp.ld_shared(4 * warp.laneid))
        meet(warp)

    out = np.zeros((2, 32), np.uint32)
    tcemu.launch(kernel, 2, 32, (out,), shared=520, cluster=2, policy="late", sanitizer=sanitizer)
    assert np.array_equal(out, [np.arange(32)] * 2)


@each_seed
def test_bulk_copies_between_blocks(seed):
    """Rank 1 copies a run into rank 0's memory, and adds another one to it."""

    def kernel(warp, out):
        with first(warp):
            warp.mbarrier_init(512, 1)
            warp.mbarrier_init(520, 1)
            warp.fence_mbarrier_init()
        warp.st_shared(4 * warp.threads, 7 * warp.threads)
        warp.fence_proxy_async()
        meet(warp)
        rank = warp.cluster_ctarank
        with first(warp):
            if rank == 0:
                warp.mbarrier_arrive_expect_tx(512, 128)
                warp.mbarrier_arrive_expect_tx(520, 128)
                warp.mbarrier_wait(512, 0)
                warp.mbarrier_arrive_shared_cluster(warp.mapa(512, 1))
                warp.mbarrier_wait(520, 0)
            else:
                warp.cp_async_bulk_shared_cluster(warp.mapa(256, 0), 128, 128, warp.mapa(512, 0))
                warp.mbarrier_wait(512, 0)  # the copy has landed
                form = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
                warp.run(form, warp.mapa(256, 0), 128, 128, warp.mapa(520, 0))
        warp.bar_sync()
        if rank == 0:
            warp.mbarrier_wait(520, 0)
            with warp.only(warp.threads < 32):
                warp.st_global(out.at(warp.threads % 32), warp.ld_shared(256 + 4 * (warp.threads % 32)))
        meet(warp)

    out = np.zeros(32, np.uint32)
    clean(kernel, 2, 64, (out,), shared=528, cluster=2, seed=seed)
    assert np.array_equal(out, 2 * 7 * np.arange(32, 64))


@each_seed
def test_a_multicast_goes_to_the_blocks_of_the_mask(seed):
    def kernel(warp, x, y, out):
        rank, box = warp.cluster_ctarank, TensorMap.of(y, (16, 4))
        with first(warp):
            warp.mbarrier_init(1024, 1)
            warp.fence_mbarrier_init()
            if rank != 2:
                warp.mbarrier_arrive_expect_tx(1024, 512)
        meet(warp)
        with first(warp):
            if rank == 3:
                warp.cp_async_bulk_tensor_shared_global(0, box, (16, 4), 1024, cta_mask=0b1011)
                warp.cp_async_bulk_shared_global(256, x.at(8), 256, 1024, cta_mask=0b1011)
        if rank != 2:
            warp.mbarrier_wait(1024, 0)
            for part in range(2):
                values = warp.ld_shared(256 * part + 8 * warp.laneid, "v2.b32")
                warp.st_global(out.at(rank, part, 2 * warp.laneid), values, "v2.b32")
        meet(warp)

    x, y = np.arange(128, dtype=np.float32), np.arange(512, dtype=np.float32).reshape(16, 32)
    out = np.zeros((4, 2, 64), np.float32)
    clean(kernel, 4, 32, (x, y, out), shared=1032, cluster=4, seed=seed)
    for rank in (0, 1, 3):
        assert np.array_equal(out[rank, 0], y[4:8, 16:].reshape(-1))
        assert np.array_equal(out[rank, 1], x[8:72])
    assert not out[2].any()


# ---------------------------------------------------------------------------------------------------- the barrier


def test_phases_of_the_barrier_and_threads_that_exit():
    order = []

    def kernel(warp):
        rank = warp.cluster_ctarank
        for phase in range(3):
            order.append((phase, rank))
            if phase == 1:
                warp.run("barrier.cluster.arrive.release.aligned")
                warp.run("barrier.cluster.wait.acquire.aligned")
            else:
                with warp.only(warp.laneid < 5):
                    warp.barrier_cluster_arrive()
                with warp.only(warp.laneid >= 5):
                    warp.run("barrier.cluster.arrive")
                warp.run("barrier.cluster.wait")
        if rank == 1:
            return  # the last phase does not wait for it
        with warp.only(warp.laneid == 0):
            warp.exit()
        meet(warp)

    launch(kernel, 2, 40, cluster=2)
    assert [phase for phase, _ in order] == [0] * 4 + [1] * 4 + [2] * 4


def twice(warp):
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_arrive()


def unannounced(warp):
    warp.barrier_cluster_wait()


def one_does_not_come(warp):
    if warp.cluster_ctarank == 1 and warp.warpid == 1:
        warp.bar_sync(1, 64)
    meet(warp)


def test_misuse_of_the_barrier(row):
    cases = [
        (twice, LaunchError, "arrives again at the barrier of the cluster without barrier.cluster.wait"),
        (unannounced, LaunchError, "waits at the barrier of the cluster without barrier.cluster.arrive before"),
        (one_does_not_come, Deadlock, "where 32 threads have not arrived: warp 1 of block 1"),
    ]
    for kernel, error, says in cases:
        with row(kernel.__name__), pytest.raises(error, match=re.escape(says)):
            launch(kernel, 2, 64, cluster=2)
    with pytest.raises(UndefinedBehaviour, match="the barrier of the cluster"):
        tcemu.launch(one_does_not_come, 2, 64, cluster=2)


# ---------------------------------------------------------------------------------------------------- faults


def after_exit(warp):
    if warp.cluster_ctarank == 0:
        warp.nanosleep(1)
        for _ in range(1000):
            warp.ld_shared_cluster(warp.mapa(0, 1))


def into_another_block(what):
    """A kernel in which one lane of rank 0 does something to the shared memory of rank 1."""

    def kernel(warp):
        with first(warp):
            warp.mbarrier_init(0, 1)
        meet(warp)
        with first(warp):
            if warp.cluster_ctarank == 0:
                what(warp)
        meet(warp)

    return kernel


def test_faults(row):
    bulk = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    cases = [
        (lambda warp: warp.st_shared_cluster(warp.mapa(124, 1), 0, "v2.b32"), MemoryFault, "not a multiple of 8"),
        (lambda warp: warp.st_shared_cluster(warp.mapa(128, 1), 0), MemoryFault, "outside shared memory"),
        (lambda warp: warp.ld_shared_cluster(warp.mapa(0, 1) + (1 << 24)), MemoryFault, "there is no rank 2"),
        (lambda warp: warp.mapa(0, 2), MemoryFault, "a cluster of 2 blocks has no rank 2"),
        (lambda warp: warp.mapa(0, -1), MemoryFault, "has no rank -1"),
        (lambda warp: warp.run("mapa.u64", 64, 1), MemoryFault, "lies in global memory"),
        (lambda warp: warp.run(bulk, warp.mapa(64, 1), 32, 16, 0), MemoryFault, "must be in the same block"),
        (lambda warp: warp.st_async(warp.mapa(64, 1), 0, 0), MemoryFault, "must be in the same block"),
        (lambda warp: warp.mbarrier_arrive_shared_cluster(warp.mapa(64, 1)), LaunchError, "holds no mbarrier"),
        (
            lambda warp: warp.run("mbarrier.arrive.b64", warp.run("mapa.u64", warp.generic(0), 1)),
            MemoryFault,
            "lies in shared memory of another block",
        ),
        (
            lambda warp: warp.run("ldmatrix.sync.aligned.m8n8.x1.b16", warp.run("mapa.u64", warp.generic(0), 1)),
            MemoryFault,
            "only ld, st, atom and red reach there",
        ),
    ]
    for number, (what, error, says) in enumerate(cases):
        with row(f"{number} {says}"), pytest.raises(error, match=re.escape(says)):
            launch(into_another_block(what), 2, 64, shared=128, cluster=2)
    with pytest.raises(MemoryFault, match="the block with rank 1 in the cluster has exited"):
        launch(after_exit, 2, shared=16, cluster=2)


@pytest.mark.parametrize(("mask", "error", "says"), [
    (0, OperandError, "ctaMask has 16 bits, one for each rank of the cluster, at least one of them set; got 0"),
    (1 << 16, OperandError, "got 65536"),
    (0b100, MemoryFault, "there is no rank 2 in a cluster of 2 blocks"),
])  # fmt: skip
def test_masks(mask, error, says):
    def kernel(warp, x):
        with first(warp):
            warp.mbarrier_init(0, 1)
            warp.cp_async_bulk_shared_global(16, x, 16, 0, cta_mask=mask)

    with pytest.raises(error, match=re.escape(says)):
        launch(kernel, 2, args=(np.zeros(4, np.float32),), shared=64, cluster=2)


# ---------------------------------------------------------------------------------------------------- the sanitizer


def unordered(warp, order):
    warp.st_shared(4 * warp.threads, 1)
    meet(warp, order)
    warp.ld_shared_cluster(warp.mapa(4 * warp.threads, 1 - warp.cluster_ctarank))
    meet(warp)


def test_relaxed_arrivals_publish_nothing():
    assert tcemu.launch(unordered, 2, 64, ("release",), shared=256, cluster=2).reports == []
    found = tcemu.launch(unordered, 2, 64, ("relaxed",), shared=256, cluster=2, sanitizer="collect").reports
    assert {report.rule for report in found} == {"shared-race"}
    assert all("of shared memory of block" in report.what for report in found)
    assert {(report.block, report.warp) for report in found} <= {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert "of block" in str(found[0].earlier)


def overwritten(warp, waits):
    """Rank 1 copies to rank 0, and then stores to the source: after rank 0 has seen the copy land, or at once."""
    rank = warp.cluster_ctarank
    with warp.only(warp.elect_sync()):
        warp.mbarrier_init(512, 1)
        warp.fence_mbarrier_init()
        warp.st_shared(0, np.zeros((32, 4), np.uint32), "v4.b32")
        warp.fence_proxy_async()
    meet(warp)
    with warp.only(warp.elect_sync()):
        if rank == 0:
            warp.mbarrier_arrive_expect_tx(512, 16)
            warp.mbarrier_wait(512, 0)
            warp.mbarrier_arrive_shared_cluster(warp.mapa(512, 1))
        else:
            warp.cp_async_bulk_shared_cluster(warp.mapa(256, 0), 0, 16, warp.mapa(512, 0))
            if waits:
                warp.mbarrier_wait(512, 0)
            warp.st_shared(0, 1)
    meet(warp)


def test_the_source_of_a_copy_is_free_when_the_other_block_has_it():
    for seed in (0, 1):
        clean(overwritten, 2, 32, (True,), shared=520, cluster=2, seed=seed)
        found = tcemu.launch(overwritten, 2, 32, (False,), shared=520, cluster=2, seed=seed, sanitizer="collect")
        assert [report.rule for report in found.reports] == ["overwritten-early"]
