"""What the table computes on arrays, against what an H100 answered."""

import numpy as np
import pytest
import quick
import recorded
from rows import rows

from tcemu import alu

ROWS = recorded.recorded()


@rows("entry", ROWS, lambda entry: entry.name)
def test_special_operands(entry):
    found = recorded.answers(entry.name, recorded.special_operands(entry))
    assert recorded.sum_of(found) == entry.special


@rows("entry", quick.some(ROWS, 240), lambda entry: entry.name)
def test_random_operands(entry):
    found = recorded.answers(entry.name, recorded.random_operands(entry, 1 << 14))
    assert recorded.sum_of(found) == entry.first


@pytest.mark.slow
@rows("entry", quick.spread(ROWS, 40, first=quick.turn(40)), lambda entry: entry.name)
def test_a_million_random_operands(entry):
    found = recorded.answers(entry.name, recorded.random_operands(entry, 1 << 20))
    assert recorded.sum_of(found) == entry.random


@rows("entry", [row for row in ROWS if row.every and row.kinds[0] % 100 < 32], lambda entry: entry.name)
def test_every_operand_of_few_bits(entry):
    every = np.arange(1 << entry.kinds[0] % 100, dtype=np.uint64)
    assert recorded.sum_of(recorded.answers(entry.name, [every])) == entry.every


def test_the_table_says_what_was_recorded():
    named = {part.split(",")[0] for row in ROWS for part in row.name.split("carry:")}
    # .rn is meant where there is no rounding.
    named |= {opcode.replace(".rn", "", 1) for opcode in named if opcode.split(".")[0] in ("add", "sub", "mul")}
    for opcode in alu.opcodes():
        found = alu.find(opcode)
        assert found is None or (found.known in ("silicon", "every")) == (opcode in named), opcode


@pytest.mark.parametrize(
    ("opcode", "known"),
    [
        ("add.f32", "silicon"),
        ("cvt.f32.f16", "every"),
        ("ex2.approx.f16x2", "every"),
        ("popc.b32", "silicon"),
        ("cvt.rni.sat.u8.f64", "inferred"),
        ("setp.lt.and.f32", "manual"),
        ("vset4.u32.s32.ge.add", "kernels"),
        ("lop3.and.b32", "manual"),
    ],
)
def test_how_an_instruction_is_known(opcode, known):
    assert (alu.find(opcode) or alu.find(opcode, pair=True)).known == known
