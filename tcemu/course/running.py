"""Check the exercises of a notebook outside Jupyter: its cells run in a fresh process, which prints the verdicts.

Cells of the course that no check needs are not run: a lesson's pictures take longer than its checks. All others run in
order, as they do in Jupyter.

    python -m tcemu.course.running 60 exercises/02_fragments.ipynb   prints a line of JSON for each check; 60 s at most
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from tcemu.cells import Cells, parsed, python_of
from tcemu.course import progress
from tcemu.course.answers import DOTS
from tcemu.course.checking import verdicts_of
from tcemu.course.source import source
from tcemu.course.verdict import Verdict
from tcemu.errors import CourseError, TcemuError, listing
from tcemu.extras import require_processes
from tcemu.tracebacks import described

#: Seconds of processor time that a notebook may take, and how many times as many may pass while it waits for something.
LIMIT, _WAITS = 60.0, 10
#: Cells of a notebook that are stopped, at most.
_STOPPED = 4
_UNREACHED = "The check was not reached."
#: The exit code of a process whose time is up.
_OVERDUE = 124


@dataclass(frozen=True)
class Cell:
    """A code cell: its id, and its source as it was typed."""

    id: str
    source: str

    @cached_property
    def tree(self) -> ast.Module | None:
        """The source, parsed, without lines that only IPython understands; None if it is not Python."""
        return parsed(self.source) or parsed(python_of(self.source))

    @cached_property
    def checks(self) -> tuple[str, ...]:
        """The exercises that the cell checks."""
        return tuple(dict.fromkeys(name for node in self._nodes() for name in _checked(node)))

    @cached_property
    def uses(self) -> frozenset[str]:
        """Every name that is read."""
        return frozenset(node.id for node in self._names() if isinstance(node.ctx, ast.Load))

    @cached_property
    def makes(self) -> frozenset[str]:
        """Every name that is bound, or whose object changes: by an assignment, or a method call on its own line."""
        made = {node.id for node in self._names() if isinstance(node.ctx, ast.Store)}
        for node in self._nodes():
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                    made.add(name)
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    made |= {(each.asname or each.name).partition(".")[0] for each in names}
                case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                    made |= _base(node)
                case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
                    made |= _base(method)
        return frozenset(made)

    def _nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree) if self.tree else iter(())

    def _names(self) -> Iterator[ast.Name]:
        return (node for node in self._nodes() if isinstance(node, ast.Name))


def _checked(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check":
        yield from (argument.id for argument in node.args if isinstance(argument, ast.Name))
        yield from (keyword.arg for keyword in node.keywords if keyword.arg)


def _base(node: ast.expr) -> set[str]:
    """The name at the beginning of `name.attribute[index]`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def cells(path: Path) -> list[Cell]:
    """The code cells of a notebook. Raises CourseError if it is not a notebook."""
    try:
        return cells_of(path.read_bytes())
    except (OSError, CourseError) as error:
        damage = error.strerror or str(error) if isinstance(error, OSError) else error
        raise CourseError(
            f"{path} is not a notebook: {damage}. JupyterLab keeps a copy of the last save in "
            ".ipynb_checkpoints; or delete the file, and `tcemu lab` lays it out afresh"
        ) from error


