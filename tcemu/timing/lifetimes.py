"""How many registers of a warp hold values at the same time."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcemu.machine.registers import Bank

#: Bytes of a register of a thread.
REGISTER = 4


class Lifetimes:
    """The lives of a warp's registers: from the first operation that uses them to the last one that does.

    Registers that were allocated together live together. A register that an operation writes may replace one that it
    reads for the last time.

    >>> from tcemu.machine.registers import Bank
    >>> from tcemu.timing.lifetimes import Lifetimes
    >>> a, b, d = (Bank(np.zeros((32, n), np.uint32), first=first) for first, n in [(0, 4), (4, 2), (6, 4)])
    >>> lives = Lifetimes()
    >>> for operation, banks in enumerate([[a], [b], [a, b, d], [d]]):  # two loads, a product, a store
    ...     for bank in banks:
    ...         lives.used(bank, operation)
    >>> lives.most
    6
    """

    __slots__ = ("_lives",)

    def __init__(self) -> None:
        #: by the bank's first register: the first and the last operation, and how many registers of a thread it has
        self._lives: dict[int, list[int]] = {}

    def used(self, bank: Bank, operation: int) -> None:
        """An operation, counted from 0, reads or writes some registers of a bank."""
        life = self._lives.get(bank.first)
        if life is not None:
            life[1] = operation
            return
        count = bank.bits.shape[1] * bank.bits.itemsize // REGISTER
        self._lives[bank.first] = [operation, operation, count]

    @property
    def most(self) -> int:
        """The most registers of a thread that hold values between two operations."""
        changes = [0] * (1 + max((last for _, last, _ in self._lives.values()), default=0))
        for first, last, count in self._lives.values():
            changes[first] += count
            changes[last] -= count
        return max(accumulate(changes))
