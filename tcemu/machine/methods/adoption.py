"""How functions of several modules become the methods of one class."""

from __future__ import annotations

from types import FunctionType


def adopt(kind: type) -> None:
    """Let the functions in the table of a class appear as its methods in errors, help and pickles.

    >>> from tcemu.machine import Warp
    >>> Warp.bar_sync.__qualname__, Warp.bar_sync.__module__
    ('Warp.bar_sync', 'tcemu.machine.warp')
    """
    for name, function in vars(kind).items():
        if isinstance(function, FunctionType) and function.__module__ != kind.__module__:
            function.__qualname__, function.__module__ = f"{kind.__qualname__}.{name}", kind.__module__
            function.__name__ = name
            del function.__annotations__["self"]
