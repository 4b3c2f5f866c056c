"""``tcemu warm``: compile all kernels in advance, on all cores."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcemu.backend import backend
from tcemu.kernels.host.threads import cores
from tcemu.progress import Progress

if TYPE_CHECKING:
    from tcemu.commands.works import Work

#: The file beside the compiled kernels that says what they were compiled for.
STAMP = "tcemu-warm.txt"


def _prepare() -> None:
    """Set up a process that only compiles: the kernels compute from the first product on, without any notice."""
    import numpy as np

    os.environ.update(TCEMU_KERNELS="numba", TCEMU_QUIET="1")
    np.seterr(all="ignore")


def perform_all(some: Sequence[Work]) -> Iterator[Work]:
    """Perform works on all cores, in processes of their own, and yield each when it is done."""
    from tcemu.commands.works import perform

    with ProcessPoolExecutor(min(cores(), len(some)), get_context("spawn"), _prepare) as pool:
        with _deaf():
            waiting = {pool.submit(perform, work): work for work in some}
        try:
            for done in as_completed(waiting):
                done.result()
                yield waiting[done]
        except KeyboardInterrupt:
            for process in active_children():  # what they were compiling is not worth waiting for
                process.kill()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Let the processes that are started here hear no Ctrl + C, which this process hears for them, a little later."""
    if sys.platform == "win32":  # which has no masks of signals
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def warm_up() -> str:
    """Compile what is not compiled for this processor yet, and return a sentence about it; "" if nothing was left."""
    if backend() != "numba":
        return "There is nothing to compile: the reference computes, because numba is not installed or is switched off."
    from tcemu.kernels.host.compiling import cache_folder, fingerprint

    folder, wanted = cache_folder(), fingerprint()
    if folder is None:
        return "There is no folder to keep compiled kernels in; set NUMBA_CACHE_DIR to one."
    stamp = folder / STAMP
    if _text(stamp) == wanted:
        return ""
    click.echo(
        "Compiling the kernels for this processor, once. This takes about a minute; with --no-warm, lab, grade and "
        "classroom start without it.",
        err=True,
    )
    from tcemu.commands.works import compile_small, works  # and with them the whole emulator

    some = _spread(works())
    try:
        with Progress("compiling", len(some)) as shown:
            shown.show()
            for done, _ in enumerate(perform_all(some), 1):
                shown.show(done)
            compile_small()
        stamp.write_text(wanted, encoding="utf-8")
    except (OSError, BrokenExecutor) as error:  # no space, no memory: the course opens anyway
        return f"Not all kernels could be compiled in advance ({error}); each is compiled when it is first needed."
    return f"The kernels are compiled, in {folder}."


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _spread(some: list[Work]) -> list[Work]:
    """Move works that are neighbours in the tables, and need the same kernels, far apart: processes wait less."""
    step = 1 + int(len(some) ** 0.5)
    return [work for start in range(step) for work in some[start::step]]


@click.command()
def warm() -> None:
    """Compile the kernels in advance, on all cores.

    Without this, each kernel is compiled when it is first needed. `tcemu lab` does it before it opens for the first
    time. The compiled kernels are kept for this processor and this version of tcemu.
    """
    click.echo(warm_up() or "The kernels are already compiled; there is nothing to do.")
