"""GitHub's workflow: its own commands, except for those that install, run on a learner's repository."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from boxed import CHECK, HONEST, needs_box
from handed import notebook
from places import ROOT

WORKFLOW = yaml.safe_load((ROOT / "classroom" / "github" / "autograding.yml").read_text())


def test_github_classroom_finds_its_names():
    """Its reporter's README: the workflow's name and its only job's must be these."""
    assert WORKFLOW["name"] == "Autograding Tests"
    assert [*WORKFLOW["jobs"]] == ["run-autograding-tests"]


@needs_box
@pytest.mark.slow
def test_the_commands_grade_and_report_the_points(tmp_path):
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "02_fragments.ipynb").write_bytes(notebook(HONEST, CHECK))
    (job,) = WORKFLOW["jobs"].values()
    # Without kernels there is nothing to compile first: these are compiled, and used, by other tests.
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LEARNER": "ada", "HOME": str(tmp_path)}
    environment["TCEMU_KERNELS"] = "reference"
    commands = [step["run"] for step in job["steps"] if step.get("name") in ("Grade", "Report the points")]
    told = ""
    for command in commands:
        done = subprocess.run(
            ["bash", "-e"], input=command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done
        told += done.stdout
    assert "::notice title=Autograding complete::Points 1.0/" in told
    assert '::notice title=Autograding report::{"totalPoints": 1.0, "maxPoints": ' in told
