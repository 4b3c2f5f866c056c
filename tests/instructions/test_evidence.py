"""What is said to be known from silicon was recorded: the golden files have it, form by form."""

import json

import pytest
from places import GOLDEN

from tcemu.instructions import FAMILIES, target_named
from tcemu.instructions.explain import explain

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
    """What explain says is known from silicon."""
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
