"""Test depth: the quick part, `-m "not slow"`, tests a choice; the suite more; with `--thorough` everything."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from hypothesis import settings

#: The day whose samples are tested, as Python's ordinal. TCEMU_DAY names another one, or "today" in continuous
#: integration, which otherwise tests the same ones every day, so that a failure there is caused by the change.
_NAMED = os.environ.get("TCEMU_DAY", "0" if "CI" in os.environ else "today")
DAY = datetime.now(UTC).toordinal() if _NAMED == "today" else int(_NAMED)
#: Whether this run is the quick one; tests/conftest.py finds out before the tests are collected.
QUICK = False
#: Whether everything is asked, however long it takes.
THOROUGH = False


def some(table: Iterable[Any], most: int) -> list[Any]:
    """Of a table, in the quick part, at most `most` rows, spread evenly; otherwise all of them."""
    every = list(table)
    return every[:: -(-len(every) // most)] if QUICK and len(every) > most else every


def spread(table: Iterable[Any], one_in: int, first: int = 0) -> list[Any]:
    """Every n-th row of a table whose rows are alike, or which another test checks more cheaply.

    All of them if everything is asked. It begins with row `first`, modulo the size of the table: tables that are
    sampled in turn each begin elsewhere.
    """
    every = list(table)
    start = first % len(every) if every else 0
    return [*every[start:], *every[:start]][:: 1 if THOROUGH else one_in]


def turn(count: int) -> int:
    """Whose turn it is of `count`, in samples of rows that are alike: every day another one's."""
    return DAY % count


def examples(count: int, one_in: int = 2, **more: Any) -> settings:
    """Let hypothesis try `count` examples; unless everything is asked, one in `one_in`, in the quick part a fifth."""
    part = 1 if THOROUGH else 5 if QUICK else one_in
    return settings(max_examples=max(2, count // part), **more)
