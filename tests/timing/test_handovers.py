"""Blocks that wait for each other in a timeline: flags, counters, locks, clusters. Costs are those of the table."""

from itertools import pairwise

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.gemm import wgmma_cluster, wgmma_stream, wgmma_tma
from tcemu.timing import Timeline, trace
from tcemu.timing.costs import costs

TABLE = costs("sm_90a")
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
FLAG = TABLE.find("st.release.gpu; ld.acquire.gpu").median
COUNTER = TABLE.find("red.release.gpu; ld.acquire.gpu").median
ORDERS = [{}, {"policy": "early"}, {"seed": 3, "policy": "random"}, {"seed": 8}]


def laid(kernel, grid, args=(), block=32, sms=132, **more):
    timeline = Timeline(sms=sms)
    result = tcemu.launch(kernel, grid, block, args, observers=[timeline], sanitizer="off", **more)
    return timeline, result


def busy(warp, products):
    """Takes 24 cycles for each product."""
    a, b, c = warp.registers(4, fill=0), warp.registers(2, fill=0), warp.registers(4, fill=0)
    for _ in range(products):
        c = warp.run(MMA, a, b, c)


def await_word(warp, at, least=1):
    while int(warp.ld_global(at, order="acquire")[0, 0]) < least:
        warp.nanosleep(20)


# ------------------------------------------------------------------------------------------------ flags


def late_flag(warp, flag):
    if warp.ctaid[0] == 1:
        busy(warp, 40)
        warp.st_global(flag.at(0), 1, order="release")
    else:
        await_word(warp, flag.at(0))


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_wait_for_a_flag_ends_when_it_has_been_set_and_found(order):
    timeline, _ = laid(late_flag, 2, (np.zeros(1, np.uint32),), **order)
    (wait,) = timeline.handovers
    assert (wait.block, wait.warp, wait.what, wait.ender) == (0, 0, "flag", (1, 0))
    (store,) = [span for span in timeline.spans if span.opcode.startswith("st.release")]
    assert wait.end == pytest.approx(store.start + FLAG)
    assert store.start > 39 * 24
    assert wait.named == "flag of block 1"


def test_a_flag_that_is_there_is_not_waited_for():
    def kernel(warp, flag):
        if warp.ctaid[0] == 1:
            busy(warp, 200)
        else:
            warp.st_global(flag.at(0), 1, order="release")
        await_word(warp, flag.at(0))

    timeline, _ = laid(kernel, 2, (np.zeros(1, np.uint32),))
    assert timeline.handovers == []


def test_without_a_release_there_is_no_fence_in_the_handover():
    def kernel(warp, flag):
        if warp.ctaid[0] == 1:
            warp.st_global(flag.at(0), 1, order="relaxed")
        else:
            await_word(warp, flag.at(0))

    timeline, _ = laid(kernel, 2, (np.zeros(1, np.uint32),))
    fence = TABLE.find("membar.gl", "interval").median
    assert timeline.handovers[0].end == pytest.approx(FLAG - fence, abs=5)


def test_a_chain_of_blocks_waits_link_by_link():
    timeline = Timeline()
    a, b = np.ones((64, 1024), np.float16), np.ones((1024, 128), np.float16)
    wgmma_stream.multiply(a, b, 4, observers=[timeline], sanitizer="off")
    waits = timeline.handovers
    assert [(wait.block, wait.ender[0]) for wait in waits] == [(1, 0), (2, 1), (3, 2)]
    assert sorted(wait.end for wait in waits) == [wait.end for wait in waits]
    assert timeline.waited["flag"] > 0.3
    assert timeline.busy + sum(timeline.waited.values()) == pytest.approx(1)


def test_pictures_and_traces_say_who_ended_a_wait():
    timeline, _ = laid(late_flag, 2, (np.zeros(1, np.uint32),))
    assert "flag of block 1" in show.timeline(timeline, 0).svg
    (event,) = [event for event in trace(timeline)["traceEvents"] if event["name"] == "waits: flag of block 1"]
    assert event["args"]["ended by"] == "block 1, warp 0"


# ------------------------------------------------------------------------------------------------ counters


def grid_barrier(warp, counter, rounds):
    """All blocks synchronise on a counter that only grows."""
    for step in range(rounds):
        warp.bar_sync()
        if warp.warpid == 0:
            with warp.only(warp.laneid == 0):
                warp.red_global("add.u32", counter.at(0), 1, order="release")
            await_word(warp, counter.at(0), (step + 1) * warp.nctaid[0])
        warp.bar_sync()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_barrier_of_a_grid_takes_as_long_for_many_blocks_as_for_two(order):
    rounds = [laid(grid_barrier, grid, (np.zeros(1, np.uint32), 3), block=64, **order)[0].cycles for grid in (2, 12)]
    assert rounds[0] == pytest.approx(rounds[1])
    assert 3 * COUNTER < rounds[0] < 3 * (COUNTER + 150)


def test_work_of_a_grid_barrier_grows_with_the_number_of_blocks():
    few, many = (laid(grid_barrier, grid, (np.zeros(1, np.uint32), 1), resident=96) for grid in (12, 96))
    polls = [result.counts["ld.acquire.gpu.global.b32"] for _, result in (few, many)]
    assert polls[1] < 1.3 * 8 * polls[0], "a block that waits does not poll for each other block"
    assert len(many[0].spans) == 8 * len(few[0].spans), "polls that found nothing take no place"


