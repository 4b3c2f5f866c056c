"""On which line of the kernel something happens."""

from __future__ import annotations

import inspect
import os
from functools import lru_cache
from pathlib import Path
from types import CodeType

import greenlet
import numpy as np

from tcemu.machine.events import Site

#: Folders whose code is nobody's kernel.
_NOT_KERNELS = tuple(
    str(folder) + os.sep
    for folder in (Path(__file__).parents[1], Path(np.__file__).parent, Path(greenlet.__file__).parent)
)


def site() -> Site:
    """The innermost line outside this package (and numpy) that is being executed."""
    frame = inspect.currentframe()
    if frame is None:  # a Python without frames
        return Site("?", 0, "?")
    while _is_ours(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    return _site(frame.f_code, frame.f_lineno)


@lru_cache(maxsize=4096)
def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_NOT_KERNELS)


@lru_cache(maxsize=4096)
def _site(code: CodeType, line: int) -> Site:
    return Site(code.co_filename, line, code.co_qualname)
