"""The judge of functions that return descriptors: what it accepts, and what it calls by its name."""

import pytest

from tcemu.course import AnswerError, Given
from tcemu.course.judges import Descriptors
from tcemu.layouts import Descriptor

JUDGE = Descriptors([{"start": 0}, {"start": 2048}], lambda start: Descriptor(start, 256, 1024, 128), ignored=("lbo",))


def finding(answer):
    return JUDGE.mark(JUDGE.collect(answer, Given()), Given())


@pytest.mark.parametrize("lbo", [0, 256])
def test_a_descriptor_or_its_bits_and_any_value_of_an_ignored_field(lbo):
    assert finding(lambda start: Descriptor(start, lbo, 1024, 128)).right
    assert finding(lambda start: Descriptor(start, lbo, 1024, 128).encode()).right


def test_the_first_wrong_field_is_named():
    found = finding(lambda _: Descriptor(0, 16, 1024, 128))
    assert found.says == (
        "For start = 2048, the field start address (bits 13:0) is 0x0, which means 0 bytes, which is wrong. Wrong in 1 "
        "of 2 cases."
    )
    assert (found.mistake, found.share) == ("The start address is missing.", 0), "one value is right for one of two"


def test_bits_of_no_field_are_wrong():
    found = finding(lambda start: Descriptor(start, 16, 1024, 128).encode() | 1 << 60)
    assert found.says.startswith("For start = 0, bits are set that belong to no field: 0x1000000000000000.")


@pytest.mark.parametrize("answer", [-1, 1 << 64, 0.5, "0x40"])
def test_what_is_no_descriptor_is_refused(answer):
    with pytest.raises(AnswerError, match="should return a Descriptor, or its 64 bits"):
        finding(lambda _: answer)
