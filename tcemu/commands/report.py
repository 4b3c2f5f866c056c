"""A command's answer as data, and its output as text for a terminal, as CSV, as JSON or as an SVG picture."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tcemu.errors import TcemuError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tcemu.show import Picture

#: Width of text that is written to a file or another program.
PLAIN_WIDTH = 80
#: The greatest width of text in a terminal: long lines are hard to read.
_WIDEST = 100
#: If a column has only single words of at most this many characters, none of them is broken.
_WHOLE = 32
FORMATS = ("text", "csv", "json", "svg")
_SUFFIXES = {".csv": "csv", ".json": "json", ".svg": "svg"}


@dataclass(frozen=True)
class Part:
    """A part of a report: a title, paragraphs, a table, and lines that are not wrapped; each may be missing."""

    title: str = ""
    paragraphs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """One answer in all its formats."""

    heading: str
    parts: tuple[Part, ...]
    #: Header and rows of the CSV.
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...] | Callable[[], tuple[tuple[object, ...], ...]]
    #: The content of the JSON. If it is large and rarely wanted: a function that makes it, as for the rows.
    data: Any
    #: Draws the picture; None if there is nothing to draw.
    draw: Callable[[], Picture] | None = None


def form_of(chosen: str | None, output: Path | None) -> str:
    """The format that was chosen, by default according to the file's suffix."""
    return chosen or (_SUFFIXES.get(output.suffix.lower(), "text") if output else "text")


def write(report: Report, form: str, output: Path | None) -> None:
    """Write the report to the file, or to standard output. Raises TcemuError if that fails."""
    if form == "text" and output is None:
        _print(report, sys.stdout)
        return
    text = render(report, form)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TcemuError(f"cannot write {output}: {error.strerror}") from None


def render(report: Report, form: str) -> str:
    """The report as text in one of FORMATS."""
    return _RENDER[form](report)


def _csv(report: Report) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(report.columns)
    writer.writerows(report.rows() if callable(report.rows) else report.rows)
    return out.getvalue()


def _json(report: Report) -> str:
    data = report.data() if callable(report.data) else report.data
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _svg(report: Report) -> str:
    if report.draw is None:
        raise TcemuError("there is no picture of this; --format svg draws an instruction, or one --operand of it")
    return report.draw().svg + "\n"


def _text(report: Report) -> str:
    out = io.StringIO()
    _print(report, out)
    return out.getvalue()


_RENDER: dict[str, Callable[[Report], str]] = {"csv": _csv, "json": _json, "svg": _svg, "text": _text}

# ---------------------------------------------------------------------------------------------------- text


def _print(report: Report, out: IO[str]) -> None:
    """Print text with rich: bold and in colour if the terminal has them, but they carry no meaning of their own."""
    from rich.console import Console

    console = Console(file=out, highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _WIDEST) if out.isatty() else PLAIN_WIDTH
    with console.capture() as captured:
        console.print(report.heading, style="bold", soft_wrap=True)
        for part in report.parts:
            _print_part(console, part)
    out.write("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def _print_part(console: Console, part: Part) -> None:
    from rich.padding import Padding

    console.print()
    if part.title:
        console.print(part.title, style="bold cyan")
    for paragraph in part.paragraphs:
        console.print(Padding(paragraph, (0, 0, 0, 2)))
    if part.rows:
        if part.paragraphs:
            console.print()
        _print_table(console, part)
    for line in part.lines:
        console.print(f"  {line}", soft_wrap=True)


def _print_table(console: Console, part: Part) -> None:
    """Print columns side by side. If a row does not fit, rich folds its cells; it is too slow for thousands of rows."""
    from rich.padding import Padding

    columns = list(zip(part.columns, *part.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) + 2 * len(widths) > console.width:
        console.print(Padding(_table(part), (0, 0, 0, 2)))
        return
    padded = [
        [f"{cell:{'>' if _numbers(column[1:]) else '<'}{width}}" for cell in column]
        for column, width in zip(columns, widths, strict=True)
    ]
    head, *rows = ("  " + "  ".join(row) for row in zip(*padded, strict=True))
    if any(part.columns):
        console.print(head, style="dim", soft_wrap=True)
    console.print("\n".join(rows), soft_wrap=True)


def _numbers(cells: Sequence[str]) -> bool:
    return all(cell.isdigit() or not cell for cell in cells)


def _table(part: Part) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(part.columns))
    for name, *cells in zip(part.columns, *part.rows, strict=True):
        short = all(" " not in cell and len(cell) <= _WHOLE for cell in cells)
        table.add_column(name, justify="right" if _numbers(cells) else "left", overflow="fold", no_wrap=short)
    for row in part.rows:
        table.add_row(*row)
    return table
