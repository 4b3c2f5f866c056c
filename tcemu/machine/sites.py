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

_PACKAGE = Path(__file__).parents[1]
#: Folders whose code is nobody's kernel, and inside them one whose code is.
_NOT_KERNELS = tuple(
    f"{folder}{os.sep}" for folder in (_PACKAGE, Path(np.__file__).parent, Path(greenlet.__file__).parent)
)
_KERNELS = f"{_PACKAGE / 'gemm'}{os.sep}"


def site() -> Site:
    """The innermost line of a kernel that is being executed: not this package's, except for tcemu.gemm, nor numpy's."""
    frame = inspect.currentframe()
    if frame is None:  # a Python without frames
        return Site("?", 0, "?")
    while _is_ours(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    return _site(frame.f_code, frame.f_lineno)


@lru_cache(maxsize=4096)
def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_NOT_KERNELS) and not code.co_filename.startswith(_KERNELS)


@lru_cache(maxsize=4096)
def _site(code: CodeType, line: int) -> Site:
    return Site(code.co_filename, line, code.co_qualname)
