"""Which registers `registers[key]` chooses. The answers are kept, because kernels use the same keys again and again."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=1024)
def first_numbers(count: int) -> tuple[int, ...]:
    """The numbers of the first registers of a bank."""
    return tuple(range(count))


def chosen_columns(shape: tuple[int, int], key: Any) -> tuple[int, ...]:
    """The columns of an array of this shape that `key` chooses, each once."""
    spelt = _spelt(key)
    return _spelt_columns(shape, spelt) if spelt is not None else _columns(shape, key)


def _columns(shape: tuple[int, int], key: Any) -> tuple[int, ...]:
    return tuple(np.unique(np.broadcast_to(np.arange(shape[1], dtype=np.int64), shape)[key]).tolist())


@lru_cache(maxsize=4096)
def _spelt_columns(shape: tuple[int, int], spelt: tuple[Any, ...]) -> tuple[int, ...]:
    """The same for a key that _spelt could spell: kernels choose the same registers again and again."""
    return _columns(shape, tuple(slice(*part) if isinstance(part, tuple) else part for part in spelt))


def _spelt(key: Any) -> tuple[Any, ...] | None:
    """A key of numbers and slices in a form that has a hash: slices as (start, stop, step); None for other keys."""
    spelt: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if type(part) is slice:
            numbers = part.start, part.stop, part.step
            if not all(number is None or type(number) is int for number in numbers):
                return None
            spelt.append(numbers)
        elif type(part) is int or part is Ellipsis:
            spelt.append(part)
        else:
            return None
    return tuple(spelt)


def is_view(key: Any) -> bool:
    """Whether numpy returns a view for `key`, which a later write would change."""
    for part in key if isinstance(key, tuple) else (key,):  # any(...) would take three times as long
        if type(part) is slice or part is Ellipsis or part is None:
            return True
    return False
