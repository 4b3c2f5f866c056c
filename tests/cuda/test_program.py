"""Whole programs with main and the runtime API. They need nvcc, for their host code."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tcemu.cli import commands
from tcemu.cuda.program import build, run_program, serve
from tcemu.errors import CompilationError, TcemuError, UndefinedBehaviour

PROGRAMS = Path(__file__).parent / "programs"
nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")


@pytest.fixture(scope="module", autouse=True)
def _one_runtime(tmp_path_factory):
    """The runtime, which is the same for all programs, is compiled for the first of them."""
    kept, do = tmp_path_factory.mktemp("runtime") / "libcudart.so", build._do

    def once(command, what):
        if what != "the runtime":
            do(command, what)
        elif kept.exists():
            shutil.copy(kept, command[-1])
        else:
            do(command, what)
            shutil.copy(command[-1], kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_do", once)
        yield


@nvcc
@pytest.mark.slow
def test_a_program_runs_as_it_is(capfd):
    ran = run_program([PROGRAMS / "scale.cu"], ["200"])
    assert ran.status == 0
    assert capfd.readouterr().out.splitlines() == ["21 21 105", "62", "121", "cudaErrorInvalidValue"]
    assert [each.kernel for each in ran.launches] == ["scale<7>", "twice", "chained"]


@nvcc
@pytest.mark.slow
def test_the_host_and_kernels_share_managed_memory_and_variables(capfd):
    assert run_program([PROGRAMS / "lists.cu"]).status == 0
    assert capfd.readouterr().out == "37 16 1 1\n"


@nvcc
@pytest.mark.slow
def test_what_a_launch_raises_names_the_line_and_stops_the_program():
    with pytest.raises(UndefinedBehaviour, match=r"wild\.cu:2 in wild(.|\n)*lane 31: address \d+, 4 bytes"):
        run_program([PROGRAMS / "wild.cu"])


@nvcc
@pytest.mark.slow
def test_a_mistake_is_nvccs_to_explain(tmp_path):
    file = tmp_path / "wrong.cu"
    file.write_text("int main() {\n  unknown();\n}\n")
    with pytest.raises(CompilationError, match=r"wrong\.cu\(2\): error: identifier \"unknown\" is undefined"):
        run_program([file])


@nvcc
@pytest.mark.slow
def test_a_function_that_the_runtime_lacks_is_named(tmp_path):
    file = tmp_path / "arrays.cu"
    file.write_text("#include <cuda_runtime.h>\nint main() { cudaArray_t a; return cudaFreeArray(a); }\n")
    with pytest.raises(CompilationError, match="does not have what this program calls: cudaFreeArray"):
        run_program([file])


#: A program with a kernel; each case is a part of it that is wrong in its own way.
USES = """
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__constant__ float two[2];
__global__ void own() { __shared__ volatile int mine[12000]; mine[threadIdx.x] = 1; }
__global__ void __launch_bounds__(64) sure(int n) { assert(threadIdx.x < n); }
__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
int main(int, char** names) {
    float *x, *y, host[64] = {1};
    cudaMalloc(&x, sizeof host), cudaMalloc(&y, sizeof host);
    switch (atoi(names[1])) { CASES }
    printf("%s %g\\n", cudaGetErrorName(cudaGetLastError()), host[0]);
}
"""
IN, OUT = (
    "cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);",
    "cudaMemcpy(host, y, 256, cudaMemcpyDeviceToHost);",
)
LAUNCH = "copy<<<1, 64>>>(x, y);"
#: Of so many blocks, in clusters of so many.
CLUSTERS = (
    "cudaLaunchAttribute how[1]; how[0].id = cudaLaunchAttributeClusterDimension;"
    "how[0].val.clusterDim = {{{1}, 1, 1}};"
    "cudaLaunchConfig_t launch = {{}}; launch.gridDim = {0}, launch.blockDim = 64, launch.attrs = how;"
    "launch.numAttrs = 1; cudaLaunchKernelEx(&launch, copy, (const float*)x, y);"
)
#: By what is wrong: the host code, what it prints, and what the run says of it.
MISUSED = {
    "nothing": (IN + LAUNCH + OUT, "cudaSuccess 1", ""),
    "the other way": (
        "cudaMemcpy(x, host, 256, cudaMemcpyDeviceToHost);",
        "cudaErrorInvalidValue 1",
        "the target is memory of the device",
    ),
    "swapped": (
        "cudaMemcpy(host, x, 256, cudaMemcpyHostToDevice);",
        "cudaErrorInvalidValue 1",
        "the source is memory of the device",
    ),
    "too many bytes": (
        "cudaMemcpy(host, x, 257, cudaMemcpyDeviceToHost);",
        "cudaErrorInvalidValue 1",
        "257 bytes do not fit: the source is byte 0 of the 256 bytes",
    ),
    "a copy after cudaFree": (IN + LAUNCH + "cudaFree(y);" + OUT, "cudaErrorInvalidValue 1", "and cudaFree has freed"),
    "freed twice": (IN + LAUNCH + "cudaFree(y); cudaFree(y);", "cudaErrorInvalidValue 1", "and cudaFree has freed"),
    "memset beyond": ("cudaMemset(x, 0, 260);", "cudaErrorInvalidValue 1", "260 bytes do not fit"),
    "into nothing": (
        "cudaMemcpy(nullptr, x, 256, cudaMemcpyDeviceToHost);",
        "cudaErrorInvalidValue 1",
        "the target is the null pointer",
    ),
    "a symbol's size": (
        "cudaMemcpyToSymbol(two, host, 12);",
        "cudaErrorInvalidValue 1",
        "12 bytes do not fit: two has 8",
    ),
    "a symbol's name": ('cudaMemcpyToSymbol("two", host, 8);', "cudaErrorInvalidSymbol 1", "name the variable itself"),
    "no event": ("cudaEventRecord(nullptr);", "cudaErrorInvalidResourceHandle 1", ""),
    "events of no time": (
        "cudaEvent_t a; cudaEventCreate(&a); cudaEventElapsedTime(host + 1, a, a);",
        "cudaErrorInvalidResourceHandle 1",
        "cudaEventRecord has not recorded one of the events yet",
    ),
    "much shared memory": (
        "copy<<<1, 64, 49153>>>(x, y);",
        "cudaErrorInvalidValue 1",
        "call cudaFuncSetAttribute(kernel,",
    ),
    "many threads": (
        "copy<<<1, 1025>>>(x, y);",
        "cudaErrorInvalidValue 1",
        "copy<<<(1, 1, 1), (1025, 1, 1)>>> returns cudaErrorInvalidValue: block must be one to three numbers",
    ),
    "much shared memory beside the kernel's own": (
        "own<<<1, 32, 4096>>>();",
        "cudaErrorInvalidValue 1",
        "4096 bytes of dynamic shared memory are more than 1152",
    ),
    "more threads than the bounds": (
        "sure<<<1, 65>>>(99);",
        "cudaErrorInvalidValue 1",
        "sure<<<(1, 1, 1), (65, 1, 1)>>> returns cudaErrorInvalidValue: sure is compiled for blocks of at most",
    ),
    "a grid that is no multiple of its clusters": (
        CLUSTERS.format(4, 3),
        "cudaErrorInvalidClusterSize 1",
        "each dimension of the grid must be a multiple of the cluster's",
    ),
    "large clusters": (
        CLUSTERS.format(64, 32),
        "cudaErrorInvalidClusterSize 1",
        "cluster must be one to three numbers",
    ),
    "too many blocks that wait": (
        "void* p[] = {&x, &y}; cudaLaunchCooperativeKernel(copy, dim3(5000), dim3(64), p);",
        "cudaErrorCooperativeLaunchTooLarge 1",
        "5000 blocks must run at once, and an H100 has room for 4224",
    ),
    "never copied in": (LAUNCH + OUT, "cudaSuccess -nan", ""),
}
#: What ends a program: the host code, and what is said of it.
ENDING = {
    "x freed": (IN + "cudaFree(x);" + LAUNCH, "allocation 1, which has been freed"),
    "a large one freed": ("cudaMalloc(&x, 700); cudaFree(x);" + LAUNCH, "allocation 3, which has been freed"),
    "a pointer of the host": ("copy<<<1, 64>>>(host, y);", "perhaps one of the host"),
    "a pointer of the device": (
        "*y = *host;",
        "the host code reads or writes byte 0 of the 256 bytes that cudaMalloc returned: that is memory",
    ),
}
#: The host code of all of them, which are one program: compiling it takes longer than everything else.
CASES = [code for code, *_ in (*MISUSED.values(), *ENDING.values())] + [
    "copy<<<1, 64>>>(x, y + 1);",
    "sure<<<1, 32>>>(9);",
]


def number(code):
    return str(CASES.index(code))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The file of the program, and what nvcc makes of it."""
    folder = tmp_path_factory.mktemp("uses")
    file = folder / "uses.cu"
    cases = (f"case {each}: {{ {code} }} break;" for each, code in enumerate(CASES))
    file.write_text(USES.replace("CASES", "\n".join(cases)))
    return file, build.build([file], "sm_90a", (), folder)


