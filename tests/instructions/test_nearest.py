"""The nearest legal form: what somebody who knows the instructions would propose, legal where it was asked for."""

import re
from itertools import product

import ask_assembler
import numpy as np
import pytest
from quick import some, spread, turn

import tcemu
from tcemu.formats import FORMATS
from tcemu.instructions import FAMILIES

VERDICTS = ask_assembler.read()
TYPES = ("dtype", "atype", "btype", "ctype", "stype", "type", "dst_fmt", "src_fmt")
SHAPED = [family for family in FAMILIES if "shape" in family.spelling.vocabulary and not family.plain]

#: Chosen by hand, with the manual's tables of shapes: what is written, and what it should have been.
MEANT = {
    "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m8n8k16.row.col.f32.f16.f16.f32": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n16k16.row.col.f32.f16.f16.f32": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k16.row.col.bf16.bf16.bf16.bf16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.f32.f32.f32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k32.row.col.f32.fp8.fp8.f32": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "mma.sync.aligned.m16n8k32.row.col.bf16.e4m3.e4m3.bf16": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.f16.f32": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "mma.sync.aligned.m16n8k32.row.col.f32.f16.e5m2.f32": "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32",
    "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.f16": "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3",
    "mma.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s4.s32": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "mma.sync.aligned.m16n8k32.row.col.f32.s8.s8.f32": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sp.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32": "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
    "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8": "wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8",
    "wgmma.mma_async.sync.aligned.m64n248k32.s32.u8.s8": "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.s8",
    "wgmma.mma_async.sync.aligned.m64n64k32.f32.f16.f16": "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
    "wgmma.mma_async.sync.aligned.m128n64k16.f32.f16.f16": "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
    "wgmma.mma_async.sync.aligned.m64n512k16.f32.f16.f16": "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16",
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16.f32": "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
    "wgmma.mma_async.sync.aligned.m64n64k16.bf16.bf16.bf16": "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16",
    "wgmma.mma_async.sp.sync.aligned.m64n64k16.f32.f16.f16": "wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.tf32": "wmma.load.a.sync.aligned.row.m16n16k8.shared.tf32",
    "wmma.store.d.sync.aligned.row.m16n16k16.shared.bf16": "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32",
    "ldmatrix.sync.aligned.m8n8.x8.shared.b16": "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b32": "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "mma": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.row.col.f32.f16.f16.f32": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.row.col.s32.s8.s8.s32": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16": "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64",
    "shfl.sync.xor.b32": "shfl.sync.bfly.b32",
    "fence.acq_rel.device": "fence.acq_rel.gpu",
    "fence.seq_cst.system": "fence.sc.sys",
    "atom.global.block.add.u32": "atom.cta.global.add.u32",
    "ld.shared.v8.b32": "ld.shared.v4.b32",
    "ld.shared.v4.b64": "ld.shared.v2.b64",
    "ld.global.bf16": "ld.global.b16",
    "atom.global.add.s64": "atom.global.add.u64",
}

#: What such a mistake is told besides: why.
TOLD = {
    "mma.sync.aligned.m16n8k16.row.col.bf16.bf16.bf16.bf16": "sum products of bf16 and tf32 in f32",
    "mma.sync.aligned.m16n8k32.row.col.bf16.e4m3.e4m3.bf16": "No tensor core sums in this type",
    "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32": "load the fragments with ldmatrix .trans",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16": "C has the type of D",
    "mma.sync.aligned.m16n8k8.row.col.f32.f32.f32.f32": "Round A and B to tf32",
    "mma.sync.aligned.m16n8k32.row.col.s32.s4.u8.s32": "elements of the same width",
    "wgmma.mma_async.sync.aligned.m64n64k32.f32.s8.u8": "sum products of integers in s32",
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.tf32.tf32": "With .sp it would be legal.",
    "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8": "n is 8, 16, 24 or a multiple of 16",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b8": "does not transpose a matrix of bytes",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b8": "for elements of 8 bits write .b16",
    "movmatrix.sync.aligned.m8n8.trans.b8": "does not transpose a matrix of bytes",
}


