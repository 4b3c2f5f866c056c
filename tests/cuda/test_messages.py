"""NVRTC's log as messages. The logs are those of NVRTC 13.4."""

import pytest

from tcemu.cuda import compile, messages, options  # noqa: A004 - tcemu's
from tcemu.errors import CompilationError, OperandError

LOG = """k.cu(2): warning #177-D: variable "unused" was declared but never referenced
      int unused;
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

k.cu(5): error: identifier "y" is undefined
      if (i < n) y[i] *= k;
                 ^

/usr/lib/nvidia/cu13/include/cuda_fp8.hpp(2064): warning #1444-D: class "double4" was declared deprecated
  explicit f(const double4 f) {
                   ^

k.cu(9): error: no instance of constructor "A::A" matches the argument list
            argument types are: (int)
          detected during instantiation of "void g<N>() [with N=3]" at line 12
      A a(N);
          ^

2 errors detected in the compilation of "k.cu".
"""


def test_errors_are_shown_with_their_lines():
    error = messages.error(LOG)
    assert str(error) == (
        'k.cu:5: identifier "y" is undefined\n'
        "      if (i < n) y[i] *= k;\n"
        "                 ^\n\n"
        'k.cu:9: no instance of constructor "A::A" matches the argument list\n'
        "            argument types are: (int)\n"
        '          detected during instantiation of "void g<N>() [with N=3]" at line 12\n'
        "      A a(N);\n"
        "          ^"
    )
    assert error.verbatim
    assert messages.wrong_lines(LOG, "k.cu") == {5, 9}


def test_warnings_are_those_of_the_users_lines():
    (warning,) = messages.warnings(LOG)
    assert str(warning) == (
        'k.cu:2: variable "unused" was declared but never referenced\n      int unused;\n          ^'
    )


def test_many_errors_are_cut_off():
    log = "\n\n".join(f'k.cu({n}): error: identifier "y{n}" is undefined\n  y{n};\n  ^' for n in range(1, 13))
    end = 'k.cu:8: identifier "y8" is undefined\n  y8;\n  ^\n\n... and 4 errors more'
    assert str(messages.error(log)).endswith(end)


def test_a_log_without_lines_is_shown_as_it_is():
    told = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
    assert str(messages.error(told)) == told.strip()
    assert str(messages.error("", "NVRTC_ERROR_OUT_OF_MEMORY")) == "NVRTC_ERROR_OUT_OF_MEMORY"
    assert not messages.warnings(told)


def test_absent_headers_and_names():
    log = 'k.cu(1): catastrophic error: cannot open source file "cute/tensor.hpp"\n  #include <cute/tensor.hpp>\n  ^\n'
    assert messages.absent_header(log) == "cute/tensor.hpp"
    assert messages.absent_header(LOG) == ""
    assert messages.names_wrong('__nv_name_map(4): error: no instance of function template "f" matches\n')
    assert not messages.names_wrong(LOG)


@pytest.mark.parametrize(
    ("given", "arch", "kept"),
    [
        ("-arch=sm_80 -O3 --use_fast_math", "sm_80", ("--use_fast_math",)),
        ("-arch sm_90a -std c++20 --expt-relaxed-constexpr -lcublas", "sm_90a", ("-std=c++20",)),
        ("-gencode arch=compute_90a,code=sm_90a -Xptxas -v -maxrregcount=64", "sm_90a", ("-maxrregcount=64",)),
        ("--gpu-architecture=compute_75 -lineinfo -o out.ptx -ptx", "sm_75", ()),
        (["-gencode=arch=compute_80,code=sm_80", "-DX=1 2"], "sm_80", ("-DX=1 2",)),
        ((), "", ()),
    ],
)
def test_options_of_nvcc(given, arch, kept):
    assert options.chosen(given) == (arch, kept)


def test_macros_and_folders(tmp_path):
    assert options.defined({"N": 64, "FAST": True, "EMPTY": None}) == ("-DN=64", "-DFAST=1", "-DEMPTY")
    assert options.folders(tmp_path) == options.folders([str(tmp_path)]) == (tmp_path.resolve(),)
    with pytest.raises(OperandError, match="folders with headers; got 'nowhere', which is not a folder"):
        options.folders("nowhere")
    with pytest.raises(OperandError, match="define= has the names of macros; got 'a b'"):
        options.defined({"a b": 1})
    with pytest.raises(OperandError, match=r"options= must be the compiler's options as text, .*; got \[3\]"):
        options.chosen([3])


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ('cannot open source file "curand_kernel.h"', "`pip install nvidia-curand`"),
        ('cannot open source file "mine.cuh"', "include=[FOLDER]"),
        ('identifier "cudaDeviceSynchronize" is undefined', "no dynamic parallelism"),
        (
            "device-side kernel launch could not be processed as the required runtime APIs are not declared",
            "cannot launch",
        ),
        ('identifier "__shfl_down" is undefined', "__shfl_down_sync"),
        ('no instance of overloaded function "tex2D" matches the argument list', "no textures"),
        ('namespace "std" has no member "vector"', "std::vector is for the host only"),
        ('namespace "thrust" has no member "sort"', "CUB has what warps and blocks do"),
        ('identifier "concept" is undefined', "-std=c++20"),
        (
            "this declaration has no storage class or type specifier\n  k<<<1, 32>>>(x);",
            "Python launches it, in another cell: k[grid, block](...)",
        ),
        (
            "this declaration has no storage class or type specifier\n  cudaMalloc(&x, 4);",
            "cudaMalloc is in no function, and not needed",
        ),
        ('identifier "z" is undefined', ""),
    ],
)
def test_advice(said, helps):
    advice = messages.advice(f"k.cu(2): error: {said}\n")
    assert helps in advice
    assert bool(helps) == bool(advice)


