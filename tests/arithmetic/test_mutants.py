"""A recorded answer confirms each number of the arithmetic table, or its row says that none does."""

from dataclasses import replace

import pytest
from asked import recordings
from mutants import Seen, has_numbers, label, mutants, seen
from quick import spread, turn

import tcemu
from tcemu.arithmetic import ROWS
from tcemu.arithmetic.table import UNSEEN
from tcemu.instructions import target_named

#: One test asks about a row that so few recordings speak of, of which none is long.
FEW = 3


def known():
    """The rows with numbers and recordings."""
    return {row: found for row, found in recordings().items() if found and has_numbers(row)}


def compared(row, rows):
    """What no recording shows of a row is what the row says."""
    for held in rows:
        with row(label(held)):
            found = seen(held)
            assert found.fields == held.unseen, found


@pytest.mark.slow
def test_what_no_recording_shows_stands_in_every_row(row):
    """Fraction bits, blocks, floors, rounding and the rest, each changed a little; of a sixth of the rows each day."""
    rows = list(known())
    assert any(held.unseen for held in rows)
    assert not all(held.unseen for held in rows)
    compared(row, spread(rows, 6, first=turn(6)))


def test_a_row_is_inferred_where_nothing_is_recorded():
    """Only there: every recording is compared."""
    for held, found in recordings().items():
        theirs = any(name.startswith("tcgen05") for name in held.families)  # MMA-Sim's numbers: test_tcgen05.py
        if has_numbers(held) and not theirs:
            assert (held.known == "inferred") == (not found), label(held)


def test_what_a_row_rests_on_a_statement_for_is_in_its_note():
    for held in ROWS:
        statement, _, alone = held.note.partition(". No recorded output confirms ")
        assert statement == held.statement
        assert all((words in alone) == (name in held.unseen) for name, words in UNSEEN.items()), held.note
        assert alone.endswith(": that rests on the statement alone") == bool(held.unseen)


def test_a_row_must_say_who_says_what_no_recording_shows():
    held = next(held for held in ROWS if held.unseen)
    for wrong in ({"statement": ""}, {"unseen": frozenset({"the weather"})}):
        with pytest.raises(tcemu.TcemuError, match="what does no recording of"):
            replace(held, **wrong)


OPCODE = "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32"


@pytest.mark.parametrize(
    ("opcode", "target", "changed"),
    [
        (OPCODE.format("bf16"), "sm_80", "fraction floor block rounding"),
        (OPCODE.format("e4m3"), "sm_90a", "fraction floor block rounding order addend through"),
        (OPCODE.format("e4m3"), "sm_89", "fraction block keep rounding"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16", "sm_70", "fraction block rounding widen"),
        ("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16", "sm_90a", "order from_zero"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_80", "rounding"),
        ("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", "sm_80", ""),
    ],
)
def test_what_is_changed_of_an_instruction(opcode, target, changed):
    operation = tcemu.parse(opcode, target=target).operation(target_named(target))
    assert {mutant.field for mutant in mutants(operation)} == set(changed.split())


def test_a_change_is_told_from_none():
    """The check can fail: a row that claims too much, and one that claims too little."""
    held = next(held for held, found in known().items() if held.unseen and len(found) <= FEW)
    assert seen(held).fields
    assert Seen({}, {}, {}).fields != held.unseen
