"""Sizes of matrices, for command lines."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable


def multiple_of(unit: int) -> Callable[[str], int]:
    """What reads a size from a command line."""

    def size(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not int(text) or int(text) % unit:
            raise ArgumentTypeError(f"the size must be a positive multiple of {unit}; got {text}")
        return int(text)

    return size
