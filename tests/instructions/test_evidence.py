"""Everything that is said to be known from silicon was recorded: the golden files have it, form by form."""

import json

import pytest
from places import GOLDEN

import tcemu
from tcemu.instructions import FAMILIES, target_named
from tcemu.instructions.explain import default_target, explain
from tcemu.layouts.evidence import evidence

FILES = [json.loads(path.read_text()) for path in sorted(GOLDEN.glob("sm_*.json"))]
#: Opcodes with a recording, for each target that was recorded.
RECORDED: dict[str, set[str]] = {}
for file in FILES:
    if "sha256" in file:
        RECORDED.setdefault(file["provenance"]["target"], set()).update(key.split("|")[0] for key in file["sha256"])
#: Families whose instructions hold matrices; the others have no layouts and no arithmetic.
WITH_MATRICES = [family for family in FAMILIES if any(each.fragments for _, each in family.variants[:1])]
#: The word for it, of layouts and of arithmetic.
SILICON = "silicon"


def claims(instruction, target):
    """The forms that explain says are known from silicon."""
    told = explain(instruction, target)
    found = [line.role for line in told.layouts if line.known == SILICON]
    return [*found, *(["arithmetic"] if told.arithmetic and told.arithmetic.known == SILICON else [])]


@pytest.mark.parametrize("target", RECORDED)
@pytest.mark.parametrize("family", WITH_MATRICES, ids=lambda family: family.name)
def test_only_what_was_recorded_is_known_from_silicon(family, target):
    here = [each for _, each in family.variants if each.gate.admits(target_named(target))]
    for instruction in here:
        if instruction.opcode not in RECORDED[target]:
            assert not claims(instruction, target), f"{instruction}: record it, or let the tables say how it is known"


def test_what_was_recorded_is_known_from_silicon():
    for target, opcodes in RECORDED.items():
        for opcode in sorted(opcodes)[:: max(1, len(opcodes) // 200)]:
            assert claims(opcode, target), opcode


def test_every_recording_is_of_an_instruction():
    opcodes = {instruction.opcode for family in FAMILIES for _, instruction in family.variants}
    for target, recorded in RECORDED.items():
        assert recorded <= opcodes, f"recordings for {target} of what is not in the table"


# What the notes claim -------------------------------------------------------------------------------------------------


def held(instruction, target):
    """(family, role, shape, layout) of each fragment of an instruction on a target."""
    found = tcemu.parse(instruction, target=target)
    return [(found.family, role, str(found.shape), str(each.layout)) for role, each in found.fragments.items()]


def fragments_of(instruction):
    """The properties by which notes could distinguish instructions, and the layouts."""
    layouts = tuple((role, str(each.layout)) for role, each in instruction.fragments.items())
    return instruction.shape, instruction.gate.targets, layouts


@pytest.fixture(scope="module")
def recorded():
    """The layouts that some recording speaks of."""
    return {layout for target, opcodes in RECORDED.items() for opcode in opcodes for layout in held(opcode, target)}


@pytest.mark.parametrize("family", WITH_MATRICES, ids=lambda family: family.name)
def test_a_note_names_an_h200_only_where_it_was_recorded(row, recorded, family):
    """The same layout, of the same operand, family and shape; other types of as many bits share it."""
    for instruction in {fragments_of(instruction): instruction for _, instruction in family.variants}.values():
        with row(instruction.opcode):
            for name in dict.fromkeys((default_target(instruction.gate), "sm_75", "sm_80", "sm_120a")):
                if instruction.gate.admits(target_named(name)):
                    for layout in held(instruction, name):
                        known = evidence(*layout[:2], target_named(name).number, layout[2])
                        assert "H200" not in known.note or layout in recorded, (name, layout, known.note)


def test_a_claim_without_a_recording_is_seen(recorded):
    """The scaled forms have the layouts of other forms, and no recordings."""
    scaled = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    assert not recorded & set(held(scaled, "sm_120a"))
    same = {(role, layout) for _, role, _, layout in recorded}
    roles = {role: (role, layout) in same for _, role, _, layout in held(scaled, "sm_120a")}
    assert roles == dict.fromkeys("abcd", True) | dict.fromkeys(("scale_a", "scale_b"), False)


SPARSE = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
MX = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"


@pytest.mark.parametrize(
    ("opcode", "target", "role", "words"),
    [
        (MX, "sm_120a", "scale_a", "CuTe agrees; no recording"),
        (MX, "sm_120a", "a", "unscaled form; CuTe agrees; no recording"),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", "sm_100a", "d", "on b8, b8x16 is not confirmed"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64", "sm_100a", "d", "on b8x16, s8.s4 is not confirmed"),
        ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8", "sm_100a", "a", "CuTe agrees; no recording"),
        (SPARSE, "sm_80", "e", "the longer shape of each type and lacks"),
        (SPARSE, "sm_90a", "e", "the longer shape of each type and lacks"),
        ("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc", "sm_90a", "d", "CuTe too, but it has no b1"),
        ("wmma.load.a.sync.aligned.row.m32n8k16.s8", "sm_90a", "a", "nothing else has a second source"),
        ("wmma.load.a.sync.aligned.row.m8n32k16.bf16", "sm_80", "a", "nothing else has a second source"),
        ("wmma.load.a.sync.aligned.row.m8n8k4.f64", "sm_80", "a", "nothing else has a second source"),
    ],
)
def test_a_layout_says_who_else_agrees_or_that_nobody_does(opcode, target, role, words):
    (line,) = [line for line in explain(opcode, target).layouts if line.role == role]
    assert words in line.note
