"""Small functions that return SVG elements as text. Lengths are CSS pixels; a class gives an element its look."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from math import hypot
from typing import TypeAlias

#: An element, or several, each of which may be several; "" is none.
Drawing: TypeAlias = "str | Iterable[Drawing]"

#: Font sizes in pixels: text, small text, and the digits in matrix cells.
BODY, SMALL, TINY = 13, 11, 10

#: Exponents as they are in a text, and in figures.
_EXPONENT, _PLAIN_DIGITS = re.compile("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"), str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "−0123456789")

#: Width of one character of the monospaced font, as a fraction of the font size.
MONO = 0.602

#: Width of a letter of small text, on average, and of monospaced text, by their classes.
LETTERS = {"s": 5.8, "n": MONO * SMALL, "m": MONO * BODY}

#: The look of text without a class.
PLAIN = f"fill:var(--tc-ink);font:{BODY}px var(--jp-content-font-family,system-ui,-apple-system,'Segoe UI',sans-serif)"

#: The classes of all pictures; their names are short because a fragment map has hundreds of elements.
STYLES = {
    ".s": f"font-size:{SMALL}px;fill:var(--tc-soft)",
    ".m": f"font-family:var(--jp-code-font-family,Menlo,Consolas,'DejaVu Sans Mono',monospace);font-size:{BODY}px",
    ".n": f"font-family:var(--jp-code-font-family,Menlo,Consolas,'DejaVu Sans Mono',monospace);font-size:{SMALL}px",
    ".t": f"font-size:{TINY}px",
    ".q": "fill:var(--tc-soft)",
    ".b": "font-weight:700",
    ".c": "text-anchor:middle",
    ".halo": "paint-order:stroke;stroke:var(--tc-mark);stroke-width:3px;stroke-linejoin:round",
    ".clear": "paint-order:stroke;stroke:var(--tc-paper);stroke-width:4px;stroke-linejoin:round",
    ".tb": "fill:var(--tc-blue)",
    ".to": "fill:var(--tc-orange)",
    ".tg": "fill:var(--tc-green)",
    ".l": "stroke:var(--tc-line);fill:none",
    ".k": "stroke:var(--tc-ink);fill:none;stroke-width:1.5",
    ".i": "stroke:var(--tc-ink);fill:none",
    ".kb": "stroke:var(--tc-blue);fill:none;stroke-width:1.5",
    ".ko": "stroke:var(--tc-orange);fill:none;stroke-width:1.5",
    ".kg": "stroke:var(--tc-green);fill:none;stroke-width:1.5",
    ".p": "fill:var(--tc-paper);stroke:var(--tc-line)",
    ".f": "fill:var(--tc-faint);stroke:var(--tc-line)",
    ".fb": "fill:var(--tc-blue-fill);stroke:var(--tc-line)",
    ".fo": "fill:var(--tc-orange-fill);stroke:var(--tc-line)",
    ".fg": "fill:var(--tc-green-fill);stroke:var(--tc-line)",
    ".x": "fill:var(--tc-mark);stroke:var(--tc-ink);stroke-width:2.5",
    ".h": "stroke:var(--tc-hatch);fill:none;stroke-width:1",
    ".g": "stroke:var(--tc-cut);fill:none;stroke-width:1",
    ".d": "fill:var(--tc-ink)",
    ".e": "stroke:none",
}


@lru_cache(1 << 14)
def number(length: float) -> str:
    """A length for SVG: at most two decimals, and none if they are zero."""
    return f"{length:.2f}".rstrip("0").rstrip(".") if length else "0"


def _attributes(**values: float | str) -> str:
    texts = {name: value if isinstance(value, str) else number(value) for name, value in values.items()}
    return "".join(f' {name}="{escape(content)}"' for name, content in texts.items() if content)


@lru_cache(1 << 14)  # when a slider moves, most boxes stay where they were
def rect(x: float, y: float, width: float, height: float, style: str) -> str:
    """A rectangle with its corner at (x, y)."""
    return f"<rect{_attributes(x=x, y=y, width=width, height=height, **{'class': style})}/>"


def text(x: float, y: float, content: object, style: str = "", anchor: str = "start") -> str:
    """Text with its baseline at y; `anchor` is start, middle or end, and start if the style c centres it already."""
    return _text(x, y, str(content), style, "start" if "c" in style.split() else anchor)


@lru_cache(1 << 14)  # and most of a map's hundreds of labels stay as they were
def _text(x: float, y: float, content: str, style: str, anchor: str) -> str:
    placed = _attributes(x=x, y=y, **{"text-anchor": "" if anchor == "start" else anchor, "class": style})
    return f"<text{placed}>{_raised(escape(content, quote=False))}</text>"


def _raised(content: str) -> str:
    """Exponents as smaller digits, raised: those of many monospaced fonts are tiny and far apart."""

    def small(exponent: re.Match[str]) -> str:
        back = '<tspan dy="4">\N{ZERO WIDTH SPACE}</tspan>' if exponent.end() < len(content) else ""
        return f'<tspan dy="-4" font-size="82%">{exponent[0].translate(_PLAIN_DIGITS)}</tspan>{back}'

    return _EXPONENT.sub(small, content)


def flat(drawing: Drawing) -> str:
    """All of a drawing as text.

    >>> from tcemu.show.svg import flat, line, rect
    >>> flat([line(0, 0, 9, 0), [rect(0, 0, 9, 9, "p"), ""]])
    '<line x1="0" y1="0" x2="9" y2="0" class="l"/><rect x="0" y="0" width="9" height="9" class="p"/>'
    """
    return drawing if isinstance(drawing, str) else "".join(map(flat, drawing))


def group(elements: Drawing, style: str) -> str:
    """Elements that share a class; "" without elements."""
    inside = flat(elements)
    return f'<g class="{style}">{inside}</g>' if inside else ""


def line(x1: float, y1: float, x2: float, y2: float, style: str = "l", *, dash: str = "") -> str:
    """A straight line."""
    return f"<line{_attributes(x1=x1, y1=y1, x2=x2, y2=y2, **{'stroke-dasharray': dash, 'class': style})}/>"


def path(data: Drawing, style: str) -> str:
    """A path; `data` is in SVG's path language. "" without data."""
    inside = flat(data)
    return f'<path d="{inside}" class="{style}"/>' if inside else ""


