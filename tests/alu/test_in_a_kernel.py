"""Destinations in pairs, carries, immediates and inverted predicates reach the table from PTX, on both backends."""

from itertools import product

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


OF_THREE = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 a)
{
    .reg .b32 %r<9>;
    .reg .b64 %l<4>;
    ld.param.u64 %l1, [a];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %l2, %r1, 16;
    add.s64 %l3, %l1, %l2;
    ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%l3];
    OPCODE %r4, %r1, %r2, %r3;
    st.global.b32 [%l3+12], %r4;
    ret;
}
"""


@pytest.mark.parametrize("opcode", [f"{op}{more}.f32" for op, more in product(("min", "max"), ("", ".NaN", ".abs"))])
@pytest.mark.parametrize("backend", ["", "reference"])
def test_the_least_and_largest_of_three(opcode, backend, monkeypatch):
    """PTX ISA 9.1, 9.7.3.11 and .12: NaNs do not count, unless .NaN makes one the result; -0 is below +0."""
    monkeypatch.setenv("TCEMU_KERNELS", backend)
    numbers = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40]
    given = np.array([(*each, 0) for each in product(numbers, repeat=3)], np.float32)
    found = given.copy()
    ptx.load(OF_THREE.replace("OPCODE", opcode))["kernel"](1, len(found), found)
    for *three, result in found:
        several = [abs(each) for each in three] if ".abs" in opcode else three
        known = [each for each in several if not np.isnan(each)]
        if not known or (".NaN" in opcode and len(known) < 3):
            assert result.view(np.uint32) == 0x7FFFFFFF
        else:
            order = sorted(known, key=lambda each: (each, not np.signbit(each)))
            assert result.view(np.uint32) == order[-1 if "max" in opcode else 0].view(np.uint32)
