"""tcemu exercises: for teachers, who write exercises."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tcemu.errors import counted

_FOLDER = click.argument("folder", default=".", type=click.Path(path_type=Path, exists=True, file_okay=False))


@click.group()
def exercises() -> None:
    """Write exercises of your own: exercises/WRITING.md says how."""


@exercises.command()
@_FOLDER
def save(folder: Path) -> None:
    """Make FOLDER/exercises from FOLDER/solutions, and fill in the task cards of the solutions."""
    from tcemu.course.release import released

    for path, text in released(folder):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(f"saved {path}")


@exercises.command()
@click.argument("notebook", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("name")
def add(notebook: Path, name: str) -> None:
    """Add the cells of the exercise NAME to the solutions in NOTEBOOK, which is created if needed."""
    from tcemu.course.release import added

    notebook.parent.mkdir(parents=True, exist_ok=True)
    notebook.write_text(added(notebook, name), encoding="utf-8")
    click.echo(f"{notebook} has the cells {name}-task, {name} and {name}-check: write the solution between the marks.")


@exercises.command()
@_FOLDER
def lint(folder: Path) -> None:
    """Report what is wrong with the exercises whose solutions are in FOLDER/solutions.

    Unsolved, an exercise must be open; its solution passes; at least three wrong answers are rejected with the name of
    the mistake; learners' variants differ; time, points and hints are stated; no hint gives the solution away; every
    hidden test can be failed.

    The exit code is 0 if nothing is wrong, otherwise 1.
    """
    from tcemu.course.lint import cases
    from tcemu.course.lint import lint as problems

    count = 0
    for problem in problems(folder):
        click.echo(str(problem))
        count += 1
    held = cases(folder)
    minutes, points = (sum(getattr(case.exercise, what) for case in held) for what in ("minutes", "points"))
    totals = f"{counted(len(held), 'exercise')}, {counted(minutes, 'minute')}, {counted(points, 'point')}"
    click.echo(f"{totals}: {counted(count, 'problem') if count else 'nothing is wrong'}.")
    sys.exit(1 if count else 0)
