"""Answers in CUDA C++: as %%cuda compiles them, and as the text of a cell, which a grader compiles."""

import pytest

import tcemu
from tcemu.cells import CudaText, cuda_functions, python_of
from tcemu.course import cuda_answers, exercise, judged
from tcemu.course.running import Cell
from tcemu.errors import MissingPackage

pytestmark = pytest.mark.skipif(not tcemu.cuda.available(), reason="NVRTC is not installed")

NAME = "swizzle_of_128"
BODY = "unsigned at = offset[threadIdx.x]; place[threadIdx.x] = at ^ (at >> 7 & 7) << 4;"
HEAD = f"__global__ void {NAME}(const unsigned* offset, unsigned* place)"


def said(text, name=NAME):
    return judged(exercise(name), CudaText(name, text))


RIGHT = {
    "as asked": f"%%cuda --arch sm_90a\n{HEAD} {{ {BODY} }}",
    "without the magic": f"{HEAD} {{ {BODY} }}",
    "another target, and a macro": f"%%cuda --arch sm_80 -D BITS=7\n{HEAD} {{ {BODY.replace('& 7', '& BITS')} }}",
    "a function and a template": "template <int N> __device__ unsigned low(unsigned x) { return x & N; }\n"
    f"{HEAD} {{ {BODY.replace('(at >> 7 & 7)', 'low<7>(at >> 7)')} }}",
    "a header of CUDA": f"#include <cuda_fp16.h>\n#include <cstdint>\n{HEAD} {{ {BODY} }}",
    "another kernel beside it": f"__global__ void other(int* x) {{ *x = 1; }}\n{HEAD} {{ {BODY} }}",
    "host code": f'#include <cstdio>\n{HEAD} {{ {BODY} }}\nint main() {{ printf("hello"); }}',
    "launch bounds": f"{HEAD.replace('void', 'void __launch_bounds__(32)')} {{ {BODY} }}",
    "prints": f'{HEAD} {{ {BODY} printf("%u", at); }}',
}


@pytest.mark.parametrize("way", RIGHT)
def test_a_right_kernel_is_right_however_it_is_written(way):
    assert said(RIGHT[way]).state == "right"


WRONG = {
    "a sum that begins with nothing": (
        HEAD
        + " { unsigned at; for (int i = threadIdx.x; i < 33; i += 32) at += offset[i % 32]; place[threadIdx.x] = at; }",
        "a variable to which nothing had been assigned",
    ),
    "a syntax error": (f"%%cuda\n{HEAD} {{ {BODY.replace(';', '')} }}", "Cell"),
    "another name": (f"{HEAD.replace(NAME, 'swizzle')} {{ {BODY} }}", f"no kernel {NAME}"),
    "no kernel": (f"__device__ unsigned {NAME}(unsigned at) {{ return at; }}", f"Write __global__ void {NAME}(...)"),
    "another parameter": (f"__global__ void {NAME}(float x) {{ }}", "takes 1 argument; got 2"),
    "beyond the array": (f"{HEAD} {{ {BODY.replace('place[threadIdx.x]', 'place[threadIdx.x + 1]')} }}", "outside"),
    "an endless loop": (f"{HEAD} {{ while (true); }}", "never ends"),
    "an endless loop that stores": (f"{HEAD} {{ while (true) place[threadIdx.x] = offset[0]; }}", "never ends"),
    "an endless recursion of templates": (
        f"template <int N> struct S {{ static const int x = S<N + 1>::x; }};\n{HEAD} {{ place[0] = S<0>::x; }}",
        "NVRTC",
    ),
    "lanes that write to one address": (f"{HEAD} {{ place[0] = threadIdx.x; }}", "lanes-disagree"),
    "unwritten shared memory": (
        f"{HEAD} {{ __shared__ int x[32]; place[threadIdx.x] = x[threadIdx.x]; }}",
        "sanitizer",
    ),
    "a trap": (f'{HEAD} {{ asm("trap;"); }}', "trap"),
    "assembler text that is none": (f'{HEAD} {{ asm("}} .visible .entry k() {{ ret;"); {BODY} }}', ""),
    "much memory for each thread": (
        f"{HEAD} {{ volatile char x[1 << 30]; x[offset[0]] = 1; {BODY} }}",
        "512 KiB of local",
    ),
}


