"""The judge of places in shared memory: what it accepts, whatever the formula, and its messages for the rest."""

import pytest

from tcemu.course import Given
from tcemu.course.answers import AnswerError, Unanswered
from tcemu.course.judges.placement import Placement

JUDGE = Placement(rows=32, units=4, size=2048)


def found(answer):
    return JUDGE.mark(JUDGE.collect(answer, Given()), Given())


@pytest.mark.parametrize(
    "unit_of",
    [
        pytest.param(lambda row, unit: unit ^ row // 2 % 4, id="xor"),
        pytest.param(lambda row, unit: (unit + row // 2) % 4, id="rotation"),
        pytest.param(lambda row, unit: (unit - row // 2) % 4, id="rotation back"),
        pytest.param(lambda row, unit: 3 - unit ^ row // 2 % 4, id="mirrored"),
    ],
)
def test_every_placement_without_conflicts_is_right(unit_of) -> None:
    finding = found(lambda row, unit: 64 * row + 16 * unit_of(row, unit))
    assert finding.right
    # 32 rows of 64 bytes are 16 lines: each is stored and loaded once
    assert finding.scores == {"wavefronts": 32}


def test_conflicts_are_told_with_the_rows_that_share_banks() -> None:
    finding = found(lambda row, unit: 64 * row + 16 * unit)
    assert finding.says == "Unit 0 of rows 0 to 7 takes 4 wavefronts: rows 0, 2, 4, 6 are in the same four banks."
    assert not finding.right
    # loads of 16 matrices take 4 each, stores of 16 lines one each
    assert finding.scores == {"wavefronts": 4 * 16 + 16}
    assert "4 wavefronts where 1 would do" in finding.pictures[0].title


@pytest.mark.parametrize(
    ("answer", "says", "mistake"),
    [
        pytest.param(
            lambda row, unit: 64 * row + 16 * unit + 8,
            "8 is not a multiple of 16",
            "XOR the number of the unit",
            id="shifted",
        ),
        pytest.param(
            lambda row, unit: 4 * row + unit,
            "the address 1 is not a multiple",
            "These are numbers of units",
            id="numbers of units",
        ),
        pytest.param(
            lambda row, unit: 128 * row + 16 * unit,
            "outside the tile's 2048 bytes",
            "This is padding",
            id="padded",
        ),
        pytest.param(
            lambda row, unit: -16,
            "the address -16 is outside",
            "",
            id="negative",
        ),
        pytest.param(
            lambda row, unit: 16 * unit,
            "the address 0 holds another unit already",
            "the same place",
            id="one place for all rows",
        ),
        pytest.param(
            lambda row, unit: 10**30,
            "outside",
            "",
            id="huge",
        ),
    ],
)
def test_places_that_are_none_are_named(answer, says, mistake) -> None:
    finding = found(answer)
    assert not finding.right
    assert says in finding.says
    assert mistake in finding.mistake
    assert finding.share < 0.5


def test_an_answer_is_a_function_of_row_and_unit() -> None:
    with pytest.raises(Unanswered):
        JUDGE.collect(lambda row, unit: ..., Given())
    with pytest.raises(AnswerError, match="called with row and unit"):
        JUDGE.collect(lambda row: row, Given())
    with pytest.raises(AnswerError, match="one whole number: address"):
        JUDGE.collect(lambda row, unit: (row, unit), Given())
