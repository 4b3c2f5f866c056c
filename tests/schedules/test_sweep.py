"""tcemu.launch under several seeds: one result, and how the others differ or fail."""

from itertools import count

import numpy as np
import pytest
from kernels_rare import leader

import tcemu
from tcemu.errors import Deadlock, LaunchError, UndefinedBehaviour


def last(warp, out):
    """The last warp to store wins."""
    with leader(warp):
        warp.st_global(out.at(0), 1 + warp.warpid, order="relaxed")


def test_the_result_is_that_of_the_first_seed():
    for seeds in ([0, 1, 2, 3, 4, 5, 6, 7], range(8), 8):
        out = np.zeros(1, np.uint32)
        done = tcemu.launch(last, block=64, args=(out,), seeds=seeds)
        assert out[0] == 2
        assert done.seed == 0
        (parted,) = done.parted
        assert parted.cause == "seed"
        assert parted.policies[0] == "seed 0"
        assert parted.values == (2, 1)
        assert "the result depends on the seed" in str(parted)
        assert "1 array depends on the seed" in repr(done)
    seed = int(parted.policies[1].removeprefix("seed "))
    tcemu.launch(last, block=64, args=(out,), seed=seed)
    assert out[0] == 1


def test_each_seed_has_the_same_input():
    def add(warp, out, same):
        assert out == same, "an array given twice stays one"
        warp.red_global("add.u32", out.at(0), 1)

    out = np.zeros(1, np.uint32)
    done = tcemu.launch(add, args=(out, out), seeds=5)
    assert out[0] == 32
    assert not done.parted


def test_policies_and_seeds():
    def early(warp, source, out):
        warp.cp_async(4 * warp.laneid, source.at(warp.laneid), 4)
        warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * warp.laneid))

    source, out = np.ones(32, np.uint32), np.zeros(32, np.uint32)
    options = {"args": (source, out), "shared": 128, "sanitizer": "off", "seeds": 3}
    (parted,) = tcemu.launch(early, **options, policy=("late", "early")).parted
    assert (parted.cause, parted.policies) == ("policy", ("late", "early"))


def rarely_stuck(warp, out):
    """Warp 1 waits for a second arrival if it comes first."""
    with leader(warp):
        first = int(warp.atom_global("exch.b32", out.at(0), 1)[0, 0]) == 0
    if warp.warpid and first:
        warp.bar_sync(1, 64)


def test_an_error_says_its_seed():
    out = np.zeros(1, np.uint32)
    with pytest.raises(LaunchError) as caught:
        tcemu.launch(rarely_stuck, block=64, args=(out,), seeds=range(100))
    (note,) = caught.value.__notes__
    seed = caught.value.launch.failing
    assert note == f"It occurred after {seed} of 100 seeds; to reproduce it: seed={seed}"
    assert seed > 0
    assert out[0] == 0, "the arrays are unchanged"
    with pytest.raises((Deadlock, UndefinedBehaviour)):
        tcemu.launch(rarely_stuck, block=64, args=(out,), seed=seed)


def test_collecting_says_the_first_failing_seed():
    out = np.zeros(1, np.uint32)
    done = tcemu.launch(rarely_stuck, block=64, args=(out,), seeds=range(100), sanitizer="collect")
    assert done.error is not None
    assert done.failing > 0

    def racing(warp):
        warp.st_shared(4 * warp.threads, 0)
        warp.ld_shared(4 * (63 - warp.threads))

    done = tcemu.launch(racing, block=64, shared=256, seeds=(7, 8), sanitizer="collect")
    assert done.failing == 7
    assert len(done.reports) >= 1
    assert tcemu.launch(lambda warp: warp.bar_sync(), block=64, seeds=2).failing is None


@pytest.mark.parametrize("seeds", [0, -1, [], "12", [1, -2], [True], 1.5, None.__class__, [1.0]])
def test_what_are_no_seeds(seeds):
    with pytest.raises(LaunchError, match="seeds must be a number, at least 1, or a sequence of seeds"):
        tcemu.launch(lambda warp: None, seeds=seeds)


@pytest.mark.parametrize("seeds", [2**31 - 1, range(1 << 40), count()])
def test_a_launch_with_too_many_seeds_does_not_begin(seeds):
    with pytest.raises(LaunchError, match="a launch takes at most 1,000,000 seeds; got"):
        tcemu.launch(lambda warp: None, seeds=seeds)


def test_seed_and_seeds():
    with pytest.raises(LaunchError, match="args must be a tuple"):
        tcemu.launch(lambda warp: None, args=3, seeds=2)
    with pytest.raises(LaunchError, match="seeds lists every seed: leave out seed"):
        tcemu.launch(lambda warp: None, seed=3, seeds=5)
