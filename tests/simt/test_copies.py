"""Copies that lanes of a warp start together, each with operands of its own."""

from __future__ import annotations

import numpy as np
import pytest

import tcemu
from tests.simt.texts import kernel

_SHARED = ".shared .align 128 .b8 tiles[256];"


def test_each_lane_stores_the_box_at_its_own_coordinates():
    """As DeepGEMM's epilogue does: as many lanes as there are boxes."""
    body = """
    cvta.param.u64 %rd2, map;
    mov.u32 %r1, tiles;  mad.lo.u32 %r2, %r0, 8, %r1;
    shl.b32 %r3, %r0, 1;  add.u32 %r4, %r3, 1;  st.shared.v2.u32 [%r2], {%r3, %r4};
    fence.proxy.async.shared::cta;  bar.sync 0;
    setp.gt.u32 %p1, %r0, 1;  @%p1 ret;
    shl.b32 %r5, %r0, 2;  mad.lo.u32 %r6, %r0, 128, %r1;  mov.u32 %r7, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r5, %r7}], [%r6];
    cp.async.bulk.commit_group;  cp.async.bulk.wait_group 0;
    """
    stored, out = np.zeros((8, 8), np.uint32), np.zeros(1, np.uint32)
    parameters = ".param .u64 out, .param .align 64 .b8 map[128]"
    result = kernel(body, parameters, before=_SHARED)(1, 32, out, tcemu.tensor_map(stored, (4, 8)))
    assert np.array_equal(stored, np.arange(64).reshape(2, 8, 4).transpose(1, 0, 2).reshape(8, 8))
    assert not result.reports


def test_each_lane_copies_as_many_bytes_as_it_says():
    body = """
    mov.u32 %r1, tiles;  mad.lo.u32 %r2, %r0, 8, %r1;
    st.shared.v2.u32 [%r2], {%r0, %r0};
    fence.proxy.async.shared::cta;  bar.sync 0;
    setp.gt.u32 %p1, %r0, 1;  @%p1 ret;
    mad.lo.u32 %r3, %r0, 128, %r1;  mad.wide.u32 %rd2, %r0, 128, %rd1;  mad.lo.u32 %r4, %r0, 16, 16;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], %r4;
    cp.async.bulk.commit_group;  cp.async.bulk.wait_group 0;
    """
    out = np.full(64, 99, np.uint32)
    kernel(body, before=_SHARED)(1, 32, out)
    assert out.tolist() == [0, 0, 1, 1] + [99] * 28 + [16, 16, 17, 17, 18, 18, 19, 19] + [99] * 24


@pytest.mark.parametrize("width", [1, 2, 4])
def test_st_async_stores_and_its_bytes_complete_the_phase(width):
    """Each of some lanes stores 1, 2 or 4 of its registers in the shared memory of its own cluster."""
    lanes = 32 // width
    vector, registers = f".v{width}" if width > 1 else "", ", ".join(f"%r{6 + each}" for each in range(width))
    body = f"""
    mov.u32 %r1, tiles;  setp.ne.u32 %p1, %r0, 0;
    @!%p1 mbarrier.init.shared.b64 [%r1], 1;  @!%p1 fence.mbarrier_init.release.cluster;
    @!%p1 mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r1], 128;  bar.sync 0;
    setp.ge.u32 %p2, %r0, {lanes};  mad.lo.u32 %r2, %r0, {4 * width}, %r1;
    mul.lo.u32 %r6, %r0, 10;  add.u32 %r7, %r6, 1;  add.u32 %r8, %r6, 2;  add.u32 %r9, %r6, 3;
    @!%p2 st.async.shared::cluster.mbarrier::complete_tx::bytes{vector}.u32 [%r2+128], {{{registers}}}, [%r1];
    wait: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p3, [%r1], 0;  @!%p3 bra wait;
    mad.lo.u32 %r4, %r0, 4, %r1;  ld.shared.u32 %r5, [%r4+128];
    mad.wide.u32 %rd2, %r0, 4, %rd1;  st.global.u32 [%rd2], %r5;
    """
    out = np.full(32, 99, np.uint32)
    result = kernel(body, before=_SHARED)(1, 32, out)
    assert out.tolist() == [10 * lane + each for lane in range(lanes) for each in range(width)]
    assert not result.reports
