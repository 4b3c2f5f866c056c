"""Reads elements from registers and writes them back, by index tables that the layouts make."""

from __future__ import annotations

import numpy as np

from tcemu.kernels.compiling import njit


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
