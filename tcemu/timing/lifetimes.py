"""How many registers of a warp hold values at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

#: Bytes of a register of a thread.
REGISTER = 4


class Lifetimes:
    """The lives of a warp's registers: each from the operation that first uses it to the last one that does.

    What an operation writes may take the place of what it reads for the last time.

    >>> from tcemu.timing.lifetimes import Lifetimes
    >>> lives = Lifetimes()
    >>> for operation, numbers in enumerate([(0, 1), (2, 3), (0, 1, 2, 3), (0, 1, 4), (4,)]):
    ...     lives.used(numbers, operation)
    >>> lives.most
    4
    """

    __slots__ = ("_first", "_last", "_words")

    def __init__(self) -> None:
        #: the first and the last operation, by the register's number; how many registers of a thread it takes, if more
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._words: dict[int, int] = {}

    def used(self, numbers: Iterable[int], operation: int, size: int = REGISTER) -> None:
        """An operation, counted from 0, reads or writes registers of `size` bytes."""
        now = dict.fromkeys(numbers, operation)
        if size > REGISTER:
            self._words.update(dict.fromkeys(now, size // REGISTER))
        self._first.update({number: operation for number in now if number not in self._first})
        self._last.update(now)

    @property
    def most(self) -> int:
        """The most registers of a thread that hold values between two operations."""
        changes = [0] * (max(self._last.values(), default=0) + 1)
        for number, first in self._first.items():
            words = self._words.get(number, 1)
            changes[first] += words
            changes[self._last[number]] -= words
        return max(accumulate(changes))
