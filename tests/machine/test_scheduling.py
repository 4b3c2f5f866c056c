"""Warps that take turns: barriers, deadlocks and what they say, loops that look, what a seed decides."""

import functools
import re
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import marks
import numpy as np
import pytest

from tcemu.errors import Deadlock, LaunchError, OperandError
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.scheduler import Scheduler

SEEDS = (0, 1, 2, 17)
every_seed = pytest.mark.parametrize("seed", SEEDS)
two_seeds = pytest.mark.parametrize("seed", [0, 2])
HERE = Path(__file__)
line = functools.partial(marks.line, HERE)


def completed(heard):
    return [event for event in heard if isinstance(event, events.BarrierCompleted)]


def at_most(count):
    """An observer under which a loop without an end fails, where it would hang."""
    numbers = iter(range(count))

    def observer(_):
        assert next(numbers, None) is not None, "it does not end"

    return observer


# ------------------------------------------------------------------------------------------------ barriers


@every_seed
def test_nobody_passes_a_barrier_before_all_have_come(seed):
    out = np.zeros(8, np.int32)

    def kernel(warp, out):
        for number in range(25):
            warp.st_shared(4 * warp.warpid, number)
            warp.bar_sync()
            assert (warp.ld_shared(4 * (warp.laneid % 8)) == number).all()
            warp.bar_sync(1)
        with warp.only(warp.laneid == 0):
            warp.st_global(out.at(warp.warpid), 25)

    launch(kernel, 1, 256, (out,), shared=64, seed=seed)
    assert out.tolist() == [25] * 8


@every_seed
def test_producers_and_consumers(seed):
    """A buffer that is filled and emptied by turns, as the manual's example has it (PTX ISA 9.1, 9.7.13.1)."""
    out = np.zeros((40, 2), np.int32)
    full, empty = 1, 2

    def kernel(warp, out):
        for number in range(40):
            if warp.warpid < 2:
                if number:
                    warp.bar_sync(empty, 128)
                warp.st_shared(128 * warp.warpid + 4 * warp.laneid, 10 * number + warp.warpid)
                warp.bar_arrive(full, 128)
            else:
                warp.bar_sync(full, 128)
                with warp.only(warp.laneid == 5):
                    one = warp.warpid - 2
                    warp.st_global(out.at(number, one), warp.ld_shared(128 * one + 4 * warp.laneid))
                if number < 39:
                    warp.bar_arrive(empty, 128)

    heard = []
    launch(kernel, 1, 128, (out,), shared=256, seed=seed, observers=(heard.append,))
    assert out.tolist() == [[10 * number, 10 * number + 1] for number in range(40)]
    for event in completed(heard):
        assert {by.warp for by in event.arrived} == {0, 1, 2, 3}
        assert set(event.released) == ({2, 3} if event.barrier == full else {0, 1})
    assert len(completed(heard)) == 40 + 39


