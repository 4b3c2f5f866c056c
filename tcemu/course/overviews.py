"""Where a learner is: progress over notebooks and exercises, the next step, and the time left."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from tcemu.arguments import explained
from tcemu.course import progress
from tcemu.course.bank import exercises
from tcemu.course.manifests import MANIFEST, Entry, Manifest, manifest
from tcemu.course.source import START
from tcemu.errors import CourseError, counted, listing


class Count(NamedTuple):
    """How many of all.

    >>> from tcemu.course.overviews import Count
    >>> str(Count(2, 5))
    '2 of 5'
    """

    solved: int
    all: int

    @classmethod
    def of(cls, names: Iterable[str], done: Iterable[str]) -> Count:
        """How many of `names` are `done`."""
        every = set(names)
        return cls(len(every & set(done)), len(every))

    @property
    def left(self) -> int:
        """How many are not solved."""
        return self.all - self.solved

    def __str__(self) -> str:
        return f"{self.solved} of {self.all}"

    def words(self, one: str) -> str:
        """With the name of one of them, such as "task"; empty if there are none."""
        return f"{self.solved} of {counted(self.all, one)}" if self.all else ""


def tally(tasks: Count, exercises: Count) -> str:
    """What is solved, in the words of all pages and commands.

    >>> from tcemu.course.overviews import Count, tally
    >>> tally(Count(1, 2), Count(0, 3))
    '1 of 2 tasks and 0 of 3 exercises solved'
    """
    return f"{listing(filter(None, (tasks.words('task'), exercises.words('exercise'))), 'and') or 'nothing'} solved"


@dataclass(frozen=True)
class Step:
    """One notebook, and how much of it is done.

    >>> from tcemu import course
    >>> step = course.overview().steps[0]
    >>> step.entry.title, step.solved
    ('First light', 0)
    """

    entry: Entry
    #: Solved tasks and exercises, in the manifest's order.
    done: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Its tasks and exercises."""
        return (*self.entry.tasks, *self.entry.exercises)

    @property
    def solved(self) -> int:
        """How many of them are solved."""
        return len(self.done)

    @property
    def tasks(self) -> Count:
        """How many of its tasks are solved."""
        return Count.of(self.entry.tasks, self.done)

    @property
    def exercises(self) -> Count:
        """How many of its exercises are solved."""
        return Count.of(self.entry.exercises, self.done)

    @property
    def finished(self) -> bool:
        """Whether all of its tasks are solved: exercises are for practice, and no later notebook needs them."""
        return self.tasks.left == 0 < self.tasks.all

    @property
    def open(self) -> tuple[str, ...]:
        """Those that are not solved."""
        return tuple(name for name in self.names if name not in self.done)

    @property
    def reading_left(self) -> int:
        """Minutes left in the notebook, in proportion to its tasks that are not solved."""
        tasks = self.entry.tasks
        share = sum(name not in self.done for name in tasks) / len(tasks) if tasks else float(not self.finished)
        return round(self.entry.minutes * share)

    @property
    def exercises_left(self) -> int:
        """Minutes of its exercises that are not solved."""
        known = exercises()
        return sum(known[name].minutes for name in self.entry.exercises if name in self.open and name in known)

    @property
    def minutes_left(self) -> int:
        """Minutes of the notebook and of its exercises."""
        return self.reading_left + self.exercises_left


