"""A memory cgroup for a box, on machines where the grader may make one: the kernel then counts every page.

Cgroups of version 2 where the grader's own is delegated to it (systemd: `Delegate=yes`, or root), and of version 1
where the memory controller is mounted and writable. Elsewhere there is none, and `Scales` counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
#: The files of a group that hold its limits, where there are such: memory, and memory with swap.
_LIMITS = {1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), 2: ("memory.max",)}
#: The file that counts processes killed because the group was at its limit, in a line "oom_kill N".
_EVENTS = {1: "memory.oom_control", 2: "memory.events"}
#: How often removing a group is tried, and seconds in between: its processes may still be ending.
_TRIES, _PAUSE = 40, 0.05
_numbers = count()
#: How the name of a group begins; the number of the process that made it follows.
_NAME = "tcemu-box-"


@dataclass(frozen=True)
class Group:
    """One box's group."""

    place: Path
    version: int

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command that runs `command` in the group: it enters before there is anything to count."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.place / "cgroup.procs"), *command]

    @property
    def full(self) -> bool:
        """Whether the kernel has killed a process because the group was at its limit."""
        with suppress(OSError, ValueError):
            lines = (self.place / _EVENTS[self.version]).read_text().splitlines()
            return any(int(line.split()[1]) > 0 for line in lines if line.startswith("oom_kill "))
        return False

    def remove(self) -> None:
        """Remove the group, whose processes have been killed."""
        for _ in range(_TRIES):
            try:
                self.place.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_PAUSE)
            else:
                return


def made(memory: int) -> Group | None:
    """A new group that holds at most `memory` bytes; None if this machine does not let the grader make one.

    >>> from tcemu.grade.cgroups import made
    >>> group = made(1 << 30)
    >>> group is None or group.remove() is None
    True
    """
    for parent, version in _parents():
        _forget_the_dead(parent)
        place = parent / f"{_NAME}{os.getpid()}-{next(_numbers)}"
        try:
            place.mkdir()
        except OSError:
            continue
        group = Group(place, version)
        try:
            _limit(group, memory)
        except OSError:
            group.remove()
            continue
        return group
    return None


def _forget_the_dead(parent: Path) -> None:
    """Remove the groups of graders that were killed."""
    with suppress(OSError):
        for place in parent.glob(f"{_NAME}*"):
            grader = place.name.removeprefix(_NAME).partition("-")[0]
            if not Path("/proc", grader).exists():
                with suppress(OSError):
                    place.rmdir()


def _limit(group: Group, memory: int) -> None:
    first, *others = _LIMITS[group.version]
    (group.place / first).write_text(str(memory))
    for name in others:
        with suppress(OSError):  # the kernel may not count swap
            (group.place / name).write_text(str(memory))
    with suppress(OSError):
        (group.place / "memory.swap.max").write_text("0")


@cache
def _parents() -> tuple[tuple[Path, int], ...]:
    """The groups in which this process may make others, with their versions."""
    return tuple(_usable())


def _usable() -> Iterator[tuple[Path, int]]:
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                own = _ROOT / path.lstrip("/")
                # A group that holds processes cannot divide its memory among others, unless it is the root.
                for parent in (own, own.parent):
                    with suppress(OSError):
                        if "memory" in (parent / "cgroup.subtree_control").read_text().split():
                            yield parent, 2
            elif "memory" in controllers.split(","):
                yield _ROOT / "memory" / path.lstrip("/"), 1
