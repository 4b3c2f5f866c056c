"""mbarriers in kernels: the states that arrivals return, arrive_drop, and waits by state (PTX ISA 9.1, 9.7.13.15)."""

import numpy as np
import pytest

from tcemu.errors import Deadlock, IllegalInstruction, MbarrierMisused, OperandError
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.mbarrier import Mbarrier, pending_count

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
    """Each warp waits for the phase it arrived in, without counting phases; no warp continues too early."""
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
        (lambda warp, _: warp.mbarrier_test_wait(64), "takes either a parity or a state; got None and None"),
        (
            lambda warp, state: warp.mbarrier_test_wait(64, 0, state=state),
            "test_wait takes either a parity or a state; got 0",
        ),
        (lambda warp, _: warp.mbarrier_wait(64), "mbarrier.try_wait takes either a parity or a state"),
        (lambda warp, _: warp.mbarrier_test_wait(64, state=1), "the state must come from mbarrier.arrive; got 1. For"),
        (lambda warp, _: warp.mbarrier_wait(64, state="x"), "the state must come from mbarrier.arrive; got 'x'"),
        (lambda warp, _: warp.run("mbarrier.test_wait.shared::cta.b64", 64, 0), "test_wait.parity (PTX ISA 9.1, 9."),
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


# ------------------------------------------------------------------------------------------------ lane by lane

LANES = np.arange(32)


def four(warp, counts):
    """Four mbarriers at 128, 136, 144 and 152, with a count each, that lanes 0 to 3 make."""
    with warp.only(LANES < 4):
        warp.mbarrier_init(128 + 8 * LANES, np.resize(counts, 32))
    warp.bar_warp_sync()


def kept(warp):
    """The four as they are."""
    bits = warp.core.block.shared.bytes[128:160].view("<u8").tolist()
    return [str(Mbarrier.decode(each)) for each in bits]


def test_each_lane_makes_its_own_with_its_own_count():
    def body(warp):
        four(warp, [1, 2, 3, 400])
        return kept(warp)

    assert alone(body) == [f"phase 0 waits for {n} arrival{'s' * (n > 1)} and 0 bytes" for n in (1, 2, 3, 400)]


def test_each_lane_arrives_at_its_own_as_often_as_it_says():
    """Lane l arrives l + 1 times at mbarrier l % 4: sums by the manual, 9.7.13.15.13."""
    totals = [sum(lane + 1 for lane in range(32) if lane % 4 == number) for number in range(4)]
    heard = []

    def body(warp):
        four(warp, [total + 1 for total in totals])
        heard.clear()
        states = warp.mbarrier_arrive(128 + 8 * (LANES % 4), LANES + 1)
        one = warp.run("mbarrier.pending_count.b64", states)
        return one.tolist(), kept(warp), warp.run("mbarrier.pending_count.b64", int(states[2]))

    pending, left, one = alone(body, observers=[heard.append])
    assert pending == [totals[lane % 4] + 1 for lane in range(32)]
    assert one == totals[2] + 1
    assert left == ["phase 0 waits for 1 arrival and 0 bytes"] * 4
    arrived = [(event.address, event.count) for event in heard if isinstance(event, events.MbarrierArrived)]
    assert arrived == [(128 + 8 * number, totals[number]) for number in range(4)]


def test_each_lane_expects_and_completes_its_own_bytes():
    def body(warp):
        four(warp, [40] * 4)
        warp.mbarrier_expect_tx(128 + 8 * (LANES % 4), 16 * LANES)
        before = kept(warp)
        complete = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64"
        warp.run(complete, 128 + 8 * (LANES % 4), 16 * LANES - 16 * (LANES > 27))
        with warp.only(LANES < 4):
            warp.run("mbarrier.arrive.expect_tx.shared::cta.b64", 128 + 8 * LANES, 32 * LANES)
        return before, kept(warp)

    before, after = alone(body)
    bytes_ = [sum(16 * lane for lane in range(32) if lane % 4 == number) for number in range(4)]
    assert before == [f"phase 0 waits for 40 arrivals and {count} bytes" for count in bytes_]
    assert after == [f"phase 0 waits for 39 arrivals and {16 + 32 * number} bytes" for number in range(4)]


