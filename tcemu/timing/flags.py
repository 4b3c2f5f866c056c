"""Flags and counters in global memory, through which blocks wait for each other: who wrote what a warp reads.

A word counts as one if strong operations access it (ld.acquire, ld.volatile, st.release, atom, red), one address at a
time. A store replaces what was there; atomic operations change it together. A warp that reads the word has waited for
all of them, but for those of later rounds: in its first wait for a word, a warp cannot wait for what another block
wrote only after a wait of its own. An atomic operation waits for others only if it is a compare-and-swap or an
exchange, with which kernels take a lock; additions are done in whatever order they come.

The machine may run a block that counts far ahead of one that waits for its first count. Then the latter waits for more
here than on a GPU, because the machine cannot tell which count it waited for.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

from tcemu.machine import events
from tcemu.timing.operations import Kind, LaunchTrace, Op, Token

#: Operations that may lie between two loads of a polling loop.
_IDLE: tuple[Kind, ...] = ("plain", "arithmetic")
#: The most operations in such a loop.
_MOST = 16
#: Atomic operations that wait for the value that they find.
_TAKES = {"cas", "exch"}


@dataclass
class _Word:
    """What is known about one address, by round."""

    #: The operations that have written in a round since it was last read.
    writers: dict[int, list[Op]] = field(default_factory=dict)
    #: What a read of a round, or of a later one, has waited for.
    tokens: dict[int, Token] = field(default_factory=dict)
    #: By block: the waits that each of its warps has begun.
    waits: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))

    def before(self, most: int) -> Token | None:
        """The latest token of round `most` or, if it has none, of the one before."""
        return next((self.tokens[each] for each in range(most, -1, -1) if each in self.tokens), None)


class Flags:
    """The words of one launch."""

    def __init__(self, launch: LaunchTrace) -> None:
        self._launch = launch
        self._numbers = count()
        self._words: dict[int, _Word] = defaultdict(_Word)

    def accessed(self, event: events.Accessed, ops: list[Op]) -> None:
        """A strong access by the latest of a warp's operations."""
        op, address = ops[-1], int(event.addresses[0])
        if (event.addresses != address).any():
            return
        op.flag, word, atomic = address, self._words[address], event.instruction.family in ("atom", "red")
        waits = word.waits[event.by.block]
        if event.writes and atomic:
            word.writers.setdefault(max(waits.values(), default=0), []).append(op)
        elif event.writes:
            word.writers, word.tokens = {0: [op]}, {}
        elif not atomic or _TAKES & set(event.instruction.opcode.split(".")):
            waits[event.by.warp] += not _polls_again(ops)
            self._await(op, address, waits[event.by.warp] - 1)

    def _await(self, op: Op, address: int, most: int) -> None:
        """Wait for everything that has been written in rounds up to `most`."""
        word = self._words[address]
        for each in sorted(number for number in word.writers if number <= most):
            writers, before = word.writers.pop(each), word.before(each)
            token = word.tokens[each] = Token("flag", address, next(self._numbers))
            self._launch.expected[token] = len(writers)
            for writer in writers:
                writer.gives.append(token)
            if before is not None:
                self._launch.expected[token] += 1
                self._launch.follows[before].append(token)
        store = word.before(most)
        if store is not None:
            op.waits.append(store)


def _polls_again(ops: list[Op]) -> bool:
    """Whether the latest operation repeats a load in a loop that polls.

    Only the last load counts then: the number of attempts on the machine says nothing about a GPU.
    """
    last = ops[-1]
    between: list[Op] = []
    for op in reversed(ops[-_MOST - 1 : -1]):
        if op.flag == last.flag and op.site == last.site:
            for each in (op, *between):
                each.kind, each.waits = "void", []
            return True
        if op.kind not in _IDLE or op.gives or op.waits:
            return False
        between.append(op)
    return False
