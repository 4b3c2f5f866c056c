"""The instructions of mbarriers (PTX ISA 9.1, 9.7.13.15).

Every active lane executes an operation for itself: 32 lanes make 32 arrivals, at as many objects as they address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, briefly, is_whole
from tcemu.instructions import Instruction
from tcemu.instructions.elements import space_of
from tcemu.machine.addresses import BLOCK, SHARED, window_of
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By
from tcemu.machine.lanes import Lanes, lanes
from tcemu.machine.masks import LANES, lanes_of
from tcemu.machine.mbarrier import BYTES, PHASE, parity_of, pending_count, phase_bits
from tcemu.machine.mbarriers import Mbarriers
from tcemu.machine.registers import WARP

if TYPE_CHECKING:
    from tcemu.machine.core import Core

#: 64 bits: a state is unsigned.
_LONG = (1 << 64) - 1


@executes("mbarrier.init")
def init(instruction: Instruction) -> Act:
    """mbarrier.init (9.7.13.15.9): make an object of 8 bytes that expects `count` arrivals per phase."""

    def act(core: Core, address: npt.ArrayLike, count: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        counts = count if np.ndim(core.values(count)) == 0 else core.integers(instruction, "count", count).tolist()
        for mbarriers, place, mask in mbarriers_of(core, by, instruction, address):
            each: Any = counts[mask.bit_length() - 1] if isinstance(counts, list) else counts
            mbarriers.initialise(core, _part(by, mask), instruction, place, each)

    return act


@executes("mbarrier.inval")
def inval(instruction: Instruction) -> Act:
    """mbarrier.inval (9.7.13.15.10): the 8 bytes are ordinary memory again."""

    def act(core: Core, address: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is not None:
            for mbarriers, place, mask in mbarriers_of(core, by, instruction, address):
                mbarriers.invalidate(core, _part(by, mask), instruction, place)

    return act


@executes("mbarrier.arrive", "mbarrier.arrive.noComplete", "mbarrier.arrive_drop", "mbarrier.arrive_drop.noComplete")
def arrive(instruction: Instruction) -> Act:
    """mbarrier.arrive and arrive_drop (9.7.13.15.13 and .14): each active lane arrives `count` times.

    With .noComplete the arrivals must not complete the phase; if they would, the launch ends.
    """
    drop, complete = ".arrive_drop" in instruction.family, not instruction.family.endswith(".noComplete")

    def act(core: Core, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> Any:
        return _arrivals(core, instruction, address, count, 0, drop=drop, complete=complete)

    return act


@executes("mbarrier.arrive.expect_tx", "mbarrier.arrive_drop.expect_tx")
def arrive_expect_tx(instruction: Instruction) -> Act:
    """mbarrier.arrive.expect_tx: each active lane makes the phase wait for `tx_count` more bytes, then arrives."""
    drop = instruction.family.startswith("mbarrier.arrive_drop")

    def act(core: Core, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> Any:
        return _arrivals(core, instruction, address, 1, tx_count, drop=drop)

    return act


@executes("mbarrier.expect_tx")
def expect_tx(instruction: Instruction) -> Act:
    """mbarrier.expect_tx (9.7.13.15.11): each active lane makes the phase wait for `tx_count` more bytes."""

    def act(core: Core, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> None:
        _arrivals(core, instruction, address, 0, tx_count)

    return act


@executes("mbarrier.complete_tx")
def complete_tx(instruction: Instruction) -> Act:
    """mbarrier.complete_tx (9.7.13.15.12): for each active lane, `tx_count` bytes count as copied, without a copy."""

    def act(core: Core, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        counts = core.integers(instruction, "tx_count", tx_count)
        for mbarriers, place, mask in mbarriers_of(core, by, instruction, address):
            total = _total(counts, mask)
            mbarriers.complete_tx(core, _part(by, mask), instruction, place, total, copied=False)

    return act


@executes("mbarrier.test_wait", "mbarrier.test_wait.parity", "mbarrier.try_wait", "mbarrier.try_wait.parity")
def wait(instruction: Instruction) -> Act:
    """mbarrier.test_wait and try_wait (9.7.13.15.16): a predicate, bool (32,): whether the phase is complete.

    test_wait does not wait. try_wait may suspend the thread; here it does until the phase is complete, so its predicate
    is true in every active lane. Lanes of a warp that a front end has split are not suspended.
    """
    by_state, tries = not instruction.family.endswith(".parity"), ".try_wait" in instruction.family

    def act(core: Core, address: npt.ArrayLike, phase: npt.ArrayLike, *hint: npt.ArrayLike) -> Lanes:
        by = core.begin(instruction)
        if by is None:
            return lanes(lanes_of(0).copy())
        completed = 0
        for place, parity, mask in _phases(core, by, instruction, address, phase, by_state):
            part = _part(by, mask)
            if _complete(core, part, instruction, place, parity, tries):
                completed |= mask
                if core.grid.observers:
                    core.block.mbarriers.seen(core, part, instruction, place, parity)
        return lanes(lanes_of(completed).copy())

    return act


@executes("mbarrier.pending_count")
def count_pending(instruction: Instruction) -> Act:
    """mbarrier.pending_count (9.7.13.15.17): the arrivals that were pending before the arrive that returned `state`.

    Returns an int or, for an array of states, uint32 (32,) with 0 for inactive lanes.
    """

    def act(core: Core, state: npt.ArrayLike) -> Any:
        core.begin(instruction)
        if np.ndim(core.values(state)) == 0:
            return pending_count(state)
        counts = np.zeros(WARP, np.uint32)
        states = core.integers(instruction, "state", state).tolist()
        for lane in LANES[core.active].tolist():
            counts[lane] = pending_count(states[lane] & _LONG)
        return lanes(counts)

    return act


def mbarriers_of(
    core: Core, by: By, instruction: Instruction, address: npt.ArrayLike
) -> list[tuple[Mbarriers, int, int]]:
    """(mbarriers of a block, address there, mask of the active lanes that give it)."""
    state, own = space_of(instruction), core.block
    places = core.distinct(instruction, "mbarrier", address)
    if state == "shared":
        if len(places) == 1:  # as usual; a comprehension is a call
            place, mask = places[0]
            return [(own.mbarriers, place, mask)]
        return [(own.mbarriers, place, mask) for place, mask in places]
    if state == "shared::cluster":
        return [(*_of_cluster(core, by, instruction, place), mask) for place, mask in places]
    for place, _ in places:
        if window_of(place) != "shared" or (place - SHARED) // BLOCK != own.slot:
            where = f"{window_of(place)} memory" + " of another block" * (window_of(place) == "shared")
            message = (
                f"{instruction}: the generic address {place:#x} of an mbarrier lies in {where}. Convert a shared "
                f"address with warp.generic(address), or write .shared::cta in the opcode and pass the shared address "
                f"itself (PTX ISA {instruction.section})"
            )
            core.fault(by, instruction, "shared", AddressError(message, "bounds"))
    return [(own.mbarriers, (place - SHARED) % BLOCK, mask) for place, mask in places]


def _part(by: By, mask: int) -> By:
    """The origin of what the lanes of a mask do: those that give one address."""
    return by if mask == by.active else by._replace(active=mask)


def _of_cluster(core: Core, by: By, instruction: Instruction, address: int) -> tuple[Mbarriers, int]:
    block, place = core.shared_at(by, instruction, address)
    return block.mbarriers, place


def _arrivals(
    core: Core,
    instruction: Instruction,
    address: npt.ArrayLike,
    count: npt.ArrayLike,
    transaction: npt.ArrayLike,
    *,
    drop: bool = False,
    complete: bool = True,
) -> Any:
    """The states before: an int or, if lanes give different addresses, uint64 (32,) with 0 for inactive lanes."""
    counts, sizes = _counts(core, instruction, count), _counts(core, instruction, transaction)
    by = core.begin(instruction)
    if by is None:
        return 0
    states = []
    for mbarriers, place, mask in mbarriers_of(core, by, instruction, address):
        part, arrivals, size = _part(by, mask), _total(counts, mask), _total(sizes, mask)
        state = mbarriers.arrive(core, part, instruction, place, arrivals, size, drop=drop, complete=complete)
        states.append((state, mask))
    if len(states) == 1:
        return states[0][0]
    returned = np.zeros(WARP, np.uint64)
    for state, mask in states:
        returned[[lane for lane in range(WARP) if mask >> lane & 1]] = state
    return returned


def _counts(core: Core, instruction: Instruction, count: Any) -> Any:
    """One count for all lanes, or one for each lane (32,)."""
    if type(count) is int:
        return count
    if isinstance(count, bool):
        message = f"{instruction}: a count must be an integer; got {briefly(count)}"
        raise OperandError(f"{message} (PTX ISA {instruction.section})")
    return int(count) if isinstance(count, int | np.integer) else core.integers(instruction, "count", count)


def _total(counts: Any, mask: int) -> int:
    """The sum over the lanes of a mask."""
    if isinstance(counts, int):
        return counts * mask.bit_count()
    return int(sum(int(counts[lane]) for lane in range(WARP) if mask >> lane & 1))


def _phases(
    core: Core, by: By, instruction: Instruction, address: npt.ArrayLike, phase: Any, by_state: bool
) -> list[tuple[int, int, int]]:
    """(place, parity, mask of lanes) for each phase that active lanes ask about."""
    places = mbarriers_of(core, by, instruction, address)
    if type(phase) is int and not by_state:
        parity = _parity(instruction, phase)
        return [(place, parity, mask) for _, place, mask in places]
    held = core.values(phase)
    if not held.ndim:
        one = held.item() if held.dtype.kind in "iu" else phase
        parity = parity_of(one) if by_state else _parity(instruction, one)
        return [(place, parity, mask) for _, place, mask in places]
    operands = core.integers(instruction, "state" if by_state else "parity", phase).tolist()
    masks: dict[tuple[int, int], int] = {}
    for _, place, mask in places:
        for lane in range(WARP):
            if mask >> lane & 1:
                parity = parity_of(operands[lane] & _LONG) if by_state else _parity(instruction, operands[lane])
                masks[place, parity] = masks.get((place, parity), 0) | 1 << lane
    return [(*key, mask) for key, mask in masks.items()]


def _parity(instruction: Instruction, parity: Any) -> int:
    if type(parity) is int and 0 <= parity <= 1:
        return parity
    if not is_whole(parity) or parity not in (0, 1):
        raise OperandError(
            f"{instruction}: phaseParity is 0 for even phases and 1 for odd ones: phase & 1; got {briefly(parity)} "
            f"(PTX ISA {instruction.section})"
        )
    return int(parity)


def _complete(core: Core, by: By, instruction: Instruction, place: int, parity: int, tries: bool) -> bool:
    """Whether the phase is complete; a try waits until it is, unless other lanes of the warp could run meanwhile."""
    mbarriers = core.block.mbarriers
    if mbarriers.find(core, by, instruction, place).phase & 1 != parity:
        core.strand.looks = None
        return True
    words, number = core.block.shared.units[BYTES], place // BYTES
    pending, complete = phase_bits(parity), phase_bits(1 - parity)

    def ready() -> bool:  # the scheduler calls this many times
        phase = words.item(number) & PHASE
        if phase == pending:
            return False
        # `find` raises an error if something has overwritten the mbarrier
        return phase == complete or mbarriers.find(core, by, instruction, place).test(parity)

    if tries and not core.split:
        core.wait(by, "mbarrier", place, ready, lambda: mbarriers.describe(place))
        return True
    core.look(by, "mbarrier", place, lambda: mbarriers.describe(place), ready)
    return False
