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
        "     kernel deep::one(int* x)>)"
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
    assert "add<float, 5> is no instantiation of the template add" in " ".join(shown[14].split())


def test_nothing_is_imported_in_the_background():
    """Or `import numpy` in the same cell fails now and then, with a numpy that is partially initialised."""
    code = """
import sys, threading
from tcemu.cuda import magic
magic.compiler.begin = lambda: None
magic.register(type("Shell", (), {"register_magic_function": lambda *_: None})())
print(threading.active_count(), "tcemu.launcher" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True"]
