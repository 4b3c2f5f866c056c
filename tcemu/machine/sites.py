"""Finds the line of the kernel that is being executed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sys import _getframe
from threading import Lock
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

import greenlet
import numpy as np

from tcemu.extras import IN_BROWSER
from tcemu.machine.events import By, Site
from tcemu.tracebacks import caller, function

Key = TypeVar("Key")
Kept = TypeVar("Kept")
_PACKAGE = Path(__file__).parents[1]
#: Folders whose code does not belong to kernels.
_NOT_KERNELS = tuple(
    f"{folder}{os.sep}" for folder in (_PACKAGE, Path(np.__file__).parent, Path(greenlet.__file__).parent)
)
#: Folders within them whose code does: a package with kernels adds its own.
KERNELS: list[str] = []
#: The most entries of a cache of callers.
_MOST = 4096
#: The site if none is known.
UNKNOWN = Site("?", 0, "the kernel")

#: The functions that launches run now, by file and name; threads may launch at the same time.
_launched: Counter[tuple[str, str]] = Counter()
_counting = Lock()
#: Sites by code and place in it; the code is kept alive, so that no other code gets its id.
_cache: dict[tuple[int, int], tuple[CodeType, Site]] = {}


def site() -> Site:
    """The innermost line of a kernel that is being executed: not this package's, unless it is a room of kernels."""
    frame = _getframe(1)
    while _ours[(code := frame.f_code).co_filename] and (outer := frame.f_back) is not None:
        frame = outer
    kept = _cache.get((id(code), frame.f_lasti))
    return kept[1] if kept is not None and kept[0] is code else _line(frame)


@dataclass(frozen=True, slots=True)
class _Frame:
    """What lines are found by of a frame, which itself can go."""

    f_code: CodeType
    f_lasti: int
    f_back: _Frame | None

    @property
    def f_lineno(self) -> int:
        """The line that the frame executes."""
        lines = (line for start, end, line in self.f_code.co_lines() if start <= self.f_lasti < end)
        return next(lines, None) or self.f_code.co_firstlineno


def frames(inner: FrameType) -> Any:
    """A copy of a frame of a warp and of those outside it, for when the warp does not run any more.

    Where greenlets are written in Python, the frames of one that waits must not be read: a browser's Python then ends.
    """
    found, frame = [], cast("FrameType | None", inner)
    while frame is not None and frame.f_code.co_filename != greenlet.__file__:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    outer: _Frame | None = None
    for code, place in reversed(found):
        outer = _Frame(code, place, outer)
    return outer


def _line(frame: FrameType) -> Site:
    """The line that a frame executes. Finding its number takes long, so it is done once for each place."""
    code = frame.f_code
    key = id(code), frame.f_lasti
    kept = _cache.get(key)
    if kept is None or kept[0] is not code:
        kept = _cache[key] = code, Site(code.co_filename, frame.f_lineno, function(code))
    return kept[1]


class _Ours(dict[str, bool]):
    """By file: whether its code belongs to no kernel."""

    def __missing__(self, name: str) -> bool:
        ours = self[name] = name.startswith(_NOT_KERNELS) and not name.startswith(tuple(KERNELS))
        return ours


_ours = _Ours()


@contextmanager
def launched(kernel: object) -> Iterator[None]:
    """While a launch runs this function: its lines have no callers in the kernel, so nobody needs to look for them."""
    code = getattr(kernel, "__code__", None)
    if code is None or code.co_name == "<lambda>":  # other lambdas of the file may have the same name
        yield
        return
    name = code.co_filename, code.co_qualname
    with _counting:
        _launched[name] += 1
    try:
        yield
    finally:
        with _counting:
            _launched[name] -= 1
            if not _launched[name]:
                del _launched[name]


class FrontSite(Site):
    """A line of a program that a front end executes, such as PTX, for `core.at`: made once for each instruction.

    Its callers are the lines that it was inlined at, so that nobody looks for them among Python's frames. A function
    that the program calls has a site for each line that calls it. `within` are functions of CUDA's own headers, in
    which it is a line that its author knows nothing of. `spins`: a strong load there belongs to a loop that waits.
    `stores`: where all lanes that execute the shfl.sync of the line store what comes from it; None: perhaps not all do.

    >>> from tcemu.machine.sites import FrontSite, Site
    >>> FrontSite("kernel.cu", 7, "load(float*, int)", (Site("kernel.cu", 30, "scale(float*)"),)).line
    7
    """

    within: tuple[str, ...] = ()
    spins: bool = False
    stores: Site | None = None

    @property
    def callers(self) -> tuple[Site, ...]:
        """The lines that call this one, innermost first."""
        return self.inlined


