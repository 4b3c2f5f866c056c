"""A fragment's layout as sums that can be evaluated by hand: row = 8 h + g, lane = 4 g + t, ..."""

from __future__ import annotations

from tcemu.errors import span
from tcemu.layouts.fragment import Fragment

#: The names of the last two axes, for roles with axes other than row and column.
_AXES = {"e": ("row", "chunk"), "scale_a": ("row", "byte"), "scale_b": ("byte", "column")}
#: The name of an axis in front of these, by its digit.
_FRONTS = {"q": "product", "x": "matrix", "f": "selector", "T": "thread-id"}


def axes(fragment: Fragment) -> tuple[str, ...]:
    """The name of each number of a position: ("row", "column"), or ("selector", "row", "chunk")."""
    front = [_FRONTS.get(group[0] if group else "", "batch") for group in fragment.layout.left[:-2]]
    return (*front, *_AXES.get(fragment.role, ("row", "column")))


def formulas(fragment: Fragment) -> dict[str, str]:
    """The sum of digits for each axis, for the lane, the register and, if a register holds several, the element.

    If a digit counts both elements and registers, its quotient ("i div 2") belongs to the register, its remainder to
    the element.
    """
    layout, sizes = fragment.layout, fragment.layout.sizes
    sums = {axis: _sum(group, sizes) for axis, group in zip(axes(fragment), layout.left, strict=True)}
    lanes, slots = layout.right
    sums["lane"] = _sum(lanes, sizes)
    shared, inside = fragment.elements_per_register, list[str]()
    while slots and shared % sizes[slots[-1]] == 0 and shared > 1:
        shared //= sizes[slots[-1]]
        slots, inside = slots[:-1], [slots[-1], *inside]
    register, element = _sum(slots, sizes), _sum(inside, sizes)
    if shared > 1:
        last, size = slots[-1], sizes[slots[-1]]
        register = _sum([*slots[:-1], f"{last} div {shared}"], sizes | {f"{last} div {shared}": size // shared})
        element = _sum([f"{last} mod {shared}", *inside], sizes | {f"{last} mod {shared}": shared})
    return sums | {"register": register} | ({"element": element} if fragment.elements_per_register > 1 else {})


def digits(fragment: Fragment) -> str:
    """The digits with their ranges: "h 0-1, g 0-7"; digits that are always 0 are left out."""
    return ", ".join(f"{digit} {span(0, size - 1, '-')}" for digit, size in fragment.layout.sizes.items() if size > 1)


def _sum(group: list[str], sizes: dict[str, int]) -> str:
    """8 h + g; digits that are always 0 are left out."""
    weight, terms = 1, []
    for digit in reversed(group):
        if sizes[digit] > 1:
            terms.append(digit if weight == 1 else f"{weight} {digit}")
        weight *= sizes[digit]
    return " + ".join(reversed(terms)) or "0"
