"""A limit on the operations of a warp: kernels that never end, and kernels that do."""

import numpy as np
import pytest

import tcemu
from tcemu.errors import LaunchError, Unending
from tcemu.schedules import search


def counting(warp, out, rounds):
    """Warp 0 adds to counters so many times, and warp 1 waits for it; many times are as good as no end."""
    if warp.warpid == 0:
        for _ in range(rounds):
            warp.atom_global("add.u32", out.at(warp.laneid % 8), 1)
    warp.bar_sync()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_launch_ends_when_a_warp_has_executed_too_much(seed):
    out = np.zeros(8, np.uint32)
    with pytest.raises(Unending) as told:
        tcemu.launch(counting, 2, 64, (out, 1 << 30), operations=1000, seed=seed, resident=1)
    lines = str(told.value).splitlines()
    assert lines[0] == (
        f"warp 0 of block {seed} has executed more than 1,000 operations, so one of its loops may never "
        f"end (the limit is operations=1000); 0 of 2 blocks had ended, and the arrays are unchanged."
    )
    assert lines[1].endswith(" ran:")
    assert lines[2].startswith("  warp 0 came to ")
    assert lines[2].endswith(f"test_unending.py:{counting.__code__.co_firstlineno + 4}")
    assert any("warp 1 " in line for line in lines[3:])
    assert not out.any()
    assert 1000 <= told.value.launch.counts["atom.global.add.u32"] < 1600, "it is soon checked"
    assert told.value.operations == 1000


@pytest.mark.slow
def test_a_launch_within_the_limit_is_like_any_other():
    """The limit is for each warp, and not for all together."""
    out = np.zeros(8, np.uint32)
    result = tcemu.launch(counting, 2, 64, (out, 900), operations=1000)
    assert result.counts["atom.global.add.u32"] == 2 * 900
    assert (out == 4 * 2 * 900).all()


@pytest.mark.parametrize("given", [0, -1, 1.5, "many", True])
def test_wrong_limits(given):
    with pytest.raises(LaunchError, match="operations= must be the most operations of a warp, at least 1; got"):
        tcemu.launch(counting, args=(np.zeros(8, np.uint32), 1), operations=given)


def hasty(warp, state):
    """Warp 1 never ends if it looks between the two stores of warp 0."""
    if warp.warpid == 0:
        warp.st_global(state.at(0), 1, order="relaxed")
        warp.st_global(state.at(0), 2, order="relaxed")
    else:
        seen = int(warp.ld_global(state.at(0), order="relaxed")[0, 0])
        while seen == 1:  # which it does not load again
            warp.atom_global("add.u32", state.at(1), 1)


@pytest.mark.slow
def test_the_search_finds_orders_without_an_end(monkeypatch):
    monkeypatch.setattr(search, "_MORE", 3000)  # which takes less time
    state = np.zeros(2, np.uint32)
    found = tcemu.search_schedules(hasty, block=64, args=(state,))
    (failure,) = found.failures
    assert isinstance(failure.what, Unending)
    schedule, limit = failure.replay.removeprefix("schedule=").split(", operations=")
    assert 3000 < int(limit) < 4000
    with pytest.raises(Unending, match="so one of its loops may never end"):
        tcemu.launch(hasty, block=64, args=(state,), schedule=schedule.strip('"'), operations=2000)
    tcemu.launch(hasty, block=64, args=(state,), operations=2000)  # in the usual order


@pytest.mark.slow
def test_the_search_takes_a_limit():
    found = tcemu.search_schedules(hasty, block=64, args=(np.zeros(2, np.uint32),), operations=3000)
    assert found.failures[0].replay.endswith(", operations=3000")
