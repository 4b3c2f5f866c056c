"""The client of worker.py: starts the process, sends it jobs, and stops it if it does not respond."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any

from tcemu.child import Child, Ended, Silent
from tcemu.errors import CompilationError, GpuError, GpuUnavailable, OperandError, TcemuError
from tcemu.live.process.job import Failure, Job, Result
from tcemu.live.process.troubles import after, in_words

#: Seconds to start Python, the driver and the context; and seconds beyond a kernel's own for compiling and copying.
START, AROUND = 120.0, 120.0

#: The code that the process runs.
START_CODE = "from tcemu.live.process.worker import main; main()"

_ERRORS: dict[str, type[TcemuError]] = {
    "unavailable": GpuUnavailable,
    "gpu": GpuError,
    "compilation": CompilationError,
    "operand": OperandError,
}


class Worker:
    """A process that holds the GPU. Raises GpuUnavailable if it finds none."""

    def __init__(self, start: str = "") -> None:
        self.child = Child(start or START_CODE)
        try:
            self.device = self._next(START)
        except BaseException:
            self.stop()
            raise
        if isinstance(self.device, Failure):
            self.stop()
            raise _ERRORS[self.device.kind](self.device.message)

    @property
    def alive(self) -> bool:
        """Whether it can accept a job."""
        return self.child.alive

    def ask(self, job: Job) -> Result:
        """The GPU's answer. Raises GpuError, CompilationError or GpuUnavailable."""
        try:
            self.child.send(job)
            answer = self._next(job.seconds + AROUND)
        except Ended as how:
            self.stop()
            raise _died(how) from None
        except BaseException:  # an interrupt too: the result is no longer wanted
            self.stop()
            raise
        if isinstance(answer, Failure):
            if answer.fatal:
                self.stop()
            raise _ERRORS[answer.kind](after(answer.message) if answer.fatal else answer.message)
        assert isinstance(answer, Result)  # noqa: S101 - the other side is ours
        return answer

    def stop(self) -> None:
        """End the process, and with it whatever is running on the GPU."""
        self.child.stop()

    def _next(self, seconds: float) -> Any:
        try:
            return self.child.next(seconds)
        except Silent:
            raise GpuError(after(in_words("no answer", seconds))) from None
        except Ended as how:
            raise _died(how) from None


def _died(how: Ended) -> GpuError:
    return GpuError(after(in_words("worker died", how)))


_lock = threading.RLock()
_held: list[tuple[int, Worker]] = []


def current() -> Worker:
    """The worker of this process; a new one if there is none or it ended."""
    with _lock:
        if _held and (_held[0][0] != os.getpid() or not _held[0][1].alive):
            _held.clear()
        if not _held:
            _held.append((os.getpid(), Worker()))
        return _held[0][1]


def ask(job: Job) -> Result:
    """The GPU's answer, one job at a time. What the kernel printed goes to standard output."""
    with _lock:
        answer = current().ask(job)
    if answer.printed:
        sys.stdout.write(answer.printed)
    return answer


@atexit.register
def close() -> None:
    """End the worker of this process; the next call starts another."""
    with _lock:
        if _held and _held[0][0] == os.getpid():
            _held[0][1].stop()
        _held.clear()
