"""Wrong answers of notebook 01 about patterns in registers, with words that the diagnosis contains."""

import numpy as np

from tcemu import formats

# ---------------------------------------------------------------------------------------------- e2m1_in_bytes


def shifted(registers, shifts):
    """The values of four bits each."""
    patterns = registers[:, None] >> np.array(shifts, np.uint32) & 15
    return formats.lookup("e2m1").decode(patterns.astype(np.uint8)).astype(np.float32)


def low_bits(registers):
    """Where an unpadded e2m1 would be."""
    return shifted(registers, [0, 8, 16, 24])


def highest_first(registers):
    """The first element in the highest byte."""
    return shifted(registers, [26, 18, 10, 2])


def packed(registers):
    """Eight to a register."""
    return shifted(registers, [0, 4, 8, 12])


def twos_complement(registers):
    """−8 to 7, as indices."""
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    patterns = registers[:, None] >> np.array([2, 10, 18, 26], np.uint32) & 15
    return np.concatenate([sizes, -sizes[::-1]])[patterns]


def shifted_by_one(registers):
    """Bits 4 to 1."""
    return shifted(registers, (1, 9, 17, 25))


def undecoded(registers):
    """The pattern for the value."""
    return (registers[:, None] >> np.array([2, 10, 18, 26], np.uint32) & 15).astype(np.float32)


# ---------------------------------------------------------------------------------------------- nearest_tf32


def cut(patterns):
    """Only the mask."""
    return patterns & np.uint32(0xFFFFE000)


def to_even(patterns):
    """.rn in place of .rna."""
    return (patterns + np.uint32(0xFFF) + (patterns >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000)


def ties_to_zero(patterns):
    """Less than half is added."""
    return (patterns + np.uint32(0xFFF)) & np.uint32(0xFFFFE000)


def unmasked(patterns):
    """Only the addition."""
    return patterns + np.uint32(0x1000)


def as_bf16(patterns):
    """16 bits dropped."""
    return (patterns + np.uint32(0x8000)) & np.uint32(0xFFFF0000)


WRONG = {
    "e2m1_in_bytes": [
        (low_bits, "low four bits"),
        (highest_first, "the other way round"),
        (packed, "a byte of its own"),
        (twos_complement, "It is not two's complement"),
        (shifted_by_one, "You shifted by 1 in place of 2"),
        (undecoded, "These are the patterns"),
    ],
    "nearest_tf32": [
        (cut, "You truncated"),
        (to_even, "Ties go away from zero"),
        (ties_to_zero, "you sent them toward zero"),
        (unmasked, "low 13 bits are still set"),
        (as_bf16, "as for bf16"),
    ],
}
