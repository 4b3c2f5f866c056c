"""%%cuda in IPython: kernels become names, lines are those of the cell."""

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("nvrtc")

#: Cells, one after the other; the shell prints what a notebook would show.
CELLS = [
    "import numpy as np\n%load_ext tcemu.cuda",
    """%%cuda --arch sm_80 -D K=3 -o module
__global__ void scale(float* x, float k, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int unused;
    if (i < n) x[i] *= k * K;
}
template <int N> __global__ void add(int* x) { x[threadIdx.x] += N; }
namespace deep { __global__ void one(int* x) { *x = 1; printf("one %d\\n", *x); } }""",
    "x = np.arange(8, dtype=np.float32)\nresult = scale[1, 32](x, 2.0, 8)\nprint('x', x[:3], result.target)",
    "scale",
    "y = np.zeros(4, np.int32)\nresult = add['5'][1, 4](y), add[2][1, 4](y), one[1, 1](y)\nprint('y', y)",
    "add, module",
    "%%cuda\n__global__ void scale(float* x) {\n    x[0] = z;\n}",
    "scale[1, 32](x, 2.0, 32)",
    "scale[1, 32](x, 2.0)",
    "%%cuda --arch\n__global__ void f() {}",
    "%%cuda\n#include <vector>\n__global__ void f() {}\nint main() { f<<<1, 1>>>(); std::vector<int> v; }",
    """%%cuda
__constant__ float mask[2];
__global__ void f(int* x) {}
__global__ void f(float* x) {}
__global__ void g(float* x) { x[0] = mask[0]; }""",
    "%%cuda\nvoid f(float* x) { x[0] = 1; }",
    "add['float, 5']",
    """%%cuda
__global__ void print(int* x) { *x = square(K); }""",
    "%%cuda --arhc sm_80\n__global__ void f() {}",
    '%%cuda "a b\n__global__ void f() {}',
    "%%cuda -h\n__global__ void f() {}",
    "%cuda __global__ void f() {}",
    "__global__ void f() {}",
    "%%cuda\nimport numpy",
    """%%cuda
#include <cassert>
__device__ int square(int x) { return x * x; }
__global__ void print(int n) { assert(threadIdx.x < n); }
__global__ void lambda() {}""",
    "print[1, 32](16)",
    "%%cuda\n__global__ void f(int* x) { *x = square(3); }",
    "add[1, 4](y)",
    "module.scale",
    "add[np.int32(5)][1, 4](y); add",
    "%%cuda\ntemplate <typename T> __global__ void size(int* x) { *x = sizeof(T); }",
    "size[np.float64][1, 1](y), size[np.uint8][1, 1](y[1:]); y[:2]",
    "%%cuda\n__global__ void f(int* x) { *x = “1”; }",
    """%%cuda
#include <cstdio>
const int SIZE = 512, NEVER = 1;
namespace deep { namespace { __global__ void hidden(int* x) { *x = 9; } } }
static __global__ void alone(int* x) {}
int main() { hidden<<<1, SIZE>>>(nullptr); }""",
    "del print; hidden[1, 1](y)\nprint(y[0])\nhidden[1, 1](None)",
    "%%cuda\nint main() { return 0; }",
    '%%cuda\n__global__ void f(int* x) {\n    asm volatile("mov.u32 %0, %%tid.q;" : "=r"(*x));\n}',
    "hidden<<<1, 1>>>(y)",
    "%%cuda\n__global__ void f() { extern __shared__ int s[]; s[0] = 1; }",
    "f[1, 1]()",
    """%%cuda
#include <cuda/atomic>
__global__ void f(int* x) {
    cuda::atomic_ref<int, cuda::thread_scope_block> count(*x);
    count.fetch_add(1);
}
__global__ void g(cudaTextureObject_t t, float* x) { *x = tex1Dfetch<float>(t, 0); }""",
    "f[2, 1](y)",
    "g[1, 1](0, np.zeros(1, np.float32))",
    "%%cuda\n__device__ int half(int x) { return x / 2; }",
    "half",
    "half(3)",
    "%%cuda\n__global__ void twice(int* x) {}\n__global__ void twice(float* x) {}",
    "twice(1, 32, y)",
    "add(1, 4, y)",
    "%%cuda\n__global__ void k(int* x) { *x = 1; }\nk<<<1, 1>>>(x);",
    "%%cuda\n__global__ void k(int* x) { int y[3]; y[0] = 1; *x = y[0]; }\nk[1, 1](x);",
    "%%cuda\nint y[4];\n__global__ void k(int* x) { *x = y[0]; }",
    "%%cuda\ntemplate <class T> __global__ void fill(T* x, T inside) { T within = inside; *x = within; }",
    "fill[int][1, 1](y, 8); z = np.ones(1, np.float32); fill[float][1, 1](z, 2); print(y[0], z[0])",
    "%%cuda\n__global__ void g(float* x) { *x = within + inside; }",
]
PROBE = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.displayhook.write_output_prompt = lambda: None
for cell in eval(sys.argv[1]):
    shell.run_cell(cell, store_history=True)
    print("====", flush=True)
