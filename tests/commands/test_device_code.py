"""tcemu run, ptx, sanitize and profile of files of CUDA C++ and PTX."""

import csv
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from kernels_in_ptx import PTX
from places import ROOT

from tcemu.cli import commands
from tcemu.commands.launches import marked
from tcemu.cuda import available
from tcemu.cuda.program import Ran
from tcemu.errors import TcemuError

needs_nvrtc = pytest.mark.skipif(not available(), reason="needs NVRTC, which the extra `cuda` installs")

MARKED = """
// tcemu: x = arange(100)
  // tcemu:  scale<<<1, 128>>>(x, 2.0f, 100)
// tcemu is a program that reads the lines above
//tcemu: scale<<<1, 128>>>(x, 0.5, 50);
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.ptx").write_text(PTX, encoding="utf-8")
    return tmp_path


def called(*words, code=0):
    result = CliRunner().invoke(commands, words, catch_exceptions=True)
    if isinstance(result.exception, TcemuError):
        raise result.exception
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


# ---------------------------------------------------------------------------------------------------- run


def test_run_shows_what_was_written(here):
    assert called("run", "kernels.ptx", "scale<<<8, 128>>>(arange(1000), 2.0f, 999)") == (
        "scale: done\n"
        "argument 0  float32 (1000,): 0.0, 2.0, 4.0, 6.0, 8.0, 10.0, ...  (998 of 1,000 elements changed)\n"
    )


def test_several_launches_share_arrays(here):
    Path("kernels.ptx").write_text(PTX + MARKED, encoding="utf-8")
    assert called("run", "kernels.ptx") == (
        "scale: done\nscale: done\nx  float32 (100,): 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, ...  (50 of 100 elements changed)\n"
    )


def test_arrays_are_saved(here):
    called("run", "kernels.ptx", "x = [1, 2, 3]", "scale<<<1, 32>>>(x, -1, 3)", "--save", "out")
    assert np.load("out/x.npy").tolist() == [-1, -2, -3]
    np.save("in.npy", np.float32([5, 6]))
    called("run", "kernels.ptx", 'y = load("in.npy")', "scale<<<1, 32>>>(y, 1.5, 1 + 1)", "--save", "out")
    assert np.load("out/y.npy").tolist() == [7.5, 9]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        ("zeros(2, 2)", np.zeros((2, 2))), ("ones(3)", np.ones(3)), ("full(7, 2)", [7, 7]), ("arange(3)", [0, 1, 2]),
        ("[[1, -2.5]]", [[1, -2.5]]), ("arange(1 << 2)", range(4)), ("zeros(7 // 2)", np.zeros(3)),
        ("zeros((7 + 4 - 1) / 4)", np.zeros(2)), ("full(-7 / 2, 1)", [-3]), ("full(-7 / 2.0, 1)", [-3.5]),
    ],
)  # fmt: skip
def test_arrays_have_the_type_of_the_parameter(here, array, values):
    called("run", "kernels.ptx", f"x = {array}", "take<<<1, 1>>>(x)", "--save", "out")
    found = np.load("out/x.npy")
    assert found.dtype == np.float32
    assert found.tolist() == np.asarray(values).tolist()


@pytest.mark.parametrize(("name", "dtype"), [("__half", "float16"), ("'int16'", "int16"), ("unsigned", "uint32")])
def test_a_parameter_without_a_type_takes_any(here, name, dtype):
    called("run", "kernels.ptx", f"takes_any<<<1, 1>>>(zeros(2, dtype={name}))", "--save", "out")
    assert np.load("out/argument-0.npy").dtype == dtype


def test_a_launch_as_cuda_writes_it(here):
    text = called("run", "kernels.ptx", "scale<<<dim3((100 + 31) / 32, 1), dim3(32), 0, 0>>>(ones(100), 2.0f, 100);")
    assert "2.0, 2.0, 2.0, 2.0, 2.0, 2.0, ...  (100 of 100 elements changed)" in text


def test_random_arrays_are_the_same_in_each_run(here):
    first, again = (called("run", "kernels.ptx", "scale<<<1, 32>>>(random(64), 1, 0)") for _ in range(2))
    assert first == again
    assert "0.0, 0.0" not in first


def test_the_sanitizer_watches(here):
    text = called("run", "kernels.ptx", "races<<<1, 64>>>(zeros(1))", code=1)
    assert text.startswith("races: error\n  error shared-race: a race in shared memory between warps\n")
    assert "    at kernels.cu:" in text
    assert called("run", "kernels.ptx", "races<<<1, 64>>>(zeros(1))", "--no-sanitizer").startswith("races: done\n")


def test_a_launch_that_fails(here):
    text = called("run", "kernels.ptx", "scale<<<1, 32>>>(zeros(8), 1, 32)", code=1)
    assert text.startswith("scale: error\n")
    assert "kernels.cu:4 in scale" in text


def test_a_launch_that_ends_early_without_a_report(here):
    Path("trap.ptx").write_text(PTX.replace("bar.sync 0;", "trap;"), encoding="utf-8")
    text = called("run", "trap.ptx", "take<<<1, 1>>>(ones(2))", "races<<<1, 1>>>(zeros(1))", "--no-sanitizer", code=1)
    assert text.startswith("take: done\nraces: error\n  trap: warp 0 of block 0 at kernels.cu:10\n")
    assert "\nargument 0              float32 (2,): 1.0, 1.0  (not changed)\n" in text
    assert "\nargument 0 of launch 2  int32 (1,): 0  (not changed)\n" in text


WRONG = {
    "nothing": "'nothing' is not a launch, kernel<<<grid, block>>>(arguments), or an array, x = zeros(1024)",
    "scale<<<1>>>(1)": "between <<< and >>> stand grid, block and perhaps shared memory; got 1",
    "scale<<<1, 2>>>(x, 1, 2)": "nothing above is called x.",
    "scale<<<1, 2>>>(zero(4), 1, 2)": "nothing makes an array as zero does. Did you mean 'zeros'?",
    "scale<<<1, 2>>>(zeros(), 1, 2)": "zeros takes a shape, as in zeros(1024) or zeros(64, 64); got nothing",
    "scale<<<1, 2>>>(zeros(4, order=1), 1, 2)": "zeros takes a shape and dtype=; got order",
    "scale<<<1, 2>>>(zeros(4, dtype=float17), 1, 2)": "numpy and ml_dtypes have no dtype float17",
    "scale<<<1, 2>>>(k=1)": "arguments have no names in CUDA C++; got 'k=1'",
    "scale<<<1, 2>>>(1 / 0, 1, 2)": "1 / 0: integer division or modulo by zero",
    "scale<<<1, 2, 0, 5>>>(1)": "between <<< and >>> stand grid, block and perhaps shared memory; got 1, 2, 0, 5",
    "scale<<<1, 2>>>(full(), 1, 2)": "full takes a value and a shape: full(7, 1024)",
    "scale<<<1, 2>>>(load(3), 1, 2)": 'load takes the name of an .npy file: load("x.npy")',
    "scale<<<1, 2>>>(load('no.npy'), 1, 2)": "cannot load no.npy: [Errno 2] No such file or directory: 'no.npy'",
    "scale<<<1, 2>>>(['a'], 1, 2)": "\"['a']\" is not a list of numbers",
    "scale<<<1, 2>>>((lambda: 1)(), 1, 2)":
        "'(lambda: 1)()' is not a number, an array or a name; what a launch cannot say here, a few lines of Python can",
    "scale<<<1, 2>>>([, 1, 2)": "'f([, 1, 2)' cannot be read as numbers, arrays and their names",
    "scale<<<1, 2>>>(zeros(4), 1)": "scale(float*, float, int) takes 3 arguments; got 2",
}  # fmt: skip


@pytest.mark.parametrize(("launch", "message"), WRONG.items())
def test_launches_that_cannot_be_read(here, launch, message):
    with pytest.raises(TcemuError) as caught:
        called("run", "kernels.ptx", launch)
    assert message in str(caught.value)


def test_without_a_launch_the_message_shows_one(here):
    with pytest.raises(TcemuError) as caught:
        called("run", "kernels.ptx")
    with pytest.raises(TcemuError, match=r"    tcemu sanitize kernels.ptx 'scale<<<8"):
        called("sanitize", "kernels.ptx")
    assert "    tcemu run kernels.ptx 'scale<<<8, 128>>>(random(1024), 1.0, 1024)'\n" in str(caught.value)
    called("run", "kernels.ptx", "scale<<<8, 128>>>(random(1024), 1.0, 1024)")


def test_marked_lines():
    assert marked(MARKED) == (
        "x = arange(100)", "scale<<<1, 128>>>(x, 2.0f, 100)", "scale<<<1, 128>>>(x, 0.5, 50);",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "no.cu"), "there is no file no.cu"),
        (("run", "kernels.py"), "kernels.py must be CUDA C++ (.cu) or PTX (.ptx)"),
        (("sanitize", "kernels.ptx:run"), "a file of CUDA C++ or PTX has no functions to call; write tcemu sanitize"),
        (("profile", "kernels.py:run", "k<<<1, 2>>>()"), "launches are for files of CUDA C++ and PTX"),
        (("ptx", "functions.ptx"), "functions.ptx has no kernels, only 1 function"),
        (("ptx", "nothing.ptx"), "nothing.ptx has no kernels"),
    ],
)
def test_files_that_cannot_be_run(here, words, message):
    Path("kernels.py").write_text("def run(): pass\n", encoding="utf-8")
    Path("nothing.ptx").write_text(".version 8.0\n.target sm_80\n", encoding="utf-8")
    Path("functions.ptx").write_text(".version 8.0\n.target sm_80\n.func f() { ret; }\n", encoding="utf-8")
    with pytest.raises(TcemuError) as caught:
        called(*words)
    assert message in str(caught.value)


PROGRAM = """
__global__ void scale(float* x) { x[threadIdx.x] *= 2; }
int main(int argc, char** argv) { return argc; }
"""


def test_a_file_with_a_main_is_a_program(here, monkeypatch):
    asked = []

    def ran(files, arguments, **options):
        asked.append((files, arguments, options))
        return Ran(3, [])

    monkeypatch.setattr("tcemu.commands.device_code.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("tcemu.cuda.program.run_program", ran)
    Path("program.cu").write_text(PROGRAM, encoding="utf-8")
    called("run", "program.cu", "1024", "7", "-D", "N=3", "-I", "include", "--arch", "sm_80", code=3)
    (files, arguments, options), *_ = asked
    assert (files, arguments) == ([Path("program.cu")], ("1024", "7"))
    assert options == {"arch": "sm_80", "options": ["-DN=3", "-Iinclude"], "seed": 0, "sanitizer": "collect"}


def test_a_program_that_a_signal_ends(here, monkeypatch):
    monkeypatch.setattr("tcemu.commands.device_code.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("tcemu.cuda.program.run_program", lambda *_, **options: Ran(-signal.SIGABRT, []))
    Path("program.cu").write_text(PROGRAM, encoding="utf-8")
    assert "tcemu: SIGABRT ended the program\n" in called("run", "program.cu", code=128 + signal.SIGABRT)


@needs_nvrtc
def test_without_nvcc_the_message_says_how_to_launch_kernels(here, monkeypatch):
    monkeypatch.setattr("tcemu.commands.device_code.shutil.which", lambda name: None)
    Path("program.cu").write_text(PROGRAM, encoding="utf-8")
    with pytest.raises(TcemuError, match=r"program\.cu, and its main needs nvcc.*\n.*'scale<<<8, 128>>>\(random"):
        called("run", "program.cu")
    called("run", "program.cu", "scale<<<1, 128>>>(random(1024))")


@pytest.mark.slow
@needs_nvrtc
def test_the_guides_commands_and_comment(here):
    """The lines of docs/cuda.md, on the kernel that they are about."""
    guide = (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8")
    kernel = "__global__ void scale(float* x, float k, int n) {\nint i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    kernel += "if (i < n) x[i] *= k; }\n"
    Path("scale.cu").write_text(kernel, encoding="utf-8")
    lines = re.findall(r"^ +tcemu (\w+) scale\.cu(?: '(.*)')? *#", guide, re.MULTILINE)
    assert [command for command, _ in lines] == ["run", "sanitize", "profile", "ptx"]
    for command, launch in lines:
        called(command, "scale.cu", *([launch] if launch else []))
    (comment,) = re.findall(r"^ +(// tcemu: .*)$", guide, re.MULTILINE)
    Path("scale.cu").write_text(f"{comment}\n{kernel}", encoding="utf-8")
    assert called("run", "scale.cu").startswith("scale: done")


def test_the_workflow_calls_commands_that_exist():
    workflow = yaml.safe_load((ROOT / "docs" / "check-kernels.yml").read_text(encoding="utf-8"))
    steps = [each["run"] for each in workflow["jobs"]["kernels"]["steps"] if "run" in each]
    ((command, options),) = re.findall(r"tcemu (\w+)(.*)", "\n".join(steps[2:]))
    known = {option for each in commands.commands[command].params for option in each.opts}
    assert set(re.findall(r"--\w+", options)) <= known


# ---------------------------------------------------------------------------------------------------- ptx


def test_ptx_counts_what_executes_what(here):
    assert called("ptx", "kernels.ptx", "--kernel", "scale") == (
        "kernels.ptx: 1 kernel, PTX 8.0 for sm_80\n"
        "\n"
        "scale(float*, float, int): 15 instructions\n"
        "  memory    5  ld.param.u32 1, ld.param.u64 1, ld.global.f32 1, ld.param.f32 1,\n"
        "               st.global.f32 1\n"
        "  ordinary  8  mov.u32 3, mad.lo.s32 1, setp.ge.s32 1, mul.wide.s32 1, add.s64\n"
        "               1, mul.f32 1\n"
        "  control   2  bra 1, ret 1\n"
    )


def test_ptx_names_what_nobody_executes(here):
    text = called("ptx", "kernels.ptx", code=1)
    assert "  nobody    2  from.the.future.b32 2\n" in text
    place = [number for number, line in enumerate(PTX.splitlines(), 1) if "future" in line]
    assert text.endswith(
        "Not executed\n  from.the.future.b32: tcemu does not execute this instruction\n"
        f"      kernels.cu:14 (line {place[0]} of kernels.ptx)\n      kernels.cu:14 (line {place[1]} of kernels.ptx)\n"
    )


def test_ptx_as_data(here):
    data = json.loads(called("ptx", "kernels.ptx", "--format", "json", code=1))
    assert len(data) == 15 + 6 + 4 + 1 + 1
    barrier = next(each for each in data if each["opcode"] == "bar.sync")
    assert barrier["executed by"] == "machine"
    assert (barrier["kernel"], barrier["source"], barrier["line"]) == ("races(int*)", "kernels.cu", 10)
    called("ptx", "kernels.ptx", "-o", "table.csv", code=1)
    with Path("table.csv").open(encoding="utf-8") as file:
        assert [row["opcode"] for row in csv.DictReader(file)] == [each["opcode"] for each in data]


# ---------------------------------------------------------------------------------------------------- the others


def test_sanitize_takes_launches(here):
    text = called("sanitize", "kernels.ptx", "races<<<1, 64>>>(zeros(1))", "--sarif", "found.sarif", code=1)
    assert "1. races: error\n  error shared-race" in text
    found = json.loads(Path("found.sarif").read_text(encoding="utf-8"))["runs"][0]["results"][0]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "kernels.cu"}
    assert place["region"]["startLine"] in (9, 10)
    text = called("sanitize", "kernels.ptx", "scale<<<2, 64>>>(ones(100), 2, 100)", "--budget", "4")
    assert text.startswith("1. scale: clean")


def test_profile_takes_launches(here):
    text = called("profile", "kernels.ptx", "scale<<<2, 64>>>(ones(100), 2, 100)", "--arch", "sm_90a")
    assert text.startswith("scale: ")
    assert "kernels.cu:4" in text


CUDA = """
#include "size.h"
// tcemu: add<LENGTH><<<1, 64>>>(x, 3)
template <int N> __global__ void add(TYPE* x, TYPE k) {
    int i = threadIdx.x;
    if (i < N) x[i] += k;
}
int main() { return 0; }
"""


@needs_nvrtc
def test_cuda_with_options_of_the_compiler(here):
    Path("include").mkdir()
    Path("include/size.h").write_text("#define LENGTH 40\n", encoding="utf-8")
    Path("add.cu").write_text(CUDA, encoding="utf-8")
    options = ("-D", "TYPE=int", "-I", "include", "--arch", "sm_80")
    text = called("run", "add.cu", "x = arange(64)", "add<40><<<1, 64>>>(x, 3)", *options)
    assert text == "add<40>: done\nx  int32 (64,): 3, 4, 5, 6, 7, 8, ...  (40 of 64 elements changed)\n"
    text = called("ptx", "add.cu", "--kernel", "add<8>", *options)
    assert text.startswith("add.cu: 1 kernel")
    assert "for sm_80\n\nadd<8>(int* x, int k): " in text
    with pytest.raises(TcemuError, match=r"--kernel 'add<\.\.\.>' says with which arguments"):
        called("ptx", "add.cu", *options)
