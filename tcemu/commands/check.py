"""tcemu check: all exercises of a folder, what is done, and what is next."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcemu.errors import CourseError
from tcemu.extras import require

if TYPE_CHECKING:
    from rich.console import Console

    from tcemu.course.running import Result

_SHOWN = {
    "right": ("[green]✓ right[/]", "right"), "wrong": ("[red]✗ not yet[/]", "not yet"),
    "failed": ("[red]! error[/]", "error"), "open": ("[dim]· open[/]", "open"),
}  # fmt: skip

#: Milliseconds after which files are looked at even if nothing was reported.
_WATCHED = 2000


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--watch", is_flag=True, help="Keep running, and check a notebook again whenever it is saved.")
@click.option("--as", "name", help="Your name, which gives your exercises their own numbers. It is remembered.")
@click.option(
    "--limit", type=click.FloatRange(1), default=60.0, show_default=True, help="Processor seconds for each notebook."
)
def check(folder: Path | None, watch: bool, name: str | None, limit: float) -> None:
    """Check the exercises in the notebooks of FOLDER, or in one notebook.

    Without FOLDER, it checks the course that the current folder belongs to. Each notebook runs in its own process, and
    only the cells that its checks need; exercises that you have not touched are not run. Solved exercises are recorded,
    as when you check in the notebook.

    The exit code is 0 if everything is solved, otherwise 1.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if name is not None:
        _call(_place(folder), name)
    books = notebooks(_place(folder))
    if not books:
        raise CourseError(f"there is no notebook with exercises in {_place(folder)}")
    stamps = _stamps(books)
    held = run(books, limit)
    show(console, held)
    if watch:
        watch_for_changes(console, held, limit, stamps)
    sys.exit(0 if all(result.state == "right" for results in held.values() for result in results) else 1)


def _place(folder: Path | None) -> Path:
    from tcemu.course import progress

    return folder or progress.folder() or Path()


def _call(place: Path, name: str) -> None:
    from tcemu.course import progress

    course = progress.folder(place if place.is_dir() else place.parent)
    if course is None:
        raise CourseError(f"{place} is not in a folder that `tcemu lab` laid out; set TCEMU_LEARNER={name} instead")
    progress.name_learner(course, name)


def notebooks(place: Path) -> list[Path]:
    """The notebooks with exercises, in the course's order: each notebook, then its exercises.

    What `tcemu lab` has put beside a learner's file (NAME.new.ipynb) does not count.
    """
    if place.is_file():
        return [place]
    folders = [place / name for name in ("notebooks", "exercises") if (place / name).is_dir()] or [place]
    paths = [path for folder in folders for path in folder.glob("*.ipynb") if not _beside(path)]
    paths.sort(key=lambda path: (path.name, [folder.name for folder in folders].index(path.parent.name)))
    return [path for path in paths if _has_checks(path)]


def _has_checks(path: Path) -> bool:
    """Whether a notebook has exercises; one that is damaged may have."""
    from tcemu.course.running import cells

    try:
        return any(cell.checks for cell in cells(path))
    except CourseError:
        return True  # the results say what is wrong with it


def _beside(path: Path) -> bool:
    """Whether it is hidden, or the course's version of a file that the learner has changed."""
    return path.name.startswith(".") or ".new" in Path(path.stem).suffix


