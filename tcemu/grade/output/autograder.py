"""The zip archive that Gradescope runs for each submission: this tcemu, a course, its key, and two scripts.

    setup.sh           installs Python, bubblewrap and the packages, in the versions that are installed here
    run_autograder     grades /autograder/submission, and writes /autograder/results/results.json
    package/tcemu      the package, with the course in it
    private/           course.key, settings.json, roster.csv, and a course of one's own with its hidden tests

Gradescope extracts it into /autograder/source, and runs both scripts as root.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import tcemu
from tcemu.course.source import FOLDERS, files, source
from tcemu.errors import CourseError
from tcemu.grade.box import Limits

_SCRIPTS = Path(__file__).parent / "gradescope_scripts"
#: The extras of tcemu that the autograder needs, and the packages of `grade` that it does without.
_EXTRA, _WITHOUT = "grade", frozenset({"distributed", "nbclient", "nbgrader", "sqlalchemy"})
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<rest>[^;]*)(?:;(?P<marker>.*))?")
#: The time of every file in the archive, so that the same course gives the same bytes.
_THEN = (2020, 1, 1, 0, 0, 0)


def write_autograder(
    path: Path, key: str, notebooks: Sequence[str] = (), course: Path | None = None, roster: Path | None = None,
    limits: Limits | None = None,
) -> None:  # fmt: skip
    """Write the archive. Without `notebooks`, those that are handed in are graded. Raises CourseError."""
    settings = {"notebooks": list(notebooks), "own": course is not None, "limits": asdict(limits or Limits())}
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("setup.sh", "run_autograder"):
                _add(archive, name, (_SCRIPTS / name).read_bytes(), 0o755)
            _add(archive, "requirements.txt", "".join(f"{each}\n" for each in _requirements()).encode())
            for name, place in _package():
                _add(archive, f"package/{name}", place.read_bytes())
            _add(archive, "private/course.key", f"{key}\n".encode(), 0o600)
            _add(archive, "private/settings.json", json.dumps(settings, sort_keys=True).encode(), 0o600)
            if roster:
                _add(archive, "private/roster.csv", roster.read_bytes(), 0o600)
            for place in _below(course) if course else ():
                inside = place.relative_to(course or place).as_posix()
                _add(archive, f"private/course/{inside}", place.read_bytes(), 0o600)
    except OSError as error:
        raise CourseError(f"cannot write {path}: {error.strerror or error}") from error


def _add(archive: zipfile.ZipFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = zipfile.ZipInfo(name, _THEN)
    entry.create_system, entry.external_attr, entry.compress_type = 3, mode << 16, zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _package() -> Iterator[tuple[str, Path]]:
    """The package's files, and the course as an installed package has it."""
    root = Path(tcemu.__file__).parent
    for place in _below(root):
        name = place.relative_to(root).as_posix()
        if not name.startswith("course/material/"):
            yield f"tcemu/{name}", place
    shipped = source()
    for name in files(shipped):
        if name.partition("/")[0] in FOLDERS:
            yield f"tcemu/course/material/{name}", shipped / name


def _below(root: Path) -> Iterator[Path]:
    """The files below a folder, without what tools leave behind."""
    for place in sorted(root.rglob("*")):
        inside = place.relative_to(root).parts
        if place.is_file() and not any(part.startswith((".", "__pycache__")) for part in inside):
            yield place


def _requirements() -> list[str]:
    """The packages that it needs, in the versions that are installed here; what they need in turn is theirs to say."""
    requirements = []
    for each in requires("tcemu") or ():
        read = _REQUIREMENT.fullmatch(each)
        if read is None:
            continue
        marker, name = read["marker"] or "", read["name"]
        if ("extra" not in marker or f"'{_EXTRA}'" in marker.replace('"', "'")) and name.lower() not in _WITHOUT:
            requirements.append(f"{name}=={_installed(name)}" if _installed(name) else f"{name}{read['rest']}".strip())
    return sorted(dict.fromkeys(requirements))


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
