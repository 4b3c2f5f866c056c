"""The classroom's processes: started together, ended together, and after a crash found again and ended.

    tcemu classroom     this process: it holds the folder's lock, and waits
      jupyterhub        in a session of its own, so that Ctrl + C reaches only the process above
        traefik         the proxy, which holds the port
        service         the page of the classroom
        bwrap ...       a box for each learner

Each process below the first has the classroom's folder in its environment, under `MARK`. After a crash, that is how
those that are left are recognised: not by a number, which may be another process's by now.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from tcemu.classroom.settings import cannot_make
from tcemu.course.keeping import private_folder
from tcemu.errors import CourseError

#: The environment variable that all processes of a classroom have; its value is `mark`.
MARK = "TCEMU_CLASSROOM_PROCESS"
#: Seconds for which a start waits for one that is just ending, and for processes that were killed.
_ENDS = 30.0
#: Seconds between two looks at a hub that runs.
_LOOKS = 0.5
#: Files that the hub makes anew whenever it starts; those of a hub that was killed would stop the next.
_MADE_ANEW = ("proxy.toml", "routes.toml")
#: What JupyterHub accepts as the key of its cookies: 32 bytes in hexadecimal.
_SECRET = 64


def mark(folder: Path) -> str:
    """The value of `MARK` for the classroom in `folder`."""
    return os.path.realpath(folder)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a classroom's lock, which a process that is killed gives back. Raises CourseError if it runs already."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        private_folder(folder / "hub")
        lock = FileLock(folder / "hub" / "lock", timeout=_ENDS)
        lock.acquire()
    except Timeout:
        raise CourseError(
            f"the classroom in {folder} is running already; stop that one first, with Ctrl + C in its terminal"
        ) from None
    except OSError as error:
        raise cannot_make(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def left(folder: Path) -> list[psutil.Process]:
    """The processes of a classroom, besides this one."""
    return [each for each in psutil.process_iter() if each.pid != os.getpid() and _marked(each, mark(folder))]


def _marked(process: psutil.Process, wanted: str) -> bool:
    with suppress(psutil.Error, OSError):
        return bool(process.environ().get(MARK) == wanted)
    return False


def end(folder: Path) -> int:
    """Kill what is left of a classroom, and return how many processes there were. Raises CourseError.

    A process that starts others while it is being killed leaves them to the next round.
    """
    ended = 0
    while processes := left(folder):
        for each in processes:
            with suppress(psutil.Error):
                each.kill()  # which fails if the number is another process's by now
        _, alive = psutil.wait_procs(processes, timeout=_ENDS)
        if alive:
            numbers = ", ".join(str(each.pid) for each in alive)
            raise CourseError(f"processes that an earlier start of this classroom left do not end: {numbers}")
        ended += len(processes)
    return ended


def check_port(address: str, port: int) -> None:
    """Raise CourseError if the hub's proxy could not listen there."""
    try:
        family, kind, number, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, number) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen()
    except OSError as error:
        raise CourseError(
            f"the classroom cannot listen on {address}, port {port}: {error.strerror or error}{_holder(port)}. Choose "
            f"another one, for example --port {port + 1 if port < 65535 else 8000}, or --address"
        ) from error


def _holder(port: int) -> str:
    """The program that listens on a port, in words, as far as this user may know."""
    with suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr.port == port and each.pid:
                return f" (by {psutil.Process(each.pid).name()}, process {each.pid})"
    return ""


def mend(hub: Path) -> list[str]:
    """Put right what a crash may have left in the hub's folder, and say what was lost. Raises CourseError.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tcemu.classroom.running import mend
    >>> with TemporaryDirectory() as folder:
    ...     mend(Path(folder))
    []
    """
    said = []
    try:
        for name in _MADE_ANEW:
            (hub / name).unlink(missing_ok=True)
        secret = hub / "cookie-secret"
        if secret.exists() and not _whole_secret(secret):
            secret.unlink()
            said.append(f"{secret} was damaged: everybody has to log in again.")
        base = hub / "hub.sqlite"
        if base.exists() and not _whole_base(base):
            aside = _set_aside(base)
            said.append(
                f"{base} was damaged, and is now {aside.name}: everybody has to log in again. Passwords, work and "
                "what was handed in are not affected."
            )
    except OSError as error:
        raise CourseError(f"cannot prepare {hub}: {error.strerror or error}") from error
    return said


def _whole_secret(path: Path) -> bool:
    text = path.read_bytes().strip()
    path.chmod(0o600)
    return len(text) == _SECRET and set(text) <= set(b"0123456789abcdef")


def _whole_base(path: Path) -> bool:
    """Whether a file is a database of JupyterHub's, or an empty one, which it fills."""
    try:
        with closing(sqlite3.connect(path)) as base:
            sound = base.execute("PRAGMA quick_check").fetchone() == ("ok",)
            tables = base.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone() != (0,)
            return sound and (not tables or bool(base.execute("SELECT * FROM alembic_version").fetchall()))
    except sqlite3.Error:
        return False


def _set_aside(path: Path) -> Path:
    """Rename a database that cannot be used, with its journals."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    for journal in ("-journal", "-wal", "-shm"):
        path.with_name(path.name + journal).unlink(missing_ok=True)
    return aside


def watch(
    folder: Path, command: Sequence[str], environment: Mapping[str, str], say: Callable[[str], None] = print
) -> None:
    """Run the hub until somebody stops it, and leave no process of the classroom. Raises CourseError if it ends.

    SIGINT, SIGTERM and SIGHUP stop it: the first asks the hub to end, the second ends it at once.
    """
    asked: list[int] = []
    before = {
        each: signal.signal(each, lambda number, _: asked.append(number))
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    marked = {**environment, MARK: mark(folder)}
    try:
        with subprocess.Popen(  # noqa: S603 - our own command
            command, env=marked, cwd=folder / "hub", stdin=subprocess.DEVNULL, start_new_session=True
        ) as hub:
            _wait(hub, asked, say)
        end(folder)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if not asked:
        how = f"signal {-hub.returncode}" if hub.returncode < 0 else f"code {hub.returncode}"
        raise CourseError(
            f"the hub ended by itself ({how}); what it said is above. Everybody's work is in {folder}: run the same "
            "command again to go on"
        )
    _tell(say, "The classroom is stopped.")


def _tell(say: Callable[[str], None], text: str) -> None:
    with suppress(OSError):  # the terminal may be what went away
        say(text)


def _wait(hub: subprocess.Popen[bytes], asked: list[int], say: Callable[[str], None]) -> None:
    """Wait until the hub ends, and tell it what was asked meanwhile."""
    heard = 0
    while hub.poll() is None:
        if len(asked) > heard:
            heard = len(asked)
            if heard == 1:
                hub.terminate()
                _tell(say, "Stopping the classroom. Ctrl + C again ends it at once.")
            else:
                hub.kill()
        with suppress(subprocess.TimeoutExpired):
            hub.wait(_LOOKS)
