"""Launches of one stream: when they overlap, what griddepcontrol orders, and what the sanitizer says of the rest.

The rules are those of the PTX manual on griddepcontrol and of the CUDA programming guide on programmatic dependent
launch: a dependent grid begins once each block of the one before has triggered or exited; its wait covers all of it.
"""

import numpy as np
import pytest

import tcemu
from tcemu.machine.events import BlockEnded, BlockStarted, GridWaited

N = 64


def produce(warp, x, early=True):
    if early:
        warp.griddepcontrol("launch_dependents")
    warp.nanosleep(1)
    warp.st_global(x.at(warp.threads), warp.threads + 1)


def consume(warp, x, out, wait="before"):
    if wait == "before":
        warp.griddepcontrol("wait")
    values = warp.ld_global(x.at(warp.threads))
    if wait == "after":
        warp.griddepcontrol("wait")
    warp.st_global(out.at(warp.threads), values)


def pair(first, second, *, grids=(1, 1), blocks=(N, N), programmatic=True, more=(), **options):
    """The results, the second launch's output, and the order of events; `more` are further arguments of the second."""
    x, out, seen = np.zeros(N, np.uint32), np.zeros(N, np.uint32), []
    stream = tcemu.Stream(sanitizer="collect", observers=[seen.append], **options)
    stream.launch(first, grids[0], blocks[0], args=(x,))
    stream.launch(second, grids[1], blocks[1], args=(x, out, *more), programmatic_stream_serialization=programmatic)
    results = stream.synchronize()
    order = [(type(each), each.block) for each in seen if isinstance(each, BlockStarted | BlockEnded | GridWaited)]
    return results, out, order


EXPECTED = np.arange(1, N + 1)


@pytest.mark.parametrize("seed", range(6))
def test_what_comes_after_the_wait_is_in_order(seed):
    (first, second), out, _ = pair(produce, consume, seed=seed)
    assert np.array_equal(out, EXPECTED)
    assert not first.reports
    assert not second.reports


@pytest.mark.parametrize("wait", ["after", "never"])
def test_a_read_before_the_wait_is_a_race_at_both_lines(wait):
    wrong = 0
    for seed in range(4):
        results, out, _ = pair(produce, consume, more=(wait,), seed=seed)
        (report, *_) = [each for result in results for each in result.reports]
        assert (report.rule, report.severity) == ("global-race", "error")
        assert {report.site.function, report.earlier.site.function} == {"produce", "consume"}
        assert "consume may run while produce, before it in the stream, has not ended" in str(report)
        assert "Execute griddepcontrol.wait (cudaGridDependencySynchronize) in consume" in str(report)
        assert "of produce" in str(report)
        wrong += not np.array_equal(out, EXPECTED)
    assert wrong, "under some seed, the early read finds the old values"


def test_a_write_that_the_grid_before_still_reads_is_a_race():
    def read(warp, x):
        warp.griddepcontrol("launch_dependents")
        warp.ld_global(x.at(warp.threads))

    def overwrite(warp, x, out, wait):
        if wait:
            warp.griddepcontrol("wait")
        warp.st_global(x.at(warp.threads), 7)

    for wait in (True, False):
        results, _, _ = pair(read, overwrite, more=(wait,))
        reports = [each.rule for result in results for each in result.reports]
        assert bool(reports) is not wait
        assert set(reports) <= {"global-race"}


@pytest.mark.parametrize("wait", ["before", "after", "never"])
def test_without_the_attribute_nothing_overlaps(wait):
    for seed in range(3):
        results, out, order = pair(produce, consume, grids=(2, 1), programmatic=False, more=(wait,), seed=seed)
        assert np.array_equal(out, EXPECTED)
        assert [kind for kind, _ in order if kind is not GridWaited][-2:] == [BlockStarted, BlockEnded]
        assert order.index((BlockEnded, 1)) < order.index((BlockStarted, 2))
        # both blocks of the first launch write the same values to the same places, which is a hint
        assert not [each for result in results for each in result.reports if each.severity == "error"]


def test_a_grid_begins_when_every_block_of_the_one_before_has_triggered_or_exited():
    def some(warp, x):
        if warp.ctaid[0] != 1:
            warp.griddepcontrol("launch_dependents")  # and runs on; block 1 triggers as it exits
        while warp.ctaid[0] != 1 and not warp.ld_global(x.at(0), order="relaxed")[0, 0]:
            warp.nanosleep(1)
        if warp.ctaid[0] == 1:
            warp.st_global(x.at(0), 1, order="relaxed")

    _, _, order = pair(some, lambda warp, x, out: None, grids=(3, 1), blocks=(32, 32))
    assert order.index((BlockEnded, 1)) < order.index((BlockStarted, 3))


def test_no_trigger_means_the_end():
    """The trigger is implicit: nothing of the later grid begins before, whatever it waits for."""
    _, out, order = pair(lambda warp, x: produce(warp, x, early=False), consume)
    assert order.index((BlockEnded, 0)) < order.index((BlockStarted, 1))
    assert np.array_equal(out, EXPECTED)


def test_a_grid_begins_only_after_all_blocks_of_the_one_before_have_started():
    _, _, order = pair(produce, consume, grids=(4, 1), resident=2)
    assert order.index((BlockStarted, 3)) < order.index((BlockStarted, 4))


def test_the_wait_returns_when_the_grid_before_has_ended():
    for seed in range(4):
        _, _, order = pair(produce, consume, grids=(3, 2), seed=seed)
        ends = [place for place, (kind, block) in enumerate(order) if kind is BlockEnded and block < 3]
        waits = [place for place, (kind, _) in enumerate(order) if kind is GridWaited]
        assert waits
        assert max(ends) < min(waits)