@every_seed
def test_pairs_of_warps_meet_at_their_own_barrier(seed):
    heard = []

    def kernel(warp):
        for _ in range(5):
            warp.bar_sync(3 + warp.warpid // 2, 64)
        warp.bar_sync(15)

    launch(kernel, 1, 232, seed=seed, observers=(heard.append,))
    for event in completed(heard):
        first = 2 * (event.barrier - 3)
        assert {by.warp for by in event.arrived} == (set(range(8)) if event.barrier == 15 else {first, first + 1})
        assert {by.warp for by in event.arrived} == set(event.released)
    assert len(completed(heard)) == 4 * 5 + 1


@every_seed
def test_a_barrier_of_all_does_not_wait_for_warps_that_have_exited(seed):
    heard = []

    def kernel(warp):
        if warp.warpid == 2:
            return
        warp.bar_sync()
        if warp.warpid != 1:
            warp.bar_sync(5)

    launch(kernel, 1, 128, seed=seed, observers=(heard.append,))
    one, other = sorted(completed(heard), key=lambda event: event.barrier)
    assert ({by.warp for by in one.arrived}, one.exited) == ({0, 1, 3}, 32)
    assert ({by.warp for by in other.arrived}, other.exited) == ({0, 3}, 64)


def test_a_barrier_with_a_count_waits_for_warps_that_have_exited():
    def kernel(warp):
        if warp.warpid:
            warp.bar_sync(1, 64)

    with pytest.raises(Deadlock, match="where 32 of 64 threads have arrived"):
        launch(kernel, 1, 64)


def test_a_count_of_all_threads_is_the_same_barrier_as_none():
    def kernel(warp):
        if warp.warpid:
            warp.bar_sync(4)
        else:
            warp.bar_arrive(4, 96)

    launch(kernel, 1, 70)


def test_a_barrier_counts_arrivals_and_not_who_arrives():
    """A warp that arrives twice is two warps, and the third of three then waits alone."""

    def kernel(warp):
        if warp.warpid:
            warp.bar_sync(4, 96)
        else:
            warp.run("bar.arrive", 4, 96)
            warp.run("barrier.cta.arrive.aligned", np.int64(4), np.int64(96))

    with pytest.raises(
        Deadlock, match=r"warp 2 waits since .* barrier 4, where 32 of 96 threads have arrived \(warp 2\)"
    ):
        launch(kernel, 1, 96)


@every_seed
def test_every_form_of_a_barrier_is_the_same_barrier(seed):
    """bar and barrier, with .cta and .aligned or without, use the same barrier, as bar.red does."""
    answers = {}
    forms = ["bar.sync", "barrier.cta.sync", "barrier.sync.aligned", "bar.cta.sync"]

    def kernel(warp):
        warp.st_shared(4 * warp.warpid, warp.warpid + 1)
        warp.run(forms[warp.warpid], 7, 128)
        found = warp.ld_shared(4 * (warp.laneid % 4))[:4, 0].tolist()
        votes = [
            warp.run("barrier.red.popc.aligned.u32", 7, warp.laneid < 3),
            warp.run("bar.cta.red.and.pred", 7, 128, warp.laneid < 32),
            warp.run("barrier.cta.red.or.pred", 8, 128, (warp.laneid == 4) & (warp.warpid == 2)),
            warp.bar_red("and", warp.warpid != 3, 9),
            warp.bar_red("popc", True),
        ]
        if warp.warpid < 2:
            warp.run("barrier.arrive.aligned" if warp.warpid else "bar.cta.arrive", 3, 128)
        else:
            warp.run("barrier.cta.sync.aligned", 3, 128)
        answers[warp.warpid] = found, votes

    launch(kernel, 1, 128, shared=16, seed=seed)
    assert answers == dict.fromkeys(range(4), ([1, 2, 3, 4], [12, True, True, False, 128]))


def test_a_vote_of_lanes_counts_those_that_are_active():
    """The barrier counts the warp as a whole, the answer the predicates of the lanes that gave one."""
    answers = {}

    def kernel(warp):
        with warp.only(warp.laneid < 8 + 8 * warp.warpid):
            answers[warp.warpid] = warp.bar_red("popc", True), warp.bar_red("and", warp.laneid < 16)

    launch(kernel, 1, 45)
    assert answers == {0: (8 + 13, True), 1: (8 + 13, True)}


def test_all_that_arrive_give_the_same_number():
    def kernel(warp):
        if warp.warpid == 0:
            warp.bar_sync(2, 64)  # the first count
        else:
            warp.bar_sync(2, 96)  # another count

    with pytest.raises(LaunchError) as caught:
        launch(kernel, 1, 96)
    told = str(caught.value)
    assert f"barrier 2: warp 0 of block 0 at {line('the first count')} gave 64 threads" in told
    assert "now a warp gives 96" in told
    assert f"warp 1 of block 0 at {line('another count')}; PTX ISA 9.1, 9.7.13.1" in told


def test_barriers_and_counts_that_are_none(row):
    cases = [
        ("16", lambda w: w.bar_sync(16), "a block has barriers 0 to 15; got 16"),
        ("-1", lambda w: w.bar_sync(-1), "got -1"),
        ("0.0", lambda w: w.bar_sync(0.0), "got 0.0"),
        ("True", lambda w: w.bar_sync(True), "got True"),
        ("None", lambda w: w.bar_sync(None), "got None"),
        ("an array", lambda w: w.bar_sync(w.laneid), "lane 0 gives 0, lane 1 gives 1"),
        ("33 threads", lambda w: w.bar_sync(0, 33), "a multiple of 32, at most 96 in this block; got 33"),
        ("no threads", lambda w: w.bar_sync(0, 0), "at most 96 in this block; got 0"),
        ("128 threads", lambda w: w.bar_sync(0, 128), "at most 96 in this block; got 128"),
        ("64.0 threads", lambda w: w.bar_sync(0, 64.0), "got 64.0"),
        ("many threads", lambda w: w.bar_arrive(0, w.laneid), "takes one value for threads"),
        ("arrive", lambda w: w.bar_arrive(3, True), "in this block; got True"),
    ]
    for name, body, says in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(says)):
            launch(body, 1, 96)


