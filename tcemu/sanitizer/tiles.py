"""Tiles: which element of a tensor copy's box a reader takes for which element of its own.

A copy lays the lines of its box out in shared memory, and the reader of a tile takes the element (mn, k) from an
address. If both mean the same layout, each dimension of the box runs either along mn or along k, without gaps and
without repetition. That holds for sub-tiles, steps along k, transposed tiles and boxes of more than two dimensions;
where it does not hold, the tile has elements in the wrong places.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.machine.tensor_map import TensorMap

Array = npt.NDArray[Any]
#: Lines that follow each other in every layout: a tile, too, begins at a multiple of as many.
_LINES = 8


class Box:
    """A box in shared memory: pieces of `size` bytes at `addresses`, in the order of the box, innermost first."""

    def __init__(self, tensor_map: TensorMap, coordinates: Sequence[int], addresses: Array, size: int) -> None:
        self.tensor_map, self.coordinates = tensor_map, tuple(int(at) for at in coordinates)
        self.addresses, self.size = addresses, size

    @property
    def line(self) -> int:
        """Bytes of a line."""
        return self.tensor_map.line

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Bytes of a line, and how many lines there are in each further dimension."""
        return self.line, *self.tensor_map.copied[1:]

    def key_from(self, home: Box | None, tile: Array) -> tuple[Any, ...]:
        """Where it begins relative to the first element of a tile, and to another box in their tensor."""
        places = int(self.addresses[0] - tile[0]), self.size, self.counts
        if home is None or home is self:
            return places
        same = home.tensor_map == self.tensor_map
        moved = tuple(a - b for a, b in zip(self.coordinates, home.coordinates, strict=False)) if same else ()
        return *places, same, moved

    @cached_property
    def _numbers(self) -> tuple[int, Array]:
        """The first unit of `size` bytes, and from there on the number of the piece that a unit holds; -1: none."""
        units = self.addresses // self.size
        first = int(units.min())
        numbers = np.full(int(units.max()) - first + 1, -1, np.int64)
        numbers[units - first] = np.arange(len(units), dtype=np.int64)
        return first, numbers

    def positions(self, addresses: Array) -> Array:
        """The byte of the box, in its order, that each address holds; -1 for addresses outside it."""
        first, numbers = self._numbers
        units = addresses // self.size - first
        inside = (units >= 0) & (units < len(numbers))
        positions = numbers[np.where(inside, units, 0)]
        return np.where(inside & (positions >= 0), positions * self.size + addresses % self.size, -1)

    def address(self, position: int) -> int:
        """Where a byte of the box lies."""
        return int(self.addresses[position // self.size]) + position % self.size

    def digits(self, positions: Array) -> list[Array]:
        """The byte of the line, and the number of the line in each further dimension."""
        digits = []
        for count in self.counts[:-1]:
            digits.append(positions % count)
            positions = positions // count
        return [*digits, positions]


class Boxes:
    """The latest box at each address where one began, by its record."""

    def __init__(self) -> None:
        self._boxes: dict[int, Box] = {}
        self._latest: dict[int, int] = {}

    def add(self, record: int, box: Box) -> None:
        """A copy writes a box."""
        first = int(box.addresses[0])
        self._boxes.pop(self._latest.get(first, -1), None)
        self._boxes[record], self._latest[first] = box, record

    def get(self, record: int) -> Box | None:
        """The box that a record stands for, if it is a tensor copy."""
        return self._boxes.get(record)

    def __bool__(self) -> bool:
        return bool(self._boxes)


class Misread(NamedTuple):
    """An element (mn, k) that a reader takes from the wrong place, and the byte of the box where the right one is."""

    record: int
    element: tuple[int, int]
    wanted: int


def misread(addresses: Array, size: int, owners: Array, boxes: Boxes, *, mn_major: bool) -> Misread | None:
    """The first element (mn, k) of a tile that was copied in another layout than it is read in; None if it fits.

    The elements of `size` bytes are read from `addresses` (mn, k), whose latest writers are the records `owners`. Only
    boxes of the tensor from which the first element comes are looked at: a tile may be read past its end.
    """
    main = int(owners[0, 0])
    home = boxes.get(main)
    if home is None:
        return None
    others = {int(record): boxes.get(int(record)) for record in np.unique(owners)}
    parts = [
        _Part(record, box, addresses, owners == record, size)
        for record, box in sorted(others.items(), key=lambda each: each[0] != main)
        if box is not None and box.tensor_map == home.tensor_map
    ]
    for part in parts:
        if part.held.any() and not part.fits():
            return _first(part, addresses, mn_major=mn_major)
    beyond = parts[0].left(parts[1:])
    return None if beyond is None else _first(parts[0], addresses, mn_major=mn_major, beyond=beyond)


class _Part:
    """The elements of a tile that come from one box."""

    def __init__(self, record: int, box: Box, addresses: Array, owned: Array, size: int) -> None:
        self.record, self.box, self.size = record, box, size
        positions = box.positions(addresses)
        self.held, self.outside = owned & (positions >= 0), positions < 0
        self.positions = np.where(self.held, positions, 0)
        self.digits = box.digits(self.positions)
        self.digits[0] = self.digits[0] // size

    def runs(self, along: int) -> list[bool]:
        """Which dimensions of the box change along mn (0) or k (1)."""
        return [bool((self._most(digit, along) > self._least(digit, along)).any()) for digit in self.digits]

    def _least(self, digit: Array, along: int) -> Array:
        return np.asarray(np.where(self.held, digit, 1 << 40).min(axis=along))

    def _most(self, digit: Array, along: int) -> Array:
        return np.asarray(np.where(self.held, digit, -1).max(axis=along))

    def fits(self) -> bool:
        """Whether no dimension runs along both, and each runs in the order of the box, without gaps or repetitions."""
        ways = [self.runs(along) for along in (0, 1)]
        if any(here and down for here, down in zip(*ways, strict=True)):
            return False
        return all(self._in_order(along, way) for along, way in enumerate(ways))

    def _in_order(self, along: int, way: list[bool]) -> bool:
        """Whether the dimensions that run along mn (0) or k (1) count up, the inner ones first."""
        taken = self.held.any(axis=1 - along)
        number, window = np.zeros(int(taken.sum()), np.int64), 1
        for digit, runs in zip(self.digits, way, strict=True):
            if runs:
                steps = self._most(digit, 1 - along)[taken]
                number += (steps - steps.min()) * window
                window *= int(steps.max() - steps.min()) + 1
        return np.array_equal(number, np.arange(len(number), dtype=np.int64))

    def left(self, others: list[_Part]) -> tuple[int, int] | None:
        """The first element that the tile takes from elsewhere, though it is in this box, or should be.

        In one direction a tile may pass from box to box at their ends. In the other direction the two boxes then lie at
        the same place of the tensor, unless the tile takes each of them whole. What does not come from a box of the
        tensor follows the end of this one, or lies in it, where something has overwritten it since.
        """
        amid = bool(int(self.positions[self.held][0]) // self.box.line % _LINES)
        for along in (0, 1):
            fixed = [number for number, runs in enumerate(self.runs(1 - along)) if runs]
            rest = [number for number in range(len(self.digits)) if number not in fixed]
            early = any(int(self.digits[number][self.held].max()) < self._count(number) - 1 for number in rest)
            if not (early or amid):
                continue
            wrong = _edge(self.outside, along) & early
            for other in others:
                moved = any(self.box.coordinates[number] != other.box.coordinates[number] for number in fixed)
                wrong = np.where(_edge(other.held, along), moved, wrong)
            if wrong.any():
                at = int(wrong.argmax())
                return (at, 0) if along == 0 else (0, at)
        return None

    def _count(self, number: int) -> int:
        return self.box.counts[number] // (self.size if number == 0 else 1)


def _edge(where: Array, along: int) -> Array:
    """The first column of a matrix (mn, k), along mn (0), or its first row, along k (1)."""
    return np.asarray(where[:, 0] if along == 0 else where[0])


def _first(part: _Part, addresses: Array, *, mn_major: bool, beyond: tuple[int, int] | None = None) -> Misread:
    """The first element that is not where the lines of the box, from the first element on, have it."""
    rows, columns = addresses.shape
    line, size = part.box.line, part.size
    start = np.flatnonzero(part.held)[0]
    mn0, k0 = divmod(int(start), columns)
    origin = int(part.positions[mn0, k0])
    mn, k = np.arange(rows, dtype=np.int64)[:, None] - mn0, np.arange(columns, dtype=np.int64)[None, :] - k0
    along, across = (mn, k) if mn_major else (k, mn)
    within = (origin % line + along * size < line) & (origin % line + along * size >= 0)
    wanted = origin + along * size + across * line
    within = within & (wanted >= 0) & (wanted < prod(part.box.counts))
    if beyond is not None:
        return Misread(part.record, beyond, int(wanted[beyond]) if within[beyond] else -1)
    wrong = within & (~part.held | (part.positions != wanted))
    if not wrong.any():
        return Misread(part.record, (mn0, k0), -1)
    index = int(np.flatnonzero(wrong)[0])
    return Misread(part.record, divmod(index, columns), int(wanted.flat[index]))
