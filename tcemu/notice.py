"""A line with a bar that says which kernels are being compiled, where the user looks: notebook, terminal or log.

It disappears when the work is done. If several processes share a terminal or log, only one of them shows it, and
TCEMU_QUIET=1 silences all.
"""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from tcemu.progress import Progress, place

TEXT = "tcemu is compiling its kernels for this processor, once"
ADVICE = "`tcemu warm` compiles all of them in advance"


class Notice:
    """Shows the line: with a bar that disappears in a notebook or terminal, as one plain line elsewhere."""

    def __init__(self) -> None:
        self._progress = Progress(TEXT)
        self._said = False
        self._lock, self._owner = _lock(), os.getpid()

    def begin(self, kernel: str) -> None:
        """The compilation of a kernel begins."""
        where = place()
        if where == "notebook" or (where == "terminal" and self._mine()):
            self._progress.show(what=f"{TEXT}: {kernel}")
        elif where == "log" and not self._said and self._mine():
            self._said = True
            sys.stderr.write(f"{TEXT}; {ADVICE}\n")

    def end(self) -> None:
        """It has ended."""
        self._progress.end()

    def _mine(self) -> bool:
        """Whether this process shows the line: the first of those that run does, until it ends."""
        try:
            if self._owner != os.getpid():  # a fork does not inherit a lock
                self._lock, self._owner = _lock(), os.getpid()
            if not self._lock.is_locked:
                self._lock.acquire(blocking=False)
        except Timeout:
            return False
        except (OSError, NotImplementedError):  # files cannot be locked here: better twice than not at all
            return True
        return True


def _lock() -> FileLock:
    return FileLock(Path(tempfile.gettempdir()) / f"tcemu-notice-{_user()}.lock")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have a user without a name
        return "user"
