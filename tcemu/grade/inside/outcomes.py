"""How a learner's function ended, in words that may leave the box."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tcemu.tracebacks import described

#: Characters of an error's description.
LONGEST = 400


def said(error: BaseException) -> str:
    """An error in words, whatever its methods do."""
    try:
        return described(error)[:LONGEST]
    except BaseException:  # noqa: BLE001 - an error may have any message
        return type(error).__name__[:LONGEST]


def raised(error: BaseException) -> tuple[str, str]:
    """An error's type, and its message with the learner's line."""
    text = said(error)
    name = type(error).__name__
    return name, text.removeprefix(name).removeprefix(": ").lstrip()


def unawaited(result: Any) -> str:
    """What kind of object a result is that has not been run yet; empty for any other."""
    kinds: dict[str, Callable[[Any], bool]] = {
        "coroutine": inspect.iscoroutine, "generator": inspect.isgenerator, "asyncgen": inspect.isasyncgen,
    }  # fmt: skip
    return next((name for name, is_it in kinds.items() if is_it(result)), "")
