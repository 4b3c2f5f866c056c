"""Wrong answers of notebook 00 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
TILES = [(row, column) for row in range(0, 48, 16) for column in range(0, 24, 8)]


# ---------------------------------------------------------------------------------------------- first_product


def numpy_product(A, B, C):
    """What one writes without a tensor core."""
    return A.astype(np.float32) @ B.astype(np.float32) + C


def without_c(A, B, C):
    """C is passed as zeros."""
    return product(A, B, np.zeros_like(C))


def c_afterwards(A, B, C):
    """C is added by numpy."""
    return product(A, B, np.zeros_like(C)) + C


def reshaped(A, B, C):
    """The registers are taken for the matrix."""
    return MMA.fragments["d"].pack(product(A, B, C)).view(np.float32).reshape(16, 8)


def product(A, B, C):
    """What is right."""
    a, b, c = (MMA.fragments[role].pack(matrix) for role, matrix in {"a": A, "b": B, "c": C}.items())
    return MMA.fragments["d"].unpack(tcemu.run(MMA, a, b, c))


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


# ---------------------------------------------------------------------------------------------- changed_row


def upper_half_only(lane, register):
    """a1 and a3 are not told from a0 and a2."""
    return lane // 4


def by_the_wrong_bit(lane, register):
    """The registers are counted along the rows first."""
    return lane // 4 + 8 * (register // 2)


def place_in_group(lane, register):
    """Quotient and remainder are swapped."""
    return lane % 4 + 8 * (register % 2)


# ---------------------------------------------------------------------------------------------- whole_product


def numpy_whole(A, B):
    """Without a tensor core."""
    return A.astype(np.float32) @ B.astype(np.float32)


def columns_continue(A, B):
    """Zero only in the first tile of a row of tiles."""
    D = np.zeros((48, 24), np.float32)
    for row in range(0, 48, 16):
        c = np.zeros((16, 8), np.float32)
        for column in range(0, 24, 8):
            c = D[row : row + 16, column : column + 8] = tcemu.matmul(
                A[row : row + 16], B[:, column : column + 8], c, instruction=MMA
            )
    return D


def steps_added(A, B):
    """The steps are added by numpy."""
    D = np.zeros((48, 24), np.float32)
    for k in range(0, 64, 16):
        D += tcemu.matmul(A[:, k : k + 16], B[k : k + 16], instruction=MMA)
    return D


def last_step(A, B):
    """Each step begins with zeros."""
    return tcemu.matmul(A[:, 48:], B[48:], instruction=MMA)


def from_the_end(A, B):
    """The steps go from the last to the first."""
    D = np.zeros((48, 24), np.float32)
    for k in (48, 32, 16, 0):
        D = tcemu.matmul(A[:, k : k + 16], B[k : k + 16], D, instruction=MMA)
    return D


def tile_after_tile(A, B):
    """The accumulator is cleared once, and not for each tile."""
    D, tile = np.zeros((48, 24), np.float32), np.zeros((16, 8), np.float32)
    for row in range(0, 48, 16):
        for column in range(0, 24, 8):
            tile = tcemu.matmul(A[row : row + 16], B[:, column : column + 8], tile, instruction=MMA)
            D[row : row + 16, column : column + 8] = tile
    return D


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
    "first_product": [
        (numpy_product, "numpy's product"),
        (without_c, "C is missing"),
        (c_afterwards, "C after the instruction"),
        (reshaped, "use unpack"),
    ],
    "smallest_survivor": [
        (as_on_ampere, "sm_80 keeps 24"),
        (as_a_float, "A float32 has 23 bits"),
        (just_below, "first that is cut off"),
        (from_one_factor, "exponent of one factor"),
    ],
    "changed_row": [
        (upper_half_only, "Eight rows below"),
        (by_the_wrong_bit, "register % 2"),
        (place_in_group, "group of four lanes"),
    ],
    "whole_product": [
        (numpy_whole, "numpy's product"),
        (steps_added, "added the steps with numpy"),
        (last_step, "Only the last step"),
        (from_the_end, "descending order"),
        (columns_continue, "c must be zero at the beginning of every tile"),
        (tile_after_tile, "c must be zero at the beginning of every tile"),
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
