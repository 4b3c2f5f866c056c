"""Where the notebooks and exercises are: in the installed package, or in a clone of the repository."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from tcemu.errors import CourseError
from tcemu.extras import install

#: What is laid out for a learner. Solutions are not.
FOLDERS = ("notebooks", "exercises")
#: The learner's folder in a clone, which git ignores: running a notebook changes its file.
LEARNERS = "my-course"
#: The page that `tcemu lab` opens, written anew each time.
START = "START.md"


def source(package: Path = Path(__file__).parents[1]) -> Path:
    """Return the folder that holds the installed course's `FOLDERS`. Raises CourseError if there is none.

    >>> from tcemu import course
    >>> (course.source() / "notebooks").is_dir()
    True
    """
    shipped = package / "course" / "material"  # put there by the build, see pyproject.toml
    if shipped.is_dir():
        return shipped
    clone = package.parent
    if is_clone(clone):
        return clone
    raise CourseError(
        f"this installation of tcemu has no course: there is neither {shipped} nor a clone of the repository. "
        f"Install it again from a clone of the repository: {install('--force-reinstall', '--no-deps', '.')}"
    )


def files(root: Path) -> list[str]:
    """Return the files in the `FOLDERS` of `root`, as relative paths with slashes, in reading order.

    Hidden files and folders (checkpoints, caches) do not belong to the course.

    >>> from tcemu import course
    >>> course.files(course.source())[0]
    'notebooks/00_first_light.ipynb'
    """
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()]
    names = [path.relative_to(root) for path in paths]
    return [name.as_posix() for name in names if not any(part.startswith((".", "__")) for part in name.parts)]


def clone_around(folder: Path) -> Path | None:
    """Return the clone of tcemu's repository that `folder` is or is inside, if any.

    >>> from tcemu import course
    >>> from pathlib import Path
    >>> course.clone_around(Path("/")) is None
    True
    """
    folder = Path(os.path.realpath(folder))  # unlike Path.resolve, it copes with a link to itself
    return next((place for place in (folder, *folder.parents) if is_clone(place)), None)


def clone_opened(folder: Path) -> Path | None:
    """Return the clone whose own course `folder` is: its root, or one of its `FOLDERS` or a folder inside them.

    >>> from tcemu import course
    >>> from pathlib import Path
    >>> course.clone_opened(Path("/")) is None
    True
    """
    clone = clone_around(folder)
    if clone is None:
        return None
    inside = Path(os.path.realpath(folder)).relative_to(clone).parts
    return clone if not inside or inside[0] in FOLDERS else None


def own_folder() -> Path:
    """Return where the course is laid out by default: here, or in a clone in its `LEARNERS` folder.

    >>> from tcemu import course
    >>> course.own_folder().name in ("", course.LEARNERS)
    True
    """
    clone = clone_around(Path())
    return clone / LEARNERS if clone else Path()


def is_clone(folder: Path) -> bool:
    """Whether `folder` is the root of a clone of tcemu's repository."""
    try:
        if not all((folder / name).is_dir() for name in ("tcemu", *FOLDERS)):
            return False
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(project.get("project", {}).get("name") == "tcemu")
