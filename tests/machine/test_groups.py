"""Warps whose lanes a front end runs in groups: barriers, mbarriers, loops that poll, and what a deadlock says.

`in_groups` is a small front end: each group of lanes is a generator of operations (line, opcode, operands).
"""

from __future__ import annotations

import numpy as np
import pytest

import tcemu
from tcemu.errors import Deadlock, LaunchError
from tcemu.machine.masks import FULL
from tcemu.machine.sites import FrontSite
from tcemu.machine.waits import Parked

LOW, HIGH = 0xFFFF, 0xFFFF0000
TRY = "mbarrier.try_wait.parity.shared::cta.b64"


def in_groups(warp, programs):
    """Run programs, by the mask of their lanes, in turn; a group that waits lets the others run."""
    core = warp.core
    groups = {mask: program for mask, program in programs.items() if mask & core.present}
    given, waits = dict.fromkeys(groups), {}
    while groups:
        for mask in list(groups):
            core.bits, core.split, core.sought = mask, len(groups) > 1, None
            if mask in waits:
                wait = waits[mask]
                if wait.ready is not None and not wait.ready():
                    continue
                given[mask] = wait.finish()
                del waits[mask]
            try:
                line, opcode, operands = groups[mask].send(given[mask])
            except StopIteration:
                del groups[mask]
                if groups:
                    core.bits = mask
                    core.exit()
                continue
            core.at = FrontSite("kernel.cu", line, "kernel(int*)")
            try:
                given[mask] = core.execute(opcode, *operands)
                if core.sought is not None:
                    waits[mask] = core.sought
                    waits[mask].finish = lambda result=given[mask]: result
            except Parked as parked:
                waits[mask] = parked.wait
        if groups and set(waits) == set(groups):
            core.idle(list(waits.values()))
            if any(wait.ready is None for wait in waits.values()):
                for mask in [mask for mask, wait in waits.items() if wait.ready is None]:
                    given[mask] = waits.pop(mask).finish()
    core.at, core.split, core.bits = None, False, core.present


def steps(*operations):
    """A program that needs no results."""
    yield from operations


@pytest.mark.parametrize("opcode", ["barrier.sync", "bar.sync"])
def test_a_barrier_in_both_branches_counts_lanes(opcode):
    """Warp 1 waits as a whole; warp 0's halves arrive on two lines, and neither keeps the other from arriving."""
    order = []

    def half(name, line):
        for turn in range(3):
            yield line, opcode, (0,)
            order.append((name, turn))

    def kernel(warp):
        if warp.warpid:
            for turn in range(3):
                warp.run(opcode, 0)
                order.append(("whole", turn))
        else:
            in_groups(warp, {LOW: half("low", 5), HIGH: half("high", 7)})

    result = tcemu.launch(kernel, block=64, sanitizer="collect")
    assert sorted(order) == sorted((name, turn) for name in ("low", "high", "whole") for turn in range(3))
    turns = [turn for _, turn in order]
    assert turns == sorted(turns)  # nobody is a turn ahead
    divergent = {(report.site.line, report.rule) for report in result.reports}
    assert divergent == ({(5, "aligned-divergent"), (7, "aligned-divergent")} if opcode == "bar.sync" else set())


def test_a_vote_at_a_barrier_counts_all_lanes():
    got = {}

    def half(name, predicate):
        got[name] = yield 3, "barrier.red.popc.u32", (0, predicate)

    def kernel(warp):
        even = np.arange(32) % 2 == 0
        in_groups(warp, {LOW: half("low", even), HIGH: half("high", np.ones(32, bool))})

    tcemu.launch(kernel)
    assert got == {"low": 24, "high": 24}


def test_lanes_that_exit_no_longer_count():
    """The other half arrives and waits for lanes that exit instead."""

    def kernel(warp):
        in_groups(warp, {LOW: steps((3, "barrier.sync", (0,))), HIGH: steps()})

    assert tcemu.launch(kernel, sanitizer="off").counts["barrier.sync"] == 1


