"""mbarriers in kernels: the states that arrivals return, who drops out, questions by state (PTX ISA 9.1, 9.7.13.15)."""

import numpy as np
import pytest

from tcemu.errors import Deadlock, IllegalInstruction, MbarrierMisused, OperandError
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.mbarrier import pending_count

SEEDS = range(4)


def one_lane(warp):
    return warp.only(warp.elect_sync())


def alone(body, **options):
    """What `body` answers in the only warp of a block with an mbarrier of `count` at 64."""
    answers = []
    count = options.pop("count", 1)

    def kernel(warp):
        with one_lane(warp):
            warp.mbarrier_init(64, count)
        warp.bar_warp_sync()
        answers.append(body(warp))

    launch(kernel, shared=256, **options)
    return answers[0]


def test_an_arrival_returns_the_state_before_it():
    """As PTX has it: opaque, but for what mbarrier.pending_count and test_wait make of it."""

    def body(warp):
        with one_lane(warp):
            return [
                warp.mbarrier_arrive(64, 3),
                warp.mbarrier_arrive_expect_tx(64, 0),
                warp.mbarrier_arrive_drop(64, 2),
                warp.mbarrier_arrive(64),
            ]

    states = alone(body, count=6)
    assert all(isinstance(state, int) for state in states)
    assert [pending_count(state) for state in states] == [6, 3, 2, 4]


def test_lanes_at_different_mbarriers_have_states_of_their_own():
    def body(warp):
        with warp.only(warp.laneid < 2):
            warp.mbarrier_init(128 + 8 * warp.laneid, 5)
        warp.bar_warp_sync()
        with warp.only(warp.laneid == 1):
            warp.mbarrier_arrive(136)
        with warp.only(warp.laneid < 6):
            return warp.mbarrier_arrive(128 + 8 * (warp.laneid % 2))

    states = alone(body)
    assert (states.dtype, states.shape) == (np.uint64, (32,))
    assert [pending_count(state) for state in states[:6]] == [5, 4] * 3
    assert not states[6:].any()


def test_no_lane_no_state():
    def body(warp):
        with warp.only(warp.laneid > 31):
            return warp.mbarrier_arrive(64), warp.mbarrier_arrive_drop(64)

    assert alone(body) == (0, 0)


