"""The box: a process that holds Python, tcemu without its exercises, and nothing else. It ends on request.

bubblewrap gives it separate namespaces (files, processes, network, IPC, host name), limits bound what it uses, and
the clock is outside: when its processor time is up, the first process of its namespace is killed, and with it all the
others. What comes out is read as messages of plain values (`inside.wire`); a message that breaks the rules counts like
an end.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from tcemu.grade import room
from tcemu.grade.cgroups import made
from tcemu.grade.compilers import judging
from tcemu.grade.inside.wire import PREFIX, READY, Malformed, Reader, Reads, Writes, framed, lengths
from tcemu.grade.room import PACKAGE, TMP, BoxUnavailable
from tcemu.grade.scales import Scales, processor_time
from tcemu.grade.syscalls import opened

#: The users inside, if the grader is root: each grading process has its own, because processes are counted by user.
_USERS, _FEW = 61_000, 4_000
#: The same for every box. One thread for each library, which the limit on processes needs.
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1",
    "TCEMU_QUIET": "1", "NUMBA_CACHE_LOCATOR_CLASSES": "tcemu.kernels.host.compiling.ReadOnlyCache",
}  # fmt: skip
#: Seconds of processor time that a box may take to start.
_STARTS = 30.0
#: How many times its processor time may pass while a box waits for something; and seconds between two looks at it.
PATIENCE, _LOOKS = 10, 0.2
#: Bytes of standard error that are kept before the notebook begins.
_NOTED = 4096


class BoxEnded(Exception):  # noqa: N818 - what happened
    """The box is gone: its time was up, its process ended, or it broke the rules of the messages."""


class BoxKilled(Exception):  # noqa: N818 - what happened
    """Somebody outside has killed the box, such as a machine that is out of memory: that says nothing about it."""


@dataclass(frozen=True)
class Limits:
    """The resources that a submission may use, seconds among them; `tcemu.classroom.Limits` are those of a learner.

    >>> from tcemu.grade.box import Limits
    >>> Limits(memory=1 << 30).rlimits["AS"]
    1073741824
    """

    #: Seconds of processor time for a cell, and for a notebook; the judges' time counts, too.
    cell: float = 20.0
    notebook: float = 90.0
    #: Bytes of address space of a process, and of memory of all; processes and threads, of which the notebook needs one
    #: and all others take turns with the neighbours' on the same cores; bytes of a file, and of all.
    memory: int = 3 << 30
    processes: int = 16
    file: int = 16 << 20
    files: int = 64 << 20

    @property
    def rlimits(self) -> dict[str, int]:
        """The limits of a process, by their names in `resource`."""
        return {
            "AS": self.memory, "NPROC": self.processes, "FSIZE": self.file, "NOFILE": 256,
            "CPU": int(self.notebook) + 10, "MEMLOCK": 1 << 16, "MSGQUEUE": 0, "SIGPENDING": 256,
            "CORE": 1,  # at 0, the kernel would still start the program that a machine has for cores
        }  # fmt: skip

    @property
    def heavier(self) -> str:
        """The reason if the box uses more memory than it may."""
        return f"It uses more than {self.memory >> 20:,} MB of memory."


@dataclass(frozen=True)
class Seat:
    """Where boxes run: with bubblewrap, or without it for the teacher's own work."""

    trusted: bool = False
    limits: Limits = field(default_factory=Limits)
    #: The folder of compiled kernels, if they are not beside their sources.
    cache: str = ""
    #: Without bubblewrap, the user who runs the notebook, if root grades.
    user: int = 0
    #: Whether the notebook runs without tcemu: the package's files are not in the box.
    alone: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a box: nothing of the grader's."""
        home = tempfile.gettempdir() if self.trusted else TMP
        return {**_ENVIRONMENT, "HOME": home, "TMPDIR": home, "TCEMU_KERNEL_CACHE": self.cache}

    def command(self, seccomp: int = -1, library: str = "") -> list[str]:
        """The command that starts a box; `seccomp` is the descriptor with the system calls that it may not make.

        If `library` is NVRTC, the box holds the compiler instead of a notebook.
        """
        boxed = not self.trusted
        user = self.user if self.trusted else _USERS + os.getpid() % _FEW if os.geteuid() == 0 else 0
        limits = self.limits.rlimits
        if not user:  # another user's processes count
            limits = {name: most for name, most in limits.items() if boxed or name != "NPROC"}
        settings = {
            "limits": limits, "user": user, "path": room.path(), "boxed": boxed, "library": library,
            "alone": self.alone,
        }  # fmt: skip
        # -P and -s: no folder of the notebook's in the path; -S: no .pth file. The environment is not the grader's.
        program = str(PACKAGE / "grade" / "inside" / "__main__.py")
        start = [str(Path(sys.executable).resolve()), "-P", "-s", "-S", "-B", program, json.dumps(settings)]
        return [*self.room(seccomp), *start] if boxed else start

    def room(self, seccomp: int = -1) -> list[str]:
        """The part of it that makes the room."""
        return room.made(self.environment, self.limits.files, self.cache, self.alone, seccomp)


