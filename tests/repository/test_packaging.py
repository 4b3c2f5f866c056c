"""What is built and what is locked: the wheel carries the course, the lock covers the dependencies on every Python."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from places import ROOT

import tcemu
from tcemu.course import files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PYTHONS = ["3.11", "3.12", "3.13"]

# The wheel ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the built wheel, opened."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.iterdir()
    assert path.name == f"tcemu-{tcemu.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as opened:
        yield opened


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_the_course_and_nothing_else(wheel):
    names = {name for name in wheel.namelist() if not name.startswith(f"tcemu-{tcemu.__version__}.dist-info/")}
    course = {f"tcemu/course/material/{name}" for name in files(ROOT)}
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tcemu").rglob("*") if path.is_file()}
    assert names == course | {name for name in code if "__pycache__" not in name}
    assert "tcemu/py.typed" in names


def test_no_solution_travels(wheel):
    solutions = {path.name for path in (ROOT / "solutions").rglob("*.*")}
    assert solutions
    assert not [name for name in wheel.namelist() if "/solutions/" in name or "/wrong/" in name]
    for name in wheel.namelist():
        if name.startswith("tcemu/course/material/") and name.endswith(".ipynb"):
            assert b"BEGIN SOLUTION" not in wheel.read(name), name


def test_the_wheel_says_what_it_is(wheel):
    told = Parser().parsestr(wheel.read(f"tcemu-{tcemu.__version__}.dist-info/METADATA").decode())
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("tcemu", tcemu.__version__, "MIT")
    accepted = SpecifierSet(told["Requires-Python"])
    assert [f"3.{minor}" for minor in range(20) if f"3.{minor}.0" in accepted] == PYTHONS
    extras = {"test", "book", "classroom", "course", "cuda", "gpu", "grade", "lite", "peers"}
    assert set(told.get_all("Provides-Extra")) == extras


@pytest.mark.slow
def test_the_course_is_laid_out_from_the_wheel(wheel, tmp_path):
    installed, folder = tmp_path / "installed", tmp_path / "mine"
    wheel.extractall(installed)
    folder.mkdir()
    where = "import tcemu; print(tcemu.__file__); from tcemu.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", where, "lab", "--lay-out-only"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.splitlines()[0]).is_relative_to(installed), "the test ran another tcemu than the wheel's"
    assert {name: (folder / name).read_bytes() for name in files(folder)} == {
        name: (ROOT / name).read_bytes() for name in files(ROOT)
    }


# The lock -------------------------------------------------------------------------------------------------------------


def locked(python, platform="linux"):
    """Return the versions that the lock gives on this Python and platform."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    environment |= {"sys_platform": platform, "extra": ""}
    lines = [Requirement(line) for line in LOCK.splitlines() if line and not line.startswith("#")]
    here = [line for line in lines if line.marker is None or line.marker.evaluate(environment)]
    versions = {line.name: str(line.specifier).removeprefix("==") for line in here}
    assert len(versions) == len(here), "a name is locked twice"
    return versions


def wanted(python):
    """Return the requirements of pyproject.toml on this Python, with all extras."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    asked = PROJECT["dependencies"] + [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    lines = [Requirement(line) for line in asked]
    return [line for line in lines if line.marker is None or line.marker.evaluate(environment)]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_covers_every_dependency(python):
    versions = locked(python)
    wrong = [
        f"{line} but {versions.get(line.name.replace('_', '-').lower(), 'nothing')} is locked"
        for line in wanted(python)
        if versions.get(line.name.replace("_", "-").lower(), "0") not in line.specifier
    ]
    assert not wrong, f"pyproject.toml and requirements.lock differ on Python {python}: {wrong}; see CONTRIBUTING.md"


def test_the_lock_has_exact_versions_and_names_no_host():
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    pinned = re.compile(r"[a-z0-9.-]+==[0-9][0-9a-z.+]*( ; .+)?")
    assert [line for line in lines if not pinned.fullmatch(line)] == []
    assert "//" not in LOCK
    assert "index" not in LOCK
