"""The two ends of s32: the result of a sum that does not fit, with and without .satfinite."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import OperandError, whole
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Scale
from tcemu.show.words import value

#: The first and the last s32, and how far the picture reaches from either.
LOW, HIGH, SPAN = -(2**31), 2**31 - 1, 20_000
#: The axis: the lower end on the left, then a gap, then the upper end and what is beyond it.
_LEFT, _GAP, _RIGHT, _Y = 294, 364, 904, 112
_LOW_END, _HIGH_END = Scale(LOW, LOW + SPAN, 24, _LEFT), Scale(HIGH - SPAN, HIGH + SPAN, _GAP, _RIGHT)


@explained
def end_of_s32(c: int, product: int, wraps: int, clamps: int) -> Picture:
    """c + product on an axis that shows both ends of s32: exact, wrapped around, and clamped by .satfinite.

    c and the exact sum are within 20,000 of the upper end. Raises OperandError for others, and for results beyond s32.

    >>> picture = tcemu.show.end_of_s32(2**31 - 101, 100, 2**31 - 1, 2**31 - 1)
    >>> picture.title
    '2147483547 + 100 fits into s32'
    """
    c, product = whole(c, "c"), whole(product, "a product")
    exact = c + product
    if min(abs(HIGH - c), abs(exact - HIGH)) > SPAN or max(abs(HIGH - c), abs(exact - HIGH)) > SPAN:
        raise OperandError(f"c and the sum must be within {SPAN:,} of 2147483647; got {value(c)} and {value(exact)}")
    for result in (wraps, clamps):
        if not LOW <= result <= HIGH:
            raise OperandError(f"a result must be an s32; got {value(result)}")
    beyond = exact > HIGH
    body = _axis()
    marks = [("c", c, 0), ("exact sum", exact, 1), ("without .satfinite", wraps, 2), ("with .satfinite", clamps, 3)]
    for name, number, row in marks:
        body += _mark(name, number, row)
    title = f"{value(c)} + {value(product)} {'does not fit' if beyond else 'fits'} into s32"
    says = f"The exact sum is {value(exact)}. Without .satfinite the result is {value(wraps)}, with it {value(clamps)}."
    return picture(title, says, _RIGHT + 190, _Y + 130, body)


def _x(number: int) -> float:
    """The place of a number."""
    return _LOW_END.at(min(number, LOW + SPAN)) if number < 0 else _HIGH_END.at(number)


def _axis() -> list[str]:
    low, high = _x(LOW), _x(HIGH)
    return [
        svg.hatch(high, _Y - 10, _RIGHT - high, 20, "g"),
        svg.line(low, _Y, _LEFT, _Y, "k"),
        svg.line(_GAP, _Y, high, _Y, "k"),
        svg.text((_LEFT + _GAP) / 2, _Y + 5, "· · ·", "b", "middle"),
        svg.line(low, _Y - 12, low, _Y + 12, "k"),
        svg.line(high, _Y - 12, high, _Y + 12, "k"),
        svg.text(low, _Y + 28, value(LOW), "s"),
        svg.text(high, _Y + 28, value(HIGH), "s", "middle"),
        svg.text((high + _RIGHT) / 2, _Y + 28, "outside s32", "s", "middle"),
    ]


def _mark(name: str, number: int, row: int) -> list[str]:
    """One number: inputs are above the axis, results below it."""
    x, above = _x(number), row < 2
    y = _Y - 74 + 32 * row if above else _Y + 62 + 30 * (row - 2)
    start, end = (y + 6, _Y - 12) if above else (_Y + 34 if abs(x - _x(HIGH)) < 40 or x < 120 else _Y + 12, y - 14)
    style = "k" if row != 1 else "ko"
    stem = svg.line(x, start, x, end, style, dash="" if row != 1 else "4 3")
    return [stem, svg.polygon([(x, _Y - 4), (x + 4, _Y), (x, _Y + 4), (x - 4, _Y)], "x"),
            svg.text(x + 6, y, f"{name}: {value(number)}", "clear b")]  # fmt: skip
