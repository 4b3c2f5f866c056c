"""Memory that no text declares and the driver provides: the heap of malloc, and what cooperative groups keep there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcemu.assembly import Function, Special, Symbol, Variable
from tcemu.machine import allocation
from tcemu.machine.memory import Outside

if TYPE_CHECKING:
    from tcemu.simt.run import Run

#: As large as CUDA makes it (cudaLimitMallocHeapSize).
HEAP = Variable(allocation.HEAP, "global", "b8", 256, 8 << 20, 8 << 20)
#: The barrier of cooperative_groups::this_grid(): a size that nobody reads, and a counter.
WORKSPACE = Variable("workspace of this_grid", "global", "b32", 8, 8, 2)
#: What groups of several warps meet in; their header asserts that it needs no more.
RESERVED = Variable(allocation.RESERVED, "shared", "b8", 16, 288, 288)
#: By what names it in a text: functions, and special registers.
_NAMED = {
    "malloc": HEAP,
    "free": HEAP,
    "%envreg1": WORKSPACE,
    "%envreg2": WORKSPACE,
    **{f"%reserved_smem_offset_{each}": RESERVED for each in ("begin", "end", "cap", "1")},
}
#: What malloc returns is a multiple of this.
_ALIGN = 16


def hidden(functions: Iterable[Function]) -> list[Variable]:
    """What functions need of it."""
    variables = {
        _NAMED[name].name: _NAMED[name] for function in functions for name in _names(function) if name in _NAMED
    }
    return list(variables.values())


def _names(function: Function) -> Iterator[str]:
    for instruction in function.body:
        for each in instruction.operands:
            if isinstance(each, Special):
                yield str(each)
            elif isinstance(each, Symbol):
                yield each.name


def special(run: Run, name: str) -> int | None:
    """The value of a special register that says where such memory is; None of others."""
    variable = _NAMED.get(f"%{name}")
    if variable is WORKSPACE:
        address = run.pointers[WORKSPACE.name]
        return address >> 32 if name == "envreg1" else address & 0xFFFFFFFF
    if variable is RESERVED:
        first = run.program.layout.shared[RESERVED.name]
        return {"end": first + RESERVED.size, "cap": RESERVED.size}.get(name.rpartition("_")[2], first)
    return None


class _Piece(NamedTuple):
    """What malloc has returned: its size, the line of the malloc, and that of the free, if there was one."""

    size: int
    taken: str
    freed: str = ""


class Heap:
    """What malloc and free do during one launch.

    Freed bytes are given out again only when no others are left: nothing in the text orders what two threads do with
    them, so the sanitizer would call it a race. Behind what malloc returns are some bytes that nobody gets, so that an
    access past its end does not reach another piece.

    >>> from tcemu.simt.hidden import Heap
    >>> heap = Heap(4096)
    >>> heap.take(20), heap.take(1), heap.take(9 << 20)
    (4096, 4144, 0)
    >>> heap.holds(4096, 4116), heap.holds(4096, 4117)
    (True, False)
    >>> heap.give(4096), heap.give(4096), heap.holds(4096, 4116)
    (True, False, False)
    >>> heap.take((8 << 20) - 96), heap.take(20), heap.take(20)
    (4176, 4096, 0)
    """

    def __init__(self, first: int) -> None:
        self.first, self._next, self._end = first, first, first + HEAP.size
        #: of each byte, whether it has been allocated
        self._live = np.zeros(HEAP.size, bool)
        self._taken: dict[int, _Piece] = {}
        self._freed: dict[int, _Piece] = {}
        #: what is free below `_next`: the first byte and the one behind the last
        self._gaps: list[tuple[int, int]] = []

    def take(self, size: int, at: str = "") -> int:
        """The address of so many bytes; 0 if there are none, as malloc has it. `at` is the line of the malloc."""
        whole, address = _whole(size), self._next
        if whole <= self._end - address:
            self._next += whole
        else:
            address = self._again(whole)
        if address:
            self._taken[address] = _Piece(size, at)
            self._freed.pop(address, None)
            self._set(address, size, live=True)
        return address

    @property
    def fresh(self) -> int:
        """The first byte that has never been given out, nor any behind it."""
        return self._next

    def _set(self, address: int, size: int, *, live: bool) -> None:
        start = address - self.first
        self._live[start : start + size] = live

    def _again(self, size: int) -> int:
        """The address of bytes that have been freed."""
        for number, (first, end) in enumerate(self._gaps):
            if size <= end - first:
                self._gaps[number] = first + size, end
                return first
        return 0

    def holds(self, first: int, end: int) -> bool:
        """Whether bytes `first` to `end` - 1 are allocated."""
        return bool(self._live[first - self.first : end - self.first].all())

    def outside(self, at: int) -> Outside:
        """Why address `at` is not."""
        for start, (size, taken, freed) in self._freed.items():
            if start <= at < start + size:
                return Outside("freed", f"lies in the {size} bytes that malloc returned at {taken}; freed at {freed}")
        before = max((start for start in self._taken if start <= at), default=0)
        if not before:
            lasts = "memory from malloc and new lasts for one launch"
            return Outside("bounds", f"lies in the heap, where this launch has allocated nothing: {lasts}")
        size, taken, _ = self._taken[before]
        far = at - before - size
        where = f"{far} bytes after the end" if far >= 0 else "across the end"
        return Outside("bounds", f"lies {where} of the {size} bytes that malloc returned at {taken}")

    def size(self, address: int) -> int:
        """The bytes that `take` returned at an address; 0 if it has not, or if they are free."""
        piece = self._taken.get(address)
        return 0 if piece is None else piece.size

    def give(self, address: int, at: str = "") -> bool:
        """Free what `take` returned; False if it has not, or if that is free already. `at` is the line of the free."""
        piece = self._taken.pop(address, None)
        size = 0
        if piece is not None:
            size = _whole(piece.size)
            self._freed[address] = piece._replace(freed=at)
            self._set(address, piece.size, live=False)
        merged: list[tuple[int, int]] = []
        for first, end in sorted([*self._gaps, (address, address + size)]):
            joins = bool(merged) and merged[-1][1] == first
            merged[-1:] = [(merged[-1][0], end)] if joins else [*merged[-1:], (first, end)]
        self._gaps = [gap for gap in merged if gap[0] < gap[1]]
        return size > 0 or not address


def _whole(size: int) -> int:
    """The bytes that malloc sets apart for so many."""
    return (max(-(-size // _ALIGN), 1) + 1) * _ALIGN
