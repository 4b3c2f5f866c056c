"""Wrong answers of notebook 13 that people give, with words that the diagnosis contains."""

import numpy as np

from tcemu.gemm import attention, scalar

# ---------------------------------------------------------------------------------------------- chained products


def registers_exchanged(step, register):
    """Columns before rows."""
    return 2 * step + register % 2, 2 * (register // 2)


def one_accumulator_a_step(step, register):
    """Eight keys."""
    return step + register // 2, 2 * (register % 2)


def single_elements(step, register):
    """One element in a register."""
    return 2 * step + register // 2, register % 2


def packed(left, right):
    """The right registers."""
    halves = np.hstack([left, right]).astype(np.float16).view(np.uint16).astype(np.uint32)
    return halves[:, ::2] | halves[:, 1::2] << 16


def across_before_down(left, right):
    """Registers 1 and 2 swapped."""
    return packed(left, right)[:, [0, 2, 1, 3]]


def high_half_first(left, right):
    """The halves swapped."""
    halves = np.hstack([left, right]).astype(np.float16).view(np.uint16).astype(np.uint32)
    return halves[:, ::2] << 16 | halves[:, 1::2]


def truncated(left, right):
    """Cut off."""
    values = np.hstack([left, right])
    cut = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return packed(cut[:, :4], cut[:, 4:])


def right_before_left(left, right):
    """The accumulators swapped."""
    return packed(right, left)


# ---------------------------------------------------------------------------------------------- softmax


def unscaled(m1, l1, o1, m2, l2, o2):
    """As if both had the same largest score."""
    return (o1 + o2) / (l1 + l2)


def outputs_only(m1, l1, o1, m2, l2, o2):
    """The sums are not scaled."""
    top = max(m1, m2)
    return (o1 * np.exp2(m1 - top) + o2 * np.exp2(m2 - top)) / (l1 + l2)


def base_e(m1, l1, o1, m2, l2, o2):
    """exp for exp2."""
    top = max(m1, m2)
    one, two = np.exp(m1 - top), np.exp(m2 - top)
    return (o1 * one + o2 * two) / (l1 * one + l2 * two)


def divided_first(m1, l1, o1, m2, l2, o2):
    """The mean of two results."""
    return (o1 / l1 + o2 / l2) / np.float32(2)


# ---------------------------------------------------------------------------------------------- the exponential


def power(x, n, coefficients, step=scalar.fma):
    """The polynomial and the exponent."""
    found = np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        found = step(found, x - n, coefficient)
    return (found.view(np.int32) + (n.astype(np.int32) << 23)).view(np.float32)


def rounded_twice(x, coefficients):
    """A product and a sum."""
    return power(x, np.rint(x), coefficients, lambda a, b, c: scalar.add(scalar.mul(a, b), c))


def floored(x, coefficients):
    """The rest is from 0 to 1."""
    return power(x, np.floor(x), coefficients)


def reversed_coefficients(x, coefficients):
    """The lowest power first."""
    return power(x, np.rint(x), coefficients[::-1])


def by_numpy(x, coefficients):
    """No polynomial."""
    return np.exp2(x)


# ---------------------------------------------------------------------------------------------- a window


def attended(warp, q, k, v, out, seen, first=64, hidden=-np.inf, rows=(0, 0, 8, 8)):
    """The kernel with a mask to choose: seen(age)."""
    attention.copy_tile(warp, attention.Q, q, 0)
    o = [warp.registers(4, fill=0) for _ in range(8)]
    largest, total = np.full((32, 2), -np.inf, np.float32), np.zeros((32, 2), np.float32)
    lane = warp.laneid[:, None]
    query = first + 16 * warp.warpid + lane // 4 + np.array(rows)
    for tile in (0, 64):
        attention.copy_tile(warp, attention.K, k, tile)
        attention.copy_tile(warp, attention.V, v, tile)
        warp.cp_async_wait_all()
        warp.bar_sync()
        s = attention.scores(warp, attention.load_queries(warp), tile, 128)
        for n in range(8):
            age = query - (tile + 8 * n + 2 * (lane % 4) + np.array([0, 1, 0, 1]))
            s[n] = np.where(seen(age), s[n], np.float32(hidden))
        p, largest, total, factor = attention.softmax(warp, s, largest, total)
        attention.add_values(warp, p, o, factor)
        warp.bar_sync()
    attention.store(warp, out, o, total, 0)


def from_0(warp, q, k, v, window, out):
    """Query 0 is position 0."""
    attended(warp, q, k, v, out, lambda age: (age >= 0) & (age < window), first=0)


def one_too_many(warp, q, k, v, window, out):
    """<= for <."""
    attended(warp, q, k, v, out, lambda age: (age >= 0) & (age <= window))


def only_causal(warp, q, k, v, window, out):
    """No window."""
    attended(warp, q, k, v, out, lambda age: age >= 0)


def unmasked(warp, q, k, v, window, out):
    """All keys."""
    attended(warp, q, k, v, out, lambda age: age == age)


def hidden_as(score, **options):
    """The right window, and another score for what is outside."""

    def kernel(warp, q, k, v, window, out):
        attended(warp, q, k, v, out, lambda age: (age >= 0) & (age < window), hidden=score, **options)

    return kernel


WRONG = {
    "sums_of_a": [
        (registers_exchanged, "swapped"), (one_accumulator_a_step, "two accumulators"),
        (single_elements, "two elements"),
    ],
    "merged": [
        (unscaled, "Nothing is scaled"), (outputs_only, "the sums are not"), (base_e, "powers are of 2"),
        (divided_first, "too early"),
    ],
    "packed_sums": [
        (across_before_down, "1 and 2"), (high_half_first, "halves"), (truncated, "are truncated"),
        (right_before_left, "swapped"),
    ],
    "power_of_two": [
        (rounded_twice, "rounded twice"), (floored, "rounded down"), (reversed_coefficients, "reverse"),
        (by_numpy, "numpy"),
    ],
    "windowed_attention": [
        (from_0, "from 64 on"), (one_too_many, "too many"), (only_causal, "no window"), (unmasked, "Nothing is masked"),
        (hidden_as(-1e30), "The hidden scores are finite"),
        (hidden_as(0), "they count like others"),
        (hidden_as(-np.inf, rows=(0, 8, 0, 8)), "elements 2 and 3 eight rows below"),
        (hidden_as(-np.inf, rows=(8, 8, 0, 0)), "elements 0 and 1 for rows g + 8"),
    ],
}  # fmt: skip
