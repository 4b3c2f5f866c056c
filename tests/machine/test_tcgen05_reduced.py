"""tcgen05.ld.red: the smallest and largest register of each lane, as numpy says, under every policy."""

import re

import numpy as np
import pytest
from rows import rows
from tensor_kernels import ORDERS, SLOT

import tcemu
from tcemu.errors import ArithmeticUnknown, IllegalInstruction
from tcemu.machine.launch import launch

RNG = np.random.default_rng(3)
FLOATS = RNG.standard_normal((32, 8)).astype(np.float32)
WHOLE = RNG.integers(-(1 << 31), 1 << 31, (32, 8)).astype(np.int32)
#: The words of the instruction, what it loads, and what numpy reduces.
CASES = [
    (f"{op}{more}.{kind}", given, given.view(seen) if not more else np.abs(given))
    for op in ("min", "max")
    for kind, given, seen, more in [
        ("u32", WHOLE, np.uint32, ""),
        ("s32", WHOLE, np.int32, ""),
        ("f32", FLOATS, np.float32, ""),
        ("f32", FLOATS, np.float32, ".abs"),
        ("f32", FLOATS, np.float32, ".abs.NaN"),
    ]
]


def loaded(opcode, given, policy="late", seed=0, stored=None):
    """What a warp loads and the reduction, and the registers before the wait."""
    seen = {}

    def kernel(warp):
        warp.tcgen05_alloc(SLOT, 32)
        warp.bar_warp_sync()
        d = int(warp.ld_shared(SLOT)[0, 0])
        warp.tcgen05_st(d, given.view(np.uint32), "32x32b.x8")
        warp.tcgen05_wait_st()
        values, reduced = warp.run(f"tcgen05.ld.red.sync.aligned.{opcode}", d + (0 if stored is None else stored))
        seen["before"] = reduced.seen().copy()
        warp.tcgen05_wait_ld()
        seen["values"], seen["reduced"] = values.seen().copy(), reduced.seen().copy()
        warp.tcgen05_dealloc(d, 32)

    launch(kernel, 1, 32, shared=64, target="sm_103a", policy=policy, seed=seed)
    return seen


@rows("words given wanted", CASES)
@pytest.mark.parametrize(("policy", "seed"), ORDERS)
def test_the_reduction_is_what_numpy_says(words, given, wanted, policy, seed):
    seen = loaded(f"32x32b.x8.{words}", given, policy, seed)
    assert np.array_equal(seen["values"], given.view(np.uint32))
    reduced = wanted.max(axis=1) if words.startswith("max") else wanted.min(axis=1)
    assert np.array_equal(seen["reduced"][:, 0], reduced.view(np.uint32))
    assert policy != "late" or (seen["before"] == 0x7FFFDEAD).all()


@rows(
    "value words says",
    [
        ([np.nan, 1.0], "min.f32", "lane 5 loads a NaN"),
        ([np.nan, 1.0], "max.NaN.f32", "lane 5 loads a NaN"),
        ([0.0, -0.0], "max.abs.f32", ""),
        ([0.0, -0.0], "min.f32", "lane 5 loads zeros of both signs"),
        ([0.0, -0.0, -1.0], "min.f32", ""),
    ],
)
def test_what_nobody_has_published_ends_the_launch(value, words, says):
    given = np.full((32, 8), 2.0, np.float32)
    given[5, : len(value)] = value
    if not says:
        loaded(f"32x32b.x8.{words}", given)
        return
    with pytest.raises(ArithmeticUnknown, match=re.escape(says)):
        loaded(f"32x32b.x8.{words}", given)


def test_a_lane_with_undefined_cells_has_no_smallest_value():
    """Columns 4 to 11: nothing has written the last four."""
    assert (loaded("32x32b.x8.min.u32", WHOLE, stored=4)["reduced"] == 0x7FFFDEAD).all()


def test_halves_are_refused_by_name():
    with pytest.raises(IllegalInstruction, match="whether the two halves of a lane's columns are reduced together"):
        loaded("16x32bx2.x8.min.u32", WHOLE)


def test_ptx_has_two_results():
    code = """
.version 8.8
.target sm_103a
.address_size 64
.visible .entry reduced(.param .u64 out)
{
    .shared .align 4 .b32 slot;
    .reg .b32 %r<12>;
    .reg .b64 %p, %p0, %p1;
    mov.u32 %r0, slot;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
    bar.warp.sync -1;
    ld.shared.b32 %r1, [%r0];
    mov.u32 %r2, %tid.x;
    add.u32 %r3, %r2, 7;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r1], {%r3, %r2};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {%r4, %r5}, %r6, [%r1];
    tcgen05.wait::ld.sync.aligned;
    ld.param.u64 %p0, [out];
    mul.wide.u32 %p1, %r2, 4;
    add.u64 %p, %p0, %p1;
    st.global.b32 [%p], %r6;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
    ret;
}
"""
    out = np.zeros(32, np.uint32)
    tcemu.ptx.load(code)["reduced"](1, 32, out)
    assert np.array_equal(out, np.arange(32) + 7)
