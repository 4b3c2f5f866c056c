"""What observers hear of the registers of a wgmma that no wait has covered."""

import numpy as np
import pytest

from tcemu import assembly, simt
from tcemu.machine.events import Touched, WgmmaIssued
from tcemu.machine.pending import POLICIES

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd2, 1, 1, 1, 0, 0;"
#: The same with A in registers.
OF_REGISTERS = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, {%r4, %r5, %r6, %r7}, %rd2, 1, 1, 1, 0;"
)
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
    "setp.lt.u32 %p1, %r1, 999; @%p1 mov.f32 %f2, 0f3F800000;": [({1}, True)],
    "setp.lt.u32 %p1, %r1, 999; ld.volatile.global.f32 %f6, [%rd1]; @%p1 st.global.f32 [%rd1], %f3;": [({2}, False)],
    "setp.lt.u32 %p1, %r1, 999; @!%p1 mov.f32 %f2, 0f3F800000;": [],
    # nobody knows afterwards whether it was done
    "setp.lt.u32 %p1, %r1, 999; bra $on; $on: @%p1 st.global.f32 [%rd1], %f3;": [],
    "setp.lt.u32 %p1, %r1, 999; @%p1 mov.f32 %f2, 0f3F800000; setp.eq.u32 %p1, %r1, 7;": [],
    "setp.lt.u32 %p1, %r1, 999; @%p1 mov.f32 %f2, 0f3F800000; bra $on; $on: setp.eq.u32 %p1, %r1, 7;": [],
    "setp.eq.u32 %p1, %r1, 7; @%p1 bra $other; add.f32 %f5, %f1, %f1; $other:": [({0}, False)],
    "setp.ge.u32 %p1, %r1, 0; @%p1 bra $other; add.f32 %f5, %f1, %f1; $other:": [],
}


#: The same with A in registers: reads see what the wgmma sees, and compilers move them.
BETWEEN_OF_A = {
    "mov.b32 %r5, %r8;": [({5}, True)],
    "add.u32 %r8, %r4, %r7;": [],
    "xor.b32 %r6, %r6, %r7;": [({6}, True)],
    "ld.global.v2.u32 {%r4, %r7}, [%rd1];": [({4, 7}, True)],
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];": [({4}, True)],
    "mov.b32 %r5, %f2;": [({1}, False), ({5}, True)],
}


def kernel(between, wgmma=WGMMA):
    head = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
    .reg .pred %p<2>;  .reg .b32 %r<9>;  .reg .f32 %f<9>;  .reg .b64 %rd<4>;
    .shared .align 1024 .b8 tile[4096];
    ld.param.u64 %rd1, [out];  mov.u32 %r1, %tid.x;  mul.wide.u32 %rd3, %r1, 16;  add.s64 %rd1, %rd1, %rd3;
    mov.f32 %f1, 0f00000000;  mov.f32 %f2, %f1;  mov.f32 %f3, %f1;  mov.f32 %f4, %f1;  mov.f32 %f5, %f1;
    mov.u32 %r2, tile;  shr.u32 %r2, %r2, 4;  cvt.u64.u32 %rd2, %r2;  or.b64 %rd2, %rd2, 68720001024;
    mov.u32 %r3, tile;  mov.b32 %r4, 0;  mov.b32 %r5, 0;  mov.b32 %r6, 0;  mov.b32 %r7, 0;  mov.b32 %r8, 0;
    wgmma.fence.sync.aligned;
"""
    behind = between.replace("other", "end").replace("on", "off")  # nobody hears of it
    return simt.Kernel(assembly.parse(f"{head}{wgmma} {between} {DONE} {behind} ret; }}"), "k")


class Hears:
    """By warp: the registers that are touched, as the latest wgmma numbers them: 4 to 7 are A."""

    def __init__(self):
        self.numbers, self.found = (), {}

    def __call__(self, event):
        if isinstance(event, WgmmaIssued):
            self.numbers = event.wgmma.d[0].numbers + (event.wgmma.a and event.wgmma.a[0].numbers)
        if isinstance(event, Touched):
            which = {self.numbers.index(each) for each in event.numbers if each in self.numbers}
            if which:  # results of the machine have registers of their own before they get to the kernel's
                self.found.setdefault(event.by.warp, []).append((which, event.writes))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("between", [*BETWEEN, *BETWEEN_OF_A])
def test_between_a_wgmma_and_its_wait(between, policy):
    """Whether it has ended by then, as in the policy early, makes no difference."""
    hears, of_registers = Hears(), between in BETWEEN_OF_A
    made = kernel(between, OF_REGISTERS if of_registers else WGMMA)
    made.launch(1, 128, np.zeros(512, np.float32), sanitizer="off", observers=[hears], policy=policy)
    wanted = (BETWEEN_OF_A if of_registers else BETWEEN)[between]
    assert hears.found == (dict.fromkeys(range(4), wanted) if wanted else {})


def test_operands_that_are_numbers():
    """A vector may hold numbers, too."""
    hears = Hears()
    text = "setp.eq.u32 %p1, %r1, 128; @%p1 cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {0, %r1}];"
    kernel(text).launch(1, 128, np.zeros(512, np.float32), sanitizer="off", observers=[hears])
    assert not hears.found


@pytest.mark.parametrize("policy", POLICIES)
def test_the_sanitizer_reports_a_that_is_overwritten(policy):
    """Before the wait, not behind it."""
    reports = (
        kernel("mov.b32 %r5, %r8;", OF_REGISTERS)
        .launch(1, 128, np.zeros(512, np.float32), sanitizer="collect", policy=policy)
        .reports
    )
    (report,) = [each for each in reports if each.rule == "wgmma-unwaited"]
    assert "the kernel writes register 1 of the A of wgmma.mma_async" in report.message
