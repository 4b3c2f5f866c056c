"""Questions about a fragment: which lane holds this element, what does this lane hold, and the whole table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tcemu.errors import LayoutError, span
from tcemu.layouts.formulas import axes
from tcemu.layouts.fragment import Fragment


@dataclass(frozen=True)
class Holding:
    """One element in one place; an element that is held several times has several of these."""

    #: (row, column), after the batch if the layout has one.
    position: tuple[int, ...]
    lane: int
    register: int
    #: The element's number in the register; 0 is in the lowest bits.
    element: int
    #: The element's bits in the register, from `high` down to `low`.
    high: int
    low: int


def holding(fragment: Fragment, lane: int, register: int, element: int) -> Holding:
    """What one place holds. Raises LayoutError if the fragment has no such place."""
    holder = fragment.container
    low = element * holder.width + holder.shift
    high = low + holder.form.bits + holder.form.padding - 1
    return Holding(fragment.position(lane, register, element), lane, register, element, high, low)


def who_holds(fragment: Fragment, position: tuple[int, ...]) -> list[Holding]:
    """Every place of the element at `position`, lowest lane first.

    What comes before row and column (the matrix, the selector) may be left out: that asks for all of them.
    Raises LayoutError, which gives the valid ranges, for a position outside the matrix.
    """
    shape, names = fragment.shape, axes(fragment)
    fronts = [range(size) for size in shape[: len(shape) - len(position)]] if len(position) == 2 else []
    accepted = len(position) + len(fronts) == len(shape)
    if not accepted or not all(0 <= p < s for p, s in zip(position, shape[len(fronts) :], strict=True)):
        valid = ", ".join(f"{name} {span(0, size - 1)}" for name, size in zip(names, shape, strict=True))
        raise LayoutError(f"position {_written(position)} is not in {fragment.role}; valid: {valid}")
    places = [(*front, *position) for front in product(*fronts)]
    return [holding(fragment, *place) for where in places for place in fragment.holders(*where)]


def held_by(fragment: Fragment, lane: int | None = None, register: int | None = None) -> list[Holding]:
    """What `lane` holds in `register`; without one of them, what every lane or every register holds.

    Raises LayoutError, which gives the valid range, for a lane or register that does not exist.
    """
    limits = (("lane", lane, fragment.lanes), ("register", register, fragment.registers))
    for what, chosen, limit in limits:
        if chosen is not None and not 0 <= chosen < limit:
            has = f"{what}s 0 to {limit - 1}" if limit > 1 else f"{what} 0 only"
            raise LayoutError(f"{what} {chosen}: fragment {fragment.role} has {has}")
    lanes, registers = (range(limit) if chosen is None else [chosen] for _, chosen, limit in limits)
    elements = range(fragment.elements_per_register)
    return [holding(fragment, *place) for place in product(lanes, registers, elements)]


def _written(position: tuple[int, ...]) -> str:
    return ",".join(str(number) for number in position)
