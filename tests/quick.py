"""How much the quick part of the tests asks, `-m "not slow"`: a choice, where the whole suite asks everything."""

from collections.abc import Iterable
from typing import Any

from hypothesis import settings

#: Whether this run is the quick one; tests/conftest.py finds out before the tests are collected.
QUICK = False


def some(table: Iterable[Any], most: int) -> list[Any]:
    """Of a table, in the quick part, at most `most` rows, spread evenly; otherwise all of them."""
    every = list(table)
    return every[:: -(-len(every) // most)] if QUICK and len(every) > most else every


def examples(count: int, **more: Any) -> settings:
    """Let hypothesis try `count` examples; in the quick part a fifth of them."""
    return settings(max_examples=max(2, count // 5) if QUICK else count, **more)
