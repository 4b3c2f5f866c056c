"""The client of worker.py: starts the process, sends it jobs, and stops it if it does not respond."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import subprocess
import sys
import threading
from typing import Any

from tcemu.errors import CompilationError, GpuError, GpuUnavailable, OperandError, TcemuError
from tcemu.live.process.job import Failure, Job, Result, receive, send
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
        # The same modules as here, but not the user's: multiprocessing would run their script again.
        code = f"import sys; sys.path[:] = {sys.path!r}; {start or START_CODE}"
        # A new session: an interrupt goes only to the notebook, which then decides what happens to the kernel.
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        _widen(self.process.stdin, self.process.stdout)
        self.messages: queue.Queue[Any] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
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
        return self.process.poll() is None

    def ask(self, job: Job) -> Result:
        """The GPU's answer. Raises GpuError, CompilationError or GpuUnavailable."""
        try:
            send(self.process.stdin, job)  # type: ignore[arg-type]
            answer = self._next(job.seconds + AROUND)
        except (BrokenPipeError, ConnectionError):
            self.stop()
            raise GpuError(after(in_words("worker died", self._ending()))) from None
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
        with contextlib.suppress(OSError):
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.reader.join(10)  # it ends with the process; after that nothing reads the pipes
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]

    def _next(self, seconds: float) -> Any:
        try:
            message = self.messages.get(timeout=seconds)
        except queue.Empty:
            raise GpuError(after(in_words("no answer", seconds))) from None
        if message is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            raise GpuError(after(in_words("worker died", self._ending())))
        return message

    def _ending(self) -> str:
        code = self.process.poll()
        return "still running" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                self.messages.put(receive(self.process.stdout))  # type: ignore[arg-type]
        self.messages.put(None)


def _widen(*pipes: Any) -> None:
    """Give the pipes a buffer of a megabyte, if the system can, so that large arrays need fewer steps."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        for pipe in pipes:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)


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
