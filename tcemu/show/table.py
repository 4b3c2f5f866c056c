"""Tables, among them that of the formats: HTML in a notebook, aligned text in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from tcemu.arguments import explained
from tcemu.formats import FORMATS, Format
from tcemu.show.given import formats_of
from tcemu.show.words import neat, value

#: JupyterLab aligns cells right by default.
_LEFT = ' style="text-align:left"'


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and the rows as text; the first column names the row.

    >>> table = tcemu.show.format_table(["e4m3", "e5m2"])
    >>> [row[0] for row in table.rows], table.columns[:3]
    (['e4m3', 'e5m2'], ('format', 'bits', 'largest'))
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": str(self)}

    @property
    def html(self) -> str:
        """A table with a caption and header cells, for screen readers."""
        head = "".join(f'<th scope="col"{_LEFT}>{escape(name)}</th>' for name in self.columns)
        body = "".join(f"<tr>{_cells(row)}</tr>" for row in self.rows)
        caption = f'<caption style="text-align:left;font-weight:600">{escape(self.title)}</caption>'
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        # it scrolls in a narrow page, by keyboard too
        name = f'tabindex="0" role="group" aria-label="{escape(self.title)}"'
        return f'<div class="tcemu-scroll" style="overflow-x:auto" {name}>{table}</div>'

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.title, *(text.rstrip() for text in texts)])


def _cells(row: tuple[str, ...]) -> str:
    first, *others = (escape(cell) for cell in row)
    return f'<th scope="row"{_LEFT}>{first}</th>' + "".join(f"<td{_LEFT}>{cell}</td>" for cell in others)


@explained
def format_table(formats: Iterable[Format | str] = FORMATS) -> Table:
    """One row for each format: fields, largest and smallest values, infinity and NaN, all derived from the record.

    >>> print(tcemu.show.format_table(["e4m3"]).rows[0][0])
    e4m3
    """
    rows = formats_of(formats)
    columns = ("format", "bits", "largest", "smallest normal", "smallest subnormal", "infinity", "NaN patterns")
    return Table("Number formats", columns, tuple(_row(form) for form in rows))


def _row(form: Format) -> tuple[str, ...]:
    if form.kind != "float":
        sign = "sign + " if form.signed else ""
        return (form.name, f"{sign}{form.mantissa}", value(int(form.largest)), "", "", "no", "none")
    fields = f"{form.signed:d} + {form.exponent} + {form.mantissa}"
    large = value(form.largest, 9 if form.largest < 1e6 else 4)
    small = neat(form.smallest_subnormal) if form.zero and form.mantissa else "none"
    infinity = "yes" if form.infinities else "no"
    return (form.name, fields, large, neat(form.smallest_normal), small, infinity, _nans(form))


def _nans(form: Format) -> str:
    """How many patterns are NaN, not counting the padding."""
    if not form.has_nan:
        return "none"
    signs = 1 + form.signed
    return str(signs * ((1 << form.mantissa) - 1) if form.nan == "ieee" else signs)
