"""The worked examples of CONTRIBUTING.md: a diff is applied to a copy of the package, then its session must hold."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

import tcemu

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## How to add (.*?)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))

#: Runs the sessions of a file and prints how many questions were asked, or what differed.
PROBE = """
import doctest, sys, tcemu
parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
runner.run(parser.get_doctest(sys.stdin.read(), {}, "CONTRIBUTING.md", "CONTRIBUTING.md", 0))
print(tcemu.__file__, runner.tries, runner.failures)
"""


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def apply(diff, root):
    """Apply a unified diff without line numbers: each hunk's old lines must stand in the file exactly once."""
    for path, body in re.findall(r"^--- (\S+)\n\+\+\+ \1\n(.*?)(?=^--- |\Z)", diff, re.MULTILINE | re.DOTALL):
        text = (root / path).read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*\n", body, flags=re.MULTILINE)[1:]:
            lines = hunk.splitlines()
            old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
            new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
            assert text.count(old) == 1, f"these lines of the guide stand {text.count(old)} times in {path}:\n{old}"
            text = text.replace(old, new)
        (root / path).write_text(text, encoding="utf-8")


def ask(session, root):
    """Run an interactive session with the package in `root`; return where it was, the questions and the failures."""
    environment = {**os.environ, "PYTHONPATH": str(root), "TCEMU_KERNELS": "reference"}
    command = [sys.executable, "-P", "-c", PROBE]
    done = subprocess.run(command, input=session, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *differences, last = done.stdout.splitlines()
    where, tries, failures = last.rsplit(" ", 2)
    return Path(where), int(tries), int(failures), "\n".join(differences)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(Path(tcemu.__file__).parent, tmp_path / "tcemu", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_there_is_an_example_for_each_table():
    assert set(EXAMPLES) == {"a format", "an instruction", "an architecture"}


@pytest.mark.parametrize("subject", EXAMPLES)
def test_the_example_works(subject, copy):
    (diff,), (session,) = blocks(EXAMPLES[subject], "diff"), blocks(EXAMPLES[subject], "python")
    apply(diff, copy)
    where, tries, failures, differences = ask(session, copy)
    assert where.is_relative_to(copy), "the session used another tcemu than the changed copy"
    assert tries > 1
    assert not failures, differences


@pytest.mark.parametrize("subject", EXAMPLES)
def test_without_its_change_the_example_fails(subject, copy):
    (session,) = blocks(EXAMPLES[subject], "python")
    assert ask(session, copy)[2]
