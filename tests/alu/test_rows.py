"""Rows of the table: what cannot be a row, and what an opcode finds."""

import operator

import pytest

from tcemu import alu
from tcemu.alu.row import Row, plain
from tcemu.errors import TableError


def test_an_opcode_finds_its_instruction():
    found = alu.find("mad.wide.s32")
    assert (found.results, found.operands, found.section) == (("s64",), ("s32", "s32", "s64"), "9.7.1.4")
    assert found.title == "Integer Arithmetic Instructions: mad"
    assert alu.find("add.f32").opcode == "add.f32"
    assert alu.find("add.ftz.rn.f32") == alu.find("add.rn.ftz.f32")
    assert alu.find("add.f33") is None
    assert alu.find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spelling": "add"}, "it is not spelt as in the manual"),
        ({"spelling": "add.[rn].f32"}, "it is not spelt as in the manual"),
        ({"results": "f33x"}, "'f33x' is no type"),
        ({"operands": "f32 type"}, "'type' is no type"),
        ({"section": "9.7.1"}, "'9.7.1' is no section"),
        ({"section": "9.7.99.1"}, "'9.7.99.1' is no section"),
        ({"words": {"rnd": "rn"}}, "it explains rnd, which the spelling lacks"),
        ({"meaning": lambda ops, words, x: x}, "its meaning does not fit its operands"),
        ({"meaning": 3}, "its meaning cannot be called"),
    ],
)
def test_a_wrong_row_is_rejected(change, said):
    right = {
        "spelling": "add.f32",
        "results": "f32",
        "operands": "f32 f32",
        "meaning": plain(operator.add),
        "section": "9.7.3.3",
    }
    Row(**right)
    with pytest.raises(TableError, match=said):
        Row(**{**right, **change})