def test_a_barrier_passes_on_what_one_warp_has_waited_for():
    def one_waits(warp, x, out):
        if warp.warpid == 0:
            warp.griddepcontrol("wait")
        warp.bar_sync()
        warp.st_global(out.at(warp.threads), warp.ld_global(x.at(warp.threads)))

    (_, second), out, _ = pair(produce, one_waits)
    assert not second.reports
    assert np.array_equal(out, EXPECTED)


def test_three_launches():
    """The last one is ordinary: it begins when both before it have ended, and needs no wait."""
    x, out, twice = (np.zeros(N, np.uint32) for _ in range(3))
    stream = tcemu.Stream(seed=5)
    stream.launch(produce, block=N, args=(x,))
    stream.launch(consume, block=N, args=(x, out), programmatic_stream_serialization=True)
    stream.launch(consume, block=N, args=(out, twice, "never"))
    assert repr(stream) == "<stream on sm_90a: produce, consume, consume>"
    assert [result.blocks for result in stream.synchronize()] == [1, 1, 1]
    assert np.array_equal(twice, EXPECTED)
    assert stream.synchronize() == []


def test_a_single_launch_waits_for_nothing():
    x, out = np.zeros(N, np.uint32), np.zeros(N, np.uint32)
    tcemu.launch(produce, block=N, args=(x,))
    assert not tcemu.launch(consume, block=N, args=(x, out)).reports
    assert np.array_equal(out, EXPECTED)


def test_a_kernel_that_is_meant_to_overlap_gets_a_hint_if_it_would_race():
    x, out = np.zeros(N, np.uint32), np.zeros(N, np.uint32)
    tcemu.launch(produce, block=N, args=(x,))
    (hint,) = tcemu.launch(consume, block=N, args=(x, out, "after")).reports
    assert (hint.rule, hint.severity) == ("global-race", "hint")
    for words in ("which produce wrote in an earlier launch", "griddepcontrol.wait, which guards it, comes only later"):
        assert words in str(hint)
    weights = np.ones(N, np.uint32)
    assert not tcemu.launch(consume, block=N, args=(weights, out, "after")).reports


def test_several_seeds_and_policies_run_the_whole_stream_on_the_same_input():
    def add(warp, x, out):
        warp.griddepcontrol("wait")
        warp.st_global(out.at(warp.threads), warp.ld_global(x.at(warp.threads)) + warp.ld_global(out.at(warp.threads)))

    orders = ({"seeds": 5}, 5), ({"policy": ("late", "early")}, 2), ({"seeds": [3, 7], "policy": ["early"]}, 2)
    for options, runs in orders:
        seen, (x, out) = [], np.zeros((2, N), np.uint32)
        stream = tcemu.Stream(observers=[seen.append], **options)
        stream.launch(produce, block=N, args=(x,))
        stream.launch(add, block=N, args=(x, out), programmatic_stream_serialization=True)
        results = stream.synchronize()
        assert np.array_equal(out, EXPECTED), "each run begins with zeros"
        assert not any(each.parted for each in results)
        assert sum(isinstance(each, BlockEnded) for each in seen) == 2 * runs


def test_what_depends_on_the_order_of_a_stream_is_said_for_each_launch():
    def hasty(warp, x, out):  # does not wait for the launch before
        warp.st_global(out.at(warp.threads), warp.ld_global(x.at(warp.threads), order="relaxed"))

    def early(warp, x):
        warp.griddepcontrol("launch_dependents")
        warp.st_global(x.at(warp.threads), warp.threads + 1, order="relaxed")

    x, out = np.zeros((2, N), np.uint32)
    stream = tcemu.Stream(seeds=20, sanitizer="off")
    stream.launch(early, block=N, args=(x,))
    stream.launch(hasty, block=N, args=(x, out), programmatic_stream_serialization=True)
    first, second = stream.synchronize()
    (parting,) = second.parted
    assert (first.parted, parting.argument, parting.cause) == ([], 1, "seed")
    assert parting.policies[0] == "seed 0"


def test_an_error_under_a_later_seed_leaves_the_arrays_unchanged():
    runs = []

    def fails(warp, x):
        runs.append(1)
        warp.st_global(x.at(warp.threads), 5)
        if len(runs) > 2:
            warp.ld_global(x.at(10**6))

    x = np.zeros(32, np.uint32)
    stream = tcemu.Stream(seeds=4)
    stream.launch(fails, args=(x,))
    with pytest.raises(tcemu.LaunchError):
        stream.synchronize()
    assert not x.any()


def test_an_error_leaves_the_arrays_unchanged():
    def fails(warp, x, out):
        warp.ld_global(x.at(10**6))

    x, out = np.zeros(N, np.uint32), np.zeros(N, np.uint32)
    stream = tcemu.Stream()
    stream.launch(produce, block=N, args=(x,))
    stream.launch(fails, block=N, args=(x, out))
    with pytest.raises(tcemu.LaunchError):
        stream.synchronize()
    assert not x.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"programmatic_stream_serialization": 1}, "programmatic_stream_serialization must be True or False; got 1"),
        ({"args": 3}, "args must be a tuple"),
        ({"args": (np.zeros(1),), "block": 2000}, "block must be one to three numbers"),
    ],
)
def test_what_no_stream_takes(options, message):
    with pytest.raises(tcemu.TcemuError, match=message):
        tcemu.Stream().launch(produce, **options)


def test_launches_are_not_numbered_alike():
    ids = np.zeros(2, np.uint64)

    def number(warp, ids, place):
        with warp.only(warp.elect_sync()):
            warp.st_global(ids.at(place), np.uint64(warp.gridid), "b64")

    stream = tcemu.Stream()
    for place in range(2):
        stream.launch(number, args=(ids, place))
    stream.synchronize()
    assert ids.tolist() == [1, 2]
