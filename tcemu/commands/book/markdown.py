"""A command's report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcemu.commands.report import Part, Report


def cell(text: object) -> str:
    """A text for a cell of a table."""
    return str(text).replace("\n", " ").replace("|", "\\|")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *([cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def of_report(report: Report, level: int) -> Iterator[str]:
    """The report's parts as lines of Markdown, with titles of that level."""
    for part in report.parts:
        yield from _part(part, level)


def _part(part: Part, level: int) -> Iterator[str]:
    if part.title:
        yield from (f"{'#' * level} {part.title}", "")
    for paragraph in part.paragraphs:
        yield from (_escaped(paragraph), "")
    if part.rows:
        rows = [[_escaped(each) for each in row] for row in part.rows]
        columns = [name or "\N{NO-BREAK SPACE}" for name in part.columns]
        yield from (table(columns, rows), "")
    if part.lines:
        yield from ("```text", *part.lines, "```", "")


def _escaped(text: str) -> str:
    """Text without accidental Markdown."""
    for sign in "\\`*_{}[]<>#":
        text = text.replace(sign, f"\\{sign}")
    return text
