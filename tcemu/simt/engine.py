"""Which executor runs segments: native code or the reference, as `tcemu.backend` chooses for all kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from tcemu.simt import reference

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.run import Run
    from tcemu.simt.steps import Block

#: Runs a segment: see `reference.run`.
Runner = Callable[["Run", "Frame", int, int, int], int]


@cache
def _installed() -> bool:
    try:
        from tcemu.native import compiled as compiler
    except ImportError:
        return False
    return bool(compiler)


def native() -> bool:
    """Whether segments are native code: unless TCEMU_KERNELS asks for the reference, or there is no compiler."""
    return os.environ.get("TCEMU_KERNELS", "") in {"", "numba"} and _installed()


def runner(blocks: Sequence[Block]) -> Runner:
    """What runs the segments of a function."""
    if not native():
        return reference.run
    from tcemu.simt.native import runner as compiled

    return compiled(blocks)