def test_a_producer_and_consumers_in_one_warp():
    """Consumers poll an mbarrier that a lane of their own warp completes later."""
    seen = []

    def producer():
        yield 10, "st.shared.b32", (64, 7)
        yield 11, "nanosleep.u32", (20,)
        yield 12, "mbarrier.arrive.shared::cta.b64", (0,)

    def consumers():
        done = np.zeros(32, bool)
        while not done[1:].all():
            done = yield 20, TRY, (0, 0)
            seen.append(bool(done[1:].all()))
        value = yield 21, "ld.shared.b32", (64,)
        seen.append(int(value[1, 0]))

    def kernel(warp):
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(0, 1)
        warp.bar_warp_sync()
        in_groups(warp, {FULL & ~1: consumers(), 1: producer()})

    assert not tcemu.launch(kernel, shared=128, sanitizer="collect").reports
    assert seen == [False, True, 7]


def test_one_group_polls_memory_that_another_warp_writes():
    """The other half's barrier counts the lanes that have found the flag, and exited."""

    def polls(flag):
        found = np.zeros((32, 1), np.uint32)
        while not found[0, 0]:
            found = yield 4, "ld.acquire.gpu.global.b32", (flag,)

    def kernel(warp, flag):
        if warp.warpid:
            warp.st_global(flag, 1, order="release")
        else:
            in_groups(warp, {LOW: polls(int(flag)), HIGH: steps((9, "barrier.sync", (1, 32)))})

    flag = np.zeros(1, np.uint32)
    assert tcemu.launch(kernel, block=64, args=(flag,), sanitizer="off").counts["barrier.sync"] == 1
    assert flag[0] == 1


def test_a_deadlock_lists_the_groups_with_their_lines():
    def kernel(warp):
        if warp.laneid[0] == 0:
            with warp.only(warp.laneid == 0):
                warp.mbarrier_init(0, 1)
            warp.bar_warp_sync()

        def tries():
            while True:
                yield 14, TRY, (0, 0)

        in_groups(warp, {LOW: steps((12, "barrier.sync", (0,))), HIGH: tries()})

    with pytest.raises(Deadlock) as caught:
        tcemu.launch(kernel, shared=8, sanitizer="off")
    told = str(caught.value).splitlines()
    assert told[0] == "block (0, 0, 0) cannot continue:"
    assert told[1].startswith("  warp 0, lanes 0 to 15, wait since kernel.cu:12 for barrier 0, where no warp has")
    assert told[2].startswith("  warp 0, lanes 16 to 31, wait since kernel.cu:14 for the mbarrier at 0")
    (report,) = tcemu.launch(kernel, shared=8, sanitizer="collect").reports
    assert report.rule == "deadlock"
    assert "warp 0, lanes 0 to 15 at kernel.cu:12: waiting for barrier 0" in report.message


def test_two_barriers_are_still_an_error():
    """An H100 reports an illegal instruction."""

    def kernel(warp):
        in_groups(warp, {LOW: steps((3, "barrier.sync", (1,))), HIGH: steps((4, "barrier.sync", (2,)))})

    with pytest.raises(LaunchError, match="arrives at barrier 2 while other lanes of the warp wait at barrier 1"):
        tcemu.launch(kernel, sanitizer="off")


def test_the_barrier_of_the_cluster_in_both_branches():
    order = []

    def half(name):
        yield 3, "barrier.cluster.arrive.release", ()
        yield 4, "barrier.cluster.wait.acquire", ()
        order.append(name)

    def kernel(warp):
        in_groups(warp, {LOW: half("low"), HIGH: half("high")})

    tcemu.launch(kernel, 2, cluster=2, sanitizer="off")
    assert sorted(order) == ["high", "high", "low", "low"]


def test_native_work_counts_as_operations():
    def kernel(warp):
        for _ in range(100):
            warp.core.ran(50, stored=False)

    with pytest.raises(tcemu.errors.Unending, match="more than 1,000 operations"):
        tcemu.launch(kernel, operations=1000)