class _Called(Site):
    """A line, equal to any other of its place, that knows its callers: its warp need not be running any more."""

    callers: tuple[Site, ...]


#: Lines that know their callers.
_KNOWING = FrontSite, _Called
#: Those whose callers have been looked for, by the identities of the line and of its callers. Both are kept alive.
_with_callers: dict[tuple[int, int], tuple[Site, _Called]] = {}


def _called(inner: Site, callers: tuple[Site, ...]) -> _Called:
    key = id(inner), id(callers)
    kept = _with_callers.get(key)
    if kept is None:
        called = _Called(*inner)
        called.callers = callers
        kept = _keep(_with_callers, key, (inner, called))
    return kept[1]


def called(by: By, frame: FrameType | None = None) -> By:
    """The same origin, whose line keeps its callers for a report that is made later, while another warp runs.

    `frame` is as in `callers_of`.
    """
    callers = callers_of(by, frame)
    if not callers or isinstance(by.site, FrontSite):
        return by
    block, warp, active, inner = by
    return By(block, warp, active, _called(inner, callers))


#: The origin whose callers were found last, and these: several rules ask for those of one operation.
_latest: list[tuple[By | None, tuple[Site, ...]]] = [(None, ())]


def alone(inner: Site) -> bool:
    """Whether a line is in a function that a launch runs, or a front end's: all its accesses have the same callers."""
    return isinstance(inner, FrontSite) or (inner.file, inner.function) in _launched


def callers_of(by: By, frame: FrameType | None = None) -> tuple[Site, ...]:
    """The lines of the kernel that called the function of a line, innermost first; none if it is not running now.

    `frame` is that of a warp that waits; without it, the warp is the one that runs.
    """
    inner, latest = by.site, _latest[0]
    if isinstance(inner, _KNOWING):
        return inner.callers
    if (inner.file, inner.function) in _launched:
        return inner.inlined
    if latest[0] is by:
        return latest[1]
    callers = _kept_callers(inner, frame or (frames(_getframe(1)) if IN_BROWSER else _getframe(1)))
    _latest[0] = by, callers
    return callers


#: The callers of a line, by the identities of the line and of the code that the frames execute. Both are kept alive.
_chains: dict[tuple[int, ...], tuple[Site, list[CodeType], tuple[Site, ...]]] = {}


def _kept_callers(inner: Site, outer: FrameType) -> tuple[Site, ...]:
    """The callers of a line, from a frame on: those found before, if the same code calls it from the same places."""
    key, codes = [id(inner)], []
    frame: FrameType | None = outer
    while frame is not None:
        code = frame.f_code
        if not _ours[code.co_filename]:
            codes.append(code)
            key += id(code), frame.f_lasti
            if (code.co_filename, code.co_qualname) in _launched:
                break
        frame = frame.f_back
    whole = tuple(key)
    kept = _chains.get(whole)
    if kept is None:
        kept = _keep(_chains, whole, (inner, codes, _look(inner, outer)))
    return kept[2]


def _keep(among: dict[Key, Kept], key: Key, what: Kept) -> Kept:
    """Add an entry to a cache, which is cleared when it is full."""
    if len(among) == _MOST:
        among.clear()
    among[key] = what
    return what


def _look(inner: Site, outer: FrameType) -> tuple[Site, ...]:
    """Look for the callers of a line, from a frame on."""
    file, line, _, inlined = inner
    frame: FrameType | None = outer
    while frame is not None and (frame.f_code.co_filename != file or _line(frame).line != line):
        frame = frame.f_back
    callers = []
    while frame is not None:
        frame = caller(frame)
        if frame is not None and not _ours[frame.f_code.co_filename]:
            here = _line(frame)
            callers.append(here)
            if (here.file, here.function) in _launched:
                break
    return (*inlined, *callers) if callers else inlined
