"""What stores, bulk copies and the operands of wgmma cost each other: figures of an H200."""

import numpy as np
import pytest

import tcemu
from tcemu.gemm import wgmma_persistent
from tcemu.machine.tensor_map import TensorMap
from tcemu.timing import Timeline
from tcemu.timing.accesses import LINE, sectors
from tcemu.timing.costs import costs
from tcemu.timing.data_path import DataPath, Work
from tcemu.timing.operations import LaunchTrace
from tcemu.timing.prices import ASSUMED, Prices
from tcemu.timing.simulation import Clock

PRICES = Prices(costs("sm_90a"))


def ends(*works):
    """When each of these pieces of work ends that are put into their lanes at the times given."""
    clock, found = Clock(LaunchTrace()), {}
    way = DataPath(clock.at)
    for number, (lane, at, cycles, need) in enumerate(works):
        work = Work(cycles, need, lambda began, end, number=number: found.update({number: (began, end)}))
        clock.at(at, lambda now, lane=lane, work=work: way.put(lane, now, work))
    clock.run()
    return [found[number] for number in range(len(works))]


def test_work_of_a_lane_follows_each_other():
    assert ends(("stores", 0, 10, 1), ("stores", 2, 5, 1), ("stores", 40, 5, 1)) == [(0, 10), (10, 15), (40, 45)]


def test_copies_and_products_do_not_slow_each_other_down():
    """18,813 cycles with both, 17,561 with the products alone."""
    assert ends(("copies", 0, 100, 0.7), ("products", 0, 50, 0.8)) == [(0, 100), (0, 50)]


def test_all_take_longer_while_a_store_is_on_the_way():
    """A step of four products took 512 cycles beside copies, 860 beside stores, 1,075 beside both."""
    # beside the store, the product does 30 of its 60 cycles in 45; the store has ended after 30 * 1.5
    assert ends(("products", 0, 60, 0.5), ("stores", 0, 30, 1)) == [(0, 75), (0, 45)]
    (_, product), (_, copy), _ = ends(("products", 0, 60, 0.5), ("copies", 0, 60, 0.5), ("stores", 0, 100, 1))
    assert product == copy == 120


def test_a_store_of_rows_takes_longer_than_one_of_whole_lines():
    """Eight rows of two f32: 9.3 to 10.4 cycles; the same sectors beside each other: 7.9 (TABLE)."""
    table = costs("sm_90a").find("st.global.v2.b32", "SM interval", {"lanes": "rows of four", "warps": 4}).median
    assert PRICES.store(256, 8, 2) == pytest.approx(table)
    assert 9.3 <= PRICES.store(256, 8, 8) <= 10.4
    apart = 4096 * (np.arange(32) // 4) + 8 * (np.arange(32) % 4)
    assert (sectors(apart, 8), sectors(apart, 8, LINE)) == (8, 8)
    assert sectors(8 * np.arange(32), 8, LINE) == 2


def test_the_first_copy_waits_for_its_tensor_map():
    """On an H200 the first copy of a launch took 818 to 886 cycles, the first by a second map 700, others 457."""

    def kernel(warp, first, second):
        with warp.only(warp.elect_sync()):
            warp.mbarrier_init(16384, 1)
            warp.fence_mbarrier_init()
        one, other = (TensorMap.of(each, (64, 128), swizzle=128) for each in (first, second))
        for phase, source in enumerate((one, one, other, other)):
            with warp.only(warp.laneid == 0):
                warp.mbarrier_arrive_expect_tx(16384, 16384)
                warp.cp_async_bulk_tensor_shared_global(0, source, (0, 0), 16384)
            warp.mbarrier_wait(16384, phase % 2)

    data = [np.zeros((128, 64), np.float16) for _ in range(2)]
    timeline = Timeline()
    tcemu.launch(kernel, args=data, shared=32768, observers=[timeline], sanitizer="off")
    took = [span.end - span.start for span in timeline.spans if span.unit == "copy engine"]
    assert np.diff(took) == pytest.approx(
        [-ASSUMED["tensor map"] - ASSUMED["first copy"], ASSUMED["tensor map"], -ASSUMED["tensor map"]]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "depth", "cycles"), [("ping-pong", 256, 18792), ("cooperative", 256, 35398)])
def test_persistent_with_short_k_takes_what_a_gpu_took(schedule, depth, cycles):
    """Of 4 tiles, on an H200; the assumptions were chosen with K = 512 and 2048 on an H100."""
    plan, timeline = wgmma_persistent.SCHEDULES[schedule], Timeline()
    a, b = np.ones((2 * plan.rows, depth), np.float16), np.ones((depth, 2 * plan.columns), np.float16)
    wgmma_persistent.multiply(a, b, schedule, 1, observers=[timeline], sanitizer="off")
    assert timeline.cycles == pytest.approx(cycles, rel=0.15)