@pytest.mark.parametrize("tell", [False, True])
def test_complete_tx_ends_a_phase(tell):
    """As a copy does: bytes count as arrived, and waits end. Before they are expected, the count is negative."""

    def body(warp):
        with one_lane(warp):
            if tell:
                warp.run("mbarrier.complete_tx.b64", warp.generic(64), 48)
            warp.mbarrier_arrive_expect_tx(64, 48)
            found = [warp.mbarrier_test_wait(64, 0)]
            if not tell:
                warp.run("mbarrier.complete_tx.shared::cta.b64", 64, 16)
                found.append(warp.mbarrier_test_wait(64, 0))
                warp.run("mbarrier.complete_tx.shared::cluster.b64", 64, 32)
            return [*found, warp.mbarrier_test_wait(64, 0)]

    assert alone(body) == ([True, True] if tell else [False, False, True])


def test_each_lane_asks_for_its_own_phase():
    """Two mbarriers, one of them a phase ahead; lanes ask for either parity of either."""

    def body(warp):
        four(warp, [1, 1, 1, 1])
        with warp.only(LANES == 1):
            warp.mbarrier_arrive(136)
        place, parity = 128 + 8 * (LANES % 2), LANES // 2 % 2
        tested = warp.run("mbarrier.test_wait.parity.shared::cta.b64", place, parity)
        asked = warp.run("mbarrier.test_wait.parity.shared::cta.b64", place, warp.registers(1, fill=1))
        with warp.only(tested):
            tried = warp.mbarrier_try_wait(place, parity)
            hinted = warp.run("mbarrier.try_wait.parity.shared::cta.b64", place, parity, 1000)
        return tested.tolist(), asked.tolist(), tried.tolist(), hinted.tolist()

    tested, asked, tried, hinted = alone(body)
    # at 128 phase 0 goes on, so that parity 1 is complete; at 136 phase 1 does, so that parity 0 is
    expected = [(lane % 2 == 0) == (lane // 2 % 2 == 1) for lane in range(32)]
    assert tested == tried == hinted == expected
    assert asked == [lane % 2 == 0 for lane in range(32)]


def test_each_lane_asks_by_its_own_state():
    def body(warp):
        four(warp, [1, 2, 1, 2])
        place = 128 + 8 * LANES
        with warp.only(LANES < 4):
            states = warp.mbarrier_arrive(place)
            found = warp.run("mbarrier.test_wait.shared::cta.b64", place, states)
            assert not warp.mbarrier_test_wait(place, state=states)
            with warp.only(LANES % 2 == 1):
                warp.mbarrier_arrive(place)
            assert warp.mbarrier_test_wait(place, state=states)
            again = warp.mbarrier_try_wait(place, state=states)
        return found.tolist(), again.tolist()

    found, again = alone(body)
    assert found == [lane in (0, 2) for lane in range(32)]
    assert again == [lane < 4 for lane in range(32)]


@pytest.mark.parametrize("seed", SEEDS)
def test_try_wait_waits_for_all_that_its_lanes_ask_for(seed):
    order = []

    def kernel(warp):
        if warp.warpid == 0:
            with warp.only(LANES < 2):
                warp.mbarrier_init(8 * LANES, 1)
        warp.bar_sync()
        if warp.warpid == 0:
            with warp.only(LANES < 2):
                predicate = warp.run("mbarrier.try_wait.parity.shared::cta.b64", 8 * LANES, 0)
            order.append("waited")
            assert predicate.tolist() == [lane < 2 for lane in range(32)]
        else:
            with one_lane(warp):
                order.append(warp.warpid)
                warp.mbarrier_arrive(8 * (warp.warpid - 1))

    launch(kernel, block=96, shared=16, seed=seed)
    assert order[-1] == "waited" or set(order[: order.index("waited")]) == {1, 2}


def test_arrivals_that_must_not_complete_the_phase():
    """.noComplete: the count as usual; where the phase would be complete, the manual leaves open what happens."""

    def body(warp, last="mbarrier.arrive"):
        with one_lane(warp):
            state = warp.run("mbarrier.arrive.noComplete.shared::cta.b64", 64, 2)
            warp.run("mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64", 64, 1)
            count = pending_count(state)
            warp.run(f"{last}.shared::cta.b64", 64, 1)
            return count, str(Mbarrier.decode(warp.core.block.shared.bytes[64:72].view("<u8")[0]))

    assert alone(body, count=4) == (4, "phase 1 waits for 3 arrivals and 0 bytes")
    for last in ("mbarrier.arrive.noComplete", "mbarrier.arrive_drop.noComplete"):
        heard = []
        with pytest.raises(MbarrierMisused, match="noComplete with count 1 would complete phase 0"):
            alone(lambda warp, last=last: body(warp, last), count=4, observers=[heard.append])
        (fault,) = [event for event in heard if isinstance(event, events.Faulted)]
        assert (fault.kind, fault.address) == ("arrivals", 64)


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (lambda w: w.mbarrier_arrive(64, np.ones(31, int)), "arrive.shared::cta.b64: count must be one integer"),
        (lambda w: w.mbarrier_init(64, np.ones(5, int)), "mbarrier.init.shared::cta.b64: count must be one integer"),
        (lambda w: w.mbarrier_init(64, np.zeros(32, int)), "count of an mbarrier must be 1 to 1048575; got 0"),
        (lambda w: w.mbarrier_expect_tx(64, 1.5), "count must be one integer for all lanes, or (32,)"),
        (lambda w: w.mbarrier_expect_tx(64, True), "a count must be an integer; got True"),
        (lambda w: w.mbarrier_arrive(1 << 70), "mbarrier must be one integer for all lanes"),
        (lambda w: w.mbarrier_test_wait(64, np.zeros(3, int)), "parity must be one integer for all lanes, or (32,)"),
        (lambda w: w.mbarrier_test_wait(64, LANES), "phaseParity is 0 for even phases and 1 for odd ones"),
        (lambda w: w.mbarrier_wait(64, [[1], [2, 3]]), "not an array"),
        (lambda w: w.mbarrier_wait(64, np.ones(32, bool)), "parity must be one integer for all lanes"),
        (lambda w: w.mbarrier_wait(64, state=np.zeros(32, np.uint64)), "must come from mbarrier.arrive; got 0"),
        (lambda w: w.mbarrier_wait(64, state=np.zeros((2, 2))), "state must be one integer for all lanes, or (32,)"),
        (lambda w: w.run("mbarrier.pending_count.b64", "x"), "the state must come from mbarrier.arrive; got 'x'"),
        (lambda w: w.run("mbarrier.pending_count.b64", LANES), "the state must come from mbarrier.arrive"),
        (lambda w: w.run("mbarrier.complete_tx.shared::cta.b64", 64, "x"), "tx_count must be one integer for all"),
    ],
)
def test_lanes_that_give_no_operands(deed, told):
    def body(warp):
        with pytest.raises(OperandError) as error:
            deed(warp)
        assert told in str(error.value)
        assert "PTX ISA 9.1, 9.7.13.15" in str(error.value)

    alone(body, count=64)


def test_states_and_parities_of_numpy():
    """A number of numpy is a number."""

    def body(warp):
        with one_lane(warp):
            state = np.uint64(warp.mbarrier_arrive(64))
            return [
                warp.mbarrier_test_wait(64, state=state),
                warp.mbarrier_test_wait(64, np.int8(0)),
                warp.mbarrier_test_wait(64, np.array(0)),
                warp.mbarrier_test_wait(64, state=np.array(state)),
                warp.mbarrier_test_wait(np.int32(64), np.uint8(1)),
                int(warp.run("mbarrier.pending_count.b64", state)),
            ]

    assert alone(body) == [True, True, True, True, False, 1]
