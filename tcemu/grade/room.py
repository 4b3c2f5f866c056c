"""The room of a box, as bubblewrap's arguments: the files in it, and what it does not share with anybody.

A box of the grader sees what Python and tcemu need, and nothing else; a learner's box in the classroom is built of the
same parts.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy

import tcemu
from tcemu.errors import CourseError

PACKAGE = Path(tcemu.__file__).parent
#: Folders of the package that the box does not see: the exercises, their judges, and the grader.
_HIDDEN = ("course", "grade", "commands")
#: The parts of them that it sees nevertheless.
_SEEN = ("grade/__init__.py", "grade/inside")
#: What a box sees of the package where an answer has to do without it.
_ALONE = (
    "__init__.py", "cells.py", "entered.py", "errors.py", "manual.py", "tracebacks.py", "version.py", *_SEEN,
)  # fmt: skip
#: The devices that it has. Terminals are not among them: each uses memory that no limit counts.
_DEVICES = ("null", "zero", "full", "random", "urandom")
#: The only folder in which a box may write.
TMP = "/tmp"  # noqa: S108 - in the box, which no other process uses
#: The parts of a merged /usr that are links in the root folder, or folders on an older machine.
_USR = ("bin", "sbin", "lib", "lib32", "lib64")


class BoxUnavailable(CourseError):  # noqa: N818 - an absence, not a mistake of the user
    """This machine cannot make a box; the message says what to install or allow."""


# ---------------------------------------------------------------------------------------------- parts of every room


def usr() -> Iterator[str]:
    """The machine's programs and libraries."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _USR:
        place = Path("/", name)
        if place.is_symlink():
            yield from ("--symlink", str(place.readlink()), str(place))
        elif place.is_dir():
            yield from ("--ro-bind", str(place), str(place))


def bound(place: Path, inside: Path | None = None, how: str = "--ro-bind") -> list[str]:
    """The arguments for a folder, which is read-only if nothing else is said.

    Anybody in the box may pass through the folders around it, which bubblewrap would make for its own user only.

    >>> from pathlib import Path
    >>> from tcemu.grade.room import bound
    >>> bound(Path("/opt/course"))
    ['--perms', '0755', '--dir', '/opt', '--ro-bind', '/opt/course', '/opt/course']
    """
    inside = inside or place
    return [*around(inside), how, str(place), str(inside)]


def around(place: Path) -> list[str]:
    """The arguments for the folders around a place."""
    return [part for each in reversed(place.parents[:-1]) for part in ("--perms", "0755", "--dir", str(each))]


def in_memory(place: str, size: int) -> list[str]:
    """The arguments for a folder in memory that everybody in the box may write to."""
    return ["--perms", "1777", "--size", str(size), "--tmpfs", place]


def program() -> str:
    """bubblewrap. Raises BoxUnavailable."""
    path = shutil.which("bwrap")
    if path is None:
        raise BoxUnavailable(
            "submissions run in a box, which needs bubblewrap: `apt-get install bubblewrap` on Debian and Ubuntu, `dnf "
            "install bubblewrap` on Fedora. For your own work only, --trusted runs it without a box"
        )
    return path


# ---------------------------------------------------------------------------------------------- the grader's room


def made(
    environment: Mapping[str, str], files: int, cache: str = "", alone: bool = False, seccomp: int = -1
) -> list[str]:
    """bubblewrap's command for a box with this whole environment, and `files` bytes to write in.

    `cache` is the folder of compiled kernels; `alone` leaves tcemu out; `seccomp` is the descriptor with the system
    calls that the box may not make.
    """
    unshared = ["--unshare-all", "--unshare-user", "--disable-userns"] if os.geteuid() else [
        "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"
    ]  # fmt: skip
    sets = [part for name, value in environment.items() for part in ("--setenv", name, value)]
    kernels = bound(Path(cache)) if cache and not alone else []
    refused = ["--seccomp", str(seccomp)] if seccomp >= 0 else []
    return [
        program(), *unshared, *refused, "--die-with-parent", "--new-session", "--hostname", "box", "--clearenv", *sets,
        # What is mounted later lies on top: Python, the package or the kernels may be below /tmp on this machine.
        "--proc", "/proc", *in_memory(TMP, files), *_files(alone), *kernels, "--chdir", TMP, "--remount-ro", "/",
    ]  # fmt: skip


def path() -> list[str]:
    """Where the interpreter in the box looks for packages, without any .pth file."""
    return list(dict.fromkeys([*_installed(), str(PACKAGE.parent)]))


@cache
def _files(alone: bool) -> tuple[str, ...]:
    """The arguments for everything that is read-only."""
    options = [*usr(), "--perms", "0755", "--dir", "/dev"]
    for name in _DEVICES:
        options += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    options += ["--perms", "0755", "--dir", "/etc"]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"):
        options += ["--ro-bind-try", name, name]
    for place in _visible():
        if place.is_dir() and (place == PACKAGE or not place.is_relative_to("/usr")):
            options += bound(place)
    hidden = [PACKAGE] if alone else [PACKAGE / name for name in _HIDDEN]
    for place in hidden:
        options += ["--perms", "0755", "--tmpfs", str(place)]
    for name in _ALONE if alone else _SEEN:
        options += ["--perms", "0755", "--dir", str((PACKAGE / name).parent)]
        options += ["--ro-bind", str(PACKAGE / name), str(PACKAGE / name)]
    for place in hidden:
        options += ["--remount-ro", str(place)]
    return tuple(options)


def _installed() -> list[str]:
    """The folders of installed packages. The one that tcemu is in, if it is not installed, is a whole repository."""
    return [*(sysconfig.get_path(name) for name in ("purelib", "platlib")), str(Path(numpy.__file__).parents[1])]


def _visible() -> Iterator[Path]:
    """The folders that the box sees besides /usr, the package last."""
    yield from map(Path, dict.fromkeys([sys.base_prefix, *_installed()]))
    yield PACKAGE
