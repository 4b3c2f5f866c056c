"""tcgen05 in PTX text: a product of one block, with the operands as compilers write them."""

import numpy as np
import pytest
from rows import rows

import tcemu
from tcemu.errors import PtxError, TcemuError
from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.simt.operations import matched

TEXT = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)
{
  .reg .pred %p<4>;
  .reg .b32 %r<40>;
  .reg .b64 %rd<12>;
  .shared .align 1024 .b8 tile[4352];
  .shared .align 8 .b64 bar;
  .shared .align 4 .b32 slot;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [d];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  setp.ne.u32 %p1, %r2, 0;
  mov.u32 %r3, tile;
  mov.u32 %r4, bar;
  mov.u32 %r5, slot;
  @%p1 bra FILL;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra FILL;
  mbarrier.init.shared::cta.b64 [%r4], 1;
  fence.mbarrier_init.release.cluster;
FILL:
  mul.wide.u32 %rd4, %r1, 16;
  add.s64 %rd5, %rd1, %rd4;
  shl.b32 %r6, %r1, 4;
  add.u32 %r6, %r6, %r3;
  ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%rd5];
  st.shared.v4.u32 [%r6], {%r7, %r8, %r9, %r10};
  ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%rd5+2048];
  st.shared.v4.u32 [%r6+2048], {%r7, %r8, %r9, %r10};
  setp.gt.u32 %p2, %r1, 15;
  @%p2 bra FILLED;
  add.s64 %rd5, %rd2, %rd4;
  ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%rd5];
  st.shared.v4.u32 [%r6+4096], {%r7, %r8, %r9, %r10};
FILLED:
  fence.proxy.async.shared::cta;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %r11, [%r5];
  @%p1 bra WAIT;
  elect.sync _|%p2, 0xffffffff;
  mov.b64 %rd6, LEFT;
  mov.b64 %rd7, RIGHT;
  shr.u32 %r12, %r3, 4;
  cvt.u64.u32 %rd8, %r12;
  add.s64 %rd6, %rd6, %rd8;
  add.s64 %rd7, %rd7, %rd8;
  mov.u32 %r13, IDESC;
  mov.u32 %r14, 0;
  setp.ne.u32 %p3, %r14, 0;
  @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r13, %p3;
  setp.eq.u32 %p3, %r14, 0;
  mov.u32 %r15, 1;
  @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r13, {%r15, %r14, %r14, %r14}, %p3;
  @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
  @!%p2 bra WAIT;
  tcgen05.fence::after_thread_sync;
  shl.b32 %r16, %r2, 21;
  add.u32 %r16, %r16, %r11;
  tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%r16];
  tcgen05.wait::ld.sync.aligned;
  mul.wide.u32 %rd9, %r1, 32;
  add.s64 %rd9, %rd9, %rd3;
  st.global.v4.u32 [%rd9], {%r20, %r21, %r22, %r23};
  st.global.v4.u32 [%rd9+16], {%r24, %r25, %r26, %r27};
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  @%p1 bra DONE;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;
DONE:
  ret;
}
"""


def _text():
    left, right = Descriptor(0, lbo=2048, sbo=128), Descriptor(4096, lbo=128, sbo=128)
    text = TEXT.replace("LEFT", str(tcgen05_descriptor(left))).replace("RIGHT", str(tcgen05_descriptor(right)))
    return text.replace("IDESC", str(instruction_descriptor(128, 8)))


def test_text_may_leave_out_the_quarter_of_the_warp():
    """DeepGEMM's kernels for sm_100 give tcgen05.ld lane 0 in all warps; each reads its own quarter, with a hint."""
    result = _check_product(_text().replace("shl.b32 %r16, %r2, 21;", "mov.u32 %r16, 0;"))
    assert {(each.rule, each.severity) for each in result.reports} == {("tcgen05-lanes", "hint")}
    assert "and warp 1 reaches lanes from 32 on" in str(result.reports[0])
    assert not _check_product(_text()).reports


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("policy", ["early", "late", "random"])
def test_a_product_of_text(policy, seed):
    _check_product(_text(), policy=policy, seed=seed)


def _check_product(text, **options):
    """A B twice, in all rows but the first, whose lane the second one leaves unwritten."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((count, 16)).astype(np.float16) for count in (128, 8))
    chunks = [np.ascontiguousarray(each.reshape(-1, 2, 8).swapaxes(0, 1)) for each in (a, b)]
    d = np.zeros((128, 8), np.float32)
    result = tcemu.ptx.load(text)["product"](1, 128, *chunks, d, **options)
    opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    once = tcemu.matmul(a, b.T, instruction=opcode, target="sm_100a")
    twice = tcemu.matmul(a, b.T, once, instruction=opcode, target="sm_100a")
    twice[0] = once[0]
    assert np.array_equal(d, twice)
    return result


@rows(
    "opcode operands roles",
    [
        ("tcgen05.mma.cta_group::1.kind::f16", "[%r1], %rd1, %rd2, %r2, %p1", "d a b idesc enable_input_d"),
        (
            "tcgen05.mma.cta_group::1.kind::f16", "[%r1], [%r3], %rd2, %r2, {%r1, %r1, %r1, %r1}, %p1",
            "d a b idesc disable_output_lane enable_input_d",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16", "[%r1], [%r3], %rd2, %r2, %p1, 3",
            "d a b idesc enable_input_d scale_input_d",
        ),
    ],
    ids=lambda opcode, operands, roles: roles,
)  # fmt: skip
def test_which_operand_each_one_is(opcode, operands, roles):
    text = f"""
    .version 8.7 .target sm_100a .address_size 64
    .visible .entry k() {{ .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>; {opcode} {operands}; ret; }}
    """
    (one,) = (each for each in tcemu.assembly.parse(text).functions["k"].body if each.opcode == opcode)
    _, found, _, _ = matched(tcemu.parse(opcode, "sm_100a"), one.operands)
    assert [each.role for each in found] == roles.split()


def test_a_result_that_comes_later_needs_registers():
    wrong = _text().replace("{%r20, %r21,", "{_, %r21,")
    with pytest.raises((PtxError, TcemuError)):
        tcemu.ptx.load(wrong)["product"](1, 128, *[np.zeros((128, 16), np.float16)] * 2, np.zeros((128, 8), np.float32))


@pytest.mark.parametrize("policy", ["early", "late", "random"])
def test_what_a_compiler_moves_before_the_wait_has_the_values(policy):
    """Triton's kernels convert what tcgen05.ld loaded before its wait; ptxas makes each use wait for the registers."""
    wait = "tcgen05.wait::ld.sync.aligned;"
    text = _text().replace(wait, f"mov.b32 %r30, %r20;\n  {wait}\n  mov.b32 %r20, %r30;")
    chunks = np.ones((2, 128, 8), np.float16), np.ones((2, 8, 8), np.float16)
    d = np.zeros((128, 8), np.float32)
    tcemu.ptx.load(text)["product"](1, 128, *chunks, d, policy=policy)
    assert (d[1:] == 32).all()
