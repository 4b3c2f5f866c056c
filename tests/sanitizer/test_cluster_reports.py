"""The text of reports in clusters: they name the block of each warp once, and only the blocks involved."""

from kernels_wild_correct_wgmma import multiply

from tcemu import launch


def first(kernel, **options):
    """The first report of a kernel on a cluster of two blocks of 128 threads."""
    return launch(kernel, 2, 128, cluster=2, sanitizer="collect", **options).reports[0]


def one_warp_of_a_block_is_gone(warp):
    if warp.cluster_ctarank == 1 and warp.warpid < 3:
        warp.bar_sync(1, 128)


def reads_from_a_block_that_is_gone(warp):
    if warp.cluster_ctarank == 1:
        warp.ld_shared_cluster(warp.mapa(0, 0))


def overwritten_from_the_other_block(warp):
    for start in range(0, 16384, 2048):
        warp.st_shared(start + 16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    if warp.cluster_ctarank == 0:
        c = warp.registers(32, fill=0)
        warp.wgmma_fence()
        multiply(warp, c, 0, 8192)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
    else:
        warp.st_shared_cluster(warp.mapa(4 * warp.threads, 0), 1)
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()


def met_by_a_relaxed_arrival(warp, relaxed_first):
    """The store of block 1 is published by a relaxed arrival, or made after one and not published at all."""
    if relaxed_first:
        warp.barrier_cluster_arrive("relaxed")
        warp.barrier_cluster_wait()
    if warp.cluster_ctarank:
        warp.st_shared(4 * warp.threads, 1)
    if not relaxed_first:
        warp.barrier_cluster_arrive("relaxed")
        warp.barrier_cluster_wait()
    if not warp.cluster_ctarank:
        warp.ld_shared_cluster(warp.mapa(4 * warp.threads, 1))
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()


def test_a_race_names_the_relaxed_arrival_behind_the_access():
    for relaxed_first in (False, True):
        report = first(met_by_a_relaxed_arrival, args=(relaxed_first,), shared=512)
        assert report.rule == "shared-race"
        assert ("is .relaxed: without a fence before it" in report.message) is not relaxed_first


def test_a_barrier_waits_for_warps_of_its_own_block():
    report = first(one_warp_of_a_block_is_gone)
    assert report.rule == "exited-threads"
    assert report.what == "warp 3 of block 1"
    assert "block 0" not in report.message


def test_a_block_that_has_exited_is_no_matter_of_edges():
    text = str(first(reads_from_a_block_that_is_gone, shared=128))
    assert "Make all blocks of the cluster wait at barrier.cluster after they last use" in text
    assert "At an edge" not in text


def test_warps_of_one_block_are_named_with_it_once():
    report = first(overwritten_from_the_other_block, shared=16384)
    assert report.rule == "overwritten-early"
    assert "warps 0 to 3 of block 0" in report.message, report
