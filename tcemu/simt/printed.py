"""What kernels print: to standard output, or to whoever listens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Receives what kernels print.
Listener = Callable[[str], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def listener() -> Listener:
    """Who receives what the kernels of a launch print that begins now; warps have contexts of their own."""
    return _LISTENER.get() or _print


def _print(text: str) -> None:
    sys.stdout.write(text)


@contextmanager
def printing(receiver: Listener) -> Iterator[None]:
    r"""Give what kernels print inside a with statement to a function.

    >>> from tcemu.simt import printing
    >>> from tcemu.simt.printed import listener
    >>> lines = []
    >>> with printing(lines.append):
    ...     listener()("Hello from block 0\n")
    >>> lines
    ['Hello from block 0\n']
    """
    token = _LISTENER.set(receiver)
    try:
        yield
    finally:
        _LISTENER.reset(token)
