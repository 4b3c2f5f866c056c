"""A launch's arguments, its results, and its costs."""

import gc
import re
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from quick import some

from tcemu.errors import LaunchError, TargetError
from tcemu.machine.launch import launch
from tcemu.machine.sites import UNKNOWN

# ------------------------------------------------------------------------------------------------ what a launch takes


def test_what_a_launch_is_given(row):
    cases = [
        ({"grid": 0}, "grid must be one to three numbers from 1 to (2147483647, 65535, 65535); got 0"),
        ({"grid": (1, 65536)}, "got (1, 65536)"),
        ({"grid": (1, 1, 1, 1)}, "got (1, 1, 1, 1)"),
        ({"grid": 1.0}, "got 1.0"),
        ({"grid": True}, "got True"),
        ({"grid": "12"}, "got '12'"),
        ({"grid": b"12"}, "got b'12'"),
        ({"grid": np.array([1, 2])}, "got array"),
        ({"block": ()}, "block must be one to three numbers from 1 to (1024, 1024, 64); got ()"),
        ({"block": (1, 1, 65)}, "got (1, 1, 65)"),
        ({"block": (32, 33)}, "a block has at most 1024 threads; (32, 33, 1) has 1056"),
        ({"block": None}, "got None"),
        ({"shared": -1}, "shared= must be a number of bytes, on sm_90a at most 232448 for a block; got -1"),
        ({"shared": 227 * 1024 + 1}, "got 232449"),
        ({"shared": 64 * 1024 + 1, "target": "sm_75"}, "on sm_75 at most 65536"),
        ({"shared": True}, "got True"),
        ({"shared": 1e3}, "got 1000.0"),
        ({"seed": -1}, "a seed must be an integer of at least 0; got -1"),
        ({"seed": "x"}, "got 'x'"),
        ({"seed": None}, "got None"),
        ({"policy": "never"}, "policy must be 'early', 'late' or 'random'; got 'never'"),
        ({"policy": None}, "got an object of type NoneType"),
        ({"policy": ("late", "never")}, "got 'never'"),
        ({"policy": ()}, "policy must be one or more of early, late, random; got none"),
        ({"policy": np.zeros(3)}, "got an object of type ndarray"),
        ({"args": np.zeros(3)}, "args must be a tuple of the kernel's arguments after the warp; got array"),
        ({"args": 5}, "got 5"),
        ({"args": "ab"}, "got 'ab'"),
        ({"observers": print}, "observers must be a tuple of functions"),
        ({"observers": (print, 3)}, "observers must be a tuple of functions"),
        ({"target": 90}, "a target must be a string, e.g. 'sm_90a'"),
        ({"target": ["sm_90"]}, "an object of type list"),
    ]  # fmt: skip
    for given, says in cases:
        with row(repr(given)), pytest.raises(LaunchError, match=re.escape(says)):
            launch(lambda *_: pytest.fail("it ran"), **given)
    with pytest.raises(TargetError, match="Did you mean 'sm_90'"):
        launch(lambda *_: None, target="sm_90b")


def test_shapes_are_filled_up_and_numpy_integers_are_integers():
    result = launch(
        lambda warp: warp.ld_shared(0),
        np.int64(2),
        (np.uint8(8), 2),
        shared=np.int32(16),
        seed=np.int16(3),
        policy=["early"],
    )
    assert (result.grid, result.block, result.seed, result.policy) == ((2, 1, 1), (8, 2, 1), 3, "early")
    assert (result.blocks, result.counts, result.parted, result.reports, result.error) == (
        2,
        {"ld.shared.b32": 2},
        [],
        [],
        None,
    )
    told = "8 blocks of (16, 2, 2), 16 instructions, policy late, early"
    result = launch(lambda warp: warp.ld_shared(0), (4, 2), (16, 2, 2), shared=4, policy=("late", "early"))
    assert told in repr(result)


def test_a_launch_is_told_in_a_line():
    def kernel(warp, out):
        warp.cp_async(0, out, 4)
        warp.st_global(out.at(warp.laneid), warp.ld_shared(0))

    out = np.array([3] * 32, np.int32)
    result = launch(kernel, 1, 32, (out,), shared=4, target="sm_80", policy=("late", "early"))
    name = "test_a_launch_is_told_in_a_line.<locals>.kernel"
    told = "1 block of (32, 1, 1), 3 instructions, policy late, early, 1 array depends on the policy"
    assert repr(result) == f"<launch of {name} on sm_80: {told}>"
    (parting,) = result.parted
    assert str(parting) == (
        "argument 0 at [0] is np.int32(0) under late, np.int32(3) under early: the result depends on the policy"
    )


# ------------------------------------------------------------------------------------------------ what it costs


def step(warp, out):
    warp.st_shared(4 * warp.threads, 1)
    warp.bar_sync()
    warp.ld_shared(0)
    with warp.only(warp.laneid == 0):
        warp.st_global(out, warp.ctaid[0] % 100)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_grid():
    """100 KB of shared memory for each of 500 blocks: 50 MB, if none were given back."""
    out = np.zeros(1, np.int32)
    launch(step, 10, 64, (out,), shared=100_000)
    gc.collect()
    tracemalloc.start()
    try:
        result = launch(step, 500, 64, (out,), shared=100_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.blocks == 500
    assert out[0] == 99
    assert peak < 20e6


def copies(warp, p, count):
    for _ in range(count):
        warp.cp_async(16 * warp.laneid, p + 16 * warp.laneid, 16)
        warp.cp_async_commit_group()
    warp.cp_async_wait_all()


def waits(warp, p, count):
    for _ in range(count):
        warp.cp_async(16 * warp.laneid, p + 16 * warp.laneid, 16)
        warp.cp_async_commit_group()
        warp.cp_async_wait_group(1)


def loads(warp, p, count):
    for number in range(count):
        warp.ld_global(p + 16 * (number % 32))


def barriers(warp, _, count):
    for _ in range(count):
        warp.bar_sync()


def calls(kernel, count, policy):
    """The Python calls of a launch."""
    found, given = Counter(), np.zeros(1024, np.uint8)
    sys.setprofile(lambda _frame, event, _arg: found.update([event]))
    try:
        launch(kernel, 1, 128, (given, count), shared=1024, policy=policy)
    finally:
        sys.setprofile(None)
    return found["call"]


@pytest.mark.parametrize("policy", ["late", "random"])
@pytest.mark.parametrize("kernel", some([copies, waits, loads, barriers], 2))
def test_the_work_of_an_operation_does_not_grow(kernel, policy):
    """However many there were before it."""
    calls(kernel, 1, policy)
    few, more, many = (calls(kernel, count, policy) for count in (25, 50, 100))
    assert (many - more) / 2 == pytest.approx(more - few, rel=0.05)


def test_a_line_that_is_not_known_is_told_in_words():
    assert f"{UNKNOWN} of {UNKNOWN.function}" == "an unknown line of the kernel"
