"""Cases: keys of their own, operands of the right shapes, and bytes that follow from the key alone.

That they are the bytes whose answers were recorded, tests/live/test_golden.py shows.
"""

import numpy as np
import pytest

import tcemu
from tcemu.instructions import FAMILIES, target_named
from tcemu.vectors import CLASSES, cases, classes, digest, emulator, matrices

FAMILY_NAMES = [family.name for family in FAMILIES if family.variants[0][1].fragments]
#: Together they have a form of every family.
TARGETS = ("sm_90a", "sm_120a", "sm_100a")
MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")


def some(family):
    """The first and the last form of a family."""
    (found,) = (each for each in FAMILIES if each.name == family)
    return dict.fromkeys((found.variants[0][1], found.variants[-1][1]))


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_family_has_cases_that_the_emulator_answers(row, family):
    for instruction in some(family):
        with row(instruction.opcode):
            target = next(name for name in TARGETS if instruction.gate.admits(target_named(name)))
            found = list(cases(instruction, classes(instruction)[0], 2))
            assert len({case.key for case in found}) == len(found)
            for case in found[:: max(len(found) // 4, 1)]:
                assert len(case.sources) == len(case.operands)
                assert case.answer(emulator(target)).shape[0] == case.warps
                assert case.only(0).warps == 1


def test_a_case_follows_from_its_key_alone():
    one, other = (next(cases(MMA, "near", 2)) for _ in range(2))
    assert one.key == f"{MMA}|near"
    assert all(np.array_equal(x, y) for x, y in zip(one.operands, other.operands, strict=True))
    fresh = next(cases(MMA, "near", 2, "another series"))
    assert not any(np.array_equal(x, y) for x, y in zip(one.operands, fresh.operands, strict=True))
    more = next(cases(MMA, "near", 5))
    assert [x.shape for x in more.operands] == [(5, 32, 4), (5, 32, 2), (5, 32, 4)]


def test_matrices_are_those_of_the_first_case():
    found = matrices(MMA, "specials", 3)
    assert all(np.array_equal(x, y) for x, y in zip(found, next(cases(MMA, "specials", 3)).operands, strict=True))


def test_classes_are_all_for_floats_and_one_for_what_has_no_rounding():
    assert classes(MMA) == CLASSES
    assert classes(tcemu.parse("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32")) == ("bits",)
    assert classes(tcemu.parse("wmma.load.a.sync.aligned.row.m16n16k16.f16")) == ("bits",)


def test_a_digest_does_not_depend_on_the_byte_order_of_the_machine():
    words = np.arange(4, dtype="<u4")
    assert digest(words) == digest(words.astype(">u4"))
    assert digest(words) != digest(words[::-1])
    assert digest(np.arange(3, dtype=np.uint8)) == "ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc"
