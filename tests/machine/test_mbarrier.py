"""The mbarrier, against its definition: a phase is over when all expected arrivals and bytes have come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu.errors import OperandError
from tcemu.machine.mbarrier import MOST, PHASE, Mbarrier, parity_of, pending_count, phase_bits


class History:
    """The same from the manual's words, by keeping everything that happened in the phase."""

    def __init__(self, count: int) -> None:
        self.wanted, self.next, self.done = count, count, 0
        self.arrived: list[int] = []
        self.bytes: list[int] = []

    def left(self) -> int:
        return self.wanted - sum(self.arrived)

    def look(self) -> bool:
        over = self.left() == 0 and sum(self.bytes) == 0
        if over:
            self.done += 1
            self.wanted, self.arrived, self.bytes = self.next, [], []
        return over


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["arrive", "drop", "add", "expect", "land"]), st.integers(1, 4)), max_size=60
)


@examples(400)
@given(st.integers(1, 6), OPERATIONS)
def test_every_order_of_operations(count, operations):
    made, told = Mbarrier(count), History(count)
    for what, number in operations:
        if what in ("arrive", "drop") and (number > told.left() or (what == "drop" and number > told.next)):
            continue  # an error, tested below
        if what == "arrive":
            told.arrived.append(number)
            assert made.arrive(number) == told.look()
        elif what == "drop":
            told.next -= number
            told.arrived.append(number)
            assert made.drop(number) == told.look()
        elif what == "add":
            told.wanted += number
            made.add_pending(number)
        else:
            told.bytes.append(16 * number if what == "expect" else -16 * number)
            assert (made.expect_tx if what == "expect" else made.complete_tx)(16 * number) == told.look()
        assert (made.phase, made.pending, made.expected) == (told.done, told.left(), told.next)
        assert made.tx == sum(told.bytes)
        assert [made.test(parity) for parity in (0, 1)] == [told.done % 2 == 1, told.done % 2 == 0]
        again = Mbarrier.decode(made.encode(), told.done)
        assert repr(again) == repr(made)


def test_one_producer_of_bytes():
    """arrive.expect_tx, and the bytes of two copies: TMA's way."""
    made = Mbarrier(1)
    assert not made.test(0)
    assert made.test(1), "the phase before the first is complete"
    assert not made.expect_tx(4096)
    assert not made.arrive()
    assert str(made) == "phase 0 waits for 0 arrivals and 4096 bytes"
    assert not made.complete_tx(1024)
    assert made.complete_tx(3072)
    assert made.test(0)
    assert not made.test(1)
    assert repr(made) == "<mbarrier: phase 1 waits for 1 arrival and 0 bytes; 1 arrival a phase>"


def test_bytes_may_come_before_they_are_expected():
    made = Mbarrier(2)
    assert not made.complete_tx(64)
    assert made.tx == -64
    assert not made.arrive(2)
    assert made.expect_tx(64)
    assert (made.phase, made.tx) == (1, 0)


def test_who_drops_out_is_not_expected_again():
    made = Mbarrier(3)
    assert not made.drop()
    assert made.arrive(2)
    assert made.pending == 2
    assert made.drop(2)
    assert (made.phase, made.pending, made.expected) == (2, 0, 0)


def test_arrivals_of_cp_async():
    """Without .noinc one more is pending until the copies have landed; more than the object can count is an error."""
    made = Mbarrier(1)
    made.add_pending()
    assert not made.arrive()
    assert made.arrive()
    with pytest.raises(OperandError, match="more than 1048575 arrivals"):
        Mbarrier(MOST).add_pending()


def test_the_state_that_an_arrive_returns():
    made = Mbarrier(2)
    state = made.encode()
    made.arrive()
    assert not made.test(parity_of(state))
    made.arrive()
    assert made.test(parity_of(state))
    assert pending_count(state) == 2


def test_its_bits():
    """Any two different objects differ in their bits, and uninitialised memory is never one."""
    objects = [Mbarrier(1), Mbarrier(2), Mbarrier(MOST)]
    for changed in (objects[1].arrive, lambda: objects[0].expect_tx(MOST), lambda: objects[2].complete_tx(MOST)):
        before = {made.encode() for made in objects}
        changed()
        assert len(before | {made.encode() for made in objects}) == 4
    assert all(0 <= made.encode() < 1 << 64 for made in objects)
    assert [Mbarrier.decode(made.encode()).tx for made in objects] == [MOST, 0, -MOST]
    assert Mbarrier.decode(np.uint64(Mbarrier(7).encode()), phase=5).phase == 6
    for bits in (0, 1, 0x3F800000, (1 << 64) - 1):
        with pytest.raises(OperandError, match="did not write"):
            Mbarrier.decode(bits)


@pytest.mark.parametrize("count", [0, -1, 1 << 20, 1.0, True, None])
def test_counts_that_no_mbarrier_has(count):
    with pytest.raises(OperandError, match="count of an mbarrier must be 1 to 1048575; got"):
        Mbarrier(count)
    made = Mbarrier(5)
    for operation in (made.arrive, made.drop):
        with pytest.raises(OperandError, match="1 to 1048575"):
            operation(count)
    assert made.encode() == Mbarrier(5).encode()


def test_what_the_manual_leaves_open():
    """The object is then as it was."""
    made = Mbarrier(2)
    made.arrive()
    before = made.encode()
    errors = {
        "2 arrivals at an mbarrier that has 1 pending": lambda: made.arrive(2),
        "2 arrivals at an mbarrier": lambda: made.drop(2),
        "noComplete with count 1 would complete phase 0": lambda: made.arrive(complete=False),
        r"noComplete with count 1 would complete": lambda: made.drop(complete=False),
        "expect_tx of an mbarrier must be 0 to 1048575 bytes; got -16": lambda: made.expect_tx(-16),
        "Each lane adds its own bytes: if one copy is meant, only one": lambda: made.expect_tx(32 * 49152),
        "complete_tx of an mbarrier must be 0 to 1048575 bytes; got 1.5": lambda: made.complete_tx(1.5),
        "phaseParity is 0 for even phases": lambda: made.test(2),
        "got True": lambda: made.test(True),
    }
    for told, operation in errors.items():
        with pytest.raises(OperandError, match=told):
            operation()
        assert made.encode() == before
    made.expect_tx(MOST)
    with pytest.raises(OperandError, match="the tx-count would be 1048591"):
        made.expect_tx(16)
    assert made.tx == MOST
    early = Mbarrier(1)
    early.complete_tx(MOST)
    with pytest.raises(OperandError, match="the tx-count would be -1048576"):
        early.complete_tx(1)
    few = Mbarrier(1)
    few.add_pending(3)
    with pytest.raises(OperandError, match="arrive_drop of 2, but later phases expect 1 arrivals"):
        few.drop(2)


def test_no_complete_with_bytes_under_way_is_fine():
    made = Mbarrier(1)
    made.expect_tx(16)
    assert not made.arrive(complete=False)
    assert made.complete_tx(16)


def test_the_bits_say_which_phase_is_under_way():
    made = Mbarrier(1)
    for _ in range(4):
        under_way = [made.encode() & PHASE == phase_bits(parity) for parity in (0, 1)]
        assert under_way == [not made.test(parity) for parity in (0, 1)]
        made.arrive()
    assert 0 not in (phase_bits(0), phase_bits(1)), "memory that was never initialised is not an mbarrier"
