"""Memory for kernels that read and write whole vectors."""

from __future__ import annotations

from ctypes import addressof, c_char
from threading import local
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.lanes import WIDTH, Lanes

Array = npt.NDArray[Any]


def whole(words: int) -> int:
    """A number of 32-bit words, rounded up to whole vectors."""
    return -(-words // WIDTH) * WIDTH


def aligned(words: int, dtype: Any) -> Array:
    """An uninitialised array of 32-bit words, whose vectors are aligned to the lines of the processor's cache.

    A vector that crosses a line takes two accesses.
    """
    room = np.empty(words + WIDTH, dtype)
    begin = -addressof(c_char.from_buffer(room.data)) % (4 * WIDTH) // 4  # room.ctypes.data takes ten times as long
    return room[begin : begin + words]


class Kept(local):
    """Room by names. Each thread has its own, keeps it from one call to the next, and makes it larger where needed."""

    def __init__(self) -> None:
        self._rooms: dict[str, Array] = {}

    def take(self, name: str, size: int, kind: Any) -> Array:
        """An array without initial content; the next call with this name returns the same memory."""
        room = self._rooms.get(name)
        if room is None or room.size < size:
            room = self._rooms[name] = aligned(size, kind)
        return room[:size]


class Tiles(NamedTuple):
    """Words of the same kind of some tiles: the address of the first one's, and the bytes from each to the next."""

    address: Any
    step: Lanes

    def of(self, tile: Lanes) -> Any:
        """The address of a tile's words."""
        return (Lanes(tile.builder, self.address) + tile * self.step).value


class Parts:
    """Tables of words, one after another; each begins at a whole vector."""

    def __init__(self) -> None:
        self._found: list[Array] = []

    def add(self, table: Array) -> int:
        """Add a table; returns where it begins."""
        begin = sum(each.size for each in self._found)
        self._found.append(np.pad(table.ravel(), (0, whole(table.size) - table.size)))
        return begin

    def together(self) -> Array:
        """All of them as words."""
        found = np.concatenate([*self._found, np.empty(0, np.int64)])
        words = aligned(found.size, np.uint32)
        words[...] = found
        return words
