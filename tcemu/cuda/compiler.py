"""The compiler's process: starts it early, keeps it warm, and survives when it crashes or hangs."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tcemu.child import Child, Ended, Silent
from tcemu.cuda.nvrtc import Answer, Request
from tcemu.cuda.toolkit import toolkit
from tcemu.errors import CompilationError, Interrupted
from tcemu.extras import install_extra
from tcemu.progress import Progress

#: Seconds that a compilation may take, and that the process may take to start.
TIME_LIMIT = 300.0
#: Seconds between two looks at whether there is an answer, and before a bar appears: a source may need several.
_LOOK, _PATIENCE = 0.5, 1.0

_AFTERWARDS = "Your session continues; the next compilation starts a new process"


def _start(library: str) -> Child:
    return Child(f"from tcemu.cuda.nvrtc import main; main({library!r})")


#: What starts the process, innermost last.
_starts: list[Callable[[str], Child]] = [_start]
_lock = threading.RLock()
#: the process id of whoever started it, the process, and NVRTC's version once it has told it
_held: list[Any] = []


def begin() -> None:
    """Start the process, if it does not run; return at once. Raises MissingPackage without NVRTC."""
    with _lock:
        if _held and (_held[0] != os.getpid() or not _held[1].alive):
            _held.clear()
        if not _held:
            library = str(toolkit().library)
            _held[:] = os.getpid(), _starts[-1](library), None


@contextmanager
def started_by(start: Callable[[str], Child]) -> Iterator[None]:
    """Compile in processes that `start` makes, such as in a box, and in none that runs already.

    >>> from tcemu.cuda import compiler
    >>> with compiler.started_by(lambda library: None):
    ...     pass
    """
    close()
    _starts.append(start)
    try:
        yield
    finally:
        close()
        _starts.pop()


def version() -> tuple[int, int]:
    """NVRTC's version, such as (13, 4). Raises MissingPackage, or CompilationError if it does not load."""
    with _lock:
        begin()
        if _held[2] is None:
            answer = _next()
            if isinstance(answer, str):
                close()
                raise CompilationError(
                    f"NVRTC, the compiler of CUDA C++, does not load ({answer}); {install_extra('cuda')}"
                )
            _held[2] = answer
        return (int(_held[2][0]), int(_held[2][1]))


def ask(request: Request) -> Answer:
    """What the compiler says to a source. Raises CompilationError if its process ends or does not answer."""
    with _lock:
        version()
        try:
            _held[1].send(request)
        except Ended as how:
            close()
            raise _gone(how) from None
        answer = _next()
    assert isinstance(answer, Answer)  # noqa: S101 - the other side is ours
    return answer


def _next() -> Any:
    try:
        with Progress("NVRTC compiles", patience=_PATIENCE) as bar:
            return _answer(bar)
    except Silent:
        close()
        raise CompilationError(
            f"NVRTC did not finish within {TIME_LIMIT:g} s and was stopped: does a template recurse without end? "
            f"{_AFTERWARDS}"
        ) from None
    except Ended as how:
        close()
        raise _gone(how) from None
    except KeyboardInterrupt:  # the result is no longer wanted
        close()
        raise Interrupted(f"the compilation was interrupted. {_AFTERWARDS}") from None
    except BaseException:
        close()
        raise


def _answer(bar: Progress) -> Any:
    """The next answer. Raises Silent if it does not come within the limit."""
    until = time.monotonic() + TIME_LIMIT
    while True:
        left = until - time.monotonic()
        try:
            return _held[1].next(max(min(left, _LOOK), 0))
        except Silent:
            if left <= _LOOK:
                raise
            bar.show()


def _gone(how: Ended) -> CompilationError:
    return CompilationError(
        f"NVRTC's process ended while it compiled this source ({how}): the compiler has crashed, or memory ran out. "
        f"{_AFTERWARDS}"
    )


@atexit.register
def close() -> None:
    """End the process; the next compilation starts another."""
    with _lock:
        if _held and _held[0] == os.getpid():
            _held[1].stop()
        _held.clear()