def run(paths: Sequence[Path], limit: float) -> dict[Path, list[Result]]:
    """The results of each notebook; what is solved is written down."""
    from tcemu.course import START, progress
    from tcemu.course.overviews import write_first_page
    from tcemu.progress import Progress

    held: dict[Path, list[Result]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool, Progress("checking", len(paths), "notebooks") as shown:
        shown.show()
        for path, results in zip(paths, pool.map(lambda path: _results(path, limit), paths), strict=True):
            held[path] = results
            shown.show(len(held))
            course = progress.folder(path.parent)
            done = progress.read(course)["exercises"] if course else {}
            for result in results:
                if course and result.state == "right" and _is_news(done.get(result.name, {}), result):
                    progress.tried(course, result.name, right=True, scores=result.scores)
    for course in {progress.folder(path.parent) for path in paths} - {None}:
        if course and (course / START).is_file():
            write_first_page(course)
    return held


def _results(path: Path, limit: float) -> list[Result]:
    """The results of a notebook; one that is damaged does not keep the others from being checked."""
    from tcemu.course.running import Result, results_of
    from tcemu.course.untouched import untouched

    try:
        return results_of(path, limit, untouched(path))
    except CourseError as error:
        return [Result(path.stem, "failed", f"{error}.")]


def _is_news(before: Mapping[str, object], result: Result) -> bool:
    history = before.get("history")
    return not before.get("solved") or bool(result.scores and isinstance(history, list)
                                            and history[-1:] != [result.scores])  # fmt: skip


def show(console: Console, held: Mapping[Path, Sequence[Result]]) -> None:
    """A table of all exercises, and the next one in full."""
    from rich.table import Table

    from tcemu.course import exercises
    from tcemu.course.verdict import LEAST

    table = Table(box=None, pad_edge=False)
    for name in ("notebook", "exercise", "", "points", "minutes"):
        table.add_column(name, justify="right" if name in ("points", "minutes") else "left")
    for path, results in held.items():
        known = exercises(path.parent)
        for number, result in enumerate(results):
            row = known.get(result.name)
            points = f"{round(result.points, 2):g} of {row.points}" if row else ""
            state = _SHOWN[result.state][0]
            name = f"{path.parent.name}/{path.stem}" if number == 0 else ""
            table.add_row(name, result.name, state, points, str(row.minutes) if row else "")
    console.print(table)
    every = ((exercises(path.parent).get(result.name), result) for path, results in held.items() for result in results)
    if any(row and 0 < result.points < row.points and row.unseen("") for row, result in every):
        console.print(f"\nPoints for a part of an answer are yours so far. {LEAST}")
    _say_next(console, held)


def _say_next(console: Console, held: Mapping[Path, Sequence[Result]]) -> None:
    from tcemu.course.overviews import Count, tally

    every = [(path, result) for path, results in held.items() for result in results]
    kinds: dict[bool, list[bool]] = {True: [], False: []}
    for path, result in every:  # the notebooks of a course have tasks
        kinds[path.parent.name == "notebooks"].append(result.state == "right")
    counts = [Count(sum(kinds[kind]), len(kinds[kind])) for kind in (True, False)]
    console.print(f"\n{tally(*counts)}.")
    for path, result in every:
        if result.state != "right":
            console.print(f"Next: {result.name} in {path}", markup=False)
            for line in (result.says, result.mistake):
                if line:
                    console.print(f"  {line}", markup=False)
            return


def watch_for_changes(
    console: Console, held: dict[Path, list[Result]], limit: float, stamps: Mapping[Path, int]
) -> None:
    """Check what is saved, until the user interrupts; `stamps` are the times of the files that `held` is about."""
    require("course", "tcemu check --watch", "watchfiles")
    from watchfiles import watch

    folders = sorted({path.parent for path in held})
    console.print("\nWatching. Save a notebook to check it; press Ctrl+C to stop.", style="dim")
    # The timeout also finds what was saved while notebooks were being checked and the watch was off.
    with suppress(KeyboardInterrupt):
        for _ in watch(*folders, yield_on_timeout=True, rust_timeout=_WATCHED):
            now = _stamps(held)
            if saved := [path for path in now if now[path] != stamps.get(path)]:
                held |= run(saved, limit)
                console.clear()
                show(console, held)
            stamps = now


def _stamps(paths: Iterable[Path]) -> dict[Path, int]:
    """When each file was last changed, for those that are there."""
    stamps = {}
    for path in paths:
        with suppress(OSError):
            stamps[path] = path.stat().st_mtime_ns
    return stamps