def test_an_error_at_the_end_of_the_source_is_shown_without_the_warnings():
    end = "At end of source: error: expected a declaration"
    log = f"a.h(3): warning #47-D: incompatible redefinition\n  #define A\n\n{end}\n"
    assert str(messages.error(log)) == end


@pytest.mark.parametrize(
    ("said", "line", "advice"),
    [
        ('attribute "__global__" does not apply here', "__global__ void k(half* x) {", "#include <cuda_fp16.h>"),
        ("name must be a namespace name", "namespace cg = cooperative_groups;", "#include <cooperative_groups.h>"),
        (
            'namespace "cooperative_groups" has no member "memcpy_async"',
            "cg::memcpy_async(g, s, a, 128);",
            "#include <cooperative_groups/memcpy_async.h>",
        ),
        ('namespace "cooperative_groups" has no member "this_blok"', "auto t = cg::this_blok();", ""),
        ('identifier "__pipeline_commit" is undefined', "__pipeline_commit();", "#include <cuda_pipeline.h>"),
        ('identifier "y" is undefined', "y = half(x);", ""),
        ('expected a ";"', "half y", ""),
        ('identifier "cudaMalloc" is undefined', "cudaMalloc(&x, 4);", "cudaMalloc is for the host; a kernel gets"),
        ('cannot open source file "cute/tensor.hpp"', "", "cute/tensor.hpp belongs to CUTLASS: get its repository"),
    ],
)  # fmt: skip
def test_advice_names_the_header_that_is_missing(said, line, advice):
    told = messages.advice(f"k.cu(5): error: {said}\n      {line}\n      ^\n")
    assert told.startswith(advice)
    assert bool(told) == bool(advice)


#: By what is wrong: what a kernel does, what stands before or, from the second @ on, behind it; what is said.
MISTAKES = {
    "a variable of CUDA": ("x[threadidx.x] = 1;", "threadidx: did you mean threadIdx?"),
    "a function of CUDA": ("__synchthreads();", "__synchthreads: did you mean __syncthreads?"),
    "its own name": ("int extent = 3; x[0] = extnet;", "extnet: did you mean extent?"),
    "nothing near": ("x[0] = nowhere_to_be_found;", ""),
    "no word of C++": ("init(x);", ""),
    "all of threadIdx": ("x[threadIdx] = 1;", "threadIdx, blockIdx, blockDim and gridDim have three parts"),
    "a size": ("int s[blockDim.x]; x[0] = s[0];", "extern __shared__ float name[]"),
    "a half and a number": ("half h = x[0]; h = h + 1.0; x[0] = h;", "write the number as half(1.5f)"),
    "below": ("x[0] = later(3);@@__device__ int later(int y) { return y; }", "later is defined below its use: move it"),
    "no end": ("if (x) { x[0] = 1;", "No } closes what { begins in line 3"),
    "a quote": ("x[0] = 'ab'; char* s = \"x;", "{ x[0] = 'ab'; char* s"),
    "another's mistake": ("x[0] = Mine().x;@struct Mine { int x; nothing y; };", '"nothing" is undefined'),
    "the host's": ("x[0] = f();@int f() { cudaDeviceSynchronize(); return 1; }", "f is host code and left out"),
    "two": ("x[threadIdx] = 1; __synchthreads();", "threadIdx.x comes first\n\n__synchthreads: did you mean"),
    "a fence": ("x[0] = 1;@```cuda", "``` is Markdown's, and no part of the program"),
    "HTML": ("if (x[0] &lt; 3) x[0] = 1;", "&lt; is HTML's way to write a sign"),
    "an annotation": ("x[0] = f();@__devise__ int f() { return 1; }", "__devise__ is none of CUDA's words."),
}  # fmt: skip


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("what", MISTAKES)
def test_messages_say_what_is_meant(what):
    lines, says = MISTAKES[what]
    kernel, before, behind = [*lines.split("@"), "", ""][:3]
    source = f"#include <cuda_fp16.h>\n{before}\n__global__ void k(int* x) {{ {kernel} }}\n{behind}\n"
    with pytest.raises(CompilationError) as raised:
        compile(source, name="mistakes.cu")
    assert says in str(raised.value)
    assert "did you mean" in says or "did you mean" not in str(raised.value)


def test_notes_are_about_lines_of_the_cell_and_say_something_new():
    line = "      x[threadIdx] = y[n];\n       ^\n"
    built_in = f"k.cu(3): note #3328-D: built-in operator[](<pointer to object>, <ptrdiff_t>) does not match\n{line}"
    told = (
        f"k.cu(3): error: no operator\n{line}{built_in}k.cu(3): note #2689-D: the value of n cannot be used\n{line}\n"
    )
    assert str(next(messages.messages(told))) == (
        f"k.cu:3: no operator\n{line}k.cu:3: note: the value of n cannot be used\n{line}".rstrip()
    )
