"""Wrong answers of notebook 00 about sums, with words that the diagnosis contains."""

import numpy as np

# ---------------------------------------------------------------------------------------------- smallest_survivor


def as_on_ampere(power):
    """24 bits."""
    return 2 * power - 24


def as_a_float(power):
    """As many bits as a float32 has."""
    return 2 * power - 23


def just_below(power):
    """One too far."""
    return 2 * power - 26


def from_one_factor(power):
    """The exponent of 2^p in place of that of the product."""
    return power - 25


# ---------------------------------------------------------------------------------------------- one_fused_sum


def fused(a, b, c, fraction=25, block=16, late=False):
    """The rule with other numbers."""
    results = []
    for row, column, addend in zip(a, b, c, strict=True):
        total = np.float32(0) if late else addend
        for k in range(0, 16, block):
            terms = [(float(x) * float(y), exponent(x) + exponent(y))
                     for x, y in zip(row[k : k + block], column[k : k + block], strict=True) if x and y]  # fmt: skip
            terms += [(float(total), exponent(total))] if total else []
            last = max((e for _, e in terms), default=0) - fraction
            whole = sum(int(term * 2.0**-last) for term, _ in terms)
            beyond = max(abs(whole).bit_length() - 24, 0)
            total = np.float32(np.copysign(abs(whole) >> beyond << beyond, whole) * 2.0**last)
        results.append(total + addend if late else total)
    return np.array(results, np.float32)


def exponent(x):
    """Of 1 ≤ m < 2."""
    return int(np.frexp(float(x))[1]) - 1


def ampere(a, b, c):
    """24 bits, but one sum."""
    return fused(a, b, c, fraction=24)


def float_bits(a, b, c):
    """As many bits as a float32 has."""
    return fused(a, b, c, fraction=23)


def two_sums(a, b, c):
    """A chain of two sums of 8."""
    return fused(a, b, c, block=8)


def c_late(a, b, c):
    """c is added at the end."""
    return fused(a, b, c, late=True)


def exact(a, b, c):
    """The exact sum, rounded once."""
    sums = np.sum(a.astype(np.longdouble) * b.astype(np.longdouble), axis=1)
    return (sums + c.astype(np.longdouble)).astype(np.float32)


#: c's second factor.
ONE = 1


def changed(a, b, c, cut=int, largest=lambda x, y: exponent(x) + exponent(y), digits=24, fraction=25, down=False):
    """The rule with a part changed."""
    results = []
    for row, column, addend in zip(a.astype(float), b.astype(float), c.astype(float), strict=True):
        terms = [*zip(row, column, strict=True), (addend, ONE)]
        last = max(largest(x, y) for x, y in terms if x * y) - fraction
        whole = sum(cut(x * y * 2.0**-last) for x, y in terms)
        beyond = max(abs(whole).bit_length() - digits, 0)
        kept = whole >> beyond << beyond if down else np.copysign(abs(whole) >> beyond << beyond, whole)
        results.append(kept * 2.0**last)
    return np.array(results, np.float32)


def shifted_down(a, b, c):
    """A negative sum is shifted as it is."""
    return changed(a, b, c, down=True)


def exponent_of_frexp(a, b, c):
    """One too large for each factor, and for c."""
    return changed(a, b, c, largest=lambda x, y: np.frexp(x)[1] + (np.frexp(y)[1] if y is not ONE else 0))


def floored(a, b, c):
    """Down in place of toward zero."""
    return changed(a, b, c, cut=lambda x: int(np.floor(x)))


def rounded_terms(a, b, c):
    """Terms to the nearest."""
    return changed(a, b, c, cut=round)


def size_of_the_product(a, b, c):
    """The exponent that the product would have."""
    return changed(a, b, c, largest=lambda x, y: exponent(x * y))


def rounded_at_the_end(a, b, c):
    """What np.float32(...) does."""
    return changed(a, b, c, digits=99)


def cut_to_23(a, b, c):
    """The mantissa bits of a float32, without its leading 1."""
    return changed(a, b, c, digits=23)


def ampere_and_nearest(a, b, c):
    """Two mistakes at once."""
    return changed(a, b, c, digits=99, fraction=24)


def c_exactly(a, b, c):
    """c is added to the exact sum of what is left of the products."""
    return (changed(a, b, np.zeros_like(c), digits=99).astype(np.float64) + c).astype(np.float32)


def one_after_the_other(a, b, c):
    """Every addition rounds."""
    total = c.copy()
    for k in range(16):
        total += (a[:, k].astype(np.float64) * b[:, k].astype(np.float64)).astype(np.float32)
    return total


WRONG = {
    "smallest_survivor": [
        (as_on_ampere, "sm_80 keeps 24"),
        (as_a_float, "A float32 has 23 bits"),
        (just_below, "first that is cut off"),
        (from_one_factor, "exponent of one factor"),
    ],
    "one_fused_sum": [
        (ampere, "24 bits below the largest exponent"),
        (float_bits, "23 bits below the largest exponent"),
        (two_sums, "two sums of 8"),
        (c_late, "You added c at the end"),
        (floored, "cut toward zero"),
        (rounded_terms, "cut off, not rounded"),
        (size_of_the_product, "sum of its factors' exponents"),
        (rounded_at_the_end, "rounds to the nearest"),
        (shifted_down, "The magnitude of the sum is cut"),
        (exponent_of_frexp, "one more than the one that counts"),
        (cut_to_23, "You kept 23 binary digits of the sum"),
        (ampere_and_nearest, "sm_90 keeps 25. The sum is cut to 24 bits, toward zero"),
        (c_exactly, "You added c at the end"),
        (exact, "the exact sum"),
        (one_after_the_other, "one product after the other"),
    ],
}
