"""A schedule in a line of text: it is read and printed, and the machine follows it."""

import re

import numpy as np
import pytest
from kernels_rare import leader

import tcemu
from tcemu.errors import LaunchError
from tcemu.machine.schedule import Delay, Schedule


def test_a_schedule_is_read_as_it_is_printed():
    for text in ("late", "early", "late backwards", "early 0.1@12 0.2~3", "late backwards 7.31@1 12.0~400"):
        assert str(Schedule.parse(text)) == text
    assert Schedule.parse("  early   0.2~3 0.1@12 0.1@12") == Schedule(
        "early", False, (Delay(0, 1, "@", 12), Delay(0, 2, "~", 3))
    ), "in one order, each delay once"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "got ''"),
        ("random", "got 'random'"),
        ("late forwards", "got 'forwards'"),
        ("late 0.1", "got '0.1'"),
        ("late 0.1@x", "got '0.1@x'"),
        ("late backwards backwards", "got 'backwards'"),
        (3, "got 3"),
        (b"late", "got b'late'"),
    ],
)
def test_what_is_not_a_schedule(given, told):
    with pytest.raises(LaunchError, match="a schedule is a policy") as caught:
        tcemu.launch(lambda warp: None, schedule=given)
    assert str(caught.value).endswith(told)


def test_a_schedule_says_the_whole_order():
    for more in ({"seed": 1}, {"seeds": 3}, {"policy": "early"}):
        with pytest.raises(LaunchError, match="leave out seed, seeds and policy"):
            tcemu.launch(lambda warp: None, schedule="late", **more)


def order(schedule, operations=3, block=96):
    """The warps in the order in which they store, three times each."""
    heard = []

    def kernel(warp):
        for _ in range(operations):
            warp.st_shared(4 * warp.threads, 0)

    def hear(event):
        if event.name == "Issued":
            heard.append(event.by.warp)

    tcemu.launch(kernel, block=block, shared=1024, schedule=schedule, observers=[hear])
    return heard


def test_a_warp_stands_aside_until_the_others_cannot_go_on():
    assert order("late") == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert order("late backwards") == [2, 2, 2, 1, 1, 1, 0, 0, 0]
    assert order("late 0.0@2") == [0, 1, 1, 1, 2, 2, 2, 0, 0]
    assert order("late 0.0@1 0.1@3") == [1, 1, 2, 2, 2, 0, 0, 0, 1], "who has stood aside longest comes first"
    assert order("late 0.2@2 5.0@1 0.0@9") == order("late"), "nobody else can go on, or there is no such operation"


def test_a_delay_turns_the_time_of_a_copy():
    def kernel(warp, source, out):
        for half in range(2):
            warp.cp_async(128 * half + 4 * warp.laneid, source.at(warp.laneid), 4)
        with leader(warp):
            warp.st_global(out.at(0), warp.ld_shared(0))
            warp.st_global(out.at(1), warp.ld_shared(128))

    def landed(schedule):
        source, out = np.full(32, 7, np.uint32), np.zeros(2, np.uint32)
        tcemu.launch(kernel, args=(source, out), shared=256, schedule=schedule, sanitizer="off")
        return (out == 7).tolist()

    assert landed("late") == [False, False]
    assert landed("early") == [True, True]
    assert landed("late 0.0~1") == [True, False]
    assert landed("early 0.0~1") == [False, True]


def test_lanes_and_blocks_go_backwards_too():
    def kernel(warp, out):
        warp.atom_global("exch.b32", out.at(0), 100 * warp.ctaid[0] + warp.laneid)

    out = np.zeros(1, np.uint32)
    tcemu.launch(kernel, grid=3, args=(out,), schedule="late backwards")
    assert out[0] == 0
    tcemu.launch(kernel, grid=3, args=(out,), schedule="late")
    assert out[0] == 231


def test_a_schedule_shows_its_delays_as_text():
    schedule = Schedule.parse("late 0.1@2").also(Delay(0, 0, "~", 1))
    assert str(schedule) == "late 0.0~1 0.1@2"
    assert re.fullmatch(r"late 0\.1@2", str(schedule.without(Delay(0, 0, "~", 1))))
