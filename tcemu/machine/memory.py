"""The memory of a state space: it checks addresses and holds bytes.

tcemu/instructions/memory.py reads operands out of such bytes; global_memory.py is the memory that all blocks see.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tcemu.backend import backend
from tcemu.errors import AddressError, AddressKind
from tcemu.instructions import Instruction
from tcemu.instructions.facts import Space
from tcemu.machine.registers import WARP
from tcemu.native.access import writers

Array = npt.NDArray[Any]

#: The first byte of an access and the one after its last.
Extent = tuple[int, int]
#: Numbers of units, an extent, and the addresses as bytes: see `Bytes.find`.
Located = tuple[Array, Extent, bytes]
#: Units that numpy can copy as one element, by their size.
_UNITS: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("u2"),
    4: np.dtype("u4"),
    8: np.dtype("u8"),
    16: np.dtype("V16"),
    32: np.dtype("V32"),
}
_SHIFTS = {size: size.bit_length() - 1 for size in _UNITS}
#: The most accesses of a warp that a memory remembers.
_KEPT = 1024
#: No address of a launch is so high; those of the host's memory are.
_HOST = 1 << 43
#: A 1 for each address of a warp, read as one long number.
_ONES = sum(1 << 64 * lane for lane in range(WARP))


class Outside(NamedTuple):
    """Why an access is outside a memory: the kind of the error, and where the address lies."""

    kind: AddressKind
    where: str


class Heap(Protocol):
    """A range of global memory of which kernels may access only what they have allocated."""

    @property
    def first(self) -> int:
        """The first byte of the range."""

    def holds(self, first: int, end: int) -> bool:
        """Whether bytes `first` to `end` - 1 are allocated."""

    def outside(self, at: int) -> Outside:
        """Why address `at`, in the range, is not."""


class Bytes:
    """The memory of one state space: bytes, and the ranges of them that kernels may access."""

    def __init__(
        self,
        space: Space,
        size: int,
        ranges: Sequence[tuple[int, int, str]],
        beside: Callable[[int], str] = lambda _: "",
    ) -> None:
        """`ranges` are (first, end, name), in ascending order, without overlap.

        `beside` says where an address outside lies, from what lies in shared memory.
        """
        self.space, self._beside = space, beside
        self.bytes = np.zeros(-(-size // 32) * 32, np.uint8)
        self.ranges = tuple(ranges)
        #: a read-only view of the bytes
        self.seen = self.bytes.view()
        self.seen.flags.writeable = False
        self._starts = np.array([first for first, _, _ in ranges], np.int64)
        self._ends = np.array([end for _, end, _ in ranges], np.int64)
        self._names = [name for _, _, name in ranges]
        #: the same as plain numbers, for the check of every access
        self._first = [first for first, _, _ in ranges]
        self._end = [end for _, end, _ in ranges]
        #: what `find` has found, by the addresses and the size
        self._located: dict[tuple[bytes, int], Located] = {}
        self._units_of = _fastest()
        self._heap: Heap | None = None
        #: the bytes as units of each size
        self.units = {size: self.bytes.view(unit) for size, unit in _UNITS.items()}

    def keep(self, heap: Heap) -> None:
        """Ask this heap about accesses to its range, which is one of the ranges, from now on.

        Call `changed_heap` when something has been allocated or freed.
        """
        self._heap = heap
        self.changed_heap()

    def changed_heap(self) -> None:
        """Forget what `find` has found."""
        self._located.clear()

    def check(
        self,
        instruction: Instruction,
        addresses: Array,
        size: int,
        align: int,
        lanes: Array | None = None,
        what: str = "",
    ) -> Extent:
        """Return the extent of an access to `size` bytes at each of `addresses` (n,), multiples of `align`.

        Raises AddressError if an address is not, or lies outside the ranges. `align` is a power of two; `lanes`, bool
        (32,), gave the addresses; `what` names the data for the message.
        """
        if not len(addresses):
            return 0, 0
        beside, low, high = _extent(addresses, align)
        if beside:
            first = int((addresses % align != 0).argmax())
            raise AddressError(
                f"{_subject(instruction, lanes, first, what)}: address {int(addresses[first])} in {self.space} memory "
                f"is not a multiple of {align}, as an access of {align} bytes requires (PTX ISA {instruction.section})",
                "alignment",
                self.space,
            )
        extent = low, high + size
        if self.holds(*extent):
            return extent
        wrong = self._outside(addresses, size)
        if wrong.any():
            first = int(wrong.argmax())
            kind, where = self._where(int(addresses[first]), size)
            subject = _subject(instruction, lanes, first, what)
            raise AddressError(f"{subject}: {where} (PTX ISA {instruction.section})", kind, self.space)
        return extent

    def find(self, instruction: Instruction, addresses: Array, size: int, lanes: Array | None = None) -> Located:
        """The numbers (n, 1) in `units[size]` of what addresses (n,) point to, the extent, and the addresses as bytes.

        Raises AddressError as `check` does. It remembers what it has found, because a kernel uses the same addresses
        again and again.
        """
        key = addresses.tobytes(), size
        result = self._located.get(key)
        if result is None:
            if len(self._located) == _KEPT:
                self._located.clear()
            result = self._located[key] = *self._look(instruction, addresses, size, lanes), key[0]
        return result

    def _look(self, instruction: Instruction, addresses: Array, size: int, lanes: Array | None) -> tuple[Array, Extent]:
        units = np.empty((len(addresses), 1), np.int64)
        if len(units):
            beside, low, high = self._units_of(addresses, _SHIFTS[size], units)
            if not beside and self.holds(low, high + size):
                return units, (low, high + size)
        return units, self.check(instruction, addresses, size, size, lanes)

    def holds(self, first: int, end: int) -> bool:
        """Whether bytes `first` to `end` - 1 lie in one of the ranges."""
        place = bisect_right(self._first, first) - 1
        inside = place >= 0 and end <= self._end[place]
        if inside and self._heap is not None and self._first[place] == self._heap.first:
            return self._heap.holds(first, end)
        return inside

    def _outside(self, addresses: Array, size: int) -> Array:
        if self._heap is not None:
            return np.array([not self.holds(each, each + size) for each in addresses.tolist()], bool)
        if len(self._starts) == 1:
            return np.asarray((addresses < self._starts[0]) | (addresses > self._ends[0] - size))
        if not len(self._starts):
            return np.ones(addresses.shape, bool)
        nearest = np.searchsorted(self._starts, addresses, side="right") - 1
        return np.asarray((nearest < 0) | (addresses > self._ends[np.maximum(nearest, 0)] - size))

    def _where(self, at: int, size: int) -> Outside:
        if self._heap is not None and self._first[bisect_right(self._first, at) - 1] == self._heap.first:
            kind, where = self._heap.outside(at)
            return Outside(kind, f"address {at}, {size} bytes, {where}")
        return Outside("bounds", self._beyond(at, size))

    def _beyond(self, at: int, size: int) -> str:
        problem = f"address {at}, {size} bytes, lies outside {self.space} memory"
        if self.space == "shared":
            beside = self._beside(at)
            has = int(self._ends[0]) if len(self._ends) else 0
            gives = "kernel<<<grid, block, bytes>>> gives it, in Python shared="
            none = "" if has else f": if its size is the launch's to say (extern __shared__), {gives}"
            return f"{problem}, which has {has} bytes in this launch" + (f": {beside}" if beside else none)
        if not at:
            return f"{problem}: it is the null pointer"
        if at >= _HOST:
            return f"{problem}: a GPU has no such address: perhaps one of the host, or of a pointer that was never set"
        if not len(self._starts):
            return f"{problem}: the kernel has no array among its arguments"
        before = max(int(np.searchsorted(self._starts, at, side="right")) - 1, 0)
        name, start, end = self._names[before], int(self._starts[before]), int(self._ends[before])
        where = f"{start - at} bytes before" if at < start else f"{at - end} bytes after the end of"
        where = "across the end of" if start <= at < end else where
        return f"{problem}: {where} {name} ({start} to {end})"

    def read(self, numbers: Array, size: int, kind: np.dtype[Any]) -> Array:
        """What lies in the units (n, 1) of `size` bytes that `find` found, as rows (n, count) of a dtype."""
        rows = self.units[size][numbers]
        return rows if rows.dtype is kind else rows.view(kind)

    def write(self, numbers: Array, data: Array) -> None:
        """Write rows (n, count), contiguous, to units (n, 1) that `find` found; of equal units the last one wins."""
        units = self.units[data.itemsize * data.shape[1]]
        units[numbers] = data if data.dtype is units.dtype else data.view(units.dtype)

    def write_lanes(self, numbers: Array, data: Array, lanes: Array) -> None:
        """The same for what the lanes of a mask, bool (32,), store; of equal units that wins which an H200 keeps."""
        if not apart(numbers):
            order = _in_order(data.itemsize * data.shape[1], lanes.tobytes())
            numbers, data = numbers[order], data[order]
        self.write(numbers, data)


@lru_cache(maxsize=1024)
def _in_order(size: int, lanes: bytes) -> Array:
    """The rows (n,) of the lanes of a mask, as bytes, in the order in which they store `size` bytes each."""
    rows = np.cumsum(np.frombuffer(lanes, bool)) - 1
    return np.array([rows[lane] for lane in writers(size) if lanes[lane]], np.intp)


def apart(numbers: Array) -> bool:
    """Whether the units that `find` found are different ones."""
    return _apart(numbers.tobytes())


@lru_cache(maxsize=4096)
def _apart(units: bytes) -> bool:
    """The same for units as bytes: kernels use the same ones again and again."""
    numbers = np.frombuffer(units, np.int64).tolist()
    return len(set(numbers)) == len(numbers)


def extent_of(addresses: Array, size: int) -> Extent:
    """The extent of `size` bytes at each of `addresses` (n,); (0, 0) for none."""
    if not len(addresses):
        return 0, 0
    _, low, high = _extent(addresses, 1)
    return low, high + size


def _fastest() -> Callable[[Array, int, Array], tuple[int, int, int]]:
    """The kernel that does the same as `units`, if numba is loaded anyway; otherwise `units`."""
    if backend(0) == "numba":
        from tcemu.kernels.host import memory

        kernel: Callable[[Array, int, Array], tuple[int, int, int]] = memory.units
        return kernel
    return units


def units(addresses: Array, shift: int, numbers: Array) -> tuple[int, int, int]:
    """Put the numbers of the units of 1 << `shift` bytes at `addresses` (n,) into `numbers` (n, 1).

    Returns a number that is nonzero if any address is not a multiple of that, the least address, and the greatest.
    There is at least one address.
    """
    np.right_shift(addresses, shift, out=numbers[:, 0])
    return _extent(addresses, 1 << shift)


def compile_all() -> None:
    """Compile the kernel for every kind of addresses: some of the machine's may not be written to."""
    fixed, numbers = np.zeros(1, np.int64), np.empty((1, 1), np.int64)
    fixed.setflags(write=False)
    for addresses in (fixed, fixed.copy()):
        _fastest()(addresses, 0, numbers)


def _extent(addresses: Array, align: int) -> tuple[int, int, int]:
    """Nonzero if an address is not a multiple of `align`; the least and greatest. Python's ints are fastest here."""
    if len(addresses) <= WARP:
        numbers = addresses.tolist()
        bits = int.from_bytes(addresses.tobytes(), "little")
        return bits & (align - 1) * _ONES, min(numbers), max(numbers)
    together, low, high = (each.reduce(addresses) for each in (np.bitwise_or, np.minimum, np.maximum))
    return int(together) & align - 1, int(low), int(high)


def _subject(instruction: Instruction, lanes: Array | None, number: int, what: str) -> str:
    who = f"lane {int(np.flatnonzero(lanes)[number])}" if lanes is not None else what
    return f"{instruction}: {who}" if who else str(instruction)
