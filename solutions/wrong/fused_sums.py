"""Wrong answers of notebook 06 about fused sums, with words that the diagnosis contains."""

import numpy as np

import tcemu

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"

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


WRONG = {
    "fused_sum_by_hand": [
        (("given", exactly), "You added exactly"),
        (("given", in_a_loop), "This is float32 arithmetic"),
        (("given", on_an_a100), "You cut one bit too high"),
        (("given", c_added_afterwards), "You left out c"),
    ],
    "chain_of_an_a100": [
        (of_an_h100, "This is an H100's answer"),
        (in_float32, "This is float32 arithmetic"),
        (at_the_end, "This is the exact sum, rounded once"),
        (rounded_shift, "toward minus infinity"),
    ],
}
