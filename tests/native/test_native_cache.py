"""Object code on disk: found again, compiled again if it is broken, and not needed."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

native = pytest.importorskip("tcemu.native.compiled")

_TEXT = "define i32 @seven() {\n  ret i32 7\n}\n"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TCEMU_KERNEL_CACHE", raising=False)
    return tmp_path / "cache" / "ptx"


def call(made: list[int]) -> int:
    """The function's result; `made` counts how often its text was asked for."""

    def text() -> str:
        made.append(1)
        return _TEXT

    return ctypes.CFUNCTYPE(ctypes.c_int32)(native.function("a key", text, "seven", {}))()


def test_an_entry_is_compiled_once_and_again_if_it_is_broken(folder):
    made: list[int] = []
    assert [call(made), call(made), len(made)] == [7, 7, 1]
    (entry,) = folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert [call(made), len(made)] == [7, 2]


def test_a_folder_that_is_only_read(folder, monkeypatch, tmp_path):
    call([])
    monkeypatch.setenv("TCEMU_KERNEL_CACHE", str(folder.parent))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "other"))
    made: list[int] = []
    assert [call(made), len(made)] == [7, 0]


def test_nothing_can_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert call([]) == 7


def test_old_entries_go(folder, monkeypatch):
    monkeypatch.setattr(native, "_MOST", 20)
    for number in range(30):
        native.function(f"key {number}", lambda: _TEXT, "seven", {})
    assert len(list(folder.iterdir())) <= 20


def test_a_function_that_nobody_has_is_an_error():
    text = "declare i32 @nobody()\ndefine i32 @calls() {\n  %r = call i32 @nobody()\n"
    with pytest.raises(native.NotCompiled):
        native.function("other", lambda: f"{text}  ret i32 %r\n}}\n", "calls", {})
    with pytest.raises(native.NotCompiled, match="expected"):
        native.function("wrong", lambda: "no text", "calls", {})


#: A process whose address space has room for code in one page, and otherwise 4 GiB below: PC-relative addresses have 32
#: bits. Of what is reserved, nothing is accessible (protection 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE).
_CROWDED = """
import ctypes
from tcemu.native.compiled import compiled, linked

code = compiled("define i32 @seven() {\\n  ret i32 7\\n}\\n")
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
reserve = lambda size: libc.mmap(None, size, 0, 0x4022, -1, 0)
far = reserve(1 << 32)
for size in (1 << 30, 1 << 24, 1 << 18, 1 << 12):
    while (at := reserve(size)) > far:
        last = at
libc.munmap(last, 1 << 12)
print(ctypes.CFUNCTYPE(ctypes.c_int32)(linked(code, "seven", {}))())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers of mmap's flags are Linux's")
def test_parts_of_a_library_are_never_far_apart():
    done = subprocess.run([sys.executable, "-c", _CROWDED], capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr
