"""Where the notebooks and exercises come from: the wheel they were shipped in, or a clone of the repository."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from tcemu.errors import CourseError

#: What is laid out for a learner. Solutions are not.
FOLDERS = ("notebooks", "exercises")


def source(package: Path = Path(__file__).parents[1]) -> Path:
    """Return the folder that holds the installed course's `FOLDERS`; a `CourseError` where there is none."""
    shipped = package / "course" / "material"  # put there by the build, see pyproject.toml
    if shipped.is_dir():
        return shipped
    clone = package.parent
    if is_clone(clone):
        return clone
    raise CourseError(
        f"this installation of tcemu has no course: neither {shipped} nor a clone of the repository is there. "
        "Install it again: python -m pip install --force-reinstall --no-deps tcemu"
    )


def files(root: Path) -> list[str]:
    """Return the files in the `FOLDERS` of `root`, relative and with slashes, in the order in which they are read.

    Hidden files and folders (checkpoints, caches) are not the course's.
    """
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()]
    names = [path.relative_to(root) for path in paths]
    return [name.as_posix() for name in names if not any(part.startswith((".", "__")) for part in name.parts)]


def clone_around(folder: Path) -> Path | None:
    """Return the clone of tcemu's repository that `folder` is or lies in, if any."""
    folder = Path(os.path.realpath(folder))  # unlike Path.resolve, at ease with a link that leads to itself
    return next((place for place in (folder, *folder.parents) if is_clone(place)), None)


def is_clone(folder: Path) -> bool:
    """Whether `folder` is the top of a clone of tcemu's repository."""
    try:
        if not all((folder / name).is_dir() for name in ("tcemu", *FOLDERS)):
            return False
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(project.get("project", {}).get("name") == "tcemu")