# ------------------------------------------------------------------------------------------------ deadlocks


def test_a_deadlock_says_who_waits_for_what_since_which_line():
    heard = []

    def kernel(warp):
        if warp.warpid == 5:
            return
        if warp.warpid in (1, 3):
            warp.bar_sync(1, 96)  # two of three
        elif warp.warpid == 4:
            with warp.only(warp.laneid == 0):
                warp.mbarrier_init(8, 3)
                warp.mbarrier_arrive(8)
            warp.mbarrier_wait(
                8,
                0,
            )  # never complete
        else:
            warp.bar_sync()  # all but those

    with pytest.raises(Deadlock) as caught:
        launch(kernel, (1, 2), 192, shared=64, observers=(heard.append,))
    wait = int(line("never complete").rpartition(":")[2]) - 3
    lines = str(caught.value).split("\n")
    assert lines[0] == "block (0, 0, 0) cannot continue:"
    assert lines[1].startswith(
        f"  warps 0, 2 wait since {line('all but those')} for barrier 0, where 64 of 192 threads"
    )
    assert lines[2] == (
        f"  warps 1, 3 wait since {line('two of three')} for barrier 1, where 64 of 96 threads have arrived "
        f"(warps 1 and 3)"
    )
    assert lines[3].startswith(f"  warp 4 waits since {HERE}:{wait} for the mbarrier at 8, whose")
    assert lines[4:] == ["  warp 5 reached the end of the kernel"]
    assert caught.value.launch.blocks == 0
    (stuck,) = (event for event in heard if isinstance(event, events.Stuck))
    assert [(each.by.warp, each.kind, each.key) for each in stuck.waiting] == [
        (0, "barrier", 0), (1, "barrier", 1), (2, "barrier", 0), (3, "barrier", 1), (4, "mbarrier", 8),
    ]  # fmt: skip
    assert isinstance(heard[-1], events.Stuck)


def test_a_deadlock_of_a_later_block():
    def kernel(warp):
        if warp.ctaid == (1, 1, 0) and warp.warpid == 0:
            warp.bar_sync(0, 64)

    with pytest.raises(Deadlock, match=r"block \(1, 1, 0\) cannot continue") as caught:
        launch(kernel, (2, 2), 64)
    assert caught.value.launch.blocks == 3


def test_a_deadlock_is_found_at_once(monkeypatch):
    """Warps that only wait cannot change what they wait for, so the scheduler asks each of them only a few times."""
    turns, able = [], Scheduler._able

    def counted(scheduler):
        turns.append(scheduler)
        return able(scheduler)

    def kernel(warp):
        if warp.warpid == 0:
            with warp.only(warp.laneid == 0):
                warp.mbarrier_init(8, 3)
        warp.bar_sync()
        warp.mbarrier_wait(8, 0)

    monkeypatch.setattr(Scheduler, "_able", counted)
    with pytest.raises(Deadlock, match="warps 0 to 2 wait since"):
        launch(kernel, 1, 96, shared=64)
    assert len(turns) < 32


def test_helpers_of_the_kernel_are_lines_too():
    def helper(warp):
        warp.bar_sync(1, 64)  # in the helper

    with pytest.raises(Deadlock, match=re.escape(line("in the helper"))):
        launch(lambda warp: helper(warp) if warp.warpid else None, 1, 64)


