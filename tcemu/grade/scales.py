"""How much of the machine's memory and processor time a box uses, and a thread that watches the memory.

Memory is weighed here only where the kernel does not: where there is no cgroup for the box. A box is looked at five
times a second, so its processes are found through the kernel's lists of children: psutil reads every process of the
machine, which takes some ten times as long.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

#: Seconds between two measurements.
_EVERY = 0.3
#: Bytes that the kernel takes for a file or folder without content.
_INODE = 1024
#: The lines that count: pages in memory, each divided by the number of its sharers, and pages swapped out.
_COUNTED = ("Pss:", "SwapPss:")
#: The fields of /proc/PID/stat with a process's time and that of its children that have ended, after its name.
_TIMES = slice(11, 15)


def resident(process: int) -> int:
    """Bytes of memory of a process and its descendants, each with its share of shared pages. 0 if it has ended.

    Memory that processes share without a file counts with its whole size, once: a process may give its pages back
    (MADV_DONTNEED) while the memory keeps them.

    >>> from tcemu.grade.scales import resident
    >>> resident(-1)
    0
    """
    shared: dict[str, int] = {}
    return sum(_own(each, shared) for each in _family(process)) + sum(shared.values())


def processor_time(process: int) -> float:
    """Seconds of processor time of a process, its descendants, and those of them that have ended.

    >>> from tcemu.grade.scales import processor_time
    >>> processor_time(-1)
    0.0
    """
    ticks = 0
    for each in _family(process):
        with suppress(OSError, ValueError):
            fields = Path("/proc", str(each), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += sum(map(int, fields[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")


def in_files(process: int, place: str) -> int:
    """Bytes of memory that an in-memory folder takes, which only the children of a process see.

    >>> from tcemu.grade.scales import in_files
    >>> in_files(-1, "tmp")
    0
    """
    for child in _children(process):
        with suppress(OSError):
            held = os.statvfs(f"/proc/{child}/root/{place.lstrip('/')}")
            return (held.f_blocks - held.f_bfree) * held.f_frsize + (held.f_files - held.f_ffree) * _INODE
    return 0


def _family(process: int) -> Iterator[int]:
    """A process and its descendants."""
    yield process
    for child in _children(process):
        yield from _family(child)


def _children(process: int) -> list[int]:
    try:
        tasks = list(Path("/proc", str(process), "task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return []


def _own(process: int, shared: dict[str, int]) -> int:
    """Bytes of one process; what it shares without a file is added to `shared`, by its inode."""
    place = Path("/proc", str(process))
    try:
        whole = _shared(place, shared)
        lines = (place / ("smaps" if whole else "smaps_rollup")).read_text().splitlines()
        return sum(1024 * int(line.split()[1]) for line in _private(lines) if line.startswith(_COUNTED))
    except PermissionError:  # everyone may read less exact figures, in which shared pages count in full
        with suppress(OSError):
            return os.sysconf("SC_PAGE_SIZE") * int((place / "statm").read_text().split()[1])
    except OSError:
        pass
    return 0


def _shared(place: Path, shared: dict[str, int]) -> bool:
    """Add the sizes of mappings that are shared and have no file; whether there are any."""
    some = False
    for line in (place / "maps").read_text().splitlines():
        if _is_shared(line):
            bounds, _, _, _, inode, *_ = line.split()
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            shared[inode] = max(shared.get(inode, 0), end - start)
            some = True
    return some


def _is_shared(line: str) -> bool:
    """Whether a line of maps or smaps begins such a mapping."""
    parts = line.split()
    return len(parts) > 5 and parts[1].endswith("s") and line.endswith("(deleted)")


def _private(lines: Iterable[str]) -> Iterator[str]:
    """The lines of smaps about other mappings."""
    counts = True
    for line in lines:
        if not line.split(maxsplit=1)[0].endswith(":"):  # the head of a mapping
            counts = not _is_shared(line)
        if counts:
            yield line


class Scales:
    """Weighs a box repeatedly until `stop`, and calls `too_heavy` once if its memory exceeds `most` bytes.

    `process` is bubblewrap's, and `place` the folder in which the box may write; "" if it has none of its own. Judges
    compute while it weighs.
    """

    def __init__(self, process: int, place: str, most: int, too_heavy: Callable[[], object]) -> None:
        self._process, self._place, self._most, self._too_heavy = process, place, most, too_heavy
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._weigh, daemon=True)
        self._thread.start()

    def _weigh(self) -> None:
        while not self._ended.wait(_EVERY):
            files = in_files(self._process, self._place) if self._place else 0
            if resident(self._process) + files > self._most:
                self._too_heavy()
                return

    def stop(self) -> None:
        """Stop weighing."""
        self._ended.set()
        self._thread.join()
