"""The worked examples of CONTRIBUTING.md: a diff is applied to a copy of the package, then its session must hold."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from places import ROOT

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## How to add (.*?)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
EXAMPLES = {subject: text for subject, text in SECTIONS.items() if "```diff" in text}

#: Runs sessions and prints where the package is, and for each how many questions were asked and failed, and how.
PROBE = """
import contextlib, doctest, io, json, sys, tcemu
asked = []
for text in json.load(sys.stdin):
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runner.run(parser.get_doctest(text, {}, "CONTRIBUTING.md", "CONTRIBUTING.md", 0))
    asked.append((runner.tries, runner.failures, said.getvalue()))
print(json.dumps([tcemu.__file__, asked]))
"""


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def apply(diff, root):
    """Apply a unified diff without line numbers: each hunk's old lines must occur in the file exactly once."""
    for path, body in re.findall(r"^--- (\S+)\n\+\+\+ \1\n(.*?)(?=^--- |\Z)", diff, re.MULTILINE | re.DOTALL):
        text = (root / path).read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*\n", body, flags=re.MULTILINE)[1:]:
            lines = hunk.splitlines()
            old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
            new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
            assert text.count(old) == 1, f"these lines of the guide stand {text.count(old)} times in {path}:\n{old}"
            text = text.replace(old, new)
        (root / path).write_text(text, encoding="utf-8")


@cache
def ask(root):
    """Run the sessions of the guide with the package in `root`: where it was; questions, failures and what was said."""
    environment = {**os.environ, "PYTHONPATH": str(root), "TCEMU_KERNELS": "reference"}
    sessions = json.dumps([blocks(text, "python")[0] for text in EXAMPLES.values()])
    command = [sys.executable, "-P", "-c", PROBE]
    done = subprocess.run(command, input=sessions, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    where, asked = json.loads(done.stdout)
    return Path(where), dict(zip(EXAMPLES, asked, strict=True))


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A copy of the repository with all the changes of the guide, in which its commands were run too."""
    root = tmp_path_factory.mktemp("changed")
    for name in ("tcemu", "tests", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    for text in EXAMPLES.values():
        (diff,) = blocks(text, "diff")
        apply(diff, root)
    for command in re.findall(r"^    \.venv/bin/python (tools/\S+)$", "".join(EXAMPLES.values()), re.MULTILINE):
        run([command], root)
    return root


def run(arguments, root):
    """Python with the package in `root`; no assembler is at hand there, so that every machine does the same."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PATH": "", "TCEMU_KERNELS": ""}
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_there_is_an_example_for_each_table():
    assert set(EXAMPLES) == {"a format", "an instruction", "an architecture"}


@pytest.mark.slow
@pytest.mark.parametrize("subject", EXAMPLES)
def test_the_example_works(subject, changed):
    where, asked = ask(changed)
    tries, failures, said = asked[subject]
    assert where.is_relative_to(changed), "the session used another tcemu than the changed copy"
    assert tries > 1
    assert not failures, said


@pytest.mark.parametrize("subject", EXAMPLES)
def test_without_its_change_the_example_fails(subject):
    _, asked = ask(ROOT)
    assert asked[subject][1]


#: The tests that the new rows have without a test of their own.
FILES = ["tests/instructions/test_legality.py", "tests/instructions/test_evidence.py", "tests/formats"]
#: Of these, those of the new format, and the files about instructions.
CHOICE = ["-k", "e3m4 or legality or evidence"]


@pytest.mark.slow
def test_the_tests_pass_with_the_changes(changed):
    done = run(["-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *CHOICE, *FILES], changed)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


def test_a_row_that_nobody_asked_about_is_noticed(changed):
    """Without its command the guide is not complete."""
    verdicts = (changed / "tests/golden/ptxas.txt").read_text(encoding="utf-8")
    assert "nobody has asked" in verdicts
    assert verdicts != (ROOT / "tests/golden/ptxas.txt").read_text(encoding="utf-8")
