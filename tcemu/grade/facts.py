"""What a notebook gets where tcemu is not: what describes an instruction or a format, and what its answers may call.

The box names steps, such as a call of parse and then an attribute; they are taken here, with the real package. So no
number comes from the notebook, and nothing but what an exercise allows can be called, whatever the notebook rewrites.
No answer follows from a description, so there may be any number of them. What the notebook's own names stood for where
tcemu was comes from a box that may say anything; so it is little, less than a table of answers.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tcemu import formats, instructions, layouts
from tcemu.course.allowed import DESCRIBES, refused_beside
from tcemu.course.running import Cell
from tcemu.errors import CourseError, TcemuError
from tcemu.gemm import scalar
from tcemu.grade.inside.wire import recorded

#: Where steps begin, by the names under which they are found ...
_BEGINS: Mapping[str, Any] = {
    "tcemu.formats": formats, "tcemu.formats.table.FORMATS": formats.FORMATS,
    "tcemu.formats.table.lookup": formats.lookup, "tcemu.gemm.scalar": scalar,
    "tcemu.instructions.matmul": instructions.matmul, "tcemu.instructions.parse": instructions.parse,
    "tcemu.instructions.parse.parse": instructions.parse, "tcemu.instructions.run": instructions.run,
    "tcemu.instructions.target_named": instructions.target_named, "tcemu.layouts.Descriptor": layouts.Descriptor,
}  # fmt: skip
#: ... those of them that only describe, methods whose results are looked at, such as an array's shape, and, by class,
#: all that may be looked up.
_SAYS = (formats.lookup, instructions.parse, instructions.target_named)
_ARRAYS: Mapping[type, frozenset[str]] = {
    instructions.Instruction: frozenset({"arithmetic"}), layouts.Fragment: frozenset({"pack", "unpack"}),
    formats.Format: frozenset({"codes", "decode", "encode"}),
}  # fmt: skip
_DESCRIBES: Mapping[type, frozenset[str]] = {
    **{kind: names | _ARRAYS.get(kind, frozenset()) for kind, names in DESCRIBES.items()},
    np.ndarray: frozenset({"dtype", "itemsize", "nbytes", "ndim", "shape", "size"}),
    np.dtype: frozenset({"itemsize", "name"}),
}
#: What can be called from a box without tcemu: functions of plain values.
_SERVED = (
    "tcemu.course.bank", "tcemu.formats", "tcemu.gemm.scalar", "tcemu.layouts", "tcemu.matmul", "tcemu.parse",
    "tcemu.run",
)  # fmt: skip
#: Questions of one box about descriptions, and about its names; names and functions of a notebook that are looked at.
_LOOKS, _ASKED, _NAMES = 20_000, 200, 500
#: The numbers that its names stood for are smaller than this, and so many at most: together as many bits as the
#: smallest table has.
_LARGE, _FACTS = 1 << 10, 6
#: Elements of arrays that a call may take.
_ELEMENTS = 1 << 21
_NONE = "there is no tcemu here"


def served(only: Sequence[str] | None) -> bool:
    """Whether all that an answer may call can be called from a box without tcemu."""
    return bool(only) and all(name.startswith(_SERVED) for name in only or ())


@dataclass(frozen=True)
class Steps:
    """Takes the steps that a box names; `only` are the public names that may be called for their results.

    >>> from tcemu.grade.facts import Steps
    >>> half = ("call", ("name", "tcemu.formats.lookup"), ("f16",), ())
    >>> bits, ones = ("attribute", half, "bits"), ("call", ("attribute", half, "decode"), ([0x3C00],), ())
    >>> Steps().look(bits), Steps().look(ones), Steps(("tcemu.formats.Format.decode",)).look(ones)
    (('plain', 16), None, ('plain', array([1.])))
    """

    only: tuple[str, ...] = ()

    def look(self, how: Any) -> Any:
        """What was made so: its kind and a plain value; None for what nobody tells. Raises CourseError."""
        try:
            value = self.made(how)
            result = how[0] == "call" and self._may_call(self.made(how[1]))
        except TcemuError as error:
            return "refused", str(error)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise CourseError(_NONE) from None
        if isinstance(value, np.dtype):
            return "dtype", value.name
        if isinstance(value, Mapping):
            return "names", [str(name) for name in value]
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return "named", value._asdict()
        kinds = (bool, int, float, str, np.ndarray, np.generic) if result else (bool, int, float, str)
        parts = value if isinstance(value, tuple | list) else (value,)
        described = how[0] != "call" or result
        return (
            ("plain", value) if described and all(each is None or isinstance(each, kinds) for each in parts) else None
        )

    def made(self, how: Any) -> Any:
        """Take the steps. What is not allowed raises LookupError, TypeError, ValueError or AttributeError."""
        match how:
            case ("name", str(name)):
                owner, _, last = name.rpartition(".")
                return _BEGINS[name] if name in _BEGINS else self._attribute(_BEGINS[owner], last)
            case ("absent", other):
                return self.made(other)
            case ("record", str(name), tuple(values)):
                return recorded(name, *values)
            case ("call", function, tuple(arguments), tuple(named)):
                called = self.made(function)
                operands = [self._operand(each) for each in arguments]
                small = sum(np.size(each) for each in operands if isinstance(each, np.ndarray)) <= _ELEMENTS
                if small and (_is(called, _SAYS) or self._may_call(called) or self._describes(called)):
                    return called(*operands, **{name: self._operand(each) for name, each in named})
            case ("attribute", owner, str(name)):
                return self._attribute(self.made(owner), name)
            case ("item", owner, str(key)):
                held = self.made(owner)
                if isinstance(held, Mapping):
                    return held[key]
        raise LookupError

    def _attribute(self, held: Any, name: str) -> Any:
        value = None if name.startswith("_") else getattr(held, name)
        if name in _DESCRIBES.get(type(held), ()) or _is(value, (*_SAYS, *_DESCRIBES, formats.FORMATS)):
            return value
        known = isinstance(held, ModuleType) or type(held) in _DESCRIBES or _is(held, _DESCRIBES)
        if known and callable(value) and self._may_call(value):
            return value
        raise LookupError

    def _operand(self, argument: Any) -> Any:
        absent = type(argument) is tuple and len(argument) == 2 and type(argument[0]) is str and argument[0] == "absent"
        return self.made(argument) if absent else argument

    def _may_call(self, called: Any) -> bool:
        """Whether the exercise allows this function or class, by the name that a watcher would note."""
        function = inspect.unwrap(getattr(called, "__func__", called))
        name = f"{function.__module__}.{function.__qualname__}" + ".__post_init__" * isinstance(function, type)
        return bool(self.only) and not refused_beside(self.only, [name])

    @staticmethod
    def _describes(called: Any) -> bool:
        """Whether it is a method that was looked up: its result is an object, or an array with a shape."""
        return type(getattr(called, "__self__", None)) in _DESCRIBES


def _is(value: Any, of: Iterable[Any]) -> bool:
    return any(value is each for each in of)


class Facts:
    """What the names of one notebook stood for where tcemu was, and how much of it a box without tcemu may ask."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.names = sorted({name for cell in cells for name in cell.makes})[:_NAMES]
        nodes = (node for cell in cells if cell.tree for node in ast.walk(cell.tree))
        names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self._functions = {"<lambda>", *sorted(names)[:_NAMES]}
        self._held: dict[str, tuple[Any, ...]] = {}
        self._sizes: dict[str, int] = {}
        self._looks = 0

    def note(self, facts: Sequence[Any]) -> None:
        """Keep what a box says about its names, as far as it has the form."""
        for each in facts:
            match each:
                case [str() as name, tuple() as value] if name.partition("[")[0] in self.names:
                    self._held[name] = value

    def begin(self) -> None:
        """A box without tcemu begins to ask."""
        self._sizes.clear()
        self._looks = 0

    def look(self, how: Any, only: Sequence[str]) -> Any:
        """What something of tcemu's is, as `Steps`. Raises CourseError."""
        self._looks += 1
        if self._looks > _LOOKS:
            raise CourseError(_NONE)
        return Steps(tuple(only)).look(how)

    def fact(self, name: str) -> Any:
        """What a name stood for: a number, a few, or a function's name and line. Raises CourseError."""
        value = self._held.get(name, ())
        function = value[:1] and value[0] in self._functions and len(value) == 2
        if len(self._sizes) < _ASKED:
            self._sizes[name] = len(value)
            numbers = value[1:] if function else value
            small = all(type(each) is int and each in range(_LARGE) for each in numbers)
            if value and small and sum(self._sizes.values()) <= _FACTS:
                return value if function or len(value) > 1 else value[0]
            self._sizes[name] = 0
        raise CourseError(_NONE)
