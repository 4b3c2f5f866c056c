"""Many loads and stores of a warp in one event: what a front end's native code has done since the last event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.machine.addresses import BLOCK, SHARED
from tcemu.machine.events.blocks import Sourced
from tcemu.machine.events.memory import Accessed
from tcemu.machine.events.origins import FULL, By, Event, Site

if TYPE_CHECKING:
    from tcemu.instructions import Instruction

__all__ = ["AccessRow", "AccessTable", "Accesses"]

Array = npt.NDArray[Any]
_LANES = 32
#: Words of 64 bits in a record before the data of a store: one for the instruction and the lanes, and the addresses.
HEAD = 1 + _LANES
_ALL = np.arange(_LANES, dtype=np.int64)
_ALL.flags.writeable = False


class AccessRow(NamedTuple):
    """A weak load or store of a program: its line, its opcode, and what a lane moves.

    `size` are the bytes of a lane in all, of `vector` elements. In the state space "generic", addresses are generic
    ones in global memory, in the block's own shared memory, or elsewhere: the last do not count.
    """

    site: Site
    instruction: Instruction
    space: Literal["shared", "global", "generic"]
    writes: bool
    size: int
    vector: int = 1

    @property
    def words(self) -> int:
        """Words of 64 bits that a record has."""
        return HEAD + (2 * _LANES * self.size // 8 if self.writes else 0)


class AccessTable:
    """The loads and stores of one program, by the number of the instruction: made once, and shared by all its warps.

    Observers may keep with a table, as in `kept`, what they have computed from it. `sourced` makes the event Sourced of
    an access, if the front end knows what it reads.
    """

    def __init__(self, rows: Mapping[int, AccessRow], sourced: Callable[[By, int], Sourced] | None = None) -> None:
        self.rows, self.sourced = dict(rows), sourced
        #: by the number of the instruction, the words of a record; 0 for instructions without one
        self.words = np.zeros(max(self.rows, default=-1) + 1, np.int64)
        for number, row in self.rows.items():
            self.words[number] = row.words
        self.kept: dict[object, Any] = {}
        self._lanes: dict[int, Array] = {FULL: _ALL}

    def lanes(self, mask: int) -> Array:
        """The lanes of a mask, in order, read-only: the same array for the same mask."""
        lanes = self._lanes.get(mask)
        if lanes is None:
            lanes = self._lanes[mask] = np.array([lane for lane in range(_LANES) if mask >> lane & 1], np.int64)
            lanes.flags.writeable = False
        return lanes


@dataclass(eq=False)
class Accesses(Event):
    """Weak loads and stores of one warp, in its order, with no other event of any warp between them.

    `log` is uint8 (n,), at an address that is a multiple of 8. It holds one record after the other:

        bytes 0 to 3        u32       number of the instruction, a key of `table.rows`
        bytes 4 to 7        u32       mask of the lanes that access
        bytes 8 to 263      u64[32]   address of each lane, in its state space; those of other lanes mean nothing
        bytes 264 onwards             of a store, what it writes: for each element of the vector in turn, 32 lanes of
                                      `size / vector` bytes each, which is how registers hold it; then, in the same
                                      form, what was there before

    so that a record has 33 words of 64 bits, or 33 + 8 `size` if it is of a store. All accesses have been made, and lie
    inside the memory, aligned: an access that does not is left to the machine. `slot` is the block's in the
    window of generic addresses in shared memory.

    An observer gets such an event if it has a method `takes` that returns True for it. Every other observer gets what
    `singles` yields, one event for each access, as if the machine had executed it.
    """

    block: int
    warp: int
    table: AccessTable
    log: npt.NDArray[np.uint8]
    slot: int = 0

    def records(self) -> Iterator[tuple[int, int, int]]:
        """Of each record: the number of the instruction, the mask of the lanes, and the word where it starts."""
        heads, words, at = self.log.view(np.uint32), self.table.words, 0
        while 2 * at < len(heads):
            number = heads.item(2 * at)
            yield number, heads.item(2 * at + 1), at
            at += words.item(number)

    def by(self, number: int, mask: int) -> By:
        """The origin of an access."""
        return By(self.block, self.warp, mask, self.table.rows[number].site)

    def single(self, number: int, mask: int, at: int, by: By) -> list[Accessed]:
        """The events of one record: one for each state space that its lanes access."""
        row = self.table.rows[number]
        if not mask:
            return []
        lanes = self.table.lanes(mask)
        first = 8 * (at + 1)
        addresses = self.log[first : first + 8 * _LANES].view(np.int64)
        addresses = addresses.copy() if mask == FULL else addresses[lanes]  # the log is used again
        values = tuple(each[lanes] for each in self._values(row, at))
        if row.space != "generic":
            return [self._event(by, row, row.space, addresses, lanes, values)]
        own, events = SHARED + self.slot * BLOCK, []
        for space, start, end in (("global", 0, SHARED), ("shared", own, own + BLOCK)):
            here = (addresses >= start) & (addresses < end)
            if here.all():
                return [self._event(by, row, space, addresses - start, lanes, values)]
            if here.any():
                part = tuple(each[here] for each in values)
                events.append(self._event(by, row, space, addresses[here] - start, lanes[here], part))
        return events

    @staticmethod
    def _event(
        by: By, row: AccessRow, space: Any, addresses: Array, lanes: Array, values: tuple[Array, ...]
    ) -> Accessed:
        extent = int(addresses.min()), int(addresses.max()) + row.size
        event = Accessed(by, row.instruction, space, row.writes, addresses, row.size, extent, lanes)
        if values:
            event.data, event.before = values
        return event

    def _values(self, row: AccessRow, at: int) -> list[Array]:
        """Of a store, what it writes and what was there before, uint8 (32, size)."""
        if not row.writes:
            return []
        first, count = 8 * (at + HEAD), _LANES * row.size
        elements = self.log[first : first + 2 * count].reshape(2, row.vector, _LANES, -1)
        return [each.transpose(1, 0, 2).reshape(_LANES, row.size) for each in elements]

    def singles(self) -> Iterator[Accessed]:
        """The same accesses one by one."""
        for number, mask, at in self.records():
            yield from self.single(number, mask, at, self.by(number, mask))
