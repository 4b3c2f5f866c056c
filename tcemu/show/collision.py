"""A report of the sanitizer as a picture: the two accesses, where they are, and the order that is missing."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box
from tcemu.show.svg import Drawing
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
    earlier, title = report.earlier, f"{report.rule}: {report.about.title}"
    sides = [(earlier.what, earlier.by, "fb")] if earlier else []
    first = str(report.message).split(" ", 1)[0].rstrip(":,")  # an opcode, if the message begins with one
    sides.append((first if "." in first else "the report's line", report.by, "fo"))
    boxes = [Box(16, 40, 320, 104), Box(424, 40, 320, 104)]
    accesses = [_access(box, *side) for box, side in zip(boxes, sides, strict=False)]
    bottom, both = 168, cut(f"Both concern {report.what}" if earlier else str(report.what), 105)
    body = svg.text(16, 22, title, "b"), accesses, _missing(*boxes) if earlier else ""
    note = svg.text(16, bottom, both, "s") if report.what else ""
    description = f"{report.message}. Fix: {report.fix}"
    return picture(title, description, 760 if earlier else 352, bottom + 18 * bool(report.what), (body, note))


def _access(box: Box, what: str, by: Any, style: str) -> Drawing:
    """One box: the instruction, who executed it, the line and its source."""
    file, line = by.site.file, by.site.line
    where = f"{cell(file) or Path(file).name}, line {line}, in {by.site.function.rsplit('.', 1)[-1]}"
    source = linecache.getline(file, line).strip()
    rows = [(what, "n b"), (f"block {by.block}, warp {by.warp}", "s"), (where, "s"), (source, "n")]
    return box.rect(style), box.lines([(cut(row, _FIT), look) for row, look in rows], 10, 22, 24)


def _missing(first: Box, second: Box) -> Drawing:
    """Between the boxes: a broken line, because nothing orders one access after the other."""
    start, end, y = first.x + first.wide, second.x, first.y + first.high / 2
    middle = (start + end) / 2
    cross = svg.path(f"M{middle - 6} {y - 6}L{middle + 6} {y + 6}M{middle + 6} {y - 6}L{middle - 6} {y + 6}", "ko")
    return svg.line(start, y, end, y, "k", dash="4 4"), cross, svg.text(middle, y - 16, "no order", "s b", "middle")
