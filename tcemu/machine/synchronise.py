"""mbarriers in a kernel: what lanes do to the objects in shared memory (PTX ISA 9.1, 9.7.13.15)."""

from __future__ import annotations

from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, MbarrierMisused, OperandError, briefly
from tcemu.machine.core import Core
from tcemu.machine.events import (
    By,
    Faulted,
    MbarrierArrived,
    MbarrierCompleted,
    MbarrierInitialised,
    MbarrierInvalidated,
    MbarrierWaited,
)
from tcemu.machine.mbarrier import BYTES, Mbarrier, parity_of

SECTION = "9.7.13.15"


class Mbarriers(Core):
    """mbarrier. Every active lane executes an operation for itself: 32 lanes that arrive are 32 arrivals."""

    def mbarrier_init(self, address: npt.ArrayLike, count: int) -> None:
        """mbarrier.init: an mbarrier of 8 bytes at `address` that waits for `count` arrivals a phase.

        Other threads may use it after a barrier; bulk copies after fence_mbarrier_init, too.
        """
        opcode = "mbarrier.init.shared::cta.b64"
        by = self._issue(opcode)
        if by is not None:
            for place, _ in self._distinct(address, f"{opcode}: address"):
                self._check_place(by, opcode, place)
                self._phases[place] = 0
                self._put(place, Mbarrier(count))
                self._block.tell(MbarrierInitialised, by, place, count)

    def mbarrier_inval(self, address: npt.ArrayLike) -> None:
        """mbarrier.inval: the 8 bytes are ordinary memory again."""
        opcode = "mbarrier.inval.shared::cta.b64"
        by = self._issue(opcode)
        if by is not None:
            for place, _ in self._distinct(address, f"{opcode}: address"):
                self._get(by, opcode, place)
                self._block.shared.bytes[place : place + BYTES] = 0
                self._block.tell(MbarrierInvalidated, by, place)

    def mbarrier_arrive(self, address: npt.ArrayLike, count: int = 1) -> Any:
        """mbarrier.arrive: each active lane arrives `count` times.

        The state of the mbarrier before the warp's first arrival, for `mbarrier_test_wait` and `mbarrier_wait`: an
        int, or where lanes give different addresses uint64 (32,), 0 for inactive lanes.
        """
        return self._arrivals("mbarrier.arrive.shared::cta.b64", address, count, 0)

    def mbarrier_arrive_drop(self, address: npt.ArrayLike, count: int = 1) -> Any:
        """mbarrier.arrive_drop: each active lane arrives `count` times and is not expected again in later phases.

        The state, as `mbarrier_arrive` returns it.
        """
        return self._arrivals("mbarrier.arrive_drop.shared::cta.b64", address, count, 0, drop=True)

    def mbarrier_expect_tx(self, address: npt.ArrayLike, tx_count: int) -> None:
        """mbarrier.expect_tx: for each active lane, the phase waits for `tx_count` more bytes."""
        self._arrivals("mbarrier.expect_tx.relaxed.cta.shared::cta.b64", address, 0, tx_count)

    def mbarrier_arrive_expect_tx(self, address: npt.ArrayLike, tx_count: int) -> Any:
        """mbarrier.arrive.expect_tx: each active lane lets the phase wait for `tx_count` more bytes, then arrives.

        The state, as `mbarrier_arrive` returns it.
        """
        return self._arrivals("mbarrier.arrive.expect_tx.shared::cta.b64", address, 1, tx_count)

    def mbarrier_test_wait(self, address: int, parity: int | None = None, *, state: int | None = None) -> bool:
        """mbarrier.test_wait: whether the phase with this parity is complete; if not, others go first.

        In place of the parity, the `state` that an arrival in the phase returned.
        """
        opcode, parity = self._asked("test_wait", parity, state)
        by = self._issue(opcode)
        if by is None:
            return False
        place = self._one(address, opcode)
        found = self._get(by, opcode, place).test(parity)
        self._look(by, "mbarrier", place, found, lambda: self._told(place))
        if found:
            self._seen(by, opcode, place, parity)
        return found

    def mbarrier_wait(self, address: int, parity: int | None = None, *, state: int | None = None) -> None:
        """mbarrier.try_wait in a loop: wait until the phase with this parity is complete.

        In place of the parity, the `state` that an arrival in the phase returned.
        """
        opcode, parity = self._asked("try_wait", parity, state)
        by = self._issue(opcode)
        if by is None:
            return
        place = self._one(address, opcode)
        self._wait(by, "mbarrier", place, lambda: self._get(by, opcode, place).test(parity), lambda: self._told(place))
        self._seen(by, opcode, place, parity)

    def _test_wait_state(self, address: int, state: int) -> bool:
        """mbarrier.test_wait with PTX's operands."""
        return self.mbarrier_test_wait(address, state=state)

    def _try_wait_state(self, address: int, state: int) -> None:
        """mbarrier.try_wait with PTX's operands."""
        self.mbarrier_wait(address, state=state)

    def fence_mbarrier_init(self) -> None:
        """fence.mbarrier_init.release.cluster: mbarriers that were initialised before are visible to bulk copies."""
        self._issue("fence.mbarrier_init.release.cluster")

    # ---------------------------------------------------------------------------------------- how

    @staticmethod
    def _asked(how: str, parity: int | None, state: int | None) -> tuple[str, int]:
        """The opcode of a question, and the parity of the phase that it asks for."""
        if parity is not None and state is None:
            return f"mbarrier.{how}.parity.shared::cta.b64", parity
        if parity is None and state is not None:
            return f"mbarrier.{how}.shared::cta.b64", parity_of(state)
        given = f"{briefly(parity)} and {briefly(state)}"
        raise OperandError(f"mbarrier.{how} asks by parity or by state; got {given} (PTX ISA {SECTION}.16)")

    def _arrivals(
        self, opcode: str, address: npt.ArrayLike, count: int, transaction: int, *, drop: bool = False
    ) -> Any:
        for given in (count, transaction):
            if not isinstance(given, int | np.integer) or isinstance(given, bool):
                raise OperandError(f"{opcode}: a count is an integer; got {briefly(given)} (PTX ISA {SECTION})")
        by = self._issue(opcode)
        if by is None:
            return 0
        states = {
            place: self._arrive_at(by, opcode, place, lanes * int(count), lanes * int(transaction), drop=drop)
            for place, lanes in self._distinct(address, f"{opcode}: address")
        }
        if len(states) == 1:
            return next(iter(states.values()))
        found = np.zeros(len(self._active), np.uint64)
        found[self._active] = [states[place] for place in self._lanes_of(address, opcode)[self._active].tolist()]
        return found

    def _arrive_at(
        self, by: By, opcode: str, place: int, count: int, transaction: int = 0, *, drop: bool = False
    ) -> int:
        """`transaction` bytes are expected, then `count` arrivals happen; the state before that."""
        held = self._get(by, opcode, place)
        phase, state = held.phase, held.encode()
        if transaction:
            held.expect_tx(transaction)
        if count:
            try:
                (held.drop if drop else held.arrive)(count)
            except OperandError as error:
                self._misused(by, opcode, place, "arrivals", error)
        self._put(place, held)
        self._block.tell(MbarrierArrived, by, place, phase, count, transaction)
        self._tell_completed(place, phase, held)
        return state

    def _complete_tx(self, by: By, opcode: str, place: int, count: int) -> None:
        """A copy of `count` bytes has landed."""
        held = self._get(by, opcode, place)
        phase = held.phase
        held.complete_tx(count)
        self._put(place, held)
        self._tell_completed(place, phase, held)

    def _expect_more(self, by: By, opcode: str, place: int, count: int) -> int:
        """The phase waits for `count` more arrivals; which phase it is."""
        held = self._get(by, opcode, place)
        if count:
            held.add_pending(count)
            self._put(place, held)
        return held.phase

    def _tell_completed(self, place: int, phase: int, held: Mbarrier) -> None:
        if held.phase > phase:
            self._block.tell(MbarrierCompleted, self._block.number, place, phase)

    def _seen(self, by: By, opcode: str, place: int, parity: int) -> None:
        """A wait has found the last complete phase with this parity: others may complete before the warp goes on."""
        phase = self._get(by, opcode, place).phase - 1
        phase -= phase & 1 != parity
        if phase >= 0:
            self._block.tell(MbarrierWaited, by, place, phase)

    def _told(self, place: int) -> str:
        return f"the mbarrier at {place}, whose {Mbarrier.decode(self._bits(place), self._phases.get(place, 0))}"

    @property
    def _phases(self) -> dict[int, int]:
        """The phase of each mbarrier of the block, by address: its 64 bits keep only the parity."""
        phases: dict[int, int] = self._block.kept.setdefault("phases", {})
        return phases

    def _check_place(self, by: By, opcode: str, place: int) -> None:
        try:
            self._block.shared.check(opcode, np.array([place]), BYTES, BYTES, SECTION)
        except AddressError as error:
            self._fault(by, opcode, "shared", error)

    def _get(self, by: By, opcode: str, place: int) -> Mbarrier:
        self._check_place(by, opcode, place)
        try:
            return Mbarrier.decode(self._bits(place), self._phases.get(place, 0))
        except OperandError as error:
            self._misused(by, opcode, place, "operands", error)

    def _misused(
        self, by: By, opcode: str, place: int, kind: Literal["operands", "arrivals"], error: OperandError
    ) -> NoReturn:
        self._block.tell(Faulted, by, opcode, kind, "shared", str(error), place)
        raise MbarrierMisused(str(error)) from None

    def _bits(self, place: int) -> int:
        return int(self._block.shared.bytes[place : place + BYTES].view("<u8")[0])

    def _put(self, place: int, held: Mbarrier) -> None:
        self._phases[place] = held.phase
        self._block.shared.bytes[place : place + BYTES].view("<u8")[0] = held.encode()

    def _one(self, address: npt.ArrayLike, opcode: str) -> int:
        """The address that all active lanes give."""
        (place, _), *others = self._distinct(address, f"{opcode}: address")
        if others:
            raise OperandError(
                f"{opcode}: the lanes of a warp wait together, at one mbarrier; got {place} and {others[0][0]}"
            )
        return place
