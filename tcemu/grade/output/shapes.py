"""The shapes in code: its statements and expressions, without what can be changed without changing the work.

Names, comments, annotations, docstrings, layout and the order of statements do not count. Operands that may change
places stand in one order; constants are computed (7 + 1 and 1 << 3 are 8); x + y - z is a sum of three, and shifts and
masks by powers of two are products, quotients and remainders.
"""

from __future__ import annotations

import ast
import operator
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

#: The nodes of a piece of code, from left to right.
Shape = tuple[str, ...]
#: A shape with fewer nodes tells nothing: f(x), a + b.
_LEAST = 5
#: Numbers that are computed and told apart; there is no need for longer ones, and no time.
_LARGE = 1 << 64
#: Operators whose operands may change places, and what they make of two numbers.
_ANY_ORDER: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Mult": operator.mul, "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor,
}  # fmt: skip
_IN_ORDER: Mapping[str, Callable[[Any, Any], Any]] = {
    "Sub": operator.sub, "FloorDiv": operator.floordiv, "Mod": operator.mod, "Div": operator.truediv,
    "LShift": operator.lshift, "RShift": operator.rshift, "Pow": operator.pow,
}  # fmt: skip
_UNARY: Mapping[str, Callable[[Any], Any]] = {"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert}
_TURNED = {"Gt": "Lt", "GtE": "LtE"}
#: Fields that do not count.
_LEFT_OUT = frozenset({"annotation", "returns", "type_comment", "type_params", "type_ignores", "ctx", "op", "ops"})


@dataclass(frozen=True)
class _Tree:
    """A node while its shape is made: its own tokens, and its value if it is a number."""

    own: Shape
    value: Any = None
    #: The operator of a chain, and its operands, whose order does not count.
    chain: str = ""
    operands: tuple[_Tree, ...] = ()

    @cached_property
    def tokens(self) -> Shape:
        """All tokens. A chain's are put in order only once it is complete."""
        return (*self.own, *_flat(sorted(part.tokens for part in self.operands)))


def shapes_in(tree: ast.AST) -> frozenset[int]:
    """The shapes of a syntax tree's statements and expressions, as numbers; of a loop or a function only its head.

    It does not recurse: students' code may be nested as deep as Python allows.

    >>> import ast
    >>> from tcemu.grade.output.shapes import shapes_in
    >>> shapes_in(ast.parse("x = 8 * (a % 4) + b")) == shapes_in(ast.parse("mine = c + (d & 3) * (7 + 1)"))
    True
    """
    nodes, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting.extend(child for _, child in _children(node))
    made: dict[int, _Tree] = {}
    for node in reversed(nodes):  # the children of each come before it
        made[id(node)] = _made(node, made)
    shapes = (made[id(node)].tokens for node in nodes if isinstance(node, ast.stmt | ast.expr))
    return frozenset(zlib.crc32("\n".join(shape).encode()) for shape in shapes if len(shape) >= _LEAST)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What counts below a node, by the name of its field."""
    for name, held in ast.iter_fields(node):
        if name in _LEFT_OUT:
            continue
        for child in held if isinstance(held, list) else [held]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Pass) and not _is_said(child):
                yield name, child


def _is_said(node: ast.AST) -> bool:
    """Whether it is a docstring, or another text that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _made(node: ast.AST, made: Mapping[int, _Tree]) -> _Tree:
    match node:
        case ast.Constant(value=bool() | int() | float() | None as value) if abs(value or 0) < _LARGE:
            return _number(value)
        case ast.BinOp(left, op, right):
            return _operation(type(op).__name__, made[id(left)], made[id(right)])
        case ast.UnaryOp(op, operand):
            return _signed(type(op).__name__, made[id(operand)])
        case ast.AugAssign(target, op, value):
            to, held = made[id(target)], made[id(value)]
            return _Tree(("Assign", *to.tokens, *_operation(type(op).__name__, to, held).tokens))
        case ast.AnnAssign(target, _, value) if value is not None:
            return _Tree(("Assign", *made[id(target)].tokens, *made[id(value)].tokens))
        case ast.Compare(left, [op], [right]):
            return _comparison(type(op).__name__, made[id(left)].tokens, made[id(right)].tokens)
        case ast.BoolOp(op, values):
            return _Tree((type(op).__name__, *_flat(sorted(made[id(value)].tokens for value in values))))
        case ast.Attribute(value, attr):
            return _Tree((f".{attr}", *made[id(value)].tokens))
        case ast.Expr(value):
            return made[id(value)]
    return _Tree((*_names(node), *_flat(_parts(node, made))))


def _names(node: ast.AST) -> Iterator[str]:
    """The node's own words: comparisons in a row tell which they are."""
    yield type(node).__name__
    if isinstance(node, ast.Compare):
        yield from (type(op).__name__ for op in node.ops)


def _parts(node: ast.AST, made: Mapping[int, _Tree]) -> Iterator[Shape]:
    """The shapes below a node without the statements in it; keywords are in one order."""
    groups: dict[str, list[Shape]] = {}
    for name, child in _children(node):
        if not isinstance(child, ast.stmt):
            groups.setdefault(name, []).append(made[id(child)].tokens)
    for name, shapes in groups.items():
        yield from sorted(shapes) if name == "keywords" else shapes


def _flat(shapes: Iterable[Shape]) -> Iterator[str]:
    return (token for tokens in shapes for token in tokens)


# ---------------------------------------------------------------------------------------------- arithmetic


def _number(value: Any) -> _Tree:
    return _Tree((repr(value),), value)


def _computed(operation: Callable[..., Any], *values: Any) -> _Tree | None:
    """What an operation makes of numbers, if it is a number of ordinary size."""
    if not all(isinstance(value, int | float) for value in values) or (
        operation in (operator.lshift, operator.pow) and not 0 <= values[1] <= 64
    ):
        return None
    try:
        result = operation(*values)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return _number(result) if isinstance(result, int | float) and abs(result) < _LARGE else None


def _signed(name: str, operand: _Tree) -> _Tree:
    computed = _computed(_UNARY[name], operand.value) if name in _UNARY else None
    return computed or _Tree((name, *operand.tokens))


def _operation(name: str, left: _Tree, right: _Tree) -> _Tree:
    if name == "Sub":
        return _operation("Add", left, _signed("USub", right))
    if name in ("LShift", "RShift") and right.value is not None and left.value is None:
        name, right = {"LShift": "Mult", "RShift": "FloorDiv"}[name], _computed(pow, 2, right.value) or right
    if name in _ANY_ORDER:
        return _sorted(name, left, right)
    computed = _computed(_IN_ORDER[name], left.value, right.value) if name in _IN_ORDER else None
    return computed or _Tree((name, *left.tokens, *right.tokens))


def _sorted(name: str, left: _Tree, right: _Tree) -> _Tree:
    """A chain of one operator: its numbers become one, and the others stand in the order of their shapes."""
    held = [part for side in (left, right) for part in (side.operands if side.chain == name else (side,))]
    kept, number = [], None
    for part in held:
        both = part if number is None else _computed(_ANY_ORDER[name], number.value, part.value)
        if part.value is not None and both is not None:
            number = both
        else:
            kept.append(part)
    if not kept and number is not None:
        return number
    if name == "BitAnd" and len(kept) == 1 and number is not None and _is_mask(number.value):
        return _Tree(("Mod", *kept[0].tokens, str(number.value + 1)))
    kept += [number] if number is not None else []
    return _Tree((name, str(len(kept))), None, name, tuple(kept))


def _is_mask(value: Any) -> bool:
    return isinstance(value, int) and value > 0 and value & (value + 1) == 0


def _comparison(name: str, left: Shape, right: Shape) -> _Tree:
    if name in _TURNED:
        name, left, right = _TURNED[name], right, left
    if name in ("Eq", "NotEq"):
        left, right = sorted((left, right))
    return _Tree((name, *left, *right))
