"""The CUDA C++ twins of tcemu.gemm on the emulator: the bits of the Python kernels, and no report."""

import shutil
import subprocess

import hopper
import numpy as np
import pytest
from quick import some, spread, turn
from stored import stored
from twin_cases import TWINS, key

from tcemu import cuda, ptx
from tcemu.gemm import shipped, twins
from tcemu.timing import Timeline

NVCC = shutil.which("nvcc")
#: The twins of the kernels that people ship, and one whose loads ptxas could take for a reason to serialise.
SHIPPED = ["wgmma_sparse", *(name for name, each in TWINS.items() if each.theirs.__module__ == shipped.__name__)]


def from_storage(text, define):
    """The module of a twin, of the PTX that is stored for this source."""
    found = stored()["twins"]["ptx"].get(key(text, define))
    assert found, "the source has changed since tools/save_ptx.py was run"
    return ptx.Module(found, "twin.ptx")


def same(name, compile_twin):
    """Check a twin's bits and reports."""
    ours, theirs, given = TWINS[name]
    wanted, _ = ours(*given, sanitizer="off")
    with twins.emulated(compile_twin, sanitizer="collect") as launches:
        got = theirs(*given)
    assert got.dtype == wanted.dtype
    whole = f"u{got.itemsize}"
    assert np.array_equal(got.view(whole), wanted.view(whole))
    assert launches
    assert [report for launch in launches for report in launch.reports] == []


@pytest.mark.parametrize("name", some(spread(TWINS, 2, first=turn(2)), 6))
def test_the_twin_gives_the_bits_of_the_python_kernel(name):
    same(name, from_storage)


@pytest.mark.slow
@pytest.mark.parametrize("name", spread(TWINS, 6, first=turn(6)))
def test_the_twin_from_its_source(nvrtc, name):
    same(name, twins.compiled)


#: The twins whose cycles are not compared: the kernels in Python look at each load at once, and nvcc does not.
APART = ("split_k", "wgmma_epilogue", "paged_decode")


@pytest.mark.slow
@pytest.mark.parametrize("name", some(spread([name for name in TWINS if name not in APART], 3, first=turn(3)), 5))
def test_the_twin_takes_as_many_cycles_as_the_python_kernel(name):
    """Closely if neither computes anything between its products; otherwise nvcc interleaves what Python does not."""
    computes = name.startswith(("attention", "grouped_fp8", "w4a16"))
    ours, theirs, given = TWINS[name]
    python, cuda_cpp = Timeline(), Timeline()
    ours(*given, sanitizer="off", observers=[python])
    with twins.emulated(from_storage, sanitizer="off", observers=[cuda_cpp]):
        theirs(*given)
    assert cuda_cpp.cycles == pytest.approx(python.cycles, rel=0.12 if computes else 0.05)


@pytest.mark.live_gpu
@pytest.mark.parametrize("name", TWINS)
def test_the_twin_on_a_gpu(request, name):
    hopper.need(request, "the twins are")
    ours, theirs, given = TWINS[name]
    wanted, _ = ours(*given, sanitizer="off")
    got = theirs(*given)
    assert got.dtype == wanted.dtype
    assert np.array_equal(got.view(f"u{got.itemsize}"), wanted.view(f"u{wanted.itemsize}"))


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", spread(SHIPPED, 3, first=turn(3)))
def test_ptxas_does_not_serialise_the_products(name, tmp_path):
    """As nvcc compiles them: no warning, and no word about wgmma that wait for each other."""
    sources = []
    with twins.instead(lambda text, define, *_: sources.append((text, define))):
        TWINS[name].theirs(*TWINS[name].given)
    text, define = sources[0]
    (tmp_path / "twin.cu").write_text(text)
    options = [f"-I{twins.FOLDER}", *(f"-D{word}={value}" for word, value in define.items())]
    command = [NVCC, "-arch=sm_90a", "-cubin", "-Werror=all-warnings", "-o", "twin.cubin", *options, "twin.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def test_other_orders_give_the_same_bits():
    ours, theirs, given = TWINS["wgmma_tma-f16"]
    wanted, _ = ours(*given, sanitizer="off")
    with twins.emulated(from_storage, seed=5, policy="random"):
        assert np.array_equal(theirs(*given), wanted)


@pytest.mark.slow
def test_the_bug_of_a_twin_is_found():
    """A twin without its wait reads what has not arrived: the sanitizer names the line of the .cu."""
    if not cuda.available():
        pytest.skip("NVRTC is not installed")
    _, theirs, given = TWINS["mma_pipeline"]
    broken = []

    def without_a_barrier(text, define):
        assert "__syncthreads();" in text
        broken.append(text.replace("__syncthreads();", "", 1))
        return twins.compiled(broken[-1], define)

    with twins.emulated(without_a_barrier, sanitizer="collect") as launches:
        theirs(*given)
    reports = launches[0].reports
    assert reports
    lines = broken[0].splitlines()
    assert all(report.site.file.endswith((".cu", ".h")) for report in reports)
    assert all(report.site.line <= len(lines) for report in reports)
