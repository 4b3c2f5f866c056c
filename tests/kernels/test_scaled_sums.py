"""Sums with scales that lose no bit of a product give the results of the plain-Python reference."""

from itertools import product

import numpy as np
import pytest
from quick import DAY, spread

import tcemu
from tcemu.arithmetic import find, reference
from tcemu.formats import lookup

pytest.importorskip("numba")

WARPS = 32
#: Patterns of accumulators that no short sum takes, except for the zeros.
SPECIAL = np.array([0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000], np.uint32)


def elements(rng, form, shape, *, low, zeros):
    """Patterns of a small format with exponent fields up to `low`; so many of them are zero."""
    field = rng.integers(0, min(low, (1 << form.exponent) - 1) + 1, shape)
    code = field << form.mantissa | rng.integers(0, 1 << form.mantissa, shape)
    code = np.where(rng.random(shape) < zeros, 0, code)
    return ((code | rng.integers(0, 2, shape) << (form.exponent + form.mantissa)) << form.padding).astype(form.storage)


def accumulators(rng, scale):
    """Float32 patterns for all warps: those of a warp are alike, from far below to far above products of 2^scale."""
    shape, lead = (WARPS, 16, 8), (WARPS, 1, 1)
    about = rng.integers(-24, 14, lead) + rng.integers(-8, 9, shape) * rng.choice([0, 1, 4], lead) // 4
    field = np.clip(127 + scale + about, 1, 254)
    bits = (rng.integers(0, 2, shape) << 31 | field << 23 | rng.integers(0, 1 << 23, shape)).astype(np.uint32)
    some = rng.random(shape) < rng.choice([0, 0, 0.02, 0.5], lead)
    return np.where(some, rng.choice(SPECIAL, shape), np.where(rng.random(lead) < 0.1, 0, bits)).astype(np.uint32)


#: Formats of A and of B, and the largest exponent field: sums of the fourth are sometimes short.
FORMS = ("e2m1", "e2m1", 3), ("e3m2", "e2m3", 7), ("e4m3", "e4m3", 8), ("e4m3", "e4m3", 10), ("e5m2", "e4m3", 7)


#: How far apart the scales are; each pair of formats is asked two of these, other ones every day.
FAR = [0, 30, 47, 48, 49, 120]
ASKED = [(*form, far) for number, form in enumerate(FORMS) for far in spread(FAR, 3, first=number + DAY)]


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b", "low", "far"), ASKED)
def test_short_sums_with_scales(a, b, low, far):
    """Scales of 2^far, up and down, times -1, 0 and 1 more; products of some lanes are all zero."""
    opcode = f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.{a}.{b}.f32.ue8m0"
    instruction = tcemu.parse(opcode, target="sm_120a")
    fragments, forms = instruction.fragments, instruction.types
    rng = np.random.default_rng([far, low])
    lead = (WARPS, 1, 1)
    scale = np.where(rng.integers(0, 2, lead) == 1, far, -far)
    scales = rng.integers(-1, 2, (WARPS, 16, 1)) + scale + 127, np.full((WARPS, 8), 127)
    patterns = {
        role: elements(rng, forms[role], (WARPS, *fragments[role].shape), low=low, zeros=rng.choice([0, 0.9, 1], lead))
        for role in "ab"
    }
    patterns["c"] = accumulators(rng, scale)
    held = [
        fragments[role].pack(np.broadcast_to(given, (WARPS, *fragments[role].shape)).astype(np.uint8))[..., 0]
        for role, given in (("scale_a", scales[0][:, None]), ("scale_b", scales[1][:, None, None]))
    ]
    words = (fragments[role].pack(patterns[role]) for role in "abc")
    found = tcemu.run(instruction, *words, held[0], (0, 0), held[1], (0, 0), target="sm_120a")
    d = fragments["d"].unpack_patterns(found)
    model = find(120, "mma.block_scale", "m16n8k32", a, b, "f32", "f32").model
    known = {role: forms[role] for role in "abcd"} | {"scale": lookup("ue8m0")}
    for warp, m, n in product(range(WARPS), rng.choice(16, 3, replace=False).tolist(), range(8)):
        row, column = patterns["a"][warp, m].tolist(), patterns["b"][warp, :, n].tolist()
        own = [int(scales[0][warp, m, 0])], [int(scales[1][warp, n])]
        want = reference.dot_scaled(model, row, column, int(patterns["c"][warp, m, n]), own, known)
        assert int(d[warp, m, n]) == want, (warp, m, n)
