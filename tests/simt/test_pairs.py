"""Addresses of shared memory in a cluster have the block's rank in the bits from 24 on, as on an H100."""

import numpy as np
import pytest

from tcemu import ptx

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry look(.param .u64 out)
{
    .reg .b32 %r<20>;  .reg .b64 %l<9>;  .reg .pred %p;
    .shared .align 8 .b32 box[33];
    ld.param.u64 %l1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, box;
    shl.b32 %r4, %r1, 2;
    add.s32 %r5, %r3, %r4;
    mad.lo.s32 %r6, %r2, 100, %r1;
    st.shared.u32 [%r5], %r6;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    and.b32 %r7, %r5, 0xFEFFFFFF;           // the same place in the first block of the pair
    ld.shared::cluster.u32 %r8, [%r7];
    xor.b32 %r9, %r5, 0x1000000;            // in the other block
    ld.shared::cluster.u32 %r10, [%r9];
    ld.shared.u32 %r11, [%r5];              // its own
    ld.volatile.shared.u32 %r12, [%r5];
    mov.u64 %l2, box;
    cvta.shared.u64 %l3, %l2;
    cvt.u64.u32 %l4, %r4;
    add.u64 %l5, %l3, %l4;
    ld.u32 %r13, [%l5];
    cvta.to.shared.u64 %l6, %l5;
    ld.shared.u32 %r14, [%l6];
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    atom.shared.or.b32 %r15, [%l6], 0;
    isspacep.shared %p, %l5;
    selp.u32 %r16, 1, 0, %p;
    mad.lo.s32 %r17, %r2, 32, %r1;
    mul.wide.u32 %l7, %r17, 32;
    add.s64 %l8, %l1, %l7;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    st.global.v4.u32 [%l8], {%r8, %r10, %r11, %r12};
    st.global.v4.u32 [%l8+16], {%r13, %r14, %r15, %r16};
    ret;
}
"""


@pytest.mark.parametrize("backend", ["", "reference"])
@pytest.mark.parametrize("seed", [0, 5])
def test_the_rank_is_in_the_address(backend, seed, monkeypatch):
    monkeypatch.setenv("TCEMU_KERNELS", backend)
    out = np.zeros((4, 32, 8), np.uint32)
    result = ptx.load(TEXT)["look"](4, 32, out, cluster=4, seed=seed, sanitizer="collect")
    assert not result.reports
    lane = np.arange(32)
    for rank, (first, other, *own, inside) in enumerate(out.transpose(0, 2, 1)):
        np.testing.assert_array_equal(first, 100 * (rank & ~1) + lane)
        np.testing.assert_array_equal(other, 100 * (rank ^ 1) + lane)
        assert inside.all()
        for each in own:
            np.testing.assert_array_equal(each, 100 * rank + lane)


def test_without_a_cluster_addresses_begin_at_0():
    text = TEXT.replace("%r11, [%r5]", "%r11, [%r4]").replace("ld.shared::cluster.u32 %r10, [%r9]", "mov.u32 %r10, 0")
    out = np.zeros((1, 32, 8), np.uint32)
    ptx.load(text)["look"](1, 32, out, sanitizer="off")
    np.testing.assert_array_equal(out[0, :, 2], np.arange(32))
