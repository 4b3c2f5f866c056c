"""What the repository promises its reader: the README's lines, its links, one list of packages."""

import doctest
import os
import re
import tomllib

import front_pictures
import pytest
from places import ROOT

import tcemu

TEXTS = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md", "docs/gpu.md",
    "docs/cuda.md", "docs/doors.md", "docs/card.md", "docs/compared.md", "exercises/README.md", "exercises/WRITING.md",
    "classroom/README.md", "classroom/kubernetes/README.md", "tests/README.md", "tests/golden/README.md",
]  # fmt: skip
#: What a visitor reads must stay short: lines at most.
SHORT = {"README.md": 150, "CHANGELOG.md": 120}


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_continuous_integration_runs_the_readmes_test_lines_and_nothing_else():
    commands = [line for line in text(".ci/run").splitlines() if line and not line.startswith("#")]
    assert commands[:2] == ["set -euo pipefail", 'cd "$(dirname "$0")/.."']
    debian, line = commands[2:]
    assert f"\n    {debian}\n" in text("README.md")
    assert f"\n    {line}\n" in text("README.md")
    assert line.endswith("-m pytest -n auto")


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps no executable bit")
def test_the_continuous_integration_script_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name):
    targets = re.findall(r"\]\(([^)#\s]+)[)#]", text(name)) + re.findall(r'src="([^"]+)"', text(name))
    here = (ROOT / name).parent
    assert [target for target in targets if "://" not in target and not (here / target).exists()] == []


@pytest.mark.parametrize("name", SHORT)
def test_what_a_visitor_reads_is_short(name):
    assert text(name).count("\n") <= SHORT[name]


def test_the_workflow_runs_the_script_on_every_python():
    workflow = text(".github/workflows/ci.yml")
    classifiers = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text("pyproject.toml"))
    assert "run: .ci/run" in workflow
    assert re.findall(r'"(3\.\d+)"', workflow) == classifiers


def test_the_pictures_of_the_readme_are_drawn_by_the_package(tmp_path):
    front_pictures.write(tmp_path)
    for drawn in tmp_path.iterdir():
        assert drawn.read_bytes() == (ROOT / "docs" / drawn.name).read_bytes(), "run tools/front_pictures.py"


def test_the_changelog_knows_this_version():
    assert re.search(rf"^## \[{re.escape(tcemu.__version__)}\]", text("CHANGELOG.md"), re.MULTILINE)


def test_the_readmes_example_is_true():
    sessions = re.findall(r"^```python\n(.*?)^```$", text("README.md"), re.MULTILINE | re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, "README.md", "README.md", 0)
    outcome = doctest.DocTestRunner().run(example)
    assert outcome.attempted > 5
    assert outcome.failed == 0


def test_the_plan_of_the_house_names_every_room():
    plan = text("CONTRIBUTING.md").split("## The house", 1)[1].split("\n## ", 1)[0]
    paths = (ROOT / "tcemu").iterdir()
    rooms = {path.stem for path in paths if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {room for room in rooms if not re.search(rf"^    +{room}(/|\.py)? ", plan, re.MULTILINE)} == set()


def test_the_plan_orders_the_rooms_as_the_linter_does():
    chain = re.search(r"^    (\{tracebacks.*?< cli)$", text("CONTRIBUTING.md"), re.MULTILINE | re.DOTALL)[1]
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "rooms"]
    upwards = [set(re.findall(r"\w+", layer)) for layer in reversed(layers)]
    assert [set(re.findall(r"\w+", level)) for level in chain.split("<")] == upwards[:-1]  # __main__ is the last
