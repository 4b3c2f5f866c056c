"""The exercises, a module for each notebook; a module is imported when one of its exercises is asked for.

A module is named after its notebook without the number and has EXERCISES, a list of rows. Exercises on one section of
a long notebook have a separate module.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from tcemu.errors import CourseError, TableError, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tcemu.course.record import Exercise

__all__ = ["exercise", "exercises"]


#: The folder in which your own course has its rows, in modules like those here.
OWN = Path("exercises", "bank")


def exercises(folder: Path | None = None) -> Mapping[str, Exercise]:
    """All exercises by name: those of the course, and those in exercises/bank of `folder` or of a folder above it.

    By default, `folder` is the current one. Raises TableError if two exercises have the same name.

    >>> from tcemu import course
    >>> "where_of_a" in course.exercises()
    True
    """
    here = (folder or Path()).absolute()
    return _rows(next((place / OWN for place in (here, *here.parents) if (place / OWN).is_dir()), None))


@cache
def _rows(own: Path | None) -> Mapping[str, Exercise]:
    rows: dict[str, Exercise] = {}
    for module in (*_modules(), *(_own_modules(own) if own else ())):
        for row in module.EXERCISES:
            if row.name in rows:
                raise TableError(f"two exercises are called {row.name}")
            rows[row.name] = row
    return MappingProxyType(rows)


def _modules() -> Iterator[ModuleType]:
    names = sorted(each.name for each in iter_modules(__path__))
    return (import_module(f"{__name__}.{name}") for name in names)


def _own_modules(folder: Path) -> Iterator[ModuleType]:
    for path in sorted(folder.glob("[a-z]*.py")):
        spec = spec_from_file_location(f"tcemu_own_exercises_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise CourseError(f"{path} cannot be imported")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        if not isinstance(getattr(module, "EXERCISES", None), list):
            raise CourseError(f"{path} has no list EXERCISES")
        yield module


def exercise(name: str) -> Exercise:
    """One exercise. Raises CourseError, which names the nearest one.

    >>> from tcemu import course
    >>> course.exercise("where_of_a").minutes
    10
    """
    known = exercises()
    if not isinstance(name, str) or name not in known:
        near = nearest(name, known, 3) if isinstance(name, str) else []
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        raise CourseError(f"there is no exercise called {shown(name)}{meant}")
    return known[name]
