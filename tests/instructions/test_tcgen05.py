"""tcgen05: which opcodes with which operands are legal, as NVIDIA's assembler says, and what errors say.

Words of opcodes are compared in test_machine_rows.py, every product of them. Here are operands:
tests/golden/ptxas-operands.txt has the assembler's verdict on each line.
"""

import pytest
from assembler import operand_verdicts

import tcemu
from tcemu import IllegalInstruction, OperandError, assembly, parse
from tcemu.errors import TcemuError
from tcemu.instructions import target_named
from tcemu.instructions.explain import explain
from tcemu.instructions.tcgen05_operands import assigned
from tcemu.simt import tensor_operands

LINES = operand_verdicts("tcgen05.")
_KERNEL = """.version 9.5
.target sm_100a
.address_size 64
.shared .align 128 .b8 near[1024];
.visible .entry k() {{
.reg .b16 %h<20>; .reg .b32 %r<200>; .reg .f32 %f<200>; .reg .f64 %fd<40>; .reg .b64 %rd<40>; .reg .pred %p<4>;
{}
ret;
}}
"""


def read(line):
    """The instruction of a line, and the function that it is in."""
    function = assembly.parse(_KERNEL.format(line)).functions["k"]
    return function.body[0], function.registers


def takes(line, target):
    """Whether tcemu takes a line."""
    try:
        text, registers = read(line)
        tensor_operands.check(parse(text.opcode, target), text, registers, target)
    except TcemuError:
        return False
    return True


@pytest.mark.slow
def test_operands_are_legal_where_the_assembler_takes_them(row):
    assert len(LINES) > 300
    for line, target, taken in LINES:
        with row(f"{target} {line}"):
            assert takes(line, target) == taken


def test_a_wrong_rule_would_be_seen(monkeypatch):
    """The lines can tell: an address by number would be taken."""
    monkeypatch.setitem(tcemu.instructions.tcgen05_operands._FORMS, "tensor address", lambda *_: True)
    assert any(takes(line, target) != taken for line, target, taken in LINES)


MMA = "tcgen05.mma.cta_group::1.kind::f16"
#: A line, and what its error says.
TOLD = {
    f"{MMA} [%r2], %rd1, [%r8], %r3, %p1;": r"b is a descriptor: a 64-bit register; got \[%r8\]",
    f"{MMA} [%r2], %r4, %rd2, %r3, %p1;": "a is a 64-bit descriptor, or an address in Tensor Memory in brackets; got",
    f"{MMA}.ashift [%r2], %rd1, %rd2, %r3, %p1;": r"a is with \.ashift, it is in Tensor Memory",
    f"{MMA} %r2, %rd1, %rd2, %r3, %p1;": "d is an address in Tensor Memory: a 32-bit register in brackets; got %r2",
    f"{MMA} [%r2], %rd1, %rd2, %r3, {{%r4,%r5}}, %p1;": "enable_input_d is a predicate; got {%r4, %r5}",
    f"{MMA} [%r2], %rd1, %rd2, %r3, %p1, 16;": "scale_input_d is 16; it must be from 0 to 15",
    f"{MMA} [%r2], %rd1;": r"takes d, a, b, idesc, .*\?, enable_input_d and scale_input_d\?; got 2 operands",
    "tcgen05.ld.sync.aligned.16x128b.x2.b32 {%r4,%r5}, [%r2];": "d is 4 registers of 32 bits in braces; got",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 48;": "is 48; it must be a positive multiple of 32",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 96;": "is 96; it must be a power of two from 32",
    "tcgen05.wait::ld.sync.aligned %r1;": "takes nothing; got 1 operand",
}  # fmt: skip


@pytest.mark.parametrize("line", TOLD)
def test_what_is_wrong_with_operands_is_said(line):
    text, registers = read(line)
    instruction = parse(text.opcode)
    with pytest.raises(OperandError, match=TOLD[line]) as error:
        assigned(instruction, tensor_operands.given(text, registers))
    assert instruction.section in str(error.value)


def test_an_operand_that_a_target_lacks_is_said():
    text, registers = read(f"{MMA} [%r2], %rd1, %rd2, %r3, %p1, 3;")
    tensor_operands.check(parse(MMA, "sm_103a"), text, registers, "sm_103a")
    with pytest.raises(IllegalInstruction, match="does not take scale_input_d on sm_110a: it needs sm_100f"):
        tensor_operands.check(parse(MMA, "sm_110a"), text, registers, "sm_110a")


#: An opcode, a target, and what its error says.
REFUSED = [
    ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale", None, "the opcode must say which"),
    ("tcgen05.mma.cta_group::1.kind::mxf4", None, r"needs \.block_scale"),
    ("tcgen05.mma.cta_group::1.kind::f16", "sm_120a", "does not exist on sm_120a: it needs sm_100f"),
    ("tcgen05.mma.cta_group::1.kind::i8", "sm_103a", "does not exist on sm_103a"),
    ("tcgen05.shift.cta_group::1.down", "sm_100f", "Compile for sm_100a"),
    ("tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32", "sm_100a", "does not exist on sm_100a: it needs sm_103f"),
    ("tcgen05.ld.sync.aligned.16x256b.x64.b32", None, r"\.x64 cannot be combined"),
    ("tcgen05.cp.cta_group::1.64x128b", None, r"multicast"),
    ("tcgen05.cp.cta_group::1.128x128b.b6x16_p32.b8x16", None, "must be in this order"),
    ("tcgen05.fence::thread_sync", None, r"tcgen05 is followed by"),
    ("tcgen05.mma.cta_group::3.kind::f16", None, r"cta_group must be \.cta_group::1 or \.cta_group::2"),
]


@pytest.mark.parametrize(("opcode", "target", "told"), REFUSED)
def test_what_is_no_instruction_is_said(opcode, target, told):
    with pytest.raises(IllegalInstruction, match=told):
        parse(opcode, target)


def test_what_only_sm_107_has_is_read_and_refused_by_name():
    for opcode in (
        "tcgen05.mma.cta_group::1.kind::ti16",
        "tcgen05.mma.cta_group::1.kind::f16.collector::b::fill",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster::32b.b64",
    ):
        found = parse(opcode, "sm_107a")
        assert "only sm_107 has it" in found.unsupported
        with pytest.raises(IllegalInstruction, match="does not exist on sm_100a"):
            parse(opcode, "sm_100a")


def test_an_explanation_names_operands_rules_and_gates():
    told = explain(MMA)
    assert (told.target, told.ptx, told.section) == ("sm_100a", "8.6", "9.7.16.10.9.1")
    assert [each.name for each in told.operands][:3] == ["d", "a", "b"]
    assert any("instruction descriptor" in rule for rule in told.rules)
    assert any(rule.startswith("f32 from f16 and bf16: 1 fused sum of 16") and "(paper:" in rule for rule in told.rules)
    assert any(rule.startswith("Places in Tensor Memory: published") for rule in told.rules)
    sparse = explain("tcgen05.mma.sp.cta_group::1.kind::f16")
    assert any("(inferred: as the dense form" in rule for rule in sparse.rules)
    assert target_named("sm_100a").ptx == "8.6"
