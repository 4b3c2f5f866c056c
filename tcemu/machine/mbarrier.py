"""The mbarrier: an object of 64 bits that counts arrivals and bytes, phase after phase (PTX ISA 9.1, 9.7.13.15).

    phase       0, 1, 2...: the number of completed phases
    pending     arrivals that the phase still waits for, 0 to 2^20 - 1
    expected    arrivals that the next phase will wait for, 1 to 2^20 - 1
    tx-count    bytes in flight that the phase still waits for, -(2^20 - 1) to 2^20 - 1

A phase is complete when pending arrivals and tx-count are both 0; the next one begins at once, with `expected` arrivals
pending. This module holds the state of one object; mbarriers.py makes warps wait for it.

How this is known: from the manual. An H200 gives the same answers after 2,000 random operations and at the limits of
each count (tests/machine/test_tma_live.py). There too, expect_tx completes a phase whose bytes came before it.
"""

from __future__ import annotations

from operator import index

from tcemu.errors import OperandError, briefly, counted

#: The largest arrival count, and the largest tx-count in either direction.
MOST = (1 << 20) - 1
#: Bytes of the object, and the alignment of its address.
BYTES = 8

# The layout of the 64 bits is private to this module: the manual calls them opaque, and hardware has another layout.
#
#   bits 63:62   10, so that memory that was never initialised is not an mbarrier
#   bit  61      parity of the phase
#   bits 60:41   pending
#   bits 40:21   expected
#   bits 20:0    tx-count, two's complement
_TAG, _PARITY, _PENDING, _EXPECTED = 62, 61, 41, 21
_TX_BITS = 21
#: The bits that say whether there is an object, and the parity of its phase.
PHASE = 7 << _PARITY
_SECTION = "PTX ISA 9.7.13.15"


