"""A fragment layout is one line that says which lane holds which element of a matrix, and in which slot.

    "(h g) (c t p) -> (g t) (c h p)"     h=2 g=8 c=2 t=4 p=2

Row and column are on the left, lane and register slot on the right; each is a number written in named digits, most
significant first, and every digit has a size. Here row = 8 h + g, column = 8 c + 2 t + p, lane = 4 g + t and
slot = 4 c + 2 h + p. A digit that is only on the right is a broadcast: the element is held once for each value of the
digit. A third group in front of the row is a batch of separate matrices (the quad pairs of m8n8k4).
"""

from __future__ import annotations

import operator
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import LayoutError, listing, shown, span

#: The most places (lanes times slots) that a layout may describe; all of them are tabulated.
LARGEST = 1 << 20


class Layout:
    """A pattern and the sizes of its digits. Layouts with the same pattern and sizes are equal.

    `Layout("(h g) (t p) -> (g t) (h p)", h=2, g=8, t=4, p=2)` is the accumulator of every m16n8 mma.sync.
    Raises LayoutError if the pattern cannot be parsed or the sizes do not match it.

    >>> accumulator = tcemu.layouts.Layout("(h g) (t p) -> (g t) (h p)", h=2, g=8, t=4, p=2)
    >>> accumulator.shape, accumulator.lanes, accumulator.slots
    ((16, 8), 32, 4)
    >>> accumulator.position(5, 2), accumulator.holders(9, 2)  # (row, column) of lane 5, slot 2; and back
    ((9, 2), [(5, 2)])
    """

    def __init__(self, pattern: str, /, **sizes: int) -> None:
        left, right = _read(pattern)
        self._check(pattern, left, right, sizes)
        self.pattern = " ".join(_write(group) for group in left) + " -> " + " ".join(_write(group) for group in right)
        self.sizes = {digit: sizes[digit] for group in left + right for digit in group}
        #: The digits of each group of both sides, most significant first.
        self.left, self.right = left, right

    @staticmethod
    def _check(pattern: str, left: list[list[str]], right: list[list[str]], sizes: dict[str, int]) -> None:
        where = f"in layout {pattern!r}"
        if len(left) not in (2, 3) or len(right) != 2:
            raise LayoutError(
                f"{where}: the left side needs a row and a column (after a batch, if any), the right side a lane and "
                "a slot"
            )
        for side, groups in (("left", left), ("right", right)):
            digits = [digit for group in groups for digit in group]
            twice = sorted({digit for digit in digits if digits.count(digit) > 1})
            if twice:
                raise LayoutError(f"{where}: {listing(twice, 'and')} occurs twice on the {side}")
        on_left, on_right = ({digit for group in side for digit in group} for side in (left, right))
        if on_left - on_right:
            raise LayoutError(
                f"{where}: digit {listing(sorted(on_left - on_right), 'and')} is only on the left, so no lane or slot "
                "would hold it; put it on the right too"
            )
        if set(sizes) != on_left | on_right:
            odd = sorted(set(sizes) ^ (on_left | on_right))
            raise LayoutError(f"{where}: every digit needs a size, and only digits have one; see {listing(odd, 'and')}")
        small = [digit for digit, size in sizes.items() if not (isinstance(size, int) and size >= 1)]
        if small:
            raise LayoutError(f"{where}: the size of {listing(small, 'and')} must be a whole number of at least 1")
        if prod(sizes.values()) > LARGEST:
            raise LayoutError(
                f"{where}: {prod(sizes.values())} places; a layout may have {LARGEST}, more than any fragment needs"
            )

    # ------------------------------------------------------------------------------------------ sizes

    def _size(self, group: list[str]) -> int:
        size = 1
        for digit in group:
            size *= self.sizes[digit]
        return size

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns), or (batch, rows, columns)."""
        return tuple(self._size(group) for group in self.left)

    @cached_property
    def lanes(self) -> int:
        """Number of lanes that hold the matrix."""
        return self._size(self.right[0])

    @cached_property
    def slots(self) -> int:
        """Number of elements that each lane holds."""
        return self._size(self.right[1])

    @cached_property
    def copies(self) -> int:
        """How many times each element is held: once in a bijection, more often in a broadcast."""
        on_left = {digit for group in self.left for digit in group}
        return self._size([digit for group in self.right for digit in group if digit not in on_left])

    # ------------------------------------------------------------------------------------------ both directions

    @cached_property
    def gather(self) -> npt.NDArray[np.intp]:
        """An array (lanes, slots): the flat index, in C order, of the element that each lane holds in each slot."""
        order = [digit for group in self.right for digit in group]
        grid = dict(zip(order, np.indices([self.sizes[digit] for digit in order]), strict=True))
        flat: Any = 0
        for group, extent in zip(self.left, self.shape, strict=True):
            number: Any = 0
            for digit in group:
                number = number * self.sizes[digit] + grid[digit]
            flat = flat * extent + number
        table = np.broadcast_to(np.asarray(flat), [self.sizes[digit] for digit in order])
        table = np.ascontiguousarray(table.reshape(self.lanes, self.slots), dtype=np.intp)
        table.flags.writeable = False
        return table

    @cached_property
    def scatter(self) -> npt.NDArray[np.intp]:
        """An array of the matrix's shape: lane * slots + slot of the first holder of each element."""
        first = np.full(int(np.prod(self.shape)), -1, dtype=np.intp)
        flat = self.gather.ravel()
        first[flat[::-1]] = np.arange(flat.size - 1, -1, -1, dtype=np.int64)
        first = first.reshape(self.shape)
        first.flags.writeable = False
        return first

    @cached_property
    def _holders(self) -> npt.NDArray[np.intp]:
        """An array (elements, copies): lane * slots + slot of every holder of each element, in ascending order."""
        return np.argsort(self.gather, axis=None, kind="stable").reshape(-1, self.copies)

    def position(self, lane: int, slot: int) -> tuple[int, ...]:
        """The (row, column), or (batch, row, column), that `lane` holds in `slot`. Raises LayoutError."""
        lane, slot = whole((lane, slot))
        if not (0 <= lane < self.lanes and 0 <= slot < self.slots):
            raise LayoutError(
                f"lane {lane}, slot {slot}: {self} has lanes {span(0, self.lanes - 1)} and slots "
                f"{span(0, self.slots - 1)}"
            )
        return tuple(int(index) for index in np.unravel_index(self.gather[lane, slot], self.shape))

    def holders(self, *position: int) -> list[tuple[int, int]]:
        """Every (lane, slot) that holds the element at `position`, lowest lane first. Raises LayoutError."""
        position = whole(position)
        inside = len(position) == len(self.shape) and all(0 <= p < s for p, s in zip(position, self.shape, strict=True))
        if not inside:
            raise LayoutError(f"position {position}: {self} describes a matrix of shape {self.shape}, counted from 0")
        places = self._holders[int(np.ravel_multi_index(position, self.shape))]
        return [divmod(place, self.slots) for place in places.tolist()]

    # ------------------------------------------------------------------------------------------ as a value

    def cute(self, *, transposed: bool = False) -> str:
        """CuTe's line for the layout: ((lane digits), (slot digits)):((strides), (strides)), least significant first.

        Strides count elements of the matrix in column-major order; of the transposed matrix with `transposed`.
        Raises LayoutError for a batch of matrices.

        >>> tcemu.layouts.Layout("(h g) (t p) -> (g t) (h p)", h=2, g=8, t=4, p=2).cute()
        '((4,8),(2,2)):((32,1),(16,8))'
        """
        if len(self.shape) != 2:
            raise LayoutError(f"{self}: CuTe's line describes one matrix, but this is a batch of {self.shape[0]}")
        weight = dict.fromkeys(self.sizes, 0)  # a digit that is only on the right is a broadcast, which does not move
        for group, step in zip(self.left, (self.shape[1], 1) if transposed else (1, self.shape[0]), strict=True):
            for digit in reversed(group):
                weight[digit], step = step, step * self.sizes[digit]  # noqa: PLW2901 - a running product
        kept = [[digit for digit in reversed(group) if self.sizes[digit] > 1] for group in self.right]
        shapes, strides = (
            ",".join(_nested([values[digit] for digit in group], alone) for group in kept)
            for values, alone in ((self.sizes, 1), (weight, 0))
        )
        return f"({shapes}):({strides})"

    def __str__(self) -> str:
        return self.pattern + "  " + " ".join(f"{digit}={size}" for digit, size in self.sizes.items())

    def __repr__(self) -> str:
        return f"Layout({self.pattern!r}, {', '.join(f'{digit}={size}' for digit, size in self.sizes.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self.pattern, self.sizes) == (other.pattern, other.sizes)

    def __hash__(self) -> int:
        return hash((self.pattern, tuple(self.sizes.items())))


