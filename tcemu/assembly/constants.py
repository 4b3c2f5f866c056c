"""Constants and constant expressions (PTX ISA 9.1, 4.5): integers of 64 bits, floating-point numbers by their bits."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from tcemu.assembly.lexer import Tokens, is_number
from tcemu.assembly.operands import Immediate

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)(U?)")
_FLOAT = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_BITS = re.compile(r"0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))")
_WORD = 2**64
#: Operators by how tightly they bind.
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
_BINDS = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols.split()}
#: The deepest that parentheses and signs may be nested.
_DEEPEST = 64
#: What may follow a constant that stands alone.
_ENDS = frozenset(",;]})")
#: Tokens that begin a constant, but those with a digit.
SIGNS = frozenset({*"-+~!(", "WARP_SZ"})


class _Value(NamedTuple):
    """A value of an expression: .s64, .u64, or .f64 as a float."""

    value: int | float
    unsigned: bool = False


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)), "&&": lambda a, b: int(bool(a and b)),
    "|": operator.or_, "^": operator.xor, "&": operator.and_,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63),
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b),
}  # fmt: skip
_FLOATING: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def constant(tokens: Tokens) -> Immediate:
    """Read a constant or a constant expression."""
    word = tokens.word
    if is_number(word) and tokens.texts[tokens.at + 1] in _ENDS:  # nearly all
        bits = _BITS.fullmatch(word)
        if bits:
            tokens.at += 1
            return Immediate(int(bits[1] or bits[2], 16), "f32" if bits[1] else "f64")
    elif word == "-" and _BITS.fullmatch(tokens.texts[tokens.at + 1]):
        tokens.at += 1
        positive = constant(tokens)
        return Immediate(positive.value ^ 1 << (31 if positive.kind == "f32" else 63), positive.kind)
    value = _conditional(tokens, 0).value
    if isinstance(value, float):
        return Immediate(int.from_bytes(struct.pack("<d", value), "little"), "f64")
    return Immediate(value)


def integer(tokens: Tokens, what: str) -> int:
    """Read an integer constant, which is `what`: "a number of elements"."""
    at, value = tokens.at, constant(tokens)
    if value.kind != "int":
        raise tokens.unexpected(f"{what}, an integer", at)
    return value.value


def count(tokens: Tokens, what: str) -> int:
    """Read an integer that is not negative."""
    at, number = tokens.at, integer(tokens, what)
    if number < 0:
        raise tokens.error(f"{what} must not be negative; got {number}", at)
    return number


def _conditional(tokens: Tokens, depth: int) -> _Value:
    condition = _binary(tokens, 0, depth)
    if not tokens.accept("?"):
        return condition
    yes = _conditional(tokens, _deeper(tokens, depth))
    tokens.expect(":", "of the constant expression")
    no = _conditional(tokens, _deeper(tokens, depth))
    return yes if condition.value else no


def _deeper(tokens: Tokens, depth: int) -> int:
    if depth >= _DEEPEST:
        raise tokens.error(f"a constant expression may be nested {_DEEPEST} deep, and this one is deeper")
    return depth + 1


def _binary(tokens: Tokens, level: int, depth: int) -> _Value:
    left = _unary(tokens, depth)
    while (at := _BINDS.get(tokens.word, -1)) >= level:
        place, symbol = tokens.at, tokens.next()
        right = _binary(tokens, at + 1, depth)
        left = _apply(tokens, symbol, left, right, place)
    return left


def _apply(tokens: Tokens, symbol: str, left: _Value, right: _Value, place: int) -> _Value:
    if symbol in ("/", "%") and not right.value:
        raise tokens.error("a constant expression divides by zero", place)
    if isinstance(left.value, int) and isinstance(right.value, int):
        unsigned = left.unsigned if symbol in ("<<", ">>") else left.unsigned or right.unsigned
        outcome = _OPERATORS[symbol](_wrapped(left.value, unsigned), _wrapped(right.value, right.unsigned or unsigned))
        return _Value(_wrapped(int(outcome), unsigned), unsigned and symbol not in ("==", "!=", "<", "<=", ">", ">="))
    if symbol not in _FLOATING:
        raise tokens.error(f"{symbol!r} takes integers, and one of these is a floating-point number", place)
    try:
        result = _FLOATING[symbol](float(left.value), float(right.value))
    except OverflowError:
        result = float("inf")
    return _Value(int(result) if isinstance(result, bool) else result)


def _unary(tokens: Tokens, depth: int) -> _Value:
    word = tokens.word
    if word == "WARP_SZ":
        tokens.at += 1
        return _Value(32)
    if word in SIGNS:
        return _signed(tokens, _deeper(tokens, depth))
    if not is_number(word):
        raise tokens.unexpected("a constant")
    tokens.at += 1
    return _number(tokens, word)


def _signed(tokens: Tokens, depth: int) -> _Value:
    at, word = tokens.at, tokens.next()
    if word == "(":
        if tokens.word in (".s64", ".u64"):  # a cast
            unsigned = tokens.next() == ".u64"
            tokens.expect(")", "after the type of a cast")
            operand = _unary(tokens, depth)
            return _Value(_wrapped(int(_integral(tokens, operand, at)), unsigned), unsigned)
        number = _conditional(tokens, depth)
        tokens.expect(")", "of the constant expression")
        return number
    operand = _unary(tokens, depth)
    value, unsigned = operand
    if word == "-":
        return _Value(-value if isinstance(value, float) else _wrapped(-value, unsigned), unsigned)
    if word == "~":
        return _Value(_wrapped(~_integral(tokens, operand, at), unsigned), unsigned)
    return _Value(int(not value)) if word == "!" else operand


def _integral(tokens: Tokens, operand: _Value, at: int) -> int:
    if isinstance(operand.value, float):
        raise tokens.error("this takes an integer, not a floating-point number", at)
    return operand.value


def _wrapped(value: int, unsigned: bool) -> int:
    value %= _WORD
    return value if unsigned or value < _WORD // 2 else value - _WORD


def _number(tokens: Tokens, word: str) -> _Value:
    """The value of a token that begins with a digit; it has just been read."""
    at = tokens.at - 1
    if match := _BITS.fullmatch(word):
        layout, digits = ("<f", match[1]) if match[1] else ("<d", match[2])
        return _Value(struct.unpack(layout, int(digits, 16).to_bytes(len(digits) // 2, "little"))[0])
    if word[:2] in ("0f", "0F", "0d", "0D"):
        digits = "8" if word[1] in "fF" else "16"
        raise tokens.error(f"{word[:2]} is followed by {digits} hexadecimal digits, the bits of the number", at)
    if (match := _INTEGER.fullmatch(word)) and len(word) < 80:
        text = match[1]
        value = int(text, 0 if text[1:2] in ("x", "X", "b", "B") else 8 if text[0] == "0" else 10)
        if value < _WORD:
            return _Value(value, bool(match[2]) or value >= _WORD // 2)
    if match:
        raise tokens.error("an integer constant has at most 64 bits", at)
    if _FLOAT.fullmatch(word):
        return _Value(float(word))
    raise tokens.unexpected("a constant", at)