@pytest.mark.parametrize("how", ["methods", "opcodes"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_by_state(seed, how):
    """Each warp waits for the phase it arrived in, without counting phases; nobody goes on too early."""
    out = np.zeros((8, 4, 4), np.uint32)

    def meet(warp):
        warp.bar_warp_sync()
        with one_lane(warp):
            if how == "methods":
                state = warp.mbarrier_arrive(1024)
                if not warp.mbarrier_test_wait(1024, state=state):
                    warp.mbarrier_wait(1024, state=state)
                assert warp.mbarrier_test_wait(1024, state=state)
            else:
                state = warp.run("mbarrier.arrive.shared::cta.b64", 1024)
                if not warp.run("mbarrier.test_wait.shared::cta.b64", 1024, state).any():
                    assert warp.run("mbarrier.try_wait.shared::cta.b64", 1024, state).tolist() == warp.active.tolist()
        warp.bar_warp_sync()

    def kernel(warp, out):
        if warp.warpid == 0:
            with one_lane(warp):
                warp.mbarrier_init(1024, 4)
        warp.bar_sync()
        for turn in range(8):
            warp.st_shared(128 * warp.warpid + 4 * warp.laneid, np.full(32, 10 * turn + warp.warpid, np.uint32))
            meet(warp)
            for other in range(4):
                found = warp.ld_shared(128 * other + 4 * warp.laneid)
                with one_lane(warp):
                    warp.st_global(out.at(turn, warp.warpid, other), found)
            meet(warp)

    launch(kernel, block=128, args=(out,), shared=1032, seed=seed)
    assert np.array_equal(out, np.broadcast_to(10 * np.arange(8)[:, None, None] + np.arange(4), out.shape))


def test_a_state_is_of_its_phase():
    def body(warp):
        with one_lane(warp):
            first = warp.mbarrier_arrive(64)
            found = [warp.mbarrier_test_wait(64, state=first)]
            warp.mbarrier_arrive(64)
            found.append(warp.mbarrier_test_wait(64, state=first))
            second = warp.mbarrier_arrive(64)
            return [*found, warp.mbarrier_test_wait(64, state=first), warp.mbarrier_test_wait(64, state=second)]

    assert alone(body, count=2) == [False, True, True, False]


def test_a_wait_by_the_state_of_a_copy():
    source, out = np.arange(128, dtype=np.uint8), np.zeros(128, np.uint8)

    def kernel(warp, source, out):
        with one_lane(warp):
            warp.mbarrier_init(256, 1)
            state = warp.mbarrier_arrive_expect_tx(256, 128)
            warp.cp_async_bulk_shared_global(0, int(source), 128, 256)
            warp.mbarrier_wait(256, state=state)
        warp.bar_warp_sync()
        warp.st_global(out + 4 * warp.laneid, warp.ld_shared(4 * warp.laneid))

    launch(kernel, args=(source, out), shared=264)
    assert np.array_equal(out, source)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_drops_out_is_not_expected_again(seed):
    """Warp w takes part in w + 1 phases; the last one is alone at the end."""
    out = np.zeros(4, np.uint32)

    def kernel(warp, out):
        if warp.warpid == 0:
            with one_lane(warp):
                warp.mbarrier_init(0, 4)
        warp.bar_sync()
        with one_lane(warp):
            for turn in range(warp.warpid):
                warp.mbarrier_arrive(0)
                warp.mbarrier_wait(0, turn & 1)
                warp.st_global(out + 4 * warp.warpid, turn + 1)
            warp.mbarrier_arrive_drop(0)

    launch(kernel, block=128, args=(out,), shared=8, seed=seed)
    assert out.tolist() == [0, 1, 2, 3]


def test_without_dropping_out_the_others_wait_for_ever():
    def kernel(warp):
        if warp.warpid == 0:
            with one_lane(warp):
                warp.mbarrier_init(0, 2)
        warp.bar_sync()
        with one_lane(warp):
            for turn in range(1 + warp.warpid):
                warp.mbarrier_arrive(0)
                warp.mbarrier_wait(0, turn & 1)

    with pytest.raises(Deadlock, match="phase 1 waits for 1 arrival"):
        launch(kernel, block=64, shared=8)


def test_observers_hear_of_those_who_drop_out():
    heard = []

    def body(warp):
        with one_lane(warp):
            warp.mbarrier_arrive_drop(64, 2)

    alone(body, count=2, observers=[heard.append])
    (arrived,) = [event for event in heard if isinstance(event, events.MbarrierArrived)]
    assert (arrived.address, arrived.phase, arrived.count, arrived.transaction) == (64, 0, 2, 0)
    assert any(isinstance(event, events.MbarrierCompleted) for event in heard)


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (lambda warp, _: warp.mbarrier_test_wait(64), "by parity or by state; got None and None"),
        (
            lambda warp, state: warp.mbarrier_test_wait(64, 0, state=state),
            "test_wait asks by parity or by state; got 0",
        ),
        (lambda warp, _: warp.mbarrier_wait(64), "mbarrier.try_wait asks by parity or by state"),
        (lambda warp, _: warp.mbarrier_test_wait(64, state=1), "the state must come from mbarrier.arrive; got 1. For"),
        (lambda warp, _: warp.mbarrier_wait(64, state="x"), "the state must come from mbarrier.arrive; got 'x'"),
        (lambda warp, _: warp.run("mbarrier.test_wait.shared::cta.b64", 64, 0), "test_wait.parity (PTX ISA 9.7.13.15"),
        (lambda warp, _: warp.run("mbarrier.test_wait.shared::cta.b64", 64), "takes mbarrier and state; got 1 operand"),
        (lambda warp, state: warp.mbarrier_test_wait(64, state), "phaseParity is 0 for even phases"),
    ],
)
def test_questions_that_are_none(deed, told):
    def body(warp):
        with one_lane(warp):
            state = warp.mbarrier_arrive(64)
            with pytest.raises(OperandError) as error:
                deed(warp, state)
            assert told in str(error.value)

    alone(body, count=2)


def test_more_drop_out_than_are_expected():
    def body(warp):
        warp.mbarrier_arrive_drop(64)

    with pytest.raises(MbarrierMisused, match="32 arrivals at an mbarrier that has 1 pending"):
        alone(body)


def test_ampere_has_them_and_turing_has_not():
    """PTX ISA: arrive_drop and test_wait since sm_80; try_wait since sm_90."""

    def body(warp, opcode):
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(0, 32)
        warp.bar_warp_sync()
        state = warp.mbarrier_arrive(0)
        warp.run(opcode, 0, state if "wait" in opcode else 1)

    def run(opcode, target):
        launch(lambda warp: body(warp, opcode), shared=8, target=target)

    drop, test, wait = (f"mbarrier.{name}.shared::cta.b64" for name in ("arrive_drop", "test_wait", "try_wait"))
    for opcode, target in ((test, "sm_80"), (test, "sm_90a"), (wait, "sm_90")):
        run(opcode, target)
    with pytest.raises(IllegalInstruction, match=r"try_wait.* does not exist on sm_80"):
        run(wait, "sm_80")
    for opcode in (drop, test, wait):
        with pytest.raises(IllegalInstruction, match="does not exist on sm_75"):
            launch(lambda warp, opcode=opcode: warp.run(opcode, 0, 1), shared=8, target="sm_75")