def test_additions_do_not_wait_for_each_other():
    def kernel(warp, counter):
        busy(warp, 20 * warp.ctaid[0])
        warp.atom_global("add.u32", counter.at(0), 1)

    timeline, _ = laid(kernel, 3, (np.zeros(1, np.uint32),))
    assert timeline.handovers == []


def test_a_lock_is_taken_by_one_block_after_the_other():
    def kernel(warp, lock):
        with warp.only(warp.laneid == 0):
            while int(warp.atom_global("cas.b32", lock.at(0), 0, 1, order="acquire")[0, 0]):
                warp.nanosleep(20)
            busy(warp, 10)
            warp.st_global(lock.at(0), 0, order="release")

    def products(timeline):
        spans = sorted(span for span in timeline.spans if span.unit == "tensor core")
        return {number: [span.start for span in spans if span.block == number] for number in range(3)}

    for order in ORDERS:
        timeline, _ = laid(kernel, 3, (np.zeros(1, np.uint32),), **order)
        starts = sorted(products(timeline).values())
        assert all(later[0] > earlier[-1] + FLAG for earlier, later in pairwise(starts))


def test_blocks_without_a_place_are_laid_out_although_a_gpu_would_hang():
    timeline, _ = laid(late_flag, 2, (np.zeros(1, np.uint32),), sms=1, shared=120 << 10)
    assert timeline.resident == 1
    assert set(timeline.blocks) == {0, 1}


# ------------------------------------------------------------------------------------------------ clusters


def test_a_cluster_meets_when_its_last_warp_has_arrived():
    def kernel(warp):
        busy(warp, 30 * warp.cluster_ctarank)
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()

    timeline, _ = laid(kernel, 2, cluster=2)
    last = max(span.start for span in timeline.spans if span.opcode.startswith("barrier.cluster.arrive"))
    (wait,) = timeline.handovers
    assert (wait.block, wait.what, wait.ender) == (0, "cluster", (1, 0))
    assert wait.end == pytest.approx(last + TABLE.find("barrier.cluster", "latency", {"blocks": 2}).median)


def test_an_arrival_in_another_block_takes_the_measured_time():
    def kernel(warp):
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(0, 1)
            warp.fence_mbarrier_init()
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        if warp.cluster_ctarank == 0:
            busy(warp, 30)
            with warp.only(warp.laneid == 0):
                warp.mbarrier_arrive_shared_cluster(warp.mapa(0, 1))
        else:
            warp.mbarrier_wait(0, 0)
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()

    timeline, _ = laid(kernel, 2, cluster=2, shared=64)
    (wait,) = [span for span in timeline.handovers if span.what == "mbarrier"]
    (arrival,) = [span for span in timeline.spans if span.opcode.startswith("mbarrier.arrive")]
    assert (wait.block, wait.ender) == (1, (0, 0))
    took = TABLE.find("mbarrier.arrive.shared::cluster; mbarrier.try_wait").median
    assert wait.end == pytest.approx(arrival.start + took)


def test_a_multicast_is_waited_for_in_both_blocks():
    timeline = Timeline()
    a, b = np.ones((128, 256), np.float16), np.ones((256, 128), np.float16)
    wgmma_cluster.multiply(a, b, observers=[timeline], sanitizer="off")
    found = {(span.block, span.ender[0]) for span in timeline.handovers if span.what in ("copy", "mbarrier")}
    assert {(0, 1), (1, 0)} <= found


# ------------------------------------------------------------------------------------------------ arithmetic


def cycles_of(kernel, warps=1):
    return laid(kernel, 1, block=32 * warps)[0].cycles


def test_a_chain_of_arithmetic_takes_the_measured_latency():
    def chain(warp):
        x = np.zeros(32, np.float32)
        for _ in range(50):
            x = tcemu.gemm.scalar.fma(x, x, x)

    assert cycles_of(chain) == pytest.approx(50 * TABLE.find("fma.rn.f32").median, rel=0.01)


@pytest.mark.parametrize("name", ["max.f32", "add.rn.f32", "cvt.rn.f16x2.f32"])
def test_warps_of_a_sub_partition_share_its_pipes(name):
    act = {"max.f32": "maximum", "add.rn.f32": "add", "cvt.rn.f16x2.f32": "cvt_f16x2"}[name]

    def many(warp):
        x = np.zeros((32, 64), np.float32)
        for _ in range(20):
            getattr(tcemu.gemm.scalar, act)(x, x)

    pipe = max(1, 4 * min(row.median for row in TABLE.of(name) if row.what == "SM interval"))
    assert cycles_of(many, warps=16) == pytest.approx(4 * 20 * 64 * pipe, rel=0.05)


def test_registers_that_take_what_was_computed_cost_nothing_more():
    def sums(warp, into):
        c = warp.registers(32, fill=0)
        for _ in range(10):
            found = tcemu.gemm.scalar.add(c.view(np.float32), c.view(np.float32))
            if into:
                c[:] = found.view(np.uint32)

    assert laid(sums, 1, (True,))[0].cycles == pytest.approx(laid(sums, 1, (False,))[0].cycles)


def test_promotion_costs_its_additions():
    a, b = np.ones((64, 512), np.float16), np.ones((512, 128), np.float16)
    found = []
    for promote in (False, True):
        timeline = Timeline()
        plan = wgmma_tma.Plan(promote=promote, in_flight=0)
        wgmma_tma.multiply(a, b, plan, observers=[timeline], sanitizer="off")
        found.append(sum(span.opcode == "add.rn.f32" for span in timeline.spans))
    assert found == [0, 8 * 4]  # 8 steps, 4 warps
