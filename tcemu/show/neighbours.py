"""One number between two neighbouring values of a format, and the result of each rounding."""

from __future__ import annotations

import math

import numpy as np

from tcemu.arguments import explained
from tcemu.errors import FormatError, briefly, listing
from tcemu.formats import Format
from tcemu.show import svg
from tcemu.show.given import format_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Scale
from tcemu.show.words import value

#: PTX's rounding modifiers and what they mean.
_MODES = {
    "rn": "to the nearest, ties to even",
    "rna": "to the nearest, ties away from zero",
    "rz": "toward zero",
    "rm": "down, toward −∞",
    "rp": "up, toward +∞",
}
_LEFT, _RIGHT, _TOP, _ROW = 290, 670, 66, 30
#: Lower end of the lines through the rows.
_LOW = _TOP + 40 + _ROW * len(_MODES)


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
    scale = Scale(low, high, _LEFT, _RIGHT)
    body = [*_axis(scale, number), *_ends(form, (below, low), (above, high))]
    for row, (mode, pattern) in enumerate(results.items()):
        result = form.decode(pattern).item()
        ends = scale.at(number), scale.at(result)
        body += _way(mode, ends, result, _TOP + 56 + row * _ROW, "b" if mode in form.cvt.split() else "q")
    offered = _offered(form)
    each = "; ".join(f"{mode} ({_MODES[mode]}) gives {value(form.decode(p).item())}" for mode, p in results.items())
    words = f"{value(number)} is between the {form.name} numbers {value(low)} and {value(high)}: {each}. {offered}"
    body.append(svg.text(16, _LOW + 22, offered, "s"))
    return picture(f"Rounding {value(number)} to {form.name}", words, _RIGHT + 160, _LOW + 36, body)


def _axis(scale: Scale, number: float) -> list[str]:
    """The axis between the two neighbours, with its middle and the number."""
    x, middle = scale.at(number), (_LEFT + _RIGHT) / 2
    elements = [svg.line(_LEFT - 20, _TOP, _RIGHT + 20, _TOP, "k")]
    elements.append(svg.line(middle, _TOP - 6, middle, _LOW, dash="2 4"))
    if abs(x - middle) >= 60:
        elements.append(svg.text(middle, _TOP - 14, value((scale.low + scale.high) / 2), "n q", "middle"))
    elements.append(svg.line(x, _TOP, x, _LOW, "k", dash="4 3"))
    elements.append(svg.polygon([(x, _TOP), (x - 6, _TOP - 10), (x + 6, _TOP - 10)], "d"))
    return [*elements, svg.text(x, _TOP - 32, value(number, 12), "m b", "middle")]


def _ends(form: Format, below: tuple[int, float], above: tuple[int, float]) -> list[str]:
    """The two neighbours: value and pattern."""
    elements = []
    for x, anchor, (pattern, number) in ((_LEFT, "end", below), (_RIGHT, "start", above)):
        side = -10 if anchor == "end" else 10
        elements.append(svg.line(x, _TOP - 10, x, _LOW, "k"))
        elements.append(svg.text(x + side, _TOP - 14, value(number, 12), "m", anchor))
        elements.append(svg.text(x + side, _TOP + 18, f"{pattern:#0{2 + -(-form.container // 4)}x}", "n q", anchor))
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
    return [*elements, svg.text(_RIGHT + 60, y + 4, f"→ {value(result, 12)}", "m")]