@dataclass(frozen=True)
class Overview:
    """The whole course. In a notebook it is a table with links.

    >>> from tcemu import course
    >>> course.overview().next.entry.title
    'First light'
    """

    title: str
    steps: tuple[Step, ...]

    @property
    def next(self) -> Step | None:
        """The first notebook whose tasks are not all solved; None at the end.

        One without tasks is done with if something in it, or further on, is solved, or if all tasks of the course are.
        """
        if self.tasks.left == 0 < self.tasks.all:
            return None
        begun = max((place for place, step in enumerate(self.steps) if step.done), default=-1)
        left = (step for place, step in enumerate(self.steps)
                if step.tasks.left or (not step.entry.tasks and place > begun))  # fmt: skip
        return next(left, None)

    @property
    def tasks(self) -> Count:
        """How many tasks are solved."""
        return Count(*map(sum, zip(*(step.tasks for step in self.steps), strict=True)))

    @property
    def exercises(self) -> Count:
        """How many exercises are solved."""
        return Count(*map(sum, zip(*(step.exercises for step in self.steps), strict=True)))

    @property
    def minutes_left(self) -> int:
        """Minutes left in the whole course."""
        return sum(step.minutes_left for step in self.steps)

    @property
    def summary(self) -> str:
        """One line: what is solved, how long the rest takes, and what is next."""
        return f"{self._state} Next: {self.next.entry.label}." if self.next else self._state

    @property
    def _state(self) -> str:
        parts = {"notebooks": "reading_left", "exercises": "exercises_left"}
        minutes = {what: sum(getattr(step, name) for step in self.steps) for what, name in parts.items()}
        left = " and ".join(f"{duration(each)} of {what}" for what, each in minutes.items() if each)
        return f"{tally(self.tasks, self.exercises)}; {f'about {left} left' if left else 'nothing is left'}."

    def markdown(self) -> str:
        """The first page, with links relative to the course's folder."""
        head = "| | notebook | tasks | reading left | exercises | practice left |\n|---|---|---|---|---|---|"
        rows = [self._row(step) for step in self.steps]
        return "\n".join([f"# {self.title}", "", self._first_words(), "", _ADVICE, "", head, *rows, "", _END, ""])

    def _first_words(self) -> str:
        """Where to click, and how far the learner is."""
        if self.next is None:
            return f"**You are through with the notebooks.** {self._state}"
        begun = any(step.solved for step in self.steps)
        link = f"[{self.next.entry.label}](notebooks/{self.next.entry.file})"
        return f"**{'Continue with' if begun else 'Start with'} {link}.** {self._state}"

    def _row(self, step: Step) -> str:
        entry = step.entry
        link = f"[{entry.label}](notebooks/{entry.file})"
        tasks = f"{_progress(step.tasks, f'tasks of {entry.label}')} {step.tasks}" if entry.tasks else ""
        own = f"[{step.exercises}](exercises/{entry.file})" if entry.exercises else ""
        times = duration(step.reading_left), duration(step.exercises_left)
        return f"| {self._mark(step)} | {link} | {tasks} | {times[0]} | {own} | {times[1]} |"

    def _mark(self, step: Step) -> str:
        return "✓" if step.finished else "→" if step is self.next else ""

    def __str__(self) -> str:
        wide = max(len(step.entry.label) for step in self.steps)
        lines = [
            f"{self._mark(step) or ' '} {step.entry.label:{wide}}  {_bar(step.tasks)} {step.tasks.words('task'):13}  "
            f"{step.exercises.words('exercise'):18} {duration(step.minutes_left)}"
            for step in self.steps
        ]
        return "\n".join([self.title, *lines, self.summary])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """A table with links to the notebooks, for a notebook in the folder notebooks."""
        rows = "".join(map(self._cells, self.steps))
        names = ("", "notebook", "tasks", "exercises", "time left")
        head = "".join(f'<th scope="col">{name}</th>' for name in names)
        return f"<p>{escape(self.summary)}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _cells(self, step: Step) -> str:
        """One row of the table."""
        state = "done" if step.finished else "next" if step is self.next else ""
        file, label = escape(step.entry.file), escape(step.entry.label)
        own = f'<a href="../exercises/{file}">{step.exercises}</a>' if step.entry.exercises else ""
        cells = [
            f"<td>{state}</td>",
            f'<td style="text-align:left"><a href="{file}">{label}</a></td>',
            f"<td>{_progress(step.tasks, f'tasks of {label}')} {step.tasks}</td>",
            f"<td>{own}</td>",
            f"<td>{duration(step.minutes_left)}</td>",
        ]
        return f"<tr>{''.join(cells)}</tr>"


_ADVICE = """\
Click a notebook to open it. Shift + Enter runs a cell and moves to the next one. The notebooks are the course, with
a few tasks in each. The exercises are for practice: do as many as you like, since no later notebook needs them.

Your work and your progress are saved in this folder, and this page follows them. `tcemu lab` opens it again, even after
an update of the course. In a notebook, `tcemu.course.overview()` shows where you are."""
#: Ends what is written anew in START.md; what follows it stays.
_END = "<!-- What follows is kept. -->"


