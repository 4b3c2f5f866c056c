"""Wrong answers of notebook 07 that people give, with words that the diagnosis contains."""

import numpy as np

S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
B1 = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32"

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


# ---------------------------------------------------------------------------------------------- one output


def crafted(first, second, c):
    """Matrices whose D[0][0] is c + first in the first instruction, and + second in the other."""
    a, b = np.zeros((16, 64), np.int8), np.zeros((64, 8), np.int8)
    addend = np.zeros((16, 8), np.int32)
    a[0, 0], b[0, 0], a[0, 32], b[32, 0], addend[0, 0] = first, 1, second, 1, c
    return {"A": a, "B": b, "C": addend}


LAST = 2**31 - 1


def from_d(A, B, zero, D):
    """As if the zero point were in D."""
    return D.astype(np.int64) - zero


def k_times(A, B, zero, D):
    """Without B."""
    return D.astype(np.int64) - zero * A.shape[1]


def added(A, B, zero, D):
    """The other sign."""
    return D + zero * B.astype(np.int64).sum(axis=0)


def sums_of_eight_bits(A, B, zero, D):
    """numpy keeps to int8 where it is told to."""
    return D - (zero * B.sum(axis=0, dtype=np.int8).astype(np.int64)).astype(np.int8)


def all_of_b(A, B, zero, D):
    """One sum for all columns."""
    return D - zero * B.astype(np.int64).sum()


# ---------------------------------------------------------------------------------------------- quantising


def quantised(numbers, scale):
    """Rounded to the nearest."""
    return np.clip(np.rint(numbers / scale), -127, 127).astype(np.int8)


def cut_off(numbers):
    """astype without rounding."""
    return (numbers / (np.abs(numbers).max(axis=1, keepdims=True) / np.float32(127))).astype(np.int8)


def one_scale(numbers):
    """The scale of the whole matrix."""
    return quantised(numbers, np.abs(numbers).max() / np.float32(127))


def scale_of_columns(numbers):
    """The other axis."""
    return quantised(numbers, np.abs(numbers).max(axis=0) / np.float32(127))


def by_the_largest_number(numbers):
    """Without the magnitudes; what is beyond s8 wraps around."""
    scaled = np.rint(numbers / (numbers.max(axis=1, keepdims=True) / np.float32(127)))
    return scaled.astype(np.int64).astype(np.int8)


def by_128(numbers):
    """The end of s8 on the negative side."""
    return quantised(numbers, np.abs(numbers).max(axis=1, keepdims=True) / np.float32(128))


# ---------------------------------------------------------------------------------------------- kernels


def layer(mma=S8, below=8, steps=(0, 32, 64), chained=True, scales="xw", signed=np.int32):
    """The kernel with one thing that people get wrong."""

    def quantised_layer(warp, x, w, scale_x, scale_w, out):
        g, t = warp.laneid // 4, warp.laneid % 4
        d = warp.registers(4, 0)
        for k in steps:
            a = [warp.ld_global(x.at(g + below * (r % 2), k + 4 * t + 16 * (r // 2))) for r in range(4)]
            b = [warp.ld_global(w.at(g, k + 4 * t + 16 * r)) for r in range(2)]
            d = warp.run(mma, np.hstack(a), np.hstack(b), d if chained else warp.registers(4, 0))
        for i in range(4):
            row, column = g + 8 * (i // 2), 2 * t + i % 2
            total = d[:, [i]].view(signed).astype(np.float32)
            for scale in scales:
                at = scale_x.at(row) if scale == "x" else scale_w.at(column)
                total = total * warp.ld_global(at).view(np.float32)
            warp.st_global(out.at(row, column), total)

    return quantised_layer


def signs(operation="xor", below=8, dot=lambda bits, ones: bits - 2 * ones):
    """The binary kernel with one thing that people get wrong."""

    def binary_layer(warp, x, w, bits, out):
        g, t = warp.laneid // 4, warp.laneid % 4
        a = [warp.ld_global(x.at(g + below * (r % 2), t + 4 * (r // 2))) for r in range(4)]
        b = [warp.ld_global(w.at(g, t + 4 * r)) for r in range(2)]
        d = warp.run(f"{B1}.{operation}.popc", np.hstack(a), np.hstack(b), warp.registers(4, 0)).view(np.int32)
        for i in range(4):
            warp.st_global(out.at(g + 8 * (i // 2), 2 * t + i % 2), dot(bits, d[:, [i]]).astype(np.int32))

    return binary_layer


WRONG = {
    "pack_s4": [
        (from_the_top, "you started from the highest"),
        (unmasked, "Mask each number with 15"),
        (added_up, "each negative one takes 1 from its neighbour"),
        (high_half_first, "The two halves of each byte are exchanged"),
        (as_bytes, "You gave each number a byte"),
    ],
    "dot_from_popc": [
        (lambda k, ones: k - ones, "it counts twice"),
        (lambda k, ones: 2 * ones - k, "The sign is wrong"),
        (lambda k, ones: 256 - 2 * ones, "k is given"),
        (lambda k, ones: ones, "the number of bits that differ"),
    ],
    "nibbles_to_bytes": [
        (no_signs, "The signs are lost"),
        (times_sixteen, "sixteen times too large"),
        (lower_and_upper, "the lower four numbers and the upper four"),
        (exchanged, "You exchanged the two registers"),
    ],
    "clamped_too_early": [
        (crafted(1, 1, LAST), "That does not fit into s32"),
        (crafted(1, 1, 5), "which fits, so nothing is clamped"),
        (crafted(-1, 1, LAST), "which fits, so nothing is clamped"),
        (crafted(1, -1, LAST - 1), "which fits, so nothing is clamped"),
    ],
    "without_zero_point": [
        (from_d, "You subtracted the zero point from D"),
        (k_times, "You subtracted K times the zero point"),
        (added, "The sign is wrong"),
        (all_of_b, "You took the sum of all of B"),
        (sums_of_eight_bits, "does not fit into 8 bits"),
    ],
    "quantise_rows": [
        (cut_off, "You truncated the numbers toward zero"),
        (one_scale, "One scale for the whole matrix"),
        (scale_of_columns, "One scale for each column"),
        (by_128, "You divided by 128"),
        (by_the_largest_number, "the largest magnitude may be negative"),
    ],
    "quantised_layer": [
        (layer(below=0), "Rows 8 to 15 repeat rows 0 to 7"),
        (layer(steps=(0,)), "Only the first 32 of k"),
        (layer(chained=False), "pass each D on as the next C"),
        (layer(scales="x"), "The scale of the columns is missing"),
        (layer(scales="wx"), "You scaled the columns first"),
        (layer(signed=np.uint32), "You read the registers as uint32"),
    ],
    "binary_layer": [
        (signs(dot=lambda bits, ones: ones), "popc(x xor w) as it comes"),
        (signs(dot=lambda bits, ones: 256 - 2 * ones), "The padding counts as agreement"),
        (signs(dot=lambda bits, ones: bits - ones), "Each differing bit costs 2"),
        (signs(operation="and"), "You used .and"),
        (signs(below=0), "Rows 8 to 15 repeat rows 0 to 7"),
    ],
}