def check_box() -> None:
    """Start a box and end it. Raises BoxUnavailable."""
    if sys.platform == "win32":
        raise BoxUnavailable("boxes are bubblewrap's, which needs Linux; on Windows, grade in WSL")
    command = [*Seat().room(), "/usr/bin/env", "true"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_STARTS, check=False)  # noqa: S603 - our own
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BoxUnavailable(f"bubblewrap does not start: {error}") from error
    if done.returncode:
        complaint = done.stderr.decode(errors="replace").strip()[:300]
        raise BoxUnavailable(
            f"bubblewrap cannot make a box here: {complaint}. It needs user namespaces, unless root runs it: `sysctl "
            "kernel.unprivileged_userns_clone=1` on Debian; on Ubuntu, `sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0`; in a container, one that may create namespaces (docker "
            "run --security-opt seccomp=unconfined --security-opt apparmor=unconfined). For your own work only, "
            "--trusted runs it without a box"
        )
    Box(Seat(), lambda _: None, {}).end()


class Box:
    """A running box. Raises BoxUnavailable if it does not start, and BoxEnded once it is gone."""

    def __init__(self, seat: Seat, special: Writes, known: Mapping[str, Reads]) -> None:
        self._special, self._reader = special, Reader(known)
        seccomp = -1 if seat.trusted else opened()
        self._group = None if seat.trusted else made(seat.limits.memory)
        command = seat.command(seccomp) if self._group is None else self._group.enter(seat.command(seccomp))
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=seat.environment, cwd="/", pass_fds=[seccomp] if seccomp >= 0 else [], start_new_session=True,
            )  # fmt: skip
        finally:
            if seccomp >= 0:
                os.close(seccomp)
        incoming, outgoing = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._in, self._out = incoming.fileno(), outgoing.fileno()
        os.set_blocking(self._in, False)
        #: the processor time at which it is over, on the clock of `used`, and the latest time, on that of `monotonic`
        self.most, self.latest, self._looks = _STARTS, time.monotonic() + PATIENCE * _STARTS, 0.0
        self._before, self._seen = judging(), 0.0
        self._heavier, self._killed, self.trouble = seat.limits.heavier, False, ""
        self._scales: Scales | None = None
        self._begin()
        # Only now are the folders in place: before, the process sees this machine's.
        place = "" if seat.trusted else TMP
        if not self._group:
            self._scales = Scales(self._process.pid, place, seat.limits.memory, partial(self._over, self._heavier))

    @property
    def used(self) -> float:
        """Seconds of processor time: the box's, and what judging its answers has taken since it began."""
        self._seen = max(self._seen, processor_time(self._process.pid))  # once it has ended, nothing says so any more
        return self._seen + judging() - self._before

    def allow(self, seconds: float, latest: float = math.inf) -> None:
        """Let it use so many seconds of processor time from now on, until `latest` at most if it waits."""
        self.most, self.latest = self.used + seconds, min(time.monotonic() + PATIENCE * seconds, latest)

    def _begin(self) -> None:
        """Wait until it is ready. Earlier failures are not the notebook's fault: the box has not received it yet."""
        try:
            ready = self.receive()
        except BoxEnded as error:
            why = self._noted() or ("it takes too long" if str(error) == "time" else str(error))
            self.end()
            raise BoxUnavailable(f"the box does not start here, so nothing can be marked: {why}") from None
        if ready != READY:
            self.end()
            raise BoxUnavailable("the box runs another version of tcemu, so nothing can be marked")

    def _noted(self) -> str:
        """The last line that was written to standard error before the box was ready."""
        if not self._process.stderr or not select.select([self._process.stderr], [], [], 0)[0]:
            return ""
        noted = os.read(self._process.stderr.fileno(), _NOTED).decode(errors="replace")
        return next((line for line in reversed(noted.splitlines()) if line.strip()), "")[:300]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Kill every process in it."""
        self._process.kill()
        self._process.wait()
        if self._scales:
            self._scales.stop()
        if self._group:
            self._group.remove()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    def _over(self, trouble: str) -> BoxEnded:
        """End the box for this reason; the first reason is kept."""
        if not self.trouble:
            self.trouble = trouble
            self._process.kill()
        return BoxEnded(self.trouble)

    def broken(self, what: str) -> BoxEnded:
        """End the box, which broke the rules of the messages."""
        return self._over(f"The box sent something that is not an answer: {what}.")

    @contextmanager
    def clocked(self) -> Iterator[None]:
        """While this process works on an answer without the box, end the box once its time is up. Raises BoxEnded."""
        if threading.current_thread() is not threading.main_thread():  # which alone gets signals
            yield
            return
        before = signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, _LOOKS, _LOOKS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _look(self, *_: object) -> None:
        if self.used > self.most:
            raise self._over("time")

    def check_alive(self) -> None:
        """Raise BoxEnded if the box is gone, and BoxKilled if somebody else has ended it."""
        if self._killed:
            raise BoxKilled
        if self.trouble:
            raise BoxEnded(self.trouble)

    # ------------------------------------------------------------------------------------------ messages

    def send(self, value: Any) -> None:
        """Send a message."""
        self.check_alive()
        message = memoryview(framed(value, self._special))
        try:
            while message:
                self._wait(self._in, writes=True)
                message = message[os.write(self._in, message[:65536]) :]
        except OSError:
            raise self._gone() from None

    def receive(self) -> Any:
        """The next message."""
        self.check_alive()
        try:
            header, body = lengths(self._read(PREFIX))
            return self._reader.read(self._read(header), self._read(body))
        except Malformed as error:
            raise self.broken(str(error)) from None

    def _read(self, size: int) -> bytes:
        held = bytearray()
        while len(held) < size:
            self._wait(self._out, writes=False)
            piece = os.read(self._out, min(size - len(held), 1 << 20))
            if not piece:
                raise self._gone()
            held += piece
        return bytes(held)

    def _wait(self, descriptor: int, *, writes: bool) -> None:
        """Wait until a pipe is ready, or the time is up, also for a box that keeps sending."""
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT if writes else select.POLLIN)
        while True:
            ready = poll.poll(0 if time.monotonic() >= self._looks else 1000 * _LOOKS)
            if ready and time.monotonic() < self._looks:
                return
            if self._group and self._group.full:
                raise self._over(self._heavier)
            if self.used > self.most:
                raise self._over("time")
            if time.monotonic() > self.latest:
                raise self._over("waits")
            self._looks = time.monotonic() + _LOOKS
            if ready:
                return

    def _gone(self) -> BoxEnded:
        """Why the process has ended, as far as that is known."""
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:  # it has only closed its pipe
            return self._over("The notebook closed the pipe to the grader.")
        if self._group and self._group.full:
            return self._over(self._heavier)
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL) and not self.trouble:
            self._killed = True
            raise BoxKilled
        what = f"by signal {-code}" if code < 0 else f"by signal {code - 128}" if code > 128 else f"with code {code}"
        return self._over(f"The process ended {what}.")
