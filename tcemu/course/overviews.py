"""Where a learner is: progress over notebooks and exercises, the next step, and the time left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from tcemu.arguments import explained
from tcemu.course import progress
from tcemu.course.bank import exercises
from tcemu.course.manifests import MANIFEST, Entry, Manifest, manifest
from tcemu.errors import counted


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
    def finished(self) -> bool:
        """Whether all of them are."""
        return self.solved == len(self.names) > 0

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
        """The first notebook that is not finished; None at the end."""
        return next((step for step in self.steps if not step.finished), None)

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
        solved = sum(step.solved for step in self.steps)
        of = counted(sum(len(step.names) for step in self.steps), "exercise")
        if self.next is None:
            return f"You have solved all {of}."
        parts = {"notebooks": "reading_left", "exercises": "exercises_left"}
        minutes = {what: sum(getattr(step, name) for step in self.steps) for what, name in parts.items()}
        left = " and ".join(f"{duration(each)} of {what}" for what, each in minutes.items() if each)
        return f"{solved} of {of} solved; about {left} left."

    def markdown(self) -> str:
        """The first page, with links relative to the course's folder."""
        head = "| | notebook | reading left | exercises | practice left | solved |\n|---|---|---|---|---|---|"
        rows = [self._row(step) for step in self.steps]
        return "\n".join([f"# {self.title}", "", *self._first_words(), "", _ADVICE, "", head, *rows, ""])

    def _first_words(self) -> list[str]:
        """Where to click, and how far the learner is."""
        if self.next is None:
            return [self._state]
        begun = any(step.solved for step in self.steps)
        link = f"[{self.next.entry.label}](notebooks/{self.next.entry.file})"
        return [f"**{'Continue with' if begun else 'Start with'} {link}.** {self._state}"]

    def _row(self, step: Step) -> str:
        mark = "✓" if step.finished else "→" if step is self.next else ""
        link = f"[{step.entry.label}](notebooks/{step.entry.file})"
        count = counted(len(step.entry.exercises), "exercise")
        own = f"[{count}](exercises/{step.entry.file})" if step.entry.exercises else ""
        times = duration(step.reading_left), duration(step.exercises_left)
        return f"| {mark} | {link} | {times[0]} | {own} | {times[1]} | {step.solved} of {len(step.names)} |"

    def __str__(self) -> str:
        wide = max(len(step.entry.label) for step in self.steps)
        lines = [
            f"{'>' if step is self.next else ' '} {step.entry.label:{wide}}  "
            f"{_bar(step)} {step.solved:>2} of {len(step.names):<2} {duration(step.minutes_left)}"
            for step in self.steps
        ]
        return "\n".join([self.title, *lines, self.summary])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """A table with links to the notebooks, for a notebook in the folder notebooks."""
        rows = "".join(map(self._cells, self.steps))
        head = "".join(f'<th scope="col">{name}</th>' for name in ("", "notebook", "progress", "solved", "time left"))
        return f"<p>{escape(self.summary)}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _cells(self, step: Step) -> str:
        """One row of the table."""
        state = "next" if step is self.next else "done" if step.finished else ""
        file, label, count = escape(step.entry.file), escape(step.entry.label), len(step.names)
        cells = [
            f"<td>{state}</td>",
            f'<td style="text-align:left"><a href="{file}">{label}</a></td>',
            f'<td><progress value="{step.solved}" max="{max(count, 1)}" aria-label="{label}"></progress></td>',
            f"<td>{step.solved} of {count}</td>",
            f"<td>{duration(step.minutes_left)}</td>",
        ]
        return f"<tr>{''.join(cells)}</tr>"


_ADVICE = """\
Click a notebook to open it. Shift + Enter runs a cell and moves to the next one. The notebooks are the course, with
a few tasks in each. The exercises are for practice: do as many as you like, since no later notebook needs them.

Your work and your progress are saved in this folder. `tcemu lab` opens it again, even after an update of the course,
and brings this page up to date. In a notebook, `tcemu.course.overview()` shows where you are."""


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


def _bar(step: Step) -> str:
    filled = round(10 * step.solved / max(len(step.names), 1))
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
