"""The solutions, from which the learners' exercises are made; they are in the repository, but not in the wheel.

    solutions/02_fragments.ipynb      for each exercise a task card, the solution between two marks, and its check
    solutions/wrong/fragments.py      WRONG: wrong answers by exercise, each with words of its diagnosis

The cells and their metadata are those of nbgrader.
"""

from __future__ import annotations

import json
import linecache
import runpy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcemu.cells import cuda_functions
from tcemu.course.checking import verdicts_of
from tcemu.course.record import Given
from tcemu.course.verdict import Verdict
from tcemu.errors import CourseError

#: The lines around a solution, as in nbgrader.
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
HIDDEN, HIDDEN_END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
#: The tag of exercises that belong to a notebook and are left out of exercises/.
IN_NOTEBOOK = "notebook"


@dataclass(frozen=True)
class Solution:
    """The solution of one exercise: sources of its cells, and of the cells that set the notebook up."""

    name: str
    path: Path
    setup: tuple[str, ...]
    code: str
    check: str
    tags: frozenset[str] = frozenset()
    #: Points of the check, in nbgrader's metadata; None where there are none yet.
    points: int | None = None

    @property
    def asked(self) -> str:
        """The check without its hidden tests."""
        return self.check.partition(HIDDEN)[0] + self.check.partition(HIDDEN_END)[2]

    @property
    def hidden(self) -> str:
        """The hidden tests in the check."""
        return self.check.partition(HIDDEN)[2].partition(HIDDEN_END)[0]

    @property
    def stub(self) -> str:
        """What the learner gets in place of the solution."""
        return cut(self.code, self.name)

    def verdict(self, code: str | None = None, seed: str = "") -> Verdict:
        """The verdict on the solution, or on other `code` in its place, for a variant."""
        namespace: dict[str, Any] = {"__name__": "__main__"}
        with chdir(self.path.parent), verdicts_of(seed) as verdicts:
            for number, source in enumerate((*self.setup, self.code if code is None else code, self.asked)):
                execute(source, f"{self.path}#{self.name}-{number}", namespace)
        answered = [verdict for verdict in verdicts if verdict.exercise.name == self.name]
        if len(answered) != 1:
            raise CourseError(f"{self.path}: {self.name} must be checked once, not {len(answered)} times")
        return answered[0]


def execute(source: str, file: str, namespace: dict[str, Any]) -> None:
    """Run source code so that errors and reports can quote its lines; of CUDA C++, functions are texts."""
    functions = cuda_functions(source)
    if functions is not None:
        namespace.update(functions)
        return
    source = "\n".join("" if line.startswith("%load_ext ") else line for line in source.split("\n"))
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), namespace)  # noqa: S102 - the course's own code


def cut(code: str, name: str) -> str:
    r"""The code of a cell without its solution.

    Three dots take its place: they are returned if the solution returns something, or assigned to the exercise's name
    if the solution is a value.

    >>> from tcemu.course.solutions import cut
    >>> print(cut("def half(n):\n    ### BEGIN SOLUTION\n    return n // 2\n    ### END SOLUTION", "half"))
    def half(n):
        return ...
    """
    before, mark, rest = code.partition(BEGIN)
    solution, end, after = rest.partition(END)
    if not (mark and end):
        raise CourseError(f"{name}: the solution must be between the lines {BEGIN} and {END}")
    lines = [line.strip() for line in solution.splitlines()]
    stub = "..."
    if cuda_functions(code) is not None:  # the marks are comments of C++, and so are the dots
        return f"{before}{stub}{after}"
    if any(line.startswith("return") for line in lines):
        stub = "return ..."
    elif any(line.startswith(f"{name} =") for line in lines):
        stub = f"{name} = ..."
    return f"{before}{stub}{after}"


def solutions(path: Path) -> Iterator[Solution]:
    """The solutions in a notebook, in order. Raises CourseError for one without its check."""
    cells = {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}
    code = {name: "".join(cell["source"]) for name, cell in cells.items() if cell["cell_type"] == "code"}
    checks = [name for name in code if name.endswith("-check")]
    parts = {*checks, *(name.removesuffix("-check") for name in checks)}
    setup = tuple(source for name, source in code.items() if name not in parts)
    for check in checks:
        name = check.removesuffix("-check")
        if name not in code:
            raise CourseError(f"{path}: there is no cell {name} before {check}")
        tags = frozenset(cells[name]["metadata"].get("tags", ()))
        points = cells[check]["metadata"].get("nbgrader", {}).get("points")
        yield Solution(name, path, setup, code[name], code[check], tags, points)


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that people give, and words that its diagnosis contains."""

    name: str
    answer: Any
    words: str

    def of(self, given: Given) -> Any:
        """The answer to a variant."""
        if isinstance(self.answer, tuple) and len(self.answer) == 2 and self.answer[0] == "given":
            return self.answer[1](given)
        return self.answer


def wrong_answers(folder: Path) -> Mapping[str, Sequence[Wrong]]:
    """The wrong answers in `folder`/wrong/*.py, by exercise. Raises CourseError if two files have the same exercise."""
    wrong: dict[str, Sequence[Wrong]] = {}
    for path in sorted((folder / "wrong").glob("*.py")):
        for name, answers in runpy.run_path(str(path))["WRONG"].items():
            if name in wrong:
                raise CourseError(f"{path}: another file has wrong answers of {name}")
            wrong[name] = [Wrong(name, answer, words) for answer, words in answers]
    return wrong


def taught(verdict: Verdict, words: str) -> bool:
    """Whether a verdict rejects an answer and says `words`."""
    return not verdict and words.lower() in f"{verdict.says} {verdict.mistake}".lower()