# ------------------------------------------------------------------------------------------------ loops that look


@every_seed
def test_a_loop_that_tests_an_mbarrier_lets_others_go_on(seed):
    order = []

    def kernel(warp):
        if warp.warpid == 0:
            warp.mbarrier_init(0, 32)
        warp.bar_sync()
        if warp.warpid == 1:
            for _ in range(40):
                warp.st_shared(64, 1)
            warp.mbarrier_arrive(0)
            order.append("arrived")
        else:
            while not warp.mbarrier_test_wait(0, 0):
                pass
            assert order == ["arrived"]

    launch(kernel, 1, 128, shared=128, seed=seed, observers=(at_most(10_000),))


@every_seed
@pytest.mark.parametrize("space", ["shared", "global"])
def test_a_loop_that_looks_at_memory_lets_others_go_on(seed, space):
    """A flag that goes round from warp to warp, backwards, so that in no fixed order everybody finds it at once."""
    out = np.zeros(4, np.int32)

    def kernel(warp, out):
        place, load = (0, warp.ld_shared) if space == "shared" else (out.at(0), warp.ld_global)
        store = warp.st_shared if space == "shared" else warp.st_global
        wanted = 3 - warp.warpid
        while int(load(place)[0, 0]) != wanted:
            warp.bar_warp_sync()
        with warp.only(warp.elect_sync()):
            store(place, wanted + 1)

    heard = []
    launch(kernel, 1, 128, (out,), shared=16, seed=seed, observers=(heard.append, at_most(50_000)))
    stores = [event.by.warp for event in heard if isinstance(event, events.Accessed) and event.writes]
    assert stores == [3, 2, 1, 0]


@two_seeds
def test_a_loop_that_looks_and_stores_lets_others_go_on(seed):
    def kernel(warp):
        looks = 0
        while warp.warpid == 0 and not int(warp.ld_shared(0)[0, 0]):
            looks += 1
            warp.st_shared(4, looks)
        warp.st_shared(0, 1)

    launch(kernel, 1, 64, shared=16, seed=seed, observers=(at_most(10_000),))


@every_seed
@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_a_loop_that_looks_at_memory_sees_copies_land(seed, policy):
    """Wrong, as no thread waits for the copy, but it ends: pending work completes when nothing else can continue."""

    def kernel(warp, given):
        with warp.only(warp.elect_sync()):
            warp.cp_async(0, given, 4)
            while not int(warp.ld_shared(0)[0, 0]):
                pass

    given = np.array([7], np.int32)
    launch(kernel, 1, 32, (given,), shared=16, seed=seed, policy=policy, observers=(at_most(10_000),))


@pytest.mark.slow
@two_seeds
def test_loops_that_look_in_vain_are_noticed(row, seed):
    def test_wait(warp):
        with warp.only(warp.elect_sync()):
            warp.mbarrier_init(8, 2)
        warp.bar_sync()
        while not warp.mbarrier_test_wait(8, 0):  # looks at an mbarrier
            warp.bar_warp_sync()

    def shared(warp):
        while not warp.ld_shared(warp.laneid * 4).bits.any():  # looks at shared memory
            warp.vote_sync("any", True)

    def both(warp, out):
        if warp.warpid:
            warp.bar_sync(1, 64)  # waits for one that looks
        while not (warp.ld_global(out).bits.any() and warp.ld_global(out + 4).bits.any()):  # looks at global memory
            pass

    cases = [
        (test_wait, "looks at an mbarrier", "mbarrier", 8, "for the mbarrier at 8"),
        (
            shared,
            "looks at shared memory",
            "memory",
            0,
            "for shared memory at 0 to change, which it polls",
        ),
        (both, "looks at global memory", "memory", 256, "global memory at 256 (byte 0 of argument 0) to change"),
    ]
    for kernel, mark, kind, key, says in cases:
        heard = []
        args = (np.zeros(2, np.int32),) if kernel is both else ()
        with row(mark):
            with pytest.raises(Deadlock, match=re.escape(says)) as caught:
                launch(kernel, 1, 64, args, shared=128, seed=seed, observers=(heard.append, at_most(100_000)))
            assert line(mark) in str(caught.value)
            (stuck,) = (event for event in heard if isinstance(event, events.Stuck))
            assert (stuck.waiting[0].kind, stuck.waiting[0].key in (key, key + 4)) == (kind, True)
            assert (line("waits for one that looks") in str(caught.value)) == (kernel is both)


