"""The static checks are tests, so that one command runs everything and none of them is forgotten."""

import os
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from places import ROOT

SCRIPTS = str(Path(sys.executable).parent)

CHECKS = {
    "ruff": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "encodings": ["ruff", "check", "--preview", "--select", "PLW1514", "."],  # Windows has its own
    "mypy": ["mypy"],
    "import order": ["lint-imports", "--no-logo"],
    "spelling": ["codespell"],
}


@pytest.mark.slow  # CONTRIBUTING has them on a line of their own
@pytest.mark.parametrize("check", CHECKS)
def test_static_check_passes(check):
    program, *arguments = CHECKS[check]
    found = shutil.which(program, path=SCRIPTS)
    assert found, f"{program} is not installed beside {sys.executable}; install the extra: pip install -e '.[test]'"
    done = subprocess.run(
        [found, *arguments], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, check=False
    )
    assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_modules_import_each_other_only_for_types():
    graph = grimp.build_graph("tcemu", exclude_type_checking_imports=True, cache_dir=None)
    TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()
