"""A report of the sanitizer as a picture: the two accesses, where they are, and the order that is missing."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.tracebacks import cell

_WIDTH, _BOX, _GAP, _TOP, _HEIGHT = 760, 320, 88, 40, 104
#: Characters of a line that fit into a box.
_FIT = 46


def collision(report: Any) -> Picture:
    """The two accesses of a report side by side: their warps, their lines, and the order that is missing.

    Reports of a single access have one box.

    >>> def racing(warp):
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     warp.ld_shared(4 * (63 - warp.threads))  # what the other warp writes, without a barrier
    >>> result = tcemu.launch(racing, block=64, shared=256, sanitizer="collect")
    >>> from tcemu.show.collision import collision
    >>> collision(result.reports[0]).title
    'shared-race: a race in shared memory between warps'
    """
    earlier = report.earlier
    sides = [(earlier.what, earlier.by)] if earlier else []
    sides.append((_opcode(report), report.by))
    lefts = [16, 16 + _BOX + _GAP]
    body = [svg.text(16, 22, f"{report.rule}: {report.about.title}", "b")]
    for left, (what, by), style in zip(lefts, sides, ("fb", "fo") if earlier else ("fo",), strict=False):
        body += _access(left, what, by, style)
    if earlier:
        body += _missing(lefts[0] + _BOX, lefts[1])
    bottom = _TOP + _HEIGHT + 24
    if report.what:
        body.append(svg.text(16, bottom, _cut(f"Both concern {report.what}" if earlier else report.what, 105), "s"))
        bottom += 18
    description = f"{report.message}. Fix: {report.fix}"
    title = f"{report.rule}: {report.about.title}"
    return picture(title, description, _WIDTH if earlier else _BOX + 32, bottom, body)


def _access(left: float, what: str, by: Any, style: str) -> list[str]:
    """One box: the instruction, who executed it, the line and its source."""
    file, line = by.site.file, by.site.line
    where = f"{cell(file) or Path(file).name}, line {line}, in {by.site.function.rsplit('.', 1)[-1]}"
    source = linecache.getline(file, line).strip()
    rows = [(what, "n b"), (f"block {by.block}, warp {by.warp}", "s"), (where, "s"), (source, "n")]
    body = [svg.rect(left, _TOP, _BOX, _HEIGHT, style)]
    return body + [svg.text(left + 10, _TOP + 22 + 24 * row, _cut(told), look) for row, (told, look) in enumerate(rows)]


def _missing(start: float, end: float) -> list[str]:
    """Between the boxes: a broken line, because nothing orders one access after the other."""
    middle, y = (start + end) / 2, _TOP + _HEIGHT / 2
    cross = svg.path(f"M{middle - 6} {y - 6}L{middle + 6} {y + 6}M{middle + 6} {y - 6}L{middle - 6} {y + 6}", "ko")
    return [
        svg.line(start, y, end, y, "k", dash="4 4"),
        cross,
        svg.text(middle, y - 16, "no order", "s b", "middle"),
    ]


def _opcode(report: Any) -> str:
    """The instruction of the access that the report is about: the first word of the message, if it is an opcode."""
    first = str(report.message).split(" ", 1)[0].rstrip(":,")
    return first if "." in first else "the report's line"


def _cut(text: str, most: int = _FIT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
