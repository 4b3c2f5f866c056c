"""Elements out of registers and back, by index tables that the layouts make."""

from __future__ import annotations

from tcemu.kernels.compiling import njit


@njit(cache=True, nogil=True)
def read(registers, source, place, mask, elements):  # type: ignore[no-untyped-def]
    """elements[w, i] = registers[w, source[i]] >> place[i] & mask."""
    for w in range(registers.shape[0]):
        for i in range(source.size):
            elements[w, i] = (registers[w, source[i]] >> place[i]) & mask


@njit(cache=True, nogil=True)
def write(elements, gather, width, shift, registers):  # type: ignore[no-untyped-def]
    """registers[w, i] = the elements gather[i, 0], gather[i, 1], ... of w, `width` bits each, from bit `shift` on."""
    for w in range(registers.shape[0]):
        for i in range(gather.shape[0]):
            value = registers[w, i] & 0
            for j in range(gather.shape[1]):
                value |= registers.dtype.type(elements[w, gather[i, j]]) << registers.dtype.type(j * width + shift)
            registers[w, i] = value
