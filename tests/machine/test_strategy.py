"""Strategies: every decision goes through one, so a recorded run can be repeated and steered."""

import functools
from collections import Counter

import numpy as np
import pytest

from tcemu.machine.launch import launch
from tcemu.machine.pending import Pending, Task
from tcemu.machine.strategy import AtRandom, InOrder

POINTS = ("blocks", "warps", "lanes", "interrupts", "runs", "at_once", "ends", "must_end")


def kernel(warp, out):
    warp.cp_async(512 + 4 * warp.threads, out.at(warp.threads), 4)
    warp.atom_shared("exch.b32", 0, warp.threads)
    warp.cp_async_commit_group()
    warp.bar_sync()
    warp.cp_async_wait_group(0)
    with warp.only(warp.elect_sync()):
        warp.mbarrier_init(8 + 8 * warp.warpid, 1)
        warp.cp_async_mbarrier_arrive(8 + 8 * warp.warpid, noinc=True)
        warp.mbarrier_wait(8 + 8 * warp.warpid, 0)
    warp.st_global(out.at(warp.threads), warp.ld_shared(0))


def run(strategy):
    heard, out = [], np.zeros(64, np.uint32)
    launch(kernel, 3, 64, (out,), shared=1024, observers=(heard.append,), strategy=strategy)
    return [(type(event).__name__, getattr(event, "by", None)) for event in heard], out.tolist()


def recording(base, asked):
    """A strategy that counts the decisions that it makes."""

    def counted(point):
        def method(self, *given):
            asked[point] += 1
            return getattr(base, point)(self, *given)

        return method

    return type("Recording", (base,), {point: counted(point) for point in POINTS})


@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_every_decision_goes_through_the_strategy(policy):
    for base, seed in ((InOrder, 0), (AtRandom, 5)):
        asked = Counter()
        told = run(recording(base, asked)(policy, seed))
        assert told == run(base(policy, seed))
        assert set(asked) >= {*POINTS} - {"interrupts", "ends", "must_end"}
        assert ("interrupts" in asked) == (base is AtRandom)
        assert ("ends" in asked) == (policy != "early")


def test_a_strategy_steers():
    class Backwards(InOrder):
        def blocks(self, order):
            return order[::-1]

        def warps(self, strands):
            return strands[::-1]

        def lanes(self, count):
            return range(count)[::-1]

    told, out = run(Backwards("late"))
    issued = [by for name, by in told if name == "Issued"]
    assert [by.block for by in issued] == sorted((by.block for by in issued), reverse=True)
    assert issued[0].warp == 1
    assert out == [0] * 64, "the last lane to exchange is lane 0 of warp 0"


def test_tasks_of_a_queue_stay_in_order_whatever_a_strategy_says():
    class Second(InOrder):
        def at_once(self, task):
            return task.queue != "late"

    order = []
    pending = Pending("late", Second("late"))
    for queue, name in (("now", "n1"), ("late", "l1"), ("now", "n2"), ("late", "l2")):
        pending.add(Task(queue, functools.partial(order.append, name)))
    assert order == ["n1", "n2"]

    class Once(InOrder):
        asked = 0

        def at_once(self, task):
            self.asked += 1
            return self.asked > 1

    order.clear()
    pending = Pending("early", Once("early"))
    for name in ("a1", "a2"):
        pending.add(Task("a", functools.partial(order.append, name)))
    assert order == [], "the second one comes after the first"
    pending.finish_all()
    assert order == ["a1", "a2"]
