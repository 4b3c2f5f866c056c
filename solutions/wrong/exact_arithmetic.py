"""Wrong answers of notebook 06 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"

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


# ---------------------------------------------------------------------------------------------- promoted


def never(A, B):
    """All of k in the accumulator."""
    return tcemu.matmul(A, B, instruction=WGMMA)


def after_each(A, B):
    """One instruction at a time."""
    parts = [tcemu.matmul(A[:, k : k + 32], B[k : k + 32], instruction=WGMMA) for k in range(0, 512, 32)]
    return sum(parts[1:], start=parts[0])


def by_mma_sync(A, B):
    """The other way to multiply fp8."""
    return tcemu.matmul(A, B, instruction=FP8)


def with_numpy(A, B):
    """No tensor core at all."""
    return (A.astype(np.float64) @ B.astype(np.float64)).astype(np.float32)


def not_cleared(A, B):
    """The accumulator goes on, and is added every time."""
    total, inner = np.zeros((64, 8), np.float32), np.zeros((64, 8), np.float32)
    for k in range(0, 512, 128):
        inner = tcemu.matmul(A[:, k : k + 128], B[k : k + 128], inner, instruction=WGMMA)
        total += inner
    return total


# ---------------------------------------------------------------------------------------------- a sum by hand


def exactly(given):
    """Nothing is cut off."""
    return float(np.sum(given.a.astype(float) * given.b.astype(float)) + given.c)


def in_a_loop(given):
    """Float32, one term after the other."""
    total = np.float32(given.c)
    for x, y in zip(given.a, given.b, strict=True):
        total = np.float32(total + np.float32(x) * np.float32(y))
    return float(total)


def on_an_a100(given):
    """24 bits; the same as counting from the highest bit of the product."""
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    a[0, :4], b[:4, 0] = given.a, given.b
    c = np.zeros((16, 8), np.float32)
    c[0, 0] = given.c
    return float(tcemu.matmul(a, b, c, instruction=F16, target="sm_80")[0, 0])


def c_added_afterwards(given):
    """The products alone."""
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    a[0, :4], b[:4, 0] = given.a, given.b
    return float(tcemu.matmul(a, b, instruction=F16)[0, 0])


# ---------------------------------------------------------------------------------------------- three products


def rounded(x, rounding="rna"):
    """Numbers of tf32, as float32."""
    return tcemu.formats.lookup("tf32").encode(x, rounding=rounding).view(np.float32)


def product(A, B, C=None):
    """One product of tf32."""
    return tcemu.matmul(A, B, C, instruction="mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")


def only_one(A, B):
    """The high parts alone."""
    return product(rounded(A), rounded(B))


def nothing_split(A, B):
    """float32 as it is."""
    return product(A, B)


def truncated(A, B):
    """What the hardware would cut off, in a second part."""
    high_a, high_b = rounded(A, "rz"), rounded(B, "rz")
    D = product(high_a, rounded(B - high_b), product(rounded(A - high_a), high_b))
    return product(high_a, high_b, D)


def truncated_twice(A, B):
    """High and low parts cut off."""
    (high_a, low_a), (high_b, low_b) = ((rounded(x, "rz"), rounded(x - rounded(x, "rz"), "rz")) for x in (A, B))
    return product(high_a, high_b, product(high_a, low_b, product(low_a, high_b)))


def low_parts_as_they_are(A, B):
    """The low parts have too many bits, and are truncated."""
    high_a, high_b = rounded(A), rounded(B)
    return product(high_a, high_b, product(high_a, B - high_b, product(A - high_a, high_b)))


def large_first(A, B):
    """The small products are cut off against the large one."""
    high_a, high_b = rounded(A), rounded(B)
    D = product(high_a, rounded(B - high_b), product(high_a, high_b))
    return product(rounded(A - high_a), high_b, D)


def added_afterwards(A, B):
    """Three products from zero."""
    high_a, high_b = rounded(A), rounded(B)
    parts = product(rounded(A - high_a), high_b), product(high_a, rounded(B - high_b)), product(high_a, high_b)
    return parts[0] + parts[1] + parts[2]


# ---------------------------------------------------------------------------------------------- chains


def of_an_h100(a, b, c):
    """The other chip."""
    return chained(a, b, c, "sm_90a")


def in_float32(a, b, c):
    """A loop with ordinary additions."""
    total = c.copy()
    for k in range(16):
        total = total + a[:, k].astype(np.float32) * b[:, k].astype(np.float32)
    return total


def at_the_end(a, b, c):
    """Exact, and rounded once."""
    return (np.sum(a.astype(float) * b.astype(float), axis=1) + c).astype(np.float32)


def rounded_shift(a, b, c, block=8):
    """Python's >> on negative whole numbers cuts toward minus infinity."""
    found = []
    for x, y, z in zip(a.astype(float), b.astype(float), c, strict=True):
        total = z
        for k in range(0, 16, block):
            total = one_sum(x[k : k + block], y[k : k + block], total)
        found.append(total)
    return np.array(found, np.float32)


