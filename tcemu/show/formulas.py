"""Numbers and formulas that a learner types: Python's arithmetic, with 2^-13 and 2⁻¹³ for powers, nothing else."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from tcemu.errors import OperandError, listing, shown

_POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_SIGNS = str.maketrans({"−": "-", "·": "*", "×": "*", "÷": "/", "∞": " inf "})
_NAMES = {"inf": math.inf, "infinity": math.inf, "nan": math.nan, "true": 1, "false": 0}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert,
}  # fmt: skip
#: Powers and shifts beyond these would take long to compute.
_LARGEST = 4096


def evaluate(text: str, names: Mapping[str, float] | None = None) -> Any:
    """The value of a formula; `names` are its variables. Without variables, ^ is a power; with them, PTX's xor.

    Raises OperandError for text that is not a formula, and for an unknown name.
    """
    variables = {} if names is None else dict(names)
    try:
        return _value(_tree(text, not variables), _NAMES | variables)
    except ArithmeticError as error:
        raise OperandError(f"{shown(text)} has no value: {error}") from None
    except TypeError:
        raise OperandError(f"{shown(text)} has no value: //, %, shifts and bits are for whole numbers") from None
    except KeyError as error:
        name = error.args[0]
        if not variables and text.strip().lower() == name:
            raise OperandError(f"{shown(name)} is not a number") from None
        known = f"the variables are {listing(variables, 'and')}" if variables else "there are no variables here"
        raise OperandError(f"{name!r} in {shown(text)} is unknown; {known}") from None


def _tree(text: str, power: bool) -> ast.expr:
    plain = re.sub("[⁻⁰-⁹¹²³]+", lambda exponent: f"**({exponent.group().translate(_POWERS)})", text.translate(_SIGNS))
    if power:
        plain = plain.replace("^", "**")
    try:
        return ast.parse(plain.replace(",", "").strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise OperandError(f"{shown(text)} is not a number or a formula, such as 12, 0.25, 2^-13 or 0x3d") from None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return names[name] if name in names else names[name.lower()]
        case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(inner, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            first, second = _value(left, names), _value(right, names)
            if isinstance(op, ast.Pow | ast.LShift) and abs(second) * max(1, math.log2(abs(first) + 1)) > _LARGEST:
                raise OverflowError("the number is too large")
            return _BINARY[type(op)](first, second)
        case _:
            signs = "numbers, variables, + - * / // % & | << >>"
            raise OperandError(f"{shown(ast.unparse(node))} is not arithmetic: {signs}")