def refusal(opcode, target=None):
    with pytest.raises(tcemu.IllegalInstruction) as error:
        tcemu.parse(opcode, target=target)
    return str(error.value)


def test_the_form_that_was_meant(row):
    for opcode, meant in MEANT.items():
        with row(opcode):
            assert f"Nearest legal form: {meant} (PTX ISA" in refusal(opcode)


def test_why_there_is_no_such_instruction(row):
    for opcode, why in TOLD.items():
        with row(opcode):
            assert why in refusal(opcode)


@pytest.mark.parametrize("opcode", ["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b8",
                                    "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8"])  # fmt: skip
def test_bytes_are_not_transposed_in_pairs(opcode):
    told = refusal(opcode, "sm_90a")
    assert "does not transpose a matrix of bytes" in told
    assert "trans.shared.b16" not in told


def types(words):
    return tuple(words.get(slot, "") for slot in TYPES)


def asked(family):
    """Every shape with every choice of types: the words of the family, and a type of D that none of its forms has."""
    first = family.variants[0][0]
    slots = [slot for slot in family.spelling.vocabulary if slot in (*TYPES, "shape")]
    known = family.spelling.vocabulary
    chosen = [(*known[slot], *(word for word in ("bf16", "f32") if slot == "dtype")) for slot in slots]
    for words in product(*(dict.fromkeys(each) for each in chosen)):
        yield family.spelling.write({**first, **dict(zip(slots, words, strict=True))})


@pytest.mark.slow
@pytest.mark.parametrize("family", some(SHAPED, 4), ids=lambda family: family.name)
def test_the_nearest_form_is_legal_there_and_has_the_types_that_were_asked_for(family):
    """Legal is what the assembler takes, in its stored verdicts."""
    forms = {form.opcode: types(words) for words, form in family.variants}
    for target in (None, "sm_75", "sm_90a", "sm_120a"):
        there = {each: forms[each] for each in forms if target is None or target in VERDICTS[each].targets}
        there_types = set(there.values())
        illegal = [opcode for opcode in asked(family) if opcode not in VERDICTS]
        for opcode in spread(illegal, max(len(illegal) // 30, 1), first=turn(50)):
            try:
                tcemu.parse(opcode, target=target)
            except tcemu.IllegalInstruction as error:
                told = str(error)
            else:
                continue  # written in an order of words that the verdicts spell in another
            near = re.search(r"Nearest legal form: (\S+)", told)
            if near is None:
                assert re.search(r"The nearest form with these types needs \S+", told), told
                continue
            assert near[1] in there, told
            said = [word for word in opcode.split(".") if word in FORMATS]
            if any([*filter(None, each)] == said for each in there_types):
                assert [*filter(None, there[near[1]])] == said, told


@pytest.mark.parametrize(
    ("opcode", "scales", "said"),
    [
        ("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", (1, 1), "tf32 is K-major only"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2", (1, 1), "e4m3 and e5m2 are K-major only"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8", (), "s8 is K-major only"),
    ],
)
def test_types_without_transpose_bits_are_k_major_only(opcode, scales, said):
    """The assembler says "Arguments mismatch": it takes the two immediates for f16 and bf16 alone."""
    d = np.zeros((128, 4), np.uint32)
    a = b = tcemu.layouts.Descriptor.for_tile("f16", 64, 16).encode()
    for more in ((0, 1), (0, 0)):
        with pytest.raises(tcemu.OperandError, match=said):
            tcemu.run(opcode, d, a, b, True, *scales, *more, shared=np.zeros(8192, np.uint8))
    f16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    with pytest.raises(tcemu.OperandError) as error:
        tcemu.run(f16, d, a, b, True, 1, 1, shared=np.zeros(8192, np.uint8))
    assert "K-major" not in str(error.value)
