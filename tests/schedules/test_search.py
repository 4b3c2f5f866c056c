"""The search finds what only a rare order shows, shrinks it, reports its coverage, and spares mended twins."""

import re

import numpy as np
import pytest
from kernels_rare import RARE, compute, leader, load, start, store
from searching import MENDED, fails, search

import tcemu
from tcemu.errors import LaunchError, OperandError
from tcemu.schedules import ScheduleSearch

named = {"ids": lambda row: row.name}
#: Runs within which the search finds each of them.
BUDGET = 60
#: The kernel that needs two delays.
DEEP = "two_delays_to_a_torn_pair"


def test_there_are_enough_of_them():
    assert len({row.name for row in RARE}) == len(RARE) >= 8


#: What the sanitizer tells in every order: nothing orders the next phase after this consumer's wait.
TOLD = "a_consumer_falls_two_phases_behind"


@pytest.mark.parametrize("row", RARE, **named)
def test_rare_failures_are_clean_by_default(row):
    assert fails(row) == (row.name == TOLD)
    assert not fails(row, mended=True)


@pytest.mark.parametrize("row", [row for row in RARE if row.name != DEEP], **named)
def test_rare_failures_are_found_and_repeated(row):
    found = search(row, runs=BUDGET)
    assert found.failures, found.covered
    schedule = re.fullmatch('schedule="(.*)"', found.failures[0].replay).group(1)
    assert fails(row, schedule=schedule), f"{schedule} does not repeat it"
    assert not fails(row, mended=True, schedule=schedule)
    assert len(found.failures[0].schedule.delays) <= 1
    assert len(found.failures[0].steps) == len(found.failures[0].schedule.delays)


@pytest.mark.parametrize("row", RARE, **named)
def test_mended_twins_are_silent(row):
    found = search(row, mended=True, runs=MENDED)
    assert not found.failures, str(found)
    assert found.runs == MENDED


@pytest.mark.slow
def test_a_failure_of_two_delays_is_found():
    (row,) = [row for row in RARE if row.name == DEEP]
    (failure,) = search(row, runs=400).failures
    assert len(failure.schedule.delays) == 2
    for delay in failure.schedule.delays:
        assert not fails(row, schedule=str(failure.schedule.without(delay))), "both delays are needed"


# ------------------------------------------------------------------------------------------------ what is covered


def two_stores(warp, out):
    """One shared word, and two points of each warp: a store and a load."""
    with leader(warp):
        warp.st_shared(0, warp.warpid, order="relaxed")
        compute(warp, 5)
        warp.ld_shared(0, order="relaxed")


def test_it_says_what_it_covered():
    done = tcemu.search_schedules(two_stores, block=64, args=(np.zeros(1, np.uint32),), shared=64)
    assert not done.failures
    # four orders without a delay; 4 points of each with one delay, 6 pairs of them with two
    assert [str(level) for level in done.levels] == [
        "all 4 orders without a delay",
        "all 16 orders with 1 delay",
        "all 24 orders with 2 delays",
    ]
    assert done.runs == 44
    assert done.covered in str(done)
    assert "Not tried: orders with more than 2 delays; asynchronous work that ends neither at once nor" in str(done)
    assert repr(done) == "<schedules of two_stores: no failure in 44 runs>"
    assert "No failure found" in done._repr_html_()


def test_what_does_not_fit_is_sampled():
    given = {"block": 64, "args": (np.zeros(1, np.uint32),), "shared": 64}
    done = tcemu.search_schedules(two_stores, **given, runs=12)
    assert done.runs == 12
    assert str(done.levels[1]) == f"{done.levels[1].ran} of 16 orders with 1 delay"
    assert f"Not tried: {16 - done.levels[1].ran} orders with 1 delay and orders with more than 1 delay" in str(done)
    assert tcemu.search_schedules(two_stores, **given, runs=2).runs == 2
    assert tcemu.search_schedules(two_stores, **given, delays=0).runs == 4


def test_operations_of_one_warp_alone_are_no_points():
    """Registers, private memory, and memory that is only read: their order has no effect."""

    def kernel(warp, source, out):
        compute(warp, 5)
        warp.st_shared(128 * warp.warpid + 4 * warp.laneid, warp.ld_global(source.at(warp.laneid)))
        warp.st_global(out.at(warp.threads), warp.ld_shared(128 * warp.warpid + 4 * warp.laneid))

    args = np.zeros(32, np.uint32), np.zeros(64, np.uint32)
    done = tcemu.search_schedules(kernel, block=64, args=args, shared=256)
    assert done.runs == 4
    assert str(done.levels[1]) == "no order with 1 delay: there is none"


def test_warps_of_different_blocks_are_told_apart():
    def kernel(warp, out):
        if (warp.ctaid[0], warp.warpid) in {(0, 1), (1, 0)}:
            warp.st_global(out.at(warp.laneid), 1)

    done = tcemu.search_schedules(kernel, grid=2, block=64, args=(np.zeros(32, np.uint32),), delays=1)
    assert str(done.levels[1]) == "all 8 orders with 1 delay", "each of two stores, from each of four bases"


def test_a_loop_that_polls_is_one_point():
    def kernel(warp):
        start(warp)
        if warp.warpid:
            while not load(warp, 0):
                pass
        else:
            compute(warp)
            store(warp, 0, 1)

    done = tcemu.search_schedules(kernel, block=64, shared=512, delays=1)
    assert done.runs < 40, "256 looks before the scheduler gives up, which are the same"


# ------------------------------------------------------------------------------------------------ what fails