@pytest.fixture
def program(made, monkeypatch):
    """The file, which is not compiled again."""
    file, built = made
    monkeypatch.setattr(serve, "build", lambda *_: built)
    return file


@nvcc
@pytest.mark.slow
@pytest.mark.parametrize("what", MISUSED)
def test_calls_that_a_gpu_refuses_fail_and_say_why(what, program, capfd):
    code, printed, why = MISUSED[what]
    ran = run_program([program], [number(code)])
    assert capfd.readouterr().out.strip() == printed
    assert ran.status == 0
    assert (why in ran.failures[0]) if why else not ran.failures


@nvcc
@pytest.mark.slow
@pytest.mark.parametrize("what", ENDING)
def test_what_ends_a_program_says_why(what, program):
    code, says = ENDING[what]
    with pytest.raises(TcemuError, match=re.escape(says)):
        run_program([program], [number(code)])


@nvcc
@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "sanitize"])
def test_commands_fail_with_a_call_that_fails(command, program):
    twice = number(MISUSED["freed twice"][0])
    result = CliRunner().invoke(commands, [command, str(program), twice])
    assert result.exit_code == 1
    assert "cudaFree returns cudaErrorInvalidValue: the pointer is to the 256 bytes that" in result.output


@nvcc
@pytest.mark.slow
def test_the_program_hears_that_a_kernel_has_failed(program, capfd):
    ran = run_program([program], [number(CASES[-2])], sanitizer="collect")
    assert capfd.readouterr().out.strip() == "cudaErrorIllegalAddress 1"
    assert [each.rule for each in ran.launches[0].reports] == ["out-of-range"]
    ran = run_program([program], [number(CASES[-1])], sanitizer="collect")
    assert capfd.readouterr().out.strip() == "cudaErrorAssert 1"
    assert "thread (9, 0, 0): assertion `threadIdx.x < n` failed" in str(ran.launches[0].error)


@nvcc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("void other(int);\nint main() { other(1); }\n", "no file of the program defines other(int). Name the files"),
        (
            "__global__ void f() {}\n__global__ void g() { f<<<1, 1>>>(); }\nint main() { g<<<1, 1>>>(); }\n",
            "kernels cannot launch kernels",
        ),
        ("#include <cublas_that_nobody_has.h>\nint main() {}\n", "only the runtime and those of headers alone"),
        ('#include "mine.h"\nint main() {}\n', "-I FOLDER says where headers are"),
        (b'int main() { const char* x = "\xfc"; return 1 }\n', "error"),
    ],
)
def test_what_cannot_be_built_says_what_to_do(text, says, tmp_path):
    file = tmp_path / "made.cu"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CompilationError, match=re.escape(says)):
        run_program([file])


def test_without_nvcc_it_says_how_to_call_the_kernels(monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(TcemuError, match=r"needs nvcc(.|\n)*tcemu\.cuda\.compile"):
        run_program([PROGRAMS / "scale.cu"])
