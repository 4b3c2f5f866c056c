"""Locks between processes: a file that one of them holds, and gives back when it ends, however it ends."""

from __future__ import annotations

import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Seconds between two looks at a lock that another process holds.
_AGAIN = 0.05


class Lock:
    """A file at `path`, which is made; it stays, empty. Where files cannot be locked, everybody gets the lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self, patience: float = 0) -> bool:
        """Take the lock, if no other process holds it for longer than `patience` seconds; tell whether it is held."""
        if self._file is not None:
            return True
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return True
        until = time.monotonic() + patience
        while not _locked(file):
            if time.monotonic() >= until:
                os.close(file)
                return False
            time.sleep(_AGAIN)
        self._file = file
        return True

    def give_back(self) -> None:
        """Let another process have it."""
        if self._file is not None:
            os.close(self._file)  # which unlocks it
            self._file = None


def _locked(file: int) -> bool:
    """Whether this process has locked an open file now."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):  # another process holds it, in the words of each system
        return False
    except OSError:  # a file system without locks
        return True
    return True
