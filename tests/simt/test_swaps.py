"""A loop of atom.cas may begin with an ordinary load, as CUDA's guide writes it; other loads race with atom.cas."""

import numpy as np
import pytest

import tcemu

LOOP = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 x)
{
    .reg .b32 %r<6>;  .reg .b64 %rd<3>;  .reg .pred %p<2>;
    ld.param.u64 %rd1, [x];
    add.s64 %rd2, %rd1, 4;
    LOAD
    mov.u32 %r2, %r1;
again:
    add.u32 %r3, COMPARED, 1;
    atom.global.cas.b32 %r4, [%rd2], COMPARED, %r3;
    setp.ne.u32 %p1, %r4, COMPARED;
    mov.u32 %r2, %r4;
    @%p1 bra again;
    ret;
}"""


def reports(load: str, compared: str = "%r2") -> tuple[int, list[str]]:
    x = np.zeros(2, np.int32)
    text = LOOP.replace("LOAD", load).replace("COMPARED", compared)
    launch = tcemu.ptx.load(text)["add"](2, 64, x, sanitizer="collect")
    return int(x[1]), [each.rule for each in launch.reports if each.severity == "error"]


@pytest.mark.parametrize("load", ["ld.global.u32 %r1, [%rd1+4];", "ld.global.u32 %r1, [%rd2];"])
def test_a_loop_may_begin_with_an_ordinary_load(load):
    assert reports(load) == (128, [])


def test_a_load_of_something_else_races():
    _, found = reports("ld.global.u32 %r5, [%rd2]; mov.u32 %r1, 0;")
    assert set(found) == {"global-race"}


def test_an_ordinary_store_races_with_the_loop():
    _, found = reports("ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd2], %r1;")
    assert "global-race" in found
