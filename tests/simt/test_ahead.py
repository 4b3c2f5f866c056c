"""A load that a compiler has moved ahead of a condition is no access where the condition does not hold."""

import numpy as np
import pytest

import tcemu

#: if (n > 32) sum += s[1], as NVRTC writes it; nothing writes s[1].
SUM = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 x, .param .u32 n)
{
    .reg .f32 %f<6>;  .reg .b32 %r<4>;  .reg .b64 %rd<2>;  .reg .pred %p<3>;
    .shared .align 4 .b8 s[8];
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r3, %tid.x;
    cvt.rn.f32.u32 %f1, %r3;
    EARLY
    LOAD
    add.f32 %f3, %f1, %f2;
    add.s32 %r2, %r1, 1;
    setp.gt.s32 %p1, %r2, 33;
    selp.f32 %f4, SIDES, %p1;
    USE
    st.global.f32 [%rd1], %f4;
    ret;
}"""


def rules(n, load="ld.shared.f32 %f2, [s+4];", sides="%f3, %f1", use="", early=""):
    text = SUM.replace("LOAD", load).replace("SIDES", sides).replace("USE", use).replace("EARLY", early)
    x = np.zeros(1, np.float32)
    launch = tcemu.ptx.load(text)["sum"](1, 1, x, np.uint32(n), sanitizer="collect")
    return [each.rule for each in launch.reports]


@pytest.mark.parametrize(("sides", "n"), [("%f3, %f1", 32), ("%f1, %f3", 33)])
def test_lanes_that_throw_a_value_away_have_not_read_it(sides, n):
    assert rules(n, sides=sides) == []


@pytest.mark.parametrize(("sides", "n"), [("%f3, %f1", 33), ("%f1, %f3", 32)])
def test_lanes_that_use_a_value_have_read_it(sides, n):
    assert rules(n, sides=sides) == ["uninitialised-shared"]


@pytest.mark.parametrize(
    "other",
    [
        {"use": "st.global.f32 [%rd1], %f3;"},
        {"use": "selp.f32 %f5, %f2, %f1, %p1;"},
        {"use": "setp.gt.f32 %p2, %f2, 0f00000000;\n@%p2 st.global.f32 [%rd1], %f1;"},
        {"load": "ld.volatile.shared.f32 %f2, [s+4];"},
        {"sides": "%f3, %f3"},
        {"early": "mov.f32 %f2, %f1;"},
    ],
)
def test_a_load_stays_where_it_is_if_its_value_has_another_use(other):
    assert rules(32, **other) == ["uninitialised-shared"]


def test_a_sum_of_some_warps_of_a_block_with_cub():
    """cub::BlockReduce of a block that is smaller than its template says."""
    pytest.importorskip("tcemu.cuda")
    if not tcemu.cuda.available():
        pytest.skip("NVRTC is not installed")
    source = """#include <cub/block/block_reduce.cuh>
    __global__ void sum(float* x) {
        using Reduce = cub::BlockReduce<float, 256>;
        __shared__ Reduce::TempStorage shared;
        float all = Reduce(shared).Reduce(x[threadIdx.x], [](float a, float b) { return a + b; }, blockDim.x);
        if (threadIdx.x == 0) x[0] = all;
    }"""
    x = np.arange(64, dtype=np.float32)
    launch = tcemu.cuda.compile(source)["sum"](1, 64, x, sanitizer="collect")
    assert x[0] == 2016
    assert not launch.reports