@two_seeds
def test_who_looked_in_vain_and_works_on_is_not_stuck(seed):
    """A test that fails, then more operations than any loop that looks would need to be noticed."""

    def kernel(warp):
        with warp.only(warp.elect_sync()):
            warp.mbarrier_init(8, 1)
        for number in range(4000):
            assert not warp.mbarrier_test_wait(8, 0)
            warp.st_shared(64, number)

    launch(kernel, 1, 32, shared=128, seed=seed)


@two_seeds
def test_who_loads_much_is_not_stuck(seed):
    """The same places again and again, as a naive product of matrices loads them, and no store for a long time."""

    def kernel(warp):
        for _ in range(50):
            for place in range(100):
                warp.ld_shared(0)
                warp.ld_shared(4 * place)

    launch(kernel, 1, 32, shared=512, seed=seed)


# ------------------------------------------------------------------------------------------------ seeds


def busy(warp, out):
    for number in range(4):
        warp.st_shared(4 * warp.threads, number)
        warp.bar_sync(1 + warp.warpid // 2, 64)
        warp.cp_async(2048 + 4 * warp.threads, out.at(warp.threads), 4)
        warp.cp_async_commit_group()
        warp.ld_shared(4 * warp.laneid)
        warp.cp_async_wait_group(0)
    with warp.only(warp.elect_sync()):
        warp.st_global(out.at(warp.warpid), warp.warpid)


def told(seed, policy="random", grid=3):
    heard = []
    launch(
        busy, grid, 128, (np.zeros(128, np.int32),), shared=4096, seed=seed, policy=policy, observers=(heard.append,)
    )
    return [(event.name, event.by.warp, event.by.block) if hasattr(event, "by") else event.name for event in heard]


def test_a_seed_decides_everything():
    sequences = {seed: told(seed) for seed in SEEDS}
    assert all(sequence == told(seed) for seed, sequence in sequences.items())
    assert len({str(sequence) for sequence in sequences.values()}) == len(SEEDS)


def test_seed_0_lets_warps_go_on_until_they_wait():
    def kernel(warp):
        for _ in range(20):
            warp.st_shared(0, 1)
        warp.bar_sync()

    def order(seed):
        heard = []
        launch(kernel, 2, 96, shared=16, seed=seed, observers=(heard.append,))
        return [
            (each.by.block, each.by.warp) for each in heard if isinstance(each, events.Issued) and "st" in each.opcode
        ]

    stores = [(block, warp) for block in range(2) for warp in range(3) for _ in range(20)]
    assert order(0) == stores
    switches = 0
    for seed in range(1, 21):
        found = order(seed)
        switches += sum(one != other for one, other in pairwise(found))
        assert sorted(found) == stores
    assert switches > 20 * 10  # at seed 0 they are 5


def test_a_seed_decides_the_order_of_the_blocks():
    def order(seed):
        found = []
        launch(lambda warp: found.append(warp.ctaid), (4, 3, 2), seed=seed)
        return found

    in_order = [(x, y, z) for z in range(2) for y in range(3) for x in range(4)]
    assert order(0) == in_order
    assert order(1) != order(2)
    assert all(order(seed) != in_order and sorted(order(seed)) == sorted(in_order) for seed in (1, 2, 3))


@pytest.mark.slow
def test_the_hash_seed_of_python_decides_nothing():
    code = f"""
        import sys; sys.path.insert(0, {str(HERE.parent)!r})
        import hashlib
        from test_scheduling import told
        print(hashlib.sha256(str([told(seed) for seed in (0, 5)]).encode()).hexdigest())
    """
    found = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PATH": ""},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "12345")
    }  # fmt: skip
    assert len(found) == 1