def cells_of(content: bytes) -> list[Cell]:
    """The code cells of a notebook's bytes. Raises CourseError, which says in a few words why they are not one.

    >>> from tcemu.course.running import cells_of
    >>> cells_of(b'{"cells": [{"cell_type": "code", "id": "one", "source": ["x = 1"]}]}')
    [Cell(id='one', source='x = 1')]
    """
    try:
        held = json.loads(content.decode("utf-8"))["cells"]
        code = [cell for cell in held if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]) for cell in code]
        names = [str(cell.get("id", number)) for number, cell in enumerate(code)]
        return [Cell(name, source) for name, source in zip(names, sources, strict=True)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CourseError(_damage(error)) from error


def _damage(error: Exception) -> str:
    match error:
        case json.JSONDecodeError(doc=""):
            return "it is empty"
        case json.JSONDecodeError(lineno=line):
            return f"line {line} is not JSON"
        case UnicodeDecodeError():
            return "it is not text"
    return "it has no list of cells"


def needed(
    every: Sequence[Cell], checks: Iterable[str] | None = None, given: Container[str] | None = None
) -> list[Cell]:
    """The cells with `checks`, those on which they depend, and broken ones, in order; by default, with any check.

    If the sources that the course has `given` are known, all other cells are needed, too: they may do anything.
    """
    wanted, asked = set[str](), None if checks is None else set(checks)
    kept = []
    for cell in reversed(every):
        checked = cell.checks if asked is None else asked.intersection(cell.checks)
        own = given is not None and cell.source not in given
        if checked or own or cell.makes & wanted or cell.tree is None:
            kept.append(cell)
            wanted |= cell.uses
    return kept[::-1]


def _given(path: Path) -> frozenset[str]:
    """The sources of the cells that the course gave a notebook; none if it is not the course's."""
    with suppress(CourseError):
        return frozenset(cell.source for cell in cells(source() / path.parent.name / path.name))
    return frozenset()


@dataclass(frozen=True)
class Result:
    """The result of a check in a notebook.

    >>> from tcemu.course.running import Result
    >>> Result("where_of_a", "wrong", "The lane is wrong.").points
    0.0
    """

    name: str
    #: "open", "wrong", "right", or "failed" if a cell raised an error before the check.
    state: str
    says: str
    mistake: str = ""
    points: float = 0.0
    scores: dict[str, int] = field(default_factory=dict)
    hints: int = 0


def results(path: Path, left_out: Mapping[str, str] = {}) -> Iterator[Result]:
    """Run the cells of a notebook here, and give the result of each check.

    `left_out` has cells that do not run, by their ids, and why.
    """
    skipped_lines: list[str] = []
    trouble = next(iter(left_out.values()), "")
    with closing(Cells(skipped_lines.append)) as runner:
        for cell in needed([cell for cell in cells(path) if cell.id not in left_out], given=_given(path)):
            _report(cell.id)
            with verdicts_of(progress.learner()) as verdicts:
                trouble_here = _run(cell, f"{path}#{cell.id}", runner)
            seen = {verdict.exercise.name for verdict in verdicts}
            for verdict in verdicts:
                wanted = verdict.exercise
                yield Result(
                    wanted.name, verdict.state, _with_note(verdict, skipped_lines), verdict.mistake, verdict.points,
                    dict(verdict.finding.scores), len(wanted.hints),
                )  # fmt: skip
            for name in cell.checks:
                if name not in seen:
                    yield Result(name, "failed", trouble or trouble_here or _UNREACHED)
            trouble = trouble or trouble_here


def _with_note(verdict: Verdict, skipped: Sequence[str]) -> str:
    """What a verdict says; if it is not "right", also what `tcemu check` did not run, which may be why."""
    if verdict.state == "right" or not skipped:
        return verdict.says
    return f"{verdict.says}\ntcemu check does not run {listing(dict.fromkeys(skipped), 'and')}."


def _run(cell: Cell, file: str, runner: Cells) -> str:
    """Run a cell without its output; the error that it raised, in words."""
    try:
        with redirect_stdout(io.StringIO()):
            runner.run(cell.source, file)
    except KeyboardInterrupt:
        raise
    except TcemuError as error:
        return str(error)
    except SyntaxError:
        return f"Cell {cell.id} is not valid Python."
    except BaseException as error:  # noqa: BLE001 - a learner's cell may raise anything
        return f"Cell {cell.id} raises {described(error)}"
    return ""


def results_of(path: Path, limit: float = LIMIT, untouched: Container[str] = ()) -> list[Result]:
    """The results of a notebook's checks, from a fresh process; a cell that takes more than `limit` s is left out.

    Those that are `untouched` are open, and not run. Raises CourseError if it is not a notebook. Nothing is written
    down.
    """
    every = cells(path)
    names = [name for cell in every for name in cell.checks]
    known = {name: Result(name, "open", DOTS) for name in names if name in untouched}
    left_out = {cell.id: "" for cell in every if cell.checks and all(name in known for name in cell.checks)}
    stopped: dict[str, str] = {}
    while any(name not in known for name in names):
        new, where, trouble = _ask(path, stopped | left_out, limit)
        known |= {result.name: result for result in new if result.name not in untouched}
        if not where or where in stopped or len(stopped) == _STOPPED:
            known |= {name: Result(name, "failed", trouble or _UNREACHED) for name in names if name not in known}
        stopped[where] = trouble
        known |= {
            name: Result(name, "failed", trouble)
            for cell in every for name in cell.checks if cell.id == where and name not in known
        }  # fmt: skip
    return [known[name] for name in dict.fromkeys(names)]


def _ask(path: Path, left_out: Mapping[str, str], limit: float) -> tuple[list[Result], str, str]:
    """Run a notebook in a separate process: its results, the cell in which it was stopped, and what went wrong."""
    require_processes("A notebook that is checked as a whole")
    command = [sys.executable, "-m", "tcemu.course.running", f"{limit:g}", path.name, json.dumps(dict(left_out))]
    options: Any = {"cwd": path.parent, "stdin": subprocess.DEVNULL, "capture_output": True}
    longest = _WAITS * limit
    try:
        done = subprocess.run(command, check=False, timeout=longest, **options)  # noqa: S603 - the learner's notebook
    except subprocess.TimeoutExpired as error:
        return *_printed(error.stdout or b""), f"It still waited for something after {longest:g} seconds."
    results, last = _printed(done.stdout)
    if done.returncode == _OVERDUE:
        return results, last, f"It did not finish within {limit:g} seconds of processor time."
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return results, "", f"The process ended before the check. {said}".strip() if done.returncode else ""


def _printed(output: bytes) -> tuple[list[Result], str]:
    """The results that a process has printed, and the cell that it ran last."""
    printed, last = [], ""
    for line in output.decode(errors="replace").split("\n"):
        if line.startswith(_MARK):
            held = json.loads(line.removeprefix(_MARK))
            if isinstance(held, str):
                last = held
            else:
                printed.append(Result(**held))
    return printed, last


#: Begins a line with a result or with the id of the cell that runs next, and no line of a learner's.
_MARK = "\0tcemu-check "
#: Where these lines go in a process of its own.
_reports: list[TextIO] = []


def _report(what: object) -> None:
    """Tell the process that has started this one, if there is one."""
    for out in _reports:
        print(_MARK + json.dumps(what), file=out, flush=True)


def _end_after(limit: float) -> None:
    """End this process when it has taken `limit` seconds of processor time."""

    def watch() -> None:
        while time.process_time() < limit:
            time.sleep(min(1.0, limit / 10))
        os._exit(_OVERDUE)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    _reports.append(sys.stdout)
    _end_after(float(sys.argv[1]))
    for each in results(Path(sys.argv[2]).absolute(), json.loads("".join(sys.argv[3:4]) or "{}")):
        _report(asdict(each))
