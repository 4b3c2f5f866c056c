"""How kernels are compiled: once, whoever needs them first, with one line about it where the user looks."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tcemu
from tcemu import notice

pytest.importorskip("numba")
from tcemu.kernels.host import compiling

PACKAGE = Path(tcemu.__file__).parent
LINE = "tcemu is compiling its kernels for this processor, once; `tcemu warm` compiles all of them in advance\n"

#: Counts the kernels that this process has compiled; the function is a small one, as the kernels are made.
COMPILE = """
import sys
from pathlib import Path
import numpy as np
from tcemu.backend import backend
backend()
from numba.core import event
from tcemu.kernels.host import memory
class Count(event.Listener):
    found = 0
    def on_start(self, event): self.found += 1
    def on_end(self, event): pass
event.register("numba:compile", count := Count())
if len(sys.argv) > 1:
    Path(sys.argv[1]).touch()
    while not Path(sys.argv[2]).exists(): pass
index, out = np.zeros(4, np.int64), np.zeros((1, 4), np.uint8)
memory.read(np.zeros((1, 4), np.uint32), index, index.astype(np.uint32), np.uint32(1), out)
print(count.found)
"""


#: Says which kernels a process compiles for numbers near 1, and which more for infinities.
BATCH = """
import numpy as np
import tcemu
from numba.core import event
class Names(event.Listener):
    def on_start(self, event): print(event.data["dispatcher"].py_func.__qualname__, end=" ")
    def on_end(self, event): pass
event.register("numba:compile", Names())
mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
for pattern in (0x3C003C00, 0x7C003C00):
    a, b, c = (np.full((40, 32, registers), pattern, np.uint32) for registers in (4, 2, 4))
    tcemu.run(mma, a, b, c)
    print()
"""


def start(folder, *arguments, **environment):
    """A process that compiles a kernel into `folder`."""
    here = {"TCEMU_QUIET": "", "TMPDIR": str(folder), "NUMBA_CACHE_DIR": str(folder), **environment}
    command = [sys.executable, "-c", COMPILE, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_is_compiled_belongs_to_all_sources():
    """A kernel contains functions of other files; numba itself would keep using it when only those have changed."""
    paths = (path for room in ("kernels", "native") for path in (PACKAGE / room).rglob("*.py"))
    sources = {path.relative_to(PACKAGE).as_posix() for path in paths}
    assert {name for name, _, _ in compiling.stamp()} == sources
    assert len({name.split("/")[0] for name in sources}) < len(sources), "those of sub-rooms, too"
    for function in compiling.functions():
        assert function._cache._cache_file._source_stamp == compiling.stamp(), function


def test_every_kernel_is_compiled_by_the_one_decorator():
    """numba's own njit would compile one kernel in as many processes as need it."""
    for path in compiling.sources():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        taken = [
            alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if (node.module or "").split(".")[0] == "numba"
        ]
        assert not {"njit", "jit", "vectorize", "guvectorize"} & set(taken), path.name


@pytest.mark.slow
def test_no_kernel_copies_an_array_into_a_slice():
    """numba would compile the message for other shapes with it, and all that formats text: 4 seconds. Loops copy."""
    asked, found = 0, []
    for path in compiling.sources():
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            makers = map(ast.unparse, getattr(function, "decorator_list", ()))
            if any(maker.startswith(("njit", "merged")) for maker in makers):
                asked += 1
                found += [f"{path.name}: {each}" for each in copies(function)]
    assert asked > 50
    assert not found


def copies(function):
    """The statements that put an array into a slice; one number for all elements is no array."""
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and not isinstance(each.value, (ast.Constant, ast.UnaryOp)):
            places = [
                part for place in each.targets if isinstance(place, ast.Subscript) for part in ast.walk(place.slice)
            ]
            if any(isinstance(part, ast.Slice) or getattr(part, "value", None) is ... for part in places):
                yield ast.unparse(each)


@pytest.mark.slow
def test_a_batch_compiles_only_what_it_needs(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "TCEMU_KERNELS": "numba"}
    found = subprocess.run([sys.executable, "-c", BATCH], env=environment, capture_output=True, text=True, check=True)
    near, infinite = (set(line.split()) for line in found.stdout.splitlines())
    careful = {"_multiply_tiles", "_careful_blocks"}
    assert careful <= infinite
    assert not careful & near
    assert "_plain_blocks" in near
    assert not infinite & near


@pytest.mark.slow
def test_of_several_processes_one_compiles_and_one_says_so(tmp_path):
    """They all look for the kernel when all are ready, so that none finds it compiled."""
    go, ready = tmp_path / "go", [tmp_path / f"ready{number}" for number in range(4)]
    started = [start(tmp_path, each, go) for each in ready]
    while not all(each.exists() for each in ready):
        assert all(each.poll() is None for each in started), [each.communicate() for each in started]
    go.touch()
    told = [each.communicate() for each in started]
    assert sorted(int(out) > 0 for out, _ in told) == [False, False, False, True], told
    assert "".join(err for _, err in told) == LINE
    assert start(tmp_path).communicate() == ("0\n", ""), "another process finds it compiled"