class Mbarrier:
    """One mbarrier object after mbarrier.init with `count`. Raises OperandError for a count out of range.

    Operations that may complete the phase return whether they did. If the manual leaves the behaviour undefined, they
    raise OperandError and leave the object unchanged.
    """

    __slots__ = ("expected", "pending", "phase", "tx")

    def __init__(self, count: int) -> None:
        self.phase = 0
        self.pending = self.expected = _counted("count", count, 9)
        self.tx = 0

    # ------------------------------------------------------------------------------------------ operations

    def arrive(self, count: int = 1, *, complete: bool = True) -> bool:
        """arrive-on with `count` (9.7.13.15.13); return whether it completed the phase.

        It is an error if more arrivals come than are pending, or if .noComplete (`complete` False) completes the phase.
        """
        count = _counted("count", count, 13)
        self._check_arrivals(count)
        if not complete and count == self.pending and not self.tx:
            raise OperandError(
                f"mbarrier.arrive.noComplete with count {count} would complete phase {self.phase}: {self} "
                f"({_SECTION}.13)"
            )
        self.pending -= count
        return self._completed()

    def drop(self, count: int = 1, *, complete: bool = True) -> bool:
        """arrive_drop with `count` (9.7.13.15.14): later phases expect fewer arrivals, and then arrive-on."""
        count = _counted("count", count, 14)
        self._check_arrivals(count)
        if count > self.expected:
            raise OperandError(
                f"mbarrier.arrive_drop of {count}, but later phases expect {self.expected} arrivals ({_SECTION}.14)"
            )
        self.expected -= count
        try:
            return self.arrive(count, complete=complete)
        except OperandError:
            self.expected += count
            raise

    def add_pending(self, count: int = 1) -> None:
        """The phase waits for `count` more arrivals: cp.async.mbarrier.arrive without .noinc (9.7.13.15.15)."""
        if self.pending + count > MOST:
            raise OperandError(f"more than {MOST} arrivals would be pending: {self} ({_SECTION}.15)")
        self.pending += count

    def expect_tx(self, count: int) -> bool:
        """expect-tx with `count` bytes (9.7.13.15.11); return whether it completed a phase whose bytes came early."""
        self._move_tx(_transacted(count, "expect_tx"))
        return self._completed()

    def complete_tx(self, count: int) -> bool:
        """complete-tx with `count` bytes (9.7.13.15.12), as a bulk copy does when it has landed."""
        self._move_tx(-_transacted(count, "complete_tx"))
        return self._completed()

    # ------------------------------------------------------------------------------------------ questions

    def test(self, parity: int) -> bool:
        """test_wait.parity (9.7.13.15.16): whether the phase with that parity is complete.

        `parity` is that of the current phase, which is not complete, or of the previous one, which is. On a new object
        parity 1 is therefore complete: it stands for the phase before the first.
        """
        if _index(parity) not in (0, 1):
            raise OperandError(
                f"phaseParity is 0 for even phases and 1 for odd ones: phase & 1; got {briefly(parity)} ({_SECTION}.16)"
            )
        return self.phase & 1 != parity.__index__()

    def __str__(self) -> str:
        arrivals = f"{self.pending} arrival{'s' * (self.pending != 1)}"
        return f"phase {self.phase} waits for {arrivals} and {self.tx} bytes"

    def __repr__(self) -> str:
        return f"<mbarrier: {self}; {counted(self.expected, 'arrival')} a phase>"

    # ------------------------------------------------------------------------------------------ 64 bits

    def encode(self) -> int:
        """The 64 bits in shared memory, in a layout that differs from the hardware's."""
        tx = self.tx & (1 << _TX_BITS) - 1
        return 2 << _TAG | (self.phase & 1) << _PARITY | self.pending << _PENDING | self.expected << _EXPECTED | tx

    @classmethod
    def decode(cls, bits: int, phase: int = 0) -> Mbarrier:
        """The object that 64 bits encode, in `phase` or the next one, whichever has its parity.

        Raises OperandError if mbarrier.init did not write them, or something else overwrote them.
        """
        bits = int(bits)
        if bits >> _TAG != 2:
            raise OperandError(
                f"the address holds no mbarrier: its 8 bytes are {bits:#018x}, which mbarrier.init did not write. "
                f"Execute mbarrier.init first, and do not store to the bytes before mbarrier.inval ({_SECTION})"
            )
        made = cls.__new__(cls)
        made.phase = phase + ((phase ^ bits >> _PARITY) & 1)
        made.pending, made.expected = bits >> _PENDING & MOST, bits >> _EXPECTED & MOST
        tx = bits & (1 << _TX_BITS) - 1
        made.tx = tx - (tx >> _TX_BITS - 1 << _TX_BITS)
        return made

    # ------------------------------------------------------------------------------------------ inside

    def _completed(self) -> bool:
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.expected
        return True

    def _check_arrivals(self, count: int) -> None:
        if count > self.pending:
            raise OperandError(
                f"{count} arrival{'s' * (count > 1)} at an mbarrier that has {self.pending} pending: {self}, and each "
                f"phase expects {self.expected}. Do more threads arrive than the count of mbarrier.init says, or does "
                f"one arrive for the next phase before this one is complete? ({_SECTION}.7)"
            )

    def _move_tx(self, by: int) -> None:
        if not -MOST <= self.tx + by <= MOST:
            raise OperandError(
                f"the tx-count would be {self.tx + by}, but its limit is {MOST} bytes in either direction. Split the "
                f"copy among several mbarriers or phases ({_SECTION}.2)"
            )
        self.tx += by


def phase_bits(parity: int) -> int:
    """The bits PHASE of an object whose current phase, which is not complete, has this parity."""
    return 2 << _TAG | parity << _PARITY


def parity_of(state: object) -> int:
    """The parity of the phase in which an arrive returned `state`. Raises OperandError if no arrive returned it."""
    return _returned(state) >> _PARITY & 1


def pending_count(state: object) -> int:
    """mbarrier.pending_count: arrivals pending before the arrive that returned `state`. Raises as parity_of does."""
    return _returned(state) >> _PENDING & MOST


def _returned(state: object) -> int:
    number = _index(state)
    if number is None or number >> _TAG != 2:
        raise OperandError(
            f"the state must come from mbarrier.arrive; got {briefly(state)}. For a parity, use "
            f"mbarrier.test_wait.parity ({_SECTION}.16)"
        )
    return number


def _counted(name: str, count: int, part: int) -> int:
    number = count if type(count) is int else _index(count)
    if number is None or not 1 <= number <= MOST:
        raise OperandError(f"{name} of an mbarrier must be 1 to {MOST}; got {briefly(count)} ({_SECTION}.{part})")
    return number


def _transacted(count: int, what: str) -> int:
    number = _index(count)
    if number is None or not 0 <= number <= MOST:
        many = number is not None and number > MOST
        advice = ". Each lane adds its own bytes: if one copy is meant, only one lane may do this" if many else ""
        raise OperandError(
            f"{what} of an mbarrier must be 0 to {MOST} bytes; got {briefly(count)} ({_SECTION}.5){advice}"
        )
    return number


def _index(value: object) -> int | None:
    """A whole number, or None; arrays of several numbers have an __index__ too, which raises."""
    try:
        return None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
