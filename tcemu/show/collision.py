"""A report of the sanitizer as a picture: the two accesses, where they are, and the order that is missing."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box
from tcemu.show.words import cut
from tcemu.tracebacks import cell

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
    boxes = [Box(16, 40, 320, 104), Box(424, 40, 320, 104)]
    body = [svg.text(16, 22, f"{report.rule}: {report.about.title}", "b")]
    for box, (what, by), style in zip(boxes, sides, ("fb", "fo") if earlier else ("fo",), strict=False):
        body += _access(box, what, by, style)
    if earlier:
        body += _missing(*boxes)
    bottom = 168
    if report.what:
        body.append(svg.text(16, bottom, cut(f"Both concern {report.what}" if earlier else report.what, 105), "s"))
        bottom += 18
    description = f"{report.message}. Fix: {report.fix}"
    title = f"{report.rule}: {report.about.title}"
    return picture(title, description, 760 if earlier else 352, bottom, body)


def _access(box: Box, what: str, by: Any, style: str) -> list[str]:
    """One box: the instruction, who executed it, the line and its source."""
    file, line = by.site.file, by.site.line
    where = f"{cell(file) or Path(file).name}, line {line}, in {by.site.function.rsplit('.', 1)[-1]}"
    source = linecache.getline(file, line).strip()
    rows = [(what, "n b"), (f"block {by.block}, warp {by.warp}", "s"), (where, "s"), (source, "n")]
    lines = [svg.text(box.x + 10, box.y + 22 + 24 * n, cut(row, _FIT), look) for n, (row, look) in enumerate(rows)]
    return [box.rect(style), *lines]


def _missing(first: Box, second: Box) -> list[str]:
    """Between the boxes: a broken line, because nothing orders one access after the other."""
    start, end, y = first.x + first.wide, second.x, first.y + first.high / 2
    middle = (start + end) / 2
    cross = svg.path(f"M{middle - 6} {y - 6}L{middle + 6} {y + 6}M{middle + 6} {y - 6}L{middle - 6} {y + 6}", "ko")
    return [svg.line(start, y, end, y, "k", dash="4 4"), cross, svg.text(middle, y - 16, "no order", "s b", "middle")]


def _opcode(report: Any) -> str:
    """The instruction of the access that the report is about: the first word of the message, if it is an opcode."""
    first = str(report.message).split(" ", 1)[0].rstrip(":,")
    return first if "." in first else "the report's line"
