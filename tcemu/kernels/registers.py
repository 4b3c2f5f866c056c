"""Reads elements from registers and writes them back, by index tables that the layouts make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.kernels.compiling import njit

Array = npt.NDArray[Any]


def reach(taken: Array) -> int:
    """How many words there must be where those with the numbers `taken` are read."""
    return int(taken.max(initial=-1)) + 1


def check_words(dtype: type[np.generic], reaches: Sequence[int], given: Sequence[Array]) -> None:
    """Raise ValueError unless each operand (tiles, words) has as many contiguous words as its reach.

    Some kernels read by address. A mistake of their caller must not read what is not ours, or write there.
    """
    kind = np.dtype(dtype)
    for words, least in zip(given, reaches, strict=True):
        if words.dtype != kind or words.shape[1] < least or not words.flags.c_contiguous:
            raise ValueError(
                f"a tile has {least} words, contiguous {dtype.__name__}; got {words.dtype} of shape {words.shape}"
            )


@njit(cache=True, nogil=True)
def read(registers, source, place, mask, elements):  # type: ignore[no-untyped-def]
    """elements[w, i] = registers[w, source[i]] >> place[i] & mask."""
    # unsigned: a negative index would count from the end, and checking for one costs more than the element
    for w in range(np.uint64(registers.shape[0])):
        for i in range(np.uint64(source.size)):
            elements[w, i] = (registers[w, np.uint64(source[i])] >> place[i]) & mask


@njit(cache=True, nogil=True)
def write(elements, gather, width, shift, registers):  # type: ignore[no-untyped-def]
    """registers[w, i] = the elements gather[i, 0], gather[i, 1], ... of w, `width` bits each, from bit `shift` on."""
    for w in range(np.uint64(registers.shape[0])):
        for i in range(np.uint64(gather.shape[0])):
            value = registers[w, i] & 0
            for j in range(np.uint64(gather.shape[1])):
                one = registers.dtype.type(elements[w, np.uint64(gather[i, j])])
                value |= one << registers.dtype.type(j * np.uint64(width) + np.uint64(shift))
            registers[w, i] = value
