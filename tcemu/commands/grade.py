"""tcemu grade: mark what a class handed in."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcemu.commands.warm import warm_up
from tcemu.errors import CourseError, counted, did_you_mean, listing
from tcemu.extras import require
from tcemu.grade.plain import visible
from tcemu.kernels.host.threads import cores
from tcemu.progress import Progress

if TYPE_CHECKING:
    from tcemu.grade.box import Limits
    from tcemu.grade.output.report import Report
    from tcemu.grade.records import Submission
    from tcemu.grade.work import Task

#: Bytes by the letters of --limit-memory.
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@click.command()
@click.argument("submissions", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Where the grades go.")
@click.option("--course", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="The folder of the course, which has a course.toml, in place of the installed one.")  # fmt: skip
@click.option("--roster", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="A CSV file with the columns handed_in and learner: a student's name in what was handed in, and in "
                   "the student's own notebooks.")  # fmt: skip
@click.option("--lms", "exports", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="A CSV file that Canvas's gradebook or Moodle's grading worksheet exported: OUT gets the same file "
                   "with the points, to upload there; may be repeated.")  # fmt: skip
@click.option("--gradescope", type=click.Path(path_type=Path, dir_okay=False), metavar="OUT.zip",
              help="Grade nothing, but write the autograder that Gradescope runs, with --course, --roster, --notebook "
                   "and the limits; --out, if it is given, has the key.")  # fmt: skip
@click.option("--notebook", "notebooks", multiple=True, metavar="NAME",
              help="Grade only this notebook, such as 02_fragments; may be repeated. By default, everything that was "
                   "handed in.")  # fmt: skip
@click.option("--only", multiple=True, metavar="STUDENT", help="Grade only this student; may be repeated.")
@click.option("--jobs", type=click.IntRange(1), help="Submissions at a time; by default one for each core.")
@click.option("--scheduler", metavar="ADDRESS", help="Grade on the workers of this dask scheduler: tcp://host:8786.")
@click.option("--limit-cell", type=click.FloatRange(0.5), default=20.0, show_default=True,
              help="Processor seconds for a cell and its checks.")  # fmt: skip
@click.option("--limit-notebook", type=click.FloatRange(1), default=90.0, show_default=True,
              help="Processor seconds for a notebook.")  # fmt: skip
@click.option("--limit-memory", default="3G", show_default=True, metavar="BYTES", help="Memory of a process: 500M, 3G.")
@click.option("--trusted", is_flag=True, help="Run without a box; only for your own work.")
@click.option("--retry-quarantined", is_flag=True, help="Grade again what crashed its workers before.")
@click.option("--no-warm", is_flag=True, help="Do not compile the kernels first, as `tcemu warm` does.")
@click.option("--no-nbgrader", is_flag=True, help="Do not write nbgrader's gradebook.")
def grade(
    submissions: Path | None,
    out: Path | None,
    course: Path | None,
    roster: Path | None,
    exports: tuple[Path, ...],
    gradescope: Path | None,
    notebooks: tuple[str, ...],
    only: tuple[str, ...],
    jobs: int | None,
    scheduler: str | None,
    limit_cell: float,
    limit_notebook: float,
    limit_memory: str,
    trusted: bool,
    retry_quarantined: bool,
    no_warm: bool,
    no_nbgrader: bool,
) -> None:
    """Mark the notebooks in SUBMISSIONS, which need not be trusted.

    SUBMISSIONS is nbgrader's folder `submitted`, a zip archive of Gradescope, Moodle or Canvas, or a folder of
    notebooks named after students. The folder OUT gets grades.csv, a page for each student, Gradescope's results,
    nbgrader's gradebook, and report.html for the teacher. Points and comments by hand are in OUT/manual.csv, which you
    write: student,exercise,points,comment.

    The numbers of an exercise follow from the learner's name: the user of a JupyterHub, or the name given to `tcemu
    check --as`. Gradescope, Moodle and Canvas use other names; --roster translates them. If the learner's name is
    unknown, the feedback and the report say so.

    Each notebook runs in a box of its own, without network, course or neighbours (Linux, bubblewrap). If the command is
    interrupted, run it again: it continues where it stopped.
    """
    from rich.console import Console

    require("grade", "tcemu grade", "jinja2", "markupsafe", "yaml")
    from tcemu.course import manifest
    from tcemu.grade.box import Limits
    from tcemu.grade.unseen import key_of

    limits = Limits(cell=limit_cell, notebook=limit_notebook, memory=_bytes(limit_memory))
    if gradescope:
        _autograder(gradescope, out, course, roster, notebooks, limits)
        return
    if submissions is None or out is None:
        raise click.UsageError("grading needs SUBMISSIONS and --out; --gradescope OUT.zip needs neither")
    if sys.platform == "win32":
        raise CourseError(
            "tcemu grade needs Linux: it forks a process for each submission, in a box of bubblewrap. On Windows, run "
            "it in WSL; `tcemu grade --gradescope OUT.zip` works here, too"
        )
    from tcemu.grade.output import tables, write_all
    from tcemu.grade.run import Local, Scheduled, run

    handed = _handed(submissions, course, roster, only)
    tasks = _tasks(handed, course, notebooks, limits, trusted, key_of(out))
    if not no_warm and not scheduler and (warmed := warm_up()):
        click.echo(warmed)
    said = partial(click.echo, err=True)
    engine = Scheduled(scheduler, warm=not no_warm, says=said) if scheduler else Local(jobs or cores())
    with Progress("grading") as shown:
        grades = run(tasks, out, engine, retry=retry_quarantined, progress=shown.show)
    report = write_all(grades, out, handed, course=manifest(course), nbgrader=not no_nbgrader)
    console = Console(highlight=False)
    for table in tables(report):
        console.print(table)
    console.print(report.summary)
    for export in exports:
        _fill(export, out, report, roster)
    click.echo(f"Everything is in {out}; start with {out / 'report.html'}.")


def _autograder(
    path: Path, out: Path | None, course: Path | None, roster: Path | None, notebooks: Sequence[str], limits: Limits
) -> None:
    """Write Gradescope's autograder."""
    from tcemu.grade.output.autograder import write_autograder
    from tcemu.grade.unseen import key_of, new_key

    stems = [Path(name).stem for name in notebooks]
    write_autograder(path, key_of(out) if out else new_key(), stems, course, roster, limits)
    click.echo(f"{path} is the autograder: upload it on Gradescope's page Configure Autograder. It holds the course's "
               f"key{' and hidden tests' if course else ''}, so keep it from learners.")  # fmt: skip


def _fill(export: Path, out: Path, report: Report, roster: Path | None) -> None:
    """Write a website's file with the points, and say who is in one of the two only."""
    from tcemu.course.keeping import keep
    from tcemu.grade.intake import Roster
    from tcemu.grade.output.lms import filled

    done = filled(export, report.grades, Roster.read(roster).names if roster else {}, report.course)
    place = out / f"{done.site.lower()}-{export.stem}.csv"
    keep(place, done.text)
    click.echo(f"{place} has the points of {counted(done.rows, 'student')}, for {done.site}.")
    for many, about in ((done.students, "not in the file"), (done.others, "in the file, but handed nothing in")):
        if many:
            click.echo(f"  {about}: {listing(map(visible, many), 'and')}")
    for line in done.says:
        click.echo(f"  {line}")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)([KMG]?)B?", text.strip().upper())
    if not match or int(match[1]) * _UNITS[match[2]] < 256 << 20:
        raise click.BadParameter("give bytes such as 3G or 800M, at least 256M", param_hint="--limit-memory")
    return int(match[1]) * _UNITS[match[2]]


def _handed(path: Path, course: Path | None, roster: Path | None, only: Sequence[str]) -> list[Submission]:
    """What was handed in, by the students that were asked for. Raises CourseError if one of them is not there."""
    from tcemu.course import manifest
    from tcemu.grade.intake import Roster
    from tcemu.grade.intake import submissions as read

    submissions = read(path, manifest(course), None if roster is None else Roster.read(roster))
    names = [each.student for each in submissions]
    for name in only:
        if name not in names:
            raise CourseError(f"{path} has nothing from {name}.{did_you_mean(name, names)}")
    return [each for each in submissions if not only or each.student in only]


def _tasks(
    handed: Sequence[Submission], course: Path | None, notebooks: Sequence[str], limits: Limits, trusted: bool, key: str
) -> list[Task]:
    """What to grade. Raises CourseError for a notebook without exercises."""
    from tcemu.grade.run import asked_of
    from tcemu.grade.work import Task, wanted_in

    folder = str(course.absolute()) if course else None
    asked = tuple(Path(name).stem for name in notebooks) or asked_of(handed, folder)
    for stem in asked:
        if not wanted_in(stem, folder):
            raise CourseError(f"the course has no exercise notebook {stem}.ipynb")
    return [Task(replace(each), asked, limits, trusted, folder, key) for each in handed]
