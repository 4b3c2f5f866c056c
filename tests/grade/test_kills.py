"""A run whose processes are killed at random moments: the same command resumes it, and gives the same bytes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attacks import FAIR, IN_THE_BOX, book
from boxed import needs_box
from handed import folder
from places import ROOT
from quick import spread, turn

from tcemu.grade.unseen import KEY

pytestmark = [needs_box, pytest.mark.slow]

#: Who is killed in turn: the grader, a worker below it, what grades a submission, a box. Every day another one.
DEPTHS = spread((0, 1, 2, 3), 4, turn(4))
#: Attacks whose marks do not depend on how fast the machine is.
FEW = [(attack, answer) for what, attack, answer, _ in IN_THE_BOX if what in ("an end without a word", "a crash in C")]


def below(process, depth):
    """A process so many steps below another one; the deepest there is if there are not so many."""
    for _ in range(depth):
        try:
            tasks = list(Path("/proc", str(process), "task").iterdir())
            children = [child for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            break
        if not children:
            break
        process = random.Random(depth).choice(children)
    return int(process)


def graded(out):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.glob("grades/*.json")}


def test_a_run_that_is_killed_again_and_again_loses_nothing(tmp_path):
    files = {f"honest {number}/02_fragments.ipynb": FAIR for number in range(4)}
    files |= {f"hostile {number}/02_fragments.ipynb": book(*each) for number, each in enumerate(FEW)}
    handed = folder(tmp_path / "handed", files)
    command = [sys.executable, "-m", "tcemu", "grade", str(handed), "--no-warm", "--no-nbgrader", "--jobs", "2"]
    options = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "stdout": subprocess.DEVNULL,
               "stderr": subprocess.DEVNULL}  # fmt: skip
    moments, one, two = random.Random(7), tmp_path / "one", tmp_path / "two"
    for depth in DEPTHS:
        before = graded(one)
        with subprocess.Popen([*command, "--out", str(one)], **options) as run:
            while graded(one) == before and run.poll() is None:  # it grades: the moment is after that
                time.sleep(0.02)
            time.sleep(moments.random())
            if run.poll() is None:
                os.kill(below(run.pid, depth), signal.SIGKILL)
                time.sleep(moments.random())
            run.kill()
        after = graded(one)
        assert {name: after[name] for name in before} == before
    kept = graded(one)
    two.mkdir()
    shutil.copy(one / KEY, two)  # another key draws other numbers, and names the files otherwise
    for place in (one, two):
        subprocess.run([*command, "--out", str(place)], check=True, timeout=1800, **options)
    assert {name: graded(one)[name] for name in kept} == kept
    assert {name: held for name, (_, held) in graded(one).items()} == {
        name: held for name, (_, held) in graded(two).items()
    }
    assert len(graded(one)) == len(files)
    for name in ("grades.csv", "report.html"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
