"""An error in a notebook shows the learner's lines with their source, and none of the package's."""

import json
import re
import subprocess
import sys
from functools import cache

import pytest

from tcemu import tracebacks
from tcemu.gemm import split_k

#: Cells, the last of which ends in an error.
OPCODE = ("import tcemu\n\ntcemu.parse('mma.sync.aligned.m16n8k17.row.col.f32.f16.f16.f32')",)
RACE = (
    "import numpy as np\nimport tcemu\nout = np.zeros(64, np.uint32)",
    """def reverse(warp, out):
    t = warp.threads
    warp.st_shared(4 * t, t)
    warp.st_global(out.at(t), warp.ld_shared(4 * (63 - t)))""",
    "tcemu.launch(\n    reverse, block=64, args=(out,), shared=256\n)",
)

SESSION = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors=sys.argv[2])
shell._showtraceback = lambda kind, value, lines: print("\\n".join(lines))
for cell in json.loads(sys.argv[1]):
    shell.run_cell(cell, store_history=True)
"""


def ran(cells, colors="nocolor"):
    """A separate IPython in which the cells have run."""
    command = [sys.executable, "-c", SESSION, json.dumps(cells), colors]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)


@cache
def told(cells, colors="nocolor"):
    """What the cells print."""
    return ran(cells, colors).stdout


def errors_of(cells):
    """What the cells print to stderr, such as warnings."""
    return ran(cells).stderr


def test_an_error_is_the_learners_line_and_the_message():
    lines = told(OPCODE).splitlines()
    assert lines[:4] == [
        "IllegalInstruction",
        "Cell In[1], line 3",
        "---->   3 tcemu.parse('mma.sync.aligned.m16n8k17.row.col.f32.f16.f16.f32')",
        "",
    ]
    assert "Did you mean 'm16n8k16'?" in lines
    assert max(map(len, lines)) <= 100


@pytest.mark.slow
def test_a_race_is_told_by_the_lines_of_the_kernel():
    text = told(RACE)
    assert text.splitlines()[:13] == [
        "UndefinedBehaviour",
        "Cell In[3], line 1",
        "---->   1 tcemu.launch(",
        "---->   2     reverse, block=64, args=(out,), shared=256",
        "---->   3 )",
        "Cell In[2], line 4, in reverse",
        "        3     warp.st_shared(4 * t, t)",
        "---->   4     warp.st_global(out.at(t), warp.ld_shared(4 * (63 - t)))",
        "Cell In[2], line 3, in reverse: it conflicts with this",
        "        2     t = warp.threads",
        "---->   3     warp.st_shared(4 * t, t)",
        "",
        "error shared-race: a race in shared memory between warps",
    ]
    assert "  at Cell In[2], line 4 in reverse" in text
    assert "  conflicts with: st.shared.b32 of warp 1 at Cell In[2], line 3" in text
    assert "  fix: " in text
    assert len(text.splitlines()) < 30


@pytest.mark.slow
@pytest.mark.parametrize("cells", [RACE, OPCODE], ids=["race", "opcode"])
def test_nothing_of_the_package_or_of_the_machine_is_shown(cells):
    text = told(cells)
    assert not re.search(r"ipykernel|ipython-input|site-packages|/tmp/|tcemu/|\.py", text), text


def test_frames_of_what_runs_a_cell_are_none_of_the_learners_wherever_it_is_installed():
    source = compile("call()", "/elsewhere/IPython/core/interactiveshell.py", "eval")
    with pytest.raises(ZeroDivisionError) as raised:
        eval(source, {"__name__": "IPython.core.interactiveshell", "call": lambda: 1 / 0})  # noqa: S307 - as IPython
    assert [line.file for line in tracebacks.learners(raised.value)] == [__file__, __file__]


def test_a_line_of_the_package_is_the_same_wherever_it_is_installed():
    assert tracebacks.place(split_k.__file__, 7) == "tcemu/gemm/split_k.py:7"
    assert tracebacks.place("/elsewhere/kernel.py", 7) == "/elsewhere/kernel.py:7"


@pytest.mark.slow
def test_a_warning_names_the_cell():
    warning = (*RACE[:2], RACE[2].replace("shared=256", "shared=256, sanitizer='warn'"))
    lines = errors_of(warning).splitlines()
    assert lines[0].startswith("Cell In[2]:4: SanitizerWarning: error shared-race")


@pytest.mark.slow
def test_colours_can_be_switched_off():
    plain, coloured = told(OPCODE), told(OPCODE, "linux")
    assert "\x1b[" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain != coloured


@pytest.mark.slow
def test_every_frame_is_there_for_those_who_ask():
    text = told(("%xmode Verbose", *OPCODE))
    assert "tcemu/instructions/parse.py" in text
    assert "Traceback (most recent call last)" in text


def test_notes_and_causes_are_told():
    raising = "raise error from ValueError('why')"
    error = ("import tcemu", f"error = tcemu.TcemuError('No. Never.')\nerror.add_note('A note.')\n{raising}")
    assert told(error).splitlines() == [
        "TcemuError",
        "Cell In[2], line 3",
        "        2 error.add_note('A note.')",
        f"---->   3 {raising}",
        "",
        "No.",
        "Never.",
        "Because of ValueError: why",
        "A note.",
    ]


def test_outside_a_notebook_python_shows_what_it_always_shows():
    done = subprocess.run([sys.executable, "-c", OPCODE[0]], capture_output=True, text=True, check=False, timeout=1800)
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "tcemu.errors.IllegalInstruction: mma.sync" in done.stderr
