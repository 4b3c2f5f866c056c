"""Wrong answers of notebook 07 about quantisation, with words that the diagnosis contains."""

import numpy as np

S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"

# ---------------------------------------------------------------------------------------------- one output


def crafted(first, second, c):
    """Matrices whose D[0][0] is c + first in the first instruction, and + second in the other."""
    a, b = np.zeros((16, 64), np.int8), np.zeros((64, 8), np.int8)
    addend = np.zeros((16, 8), np.int32)
    a[0, 0], b[0, 0], a[0, 32], b[32, 0], addend[0, 0] = first, 1, second, 1, c
    return {"A": a, "B": b, "C": addend}


LAST = 2**31 - 1


def from_d(B, zero, D):
    """As if the zero point were in D."""
    return D.astype(np.int64) - zero


def k_times(B, zero, D):
    """Without the numbers in B."""
    return D.astype(np.int64) - zero * B.shape[0]


def added(B, zero, D):
    """The other sign."""
    return D + zero * B.astype(np.int64).sum(axis=0)


def sums_of_eight_bits(B, zero, D):
    """numpy keeps to int8 where it is told to."""
    return D - (zero * B.sum(axis=0, dtype=np.int8).astype(np.int64)).astype(np.int8)


def all_of_b(B, zero, D):
    """One sum for all columns."""
    return D - zero * B.astype(np.int64).sum()


def sums_alone(B, zero, D):
    """The zero point is forgotten."""
    return D - B.astype(np.int64).sum(axis=0)


def means(B, zero, D):
    """The sum divided by K."""
    return np.rint(D - zero * B.mean(axis=0)).astype(np.int64)


def magnitudes(B, zero, D):
    """As for a norm."""
    return D - zero * np.abs(B.astype(np.int64)).sum(axis=0)


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


def by_128_and_clipped(numbers):
    """To the whole range of s8."""
    scale = np.abs(numbers).max(axis=1, keepdims=True) / np.float32(128)
    return np.clip(np.rint(numbers / scale), -128, 127).astype(np.int8)


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


WRONG = {
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
        (sums_alone, "each is multiplied by the zero point"),
        (means, "the mean of each column"),
        (magnitudes, "with its signs"),
        (sums_of_eight_bits, "does not fit into 8 bits"),
    ],
    "quantise_rows": [
        (cut_off, "You truncated the numbers toward zero"),
        (one_scale, "You used one scale for the whole matrix"),
        (scale_of_columns, "You used one scale for each column"),
        (by_128_and_clipped, "You divided by 128"),
        (by_128, "You divided by 128"),
        (by_the_largest_number, "the largest magnitude may be negative"),
    ],
    "quantised_layer": [
        (layer(below=0), "Rows 8 to 15 repeat rows 0 to 7"),
        (layer(steps=(0,)), "Only the first 32 columns of A"),
        (layer(chained=False), "pass each D on as the next C"),
        (layer(scales="x"), "The scale of the columns is missing"),
        (layer(scales="wx"), "You scaled the columns first"),
        (layer(signed=np.uint32), "You read the registers as uint32"),
    ],
}
