"""Who executes each instruction of a kernel."""

from tcemu import assembly
from tcemu.simt.survey import survey

TEXT = """
.version 8.0
.target sm_90a
.func helper(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; no.such.instruction %r1; ret; }
.func unused() { nor.this.one; ret; }
.visible .entry k(.param .u64 p)
{
    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .f32 %f<5>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r2, [%rd2];
    st.release.gpu.global.u32 [%rd2], %r2;
    atom.global.add.u32 %r3, [%rd2], 1;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};
    mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};
    add.s32 %r2, %r1;
    { .param .b32 x; st.param.b32 [x], %r1; call.uni helper, (x); }
    @%p bra END;
    trap;
END:
    ret;
}
"""  # noqa: E501
MODULE = assembly.parse(TEXT)


def test_every_instruction_of_what_the_kernel_may_execute():
    found = [(each.instruction.opcode, each.who) for each in survey(MODULE, MODULE.functions["k"])]
    assert found == [
        ("ld.param.b32", "memory"), ("no.such.instruction", "unsupported"), ("ret", "control"),
        ("ld.param.u64", "memory"), ("mov.u32", "ordinary"), ("cvta.to.global.u64", "ordinary"),
        ("ld.global.u32", "memory"), ("st.release.gpu.global.u32", "memory"), ("atom.global.add.u32", "machine"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "machine"),
        ("mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32", "unsupported"), ("add.s32", "unsupported"),
        ("st.param.b32", "memory"), ("call.uni", "control"), ("bra", "control"), ("trap", "control"),
        ("ret", "control"),
    ]  # fmt: skip


def test_what_is_not_executed_says_why():
    unknown, shape, short = (each for each in survey(MODULE, MODULE.functions["k"]) if each.who == "unsupported")
    assert unknown.function.name == "helper"
    assert unknown.why == "tcemu does not execute this instruction"
    assert "m16n8k99" in shape.why
    assert short.why == "add.s32 takes 2 operands after its result; got 1"


def test_a_target_has_its_own_instructions():
    who = {each.instruction.opcode: each.who for each in survey(MODULE, MODULE.functions["k"], "sm_70")}
    assert who["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] == "unsupported"
