"""What a classroom is started with, kept in its folder, so that a restart has the same passwords and limits."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tcemu.course import Manifest, manifest
from tcemu.course.keeping import keep
from tcemu.errors import CourseError

#: Names that the login page accepts: they are also names of folders, and of the learners' variants.
NAMES = "[a-z](?:[a-z0-9_-]{0,30}[a-z0-9])?"
#: The environment variable that tells the hub's configuration where the classroom is.
FOLDER = "TCEMU_CLASSROOM"
#: The environment variable that names the folder of the class's course.toml.
COURSE = "TCEMU_CLASSROOM_COURSE"
#: The file with the settings in the hub's folder, and a copy of it, which counts if a crash has damaged the file.
SETTINGS, COPY = "settings.json", "settings-copy.json"
#: What a damaged file raises.
_DAMAGE = OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError
#: The shortest passwords that JupyterHub's authenticator accepts, for learners and for the teacher.
SHORTEST, SHORTEST_TEACHER = 8, 32


@dataclass(frozen=True)
class Limits:
    """What one learner may use for as long as the server runs; `tcemu.grade.box.Limits` are those of one submission.

    >>> from tcemu.classroom import Limits
    >>> Limits().memory
    2048
    """

    #: MiB of memory.
    memory: int = 2048
    #: Cores.
    cpus: float = 2.0
    #: Processes and threads. A server with three kernels has about 100.
    processes: int = 512
    #: MiB of one file.
    file: int = 256


@dataclass(frozen=True)
class Kernels:
    """Where the kernels compiled once for all are, and the folder of numba's cache that stands for them.

    >>> from tcemu.classroom import Kernels
    >>> Kernels("/opt/kernels/kernels_1", "kernels_1").below
    'kernels_1'
    """

    folder: str
    below: str


@dataclass(frozen=True)
class Classroom:
    """One classroom.

    >>> from pathlib import Path
    >>> from tcemu.classroom import Classroom
    >>> Classroom(Path("spring"), "abcdefgh", "x" * 32).submitted.as_posix()
    'spring/submitted'
    """

    folder: Path
    #: The password that all learners share; those named in `own` have another one.
    password: str
    teacher_password: str
    teacher: str = "teacher"
    #: Passwords of single learners; if there are any, nobody else may log in.
    own: Mapping[str, str] = field(default_factory=dict)
    address: str = "0.0.0.0"  # noqa: S104 - a class comes from other machines
    port: int = 8000
    certificate: str = ""
    key: str = ""
    limits: Limits = field(default_factory=Limits)
    kernels: Kernels | None = None
    #: The site whose learners log in without a password (`lti.KEYS`); if there is none, everybody has a password.
    lti: Mapping[str, str] = field(default_factory=dict)
    #: The folder of a course.toml, in place of the whole course.
    course: str = ""

    @property
    def hub(self) -> Path:
        """The hub's own files."""
        return self.folder / "hub"

    @property
    def learners(self) -> Path:
        """The learners' homes."""
        return self.folder / "learners"

    @property
    def submitted(self) -> Path:
        """What was handed in."""
        return self.folder / "submitted"

    @property
    def grades(self) -> Path:
        """What `tcemu grade` wrote."""
        return self.folder / "grades"

    @property
    def url(self) -> str:
        """Where the hub answers on this machine."""
        here = "127.0.0.1" if self.address == "0.0.0.0" else self.address  # noqa: S104 - a comparison
        return f"{'https' if self.certificate else 'http'}://{here}:{self.port}"

    def save(self) -> None:
        """Keep the settings in the classroom's folder, for its owner only. Raises CourseError.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from tcemu.classroom import Classroom
        >>> from tcemu.classroom.settings import load
        >>> with TemporaryDirectory() as folder:
        ...     Classroom(Path(folder), "abcdefgh", "x" * 32).save()
        ...     load(Path(folder)).password
        'abcdefgh'
        """
        try:
            for place in (self.folder, self.hub, self.learners, self.submitted, self.grades):
                place.mkdir(parents=True, exist_ok=True)
            for place in (self.hub, self.submitted, self.grades):
                place.chmod(0o700)
            self.learners.chmod(0o711)  # a learner's processes find their own home, and cannot list the others
            text = json.dumps(asdict(self) | {"folder": str(self.folder)}, indent=1) + "\n"
            for name in (COPY, SETTINGS):
                keep(self.hub / name, text)
        except OSError as error:
            raise cannot_make(self.folder, error) from error


def cannot_make(folder: Path, error: OSError) -> CourseError:
    """The error for a folder that cannot hold a classroom."""
    return CourseError(
        f"cannot make a classroom in {folder}: {error.strerror or error}. Give a folder that you may write to, or the "
        "name of a new one, for example: tcemu classroom my-class"
    )


def load(folder: Path) -> Classroom | None:
    """The classroom kept in `folder`, or None where there is none yet. Raises CourseError for damaged files."""
    path = folder / "hub" / SETTINGS
    if not path.exists():
        return None
    try:
        return _read(folder, path)
    except _DAMAGE as error:
        with suppress(*_DAMAGE):
            return _read(folder, path.with_name(COPY))
        raise CourseError(
            f"{path} is damaged ({error}), and so is its copy. Delete it to start the classroom with new passwords; "
            "the learners' work is not affected"
        ) from error


def _read(folder: Path, path: Path) -> Classroom:
    held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    kernels = Kernels(**held.pop("kernels")) if held["kernels"] else held.pop("kernels")
    return Classroom(**held | {"folder": folder, "limits": Limits(**held["limits"]), "kernels": kernels})


def from_environment() -> Classroom:
    """The classroom that TCEMU_CLASSROOM names. Raises CourseError if there is none."""
    folder = os.environ.get(FOLDER, "")
    classroom = load(Path(folder)) if folder else None
    if classroom is None:
        raise CourseError("the hub's configuration belongs to a classroom: start it with tcemu classroom FOLDER")
    return classroom


def course() -> Manifest:
    """The course of this class: what TCEMU_CLASSROOM_COURSE names, or the whole one. Raises CourseError.

    >>> from tcemu.classroom.settings import course
    >>> course().title
    'Tensor-core programming'
    """
    folder = os.environ.get(COURSE)
    return manifest(Path(folder)) if folder else manifest()


def new_password(length: int = SHORTEST) -> str:
    """A password that is easy to read aloud and type: lower-case letters and digits that do not look alike.

    >>> from tcemu.classroom.settings import new_password
    >>> len(new_password())
    8
    """
    return "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(length))


def with_learners(names: Iterable[str], before: Mapping[str, str]) -> dict[str, str]:
    """Passwords for learners: those they had before, new ones for the rest.

    >>> from tcemu.classroom.settings import with_learners
    >>> with_learners(["ada"], {"ada": "abcdefgh", "bob": "ijklmnop"})
    {'ada': 'abcdefgh'}
    """
    return {name: before.get(name) or new_password() for name in names}
