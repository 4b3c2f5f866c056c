"""How much of the machine's memory a box uses, and a thread that watches it while others wait or compute."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

#: Seconds between two measurements.
_EVERY = 0.3
#: Bytes that the kernel takes for a file or folder without content.
_INODE = 1024
#: The lines that count: pages in memory, each divided by the number of its sharers, and pages swapped out.
_COUNTED = ("Pss:", "SwapPss:")


def resident(process: int) -> int:
    """Bytes of memory of a process and its descendants, each with its share of shared pages. 0 if it has ended.

    >>> from tcemu.grade.scales import resident
    >>> resident(-1)
    0
    """
    return sum(map(_own, _family(process)))


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


def _own(process: int) -> int:
    place = Path("/proc", str(process))
    try:
        lines = (place / "smaps_rollup").read_text().splitlines()
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(_COUNTED))
    except PermissionError:  # everyone may read less exact figures, in which shared pages count in full
        with suppress(OSError):
            return os.sysconf("SC_PAGE_SIZE") * int((place / "statm").read_text().split()[1])
    except OSError:
        pass
    return 0


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
