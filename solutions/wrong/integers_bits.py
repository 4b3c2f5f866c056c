"""Wrong answers of notebook 07 that people give, with words that the diagnosis contains."""

import numpy as np

# ---------------------------------------------------------------------------------------------- packing


def from_the_top(numbers):
    """The first number in the highest bits."""
    register = 0
    for number in numbers:
        register = register << 4 | int(number) & 15
    return register


def unmasked(numbers):
    """Negative numbers bring all their sign bits."""
    register = 0
    for place, number in enumerate(numbers):
        register |= int(number) << 4 * place
    return register & 0xFFFFFFFF


def negative(numbers):
    """The same as Python's number, which is negative."""
    return sum(int(number) << 4 * place for place, number in enumerate(-abs(numbers)))


def added_up(numbers):
    """A sum of signed numbers, each in its place."""
    return sum(int(number) << 4 * place for place, number in enumerate(numbers)) & 0xFFFFFFFF


def high_half_first(numbers):
    """Two to a byte, in the wrong order."""
    return sum((int(x) & 15) << 8 * byte + 4 | (int(y) & 15) << 8 * byte
               for byte, (x, y) in enumerate(zip(numbers[::2], numbers[1::2], strict=True)))  # fmt: skip


def as_bytes(numbers):
    """Eight bits each; only four of them fit."""
    return int.from_bytes(numbers[:4].astype(np.int8).tobytes(), "little")


def no_signs(registers):
    """Zeros above the four bits."""
    mask = np.uint32(0x0F0F0F0F)
    return np.stack([registers & mask, registers >> np.uint32(4) & mask])


def times_sixteen(registers):
    """Moved to the upper half, so that the sign is right and the size is not."""
    return np.stack([(registers & np.uint32(0x0F0F0F0F)) << np.uint32(4), registers & np.uint32(0xF0F0F0F0)])


def s4_of(registers):
    """The numbers, one by one."""
    nibbles = registers[:, None] >> np.arange(0, 32, 4, dtype=np.uint32) & np.uint32(15)
    return (nibbles.astype(np.int8) ^ 8) - 8


def in_bytes(numbers):
    """Four numbers to a register."""
    return np.ascontiguousarray(numbers.astype(np.int8)).view(np.uint32).reshape(-1)


def lower_and_upper(registers):
    """The first four and the last four."""
    return np.stack([in_bytes(s4_of(registers)[:, :4]), in_bytes(s4_of(registers)[:, 4:])])


def exchanged(registers):
    """Odd places first."""
    return np.stack([in_bytes(s4_of(registers)[:, 1::2]), in_bytes(s4_of(registers)[:, ::2])])


WRONG = {
    "pack_s4": [
        (from_the_top, "you started from the highest"),
        (negative, "sign bits without end"),
        (unmasked, "Mask each number with 15"),
        (added_up, "each negative one takes 1 from its neighbour"),
        (high_half_first, "The two halves of each byte are swapped"),
        (as_bytes, "You gave each number a byte"),
    ],
    "nibbles_to_bytes": [
        (no_signs, "The signs are lost"),
        (times_sixteen, "sixteen times too large"),
        (lower_and_upper, "the lower four numbers and the upper four"),
        (exchanged, "You swapped the two registers"),
    ],
}