@pytest.mark.parametrize("way", WRONG)
def test_a_wrong_or_hostile_kernel_is_told_so(way):
    text, words = WRONG[way]
    verdict = said(text)
    assert verdict.state == "wrong"
    assert words.lower() in verdict.says.lower()


def test_a_kernel_that_the_magic_compiled_is_the_same():
    module = tcemu.cuda.compile(RIGHT["as asked"].partition("\n")[2])
    assert judged(exercise(NAME), module[NAME]).state == "right"


def test_the_other_language_is_refused():
    assert "CUDA C++: a cell that begins with %%cuda" in judged(exercise(NAME), lambda warp, offset, place: None).says
    assert "to be written in Python" in judged(exercise("repair_scale_d"), CudaText("repair_scale_d", HEAD)).says


@pytest.mark.parametrize("text", [f"{HEAD} {{\n    // ...\n}}", f"%%cuda\n{HEAD} {{ }}"])
def test_unsolved_it_is_open(text):
    assert said(text).state == "open"


def test_without_a_compiler_nothing_is_wrong(monkeypatch):
    def absent(*_, **__):
        raise MissingPackage("NVRTC is not installed; run pip install tcemu[cuda]")

    monkeypatch.setattr("tcemu.cuda.module.compiled", absent)
    verdict = said(RIGHT["as asked"])
    assert verdict.state == "open"
    assert "nothing compiles CUDA C++" in verdict.says


def test_cells_define_kernels_without_compiling_them():
    text = f"%%cuda\n// __global__ void no(int* x)\n__global__ void __launch_bounds__(32) f(int* x) {{}}\n{HEAD} {{}}"
    assert list(cuda_functions(text)) == ["f", NAME]
    assert Cell("one", text).makes == {"f", NAME}
    assert python_of(text).count("\n") == text.count("\n")
    assert cuda_functions("x = '%%cuda'") is None
    assert cuda_functions(text)["f"][1, 32](None) is None  # a launch on the way to the check
    assert cuda_answers.is_cuda(cuda_functions(text)["f"])


PHASES = "__device__ void phases_of_a_stage(int step, int stages, int& stage, int& full, int& empty)"
WANTED = f"called as {PHASES}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{PHASES} {{ stage = step % stages; full = step / stages % 2; }}", "does not set empty"),
        (f"{PHASES} {{ stage = step % stages; full = step / stages % 2 }}", "your cell:2: expected a"),
        (PHASES.replace("&", "*") + " { *stage = *full = *empty = 0; }", WANTED),
        (PHASES.replace("__device__", "__global__").replace("&", "*") + " { *stage = 1; }", WANTED),
        ("__device__ int phases_of_a_stage(int step, int stages) { return step; }", WANTED),
        (f"namespace mine {{ {PHASES} {{ stage = 1; }} }}", WANTED),
        (f"{PHASES} {{ while (true) stage++; }}", "never ends"),
        (f"{PHASES} {{ __shared__ int x[4]; stage = full = empty = x[step % 4]; }}", "The sanitizer reports"),
        (f"{PHASES} {{ int x[4] = {{step}}; stage = full = empty = x[1000 * step]; }}", "outside local memory"),
    ],
)
def test_a_wrong_device_function_is_told_so(text, words):
    verdict = said(f"%%cuda\n{text}", "phases_of_a_stage")
    assert verdict.state == "wrong"
    assert words in verdict.says


def test_a_device_function_is_open_before_it_is_written_and_python_where_only_python_goes():
    assert said(f"%%cuda\n{PHASES} {{\n    // ...\n}}", "phases_of_a_stage").state == "open"
    assert (
        "in Python: a function of row and thread_id" in said("%%cuda\n__device__ int f(int x);", "lane_of_scale").says
    )
    kernel = tcemu.cuda.compile(f"{HEAD} {{ {BODY} }}")[NAME]
    assert f"must be {PHASES}, in a %%cuda cell" in judged(exercise("phases_of_a_stage"), kernel).says


def test_a_cell_without_a_kernel_gives_its_device_functions():
    text = "%%cuda\n// __device__ int no()\n__device__ int one() { return 1; }\n__device__ float x = f(2), y[] = {3};"
    assert list(cuda_functions(text)) == ["one"]
    assert Cell("one", text).makes == {"one"}
    assert list(cuda_functions(f"{text}\n{HEAD} {{ }}")) == [NAME]
