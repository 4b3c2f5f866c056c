"""SIMD video instructions against the pseudocode of the PTX manual (9.1, 9.7.18.2), with Python's integers."""

import json
import lzma
import re

import numpy as np
import pytest
import quick
from places import GOLDEN
from rows import rows

from tcemu import alu
from tcemu.simt import Unsupported
from tests.simt.texts import kernel

OPCODES = [opcode for opcode in alu.opcodes() if alu.find(opcode) and alu.find(opcode).parts > 1]
RANDOM = np.random.default_rng(46)
OPERANDS = RANDOM.choice(
    np.array([0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x80808080, 0x7FFF8000, 0xFF017F80], np.uint64), (3, 60)
).astype(np.uint32)
OPERANDS[:, 20:] = RANDOM.integers(0, 1 << 32, (3, 40), np.uint32)
COMPARE = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}


def extracted(pair, which, bits, kind):
    """extractAndSignExt: a part of a and b side by side."""
    value = pair >> bits * which & (1 << bits) - 1
    return value - (1 << bits) if kind == "s32" and value >> bits - 1 else value


def manual(opcode, a, b, c, made, of_a, of_b):
    name, *words = opcode.split(".")
    parts = int(name[-1])
    bits, operation = 32 // parts, name[:-1]
    types = [word for word in words if word in ("u32", "s32")]
    found = c if "add" in words else 0
    for i in range(parts):
        x = extracted(b << 32 | a, of_a[i], bits, types[-2])
        y = extracted(b << 32 | a, of_b[i], bits, types[-1])
        t = {
            "vadd": lambda x=x, y=y: x + y,
            "vsub": lambda x=x, y=y: x - y,
            "vavrg": lambda x=x, y=y: (x + y + (x + y >= 0)) >> 1,
            "vabsdiff": lambda x=x, y=y: abs(x - y),
            "vmin": lambda x=x, y=y: min(x, y),
            "vmax": lambda x=x, y=y: max(x, y),
            "vset": lambda x=x, y=y: int(getattr(x, COMPARE[next(word for word in words if word in COMPARE)])(y)),
        }[operation]()
        if "sat" in words:
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if types[0] == "s32" else (0, (1 << bits) - 1)
            t = min(max(t, low), high)
        if "add" in words:
            found += t if i in made else 0
        else:
            part = t if i in made else c >> bits * i
            found |= (part & (1 << bits) - 1) << bits * i
    return found & 0xFFFFFFFF


@rows("opcode", quick.some(OPCODES, 120))
def test_the_manuals_pseudocode(opcode):
    found = alu.find(opcode)
    parts = found.parts
    for number in range(3):
        made = range(parts) if not number else sorted({number % parts, *range(number)} - {0})
        of_a, of_b = range(parts), range(parts, 2 * parts)
        if number:
            of_a, of_b = (np.random.default_rng(number + k).integers(0, 2 * parts, parts).tolist() for k in (7, 9))
        told = {"selectors": (made, of_a, of_b)} if number else {}
        answers = found.meaning(alu.ARRAYS, *OPERANDS, **told)
        expected = [manual(opcode, *map(int, each), made, of_a, of_b) for each in OPERANDS.T]
        assert answers.tolist() == expected, (made, of_a, of_b)


def test_the_corpus_has_all_forms():
    """An H200 has answered for these kernels: tests/cuda/test_silicon.py."""
    text = json.loads(lzma.decompress((GOLDEN / "sm_90a-cuda.json.xz").read_bytes()))["ptx"]["video"]
    assert set(re.findall(r"^\s*(v[a-z]+[24]\.[\w.]+) ", text, re.MULTILINE)) == set(OPCODES)


def test_all_forms_are_there():
    assert len(OPCODES) == 2 * (6 * 8 * 3 + 4 * 6 * 2)
    assert alu.find("vset2.u32.u32.add.lt") == alu.find("vset2.lt.u32.u32.add")


@pytest.mark.parametrize(
    ("text", "selectors"),
    [
        ("vadd2.u32.s32.u32 %r4.h1, %r1.h03, %r2, %r3;", ([1], [3, 0], [2, 3])),
        ("vmax4.s32.s32.s32.add %r4.b310, %r1, %r2.b7042, %r3;", ([0, 1, 3], [0, 1, 2, 3], [2, 4, 0, 7])),
        ("vset4.u32.u32.ge %r4, %r1.b1111, %r2.b0246, %r3;", ([0, 1, 2, 3], [1, 1, 1, 1], [6, 4, 2, 0])),
    ],
)
def test_selectors_in_a_kernel(text, selectors):
    out = np.zeros(32, np.uint32)
    numbers = "mad.lo.u32 %r1, %r0, 0x9e3779b9, 5; mad.lo.u32 %r2, %r0, 0x85ebca6b, 0x80ff7f01; not.b32 %r3, %r1;"
    kernel(f"{numbers} {text} st.global.u32 [%rd0], %r4;")(1, 32, out)
    lanes = np.arange(32, dtype=np.uint64)
    one, two = ((lanes * k + n) % 2**32 for k, n in ((0x9E3779B9, 5), (0x85EBCA6B, 0x80FF7F01)))
    each = zip(one.tolist(), two.tolist(), strict=True)
    assert out.tolist() == [manual(text.split()[0], a, b, a ^ 0xFFFFFFFF, *selectors) for a, b in each]


@pytest.mark.parametrize(
    ("operands", "says"),
    [
        ("%r4.h01, %r1, %r2, %r3", "%r4.h01: a result has each part once, and the highest first"),
        ("%r4.b0, %r1, %r2, %r3", "%r4.b0: this operand has the halves .h0 to .h1"),
        ("%r4.h2, %r1, %r2, %r3", "%r4.h2: this operand has the halves .h0 to .h1"),
        ("%r4, %r1.h0, %r2, %r3", "%r1.h0 selects 1 part; vadd2.u32.u32.u32 takes 2 of this operand"),
        ("%r4, %r1, %r2, %r3.h10", "%r3.h10 is no operand that this instruction takes"),
    ],
)
def test_selectors_that_ptxas_rejects(operands, says):
    with pytest.raises(Unsupported, match=re.escape(says)):
        kernel(f"vadd2.u32.u32.u32 {operands};")(1, 32, np.zeros(32, np.uint32))
