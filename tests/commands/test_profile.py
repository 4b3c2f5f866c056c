"""tcemu profile: its output and files, and its errors for scripts that it cannot profile."""

import json

import pytest
from click.testing import CliRunner

from tcemu.cli import commands
from tcemu.commands.profile import profile
from tcemu.errors import TcemuError

FILE = """
import numpy as np
import tcemu
from tcemu.gemm import mma_pipeline, split_k

from beside import SIZE


def racing(warp):
    warp.st_shared(4 * warp.threads, warp.threads)
    warp.ld_shared(4 * (63 - warp.threads))


def outside(warp):
    warp.ld_shared(4096 + 4 * warp.threads)


def run(stages=3):
    a = np.ones((64, SIZE), np.float16)
    mma_pipeline.multiply(a, a.T.copy(), stages)


def twice():
    a = np.ones((64, 64), np.float16)
    split_k.multiply(a, a, 2)


def race():
    tcemu.launch(racing, block=64, shared=256)


def fault():
    tcemu.launch(outside, block=32, shared=256)


def nothing():
    pass


number = 3
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "beside.py").write_text("SIZE = 128\n")
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    return path


def profiled(file, name, *more):
    return CliRunner().invoke(commands, ["profile", f"{file}:{name}", *map(str, more)])


def test_a_launch_in_numbers(file):
    done = profiled(file, "run")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("kernel: ")
    assert lines[0].endswith(" cycles")
    assert [line for line in lines if line and not line.startswith(" ")][1:] == [
        "Summary",
        "Hot lines: cycles of all warps",
        "Memory",
        "Hazards",
    ]
    text = " ".join(done.output.split())
    assert "tensor core busy" in text
    assert "blocks 1; an SM holds 6 of them" in text, "64 Ki registers for 80 of each of 128 threads"
    assert "wavefronts 512, 0 of them by bank conflicts" in text, "4 steps of 4 warps, 8 ldmatrix each, of 4 wavefronts"
    assert "asynchronous copies 32,768 bytes, 32,768 read from global memory" in text
    assert "mma_pipeline.py:" in text
    assert lines[-1].strip() == "none"


def test_every_launch_has_its_part(file):
    done = profiled(file, "twice")
    assert done.exit_code == 0
    heads = [line for line in done.output.splitlines() if line.endswith(" cycles")]
    assert len(heads) == 2, "the products and their sum"
    assert "no products" in done.output


def test_hazards_are_printed_and_fail(file):
    done = profiled(file, "race")
    assert done.exit_code == 1
    assert "error shared-race: a race in shared memory between warps" in done.output
    (line,) = [number for number, text in enumerate(FILE.splitlines(), 1) if "ld_shared(4 * (63" in text]
    assert f"kernels.py:{line} in racing" in done.output
    done = profiled(file, "fault")
    assert done.exit_code == 1
    assert "The launch ended early: " in done.output


def test_it_draws_and_traces(file, tmp_path):
    picture, traced = tmp_path / "out.svg", tmp_path / "out.json"
    done = profiled(file, "run", "--svg", picture, "--trace", traced)
    assert done.exit_code == 0
    assert picture.read_text().startswith("<svg ")
    assert "tensor core 0" in picture.read_text()
    events = json.loads(traced.read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "b", "e"}
    assert f"Wrote {picture}." in done.output


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("run", "does not name a function in a file; write FILE:FUNCTION"),
        ("{file}:1x", "does not name a function in a file"),
        ("missing.py:run", "there is no file missing.py"),
        ("{file}:rum", "has no function rum. Did you mean 'run'?"),
        ("{file}:number", "has no function number"),
        ("{file}:racing", r"racing takes warp; tcemu profile needs .* def run\(\): tcemu.launch\(racing, "),
        ("{file}:nothing", "did not launch a kernel"),
    ],
)
def test_it_says_what_it_cannot_profile(file, what, told):
    with pytest.raises(TcemuError, match=told):
        profile.main([what.format(file=file)], standalone_mode=False)


def test_it_says_where_it_cannot_write(file, tmp_path):
    with pytest.raises(TcemuError, match="cannot write"):
        profile.main([f"{file}:race", "--trace", str(tmp_path / "no" / "out.json")], standalone_mode=False)
