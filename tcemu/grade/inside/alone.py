"""A notebook without tcemu: what an exercise asks for "without tcemu" has to work where tcemu is not.

In this box the package's files are missing, all but what the box itself is made of. What a notebook imports of it is
a stand-in (`absent.py`), so that `mma = tcemu.parse(...)` passes and `mma.lanes` is a number, but that computes
nothing. A statement that needs more is left out, and the next one runs: it may define the answer. If a name is missing
then, the outside is asked what it stood for: it tells a few small numbers, and which of the notebook's functions.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tcemu.cells import Cells
from tcemu.grade.inside import absent
from tcemu.grade.inside.absent import Absent, How, Unknown

#: What is there of the package.
_LOADED = (
    "tcemu.cells", "tcemu.entered", "tcemu.errors", "tcemu.grade", "tcemu.manual", "tcemu.tracebacks", "tcemu.version",
)  # fmt: skip


#: Statements that define something, with names of their own in it; and those that are left out within others.
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TOLERATED = (ast.Assert, ast.Assign, ast.Expr, ast.For, ast.If, ast.Return, ast.While)


class _Modules:
    """Finds a stand-in for every module of tcemu that is not there. Python asks for these three methods."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> ModuleSpec | None:
        present = name in _LOADED or name.startswith(tuple(f"{each}." for each in _LOADED))
        if present or not name.startswith("tcemu."):
            return None
        return ModuleSpec(name, _Modules(), is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        made = ModuleType(spec.name)

        def part(name: str) -> Absent:
            """A name of an absent module; `from it import *` finds none."""
            if name.startswith("__"):
                raise AttributeError(name)
            return Absent(("name", f"{spec.name}.{name}"))

        made.__dict__["__getattr__"] = part
        return made

    @staticmethod
    def exec_module(_: ModuleType) -> None:
        """Nothing: there is no code."""


class Alone(Cells):
    """Runs cells where tcemu is absent.

    `look` tells what something of tcemu's is; `fact` the numbers that a missing name stood for, or the name and line of
    its function. Both return None for all else.
    """

    def __init__(
        self, skipped: Callable[[str], object], look: Callable[[How], Any], fact: Callable[[str], Any]
    ) -> None:
        super().__init__(skipped)
        self._fact = fact
        absent.ask = look
        self.namespace |= {"__Unknown__": Unknown, "__Absent__": Absent}
        sys.meta_path.insert(0, _Modules)

    def _run_body(self, body: Sequence[ast.stmt], file: str) -> None:
        for statement in body:
            bound, before = dict.fromkeys(_bound(statement)), Unknown.times
            try:
                super()._run_body([_Tolerated().visit(statement)], file)
            except Exception:  # noqa: BLE001 - whatever it is, it may be because tcemu is not here
                self._run_body(self._meant(_definitions(statement)), file)
                self._fill(statement)
            loops = {name for node in ast.walk(statement) if isinstance(node, ast.For) for name in _bound(node.target)}
            for name in bound:
                self._complete(name, doubtful=before != Unknown.times and name not in loops)

    def _fill(self, statement: ast.stmt) -> None:
        """Put the numbers into a list or dict that a statement which has failed would have put there."""
        for node in ast.walk(statement):
            match node:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key), ctx=ast.Store()):
                    if (fact := self._fact(f"{name}[{key!r}]")) is not None:
                        with suppress(Exception):  # it may be anything by now
                            self.namespace[name][key] = fact

    def _meant(self, definitions: list[ast.stmt]) -> list[ast.stmt]:
        """The definitions, but of several of one name, such as those of `if` and `else`, the one that counted."""
        names = [_name_of(each) for each in definitions]
        counted = {name: self._fact(name) for name in names if names.count(name) > 1}
        return [each for name, each in zip(names, definitions, strict=True) if _is_at(each, counted.get(name))]

    def _complete(self, name: str, doubtful: bool) -> None:
        """Give a missing name, or what is absent in its list or dict, the value that it had where tcemu is.

        A number is doubtful after a loop, say, of which a part was left out.
        """
        value = self.namespace.get(name, Absent())
        missing = type(value) is Absent or (doubtful and type(value) is int)
        if missing and (fact := self._fact(name)) is not None:
            if type(fact) is tuple and type(fact[0]) is str:
                fact = next((each for each in self.namespace.values() if place_of(each) == fact), value)
            self.namespace[name] = fact
        elif type(value) in (list, dict):
            for key, part in value.items() if type(value) is dict else enumerate(value):
                if type(part) is Absent and (fact := self._fact(f"{name}[{key!r}]")) is not None:
                    value[key] = fact


class _Tolerated(ast.NodeTransformer):
    """A statement within another that meets what is unknown is left out: what it binds or returns is absent."""

    def __init__(self) -> None:
        self._depth = 0

    def visit(self, node: ast.AST) -> Any:
        """The statement; `try: ... except Unknown: ...` around it if it is within another."""
        self._depth += 1
        node = self.generic_visit(node)
        self._depth -= 1
        if not self._depth or not isinstance(node, _TOLERATED) or isinstance(getattr(node, "value", 0), ast.Constant):
            return node
        if isinstance(node, ast.If) and any(isinstance(each, ast.Break) for each in ast.walk(node)):
            return node  # or a loop would not end
        handler = ast.ExceptHandler(_name("Unknown"), None, [*_instead(node), ast.Pass()])
        return ast.fix_missing_locations(ast.copy_location(ast.Try([node], [handler], [], []), node))


def _instead(statement: ast.stmt) -> Iterator[ast.stmt]:
    """What takes the place of a statement that meets what is unknown."""
    nothing = ast.Call(_name("Absent"), [], [])
    if isinstance(statement, ast.Return):
        yield ast.Return(nothing)
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        for each in ast.walk(target):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                yield ast.Assign([each], nothing)


def _name(name: str) -> ast.Name:
    return ast.Name(f"__{name}__", ast.Load())


def place_of(value: Any) -> tuple[str, int] | None:
    """The name and the first line of a function."""
    code = getattr(getattr(value, "__wrapped__", value), "__code__", None)
    return (code.co_name, code.co_firstlineno) if code is not None else None


def _name_of(definition: ast.stmt) -> str:
    name: str = definition.targets[0].id if isinstance(definition, ast.Assign) else definition.name  # type: ignore[attr-defined]
    return name


def _is_at(definition: ast.stmt, place: Any) -> bool:
    """Whether the definition is that of a function with this name and line; true if none is known."""
    if type(place) is not tuple or type(place[0]) is not str:
        return True
    first = min(each.lineno for each in (definition, *getattr(definition, "decorator_list", ())))
    return bool(first <= place[1] <= (definition.end_lineno or first))


def _definitions(statement: ast.stmt | ast.ExceptHandler) -> list[ast.stmt]:
    """The functions and classes that are defined within an `if`, a `with` or another statement that has failed."""
    if isinstance(statement, _DEFINES):
        return []
    definitions: list[ast.stmt] = []
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.stmt) and _defines(part):
            definitions.append(part)
        elif isinstance(part, ast.stmt | ast.ExceptHandler):
            definitions += _definitions(part)
    return definitions


def _defines(part: ast.stmt) -> bool:
    if isinstance(part, ast.Assign) and isinstance(part.value, ast.Lambda):
        return isinstance(part.targets[0], ast.Name)
    return isinstance(part, _DEFINES)


def _bound(node: ast.AST) -> Iterator[str]:
    """The names of the notebook that a statement binds: what it assigns in it, but not in functions of its own."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if not isinstance(node, (*_DEFINES, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for part in ast.iter_child_nodes(node):
            yield from _bound(part)
