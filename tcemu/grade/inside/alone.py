"""A notebook without tcemu: what an exercise asks for "without tcemu" has to work where tcemu is not.

In this box the package's files are missing, all but what the box itself is made of. What a notebook imports of it is
a stand-in that can be called and looked into, so that `mma = tcemu.parse(...)` passes, but that tells nothing. A
statement that needs more is left out, and the next one runs: it may define the answer. The outside is asked for whole
numbers that are missing then, such as the number of a fragment's registers; it gives a few small ones.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from tcemu.cells import Cells

#: What is there of the package.
_THERE = (
    "tcemu.cells", "tcemu.entered", "tcemu.errors", "tcemu.grade", "tcemu.manual", "tcemu.tracebacks", "tcemu.version",
)  # fmt: skip


#: Statements that define something, with names of their own in it.
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Absent:
    """Whatever tcemu would have been: calls, attributes and elements of it are absent, too."""

    def __call__(self, *_: Any, **__: Any) -> Absent:
        """Call it."""
        return self

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _: Any) -> Absent:
        return self

    def _unknown(self, *_: Any) -> NoReturn:
        raise TypeError("tcemu is not here: the exercise asks for work without it")

    __bool__ = __len__ = __iter__ = __eq__ = __ne__ = __array__ = _unknown

    def __hash__(self) -> int:
        return 0


class _Modules:
    """Finds a stand-in for every module of tcemu that is not there. Python asks for these three methods."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> ModuleSpec | None:
        there = name in _THERE or name.startswith(tuple(f"{each}." for each in _THERE))
        if there or not name.startswith("tcemu."):
            return None
        return ModuleSpec(name, _Modules(), is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        made = ModuleType(spec.name)
        made.__dict__["__getattr__"] = _part
        return made

    @staticmethod
    def exec_module(_: ModuleType) -> None:
        """Nothing: there is no code."""


def _part(name: str) -> Absent:
    """A name of an absent module; `from it import *` finds none."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent()


class Alone(Cells):
    """Runs cells where tcemu is absent; `fact` returns the numbers that a missing name stood for, or None."""

    def __init__(self, skipped: Callable[[str], object], fact: Callable[[str], Any]) -> None:
        super().__init__(skipped)
        self._fact = fact
        sys.meta_path.insert(0, _Modules)

    def _run_body(self, body: Sequence[ast.stmt], file: str) -> None:
        for statement in body:
            try:
                super()._run_body([statement], file)
            except Exception:  # noqa: BLE001 - whatever it is, it may be because tcemu is not here
                self._run_body(_definitions(statement), file)
            for name in _bound(statement):
                if type(self.namespace.get(name, Absent)) in (Absent, type) and (fact := self._fact(name)) is not None:
                    self.namespace[name] = fact


def _definitions(statement: ast.stmt | ast.ExceptHandler) -> list[ast.stmt]:
    """The functions and classes that are defined within an `if`, a `with` or another statement that has failed."""
    if isinstance(statement, _DEFINES):
        return []
    parts = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt | ast.ExceptHandler)]
    return [each for part in parts for each in ([part] if isinstance(part, _DEFINES) else _definitions(part))]


def _bound(node: ast.AST) -> Iterator[str]:
    """The names of the notebook that a statement binds: what it assigns in it, but not in functions of its own."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if not isinstance(node, (*_DEFINES, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for part in ast.iter_child_nodes(node):
            yield from _bound(part)
