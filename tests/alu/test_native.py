"""Native code computes what the reference computes, without calling any library."""

import re

import lanes
import numpy as np
import pytest
import quick
import recorded
from rows import rows

from tcemu import alu
from tcemu.alu.row import bits

KINDS = {"f32": 132, "f64": 264, "f16": 316, "bf16": 416, "f16x2": 532, "bf16x2": 632}
#: Those whose last operand is an immediate have their own test.
OPCODES = [opcode for opcode in alu.opcodes() if not opcode.startswith("lop3") and alu.find(opcode)]
COUNT = 1 << 10
#: A quarter of them, other ones every day: compiling them takes nearly all of the time. So many are compiled together.
ASKED, TOGETHER = quick.spread(OPCODES, 4, quick.turn(4)), 40


@pytest.fixture(scope="module")
def pools():
    """Special operands by the bits of a type."""
    found = {}
    for row in recorded.recorded():
        if len(row.kinds) < 3:
            for kind, values in zip(row.kinds, recorded.special_operands(row), strict=True):
                found[kind] = np.union1d(found.get(kind, values), values)
    return found


def operands(kind, number, pools):
    """Random operands of a type, some of them special."""
    random = np.random.default_rng(number)
    if kind == "pred":
        return random.random(COUNT) < 0.5
    kind, width = KINDS.get(kind, bits(kind)), bits(kind)
    found = recorded.value(kind, random.integers(0, 1 << 64, COUNT, np.uint64))
    return np.where(random.random(COUNT) < 0.4, random.choice(pools[kind], COUNT), found).astype(f"u{width // 8}")


def _same(opcode, code, pools):
    row = alu.find(opcode)
    kinds = [*row.operands, *["pred"] * row.carry_in]
    given = [operands(kind, number, pools) for number, kind in enumerate(kinds)]
    expected = row.meaning(alu.ARRAYS, *given)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for mine, other in zip(code.run(opcode, *given), expected, strict=True):
        np.testing.assert_array_equal(mine, other)


@rows("first", range(0, len(ASKED), TOGETHER), lambda first: f"from {first}")
@pytest.mark.slow
def test_native_code_is_the_reference(first, pools):
    opcodes = ASKED[first : first + TOGETHER]
    code = lanes.Lanes(opcodes)
    # On all processors that tcemu knows: call, callq, bl, blr. The functions of MUFU are in the code, once for each.
    assert not re.search(r'^\s+(callq?|blr?)\s+(?!_?"?mufu\.)', code.assembly(), re.MULTILINE)
    for opcode in opcodes:
        _same(opcode, code, pools)


def test_immediates(pools):
    x, y, z = (operands("b32", number, pools) for number in range(3))
    for table in quick.some(range(256), 16):
        code = lanes.Lanes(["lop3.b32"], constants={3: table})
        expected = alu.find("lop3.b32").meaning(alu.ARRAYS, x, y, z, np.array([table], np.uint32))
        np.testing.assert_array_equal(code.run("lop3.b32", x, y, z, x)[0], expected)
    for opcode, place, numbers in (("shl.b32", 1, (0, 31, 32, 255)), ("prmt.b32", 2, (0x5410, 0xBA98, 0x7632, 0))):
        for number in numbers:
            code = lanes.Lanes([opcode], constants={place: number})
            given = [x, y, z][: place + 1]
            expected = alu.find(opcode).meaning(alu.ARRAYS, *given[:-1], np.full_like(x, number))
            np.testing.assert_array_equal(code.run(opcode, *given)[0], expected)
