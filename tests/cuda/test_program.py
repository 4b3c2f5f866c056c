"""Whole programs with main and the runtime API. They need nvcc, for their host code."""

import shutil
from pathlib import Path

import pytest

from tcemu.cuda.program import build, run_program
from tcemu.errors import CompilationError, TcemuError, UndefinedBehaviour

PROGRAMS = Path(__file__).parent / "programs"
nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")


@nvcc
@pytest.mark.slow
def test_a_program_runs_as_it_is(capfd):
    ran = run_program([PROGRAMS / "scale.cu"], ["200"])
    assert ran.status == 0
    assert capfd.readouterr().out.splitlines() == ["21 21 105", "62", "121", "cudaErrorInvalidValue"]
    assert [each.kernel for each in ran.launches] == ["scale<7>", "twice", "chained"]


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


def test_without_nvcc_it_says_how_to_call_the_kernels(monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(TcemuError, match=r"needs nvcc(.|\n)*tcemu\.cuda\.compile"):
        run_program([PROGRAMS / "scale.cu"])
