"""The questions people ask of a fragment: who holds this element, what does this lane hold, the whole table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tcemu.errors import LayoutError
from tcemu.layouts.formulas import axes
from tcemu.layouts.fragment import Fragment


@dataclass(frozen=True)
class Holding:
    """One element in one place; an element that is held several times has as many of these."""

    #: (row, column), with what the layout has in front of them.
    position: tuple[int, ...]
    lane: int
    register: int
    #: The element's number in the register, 0 in the lowest bits.
    element: int
    #: Its bits in the register, from `high` down to `low`.
    high: int
    low: int


def holding(fragment: Fragment, lane: int, register: int, element: int) -> Holding:
    """What stands in one place. Raises LayoutError where the fragment has no such place."""
    holder = fragment.container
    low = element * holder.width + holder.shift
    high = low + holder.form.bits + holder.form.padding - 1
    return Holding(fragment.position(lane, register, element), lane, register, element, high, low)


def who_holds(fragment: Fragment, position: tuple[int, ...]) -> list[Holding]:
    """Every place of the element at `position`, lowest lane first.

    What stands in front of row and column (the matrix, the selector) may be left out: then it is every one of them.
    Raises LayoutError with the valid ranges for another position.
    """
    shape, names = fragment.shape, axes(fragment)
    fronts = [range(size) for size in shape[: len(shape) - len(position)]] if len(position) == 2 else []
    accepted = len(position) + len(fronts) == len(shape)
    if not accepted or not all(0 <= p < s for p, s in zip(position, shape[len(fronts) :], strict=True)):
        told = ", ".join(f"{name} 0 to {size - 1}" for name, size in zip(names, shape, strict=True))
        raise LayoutError(f"{_written(position)} is no place in {fragment.role}, which has {told}")
    places = [(*front, *position) for front in product(*fronts)]
    return [holding(fragment, *place) for where in places for place in fragment.holders(*where)]


def held_by(fragment: Fragment, lane: int | None = None, register: int | None = None) -> list[Holding]:
    """What `lane` holds in `register`; of every lane, or in every register, where one is not given.

    Raises LayoutError with the valid range for a lane or register that is not there.
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
