"""SIMD video instructions: arithmetic and comparisons of the halves or bytes of registers (PTX ISA 9.1, 9.7.18.2).

Selectors say which parts an instruction takes of its two operands side by side, and a mask which parts of the result it
makes: one digit for each, the highest part first, as %r1.h32 and %r1.b7654 have them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial

from tcemu.alu.bits import part
from tcemu.alu.integer import is_signed, minus
from tcemu.alu.row import Ops, Row, Value, Words

#: Makes a result of two parts, which are extended to 32 bits.
Operation = Callable[[Ops, Value, Value], Value]
#: The parts of the result that are made, and those of both operands that are taken for each, the lowest first.
Selectors = tuple[Sequence[int], Sequence[int], Sequence[int]]


def _average(ops: Ops, x: Value, y: Value) -> Value:
    """Half of the sum; of halves, the one that is farther from zero if the sum is positive, else the lower one."""
    total = x + y
    return ops.shift_signed(total + ops.unsigned(ops.less_equal(total & 0, total), 32), 1)


def _distance(ops: Ops, x: Value, y: Value) -> Value:
    return minus(ops, ops.less(x, y), x - y)


ARITHMETIC: dict[str, Operation] = {
    "vadd": lambda _, x, y: x + y,
    "vsub": lambda _, x, y: x - y,
    "vavrg": _average,
    "vabsdiff": _distance,
    "vmin": lambda ops, x, y: ops.smaller_signed(x, y),
    "vmax": lambda ops, x, y: ops.larger_signed(x, y),
}
COMPARISONS: dict[str, Operation] = {
    "eq": lambda _, x, y: operator.eq(x, y),
    "ne": lambda _, x, y: operator.ne(x, y),
    "lt": lambda ops, x, y: ops.less(x, y),
    "le": lambda ops, x, y: ops.less_equal(x, y),
    "gt": lambda ops, x, y: ops.less(y, x),
    "ge": lambda ops, x, y: ops.less_equal(y, x),
}


def _made(name: str, bits: int, ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The result of two parts."""
    if name == "vset":
        return ops.unsigned(COMPARISONS[words["cmp"]](ops, x, y), 32)
    result = ARITHMETIC[name](ops, x, y)
    if "sat" not in words:
        return result
    signed = is_signed(words, "dtype")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return ops.smaller_signed(ops.larger_signed(result, low), high)


def _simd(
    name: str, parts: int, ops: Ops, words: Words, x: Value, y: Value, z: Value, selectors: Selectors | None = None
) -> Value:
    """With .add, the sum of the results and z; else the results, beside those parts of z that are not made."""
    bits, numbers = 32 // parts, range(parts)
    made, of_x, of_y = selectors or (numbers, numbers, range(parts, 2 * parts))

    def taken(number: int, kind: str) -> Value:
        return part(ops, (x, y)[number // parts], number % parts, bits, signed=is_signed(words, kind))

    merged = z
    for number in made:
        result = _made(name, bits, ops, words, taken(of_x[number], "atype"), taken(of_y[number], "btype"))
        if "add" in words:
            merged = merged + result
        else:
            ones = ((1 << bits) - 1) << bits * number
            merged = (merged & (ones ^ 0xFFFFFFFF)) | ((result << bits * number) & ones)
    return merged


_TYPES = dict.fromkeys(("dtype", "atype", "btype"), "u32 s32")


def _rows() -> list[Row]:
    rows = []
    for parts in (2, 4):
        for name in ARITHMETIC:
            meaning = partial(_simd, name, parts)
            for more in ("{.sat}", ".add"):
                spelling = f"{name}{parts}.dtype.atype.btype{more}"
                rows.append(Row(spelling, "dtype", "b32 b32 dtype", meaning, "9.7.18.2", _TYPES, parts=parts))
        words = {"atype": "u32 s32", "btype": "u32 s32", "cmp": " ".join(COMPARISONS)}
        spelling, meaning = f"vset{parts}.atype.btype.cmp{{.add}}", partial(_simd, "vset", parts)
        rows.append(Row(spelling, "u32", "b32 b32 u32", meaning, "9.7.18.2", words, parts=parts))
    return rows


ROWS = tuple(_rows())
