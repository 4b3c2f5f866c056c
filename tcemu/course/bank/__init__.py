"""The exercises, a module for each notebook; a module is imported when one of its exercises is asked for.

A module is named after its notebook without the number and has EXERCISES, a list of rows.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING

from tcemu.errors import CourseError, TableError, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tcemu.course.record import Exercise

__all__ = ["exercise", "exercises"]


@cache
def exercises() -> Mapping[str, Exercise]:
    """All exercises by name, in the order of the modules. Raises TableError if two have the same name.

    >>> from tcemu import course
    >>> "where_of_a" in course.exercises()
    True
    """
    found: dict[str, Exercise] = {}
    for module in sorted(each.name for each in iter_modules(__path__)):
        for row in import_module(f"{__name__}.{module}").EXERCISES:
            if row.name in found:
                raise TableError(f"two exercises are called {row.name}")
            found[row.name] = row
    return MappingProxyType(found)


def exercise(name: str) -> Exercise:
    """One exercise. Raises CourseError, which names the nearest one.

    >>> from tcemu import course
    >>> course.exercise("where_of_a").minutes
    10
    """
    known = exercises()
    if name not in known:
        near = nearest(str(name), known, 3)
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        raise CourseError(f"there is no exercise called {shown(name)}{meant}")
    return known[name]
