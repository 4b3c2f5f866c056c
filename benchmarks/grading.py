"""What `tcemu grade` does under load: python benchmarks/grading.py [submissions [parts]].

Three parts, each with the figures of one run:

1. So many submissions (200 if not said otherwise) on all cores: solved, half solved and unsolved exercise notebooks of
   the course, with ten hostile ones among them. Every mark is compared with what it has to be.
2. A dask scheduler with three workers on loopback, one of which is killed half-way: nothing may be lost.
3. A thousand submissions through the scheduler with nothing to grade: what the scheduler itself costs.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tcemu.course.solutions import solutions
from tcemu.grade.records import Grade, Submission
from tcemu.grade.run import Local, Scheduled, run
from tcemu.grade.scales import resident
from tcemu.grade.work import Task, grade, wanted_in
from tcemu.kernels.host.threads import cores

BOOKS = sorted((Path(__file__).parents[1] / "solutions").glob("[0-9][0-9]_*.ipynb"))
#: Every how many exercises of a notebook a student has solved one; the others are as they were handed out.
KINDS = {"solved": 1, "half": 2, "unsolved": 0}
#: What comes before the first answer in hostile notebooks; it earns nothing, or what is honest after it.
ATTACKS = (
    "while True: pass",
    "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "[bytearray(1 << 24) for _ in iter(int, 1)]",
    "import os\nos._exit(0)",
    "import ctypes\nctypes.string_at(0)",
    "import os\nos.closerange(3, 100)",
    "import re\nre.match('(a*)*b', 'a' * 60)",
    "import os\nfor n in range(3, 20):\n    try: os.write(n, bytes(range(256)))\n    except OSError: pass",
    "import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "with open('/tmp/huge', 'wb') as file:\n    while True: file.write(bytes(1 << 20))",
)


@dataclass(frozen=True)
class Work:
    """A task, and the exercises that have to come out right."""

    task: Task
    right: frozenset[str]
    kind: str


def handed(number: int, path: Path, kind: str, attack: str = "") -> Work:
    """What one student hands in."""
    every = list(solutions(path))
    cells, right = list(every[0].setup), set()
    for index, each in enumerate(every):
        solved = bool(KINDS[kind]) and index % KINDS[kind] == 0
        code = each.code if solved else each.stub
        cells += [f"{attack}\n{code}" if attack and not index else code, each.asked]
        if solved and not (attack and not index):
            right.add(each.name)
    found: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "outputs": [], "execution_count": None, "source": one}
        for n, one in enumerate(cells)
    ]
    content = json.dumps({"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    student = f"student{number:04}"
    task = Task(Submission(student, student, {path.stem: content}), (path.stem,))
    return Work(task, frozenset(right), "hostile" if attack else kind)


def everybody(count: int) -> list[Work]:
    """A class; hostile students are spread over it."""
    kinds = list(KINDS)
    every = max(1, count // len(ATTACKS))
    made = []
    for number in range(count):
        attack = ATTACKS[number // every] if number % every == every // 2 and number // every < len(ATTACKS) else ""
        path = next(path for path in BOOKS if "02_" in path.name) if attack else BOOKS[number % len(BOOKS)]
        made.append(handed(number, path, "solved" if attack else kinds[number // len(BOOKS) % len(kinds)], attack))
    return made


def wrongly(work: Work, found: Grade) -> list[str]:
    """The exercises that came to another state than they have to; in a hostile notebook, the first may be anything."""
    asked = list(wanted_in(work.task.asked[0]))[work.kind == "hostile" :]
    right = {mark.exercise for mark in found.marks if mark.state == "right"}
    return [name for name in asked if (name in right) is not (name in work.right)]


@contextmanager
def weighed() -> Iterator[list[int]]:
    """The most memory that this process and all below it held, in bytes, looked at twice a second."""
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            most[0] = max(most[0], resident(os.getpid()))

    looking = threading.Thread(target=look)
    looking.start()
    yield most
    ended.set()
    looking.join()


def told(name: str, works: list[Work], grades: list[Grade], seconds: float) -> None:
    """Print what came out."""
    wrong = {grade.student: bad for work, grade in zip(works, grades, strict=True) if (bad := wrongly(work, grade))}
    print(f"{name}: {len(grades)} submissions in {seconds:.1f} s, {seconds / len(grades):.2f} s each; "
          f"{len(grades) - len(wrong)} graded as they have to be, {len(wrong)} not")  # fmt: skip
    for student, names in wrong.items():
        found = next(grade for grade in grades if grade.student == student)
        says = [(mark.exercise, mark.state, mark.says[:200]) for mark in found.marks if mark.exercise in names]
        print(f"    {student} {found.state}: {says}")
    kinds = Counter(work.kind for work in works)
    for kind in kinds:
        each = sorted(grade.seconds for work, grade in zip(works, grades, strict=True) if work.kind == kind)
        print(f"    {kind:9} {len(each):4} submissions, median {each[len(each) // 2]:.2f} s, longest {each[-1]:.2f} s")


def locally(count: int) -> None:
    """Part 1."""
    works = everybody(count)
    with TemporaryDirectory() as out, weighed() as most:
        begun = time.monotonic()
        grades = run([work.task for work in works], Path(out), Local(cores()))
        told(f"{cores()} cores", works, grades, time.monotonic() - begun)
    print(f"    memory of all processes at most {most[0] >> 20:,} MB", flush=True)


@contextmanager
def cluster() -> Iterator[Any]:
    """A scheduler and three workers on loopback."""
    import distributed

    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    started: Any = distributed.LocalCluster
    with started(**options) as made:
        yield made


def with_a_death(count: int) -> None:
    """Part 2."""
    works = everybody(count)
    with TemporaryDirectory() as out, cluster() as made:
        victim = next(iter(made.workers.values())).pid
        killed: list[int] = []

        def half_way(done: int, of: int) -> None:
            if done >= of // 2 and not killed:
                killed.append(victim)
                os.kill(victim, signal.SIGKILL)

        begun = time.monotonic()
        grades = run([work.task for work in works], Path(out), Scheduled(made.scheduler_address), progress=half_way)
        told(f"dask, 3 workers, {len(killed)} killed", works, grades, time.monotonic() - begun)


def nothing(text: str, warm: bool) -> tuple[float, str]:
    """Grade a task without looking at it."""
    return 0.0, grade(Task.of_json(text)).to_json()


def scheduled(count: int = 1000) -> None:
    """Part 3."""
    tasks = [Task(Submission(f"student{number:04}", f"{number}"), ("02_fragments",)) for number in range(count)]
    with TemporaryDirectory() as out, cluster() as made:
        begun = time.monotonic()
        grades = run(tasks, Path(out), Scheduled(made.scheduler_address, work=nothing))
        seconds = time.monotonic() - begun
    print(f"the scheduler alone: {len({grade.student for grade in grades})} submissions in {seconds:.1f} s, "
          f"{1000 * seconds / count:.1f} ms each", flush=True)  # fmt: skip


def main() -> None:
    """Run the three parts."""
    parts: dict[str, Callable[[], None]] = {
        "1": lambda: locally(count), "2": lambda: with_a_death(max(6, count // 5)), "3": scheduled,
    }  # fmt: skip
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("submissions", type=int, nargs="?", default=200, help="of the first part; 200 if not given")
    options.add_argument("parts", nargs="*", help="1, 2 or 3; all if none")  # choices= would refuse none
    told = options.parse_args()
    if unknown := [name for name in told.parts if name not in parts]:
        options.error(f"there is no part {unknown[0]}; the parts are 1, 2 and 3")
    count = told.submissions
    for name in told.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