"""


@pytest.fixture(scope="module")
def shown():
    """What the cells print."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, repr(CELLS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    parts = [part.strip("\n") for part in re.sub("\x1b\\[[0-9;]*m", "", done.stdout).split("====\n")]
    return dict(enumerate(parts, 1))


def test_kernels_become_names(shown):
    assert shown[1] == ""
    assert shown[2] == (
        'Cell In[2], line 4: variable "unused" was declared but never referenced\n      int unused;\n          ^'
    )
    assert shown[3] == "x [ 0.  6. 12.] sm_80"
    assert shown[4] == "<kernel scale(float* x, float k, int n) for sm_80>"
    assert shown[5] == "one 1\ny [1 7 7 7]"
    assert shown[6] == (
        '(<kernel template add: add["64"], with the template\'s arguments, is a kernel>,\n'
        " <Cell In[2] for sm_80:\n"
        "     kernel scale(float* x, float k, int n)\n"
        "     kernel deep::one(int* x)\n"
        "     template add<...>>)"
    )


def test_messages_are_at_the_cells_line(shown):
    assert shown[7] == (
        'CompilationError\n\nCell In[7], line 3: identifier "z" is undefined\n      x[0] = z;\n             ^'
    )
    assert shown[8].startswith(
        "UndefinedBehaviour\nCell In[8], line 1\n---->   1 scale[1, 32](x, 2.0, 32)\nCell In[2], line 5, in scale\n"
        "        4     int unused;\n---->   5     if (i < n) x[i] *= k * K;\n\nerror out-of-range"
    )
    assert shown[9].endswith("scale(float* x, float k, int n) takes 3 arguments; got 2")
    assert "%%cuda: argument --arch/-arch: expected one argument. usage: %%cuda" in shown[10]
    assert shown[11] == (
        "Note: main is host code, which tcemu does not run: call the kernels from Python, f[grid, block](...), with "
        "numpy arrays; cudaMalloc is not needed"
    )


def test_what_has_no_name_in_python_is_told(shown):
    assert shown[12] == (
        "Note: 2 kernels are called f; module['f(int*)'] is one of them after %%cuda -o module\n"
        "Note: Python reads and sets the variable mask as module['mask'] after %%cuda -o module"
    )
    assert shown[13] == "Note: the cell has no kernel: a kernel is a function with __global__ before `void`"
    told = list(shown.values())
    at = told.index("<__device__ function half>")
    assert told[at - 1] == "", "its cell says nothing"
    assert told[at + 1].endswith("half is a __device__ function: a kernel can call it, but Python cannot")
    assert "magic.py" not in told[at + 1]
    assert told[at + 3].endswith(
        "2 kernels are called twice; module['twice(int*)'] is one of them after %%cuda -o module"
    )
    assert told[at + 4].endswith('add["64"][grid, block](...), as in add<64><<<grid, block>>>(...)')
    assert "add<float, 5> is no instantiation of the template add" in " ".join(shown[14].split())


def test_what_is_no_cell_of_cuda_is_told(shown):
    told = {n: " ".join(text.split()) for n, text in shown.items()}
    assert 'identifier "square" is undefined' in told[15]
    assert "--arhc is no option of NVRTC, the compiler; in a cell, %%cuda --help shows what there is" in told[16]
    assert "%%cuda: no closing quotation in '\"a b'" in told[17]
    assert told[18].startswith("usage: %%cuda [-h] [--arch ARCH]")
    assert "CUDA C++ begins in the line below %%cuda, with two percent signs" in told[19]
    assert told[20].endswith("Note: a cell of CUDA C++ begins with %%cuda, in its first line")
    assert told[21].endswith("import is Python's; a cell that begins with %%cuda is CUDA C++ to its end, and Python "
                             "goes into another one")  # fmt: skip
    assert told[30].endswith(
        "NVRTC does not know '“' (left double quotation mark) and '”' (right double quotation mark) outside comments "
        "and strings: names have ASCII letters, and quotes are ' and \""
    )
    assert told[30].count("unrecognized token") == 1


def test_names_that_mean_something_else(shown):
    told = {n: " ".join(text.split()) for n, text in shown.items()}
    assert told[22] == (
        "Note: print is this cell's now, and no longer the built-in function print Note: lambda is a word of "
        "Python; module['lambda'] is the kernel after %%cuda -o module"
    )
    assert told[23].endswith(
        "Cell In[22], line 4: void print(int): block (0, 0, 0), thread (16, 0, 0): assertion `threadIdx.x < n` failed"
    )
    assert told[24].endswith("square is in Cell In[22]; each cell is compiled by itself, so paste that into this one")
    assert told[25].endswith('The template\'s arguments have brackets of their own: add["64"][grid, block](...)')
    assert told[26].endswith("a module of kernels has no attribute 'scale'; it is module['scale']")
    assert told[27].startswith("<kernel template add")
    assert told[29] == "array([8, 1], dtype=int32)"


def test_what_was_left_out_is_no_reason_for_a_warning(shown):
    assert shown[31].startswith('Cell In[31], line 3: variable "NEVER" was declared but never referenced')
    assert shown[31].count("was declared") == 1
    assert shown[32].startswith("9\nUndefinedBehaviour")
    assert "lies outside global memory: it is the null pointer" in " ".join(shown[32].split())
    assert shown[33].startswith(
        "Note: main is host code, which tcemu does not run: it compiles kernels, functions with __global__, and Python "
        "launches them"
    )


def test_errors_are_at_the_cell_s_line(shown):
    told = {n: " ".join(text.split()) for n, text in shown.items()}
    assert "Cell In[34], line 3: asm: the PTX of Cell In[34]:" in told[34]
    assert told[35].endswith("Note: Python writes kernel<<<grid, block>>>(x, n) as kernel[grid, block](x, n)")
    wanted = (
        "0 bytes in this launch: if its size is the launch's to say (extern __shared__), kernel<<<grid, block, bytes>>>"
    )
    assert wanted in told[37]
    assert "at Cell In[38], line 5 in f (block 1, warp 0, lane 0) atom" in told[39]
    assert "cccl" not in told[39]
    assert "g: Cell In[38], line 7 (line" in told[40]
    assert told[40].endswith("of the PTX of Cell In[38]): tex.1d.v4.f32.s32: tcemu has no textures or surfaces")


def test_nothing_is_imported_in_the_background():
    """Or `import numpy` in the same cell fails now and then, with a numpy that is partially initialised."""
    code = """
import sys, threading
from tcemu.cuda import magic
magic.compiler.begin = lambda: None
events = type("Events", (), {"register": lambda *_: None})()
magic.register(type("Shell", (), {"register_magic_function": lambda *_: None, "events": events})())
print(threading.active_count(), "tcemu.launcher" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True"]


def test_a_launch_that_is_lost_is_told(shown):
    at = CELLS.index("%%cuda\nint y[4];\n__global__ void k(int* x) { *x = y[0]; }") + 1
    assert [shown[each].startswith("Note: k is launched outside functions") for each in (at - 2, at - 1)] == [
        True,
        True,
    ]
    assert "launched" not in shown[at]


def test_types_of_python_and_names_within_brackets(shown):
    """Python's types are those of C++ with these names; no advice is a name that another cell has for itself."""
    assert shown[len(CELLS) - 1] == "8 2.0"
    assert 'identifier "within" is undefined' in shown[len(CELLS)]
    assert "paste that into this one" not in shown[len(CELLS)]
