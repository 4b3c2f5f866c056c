"""Make the learners' exercises from the solutions. Requires nbgrader, whose notebook format they have.

From solutions/02_fragments.ipynb follow its own task cards, filled in from the rows, and exercises/02_fragments.ipynb,
without solutions and hidden tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

from tcemu.course.bank import exercises
from tcemu.course.cards import card
from tcemu.course.record import Exercise
from tcemu.course.solutions import BEGIN, END, IN_NOTEBOOK, cut
from tcemu.errors import CourseError
from tcemu.extras import require

Notebook = Any

#: What the cards and the verdicts speak of, and what a notebook that checks answers therefore imports.
SPOKEN_OF = ("check", "given", "hint")
_IMPORT = re.compile(r"^from tcemu\.course import (?=.*\bcheck\b)(?P<names>[\w, ]+)$", re.MULTILINE)
_PLAIN = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}


def released(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file that follows from the solutions in `folder`, with the text that it should have.

    `folder` has solutions/NN_topic.ipynb. Raises CourseError for a notebook that does not have the form.
    """
    known = exercises(folder)
    for path in sorted((folder / "solutions").glob("*.ipynb")):
        notebook = filled(_read(path), known)
        yield path, _text(notebook)
        learners = without_solutions(notebook)
        if any(_name(cell).endswith("-check") for cell in learners.cells):
            yield folder / "exercises" / path.name, _text(learners)


def filled(notebook: Notebook, known: Mapping[str, Exercise]) -> Notebook:
    """A copy with the card of each exercise, nbgrader's metadata, and no outputs. Raises CourseError."""
    new = deepcopy(notebook)
    title = new.metadata.get("title")
    new.metadata = _node({**_PLAIN, **({"title": title} if title else {})})
    checked = {_name(cell).removesuffix("-check") for cell in new.cells if _name(cell).endswith("-check")}
    for cell in new.cells:
        name, _, part = _name(cell).partition("-")
        tags = cell.metadata.get("tags", [])
        cell.metadata = _node({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            cell.source = _IMPORT.sub(_imported, cell.source)
        if name not in checked:
            continue
        if name not in known:
            raise CourseError(f"the solutions solve {name}, but there is no such exercise")
        if part == "task":
            cell.source = card(known[name])
        else:
            points = known[name].points if part == "check" else None
            cell.metadata.nbgrader = _node(_grading(_name(cell), points))
    return new


def without_solutions(notebook: Notebook) -> Notebook:
    """A copy for learners: without solutions, hidden tests and the cells of exercises that are in a notebook."""
    require("grade", "making exercises", "nbgrader")
    with catch_warnings():  # some of its dependencies warn when they are imported
        simplefilter("ignore")
        from nbgrader.preprocessors import CheckCellMetadata, ClearHiddenTests, ComputeChecksums, LockCells
    new = deepcopy(notebook)
    new.cells = [cell for cell in new.cells if IN_NOTEBOOK not in cell.metadata.get("tags", [])]
    for cell in new.cells:
        if BEGIN in cell.source:
            cell.source = cut(cell.source, _name(cell))
    for step in (ClearHiddenTests, CheckCellMetadata, LockCells, ComputeChecksums):
        new, _ = step().preprocess(new, {})
    return new


def added(path: Path, name: str) -> str:
    """A notebook of solutions with cells for one more exercise. Raises CourseError if it has them already."""
    import nbformat

    if not name.isidentifier():
        raise CourseError(f"the name of an exercise must be a legal name of a function; got {name!r}")
    new = _read(path) if path.exists() else nbformat.from_dict(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": _PLAIN, "cells": [
            _cell("title", "markdown", f"# {path.stem.replace('_', ' ').capitalize()}: exercises"),
            _cell("setup", "code", f"from tcemu.course import {', '.join(SPOKEN_OF)}"),
        ]}
    )  # fmt: skip
    if name in map(_name, new.cells):
        raise CourseError(f"{path} has the exercise {name} already")
    new.cells += [
        _node(_cell(f"{name}-task", "markdown", "`tcemu exercises save` writes the card of the exercise here.")),
        _node(_cell(name, "code", f"def {name}():\n    {BEGIN}\n    return ...\n    {END}")),
        _node(_cell(f"{name}-check", "code", f"check({name})")),
    ]
    return _text(new)


def _imported(line: re.Match[str]) -> str:
    """An import from tcemu.course with everything that is spoken of, before what else it imports."""
    names = dict.fromkeys((*SPOKEN_OF, *line["names"].replace(" ", "").split(",")))
    return f"from tcemu.course import {', '.join(names)}"


def _cell(name: str, kind: str, source: str) -> dict[str, Any]:
    cell = {"id": name, "cell_type": kind, "metadata": {}, "source": source}
    return {**cell, "outputs": [], "execution_count": None} if kind == "code" else cell


def _grading(name: str, points: int | None) -> Mapping[str, Any]:
    """nbgrader's metadata of a solution, or of a check that gives points."""
    grades = points is not None
    plain = {"grade": grades, "grade_id": name, "locked": grades, "schema_version": 3, "solution": not grades}
    return {**plain, "task": False, **({"points": points} if grades else {})}


def _name(cell: Any) -> str:
    return str(cell.get("id", ""))


def _node(value: Mapping[str, Any]) -> Any:
    import nbformat

    return nbformat.from_dict(value)


def _read(path: Path) -> Notebook:
    import nbformat

    return nbformat.read(path, as_version=4)


def _text(notebook: Notebook) -> str:
    import nbformat

    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"
