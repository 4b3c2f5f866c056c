"""Paths with letters beyond ASCII and with backslashes, from an #include to a report; and what Windows' NVRTC needs."""

import numpy as np
import pytest

import tcemu
from tcemu import cuda
from tcemu.assembly.lines import unescaped
from tcemu.child import Child
from tcemu.cuda import compiler, nvrtc
from tcemu.cuda.headers import near
from tcemu.cuda.module import _with_own_names
from tcemu.errors import CompilationError
from tcemu.ptx.types import narrowed

TWICE = "__device__ inline void twice(int* x) {\n    *x = *x * 2;\n}\n"
REVERSE = """// naïve, größer → schön
#include "größe.cuh"
__global__ void reverse(int* x) {
    __shared__ int s[128];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[127 - threadIdx.x];
    twice(x + threadIdx.x);
}
"""


def on_windows(library):
    """The compiler's process, which treats names of files as on Windows."""
    return Child(f"from tcemu.cuda import nvrtc; nvrtc.WINDOWS = True; nvrtc.main({library!r})")


@pytest.fixture(params=["here", "Windows"])
def names(request):
    """Compile as this system does, and with the names of files that NVRTC gets on Windows."""
    if request.param == "here":
        yield
        return
    with compiler.started_by(on_windows):
        yield


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "Übung 日本"
    folder.mkdir()
    (folder / "größe.cuh").write_text(TWICE, encoding="utf-8")
    (folder / "schön.cu").write_text(REVERSE, encoding="utf-8")
    return folder


@pytest.mark.usefixtures("nvrtc", "names")
def test_reports_have_the_names_of_files(place):
    module = cuda.compile(place / "schön.cu")
    with pytest.raises(tcemu.errors.UndefinedBehaviour) as error:
        module["reverse"](1, 128, np.zeros(128, np.int32))
    assert f"{place / 'schön.cu'}:6 in reverse" in str(error.value)
    lines = {line.file for kernel in module.parsed.kernels for each in kernel.body if (line := each.line)}
    assert lines == {str(place / "schön.cu"), str(place / "größe.cuh")}


@pytest.mark.usefixtures("nvrtc", "names")
def test_errors_have_the_names_of_files(place):
    (place / "größe.cuh").write_text("__device__ inline void twice(int* x) { *x = y; }\n", encoding="utf-8")
    with pytest.raises(CompilationError) as error:
        cuda.compile(place / "schön.cu")
    assert str(error.value).startswith(f"{place / 'größe.cuh'}:1: ")
    with pytest.raises(CompilationError, match='schön\\.cu:1: cannot open source file "日本\\.h"'):
        cuda.compile('#include "日本.h"\n__global__ void f() {}', name="schön.cu")


def test_a_file_may_be_absent_from_the_root_on(tmp_path):
    assert near(str(tmp_path / "absent.h"), tmp_path) is None


def test_ptx_escapes_what_is_not_ascii():
    assert unescaped(r"C:\\My work\\\303\234bung\\a \"b\".cu") == r'C:\My work\Übung\a "b".cu'
    assert unescaped("/home/me/a.cu") == "/home/me/a.cu"
    assert unescaped(r"\334bung.cu") == "�bung.cu"  # another encoding


def test_backslashes_are_written_twice():
    path, library = r"C:\work\a.cu", cuda.toolkit.toolkit().library.parent
    assert _with_own_names(f'\t.file\t1 "{library}/a.cu"', {"a.cu": path}) == '\t.file\t1 "C:\\\\work\\\\a.cu"'
    assert _with_own_names(r'.file 2 "C:\\x\\b.h"', {"a.cu": path}) == r'.file 2 "C:\\x\\b.h"'


def test_a_folder_goes_by_the_code_page(monkeypatch):
    monkeypatch.setattr(nvrtc, "_short", {r"C:\日本": r"C:\B0F1~1"}.get)
    assert nvrtc._option(r"-IC:\Übung", "cp1252") == b"-IC:\\\xdcbung"
    assert nvrtc._option(r"-IC:\日本", "cp1252") == b"-IC:\\B0F1~1"
    assert nvrtc._option(r"--include-path=C:\日本", "cp1252") == b"--include-path=C:\\B0F1~1"
    assert nvrtc._option('-DNAME="日本"', "cp1252") == '-DNAME="日本"'.encode()  # a part of the source


@pytest.mark.usefixtures("nvrtc")
def test_long_has_32_bits_where_windows_compiled_it(monkeypatch):
    """An array of int64 behind `long*` would be answers that are silently wrong."""
    monkeypatch.setattr(cuda.module, "_NARROW", True)
    source = """
    __constant__ unsigned long table[2] = {1, 2};
    template <class T> __global__ void fill(T* x) { *x = 1; }
    __global__ void f(long* x, const unsigned long* y, long long* z, unsigned long long w, long4* v) {}
    """
    module = cuda.compile(source, name="f.cu")
    named = "int32_t* x, const uint32_t* y, long long* z, unsigned long long w, int4* v"
    assert (repr(module["f"]), module["table"].dtype) == (f"<kernel f({named}) for sm_90a>", np.uint32)
    assert repr(module["fill<long>"]) == "<kernel fill<long>(int32_t* x) for sm_90a>"
    with pytest.raises(tcemu.errors.OperandError, match=r"int32_t\* x, points to elements of int32_t, np\.int32"):
        module["fill<long>"](1, 1, np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("written", "narrow"),
    [
        ("long", "int32_t"), ("unsigned long*", "uint32_t*"), ("const long*", "const int32_t*"),
        ("long int", "int32_t"),
        ("long long", "long long"), ("unsigned long long*", "unsigned long long*"), ("long double", "long double"),
        ("ulong2*", "uint2*"), ("longlong2", "longlong2"), ("longish", "longish"), ("signed long", "int32_t"),
    ],
)  # fmt: skip
def test_long_is_narrowed(written, narrow):
    assert narrowed(written) == narrow
