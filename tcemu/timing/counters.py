"""tcemu.timing.Counters: an observer that counts what a launch did, by instruction and by line of the kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from tcemu.errors import counted
from tcemu.machine import events
from tcemu.machine.events import Event, Site
from tcemu.timing.accesses import sectors, shared_wavefronts


@dataclass
class Line:
    """What one instruction did at one line of the kernel, in all warps and blocks.

    >>> from tcemu.timing import Counters
    >>> counters = Counters()
    >>> column = lambda warp: warp.ld_shared(128 * warp.laneid)  # a column of rows of 128 bytes: all in one bank
    >>> result = tcemu.launch(column, shared=4096, observers=[counters], sanitizer="off")
    >>> (line,) = counters.lines
    >>> line.opcode, line.issued, line.wavefronts, line.conflicts
    ('ld.shared.b32', 1, 32, 31)
    """

    site: Site
    opcode: str
    #: How often a warp executed it.
    issued: int = 0
    #: Passes over the banks of shared memory, and those of them that conflicts caused.
    wavefronts: int = 0
    conflicts: int = 0
    #: Bytes that the lanes read from shared memory and wrote to it; those of asynchronous copies are in `copied`.
    shared_read: int = 0
    shared_written: int = 0
    #: The same for global memory; sectors of 32 bytes, each counted once for each instruction of a warp.
    global_read: int = 0
    global_written: int = 0
    sectors: int = 0
    #: Bytes that asynchronous copies read from global memory, where a multicast reads once for all of its blocks.
    fetched: int = 0
    #: Bytes that asynchronous copies delivered, to shared or to global memory; a multicast delivers them to each block.
    copied: int = 0

    def add(self, other: Line) -> None:
        """Add the counts of another line."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


#: The counts of a line, by name.
COUNTS = tuple(column.name for column in fields(Line) if column.name not in ("site", "opcode"))
NOWHERE = Site("", 0, "")


class Counters:
    """An observer for tcemu.launch: it counts instructions, wavefronts, bytes and sectors, over all its launches.

    A copy counts where it is issued. The machine executes only the kernel's own instructions, without those that a
    compiler adds, so `issued` is less than a GPU issues in all.

    >>> from tcemu.gemm import mma_pipeline
    >>> from tcemu.timing import Counters
    >>> counters = Counters()
    >>> A, B = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    >>> D, result = mma_pipeline.multiply(A, B, observers=[counters])
    >>> counters.total.wavefronts, counters.total.conflicts  # 2 steps of 4 warps, 8 ldmatrix each, of 4 wavefronts
    (256, 0)
    >>> counters.total.copied == counters.total.fetched == A.nbytes + B.nbytes
    True
    >>> counters.issued["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"]
    128
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[Site, str], Line] = {}

    def __call__(self, event: Event) -> None:
        """Receive an event of the machine."""
        receive = _RECEIVERS.get(type(event))
        if receive is not None:
            receive(self, event)

    @property
    def lines(self) -> list[Line]:
        """One for each instruction at each line of the kernel: most wavefronts first, then most sectors."""
        return sorted(self._lines.values(), key=lambda line: (-line.wavefronts, -line.sectors, -line.issued))

    @property
    def issued(self) -> Counter[str]:
        """How often warps executed each opcode."""
        counts: Counter[str] = Counter()
        for line in self._lines.values():
            counts[line.opcode] += line.issued
        return counts

    @property
    def total(self) -> Line:
        """All lines together."""
        total = Line(NOWHERE, "all")
        for line in self._lines.values():
            total.add(line)
        return total

    def __str__(self) -> str:
        """A table: the lines with the most wavefronts and sectors."""
        shown = self.lines[:_SHOWN]
        rows = [(brief(line.site), line.opcode, *_numbers(line)) for line in shown]
        rows.append(("all", "", *_numbers(self.total)))
        more = len(self._lines) - len(shown)
        text = aligned(("line", "instruction", *_HEADS), rows)
        return f"{text}\n{counted(more, 'more line')}, each with fewer wavefronts" if more > 0 else text

    def __repr__(self) -> str:
        total = self.total
        totals = f"{counted(total.issued, 'instruction')}, {counted(total.wavefronts, 'wavefront')}"
        return f"<Counters: {totals}, {total.conflicts} of them by conflicts>"

    def at(self, site: Site, opcode: str) -> Line:
        """The counts of an instruction at a line, which start at zero.

        >>> from tcemu.timing.counters import NOWHERE, Counters
        >>> Counters().at(NOWHERE, "bar.sync").issued
        0
        """
        key = site, opcode
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(site, opcode)
        return line


# ---------------------------------------------------------------------------------------------- events


def _issued(counters: Counters, event: events.Issued) -> None:
    counters.at(event.by.site, event.opcode).issued += 1


def _accessed(counters: Counters, event: events.Accessed) -> None:
    line = counters.at(event.by.site, event.opcode)
    name = f"{event.space}_{'written' if event.writes else 'read'}"
    setattr(line, name, getattr(line, name) + event.size * len(event.addresses))
    if event.space == "shared":
        count, least = shared_wavefronts(event)
        line.wavefronts += count
        line.conflicts += count - least
    else:
        line.sectors += sectors(event.addresses, event.size)


def _copied(counters: Counters, event: events.CopyIssued) -> None:
    copy = event.copy
    line = counters.at(copy.by.site, copy.opcode)
    line.copied += copy.bytes
    if copy.number:
        return
    space, addresses, size = copy.reads
    if space == "global":
        line.fetched += size * len(addresses)
    else:
        space, addresses, size = copy.writes
    if space == "global" and len(addresses):
        line.sectors += sectors(addresses, size)


_RECEIVERS: dict[type[Event], Callable[[Counters, Any], None]] = {
    events.Issued: _issued,
    events.Accessed: _accessed,
    events.CopyIssued: _copied,
}

#: Lines that the table shows.
_SHOWN = 12
_BYTES = ("shared bytes", "global bytes", "sectors", "fetched bytes", "copied bytes")
_HEADS = ("issued", "wavefronts", "conflicts", *_BYTES)


def _numbers(line: Line) -> tuple[str, ...]:
    moved = line.shared_read + line.shared_written, line.global_read + line.global_written
    counts = (line.issued, line.wavefronts, line.conflicts, *moved, line.sectors, line.fetched, line.copied)
    return tuple(f"{count:,}" if count else "-" for count in counts)


def aligned(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table as text: the first two columns on the left, numbers on the right."""
    table = [heads, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def brief(site: Site | str) -> str:
    """A line without its file's folders, which Windows separates by backslashes."""
    return re.split(r"[\\/]", str(site))[-1]
