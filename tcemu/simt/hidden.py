"""Memory that no text declares and the driver provides: the heap of malloc, and what cooperative groups keep there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tcemu.assembly import Function, Special, Symbol, Variable
from tcemu.machine import allocation

if TYPE_CHECKING:
    from tcemu.simt.run import Run

#: As large as CUDA makes it (cudaLimitMallocHeapSize).
HEAP = Variable("heap of malloc", "global", "b8", 256, 8 << 20, 8 << 20)
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


class Heap:
    """What malloc and free do during one launch.

    Freed bytes are given out again only when no others are left: nothing in the text orders what two threads do with
    them, so the sanitizer would call it a race.

    >>> from tcemu.simt.hidden import Heap
    >>> heap = Heap(4096)
    >>> heap.take(20), heap.take(1), heap.take(9 << 20)
    (4096, 4128, 0)
    >>> heap.give(4096), heap.give(4096)
    (True, False)
    >>> heap.take((8 << 20) - 48), heap.take(16), heap.take(32)
    (4144, 4096, 0)
    """

    def __init__(self, first: int) -> None:
        self._next, self._end = first, first + HEAP.size
        self._taken: dict[int, int] = {}
        #: what is free below `_next`: the first byte and the one behind the last
        self._gaps: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """The address of so many bytes; 0 if there are none, as malloc has it."""
        size = max(-(-size // _ALIGN), 1) * _ALIGN
        address = self._next
        if size <= self._end - address:
            self._next += size
        else:
            address = self._again(size)
        if address:
            self._taken[address] = size
        return address

    def _again(self, size: int) -> int:
        """The address of bytes that have been freed."""
        for number, (first, end) in enumerate(self._gaps):
            if size <= end - first:
                self._gaps[number] = first + size, end
                return first
        return 0

    def give(self, address: int) -> bool:
        """Free what `take` returned; False if it has not, or if that is free already."""
        size = self._taken.pop(address, 0)
        merged: list[tuple[int, int]] = []
        for first, end in sorted([*self._gaps, (address, address + size)]):
            joins = bool(merged) and merged[-1][1] == first
            merged[-1:] = [(merged[-1][0], end)] if joins else [*merged[-1:], (first, end)]
        self._gaps = [gap for gap in merged if gap[0] < gap[1]]
        return size > 0 or not address