def polygon(points: Iterable[tuple[float, float]], style: str) -> str:
    """A closed shape."""
    return path("M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + "Z", style)


def hatch(x: float, y: float, width: float, height: float, style: str = "h", *, step: float = 6) -> str:
    """Diagonal lines that fill a rectangle exactly, drawn one by one because an SVG pattern would need its own id."""
    return path(hatch_lines(x, y, width, height, step), style)


def outline(x: float, y: float, width: float, height: float) -> str:
    """A rectangle, as the data of a path."""
    wide = number(width)
    return f"M{number(x)} {number(y)}h{wide}v{number(height)}h-{wide}z"


@lru_cache(1 << 12)
def hatch_lines(x: float, y: float, width: float, height: float, step: float = 6) -> str:
    """The lines of a hatched rectangle, for a path that has several."""
    pieces = []
    offset = step
    while offset < width + height:
        left, top = max(0.0, offset - height), max(0.0, offset - width)
        pieces.append(f"M{number(x + left)} {number(y + offset - left)}L{number(x + offset - top)} {number(y + top)}")
        offset += step
    return "".join(pieces)


def bracket(x1: float, x2: float, y: float, depth: float = 5, style: str = "k") -> str:
    """A bracket from x1 to x2 that opens upwards."""
    low = number(y + depth)
    return path(f"M{number(x1)} {number(y)}V{low}H{number(x2)}V{number(y)}", style)


def arrow(x1: float, y1: float, x2: float, y2: float, style: str = "k", head: tuple[float, float] = (4, 4)) -> str:
    """An arrow that ends at (x2, y2); `head`: the length of its head, and half the width."""
    length, (back, wide) = max(1.0, hypot(x2 - x1, y2 - y1)), head
    along, down = (x2 - x1) / length, (y2 - y1) / length
    ends = [(x2 - back * along + side * down, y2 - back * down - side * along) for side in (wide, -wide)]
    one, tip, two = (f"{number(x)} {number(y)}" for x, y in (ends[0], (x2, y2), ends[1]))
    return path(f"M{number(x1)} {number(y1)}L{tip}M{one}L{tip}L{two}", style)
