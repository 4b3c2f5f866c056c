"""Wrong answers of notebook 06 about promotion and products of tf32, with words that the diagnosis contains."""

import numpy as np

import tcemu

FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"

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


WRONG = {
    "promoted": [
        (never, "Nothing is promoted"),
        (after_each, "You promote after every instruction"),
        (with_numpy, "This is the exact product"),
        (not_cleared, "You do not clear the accumulator"),
        (by_mma_sync, "which turns fp8 into f16"),
    ],
    "three_tf32": [
        (only_one, "This is a single tf32 product"),
        (nothing_split, "split the numbers first"),
        (truncated, "You truncated to get the high parts"),
        (truncated_twice, "You truncated the high and the low parts"),
        (low_parts_as_they_are, "You left the low parts to the hardware"),
        (large_first, "The large product comes last here"),
        (added_afterwards, "You added the three products afterwards"),
    ],
}
