"""The fixture tcemu_kernels: what a test of somebody's kernels sees."""

import numpy as np
import pytest
from kernels_in_ptx import PTX

import tcemu
from tcemu.cuda import available
from tcemu.errors import UndefinedBehaviour
from tcemu.testing import tcemu_kernels  # noqa: F401 - a fixture

needs_nvrtc = pytest.mark.skipif(not available(), reason="needs NVRTC, which the extra `cuda` installs")

LAST = """
.version 8.0
.target sm_90a
.visible .entry last(.param .u64 x)
{
    .reg .b32 %r<3>;  .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    atom.global.exch.b32 %r2, [%rd1], %r1;
    ret;
}
"""
TESTS = """
import numpy as np

def test_right(tcemu_kernels):
    scale = tcemu_kernels("kernels.ptx")["scale"]
    x = np.arange(4, dtype=np.float32)
    scale[1, 32](x, 2.0, 4)
    assert x.tolist() == [0, 2, 4, 6]

def test_race(tcemu_kernels):
    tcemu_kernels("kernels.ptx")["races"][1, 64](np.zeros(1, np.int32))
"""


def test_arrays_have_the_results(tcemu_kernels):  # noqa: F811 - the fixture
    x = np.arange(64, dtype=np.float32)
    tcemu_kernels(PTX)["scale"][2, 32](x, 2.0, 64)
    assert x.tolist() == [2 * each for each in range(64)]


def test_broken_rules_are_raised(tcemu_kernels):  # noqa: F811
    with pytest.raises(UndefinedBehaviour, match=r"error shared-race[^\n]*\n  at kernels\.cu:"):
        tcemu_kernels(PTX.replace("ld.shared.u32 %r1, [word]", "mov.b32 %r1, 0"))["races"][1, 64](np.zeros(1, np.int32))


def test_a_result_that_depends_on_the_order_fails(tcemu_kernels):  # noqa: F811
    with pytest.raises(pytest.fail.Exception, match="last: the result depends on the order"):
        tcemu_kernels(LAST)["last"][1, 64](np.zeros(1, np.int32))
    tcemu_kernels(LAST)["last"][1, 64](np.zeros(1, np.int32), seed=2)  # the only order of this launch


def test_kernels_in_python_are_checked_too(tcemu_kernels):  # noqa: F811
    def last(warp, out):
        warp.atom_global("exch.b32", out.at(0), warp.threads)

    with pytest.raises(pytest.fail.Exception, match="last: the result depends on the order"):
        tcemu.launch(last, block=64, args=(np.zeros(1, np.uint32),))


@needs_nvrtc
def test_cuda_as_text(tcemu_kernels):  # noqa: F811
    module = tcemu_kernels("__global__ void fill(int* x) {\n x[threadIdx.x] = N; }", define={"N": 7})
    x = np.zeros(32, np.int32)
    module["fill"][1, 32](x)
    assert (x == 7).all()


@pytest.mark.slow
def test_what_pytest_prints(tmp_path):
    import subprocess
    import sys

    (tmp_path / "kernels.ptx").write_text(PTX)
    (tmp_path / "test_kernels.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tcemu.testing"]\n')
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed")
    assert 'def test_race(tcemu_kernels):\n>       tcemu_kernels("kernels.ptx")["races"]' in done.stdout
    assert "tcemu/launcher.py" not in done.stdout, "of the package, only the message is shown"
