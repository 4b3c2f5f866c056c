"""A child process that answers requests: what may crash or hang runs there, and does not take this process along.

What each side calls:

    here                                     there
    child = Child("... main()")              requests, answers = pipes()
    child.send(request)                      send(answers, answer_to(receive(requests)))
    child.next(seconds)
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

__all__ = ["Child", "Ended", "Silent", "pipes", "receive", "send"]

_HEAD = struct.Struct("<IQ")
#: Windows' sign that a process does not hear this one's Ctrl + C; 0 on other systems, which have sessions.
_NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


class Ended(Exception):  # noqa: N818 - what happened
    """The process is gone; the message says how it ended: "signal 11", "exit code 1"."""


class Silent(Exception):  # noqa: N818 - what happened
    """The process did not answer in time."""


class Child:
    """A process that runs `code`, with the modules of this one, and exchanges messages with it.

    A `command` that does the same may take the place of the code; `more` is for subprocess.Popen.
    """

    def __init__(self, code: str, command: Sequence[str] = (), **more: Any) -> None:
        # The same modules as here, but not the user's: multiprocessing would run their script again.
        code = f"import sys; sys.path[:] = {sys.path!r}; {code}"
        # A new session, or Windows' process group: an interrupt goes only to the notebook, which then decides what
        # happens to the child.
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            command or [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            creationflags=_NEW_GROUP,
            **more,
        )
        _widen(self.process.stdin, self.process.stdout)
        self.messages: queue.Queue[Any] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    @property
    def alive(self) -> bool:
        """Whether it can accept a message."""
        return self.process.poll() is None

    def send(self, message: object) -> None:
        """Send it a message. Raises Ended if it is gone."""
        try:
            send(self.process.stdin, message)  # type: ignore[arg-type]
        except OSError:  # a broken pipe; Windows calls it an invalid argument
            raise Ended(self._ending()) from None

    def next(self, seconds: float) -> Any:
        """The next message from it. Raises Ended, or Silent after so many seconds."""
        try:
            message = self.messages.get(timeout=seconds)
        except queue.Empty:
            raise Silent from None
        if message is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            raise Ended(self._ending())
        return message

    def stop(self) -> None:
        """End the process, and with it whatever it is doing."""
        with contextlib.suppress(OSError):
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.reader.join(10)  # it ends with the process; after that nothing reads the pipes
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]

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
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            for pipe in pipes:
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)


def pipes() -> tuple[BinaryIO, BinaryIO]:
    """In the child: where requests come from and answers go; what is printed goes to standard error instead."""
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = sys.stderr
    return os.fdopen(requests, "rb", buffering=0), os.fdopen(answers, "wb")


# ---------------------------------------------------------------------------------------------------- frames


def send(stream: BinaryIO, message: object) -> None:
    """Write a message; arrays are written from memory without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    stream.write(_HEAD.pack(len(views), len(body)) + b"".join(struct.pack("<Q", view.nbytes) for view in views))
    stream.write(body)
    stream.writelines(views)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read a message. Raises EOFError if the other side is gone."""
    count, size = _HEAD.unpack(_exactly(stream, _HEAD.size))
    sizes = struct.unpack(f"<{count}Q", _exactly(stream, 8 * count))
    body = _exactly(stream, size)
    buffers = [_exactly(stream, each) for each in sizes]
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - the other side is a process of ours


def _exactly(stream: BinaryIO, size: int) -> bytearray:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = stream.readinto(view[at:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        at += count
    return data
