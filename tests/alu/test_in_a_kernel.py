"""Destinations in pairs, carries, immediates and inverted predicates reach the table from PTX, on both backends."""

import numpy as np
import pytest

from tcemu import ptx

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 a)
{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %l<4>;
    ld.param.u64 %l1, [a];
    cvta.to.global.u64 %l1, %l1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %l2, %r1, 4;
    add.s64 %l3, %l1, %l2;
    setp.lt.u32 %p1|%p2, %r1, 7;
    selp.u32 %r2, 1, 0, %p1;
    selp.u32 %r3, 10, 0, %p2;
    add.u32 %r4, %r2, %r3;
    setp.ge.u32 %p3, %r1, 20;
    lop3.or.b32 %r6|%p1, %r4, %r1, 12, 0xE8, !%p3;
    selp.u32 %r7, 100, 0, %p1;
    lop3.b32 %r5, %r4, %r1, 12, 0x96;
    add.u32 %r5, %r5, %r7;
    add.cc.u32 %r6, %r5, -50;
    addc.u32 %r5, %r5, 0;
    st.global.u32 [%l3], %r5;
    ret;
}
"""


@pytest.mark.parametrize("backend", ["", "reference"])
def test_pairs_carries_and_immediates(backend, monkeypatch):
    monkeypatch.setenv("TCEMU_KERNELS", backend)
    found = np.zeros(32, np.uint32)
    ptx.load(TEXT)["kernel"](1, 32, found)
    lane = np.arange(32)
    first = np.where(lane < 7, 1, 10)
    majority = (first & lane) | (first & 12) | (lane & 12)
    expected = (first ^ lane ^ 12) + np.where((majority != 0) | (lane < 20), 100, 0)
    np.testing.assert_array_equal(found, expected + (expected >= 50))
