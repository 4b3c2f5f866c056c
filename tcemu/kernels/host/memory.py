"""Moves elements between registers and arrays, and rows of bytes between memories; the memory that threads keep."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_char
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import empty

from tcemu.kernels.host.compiling import njit


@njit(cache=True, nogil=True)
def misplaced(addresses, count, align, size):  # type: ignore[no-untyped-def]
    """Whether any address is not a multiple of `align`, or its `count` bytes do not fit in `size`."""
    wrong = False
    for w in range(addresses.shape[0]):
        for i in range(addresses.shape[1]):
            at = addresses[w, i]
            wrong |= at % align != 0 or at < 0 or at > size - count
    return wrong


@njit(cache=True, nogil=True)
def repeated(addresses, size, unit, flags):  # type: ignore[no-untyped-def]
    """found[w]: whether two addresses of a warp are equal; all are multiples of `unit` inside `size`."""
    last = np.full(size // unit + 1, -1, np.int64)
    for w in range(addresses.shape[0]):
        flags[w] = False
        for i in range(addresses.shape[1]):
            place = addresses[w, i] // unit
            flags[w] |= last[place] == w
            last[place] = w


@njit(cache=True, nogil=True)
def units(addresses, shift, numbers):  # type: ignore[no-untyped-def]
    """found[i, 0] = the number of the unit of 1 << `shift` bytes at addresses[i]; there is at least one address.

    Return a number that is nonzero if any address is not a multiple of that, the least address, and the greatest.
    """
    together = low = high = addresses[0]
    for i in range(addresses.size):
        at = addresses[i]
        together, low, high = together | at, min(low, at), max(high, at)
        numbers[i, 0] = at >> shift
    return together & ((1 << shift) - 1), low, high


@njit(cache=True, nogil=True)
def load(memory, addresses, which, lines):  # type: ignore[no-untyped-def]
    """lines[w, i] = the bytes at addresses[w, i] of memory[which[w]]; `which` None: of memory[0]."""
    count = np.uint64(lines.shape[2])
    for w in range(addresses.shape[0]):
        own = memory[0] if which is None else memory[which[w]]
        for i in range(addresses.shape[1]):
            # unsigned: a negative index would count from the end, and checking for one costs more than the byte
            at, line = np.uint64(addresses[w, i]), lines[w, i]
            for j in range(count):
                line[j] = own[at + j]


@njit(cache=True, nogil=True)
def store(memory, addresses, which, lines):  # type: ignore[no-untyped-def]
    """Put lines[w, i] at addresses[w, i] of memory[which[w]]; `which` None: of memory[0]."""
    count = np.uint64(lines.shape[2])
    for w in range(addresses.shape[0]):
        own = memory[0] if which is None else memory[which[w]]
        for i in range(addresses.shape[1]):
            at, line = np.uint64(addresses[w, i]), lines[w, i]
            for j in range(count):
                own[at + j] = line[j]


# --------------------------------------------------------------------------------------------------------- registers


Array = npt.NDArray[Any]


def reach(taken: Array) -> int:
    """How many words there must be where those with the numbers `taken` are read."""
    return int(taken.max(initial=-1)) + 1


def check_words(dtype: type[np.generic], reaches: Sequence[int], arrays: Sequence[Array]) -> None:
    """Raise ValueError unless each operand (tiles, words) has as many contiguous words as its reach.

    Some kernels read by address. A mistake of their caller must not read what is not ours, or write there.
    """
    kind = np.dtype(dtype)
    for words, least in zip(arrays, reaches, strict=True):
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


# -------------------------------------------------------------------------------------------- memory of each thread

#: Words of a vector, which is a line of the processor's cache.
VECTOR = 16


def whole(words: int) -> int:
    """A number of 32-bit words, rounded up to whole vectors."""
    return -(-words // VECTOR) * VECTOR


def aligned(words: int, dtype: Any) -> Array:
    """An uninitialised array of 32-bit words, whose vectors are aligned to the lines of the processor's cache.

    A vector that crosses a line takes two accesses.
    """
    scratch = empty(words + VECTOR, dtype)
    begin = -addressof(c_char.from_buffer(scratch.data)) % (4 * VECTOR) // 4  # room.ctypes.data takes ten times as long
    return scratch[begin : begin + words]


class Kept(local):
    """Room by names. Each thread has its own, keeps it from one call to the next, and makes it larger where needed."""

    def __init__(self) -> None:
        self._kept: dict[str, Array] = {}

    def take(self, name: str, size: int, kind: Any) -> Array:
        """An array without initial content; the next call with this name returns the same memory."""
        scratch = self._kept.get(name)
        if scratch is None or scratch.size < size:
            scratch = self._kept[name] = aligned(size, kind)
        return scratch[:size]
