"""What observers hear of registers in which the result of a wgmma is pending."""

import numpy as np
import pytest

from tcemu import assembly, simt
from tcemu.machine.events import Touched, WgmmaIssued

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd2, 1, 1, 1, 0, 0;"
DONE = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
#: What comes between a wgmma and its wait, and which registers of its accumulator that reads and writes.
BETWEEN = {
    "add.f32 %f5, %f1, %f3;": [({0, 2}, False)],
    "mov.f32 %f2, 0f3F800000;": [({1}, True)],
    "fma.rn.f32 %f4, %f4, %f5, %f5;": [({3}, False), ({3}, True)],
    "st.global.v4.f32 [%rd1], {%f5, %f4, %f5, %f2};": [({1, 3}, False)],
    "ld.global.f32 %f1, [%rd1];": [({0}, True)],
    "red.global.add.f32 [%rd1], %f3;": [({2}, False)],
    "shfl.sync.bfly.b32 %f2|%p1, %f1, 1, 31, -1;": [({0}, False), ({1}, True)],
    "st.volatile.global.f32 [%rd1], %f1;": [({0}, False)],
    "ld.volatile.global.f32 %f1, [%rd1];": [({0}, True)],
    20 * "ld.volatile.global.f32 %f6, [%rd1]; ": [],
    "add.f32 %f5, %f6, %f7; st.global.f32 [%rd1], %f5;": [],
    # nobody knows afterwards whether it was done
    "setp.eq.u32 %p1, %r1, 7; @%p1 mov.f32 %f2, 0f3F800000;": [],
    "setp.eq.u32 %p1, %r1, 7; @%p1 bra $other; add.f32 %f5, %f1, %f1; $other:": [({0}, False)],
    "setp.ge.u32 %p1, %r1, 0; @%p1 bra $other; add.f32 %f5, %f1, %f1; $other:": [],
}


def kernel(between):
    head = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
    .reg .pred %p<2>;  .reg .b32 %r<4>;  .reg .f32 %f<9>;  .reg .b64 %rd<4>;
    .shared .align 1024 .b8 tile[4096];
    ld.param.u64 %rd1, [out];  mov.u32 %r1, %tid.x;  mul.wide.u32 %rd3, %r1, 16;  add.s64 %rd1, %rd1, %rd3;
    mov.f32 %f1, 0f00000000;  mov.f32 %f2, %f1;  mov.f32 %f3, %f1;  mov.f32 %f4, %f1;  mov.f32 %f5, %f1;
    mov.u32 %r2, tile;  shr.u32 %r2, %r2, 4;  cvt.u64.u32 %rd2, %r2;  or.b64 %rd2, %rd2, 68720001024;
    wgmma.fence.sync.aligned;
"""
    # behind, nobody hears of it
    return simt.Kernel(assembly.parse(f"{head}{WGMMA} {between} {DONE} {between.replace('other', 'end')} ret; }}"), "k")


class Hears:
    """By warp: the registers that are touched, as the latest accumulator numbers them."""

    def __init__(self):
        self.numbers, self.found = (), {}

    def __call__(self, event):
        if isinstance(event, WgmmaIssued):
            self.numbers = event.wgmma.d[0].numbers
        if isinstance(event, Touched):
            which = {self.numbers.index(each) for each in event.numbers if each in self.numbers}
            if which:  # results of the machine have registers of their own before they get to the kernel's
                self.found.setdefault(event.by.warp, []).append((which, event.writes))


@pytest.mark.parametrize("between", BETWEEN)
def test_between_a_wgmma_and_its_wait(between):
    hears = Hears()
    kernel(between).launch(1, 128, np.zeros(512, np.float32), sanitizer="off", observers=[hears])
    wanted = BETWEEN[between]
    assert hears.found == (dict.fromkeys(range(4), wanted) if wanted else {})


def test_operands_that_are_numbers():
    """A vector may hold numbers, too."""
    hears = Hears()
    text = "setp.eq.u32 %p1, %r1, 128; @%p1 cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {0, %r1}];"
    kernel(text).launch(1, 128, np.zeros(512, np.float32), sanitizer="off", observers=[hears])
    assert not hears.found
