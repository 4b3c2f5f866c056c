"""The process that holds the GPU: it reads jobs from its standard input and answers on its standard output.

A kernel that fails leaves a CUDA context that no longer works. So after a fatal failure, this process reports what
happened and ends; the next job starts a new process.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from tcemu.child import pipes, receive, send
from tcemu.live.process.job import Failed, Failure, Job, Result


def main(make: Callable[[], Any] | None = None) -> None:
    """Serve until the other side closes the pipe. `make` returns the GPU, by default CUDA's."""
    jobs, answers, printed = _pipes()
    try:
        gpu = (make or _real)()
    except Failed as problem:
        send(answers, problem.failure)
        return
    send(answers, gpu.device)
    with contextlib.suppress(EOFError, BrokenPipeError):  # the other side is gone
        while _serve(gpu, receive(jobs), answers, printed):
            pass
        os._exit(1)  # the context is broken, or a kernel is still running: nothing can be tidied up
    gpu.close()


def _real() -> Any:
    from tcemu.live.process.gpu import Gpu

    return Gpu()


def _serve(gpu: Any, job: Job, answers: BinaryIO, printed: Tail) -> bool:
    """Answer one job, and return whether another one can follow."""
    try:
        arrays = gpu.run(job)
    except Failed as problem:
        send(answers, problem.failure)
        return not problem.failure.fatal
    except Exception as error:  # noqa: BLE001 - whoever asked reads it
        trace = "".join(traceback.format_exception(error))
        send(answers, Failure("gpu", f"the process that holds the GPU has an error of its own:\n{trace}", fatal=True))
        return False
    send(answers, Result(arrays, printed.read().decode(errors="replace")))
    return True


def _pipes() -> tuple[BinaryIO, BinaryIO, Tail]:
    """Jobs, answers, and what the kernel prints: CUDA's printf writes to file 1, which is redirected."""
    jobs, answers = pipes()
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
    return jobs, answers, Tail(1)


class Tail:
    """Reads what was appended to a file, independently of its writers' position."""

    def __init__(self, number: int) -> None:
        self.number, self.at = number, 0

    def read(self) -> bytes:
        """Bytes since the last call."""
        size = os.fstat(self.number).st_size
        if size == self.at:
            return b""
        here = os.lseek(self.number, 0, os.SEEK_CUR)
        os.lseek(self.number, self.at, os.SEEK_SET)
        data = os.read(self.number, size - self.at)
        os.lseek(self.number, here, os.SEEK_SET)
        self.at = size
        return data


if __name__ == "__main__":
    main()
