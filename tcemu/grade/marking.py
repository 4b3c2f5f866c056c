"""Marks one notebook: its cells run in a box, and the answers that they send are judged here.

The marking tells the box what to run: every cell, in order, as Jupyter does. A check in the notebook sends its answer,
which is judged at once, while the box waits; of several, the last counts. What the notebook prints, returns or claims
about its own answers counts for nothing. A cell that does not end, or ends its process, is left out when the notebook
runs again in a new box, and costs the exercises that it checks; so is a check whose answer does so.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tcemu.course.record import Exercise
from tcemu.course.running import Cell, cells_of
from tcemu.course.solutions import Solution
from tcemu.course.verdict import Verdict
from tcemu.cuda import compiler as nvrtc
from tcemu.cuda.toolkit import toolkit
from tcemu.errors import CourseError, MissingPackage, listing
from tcemu.grade.box import PATIENCE, Box, Seat
from tcemu.grade.compilers import compiler
from tcemu.grade.dialogue import UNREACHED, Run
from tcemu.grade.facts import Facts
from tcemu.grade.hidden import FAILS, trouble
from tcemu.grade.marks import failed, mark_of
from tcemu.grade.records import Mark
from tcemu.grade.room import BoxUnavailable
from tcemu.grade.unseen import judged_alone, judged_first, judged_twice, runs_again, works_alone, works_apart
from tcemu.grade.warps import legible
from tcemu.tracebacks import described

#: Checks of one exercise that are judged at once; of further ones, the last is judged when the notebook has ended.
_CHECKS = 20
#: Boxes that one notebook may use up.
_BOXES = 6


def marks_of(
    stem: str, content: bytes, wanted: Mapping[str, Exercise], student: str, seat: Seat | None = None, key: str = "",
    tests: Mapping[str, Solution] | None = None,
) -> list[Mark]:  # fmt: skip
    r"""The marks of a notebook for `wanted`, in that order, with the variants of `student`. It does not raise.

    `key` is that of the course: other numbers, which nobody has seen, follow from it. `tests` are hidden tests.

    >>> from tcemu import course
    >>> from tcemu.grade.box import Seat
    >>> from tcemu.grade.marking import marks_of
    >>> notebook = b'{"cells": [{"cell_type": "code", "source": "def where_of_a(row, column):\\n    return 0, 0"}]}'
    >>> (mark,) = marks_of("02", notebook, {"where_of_a": course.exercise("where_of_a")}, "ada", Seat(trusted=True))
    >>> mark.state, mark.points < mark.of
    ('wrong', True)
    """
    try:
        cells = cells_of(content)
    except CourseError as error:
        says = f"This is not a notebook: {legible(error)}."
        return [failed(stem, wanted[name], says) for name in wanted]
    notebook = Marking(stem, cells, wanted, student, seat or Seat(), Facts(cells), key, content, tests or {})
    notebook.run()
    notebook.run_again()
    return [notebook.marks.get(name) or failed(stem, wanted[name], UNREACHED) for name in wanted]


@dataclass
class Marking:
    """One notebook while it is marked."""

    stem: str
    cells: Sequence[Cell]
    wanted: Mapping[str, Exercise]
    student: str
    seat: Seat
    #: what a box without tcemu may be told
    facts: Facts
    #: the key of the course, and the notebook's bytes: unseen numbers follow from them
    key: str = ""
    content: bytes = b""
    tests: Mapping[str, Solution] = field(default_factory=dict)
    #: exercises whose numbers the notebook may ask for, if these are more than those that are marked
    known: Mapping[str, Exercise] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    #: cells and checks, by exercise and number, that ended their box
    _left_out: set[int] = field(default_factory=set)
    _stuck: set[tuple[str, int]] = field(default_factory=set)
    #: in this box: how often each exercise was checked, the check that is being judged, and answers for later
    _checked: Counter[str] = field(default_factory=Counter)
    _current: tuple[str, int] | None = None
    _judging: str = ""
    late: dict[str, Any] = field(default_factory=dict)
    #: seconds of processor time that earlier boxes took, and the time at which the notebook has waited too long
    spent: float = 0.0
    latest: float = 0.0
    #: why the first cell that ended its box was left out, and what else the grader did not run
    trouble: str = ""
    skipped: dict[str, None] = field(default_factory=dict)

    def run(self) -> None:
        """Run the notebook until every exercise has a mark, or the time is up."""
        self.latest = time.monotonic() + PATIENCE * self.seat.limits.notebook
        if re.search(rb"__(global|device)__", self.content) and any(_in_cuda(each) for each in self.wanted.values()):
            _check_compiler()
        with nvrtc.started_by(partial(compiler, self.seat)):
            self._run_in_boxes()
        says = UNREACHED if self.left > 0 else self.overdue
        for name in self.wanted:
            if name not in self.marks:
                self.marks[name] = failed(self.stem, self.wanted[name], says)
        self._note_what_was_skipped()

    def run_again(self) -> None:
        """Run it where tcemu is not, for answers that do without it, or with little of it; the lower mark counts."""
        for kind in (works_alone, works_apart) if not self.seat.alone else ():
            wanted = {name: each for name, each in self.wanted.items() if kind(each) and self.marks[name].points}
            if wanted:
                again = Marking(
                    self.stem, self.cells, wanted, self.student, replace(self.seat, alone=True), self.facts, self.key,
                    self.content, known=self.known or self.wanted,
                )  # fmt: skip
                again.run()
                for name, mark in again.marks.items():
                    self._lower(name, mark)

    def _lower(self, name: str, mark: Mark) -> None:
        here = self.marks[name]
        if mark.points < here.points:
            says = mark.says if here.state == "right" else here.says
            self.marks[name] = replace(here, state="wrong", points=mark.points, says=says)

    def _run_in_boxes(self) -> None:
        for _ in range(_BOXES):
            if self.left <= 0:
                break
            with Run(self) as run:
                if run.everything():
                    break

    def _note_what_was_skipped(self) -> None:
        """Say so where it may be why an answer is not right."""
        if self.skipped:
            note = f"The grader does not run {legible(listing(self.skipped, 'and'), 200)}."
            for name, mark in self.marks.items():
                if mark.state != "right":
                    self.marks[name] = replace(mark, says=f"{mark.says}\n{note}")

    @property
    def overdue(self) -> str:
        """The message for a notebook whose time is up."""
        return f"The notebook did not finish within {self.seat.limits.notebook:g} seconds of processor time."

    @property
    def left(self) -> float:
        """Seconds of processor time that are left for the notebook; none if it has waited too long."""
        return 0.0 if time.monotonic() > self.latest else self.seat.limits.notebook - self.spent

    @property
    def only(self) -> tuple[str, ...]:
        """What of tcemu the answer may call that is being judged; beside that, what any of them may call."""
        names = [self._judging] if self._judging else list(self.wanted)
        return tuple(public for name in names for public in self.wanted[name].only or ())

    def todo(self) -> list[tuple[int, Cell]]:
        """The cells to run in a new box, with their numbers."""
        self._checked.clear()
        self.facts.begin()
        self.late.clear()
        return [(number, cell) for number, cell in enumerate(self.cells) if number not in self._left_out]

    def file(self, cell: Cell) -> str:
        """The cell's name in reports."""
        return f"{self.stem}.ipynb#{legible(cell.id, 40)}"

    def judge(self, name: str, answer: Any, box: Box) -> None:
        """Judge an answer, or keep it for later if the exercise was checked too often. Raises BoxEnded."""
        if name not in self.wanted or self._current:
            return
        self._checked[name] += 1
        check = name, self._checked[name]
        if self._checked[name] > _CHECKS:
            self.late[name] = answer
        elif check not in self._stuck:
            self._current = check
            self.judge_now(name, answer, box)
            self._current = None

    def judge_now(self, name: str, answer: Any, box: Box) -> None:
        """Judge an answer. Raises BoxEnded."""
        self._judging = name
        try:
            with box.clocked():
                verdict = self._verdict(self.wanted[name], answer)
            mark = mark_of(self.stem, verdict)
            if verdict and name in self.tests and trouble(self.tests[name], answer, self.student):
                mark = replace(mark, state="wrong", points=0.0, says=FAILS)
        except Exception as error:  # noqa: BLE001 - a judge that meets the unforeseen
            mark = failed(self.stem, self.wanted[name], f"It cannot be judged: {legible(described(error))}.")
        finally:
            self._judging = ""
        box.check_alive()  # judges mistake the box's end for an error in the answer
        self.marks[name] = mark

    def _verdict(self, exercise: Exercise, answer: Any) -> Verdict:
        """The verdict on an answer; a box without tcemu judges the unseen numbers of an answer that works alone."""
        if self.seat.alone:
            return judged_alone(exercise, answer, self.student, self.key, self.content)
        if runs_again(exercise):
            return judged_first(exercise, answer, self.student, self.cells)
        return judged_twice(exercise, answer, self.student, self.key, self.content, self.cells)

    def spoilt(self, number: int, cell: Cell, why: str) -> None:
        """A box ended in a cell: if a check was running, its exercise fails; otherwise the cell is left out."""
        if self._current:
            name, _ = self._current
            self.marks[name] = failed(self.stem, self.wanted[name], why)
            self._stuck.add(self._current)
            self._current = None
            return
        self._left_out.add(number)
        if cell.id:
            self.trouble = self.trouble or f"Cell {legible(cell.id, 40)} was stopped. {why}"
        for name in cell.checks:
            if name in self.wanted and name not in self.marks:
                self.marks[name] = failed(self.stem, self.wanted[name], why)


def _in_cuda(exercise: Exercise) -> bool:
    return "CUDA C++" in getattr(exercise.judge, "languages", ())


def _check_compiler() -> None:
    """Raise BoxUnavailable without NVRTC: that its teacher lacks a compiler is not an answer's fault."""
    try:
        toolkit()
    except MissingPackage as error:
        raise BoxUnavailable(f"answers in CUDA C++ cannot be marked here: {error}") from None
