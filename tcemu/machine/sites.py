"""Finds the line of the kernel that is being executed."""

from __future__ import annotations

import os
from pathlib import Path
from sys import _getframe
from types import CodeType, FrameType

import greenlet
import numpy as np

from tcemu.machine.events import Site

_PACKAGE = Path(__file__).parents[1]
#: Folders whose code does not belong to kernels.
_NOT_KERNELS = tuple(
    f"{folder}{os.sep}" for folder in (_PACKAGE, Path(np.__file__).parent, Path(greenlet.__file__).parent)
)
#: Folders within them whose code does: a room of kernels adds its own.
KERNELS: list[str] = []
#: The site if none is known.
UNKNOWN = Site("?", 0, "the kernel")

#: By file: whether its code belongs to no kernel.
_ours: dict[str, bool] = {}
#: Sites by code and place in it; the code is kept alive, so that no other code gets its id.
_cache: dict[tuple[int, int], tuple[CodeType, Site]] = {}


def site() -> Site:
    """The innermost line of a kernel that is being executed: not this package's, unless it is a room of kernels."""
    frame = _getframe(2)  # the caller, too, is a function of the machine
    while True:
        code = frame.f_code
        name = code.co_filename
        ours = _ours.get(name)
        if ours is None:
            ours = _is_ours(name)
        if not ours or frame.f_back is None:
            break
        frame = frame.f_back
    key = id(code), frame.f_lasti
    found = _cache.get(key)
    if found is None or found[0] is not code:
        found = _cache[key] = code, Site(name, frame.f_lineno, code.co_qualname)
    return found[1]


def _is_ours(name: str) -> bool:
    """Whether the code of a file belongs to no kernel."""
    found = _ours.get(name)
    if found is None:
        found = _ours[name] = name.startswith(_NOT_KERNELS) and not name.startswith(tuple(KERNELS))
    return found


def callers_of(inner: Site) -> tuple[Site, ...]:
    """The lines of the kernel that called the function of `inner`, innermost first; none if it is not running now."""
    frame: FrameType | None = _getframe(1)
    while frame is not None and (frame.f_code.co_filename != inner.file or frame.f_lineno != inner.line):
        frame = frame.f_back
    if frame is None:
        return inner.inlined
    found, frame = [*inner.inlined], frame.f_back
    while frame is not None:
        code, line = frame.f_code, frame.f_lineno
        within = (code.co_filename, line) == (inner.file, inner.line)  # the line that has the comprehension
        if not within and not _is_ours(code.co_filename):
            found.append(Site(code.co_filename, line, code.co_qualname))
        frame = frame.f_back
    return tuple(found)
