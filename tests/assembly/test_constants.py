"""Constant expressions: the values that C, whose rules PTX takes over, gives them."""

import pytest
from samples import kernel

from tcemu import assembly
from tcemu.assembly import Immediate

INTEGERS = [
    ("0b101", 5), ("017", 15), ("0", 0), ("0x7fU", 127), ("12U", 12),
    ("1+2*3", 7), ("(1+2)*3", 9), ("2*3+4*5", 26), ("10-3-2", 5), ("64/4/2", 8),
    ("7/2", 3), ("-7/2", -3), ("7/-2", -3), ("-7 % 3", -1), ("7%-3", 1),
    ("1<<4", 16), ("-16>>2", -4), ("1<<63", -(2**63)), ("0xffffffffffffffff", 2**64 - 1),
    ("~0", -1), ("~0U", 2**64 - 1), ("!5", 0), ("!0", 1), ("-(-3)", 3), ("- -3", 3),
    ("5>3", 1), ("5<=3", 0), ("1==1", 1), ("1!=1", 0), ("-1 < 0U", 0), ("(.u64)-1 > 0", 1),
    ("(.s64)0xffffffffffffffff", -1),
    ("6&3", 2), ("6|3", 7), ("6^3", 5), ("1|2&3", 3), ("1 && 0 || 1", 1), ("1 ? 2 : 3", 2), ("0 ? 2 : 0 ? 3 : 4", 4),
    ("WARP_SZ*4", 128), ("1.5 < 2.5", 1),
]  # fmt: skip
FLOATS = [(".5", 0x3FE0000000000000), ("1.5", 0x3FF8000000000000), ("1e3", 0x408F400000000000),
          ("2.", 0x4000000000000000),
          ("1.5+0.25*2.0", 0x4000000000000000), ("-1.5", 0xBFF8000000000000),
          ("0d3FF0000000000000", 0x3FF0000000000000),
          ("0f3F800000/4.0", 0x3FD0000000000000), ("1e308*10.0", 0x7FF0000000000000)]  # fmt: skip


def value(text: str) -> Immediate:
    return assembly.parse(kernel(f"mov.b64 %rd1, {text};")).functions["k"].body[0].operands[1]


@pytest.mark.parametrize(("text", "expected"), INTEGERS)
def test_integers(text, expected):
    assert value(text) == Immediate(expected)


@pytest.mark.parametrize(("text", "bits"), FLOATS)
def test_floating_point(text, bits):
    assert value(text) == Immediate(bits, "f64")


def test_every_place_takes_expressions():
    text = kernel("ld.shared.u32 %r1, [s+4*2]; mov.u32 %r2, s+(1<<4);", before=".shared .b8 s[2*(3+1)];\n")
    module = assembly.parse(text)
    assert module.variables["s"].size == 8
    load, move = module.functions["k"].body
    assert (load.operands[1].offset, move.operands[1].offset) == (8, 16)
