"""The talk with one box while a notebook runs in it: cells to run, and what they ask meanwhile.

The questions of a notebook are those of `_QUESTIONS`, and the answers to commands have the forms of `_FORMS`. A box
that sends anything else is ended.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from tcemu.course.answers import named
from tcemu.course.running import Cell
from tcemu.errors import CourseError, TcemuError
from tcemu.grade.box import PATIENCE, Box, BoxEnded
from tcemu.grade.facts import Steps
from tcemu.grade.inside.wire import Other
from tcemu.grade.marks import failed
from tcemu.grade.outside import Remote
from tcemu.grade.unseen import runs_again
from tcemu.grade.warps import legible

if TYPE_CHECKING:
    from tcemu.grade.marking import Marking

#: What a cell left out and is reported, at most.
_SKIPPED = 5
#: What is said of an exercise whose check did not run.
UNREACHED = "The check was not reached."


class Run:
    """One run of a notebook in one box."""

    def __init__(self, marking: Marking) -> None:
        self._marking = marking
        self._todo = marking.todo()
        self._remote = Remote(self.ask, [marking.file(cell) for _, cell in self._todo])
        self._box = Box(marking.seat, self._remote.special, {**self._remote.known, "made": self.made})
        self._trouble = marking.trouble

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._marking.spent += self._box.used
        self._box.end()

    @property
    def _left(self) -> float:
        """Seconds of processor time that are left for the notebook."""
        return self._marking.left - self._box.used

    def everything(self) -> bool:
        """Run all cells, and judge the exercises that no cell has checked; False if the box ended before that."""
        for number, cell in self._todo:
            if self._left <= 0:
                return True
            try:
                self._cell(cell)
            except BoxEnded as error:
                self._marking.spoilt(number, cell, self._said(error))
                return False
        return self._unchecked() and self._facts()

    def _facts(self) -> bool:
        """Note what the notebook's names stand for, for a box without tcemu."""
        marking = self._marking
        if not marking.seat.alone and any(map(runs_again, marking.wanted.values())):
            with suppress(BoxEnded):  # everything is judged
                self._clock()
                marking.facts.note(self.ask("facts", marking.facts.names)[1])
        return True

    def _cell(self, cell: Cell) -> None:
        file, trouble = self._marking.file(cell), ""
        self._quotable(file, cell.source)
        self._clock()
        _, error, skipped = self.ask("cell", cell.source, file)
        self._marking.skipped |= dict.fromkeys(legible(each, 60) for each in skipped[:_SKIPPED])
        if error:
            trouble = f"Cell {legible(cell.id, 40)} raises {legible(error)}"
            trouble = f"Cell {legible(cell.id, 40)} is not valid Python." if cell.tree is None else trouble
        for name in cell.checks if trouble else ():
            wanted = self._marking.wanted.get(name)
            if wanted and name not in self._marking.marks:
                self._marking.marks[name] = failed(self._marking.stem, wanted, self._trouble or trouble)
        self._trouble = self._trouble or trouble

    def _unchecked(self) -> bool:
        """Judge the answers that were kept for later, and those that exist but that no cell has checked."""
        for name, exercise in self._marking.wanted.items():
            late = name in self._marking.late
            if name in self._marking.marks and not late:
                continue
            try:
                self._clock()
                bound, answer = (True, self._marking.late[name]) if late else self.ask("value", name)[1:]
                if bound:
                    self._marking.judge_now(name, answer, self._box)
            except BoxEnded as error:
                self._marking.marks[name] = failed(self._marking.stem, exercise, self._said(error))
                self._marking.spoilt(-1, Cell("", ""), self._said(error))
                return False
            if name not in self._marking.marks:
                self._marking.marks[name] = failed(self._marking.stem, exercise, self._trouble or UNREACHED)
        return True

    def _clock(self) -> None:
        """Start the time limit of a cell and its checks."""
        self._box.allow(min(self._marking.seat.limits.cell, self._left), self._marking.latest)

    def _said(self, error: BoxEnded) -> str:
        cell = self._marking.seat.limits.cell
        if str(error) == "time":
            overdue = self._left <= 0
            return self._marking.overdue if overdue else f"It did not finish within {cell:g} seconds of processor time."
        waits = f"It still waited for something after {PATIENCE * cell:g} seconds."
        return waits if str(error) == "waits" else legible(error)

    @staticmethod
    def _quotable(file: str, source: str) -> None:
        """Let reports quote the cell's lines."""
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)

    # ------------------------------------------------------------------------------------------ messages

    def ask(self, *command: Any) -> list[Any]:
        """Tell the box to do something, and answer what it asks meanwhile. Raises BoxEnded."""
        self._tell_dropped()
        self._box.send(list(command))
        while True:
            answer = self._box.receive()
            if type(answer) is not list or not answer or type(answer[0]) is not str:
                raise self._box.broken("no list that begins with a word")
            if answer[0] != "ask":
                return self._checked(command[0], answer)
            self._reply(answer[1:])

    def _tell_dropped(self) -> None:
        dropped, self._remote.dropped = self._remote.dropped, []
        if dropped:
            self._box.send(["drop", dropped])
            self._box.receive()

    def _checked(self, command: str, answer: list[Any]) -> list[Any]:
        """The answer to a command, if it has the form of one."""
        kind, *rest = answer
        if kind in _ANSWERS[command] and len(rest) == len(_FORMS[kind]) and all(map(isinstance, rest, _FORMS[kind])):
            return answer
        raise self._box.broken(f"no answer to {command}")

    def _reply(self, question: list[Any]) -> None:
        """Answer a question of the notebook."""
        try:
            kind, *rest = question
            reply = _QUESTIONS[kind](self, *rest)
        except BoxEnded:
            raise
        except TcemuError as error:
            self._box.send(["refuse", legible(error)])
        except Exception as error:  # noqa: BLE001 - whatever the notebook asks with
            self._box.send(["refuse", f"The grader does not understand the question ({type(error).__name__})."])
        else:
            self._box.send(["reply", reply])

    def check(self, name: str, answer: Any) -> None:
        """An answer."""
        self._marking.judge(name if type(name) is str and name else named(answer), answer, self._box)

    def given(self, name: str) -> dict[str, Any]:
        """The numbers of an exercise."""
        known = self._marking.known or self._marking.wanted
        if type(name) is not str or name not in known:
            raise CourseError(f"this notebook has no exercise called {legible(name, 60)}")
        return dict(known[name].given(self._marking.student))

    def fact(self, name: Any) -> Any:
        """What a name stood for that a notebook without tcemu lacks."""
        return self._marking.facts.fact(str(name))

    def look(self, how: Any) -> Any:
        """What something of tcemu's is, for a notebook without it; it may call what the answers may call."""
        with self._box.clocked():
            return self._marking.facts.look(how, self._marking.only)

    def made(self, how: Any) -> Any:
        """Something of tcemu's that the notebook sends by the steps that make it."""
        try:
            return Steps(self._marking.only).made(how)
        except (TcemuError, LookupError, TypeError, ValueError, AttributeError):
            return Other("Absent", "something of tcemu's")

    def callback(self, number: int, arguments: Any) -> Any:
        """What was passed into the box to be called there."""
        return self._remote.callback(number, arguments)


_QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "check": Run.check, "given": Run.given, "fact": Run.fact, "look": Run.look, "callback": Run.callback,
}  # fmt: skip
#: The answers to each command, and the types of each answer's parts.
_ANSWERS = {
    "cell": ("ran",), "value": ("value",), "facts": ("facts",), "call": ("returned",), "entered": ("entered",),
    "start": ("operations", "end", "raised at"), "resume": ("operations", "end", "raised at"),
}  # fmt: skip
_FORMS: Mapping[str, tuple[type, ...]] = {
    "ran": (str, list), "value": (bool, object), "facts": (list,), "returned": (list, object), "entered": (list,),
    "operations": (list,), "end": (list, str), "raised at": (list, object, str, str),
}  # fmt: skip
