"""Operands as records: in PTX's order, of the right kind, one for each thing that tcemu.run takes."""

import numpy as np
import pytest

import tcemu
from tcemu.instructions import FAMILIES
from tcemu.instructions.table import family_of
from tcemu.vectors.operands import as_given, operands, sources, written

#: What the PTX manual writes behind the opcode; a role by itself is registers.
SYNTAX = {
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": "d a b c",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": "d a b c e:metadata f:immediate",
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0": "d a b c scale_a:scale "
    "pick_a:pair scale_b:scale pick_b:pair",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": "d addresses:address",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16": "addresses:address a",
    "movmatrix.sync.aligned.m8n8.trans.b16": "d a",
    "wmma.load.a.sync.aligned.row.m16n16k16.f16": "a pointer:pointer stride:stride",
    "wmma.store.d.sync.aligned.row.m16n16k16.f32": "pointer:pointer d stride:stride",
    "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32": "d a b:descriptor scale_d:predicate imm_scale_a:immediate "
    "imm_scale_b:immediate",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16": "d a b:descriptor scale_d:predicate imm_scale_a:immediate "
    "imm_scale_b:immediate imm_trans_b:immediate",
    "wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8": "d a b:descriptor e:metadata f:immediate scale_d:predicate",
}


@pytest.mark.parametrize(("opcode", "syntax"), SYNTAX.items(), ids=SYNTAX)
def test_the_operands_are_those_of_the_manual(opcode, syntax):
    found = operands(tcemu.parse(opcode))
    expected = [word.partition(":") for word in syntax.split()]
    assert [(each.role, each.kind) for each in found] == [(role, kind or "registers") for role, _, kind in expected]


def test_a_destination_that_is_read_comes_first_and_stands_once():
    wgmma = tcemu.parse("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
    assert written(wgmma).role == "d"
    assert [each.role for each in sources(wgmma)][:3] == ["d", "a", "b"]
    mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    assert written(mma).role == "d"
    assert [each.role for each in sources(mma)] == ["a", "b", "c"]
    assert written(tcemu.parse("stmatrix.sync.aligned.m8n8.x1.shared.b16")) is None


def test_a_descriptor_of_a_brings_its_own_transposition():
    wgmma = tcemu.parse("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
    d, b = np.zeros((128, 4), np.uint32), np.uint64(0)
    in_registers = as_given(wgmma, (d, np.zeros((128, 4), np.uint32), b, True, 1, 1, 0))
    described = as_given(wgmma, (d, np.uint64(0), b, True, 1, 1, 0, 0))
    assert [(each.role, each.kind) for each in in_registers if "a" in each.role.split("_")] == [
        ("a", "registers"), ("imm_scale_a", "immediate"),
    ]  # fmt: skip
    assert [(each.role, each.kind) for each in described if "a" in each.role.split("_")] == [
        ("a", "descriptor"), ("imm_scale_a", "immediate"), ("imm_trans_a", "immediate"),
    ]  # fmt: skip
    mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    assert as_given(mma, (np.uint64(0),)) == sources(mma)


def test_every_family_is_found_by_its_instructions(row):
    for family in FAMILIES:
        with row(family.name):
            assert family_of(family.variants[0][1]) is family
