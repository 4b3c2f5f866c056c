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
from typing import Any

from filelock import FileLock, Timeout

TEXT = "tcemu is compiling its kernels for this processor, once"
ADVICE = "`tcemu warm` compiles all of them in advance"


class Notice:
    """Shows the line: as HTML in a notebook, as a bar that disappears in a terminal, as one plain line elsewhere."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._cell = -1
        self._said = False
        self._lock = FileLock(Path(tempfile.gettempdir()) / f"tcemu-notice-{_user()}.lock")

    def begin(self, kernel: str) -> None:
        """The compilation of a kernel begins."""
        if os.environ.get("TCEMU_QUIET"):
            return
        shell = _notebook()
        if shell is not None:
            self._in_notebook(shell, kernel)
        elif self._mine():
            self._elsewhere(kernel)

    def end(self) -> None:
        """It has ended."""
        if self._shown is None:
            return
        if hasattr(self._shown, "stop"):
            self._shown.stop()
            self._shown = None
        else:
            self._shown.update({"text/plain": "", "text/html": ""}, raw=True)

    def _in_notebook(self, shell: Any, kernel: str) -> None:
        from IPython.display import display

        text = f"{TEXT}: {kernel}"
        # a bar without a value moves by itself, even while the kernel is busy
        line = {"text/plain": text, "text/html": f"<label>{text} <progress></progress></label>"}
        if self._shown is not None and self._cell == shell.execution_count:
            self._shown.update(line, raw=True)
        else:
            self._shown = display(line, raw=True, display_id=True)
            self._cell = shell.execution_count

    def _elsewhere(self, kernel: str) -> None:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn()
            self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self._shown.add_task(f"{TEXT}: {kernel}", total=None)
            self._shown.start()
        elif not self._said:
            self._said = True
            sys.stderr.write(f"{TEXT}; {ADVICE}\n")

    def _mine(self) -> bool:
        """Whether this process shows the line: the first of those that run does, until it ends."""
        try:
            if not self._lock.is_locked:
                self._lock.acquire(blocking=False)
        except Timeout:
            return False
        except (OSError, NotImplementedError):  # files cannot be locked here: better twice than not at all
            return True
        return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have a user without a name
        return "user"


def _notebook() -> Any:
    """The shell of a notebook's kernel, if this is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None
