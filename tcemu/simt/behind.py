"""Where the blocks of a function lead: sets of blocks, a bit for each.

The blocks behind an operation are those where lanes certainly come after it and from where none gets back to it. Lanes
that are in such a block have left the operation out: others that wait for them there wait in vain.

Lanes that skip an operation and exit do not count, and get no hint. A barrier and a
.sync instruction wait for the threads that have not exited, and an exit releases a barrier that waits only for it
(PTX ISA 9.1, 9.7.13.1 barrier and 9.7.12.7 exit). ``if (i < n) { ...; __syncthreads(); ... }`` and
``if (i >= n) return;`` before it are the same PTX, so a hint about the one would be false about the other. What goes
wrong then has rules of its own: a value that shfl reads from a lane that has exited (sanitizer/shuffles.py), and bytes
that the lanes that are gone should have written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from tcemu.simt.steps import Block, Branch, Leave

#: What follows a block, if lanes leave the function there.
OUT = -1
#: Operations that may end the kernel for their lanes.
_LEAVING = ("call", "trap")


class Ways:
    """The ways through the blocks of a function; `tables` are the blocks that indirect branches go to."""

    def __init__(self, blocks: Sequence[Block], tables: Iterable[int]) -> None:
        self._blocks, anywhere = blocks, tuple(tables)
        #: by block, those that may come next
        self.follows = [_follow(number, block, anywhere) for number, block in enumerate(blocks)]
        self._behind: dict[int, int] = {}

    def behind(self, number: int) -> int:
        """The blocks behind one, as bits. Those that do nothing but lead to the end do not count."""
        mask = self._behind.get(number)
        if mask is None:
            after = self._surely[number] & self._working & _leading(self.follows, {OUT})
            mask = self._behind[number] = after & ~_leading(self.follows, {number}) & ~(1 << number)
        return mask

    @cached_property
    def endless(self) -> int:
        """The blocks from which no lane leaves the function, by itself or in a function that it calls, as bits."""
        follows = list(self.follows)
        for number, block in enumerate(self._blocks):
            if block.operation is not None and block.operation.opcode.startswith(_LEAVING):
                follows[number] += (OUT,)
        return (1 << len(follows)) - 1 & ~_leading(follows, {OUT})

    @cached_property
    def _working(self) -> int:
        return sum(1 << number for number, block in enumerate(self._blocks) if block.steps or block.operation)

    @cached_property
    def _surely(self) -> list[int]:
        """The blocks that lanes come to from each block, whichever way they go: its postdominators, and itself."""
        count = len(self.follows)
        surely, before = [(1 << count) - 1] * count, [0]
        while surely != before:
            before = list(surely)
            for number in reversed(range(count)):
                common = -1
                for each in self.follows[number]:
                    common &= 0 if each == OUT else surely[each]
                surely[number] = (common if self.follows[number] else 0) | 1 << number
        return surely


def _follow(number: int, block: Block, anywhere: tuple[int, ...]) -> tuple[int, ...]:
    """The blocks that may come next."""
    ending = block.ending
    if isinstance(ending, Branch):
        return (ending.target,) if ending.guard is None else (ending.target, number + 1)
    if isinstance(ending, Leave):
        return (OUT,) if ending.guard is None else (OUT, number + 1)
    if block.operation is not None and block.operation.opcode.startswith("brx"):
        return anywhere
    return (number + 1,)


def _leading(follows: Sequence[tuple[int, ...]], goals: set[int]) -> int:
    """The blocks from which lanes may come to one of the goals, as bits."""
    leading, before = 0, -1
    while leading != before:
        before = leading
        for number in reversed(range(len(follows))):
            if any(each in goals or (each != OUT and leading >> each & 1) for each in follows[number]):
                leading |= 1 << number
    return leading
