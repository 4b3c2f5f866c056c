"""Wrong answers of notebook 06 about how many bits are kept, with words that the diagnosis contains."""

import numpy as np

# ---------------------------------------------------------------------------------------------- bits_kept


def first_bit_lost(add):
    """Off by one."""
    return min(n for n in range(1, 60) if add(1, 2.0**-n, -1) == 0)


def without_cancelling(add):
    """The float32 result hides the low bits."""
    return max(n for n in range(1, 60) if add(1, 2.0**-n) != 1)


def in_two_sums(add):
    """The first sum's result is a float32 already."""
    return max(n for n in range(1, 60) if add(add(1, 2.0**-n), -1) != 0)


def known_by_heart(add):
    """A number that was read somewhere."""
    return 25


# ---------------------------------------------------------------------------------------------- crafted matrices


def terms(*factors):
    """A and B whose D[0][0] has these products."""
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    for k, (x, y) in enumerate(factors):
        a[0, k], b[k, 0] = x, y
    return {"A": a, "B": b}


NOTHING_CUT = terms((1, 1), (0.5, 0.5), (-1, 1))
NOT_CANCELLED = terms((1, 1), (2.0**-15, 2.0**-10))
BOTH_CUT = terms((1, 1), (2.0**-15, 2.0**-12), (-1, 1))
TOO_LARGE = terms((np.inf, 1), (1, 1))
ALL_ZERO = terms((0, 1))


def fp8(large, small):
    """One large product, and 31 small ones."""
    a, b = np.full(32, small, np.float64), np.full(32, 2.0)
    a[0] = b[0] = large
    return {"a": a, "b": b}


WRONG = {
    "bits_kept": [
        (first_bit_lost, "One too many"),
        (without_cancelling, "You did not cancel the large term"),
        (in_two_sums, "the f32 result"),
        (known_by_heart, "the number of the H100, 25, for every chip"),
    ],
    "tell_a100_from_h100": [
        (NOTHING_CUT, "nothing is cut off"),
        (NOT_CANCELLED, "the f32 hides the low bits: cancel it"),
        (BOTH_CUT, "Either both cut your small product off, or both keep it"),
        (TOO_LARGE, "infinite or NaN"),
        (ALL_ZERO, "All products of D[0][0] are zero"),
    ],
    "fp8_two_ways": [
        (fp8(256.0, 5.1), "is not an e4m3 number"),
        (fp8(16.0, 2.0), "wgmma keeps 13 bits"),
        (fp8(448.0, 2.0**-9), "mma.sync is not exact either"),
        (fp8(256.0, 0.0625), "They differ, but by less"),
    ],
    "order_of_k": [
        (np.arange(32), "This is the order in which they came"),
        (np.zeros(32, np.int64), "each number from 0 to 31 once"),
        (("given", lambda given: np.argsort(np.abs(given.terms), kind="stable")), "The small terms come first"),
        (("given", lambda given: np.argsort(given.terms, kind="stable")), "with large and small terms in it"),
    ],
}