def one_sum(x, y, z):
    """A fused sum that takes the floor of each term."""
    places = [np.frexp(p)[1] + np.frexp(q)[1] - 2 for p, q in zip(x, y, strict=True) if p * q]
    places += [np.frexp(z)[1] - 1] if z else []
    cut = 2.0 ** (max(places) - 24)
    total = sum(int(np.floor(p * q / cut)) for p, q in zip(x, y, strict=True)) + int(np.floor(float(z) / cut))
    low = max(0, abs(total).bit_length() - 24)
    return np.float32(np.copysign((abs(total) >> low << low) * cut, total))


def chained(a, b, c, target):
    """Each case as an output of its own."""
    found = []
    for x, y, z in zip(a, b, c, strict=True):
        left, right = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
        addend = np.zeros((16, 8), np.float32)
        left[0], right[:, 0], addend[0, 0] = x, y, z
        found.append(tcemu.matmul(left, right, addend, instruction=F16, target=target)[0, 0])
    return np.array(found, np.float32)


def another_way(given, near):
    """An answer to whose_bits that shares its target, or its splits, with the right one; or neither."""
    ways = [(target, splits) for target in (80, 90) for splits in (1, 2, 4)]

    def product(target, splits):
        share = 256 // splits
        parts = [
            tcemu.matmul(given.A[:, k : k + share], given.B[k : k + share], instruction=F16, target=f"sm_{target}")
            for k in range(0, 256, share)
        ]
        return sum(parts[1:], start=parts[0])

    right = next(way for way in ways if np.array_equal(product(*way), given.D))
    shared = {"target": (True, False), "splits": (False, True), "": (False, False)}[near]
    way = next(way for way in ways if tuple(x == y for x, y in zip(way, right, strict=True)) == shared)
    return {"target": way[0], "splits": way[1]}


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
    "promoted": [
        (never, "Nothing is promoted"),
        (after_each, "You promote after every instruction"),
        (with_numpy, "This is the exact product"),
        (not_cleared, "You do not clear the accumulator"),
        (by_mma_sync, "which turns fp8 into f16"),
    ],
    "fused_sum_by_hand": [
        (("given", exactly), "You added exactly"),
        (("given", in_a_loop), "This is float32 arithmetic"),
        (("given", on_an_a100), "You cut one bit too high"),
        (("given", c_added_afterwards), "You left out c"),
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
    "three_tf32": [
        (only_one, "This is one product of tf32"),
        (nothing_split, "split the numbers first"),
        (truncated, "You truncated to get the high parts"),
        (truncated_twice, "You truncated the high and the low parts"),
        (low_parts_as_they_are, "You left the low parts to the hardware"),
        (large_first, "The large product comes last here"),
        (added_afterwards, "You added the three products afterwards"),
    ],
    "whose_bits": [
        (("given", lambda given: another_way(given, "target")), "The target is right."),
        (("given", lambda given: another_way(given, "splits")), "The splits are right."),
        (("given", lambda given: another_way(given, "")), "outputs have other bits"),
    ],
    "chain_of_an_a100": [
        (of_an_h100, "This is an H100's answer"),
        (in_float32, "This is float32 arithmetic"),
        (at_the_end, "This is the exact sum, rounded once"),
        (rounded_shift, "toward minus infinity"),
    ],
}
