"""The files by which other places open the course: a dev container, Binder, GitHub's pages."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from places import ROOT


def test_the_dev_container_installs_the_tested_versions_and_opens_a_notebook():
    held = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert "install -c requirements.lock -e '.[course,cuda]'" in held["onCreateCommand"]
    assert all((ROOT / name).is_file() for name in held["customizations"]["codespaces"]["openFiles"])


def test_binder_installs_the_tested_versions():
    constraint, package = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert (ROOT / "binder" / constraint.removeprefix("-c ")).resolve() == ROOT / "requirements.lock"
    assert package == "-e .[course,cuda]", "pip looks for it from where it runs: the repository"
    assert (ROOT / "binder" / "postBuild").stat().st_mode & 0o111


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("jupyter-repo2docker"), reason="jupyter-repo2docker is not installed")
def test_binder_makes_an_image_of_it():
    asked = ["jupyter-repo2docker", "--no-build", "--debug", str(ROOT)]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in told.stdout + told.stderr


def test_the_pages_are_what_tcemu_lite_builds():
    held = yaml.safe_load((ROOT / ".github" / "workflows" / "pages.yml").read_text(encoding="utf-8"))
    steps = held["jobs"]["publish"]["steps"]
    run = next(step["run"] for step in steps if "run" in step)
    assert re.search(r"install -c requirements\.lock -e \"\.\[cuda,lite\]\"\n\s*\.venv/bin/tcemu lite site", run)
    assert any(step.get("with", {}).get("path") == "site" for step in steps)