def _progress(count: Count, what: str) -> str:
    """A bar in a page."""
    return f'<progress value="{count.solved}" max="{max(count.all, 1)}" title="{what}"></progress>'


def duration(minutes: int) -> str:
    """Minutes as people say them, with a dash for none.

    >>> from tcemu.course.overviews import duration
    >>> duration(35), duration(125), duration(1924), duration(0)
    ('35 min', '2 h 05 min', '32 h', '-')
    """
    hours, rest = divmod(minutes, 60)
    if hours >= 10:
        return f"{round(minutes / 60)} h"
    return f"{hours} h {rest:02} min" if hours else f"{rest} min" if rest else "-"


def _bar(count: Count) -> str:
    filled = round(10 * count.solved / max(count.all, 1))
    return "#" * filled + "." * (10 - filled)


@explained
def overview(folder: str | PathLike[str] | None = None) -> Overview:
    """Where the learner is in the course laid out in `folder`, by default in the one around the current folder.

    Outside a laid-out course nothing is done yet. Raises CourseError for a damaged manifest or progress file.

    >>> from tcemu import course
    >>> course.overview().title
    'Tensor-core programming'
    """
    place = progress.folder() if folder is None else Path(folder)
    own = place is not None and (place / "notebooks" / MANIFEST).is_file()
    return overview_of(manifest(place if own else None), progress.read(place)["exercises"] if place else {})


def overview_of(course: Manifest, solved: Mapping[str, Any]) -> Overview:
    """The overview of a course, given the exercises of a progress file."""
    done = {name for name, entry in solved.items() if isinstance(entry, Mapping) and entry.get("solved")}
    steps = [
        Step(entry, tuple(name for name in (*entry.tasks, *entry.exercises) if name in done))
        for entry in course.notebooks
    ]
    return Overview(course.title, tuple(steps))


def write_first_page(place: Path, more: str | None = None) -> None:
    """Bring START.md in the course at `place` up to date. What follows the overview there stays, or becomes `more`.

    Raises CourseError if it cannot be written.
    """
    page = place / START
    new = page.with_name(f".{START}.{os.getpid()}.tmp")  # the page may be read while it is written
    try:
        if more is None:
            more = page.read_text(encoding="utf-8").partition(_END)[2] if page.is_file() else ""
        new.write_text(overview(place).markdown() + more.lstrip("\n"), encoding="utf-8")
        new.replace(page)
    except OSError as error:
        raise CourseError(f"cannot write {page}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Place:
    """Where a solved exercise has brought the learner, and where to go next."""

    #: What is solved in this notebook, and what comes next there; or the same for the whole course.
    reached: str
    #: What to open next, as a text and a path in the course's folder; none while something is left in the notebook.
    links: tuple[tuple[str, str], ...] = ()


def place_of(name: str, folder: Path) -> Place | None:
    """Where the learner of the course in `folder` is who has just solved `name`; None if no notebook has it.

    Raises CourseError for a damaged manifest or progress file.
    """
    course = overview(folder)
    step = next((step for step in course.steps if name in step.names), None)
    if step is None:
        return None
    task = name in step.entry.tasks
    own, count = (step.entry.tasks, step.tasks) if task else (step.entry.exercises, step.exercises)
    solved = f"{count.words('task' if task else 'exercise')} of {step.entry.label} solved."
    left = [each for each in own if each in step.open]
    if left:
        after = [each for each in left if own.index(each) > own.index(name)]
        return Place(f"{solved} Next: {(after or left)[0]}.")
    further = (each for each in course.steps[course.steps.index(step) + 1 :] if each.tasks.left)
    following = next(further, course.next)
    links = [(following.entry.label, f"notebooks/{following.entry.file}")] if following else []
    if task and step.exercises.left:
        links.append((f"{counted(step.exercises.left, 'exercise')} for practice", f"exercises/{step.entry.file}"))
    return Place(solved, tuple(links))
