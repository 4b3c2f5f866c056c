"""The architecture of fragments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tcemu.errors import TargetError, shown
from tcemu.instructions import target_named

DEFAULT_TARGET = "sm_90a"
_current: ContextVar[str | None] = ContextVar("tcemu.wmma.target", default=None)


def current_target() -> str:
    """The target of a fragment that is created without one."""
    return _current.get() or DEFAULT_TARGET


def checked(name: object) -> str:
    """`name` if it is a target. Raises TargetError for anything else."""
    if not isinstance(name, str):
        raise TargetError(f"a target must be a string, e.g. 'sm_90a'; got {shown(name)}")
    return str(target_named(name))


@contextmanager
def target(name: str) -> Iterator[None]:
    """Fragments created inside the with statement are for this target: ``with wmma.target("sm_70"): ...``.

    Raises TargetError for a target that does not exist.

    >>> from tcemu import wmma
    >>> with wmma.target("sm_70"):
    ...     a = wmma.fragment(wmma.matrix_a, 16, 16, 16, wmma.half, wmma.row_major)
    >>> a.target
    'sm_70'
    """
    token = _current.set(checked(name))
    try:
        yield
    finally:
        _current.reset(token)