def whole(numbers: tuple[Any, ...]) -> tuple[int, ...]:
    """Lanes, slots, rows and columns as ints. Raises LayoutError if one is not a whole number."""
    try:
        return tuple(operator.index(number) for number in numbers)
    except TypeError:
        kinds = listing([type(number).__name__ for number in numbers], "and")
        raise LayoutError(f"lanes, slots, rows and columns must be whole numbers from 0; got {kinds}") from None


def _read(pattern: str) -> tuple[list[list[str]], list[list[str]]]:
    """The two sides of a pattern, each a list of groups of digit names."""
    if not isinstance(pattern, str):
        raise LayoutError(f"a layout must be a string, e.g. '(h g) (t p) -> (g t) (h p)'; got {shown(pattern)}")
    sides = pattern.split("->")
    if len(sides) != 2:
        raise LayoutError(
            f"layout {pattern!r} needs exactly one '->', between the matrix (left) and the registers (right)"
        )
    return _groups(pattern, sides[0]), _groups(pattern, sides[1])


def _groups(pattern: str, side: str) -> list[list[str]]:
    groups: list[list[str]] = []
    inside = False
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(" and not inside:
            groups.append([])
        elif word in "()" and (word == "(") == inside:
            raise LayoutError(f"layout {pattern!r}: the parentheses do not match")
        elif word not in "()" and word != "1" and not word.isidentifier():
            raise LayoutError(
                f"layout {pattern!r}: {word!r} is not the name of a digit; use letters, or 1 for an empty group"
            )
        elif word not in "()":
            digits = [] if word == "1" else [word]
            groups[-1].extend(digits) if inside else groups.append(digits)
        inside = word == "(" or (inside and word != ")")
    if inside:
        raise LayoutError(f"layout {pattern!r}: the parentheses do not match")
    return groups


def _nested(numbers: list[int], alone: int) -> str:
    """One mode of a CuTe layout; `alone` is what stands for a mode without digits."""
    return f"({','.join(map(str, numbers))})" if len(numbers) > 1 else str(*numbers or [alone])


def _write(group: list[str]) -> str:
    return group[0] if len(group) == 1 else f"({' '.join(group)})" if group else "1"
