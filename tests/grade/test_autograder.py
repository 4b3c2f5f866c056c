"""Gradescope's autograder: the archive's own scripts run in folders as Gradescope documents them."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from boxed import CHECK, HONEST, needs_box
from click.testing import CliRunner
from handed import notebook

from tcemu.cli import commands
from tcemu.course import exercise

#: As Gradescope documents it, with a part of what it has.
METADATA = {"id": 1, "created_at": "2026-10-13T10:00:00.365935-07:00", "previous_submissions": [],
            "users": [{"email": "ada@example.edu", "id": 1234, "name": "Ada Byron"}]}  # fmt: skip


@pytest.fixture(scope="module")
def autograder(tmp_path_factory):
    """The archive, made by the command, with a roster and one notebook."""
    place = tmp_path_factory.mktemp("autograder")
    (place / "roster.csv").write_text("handed_in,learner\nada@example.edu,ada\n")
    options = ["--roster", str(place / "roster.csv"), "--notebook", "02_fragments", "--limit-cell", "8"]
    done = CliRunner().invoke(commands, ["grade", "--gradescope", str(place / "autograder.zip"), *options])
    assert done.exit_code == 0, done
    return place / "autograder.zip"


def extracted(autograder, root, content, name="02_fragments.ipynb", metadata=METADATA):
    """The folders that Gradescope makes: source, submission, results, and the script beside them."""
    with zipfile.ZipFile(autograder) as archive:
        archive.extractall(root / "source")
    shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
    (root / "run_autograder").chmod(0o755)  # Python's zipfile forgets modes
    (root / "submission").mkdir()
    (root / "submission" / name).write_bytes(content)
    (root / "results").mkdir()
    (root / "submission_metadata.json").write_text(json.dumps(metadata))
    (root / "python" / "bin").mkdir(parents=True)  # setup.sh makes an environment there
    (root / "python" / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (root / "python" / "bin" / "python").chmod(0o755)
    return root


def graded(root, **environment):
    """Run the script, as Gradescope does; what it printed, and the results if there are any."""
    done = subprocess.run(
        [root / "run_autograder"], cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    results = root / "results" / "results.json"
    return done, json.loads(results.read_text()) if results.exists() else None


def test_the_archive_has_both_scripts_at_its_root_and_no_solutions(autograder):
    with zipfile.ZipFile(autograder) as archive:
        names = archive.namelist()
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in names}
        requirements = archive.read("requirements.txt").decode().splitlines()
    assert {"setup.sh", "run_autograder", "package/tcemu/__init__.py", "private/course.key"} < {*names}
    assert modes["run_autograder"] & modes["setup.sh"] & 0o111
    assert not modes["private/course.key"] & 0o077
    assert not [name for name in names if "solutions/" in name or "__pycache__" in name]
    assert len(names) == len({*names})
    needed = {line.partition("=")[0].lower() for line in requirements}
    assert {"numpy", "numba", "jinja2", "pyyaml"} <= needed
    assert not {"nbgrader", "jupyterlab", "distributed"} & needed
    for script in ("setup.sh", "run_autograder"):
        with zipfile.ZipFile(autograder) as archive:
            checked = subprocess.run(["bash", "-n"], input=archive.read(script), check=False)
        assert checked.returncode == 0


@needs_box
@pytest.mark.slow
def test_the_scripts_grade_as_gradescope_runs_them(autograder, tmp_path):
    done, results = graded(extracted(autograder, tmp_path, notebook(HONEST, CHECK), "my work (2).ipynb"))
    assert results is not None, done
    found = {test["name"]: test for test in results["tests"]}
    row = exercise("where_of_b")
    mark = found[f"02_fragments: {row.title}"]
    assert (mark["score"], mark["max_score"], mark["status"]) == (row.points, row.points, "passed")
    assert results["score"] == row.points
    assert results["extra_data"]["student"] == "ada"
    assert "roster" not in results["output"]


HOSTILE = """
import os, pathlib
told = []
for place in (%r, %r):
    try:
        told.append(pathlib.Path(place).read_text())
    except OSError as error:
        told.append(type(error).__name__)
raise RuntimeError(f"{os.getuid()} {told}")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_a_box_the_notebook_runs_as_another_user_without_the_key(autograder, tmp_path):
    if not _reachable(Path(sys.base_prefix), Path(sysconfig.get_path("purelib"))):
        pytest.skip("another user cannot reach this Python")
    root = tmp_path / "autograder"
    for place in (root, *root.parents[:3]):
        place.mkdir(exist_ok=True)
        place.chmod(0o755)
    hostile = HOSTILE % (str(root / "source/private/course.key"), str(root / "results/results.json"))
    spoilt = f"{hostile}\ndef where_of_b(row, column):\n    return 0, 0\ncheck(where_of_b)"
    content = notebook("from tcemu.course import check", spoilt)
    done, results = graded(extracted(autograder, root, content), PATH=_without_bubblewrap(tmp_path))
    assert "There is no box here" in done.stdout, done
    assert results is not None, done
    told = next(test["output"] for test in results["tests"] if exercise("where_of_b").title in test["name"])
    assert "60999 ['PermissionError', 'PermissionError']" in told


def _reachable(*places):
    return all(each.stat().st_mode & 0o001 for place in places for each in (place, *place.parents))


def _without_bubblewrap(place):
    (place / "bin").mkdir()
    for name in ("bash", "sh", "dirname", "env"):
        (place / "bin" / name).symlink_to(shutil.which(name))
    return str(place / "bin")


@pytest.mark.slow
def test_what_cannot_be_graded_has_no_results_and_is_no_zero(autograder, tmp_path):
    nobody = METADATA | {"users": []}
    done, results = graded(extracted(autograder, tmp_path, notebook(HONEST), metadata=nobody))
    assert (done.returncode, results) == (1, None)
    assert "names no student" in done.stderr


def test_the_command_says_what_grading_needs(tmp_path):
    done = CliRunner().invoke(commands, ["grade", str(tmp_path)])
    assert "grading needs SUBMISSIONS and --out" in done.output
