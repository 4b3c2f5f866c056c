"""`tcemu isa` and the errors of tcemu.parse know the ordinary instructions."""

import json

import pytest
from click.testing import CliRunner

import tcemu
from tcemu import alu
from tcemu.commands.isa import isa
from tcemu.instructions.other_instructions import ELSEWHERE

#: Those that tcemu.simt executes.
SIMT = set("bra brx call mov ret exit trap brkpt pmevent createpolicy discard applypriority".split())  # noqa: SIM905


def _said(*words):
    found = CliRunner().invoke(isa, words)
    return " ".join(f"{found.output} {found.exception or ''}".split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add.rn.ftz.f32"], "9.7.3.3, Floating Point Instructions: add. Known: silicon, equal to recordings"),
        (["setp.lt.f32"], "result pred or pred|pred operands f32, f32"),
        (["addc.cc.u32"], "It reads CC.CF. It writes CC.CF."),
        (["shf"], "shf.side.mode.b32 b32 b32 b32 u32 9.7.8.7 Words one of .side l r .mode clamp wrap"),
        (["add.rn.f33"], "the table has no such form of add. Nearest: add.rn.f"),
        (["add.f32", "--target", "sm_80"], "--target needs an instruction of the machine"),
    ],
)
def test_isa(words, said):
    assert said in _said(*words)


def test_isa_as_json():
    assert json.loads(CliRunner().invoke(isa, ["popc.b64", "--format", "json"]).output) == {
        "opcode": "popc.b64",
        "results": "u32",
        "operands": "b64",
        "section": "9.7.1.14",
        "known": "silicon",
    }


def test_errors_know_who_executes_it():
    mnemonics = {row.mnemonic for row in alu.rows()}
    assert mnemonics | SIMT == set(ELSEWHERE)
    with pytest.raises(tcemu.IllegalInstruction, match=r"PTX has cvt; kernels in CUDA C\+\+ and PTX execute it"):
        tcemu.parse("cvt.rn.f16.f32")
    with pytest.raises(tcemu.IllegalInstruction, match="PTX has clmad; tcemu does not run it: ordinary arithmetic is"):
        tcemu.parse("clmad.lo.u64")
