"""A worker: a process that has loaded tcemu once, and forks for each submission.

    python -m tcemu.grade.worker        reads tasks and writes grades, one at a time, each with its length in front

A new child grades each submission, so that none can leave anything behind for the next, and what kills the child kills
nothing else.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from typing import IO, Any, cast

from tcemu.grade.box import PATIENCE, BoxKilled
from tcemu.grade.records import Grade
from tcemu.grade.room import BoxUnavailable
from tcemu.grade.work import Task, grade, quarantined

_LENGTH = struct.Struct("<I")
#: How many workers a submission may kill.
DEATHS = 3
#: Bytes of address space of a child, and seconds beyond the limits of its notebooks.
_MEMORY, _SPARE = 4 << 30, 60.0
#: Seconds before another attempt to start a box; and what stands for a grade if no box starts, or if one was killed.
_PAUSE, _NO_BOX, _KILLED = 1.0, "no-box", "killed"


class WorkerDied(Exception):  # noqa: N818 - what happened
    """The process that graded has ended without a grade."""


class Worker:
    """A worker process, started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def grade(self, task: Task) -> Grade:
        """The grade of a submission. One that kills its worker too often is quarantined. Raises BoxUnavailable."""
        refused: BoxUnavailable | None = None
        for _ in range(DEATHS):
            if self._closed:
                raise WorkerDied
            try:
                return self._asked(task)
            except BoxUnavailable as error:  # the machine may have been short of memory for a moment
                refused = error
                time.sleep(_PAUSE)
            except WorkerDied:
                refused = None
        if refused:
            raise refused
        return quarantined(task, f"Grading it crashed {DEATHS} workers, so it is not tried again.")

    def _asked(self, task: Task) -> Grade:
        process = self._started()
        incoming, outgoing = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        try:
            _write(incoming.fileno(), task.to_json().encode())
            answer = _read(outgoing.fileno())
        except OSError:
            answer = None
        if answer is None:  # the worker itself is gone
            self._end()
            raise WorkerDied
        if not answer:
            raise WorkerDied
        seconds, _, text = answer.decode().partition(" ")
        if seconds == _NO_BOX:
            raise BoxUnavailable(text)
        if seconds == _KILLED:
            raise BoxKilled
        graded = Grade.of_json(text)
        return Grade(**{**vars(graded), "seconds": float(seconds)})

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, "TCEMU_QUIET": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tcemu.grade.worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
            )  # fmt: skip
        return self._process

    def close(self) -> None:
        """End the worker, and whatever it is grading; it does not start again."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _write(pipe: int, content: bytes) -> None:
    message = memoryview(_LENGTH.pack(len(content)) + content)
    while message:
        message = message[os.write(pipe, message) :]


def _read(pipe: int, until: float | None = None) -> bytes | None:
    """A message; None at the end of the pipe, or if it does not come in time."""
    prefix = _exactly(pipe, _LENGTH.size, until)
    return None if prefix is None else _exactly(pipe, _LENGTH.unpack(prefix)[0], until)


def _exactly(pipe: int, size: int, until: float | None) -> bytes | None:
    held = bytearray()
    while len(held) < size:
        left = None if until is None else max(0.0, until - time.monotonic())
        if left is not None and not select.select([pipe], [], [], left)[0]:
            return None
        piece = os.read(pipe, min(size - len(held), 1 << 20))
        if not piece:
            return None
        held += piece
    return bytes(held)


# ---------------------------------------------------------------------------------------------- in the worker


def load() -> str:
    """Load what every submission needs, so that the children inherit it: the exercises, numba, and common kernels.

    The answer is the folder of the compiled kernels if they are not beside their sources, which the box sees anyway.
    """
    from tcemu.backend import backend
    from tcemu.course.bank import exercises
    from tcemu.course.judges import Kernel, Values

    if backend() != "numba":
        return ""
    for exercise in exercises().values():
        if isinstance(exercise.judge, Values | Kernel):
            with contextlib.suppress(Exception):  # a row that fails says so when it is used
                exercise.judge.right(exercise.given())
    from tcemu.kernels.host.compiling import cache_folder

    folder = cache_folder()
    return "" if folder is None or folder.name == "__pycache__" else str(folder)


def serve() -> None:
    """Grade tasks as they arrive, until the pipe is closed."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    die_with_parent()
    cache = load()
    while (text := _read(incoming)) is not None:
        _write(outgoing, _forked(text, cache))


def _forked(text: bytes, cache: str) -> bytes:
    """The grade that a child makes, with its seconds in front; nothing if the child dies."""
    task = Task.of_json(text.decode())
    until = time.monotonic() + _SPARE + PATIENCE * task.limits.notebook * max(1, len(task.asked))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _child(task, cache, writing)
    os.close(writing)
    answer = _read(reading, until) or b""
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer


def _child(task: Task, cache: str, writing: int) -> Any:
    """Grade, and end; whatever happens, this process does not continue."""
    try:
        die_with_parent()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        graded = grade(task, cache)
        _write(writing, f"{graded.seconds} {graded.to_json()}".encode())
    except BoxUnavailable as error:
        _write(writing, f"{_NO_BOX} {error}".encode())
    except BoxKilled:
        _write(writing, f"{_KILLED} ".encode())
    except BaseException as error:  # noqa: BLE001 - the error is reported, and the process ends
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
    finally:
        os._exit(0)


def die_with_parent() -> None:
    """End this process when its parent ends (Linux)."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    serve()
