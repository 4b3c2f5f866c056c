"""Numbers on an axis: all those of several formats, one between its neighbours, rounded, and the ends of s32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, get_args

import numpy as np

from tcemu.arguments import explained
from tcemu.errors import FormatError, OperandError, briefly, counted, listing, whole
from tcemu.formats import Format
from tcemu.show import svg
from tcemu.show.given import format_of, formats_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Scale
from tcemu.show.words import neat, power, value

_LEFT, _TOP, _ROW = 116, 24, 52
_LENGTH = 680

Spacing = Literal["logarithmic", "linear"]


@dataclass(frozen=True)
class _Axis:
    """The position of values: `low` and `high` are exponents of two on a logarithmic axis, values on a linear one."""

    scale: Spacing
    low: float
    high: float

    def x(self, number: float) -> float:
        along = math.log2(number) if self.scale == "logarithmic" else number
        return _LEFT + (along - self.low) / (self.high - self.low) * _LENGTH

    def draw(self, bottom: float) -> list[str]:
        """The axis with its labels, and a faint line up from each label."""
        step = next(1 << places for places in count() if (self.high - self.low) / (1 << places) <= 17)
        places = range(math.ceil(self.low / step) * step, math.floor(self.high) + 1, step)
        elements = [svg.line(_LEFT - 8, bottom, _LEFT + _LENGTH + 8, bottom, "k")]
        for place in places:
            x = self.x(2.0**place if self.scale == "logarithmic" else place)
            label = power(place) if self.scale == "logarithmic" else value(place)
            elements.append(svg.line(x, _TOP - 8, x, bottom + 5, dash="1 5"))
            elements.append(svg.text(x, bottom + 20, label, "s", "middle"))
        return elements


#: What draws a format at a height.
_Draw = Callable[[Format, _Axis, float], list[str]]


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
    body = axis.draw(bottom)
    for index, form in enumerate(rows):
        body += draw(form, axis, _TOP + _ROW * index + 30)
    body.append(svg.text(_LEFT, bottom + 46, note, "s"))
    title = f"{what} of {', '.join(form.name for form in rows)}"
    said = " ".join([f"{words} on a {axis.scale} axis.", *map(_in_words, rows)])
    return picture(title, said, _LEFT + _LENGTH + 146, bottom + 56, body)


def _floats(formats: Iterable[Format | str]) -> list[Format]:
    rows = formats_of(formats)
    wrong = [form.name for form in rows if form.kind != "float"]
    if wrong or not rows:
        raise FormatError(f"a number line shows one or more float formats; got {', '.join(wrong) or 'none'}")
    return rows


def _line(form: Format, axis: _Axis, y: float) -> list[str]:
    """One format: its name, its ticks, its smallest and largest numbers."""
    elements = _head(form, y)
    first = form.smallest_subnormal
    elements.append(svg.line(axis.x(first), y, axis.x(form.largest), y, "l"))
    elements += [_block(form, axis, y)] if form.bits > 8 else [_ticks(form, axis, y)]
    if axis.scale == "logarithmic":
        elements.append(svg.text(axis.x(first) - 8, y + 4, neat(first), "s clear", "end"))
    elements.append(_largest(form, axis, y))
    return elements


def _ticks(form: Format, axis: _Axis, y: float) -> str:
    values = form.decode([code for code in form.codes().tolist() if not code & form.sign_bit])
    heights: dict[str, list[tuple[float, float]]] = {"l": [], "i": []}
    for pattern, number in enumerate(values.tolist()):
        kind = form.classify(pattern)
        if kind == "subnormal" or (kind == "zero" and axis.scale == "linear"):
            heights["l"].append((axis.x(number), 5))
        elif kind == "normal":
            heights["i"].append((axis.x(number), 14 if math.log2(number).is_integer() else 9))
    return "".join(svg.path(_strokes(strokes, y), style) for style, strokes in heights.items() if strokes)


def _strokes(strokes: Sequence[tuple[float, float]], y: float) -> str:
    return "".join(f"M{svg.number(x)} {svg.number(y - size)}v{svg.number(2 * size)}" for x, size in strokes)


def _block(form: Format, axis: _Axis, y: float) -> str:
    """For too many values: a solid band for the normal numbers, a hatched one for the subnormals."""
    left, middle, right = axis.x(form.smallest_subnormal), axis.x(form.smallest_normal), axis.x(form.largest)
    words = f"{2**form.mantissa} numbers between a power of two and the next"
    return (
        svg.hatch(left, y - 5, middle - left, 10, "g", step=4)
        + svg.rect(middle, y - 10, right - middle, 20, "fb")
        + (svg.text((middle + right) / 2, y + 4, words, "s", "middle") if right - middle > 250 else "")
    )


def _band(form: Format, axis: _Axis, y: float) -> list[str]:
    bits = form.mantissa + 1
    half = 2 + bits * 0.62
    left, middle, right = axis.x(form.smallest_subnormal), axis.x(form.smallest_normal), axis.x(form.largest)
    shape = [(left, y - 2), (middle, y - half), (right, y - half), (right, y + half), (middle, y + half), (left, y + 2)]
    elements = [*_head(form, y), svg.polygon(shape, "fb")]
    if middle > left:
        elements.append(svg.line(middle, y - half, middle, y + half, "k"))
    if right - left > 120:
        elements.append(svg.text(left, y - half - 5, neat(form.smallest_subnormal), "s clear", "middle"))
    else:
        elements.append(svg.text(left - 8, y + 4, neat(form.smallest_subnormal), "s clear", "end"))
    elements.append(_largest(form, axis, y))
    if right - middle > 60 and half > 5:
        elements.append(svg.text((middle + right) / 2, y + 4, counted(bits, "bit"), "s", "middle"))
    else:
        elements.append(svg.text((left + right) / 2, y + half + 13, counted(bits, "bit"), "s", "middle"))
    return elements


def _head(form: Format, y: float) -> list[str]:
    parts = f"{form.signed:d} + {form.exponent} + {form.mantissa} bits"
    return [svg.text(16, y, form.name, "b"), svg.text(16, y + 15, parts, "s")]


def _largest(form: Format, axis: _Axis, y: float) -> str:
    shown = value(form.largest, 9 if form.largest < 1e6 else 3)
    return svg.text(axis.x(form.largest) + 8, y + 4, f"{shown}, {_beyond(form)}", "s clear")


def _beyond(form: Format) -> str:
    """What follows the largest number."""
    return "then ∞" if form.infinities else "then NaN" if form.has_nan else "then nothing"


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
    results = {mode: form.encode(number, mode).item() for mode in _MODES}
    scale = Scale(low, high, _FROM, _TO)
    body = [*_between(scale, number), *_ends(form, (below, low), (above, high))]
    for row, (mode, pattern) in enumerate(results.items()):
        result = form.decode(pattern).item()
        ends = scale.at(number), scale.at(result)
        body += _way(mode, ends, result, _AXIS + 56 + row * _WAY, "b" if mode in form.cvt.split() else "q")
    offered = _offered(form)
    each = "; ".join(f"{mode} ({_MODES[mode]}) gives {value(form.decode(p).item())}" for mode, p in results.items())
    words = f"{value(number)} is between the {form.name} numbers {value(low)} and {value(high)}: {each}. {offered}"
    body.append(svg.text(16, _LOW + 22, offered, "s"))
    return picture(f"Rounding {value(number)} to {form.name}", words, _TO + 160, _LOW + 36, body)


def _between(scale: Scale, number: float) -> list[str]:
    """The axis between the two neighbours, with its middle and the number."""
    x, middle = scale.at(number), (_FROM + _TO) / 2
    elements = [svg.line(_FROM - 20, _AXIS, _TO + 20, _AXIS, "k")]
    elements.append(svg.line(middle, _AXIS - 6, middle, _LOW, dash="2 4"))
    if abs(x - middle) >= 60:
        elements.append(svg.text(middle, _AXIS - 14, value((scale.low + scale.high) / 2), "n q", "middle"))
    elements.append(svg.line(x, _AXIS, x, _LOW, "k", dash="4 3"))
    elements.append(svg.polygon([(x, _AXIS), (x - 6, _AXIS - 10), (x + 6, _AXIS - 10)], "d"))
    return [*elements, svg.text(x, _AXIS - 32, value(number, 12), "m b", "middle")]


def _ends(form: Format, below: tuple[int, float], above: tuple[int, float]) -> list[str]:
    """The two neighbours: value and pattern."""
    elements = []
    for x, anchor, (pattern, number) in ((_FROM, "end", below), (_TO, "start", above)):
        side = -10 if anchor == "end" else 10
        elements.append(svg.line(x, _AXIS - 10, x, _LOW, "k"))
        elements.append(svg.text(x + side, _AXIS - 14, value(number, 12), "m", anchor))
        elements.append(svg.text(x + side, _AXIS + 18, f"{pattern:#0{2 + -(-form.container // 4)}x}", "n q", anchor))
    return elements


def _offered(form: Format) -> str:
    """Which of the roundings a PTX conversion to the format can do."""
    modes = [f".{mode}" for mode in _MODES if mode in form.cvt.split()]
    if not modes:
        return f"What PTX's cvt to {form.name} offers is not recorded here; all rows are computed."
    rest = " (bold); the others are computed here for comparison" if len(modes) < len(_MODES) else ""
    return f"PTX's cvt to {form.name} offers {listing(modes, 'and')}{rest}."


def _way(mode: str, ends: tuple[float, float], result: float, y: float, look: str) -> list[str]:
    """One row: the mode, an arrow from the number to its result, the result."""
    start, end = ends
    elements = [svg.text(16, y + 4, f".{mode}", f"m {look}"), svg.text(64, y + 4, _MODES[mode], "s")]
    elements.append(svg.arrow(start, y, end, y) if start != end else svg.text(start + 8, y + 4, "exact", "s clear"))
    return [*elements, svg.text(_TO + 60, y + 4, f"→ {value(result, 12)}", "m")]


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
    if min(abs(_HIGHEST - c), abs(exact - _HIGHEST)) > _REACH or max(abs(_HIGHEST - c), abs(exact - _HIGHEST)) > _REACH:
        raise OperandError(f"c and the sum must be within {_REACH:,} of 2147483647; got {value(c)} and {value(exact)}")
    for result in (wraps, clamps):
        if not _LOWEST <= result <= _HIGHEST:
            raise OperandError(f"a result must be an s32; got {value(result)}")
    beyond = exact > _HIGHEST
    body = _both_ends()
    marks = [("c", c, 0), ("exact sum", exact, 1), ("without .satfinite", wraps, 2), ("with .satfinite", clamps, 3)]
    for name, number, row in marks:
        body += _mark(name, number, row)
    title = f"{value(c)} + {value(product)} {'does not fit' if beyond else 'fits'} into s32"
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


def _mark(name: str, number: int, row: int) -> list[str]:
    """One number: inputs are above the axis, results below it."""
    x, above = _place(number), row < 2
    y = _Y - 74 + 32 * row if above else _Y + 62 + 30 * (row - 2)
    start, end = (
        (y + 6, _Y - 12) if above else (_Y + 34 if abs(x - _place(_HIGHEST)) < 40 or x < 120 else _Y + 12, y - 14)
    )
    style = "k" if row != 1 else "ko"
    stem = svg.line(x, start, x, end, style, dash="" if row != 1 else "4 3")
    return [stem, svg.polygon([(x, _Y - 4), (x + 4, _Y), (x, _Y + 4), (x - 4, _Y)], "x"),
            svg.text(x + 6, y, f"{name}: {value(number)}", "clear b")]  # fmt: skip