@pytest.mark.slow
def test_who_wants_quiet_has_it(tmp_path):
    out, err = start(tmp_path, TCEMU_QUIET="1").communicate()
    assert (int(out) > 0, err) == (True, "")


def test_where_no_file_can_be_locked_each_process_compiles_for_itself(tmp_path, monkeypatch):
    class NoLocks:
        def __init__(self, path, timeout):
            pass

        def acquire(self):
            raise NotImplementedError("the file system has no flock")

        def release(self, force=False):
            pass

    monkeypatch.setattr(compiling, "FileLock", NoLocks)
    monkeypatch.setattr(compiling, "FUNCTIONS", [])
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    assert compiling.njit(cache=True)(add_one)(41) == 42


def test_others_need_not_wait_for_who_was_interrupted(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(compiling, "FUNCTIONS", [])
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    function = compiling.njit(cache=True)(add_one)
    with monkeypatch.context() as patched:
        patched.setattr(function._compiler, "compile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            function(41)
    (lock,) = tmp_path.rglob("*.lock")
    compiling.FileLock(lock, timeout=0).acquire()


def add_one(x):
    return x + 1


def test_where_nothing_can_be_stored_each_process_compiles_for_itself(monkeypatch):
    def nowhere(function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiling, "_SharedCache", nowhere)
    monkeypatch.setattr(compiling, "FUNCTIONS", [])
    assert compiling.njit(cache=True)(lambda x: x + 1)(41) == 42


@pytest.mark.slow
def test_an_installation_that_cannot_be_written_to_keeps_its_kernels_in_the_users_cache(tmp_path):
    """A file has the name of the folder beside the kernels, so that not even root can make the folder."""
    shutil.copytree(PACKAGE, tmp_path / "tcemu", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tcemu" / "kernels" / "__pycache__").touch()
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    code = "from tcemu.kernels.host.compiling import cache_folder; print(cache_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(tmp_path / "cache"))


# The line -------------------------------------------------------------------------------------------------------------


class Display:
    """Stands for a notebook's front end: what a reader sees in the cell's output."""

    def __init__(self, line):
        self.seen = [line["text/html"]]

    def update(self, line, raw):
        self.seen.append(line["text/html"])


def test_in_a_notebook_a_bar_stands_there_while_kernels_are_compiled(monkeypatch, capfd):
    shown = []
    monkeypatch.delenv("TCEMU_QUIET")
    monkeypatch.setattr("tcemu.progress.shell", lambda: SimpleNamespace(kernel=True, execution_count=len(shown) // 2))
    monkeypatch.setattr("IPython.display.display", lambda line, **_: shown.append(Display(line)) or shown[-1])
    told = notice.Notice()
    for kernel in ("prepare", "store"):
        told.begin(kernel)
        told.end()
    (display,) = shown
    prepare, store = (f"<label>{notice.TEXT}: {name} <progress></progress></label>" for name in ("prepare", "store"))
    assert display.seen == [prepare, "", store, ""], "one output, empty in the end"
    shown.append(display)  # the next cell
    told.begin("chain")
    told.end()  # what is shown in vain would hide every bar after it
    assert len(shown) == 3
    assert capfd.readouterr() == ("", ""), "and no red box"


def test_quiet_is_quiet_in_a_notebook(monkeypatch):
    monkeypatch.setenv("TCEMU_QUIET", "1")
    monkeypatch.setattr("tcemu.progress.shell", lambda: pytest.fail("nobody asks"))
    told = notice.Notice()
    told.begin("prepare")
    told.end()


def test_in_a_terminal_the_bar_is_taken_away(monkeypatch, capfd, tmp_path):
    monkeypatch.delenv("TCEMU_QUIET")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    told = notice.Notice()
    told.begin("prepare")
    told.end()
    told.end()
    drawn = capfd.readouterr().err
    assert f"{notice.TEXT}: prepare" in drawn
    assert drawn.rstrip().endswith("\x1b[2K"), "the line is erased"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_forked_process_compiles_what_its_parent_has_not(monkeypatch, tmp_path):
    """The grader forks for each submission; a lock that it inherits would be an error in the middle of an answer."""
    monkeypatch.setattr(compiling, "FUNCTIONS", [])
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    compiled, shown = compiling.njit(cache=True)(add_one), notice.Notice()
    child = os.fork()
    if not child:
        code = 1
        try:
            shown._mine()
            code = 0 if compiled(41) == 42 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(tmp_path.rglob("*.nbi")), "and stores it"