def test_reports_errors_and_results_are_failures():
    def report(warp, out):
        warp.st_shared(4 * warp.threads, 0)
        warp.ld_shared(4 * (63 - warp.threads))

    def error(warp, out):
        warp.bar_sync(1, 64) if warp.warpid else warp.bar_sync(2, 64)

    def result(warp, out):
        if warp.warpid:
            warp.st_global(out.at(warp.laneid), 1, order="relaxed")
        else:
            warp.st_global(out.at(warp.laneid), 2, order="relaxed")

    def found(kernel, **more):
        return tcemu.search_schedules(kernel, block=64, args=(np.zeros(32, np.uint32),), shared=256, **more)

    assert "error shared-race: a race in shared memory" in found(report).failures[0].title
    assert "deadlock" in found(error).failures[0].title
    (failure,) = found(result).failures
    assert failure.replay == 'schedule="late backwards"'
    assert "argument 0 at [0] is np.uint32(1) under late, np.uint32(2) under late backwards" in str(failure)
    assert "the result depends on the schedule" in str(failure)
    assert found(report).result.kernel.endswith("report")
    assert "shared-race" in found(report)._repr_html_()


def test_whatever_a_kernel_raises_in_a_rare_order_is_a_failure():
    def broken(warp):
        raise ValueError("in any order")

    with pytest.raises(ValueError, match="in any order"):
        tcemu.search_schedules(broken)

    def at_times(warp, out):
        with leader(warp):
            old = int(warp.atom_global("exch.b32", out.at(0), 1 + warp.warpid)[0, 0])
        if old == 2:
            raise ValueError("warp 1 came first")

    (failure,) = tcemu.search_schedules(at_times, block=64, args=(np.zeros(1, np.uint32),)).failures
    assert failure.title == "ValueError: warp 1 came first"
    assert failure.replay == 'schedule="late backwards"'


def test_an_error_that_follows_a_report_does_not_hide_it():
    def racing(warp):
        warp.st_shared(4 * warp.threads, 1)
        warp.ld_shared(4 * (63 - warp.threads))
        if warp.warpid:
            warp.bar_sync(77)

    (failure,) = tcemu.search_schedules(racing, block=64, shared=256).failures
    assert failure.title.startswith("error shared-race")
    with pytest.raises(OperandError, match="barriers 0 to 15"):
        tcemu.search_schedules(lambda warp: warp.bar_sync(77))


def test_atomics_may_give_other_results_unless_a_check_says_no():
    def tickets(warp, out):
        with leader(warp):
            ticket = int(warp.atom_global("add.u32", out.at(0), 1)[0, 0])
            warp.st_global(out.at(1 + ticket), warp.warpid)

    def check(out):
        assert out[1] == 0, "warp 0 comes first"

    args = (np.zeros(3, np.uint32),)
    done = tcemu.search_schedules(tickets, block=64, args=args)
    assert not done.failures
    assert "as it may with atomic operations: argument 0 at [1]" in str(done)
    assert args[0].tolist() == [0, 0, 0], "the arrays are untouched"
    (failure,) = tcemu.search_schedules(tickets, block=64, args=args, check=check).failures
    assert isinstance(failure.what, AssertionError)
    assert failure.replay == 'schedule="late backwards"'


def test_the_steps_say_who_stands_aside_where():
    (row,) = [row for row in RARE if row.name == "a_lost_wake_up"]
    (failure,) = search(row, runs=BUDGET).failures
    assert re.search(
        r"warp 1 of block 0 is held back before its operation 3, atom\.\S+ at \S*kernels_rare.py:\d+", str(failure)
    )
    assert str(failure).endswith('to reproduce it: tcemu.launch(..., schedule="late 0.1@3")')


def test_what_is_no_search():
    def kernel(warp):
        pass

    for wrong in ({"delays": -1}, {"runs": -3}, {"work": -1}, {"work": "long"}):
        with pytest.raises(LaunchError, match=r"delays|runs|work"):
            tcemu.search_schedules(kernel, **wrong)
    with pytest.raises(LaunchError, match="a search has no policy=: it decides on the order itself"):
        tcemu.search_schedules(kernel, policy="late")
    with pytest.raises(LaunchError, match="args must be a tuple"):
        tcemu.search_schedules(kernel, args=3)
    with pytest.raises(LaunchError, match="runs must be a whole number"):
        tcemu.search_schedules(kernel, runs="many")
    with pytest.raises(LaunchError, match="a kernel must be a function"):
        tcemu.search_schedules(3)
    with pytest.raises(LaunchError, match="shared= must be a number of bytes"):
        tcemu.search_schedules(kernel, shared=-1)
    with pytest.raises(LaunchError, match="which has 1 argument: too many positional arguments"):
        tcemu.search_schedules(kernel, args=(3,))
    with pytest.raises(OperandError, match="a block has barriers 0 to 15"):
        tcemu.search_schedules(lambda warp: warp.bar_sync(99))


def test_a_search_is_the_same_twice():
    given = {"block": 64, "args": (np.zeros(1, np.uint32),), "shared": 64}
    one, other = (tcemu.search_schedules(two_stores, **given, runs=12) for _ in range(2))
    assert isinstance(one, ScheduleSearch)
    assert one.levels == other.levels


def test_a_search_ends_when_its_work_is_done():
    """The budget counts operations, so a slow machine finds as much as a fast one."""

    def kernel(warp):
        for _ in range(10):
            warp.bar_sync()

    given = {"block": 64, "delays": 1, "runs": 1000}
    first = tcemu.search_schedules(kernel, **given, work=0)
    each = first.result.counts.total()
    assert (first.runs, each) == (1, 20)
    assert tcemu.search_schedules(kernel, **given, work=20 * each).runs == 20
    assert tcemu.search_schedules(kernel, **given, work=20 * each + 1).runs == 21
    last = tcemu.search_schedules(kernel, **given).levels[-1]
    assert last.ran == last.total
