"""The Hopper kernel in clusters and with stream-K: to the bit what one block for each tile computes."""

import numpy as np
import pytest
from quick import spread

import tcemu
from tcemu.errors import Deadlock, OperandError
from tcemu.gemm import wgmma_cluster, wgmma_stream, wgmma_tma
from tcemu.machine import events

POLICIES = ("late", "early", "random")
CLUSTERS = [wgmma_cluster.ClusterPlan(columns=32), wgmma_cluster.ClusterPlan(columns=16, blocks=4, stages=2)]


def matrices(m, n, k, seed=1):
    """A (m, k) and B (k, n) of f16 bits that are all possible: the order of every sum shows."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1 << 16, shape, np.uint16).view(np.float16) for shape in ((m, k), (k, n))]


def same(found, expected):
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


# ---------------------------------------------------------------------------------------------------- clusters


@pytest.mark.slow
@pytest.mark.parametrize("plan", CLUSTERS, ids=str)
def test_clusters(plan):
    a, b = matrices(plan.rows, 2 * plan.blocks * plan.columns, 4 * plan.depth)
    expected = tcemu.matmul(a, b, instruction=plan.mma)
    for seed in spread((0, 1), 2):
        d, result = wgmma_cluster.multiply(a, b, plan, seed=seed, policy=POLICIES)
        same(d, expected)
        assert (result.parted, result.reports, result.blocks) == ([], [], 2 * plan.blocks)


def test_matrices_that_do_not_fill_the_clusters():
    plan = CLUSTERS[0]
    a, b = matrices(70, 3 * plan.columns - 2, 3 * plan.depth + 8)
    same(
        wgmma_cluster.multiply(a, b, plan, sanitizer="off")[0],
        wgmma_tma.multiply(a, b, wgmma_tma.Plan(columns=32), sanitizer="off")[0],
    )


def test_a_is_read_once_for_the_cluster():
    """Each block copies half of A's rows, and both get them: half as many bytes of A come from global memory."""
    plan, heard = CLUSTERS[0], []
    a, b = matrices(64, 2 * plan.columns, 2 * plan.depth)
    wgmma_cluster.multiply(a, b, plan, observers=[heard.append])
    copies = [event.copy for event in heard if isinstance(event, events.CopyIssued)]
    multicast = [copy for copy in copies if "multicast" in copy.opcode]
    assert len(copies) == 2 * 2 * 3
    assert sum(copy.owner < 0 for copy in multicast) == sum(copy.owner >= 0 for copy in multicast) == 4
    assert {copy.bytes for copy in multicast} == {plan.a_bytes // 2}


@pytest.mark.parametrize("blocks", [1, 3, 16])
def test_clusters_that_do_not_fit(blocks):
    a, b = matrices(64, 32, 64)
    with pytest.raises(OperandError, match=f"have 2, 4 or 8 blocks; got {blocks}"):
        wgmma_cluster.multiply(a, b, wgmma_cluster.ClusterPlan(blocks=blocks))


# ---------------------------------------------------------------------------------------------------- stream-K


@pytest.mark.parametrize("tiles", [1, 2, 7])
@pytest.mark.parametrize("steps", [1, 3, 8])
def test_every_step_is_done_once_and_what_is_handed_on_comes_first(tiles, steps):
    for blocks in range(1, tiles * steps + 1):
        work = [wgmma_stream.parts(block, blocks, tiles, steps) for block in range(blocks)]
        done = [(part.tile, step) for parts in work for part in parts[::-1] for step in range(part.first, part.end)]
        assert done == [(tile, step) for tile in range(tiles) for step in range(steps)]
        sizes = [sum(part.end - part.first for part in parts) for parts in work]
        assert max(sizes) - min(sizes) <= 1
        for parts in work:
            assert [part.end < steps for part in parts] == [parts[0].end < steps] + [False] * (len(parts) - 1)
            assert [part.first > 0 for part in parts] == [False] * (len(parts) - 1) + [parts[-1].first > 0]


@pytest.mark.parametrize("blocks", [1, 3, 4, 100])
def test_stream_k(blocks):
    plan = wgmma_tma.Plan(columns=32, stages=2)
    a, b = matrices(2 * plan.rows, plan.columns, 3 * plan.depth)
    expected = tcemu.matmul(a, b, instruction=plan.mma)
    for seed in (0, 1):
        d, result = wgmma_stream.multiply(a, b, blocks, plan, seed=seed, policy=POLICIES)
        same(d, expected)
        assert (result.parted, result.reports, result.blocks) == ([], [], min(blocks, 6))


def test_a_block_before_that_cannot_start():
    """In the order of their numbers, each block waits for one that has started; in another order it may not."""
    a, b = matrices(64, 32, 6 * 64)
    plan = wgmma_tma.Plan(columns=32)
    expected = tcemu.matmul(a, b, instruction=plan.mma)
    same(wgmma_stream.multiply(a, b, 6, plan, resident=1)[0], expected)
    with pytest.raises(Deadlock, match="cannot start before one of these ends"):
        wgmma_stream.multiply(a, b, 6, plan, resident=1, seed=1, sanitizer="off")


@pytest.mark.parametrize("blocks", [0, -1, True, 2.0, "all"])
def test_numbers_of_blocks(blocks):
    with pytest.raises(OperandError, match="blocks= must be at least 1; got"):
        wgmma_stream.multiply(*matrices(64, 32, 64), blocks)
