"""What the table computes on arrays, against what an H200 answered."""

import numpy as np
import pytest
import quick
import recorded
from rows import rows

from tcemu import alu

ROWS = recorded.recorded()
#: A fifth of them, other ones every day.
ASKED = quick.spread(ROWS, 5, quick.turn(5))


@rows("entry", ASKED, lambda entry: entry.name)
def test_special_operands(entry):
    found = recorded.answers(entry.name, recorded.special_operands(entry))
    assert recorded.sum_of(found) == entry.special


@rows("entry", quick.some(ASKED, 240), lambda entry: entry.name)
def test_random_operands(entry):
    found = recorded.answers(entry.name, recorded.random_operands(entry, 1 << 14))
    assert recorded.sum_of(found) == entry.first


@pytest.mark.slow
@rows("entry", quick.spread(ROWS, 200, first=quick.turn(200)), lambda entry: entry.name)
def test_a_million_random_operands(entry):
    found = recorded.answers(entry.name, recorded.random_operands(entry, 1 << 20))
    assert recorded.sum_of(found) == entry.random


@rows("entry", [row for row in ROWS if row.every and row.kinds[0] % 100 < 32], lambda entry: entry.name)
def test_every_operand_of_few_bits(entry):
    every = np.arange(1 << entry.kinds[0] % 100, dtype=np.uint64)
    assert recorded.sum_of(recorded.answers(entry.name, [every])) == entry.every


def test_the_table_says_what_was_recorded():
    named = {row.name.split(",")[0] + "|" * (row.name[-1] == "|" and "," in row.name) for row in ROWS}
    for row in alu.rows():
        for opcode, words in row.spelled():
            known = row.ordinary(opcode, words).known
            of_three = "f32 f32 f32" in row.operands and row.mnemonic in ("min", "max")
            if not of_three and known != "kernels":  # an opcode of the same name has two operands
                assert (known != "manual") == (opcode + "|" * row.pair in named), opcode
            assert known != "kernels" or row.extra == "merge"


@pytest.mark.parametrize(
    ("opcode", "known"),
    [
        ("add.f32", "silicon"),
        ("cvt.f32.f16", "every"),
        ("ex2.approx.f16x2", "every"),
        ("popc.b32", "silicon"),
        ("cvt.rni.sat.u8.f64", "silicon"),
        ("setp.lt.and.f32", "silicon"),
        ("vset4.u32.s32.ge.add", "silicon"),
        ("vset.u32.s32.ge", "silicon"),
        ("lop3.and.b32", "silicon"),
        ("fma.rn.f32x2", "manual"),
    ],
)
def test_how_an_instruction_is_known(opcode, known):
    assert (alu.find(opcode) or alu.find(opcode, pair=True)).known == known
