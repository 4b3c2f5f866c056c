"""Windows: what Python has on other systems only, by the stubs that mypy brings, is used only where a guard is.

Nothing here runs on Windows. The grader and the classroom, which need Linux, say so.
"""

from __future__ import annotations

import ast
import io
import sys
from pathlib import Path

import mypy
import pytest
from click.testing import CliRunner

from tcemu.__main__ import main
from tcemu.cli import commands
from tcemu.cuda.magic import _words
from tcemu.cuda.program import run_program
from tcemu.errors import CourseError, TcemuError
from tcemu.machine.events import Site
from tcemu.timing.counters import brief

ROOT = Path(__file__).parents[2] / "tcemu"
STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
#: Rooms of commands that refuse Windows; Python's own modules that the package may use.
LINUX = {"grade", "classroom"}
MODULES = "os", "signal", "select", "time", "socket", "resource", "fcntl", "pwd", "grp", "termios", "pty", "syslog"
#: Uses behind `sys.platform` or `hasattr`, by file.
GUARDED = {
    "child.py": {"fcntl.fcntl", "fcntl.F_SETPIPE_SZ"},
    "cli.py": {"os.geteuid"},
    "commands/live.py": {"os.sched_getaffinity"},
    "commands/warm.py": {"signal.pthread_sigmask", "signal.SIG_BLOCK", "signal.SIG_SETMASK"},
    "kernels/host/threads.py": {"os.register_at_fork", "os.sched_getaffinity"},
}


def elsewhere(module: str) -> set[str]:
    """The names that a module of Python has, but not on Windows."""
    path = STUBS / f"{module}.pyi"
    path = path if path.is_file() else STUBS / module / "__init__.pyi"
    names, everywhere = set(), set()

    def collect(statements: list[ast.stmt], windows: bool) -> None:
        for each in statements:
            match each:
                case ast.If():
                    asked = ast.unparse(each.test)
                    lacks = "sys.platform != 'win32'" in asked or "sys.platform == 'linux'" in asked
                    collect(each.body, windows and not lacks)
                    collect(each.orelse, windows and "sys.platform == 'win32'" not in asked)
                case ast.FunctionDef() | ast.ClassDef():
                    (everywhere if windows else names).add(each.name)
                case ast.AnnAssign(ast.Name(name)):
                    (everywhere if windows else names).add(name)
                case ast.ImportFrom():
                    (everywhere if windows else names).update(part.asname or part.name for part in each.names)

    collect(ast.parse(path.read_text(encoding="utf-8")).body, windows=True)
    return {f"{module}.{name}" for name in names - everywhere}


def used(source: str) -> set[str]:
    """The attributes of modules in a source: `os.fork`."""
    nodes = ast.walk(ast.parse(source))
    return {f"{node.value.id}.{node.attr}" for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}  # fmt: skip


LACKS = set().union(*map(elsewhere, MODULES))


@pytest.mark.parametrize("name", ["os.fork", "os.geteuid", "signal.SIGALRM", "select.poll", "resource.setrlimit"])
def test_the_stubs_say_what_windows_lacks(name):
    assert name in LACKS
    assert used(f"{name}()") & LACKS == {name}


@pytest.mark.parametrize("name", ["os.replace", "os.kill", "signal.SIGINT", "select.select", "time.monotonic"])
def test_the_stubs_say_what_windows_has(name):
    assert name not in LACKS


@pytest.mark.slow
def test_nothing_else_needs_another_system():
    paths = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}
    found = {
        name: needs
        for name, path in paths.items()
        if name.split("/")[0] not in LINUX and (needs := used(path.read_text(encoding="utf-8")) & LACKS)
    }
    assert found == GUARDED


def test_the_grader_says_that_it_needs_linux(tmp_path, monkeypatch):
    monkeypatch.setattr("tcemu.commands.grade.sys.platform", "win32")
    done = CliRunner().invoke(commands, ["grade", str(tmp_path), "--out", str(tmp_path / "out")])
    with pytest.raises(CourseError, match=r"needs Linux: .* a box of bubblewrap\. On Windows, run it in WSL"):
        raise done.exception


def test_a_program_says_that_it_needs_linux(monkeypatch):
    monkeypatch.setattr("tcemu.cuda.program.build.sys.platform", "win32")
    with pytest.raises(TcemuError, match=r"a program with main\(\) runs on Linux only(.|\n)*tcemu\.cuda\.compile"):
        run_program(["scale.cu"])


def test_a_line_is_brief_without_the_folders_of_windows():
    assert brief(Site(r"C:\My work\gemm.py", 7, "gemm")) == brief("C:/My work/gemm.py:7") == "gemm.py:7"


def test_a_cell_names_folders_as_windows_does():
    assert _words(r"""-I "C:\My work" -DX='a b' # y""", windows=True) == ["-I", r"C:\My work", "-DX=a b", "#", "y"]
    assert _words(r"""-I "/my work" -I /my\ work""", windows=False) == ["-I", "/my work", "-I", "/my work"]
    with pytest.raises(ValueError, match="No closing quotation"):
        _words('-I "C:', windows=True)


def test_a_file_that_lacks_a_letter_gets_the_rest(tmp_path, monkeypatch):
    """Output that goes to a file or a pipe has the encoding of Windows' language."""
    file = tmp_path / "日本.ptx"
    file.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.entry f() { ret; }\n", encoding="utf-8")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "cp1252", write_through=True))
    monkeypatch.setattr(sys, "argv", ["tcemu", "ptx", str(file)])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, b"??.ptx: 1 kernel" in written.getvalue()) == (0, True)
