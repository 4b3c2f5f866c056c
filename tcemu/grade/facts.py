"""What a notebook is told where tcemu is not: what describes an instruction or a format, and a few numbers of its own.

The first is looked up here, with the real package, in steps that the box names: no number comes from the notebook, and
no answer follows from a description. So there may be any number of them. What the notebook's own names stood for where
tcemu was comes from a box that may say anything; so it is little, less than a table of answers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tcemu import formats, instructions, layouts
from tcemu.arithmetic.model import FusedSums
from tcemu.arithmetic.table import Row
from tcemu.course.running import Cell
from tcemu.errors import CourseError, TcemuError
from tcemu.instructions.instruction import Instruction

#: What may be called or looked into, by the names under which it is found ...
_BEGINS: Mapping[str, Any] = {
    "tcemu.formats.FORMATS": formats.FORMATS, "tcemu.formats.table.FORMATS": formats.FORMATS,
    "tcemu.formats.lookup": formats.lookup, "tcemu.formats.table.lookup": formats.lookup,
    "tcemu.instructions.parse": instructions.parse, "tcemu.instructions.parse.parse": instructions.parse,
    "tcemu.instructions.target_named": instructions.target_named,
}  # fmt: skip
#: ... and what may be looked up and called further, by class: what describes, and arrays for their shapes.
_DESCRIBES: Mapping[type, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        Instruction: (
            "aligned arithmetic family fragments lanes opcode roles section shape signature sparse sync types words"
        ),
        layouts.Fragment: "container elements_per_register format lanes layout pack registers role shape type unpack",
        layouts.Layout: "copies lanes shape slots",
        formats.Container: "elements form register_bits register_dtype shift storage width",
        formats.Format: (
            "bias bits code_mask codes container decode dtype dtype_name emax emin encode exponent has_nan infinities "
            "infinity_bits kind largest largest_pattern lowest mantissa name nan nan_bits padding sign_bit signed "
            "smallest_normal smallest_subnormal storage zero"
        ),
        Row: "known model",
        FusedSums: "addend block floor fraction keep order",
        np.ndarray: "dtype itemsize nbytes ndim shape size",
        np.dtype: "itemsize name",
    }.items()
}
#: Questions of one box about descriptions, and about its names; names and functions of a notebook that are looked at.
_LOOKS, _ASKED, _NAMES = 5000, 200, 500
#: The numbers that its names stood for are smaller than this, and so many at most: together as many bits as the
#: smallest table has.
_LARGE, _FACTS = 1 << 10, 6


def look(how: Any) -> Any:
    """What was made so: its kind and a plain value; None for what no description tells. Raises CourseError.

    >>> from tcemu.grade.facts import look
    >>> half = ("call", ("name", "tcemu.formats.lookup"), ("f16",), ())
    >>> look(("attribute", half, "bits")), look(("attribute", half, "decode"))
    (('plain', 16), None)
    """
    try:
        value = _made(how)
    except (TcemuError, LookupError, TypeError, ValueError, AttributeError):
        raise CourseError("there is no tcemu here") from None
    if isinstance(value, np.dtype):
        return "dtype", value.name
    if isinstance(value, Mapping):
        return "names", [str(name) for name in value]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return "named", value._asdict()
    plain = all(each is None or isinstance(each, bool | int | float | str) for each in _parts(value))
    return ("plain", value) if plain else None


def _parts(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _made(how: Any) -> Any:
    """Take the steps. Whatever is not among those that describe raises LookupError, TypeError or ValueError."""
    match how:
        case ("name", str(name)):
            return _BEGINS[name]
        case ("absent", other):
            return _made(other)
        case ("call", function, tuple(arguments), tuple(named)):
            given = [_made(each) if _is_absent(each) else each for each in arguments]
            return _made(function)(*given, **{name: _made(each) if _is_absent(each) else each for name, each in named})
        case ("attribute", owner, str(name)):
            held = _made(owner)
            if name in _DESCRIBES[type(held)]:
                return getattr(held, name)
        case ("item", owner, str(key)):
            held = _made(owner)
            if isinstance(held, Mapping):
                return held[key]
    raise LookupError


def _is_absent(argument: Any) -> bool:
    return type(argument) is tuple and len(argument) == 2 and argument[0] == "absent"


class Facts:
    """What the names of one notebook stood for where tcemu was, and how much of it a box without tcemu may ask."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.names = sorted({name for cell in cells for name in cell.makes})[:_NAMES]
        nodes = (node for cell in cells if cell.tree for node in ast.walk(cell.tree))
        found = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self._functions = {"<lambda>", *sorted(found)[:_NAMES]}
        self._held: dict[str, tuple[Any, ...]] = {}
        self._told: dict[str, int] = {}
        self._looks = 0

    def note(self, found: Sequence[Any]) -> None:
        """Keep what a box says about its names, as far as it has the form."""
        for each in found:
            match each:
                case [str() as name, tuple() as value] if name.partition("[")[0] in self.names:
                    self._held[name] = value

    def begin(self) -> None:
        """A box without tcemu begins to ask."""
        self._told.clear()
        self._looks = 0

    def look(self, how: Any) -> Any:
        """What something of tcemu's is, as `look`. Raises CourseError."""
        self._looks += 1
        if self._looks > _LOOKS:
            raise CourseError("there is no tcemu here")
        return look(how)

    def fact(self, name: str) -> Any:
        """What a name stood for: a number, a few, or a function's name and line. Raises CourseError."""
        value = self._held.get(name, ())
        function = value[:1] and value[0] in self._functions and len(value) == 2
        if len(self._told) < _ASKED:
            self._told[name] = len(value)
            numbers = value[1:] if function else value
            small = all(type(each) is int and each in range(_LARGE) for each in numbers)
            if value and small and sum(self._told.values()) <= _FACTS:
                return value if function or len(value) > 1 else value[0]
            self._told[name] = 0
        raise CourseError("there is no tcemu here")
