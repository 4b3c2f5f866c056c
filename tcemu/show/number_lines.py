"""Numbers on an axis: all those of several formats, one between its neighbours, rounded, and the ends of s32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal, get_args

import numpy as np

from tcemu.arguments import explained
from tcemu.errors import FormatError, OperandError, briefly, counted, listing, whole
from tcemu.formats import Format
from tcemu.show import svg
from tcemu.show.inputs import format_of, formats_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Scale
from tcemu.show.svg import Drawing
from tcemu.show.words import hexadecimal, neat, power, value

_LEFT, _TOP, _ROW = 116, 24, 52
_LENGTH = 680

Spacing = Literal["logarithmic", "linear"]


@dataclass(frozen=True)
class _Axis:
    """The position of values: `low` and `high` are exponents of two on a logarithmic axis, values on a linear one."""

    kind: Spacing
    low: float
    high: float

    def x(self, number: float) -> float:
        """The pixel of a value."""
        along = math.log2(number) if self.kind == "logarithmic" else number
        return Scale(self.low, self.high, _LEFT, _LEFT + _LENGTH).at(along)

    def draw(self, bottom: float) -> Iterator[str]:
        """The axis with its labels, and a faint line above each label."""
        step = next(1 << places for places in count() if (self.high - self.low) / (1 << places) <= 17)
        yield svg.line(_LEFT - 8, bottom, _LEFT + _LENGTH + 8, bottom, "k")
        for place in range(math.ceil(self.low / step) * step, math.floor(self.high) + 1, step):
            x = self.x(2.0**place if self.kind == "logarithmic" else place)
            yield svg.line(x, _TOP - 8, x, bottom + 5, dash="1 5")
            label = power(place) if self.kind == "logarithmic" else value(place)
            yield svg.text(x, bottom + 20, label, "s", "middle")


#: What draws a format at a height.
_Draw = Callable[[Format, _Axis, float], Drawing]


@explained
def number_lines(formats: Iterable[Format | str], scale: Spacing = "logarithmic") -> Picture:
    """Every positive value of each format as a tick on one axis; a format of more than 8 bits is drawn as a band.

    Long ticks are normal numbers (the longest are powers of two), short ticks subnormal numbers. Raises FormatError
    for a format that is not a float, OperandError for another scale.

    >>> tcemu.show.number_lines(["e4m3", "e5m2"], scale="linear").title
    'Positive numbers of e4m3, e5m2'
    """
    rows = _floats(formats)
    if not isinstance(scale, str) or scale not in get_args(Spacing):
        raise OperandError(f"a scale must be {listing(map(repr, get_args(Spacing)))}; got {briefly(scale)}")
    largest, smallest = max(f.largest for f in rows), min(f.smallest_subnormal for f in rows)
    if scale == "linear":
        axis = _Axis(scale, 0, largest)
    else:
        axis = _Axis(scale, math.floor(math.log2(smallest)) - 2, math.ceil(math.log2(largest)))
    note = "long tick: normal number (longest: a power of two); short tick: subnormal"
    if any(form.bits > 8 for form in rows):
        note += "; band: too many to draw one by one, hatched where they are subnormal"
    return _compared("Positive numbers", "Positive values", rows, axis, _line, note)


@explained
def number_ranges(formats: Iterable[Format | str]) -> Picture:
    """Range and precision of each format: a band from the smallest to the largest number; its height is the precision.

    Subnormals lose one bit of precision with every halving, so the band tapers off on their side. Raises FormatError
    for a format that is not a float.

    >>> tcemu.show.number_ranges(["f16", "bf16"]).title
    'Range and precision of f16, bf16'
    """
    rows = _floats(formats)
    low = min(math.log2(form.smallest_subnormal) for form in rows)
    high = max(math.log2(form.largest) for form in rows)
    axis = _Axis("logarithmic", math.floor(low) - 1, math.ceil(high) + 1)
    note = "height of a band: bits of the significand; tapering end: subnormals"
    return _compared("Range and precision", "Range and precision", rows, axis, _band, note, low=6)


def _compared(
    what: str, words: str, rows: list[Format], axis: _Axis, draw: _Draw, note: str, low: float = 0
) -> Picture:
    """The formats one below the other, and the axis, moved down by `low`."""
    bottom = _TOP + _ROW * len(rows) + low
    body = [axis.draw(bottom), [draw(form, axis, _TOP + _ROW * index + 30) for index, form in enumerate(rows)]]
    title = f"{what} of {', '.join(form.name for form in rows)}"
    said = " ".join([f"{words} on a {axis.kind} axis.", *map(_in_words, rows)])
    size = _LEFT + _LENGTH + 146, bottom + 56
    return picture(title, said, *size, [body, svg.text(_LEFT, bottom + 46, note, "s")])


def _floats(formats: Iterable[Format | str]) -> list[Format]:
    rows = formats_of(formats)
    wrong = [form.name for form in rows if form.kind != "float"]
    if wrong or not rows:
        raise FormatError(f"a number line shows one or more float formats; got {', '.join(wrong) or 'none'}")
    return rows


def _line(form: Format, axis: _Axis, y: float) -> Iterator[Drawing]:
    """One format: its name, its ticks, its smallest and largest numbers."""
    first = form.smallest_subnormal
    yield _head(form, y), svg.line(axis.x(first), y, axis.x(form.largest), y, "l")
    yield _block(form, axis, y) if form.bits > 8 else _ticks(form, axis, y)
    if axis.kind == "logarithmic":
        yield svg.text(axis.x(first) - 8, y + 4, neat(first), "s clear", "end")
    yield _largest(form, axis, y)


def _ticks(form: Format, axis: _Axis, y: float) -> Drawing:
    ticks: dict[str, list[str]] = {"l": [], "i": []}
    patterns = [code for code in form.codes().tolist() if not code & form.sign_bit]
    for pattern, number in zip(patterns, form.decode(patterns).tolist(), strict=True):
        kind, size = form.classify(pattern), 5
        if kind == "normal":
            size = 14 if math.log2(number).is_integer() else 9
        elif kind != "subnormal" and (kind != "zero" or axis.kind == "logarithmic"):
            continue
        stroke = f"M{svg.number(axis.x(number))} {svg.number(y - size)}v{svg.number(2 * size)}"
        ticks["i" if kind == "normal" else "l"].append(stroke)
    return [svg.path(strokes, style) for style, strokes in ticks.items()]


def _block(form: Format, axis: _Axis, y: float) -> str:
    """For too many values: a solid band for the normal numbers, a hatched one for the subnormals."""
    left, middle, right = axis.x(form.smallest_subnormal), axis.x(form.smallest_normal), axis.x(form.largest)
    words = f"{2**form.mantissa} numbers between a power of two and the next"
    return (
        svg.hatch(left, y - 5, middle - left, 10, "g", step=4)
        + svg.rect(middle, y - 10, right - middle, 20, "fb")
        + (svg.text((middle + right) / 2, y + 4, words, "s", "middle") if right - middle > 250 else "")
    )


def _band(form: Format, axis: _Axis, y: float) -> Iterator[Drawing]:
    bits = form.mantissa + 1
    half = 2 + bits * 0.62
    left, middle, right = axis.x(form.smallest_subnormal), axis.x(form.smallest_normal), axis.x(form.largest)
    shape = [(left, y - 2), (middle, y - half), (right, y - half), (right, y + half), (middle, y + half), (left, y + 2)]
    yield _head(form, y), svg.polygon(shape, "fb")
    yield svg.line(middle, y - half, middle, y + half, "k") if middle > left else ""
    small = (left, y - half - 5) if right - left > 120 else (left - 8, y + 4)
    yield svg.text(*small, neat(form.smallest_subnormal), "s clear", "middle" if right - left > 120 else "end")
    yield _largest(form, axis, y)
    inside = right - middle > 60 and half > 5
    place = ((middle + right) / 2, y + 4) if inside else ((left + right) / 2, y + half + 13)
    yield svg.text(*place, counted(bits, "bit"), "s", "middle")


def _head(form: Format, y: float) -> list[str]:
    parts = f"{form.signed:d} + {form.exponent} + {form.mantissa} bits"
    return [svg.text(16, y, form.name, "b"), svg.text(16, y + 15, parts, "s")]


def _largest(form: Format, axis: _Axis, y: float) -> str:
    """The largest number, and what follows it."""
    shown = value(form.largest, 9 if form.largest < 1e6 else 3)
    beyond = "∞" if form.infinities else "NaN" if form.has_nan else "nothing"
    return svg.text(axis.x(form.largest) + 8, y + 4, f"{shown}, then {beyond}", "s clear")


def _in_words(form: Format) -> str:
    after = "infinity and NaN" if form.infinities else "NaN" if form.has_nan else "nothing"
    if not form.zero:
        return f"{form.name}: powers of two from {power(form.emin)} to {power(form.emax)}, then {after}."
    small = f"smallest subnormal {neat(form.smallest_subnormal)}, smallest normal {neat(form.smallest_normal)}"
    large = f"largest {value(form.largest, 6)}, then {after}"
    return f"{form.name}: {small}, {large}; {counted(form.mantissa + 1, 'significant bit')}."


#: PTX's rounding modifiers and what they mean.
_MODES = {
    "rn": "to the nearest, ties to even",
    "rna": "to the nearest, ties away from zero",
    "rz": "toward zero",
    "rm": "down, toward −∞",
    "rp": "up, toward +∞",
}
_FROM, _TO, _AXIS, _WAY = 290, 670, 66, 30
#: Lower end of the lines through the rows.
_LOW = _AXIS + 40 + _WAY * len(_MODES)


@explained
def rounding(form: Format | str, number: float) -> Picture:
    """The results of rounding `number` to a float format by rn, rna, rz, rm and rp.

    All five are drawn; those that PTX's cvt to the format offers are bold, and a line below names them.
    Raises FormatError unless the number is between two finite values of the format.

    >>> tcemu.show.rounding("e4m3", 1.0625).title
    'Rounding 1.0625 to e4m3'
    """
    form = format_of(form)
    if not isinstance(number, int | float | np.integer | np.floating):
        raise FormatError(f"rounding is drawn for one number; got {briefly(number)}")
    if form.kind != "float" or not math.isfinite(number) or abs(number) >= form.largest:
        limit = f"a finite number smaller in magnitude than the largest {form.name}, {form.largest:g}"
        raise FormatError(f"rounding is drawn for {limit}; got {number}")
    below, above = (form.encode(number, mode).item() for mode in ("rm", "rp"))
    if below == above:
        above = form.encode(math.nextafter(number, math.inf), "rp").item()
    low, high = (form.decode(pattern).item() for pattern in (below, above))
    results = {mode: form.decode(form.encode(number, mode).item()).item() for mode in _MODES}
    scale, offered = Scale(low, high, _FROM, _TO), _offered(form)
    rows = [_way(mode, scale, number, result, _AXIS + 56 + row * _WAY, "b" if mode in form.cvt.split() else "q")
            for row, (mode, result) in enumerate(results.items())]  # fmt: skip
    body = _between(scale, number), _end(form, _FROM, "end", below), _end(form, _TO, "start", above), rows
    each = "; ".join(f"{mode} ({_MODES[mode]}) gives {value(result)}" for mode, result in results.items())
    words = f"{value(number)} is between the {form.name} numbers {value(low)} and {value(high)}: {each}. {offered}"
    title = f"Rounding {value(number)} to {form.name}"
    return picture(title, words, _TO + 160, _LOW + 36, (body, svg.text(16, _LOW + 22, offered, "s")))


def _between(scale: Scale, number: float) -> Iterator[str]:
    """The axis between the two neighbours, with its middle and the number."""
    x, middle = scale.at(number), (_FROM + _TO) / 2
    yield svg.line(_FROM - 20, _AXIS, _TO + 20, _AXIS, "k")
    yield svg.line(middle, _AXIS - 6, middle, _LOW, dash="2 4")
    if abs(x - middle) >= 34:  # beside the triangle, and below the number itself
        yield svg.text(middle, _AXIS - 14, value((scale.low + scale.high) / 2), "n q", "middle")
    yield svg.line(x, _AXIS, x, _LOW, "k", dash="4 3")
    yield svg.polygon([(x, _AXIS), (x - 6, _AXIS - 10), (x + 6, _AXIS - 10)], "d")
    yield svg.text(x, _AXIS - 32, value(number, 12), "m b", "middle")


def _end(form: Format, x: float, anchor: str, pattern: int) -> Drawing:
    """One of the two neighbours: value and pattern."""
    side = x + (-10 if anchor == "end" else 10)
    number, bits = value(form.decode(pattern).item(), 12), hexadecimal(pattern, form.container)
    labels = svg.text(side, _AXIS - 14, number, "m", anchor), svg.text(side, _AXIS + 18, bits, "n q", anchor)
    return svg.line(x, _AXIS - 10, x, _LOW, "k"), labels


def _offered(form: Format) -> str:
    """Which of the roundings a PTX conversion to the format can do."""
    modes = [f".{mode}" for mode in _MODES if mode in form.cvt.split()]
    if not modes:
        return f"What PTX's cvt to {form.name} offers is not recorded here; all rows are computed."
    rest = " (bold); the others are computed here for comparison" if len(modes) < len(_MODES) else ""
    return f"PTX's cvt to {form.name} offers {listing(modes, 'and')}{rest}."


def _way(mode: str, scale: Scale, number: float, result: float, y: float, look: str) -> Drawing:
    """One row: the mode, an arrow from the number to its result, the result."""
    start, end = scale.at(number), scale.at(result)
    head = svg.text(16, y + 4, f".{mode}", f"m {look}"), svg.text(64, y + 4, _MODES[mode], "s")
    way = svg.arrow(start, y, end, y) if start != end else svg.text(start + 8, y + 4, "exact", "s clear")
    return head, way, svg.text(_TO + 60, y + 4, f"→ {value(result, 12)}", "m")


#: The first and the last s32, and how far the picture reaches from either.
_LOWEST, _HIGHEST, _REACH = -(2**31), 2**31 - 1, 20_000
#: The axis: the lower end on the left, then a gap, then the upper end and what is beyond it.
_LEFT_END, _RIGHT_START, _RIGHT_END, _Y = 294, 364, 904, 112
_LOW_END, _HIGH_END = (
    Scale(_LOWEST, _LOWEST + _REACH, 24, _LEFT_END),
    Scale(_HIGHEST - _REACH, _HIGHEST + _REACH, _RIGHT_START, _RIGHT_END),
)


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
    if max(abs(_HIGHEST - c), abs(exact - _HIGHEST)) > _REACH:
        raise OperandError(f"c and the sum must be within {_REACH:,} of 2147483647; got {value(c)} and {value(exact)}")
    for result in (wraps, clamps):
        if not _LOWEST <= result <= _HIGHEST:
            raise OperandError(f"a result must be an s32; got {value(result)}")
    marks = {"c": c, "exact sum": exact, "without .satfinite": wraps, "with .satfinite": clamps}
    body = _both_ends(), [_mark(name, number, row) for row, (name, number) in enumerate(marks.items())]
    title = f"{value(c)} + {value(product)} {'does not fit' if exact > _HIGHEST else 'fits'} into s32"
    says = f"The exact sum is {value(exact)}. Without .satfinite the result is {value(wraps)}, with it {value(clamps)}."
    return picture(title, says, _RIGHT_END + 190, _Y + 130, body)


def _place(number: int) -> float:
    """The place of a number."""
    return _LOW_END.at(min(number, _LOWEST + _REACH)) if number < 0 else _HIGH_END.at(number)


def _both_ends() -> list[str]:
    low, high = _place(_LOWEST), _place(_HIGHEST)
    return [
        svg.hatch(high, _Y - 10, _RIGHT_END - high, 20, "g"),
        svg.line(low, _Y, _LEFT_END, _Y, "k"),
        svg.line(_RIGHT_START, _Y, high, _Y, "k"),
        svg.text((_LEFT_END + _RIGHT_START) / 2, _Y + 5, "· · ·", "b", "middle"),
        svg.line(low, _Y - 12, low, _Y + 12, "k"),
        svg.line(high, _Y - 12, high, _Y + 12, "k"),
        svg.text(low, _Y + 28, value(_LOWEST), "s"),
        svg.text(high, _Y + 28, value(_HIGHEST), "s", "middle"),
        svg.text((high + _RIGHT_END) / 2, _Y + 28, "outside s32", "s", "middle"),
    ]


def _mark(name: str, number: int, row: int) -> Drawing:
    """One number: inputs are above the axis, results below it."""
    x, above = _place(number), row < 2
    y = _Y - 74 + 32 * row if above else _Y + 62 + 30 * (row - 2)
    below = _Y + 34 if abs(x - _place(_HIGHEST)) < 40 or x < 120 else _Y + 12  # under the label of an end of s32
    start, end = (y + 6, _Y - 12) if above else (below, y - 14)
    style, dash = ("ko", "4 3") if row == 1 else ("k", "")
    diamond = svg.polygon([(x, _Y - 4), (x + 4, _Y), (x, _Y + 4), (x - 4, _Y)], "x")
    label = svg.text(x + 6, y, f"{name}: {value(number)}", "clear b")
    return svg.line(x, start, x, end, style, dash=dash), diamond, label
