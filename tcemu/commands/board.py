"""tcemu board: how far the learners of a workshop have come, and the best figures of the exercises about speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcemu.errors import CourseError, counted
from tcemu.extras import require

if TYPE_CHECKING:
    from rich.table import Table


#: Letters of a name that are shown.
LETTERS = 60


@dataclass(frozen=True)
class Learner:
    """One learner: the name, and the entries of the progress file."""

    name: str
    entries: Mapping[str, Any]

    @property
    def solved(self) -> set[str]:
        """The exercises that are solved."""
        return {name for name, entry in self.entries.items() if entry.get("solved")}

    def score(self, exercise: str, what: str) -> int | None:
        """The best score in an exercise, if there is one."""
        scores = self.entries.get(exercise, {}).get("scores")
        held = scores.get(what) if isinstance(scores, dict) else None
        return held if isinstance(held, int) else None


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--watch", is_flag=True, help="Keep running, and show the board again when a learner makes progress.")
def board(folders: tuple[Path, ...], watch: bool) -> None:
    """Show how far the learners of a workshop have come.

    Each of FOLDERS is a learner's course, or a folder that contains such courses, such as the home folders of a
    JupyterHub. Only the progress files are read. Learners are named as in `tcemu check --as`, or after
    their folder.
    """
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    console.print(*tables(learners(folders)))
    if watch:
        require("course", "tcemu board --watch", "watchfiles")
        from watchfiles import watch as changes

        for _ in changes(*folders, watch_filter=lambda _, path: path.endswith(_progress())):
            console.clear()
            console.print(*tables(learners(folders)))


def _progress() -> str:
    from tcemu.course.progress import PROGRESS

    return PROGRESS


def learners(folders: Sequence[Path]) -> list[Learner]:
    """The learners found in the folders, those who solved most first. Raises CourseError if there are none."""
    everyone = [learner for folder in folders for learner in _in(folder)]
    if not everyone:
        places = ", ".join(map(str, folders))
        raise CourseError(f"no progress is recorded in {places}: no learner has tried an exercise yet")
    return sorted(everyone, key=lambda each: (-len(each.solved), each.name))


def _in(folder: Path) -> Iterator[Learner]:
    from tcemu.course import progress

    for path in sorted(folder.glob(f"**/{progress.PROGRESS}")):
        try:
            held = progress.read(path.parent)
        except CourseError as error:  # one damaged file does not hide the others
            click.echo(f"tcemu: {error}", err=True)
            continue
        name = held.get("learner")
        shown = name if isinstance(name, str) and name else path.parent.resolve().name
        yield Learner(shown[:LETTERS].encode(errors="replace").decode(), held["exercises"])


def tables(everyone: Sequence[Learner]) -> list[Table]:
    """The board: who has solved how many exercises, and for each exercise about speed the best figures."""
    return [_overall(everyone), *_scores(everyone)]


def _overall(everyone: Sequence[Learner]) -> Table:
    from rich.table import Table

    from tcemu.course import exercises, manifest

    of = len(exercises())
    table = Table("learner", "solved", "furthest notebook", title=f"{counted(len(everyone), 'learner')}")
    for learner in everyone:
        reached = [entry.label for entry in manifest().notebooks if learner.solved & {*entry.tasks, *entry.exercises}]
        table.add_row(learner.name, f"{len(learner.solved)} of {of}", reached[-1] if reached else "-")
    return table


def _scores(everyone: Sequence[Learner]) -> Iterator[Table]:
    from rich.table import Table

    from tcemu.course import exercises

    for exercise in exercises().values():
        for what, best in exercise.best.items():
            scored = [(score, each.name) for each in everyone if (score := each.score(exercise.name, what)) is not None]
            if scored:
                table = Table("learner", what, title=exercise.title, caption=f"best known: {best:,}")
                for score, name in sorted(scored):
                    table.add_row(name, f"{score:,}")
                yield table
