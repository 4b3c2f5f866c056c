"""Scalar video instructions: what an H200 answered for kernels with all forms, and what the assembler rejects."""

import hashlib
import json
import lzma
import re
from functools import cache

import numpy as np
import pytest
from cases import SCALARS
from places import GOLDEN
from rows import rows

from tcemu import alu, assembly
from tcemu.simt import Unsupported
from tcemu.simt.selectors import selected
from tests.simt.texts import kernel


@cache
def golden():
    return json.loads(lzma.decompress((GOLDEN / "sm_90a-cuda.json.xz").read_bytes()))


@cache
def module():
    return assembly.parse(golden()["ptx"]["scalars"], "scalars")


def answers(case):
    """What the table gives for the instructions of a kernel; their operands are its first three arrays, in order."""
    operands = case.args()[:3]
    for instruction in module().functions[case.kernel].body:
        row = alu.find(instruction.opcode, operands=len(instruction.operands) - 1)
        if row and row.parts:
            registers, row = selected(instruction, row)
            yield row.meaning(alu.ARRAYS, *operands[: len(registers) - 1]).astype(np.uint32)


@rows("case", SCALARS, str)
def test_every_byte_is_the_h200s(case):
    found = np.concatenate(list(answers(case)))
    assert hashlib.sha256(found.tobytes()).hexdigest() == golden()["sha256"][str(case)][3]


def test_the_corpus_has_all_forms():
    used = {
        (alu.find(each.opcode).opcode, len(each.operands) - 1, isinstance(each.operands[0], assembly.Parts))
        for function in module().functions.values()
        for each in function.body
        if alu.find(each.opcode)
    }
    for row in alu.rows():
        if row.parts == 1:
            for opcode, _ in row.spelled():
                assert (opcode, len(row.operands.split()), False) in used
                assert row.extra != "merge" or (opcode, 3, True) in used


@pytest.mark.parametrize("backend", ["", "reference"])
def test_in_a_kernel(backend, monkeypatch):
    monkeypatch.setenv("TCEMU_KERNELS", backend)
    out = np.zeros(32, np.uint32)
    kernel(
        "mul.lo.u32 %r1, %r0, 0x01030507; not.b32 %r2, %r1; vadd.s32.u32.s32.sat %r3.b1, %r1.b0, %r2.h1, %r2;"
        "vmad.s32.s32.s32 %r3, -%r1.h0, %r0.b0, %r3; st.global.u32 [%rd0], %r3;"
    )(1, 32, out)
    for lane in range(32):
        one = lane * 0x01030507
        two = one ^ 0xFFFFFFFF
        high = two >> 16
        total = (one & 0xFF) + high - (high >> 15 << 16)
        third = two & 0xFFFF00FF | (127 if total < 0 else min(total, 127)) << 8
        low = one & 0xFFFF
        assert out[lane] == (third - (low - (low >> 15 << 16)) * lane) % 2**32


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vadd.u32.u32.u32 %r3.h0, %r1, %r2;", "%r3.h0 needs an operand c, for the rest of it"),
        ("vadd.u32.u32.u32.add %r3.h0, %r1, %r2, %r0;", "%r3.h0 needs an operand c, for the rest of it"),
        ("vadd.u32.u32.u32 %r3, %r1.h2, %r2;", "%r1.h2: a selector is .h0 or .h1, or one of .b0 to .b3"),
        ("vadd.u32.u32.u32 %r3, %r1.b01, %r2;", "%r1.b01: a selector is .h0 or .h1, or one of .b0 to .b3"),
        ("vadd.u32.u32.u32 %r3, -%r1, %r2;", "-%r1: only vmad without .po takes minus signs"),
        ("vmad.u32.u32.u32.po %r3, %r1, %r2, -%r0;", "-%r0: only vmad without .po takes minus signs"),
        (
            "vmad.u32.u32.u32 %r3, -%r1, %r2, -%r0;",
            "-%r1: only vmad without .po takes minus signs, either before a and b",
        ),
    ],
)
def test_what_the_assembler_rejects(text, says):
    with pytest.raises(Unsupported, match=re.escape(says)):
        kernel(text)(1, 32, np.zeros(32, np.uint32))


def test_shifts_by_more_than_32():
    """.clamp shifts by 32 at most, .wrap by the low five bits (PTX ISA 9.1, 9.7.18.1.3)."""
    x, amount = np.full(4, 0x80000001, np.uint32), np.array([1, 32, 33, 1000], np.uint32)
    for opcode, expected in (
        ("vshl.u32.u32.u32.clamp", [2, 0, 0, 0]),
        ("vshl.u32.u32.u32.wrap", [2, 0x80000001, 2, 0x100]),
        ("vshr.u32.u32.u32.clamp", [0x40000000, 0, 0, 0]),
        ("vshr.s32.s32.u32.clamp", [0xC0000000, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF]),
    ):
        assert alu.find(opcode).meaning(alu.ARRAYS, x, amount).tolist() == expected, opcode
