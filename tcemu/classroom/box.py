"""The box that a learner's processes live in, as one command line.

    systemd-run ...   limits for all of them together, where systemd runs this machine
    bwrap ...         files: those listed here, read-only, and the learner's home; processes: their own
    setpriv ...       a user of their own, where the hub runs as root
    prlimit ...       limits for each process

Without systemd, memory is limited for each process only, and cores not at all (libraries are told to use few threads).
The network is the machine's: the hub has to reach the server, and the server the hub.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import tcemu
from tcemu.classroom.settings import Kernels, Limits
from tcemu.course.source import FOLDERS, source
from tcemu.errors import CourseError
from tcemu.grade.room import around, bound, in_memory, usr

#: The classroom's folder inside the box.
INSIDE = Path("/classroom")
#: The compiled kernels inside the box, arranged as a cache folder of numba.
KERNELS = INSIDE / ".kernels"
#: The class's own course inside the box.
COURSE = INSIDE / ".course"
#: Users for the learners of a hub that runs as root, from a range that systemd's and Debian's conventions leave unused
#: (systemd.io/UIDS-GIDS): one for each learner.
UIDS = range(60578, 61184)
#: The parts of the machine's configuration that programs need to find names, time and certificates.
CONFIGURATION = (
    "alternatives", "ca-certificates", "fonts", "hosts", "ld.so.cache", "localtime", "nsswitch.conf", "pki",
    "resolv.conf", "ssl", "terminfo",
)  # fmt: skip
#: Memory that a Jupyter process reserves and never touches, in MiB, on top of what it uses.
RESERVED = 4096


@dataclass(frozen=True)
class Box:
    """The box of one learner, as a command. `uid` is the learner's user; None keeps the user who runs the hub.

    `tcemu.grade.box.Box` is a process that the grader talks to. Both are made with `tcemu.grade.room`, but a
    learner's has a home, a network and hours to run.

    >>> from pathlib import Path
    >>> from tcemu.classroom.box import Box
    >>> from tcemu.classroom.settings import Limits
    >>> Box("ada", Path("homes/ada"), Limits()).command("python")[-1]
    'python'
    """

    name: str
    #: The learner's home on this machine.
    home: Path
    limits: Limits
    uid: int | None = None
    kernels: Kernels | None = None
    #: The folder of the class's own course; "" where it is the installed one.
    course: str = ""
    #: Whether systemd runs this machine and can limit all processes of the box together.
    systemd: bool = False

    @property
    def inside(self) -> Path:
        """The learner's home inside the box."""
        return INSIDE / self.name

    def command(self, *inner: str, seccomp: int = -1) -> list[str]:
        """The command that runs `inner` in the box; `seccomp` is the descriptor with the refused system calls."""
        refused = ["--seccomp", str(seccomp)] if seccomp >= 0 else []
        box = [*self._together(), "bwrap", *self._files(), *self._apart(), *refused, "--"]
        return [*box, *self._user(), *self._each(), *inner]

    def _together(self) -> Iterator[str]:
        """Limits for all processes of the box together."""
        if not self.systemd:
            return
        yield from ("systemd-run", "--scope", "--quiet", "--collect")
        if self.uid is None:
            yield "--user"
        yield f"--property=MemoryMax={self.limits.memory}M"
        yield "--property=MemorySwapMax=0"
        yield f"--property=CPUQuota={self.limits.cpus:.0%}"
        yield f"--property=TasksMax={self.limits.processes}"

    def _files(self) -> Iterator[str]:
        """The files that the learner can read, and the few that the learner can write."""
        size = self.limits.memory << 20
        yield from usr()
        yield from in_memory("/tmp", size)  # noqa: S108 - the box's own; first, because Python or tcemu may lie below it
        yield from around(Path("/etc/hosts"))
        for name in CONFIGURATION:
            yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
        for place in installed():
            yield from bound(place)
        if self.kernels:
            yield from bound(Path(self.kernels.folder), KERNELS / self.kernels.below)
        if self.course:
            yield from bound(Path(self.course), COURSE)
        yield from (*bound(self.home.absolute(), self.inside, "--bind"), "--chdir", str(self.inside))
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from in_memory("/dev/shm", size)  # noqa: S108 - the box's own
        yield from ("--remount-ro", "/dev", "--remount-ro", "/")

    def _apart(self) -> Iterator[str]:
        """What the learner does not share with anyone: processes, semaphores, the machine's name."""
        yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        if self.uid is None:
            # Names for the hub's user, in here, and no further namespaces, which would open more of the kernel.
            yield from ("--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000")
        yield from ("--die-with-parent", "--new-session")

    def _user(self) -> Iterator[str]:
        """A user of their own, without any rights."""
        if self.uid is not None:
            yield from ("setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups")
            yield from ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")

    def _each(self) -> Iterator[str]:
        """Limits for each process: here, not outside, where the user's other processes would count too."""
        limits = self.limits
        yield from ("prlimit", f"--data={limits.memory << 20}", f"--as={limits.memory + RESERVED << 20}")
        yield from (f"--nproc={limits.processes}", f"--fsize={limits.file << 20}", "--core=0")


def installed() -> list[Path]:
    """What a learner's Python needs: the interpreter, its packages, tcemu and the course, but not the solutions.

    >>> from tcemu.classroom.box import installed
    >>> any(place.name == "solutions" for place in installed())
    False
    """
    package = Path(tcemu.__file__).parent
    python = [Path(place) for place in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix)]
    python += [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "scripts")]
    clone = source()
    course = [] if package in clone.parents else [clone / "pyproject.toml", *(clone / name for name in FOLDERS)]
    wanted = [*dict.fromkeys([*python, package, *course])]
    return [place for place in wanted if not any(_inside(place, other) for other in (Path("/usr"), *wanted))]


def _inside(place: Path, other: Path) -> bool:
    return other in place.parents


def user_for(home: Path, root: bool) -> int | None:
    """The user that owns a learner's home, which is made if it is missing; None unless the hub runs as root.

    Raises CourseError if there are more learners than `UIDS`.
    """
    home.mkdir(0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    if not root:
        return None
    owner = home.stat().st_uid
    if owner not in UIDS:
        taken = {each.stat().st_uid for each in home.parent.iterdir()}
        owner = next((uid for uid in UIDS if uid not in taken), -1)
        if owner < 0:
            raise CourseError(f"this classroom has {len(UIDS)} learners already; start another one in a new folder")
        os.chown(home, owner, owner)
    return owner


def missing(commands: Sequence[str] = ("bwrap", "prlimit", "setpriv")) -> list[str]:
    """The commands that the box needs and this machine lacks."""
    return [name for name in commands if shutil.which(name) is None]


def trouble() -> str:
    """Why this machine cannot make a box; "" if it can.

    >>> from tcemu.classroom.box import missing, trouble
    >>> trouble() == "" if not missing() else True
    True
    """
    with TemporaryDirectory() as folder:
        home = Path(folder) / "nobody"
        tried = Box("nobody", home, Limits(), user_for(home, os.geteuid() == 0), systemd=systemd_runs()).command("true")
        try:
            done = subprocess.run(tried, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return (done.stderr.strip().splitlines() or ["no message"])[-1] if done.returncode else ""


def systemd_runs() -> bool:
    """Whether systemd runs this machine, so that it can limit a box."""
    return Path("/run/systemd/system").is_dir() and shutil.which("systemd-run") is not None


def modest(limits: Limits) -> dict[str, str]:
    """Environment variables that ask libraries to use no more threads than a learner has cores."""
    threads = str(max(1, min(round(limits.cpus), os.cpu_count() or 1)))
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, threads)
