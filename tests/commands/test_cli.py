"""The command line as a learner meets it: its output and its exit code, sometimes in a child process."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import tcemu
import tcemu.cli
from tcemu.course import FOLDERS, LEARNERS, RECORD, START, clone_around, files, overview, source

CANNOT = "tcemu: cannot lay the course out in"
ADVICE = "Give an empty folder that you may write to, or the name of a new one, for example: tcemu lab my-course\n"


def run(*arguments, cwd):
    """Run tcemu and return its exit code, output and errors."""
    wide = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "tcemu.cli", *arguments], cwd=cwd, env=wide, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def here(monkeypatch, capsys):
    """`run` in this process, as a process would end: it takes a hundredth of the time."""

    def run_here(*arguments, cwd, **environment):
        monkeypatch.delenv("COLUMNS", raising=False)  # where it is set, messages are wrapped
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["tcemu", *arguments])
        with pytest.raises(SystemExit) as end:
            tcemu.cli.main()
        return (end.value.code, *capsys.readouterr())

    return run_here


def test_version(tmp_path):
    code, out, _ = run("--version", cwd=tmp_path)
    assert (code, out) == (0, f"tcemu, version {tcemu.__version__}\n")


def test_the_package_runs_as_a_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tcemu", "isa", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: python -m tcemu isa ")


def check_help(text, columns):
    assert "...\n" not in text.replace("[WORD]...", "").replace("ARGS]...", "")
    assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_help_is_wrapped_and_not_cut(tmp_path, here, columns):
    for asked in ([], ["isa"], ["lab"], ["measure"], ["record"], ["verify"]):
        code, out, _ = here(*asked, "--help", cwd=tmp_path, COLUMNS=str(columns))
        assert code == 0
        check_help(out, columns)


def test_without_a_terminal_the_help_has_80_columns(tmp_path):
    code, out, _ = run("--help", cwd=tmp_path)
    assert code == 0
    check_help(out, 80)


def test_an_error_is_wrapped_between_words(tmp_path, here):
    opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f33"
    for columns in (60, 80, 120):
        _, _, err = here("isa", opcode, cwd=tmp_path, COLUMNS=str(columns))
        lines = err.splitlines()
        assert max(map(len, lines)) <= columns
        with pytest.raises(tcemu.TcemuError) as error:
            tcemu.parse(opcode)
        assert " ".join(lines) == f"tcemu: {error.value}", "no word is broken"


@pytest.mark.slow
def test_lab_lays_the_course_out_here_and_leaves_it_alone_the_second_time(tmp_path):
    said = f"The course is in {tmp_path} (files: {len(files(source()))} {{}}).\n{overview(tmp_path).summary}\n"
    assert run("lab", "--lay-out-only", cwd=tmp_path) == (0, said.format("laid out"), "")
    assert files(tmp_path) == files(source())
    assert (tmp_path / RECORD).is_file()
    assert (tmp_path / START).is_file()
    assert run("lab", "--lay-out-only", cwd=tmp_path) == (0, said.format("kept"), "")


def test_lab_says_what_was_laid_beside_the_learners_work(tmp_path, here):
    first = next(name for name in files(source()) if name.endswith("README.md"))
    (tmp_path / first).parent.mkdir()
    (tmp_path / first).write_text("mine", encoding="utf-8")
    code, out, _ = here("lab", "--lay-out-only", ".", cwd=tmp_path)
    beside = first.replace(".md", ".new.md")
    assert code == 0
    assert f"{first} is yours and stays as it is; the course's new version is {beside}.\n" in out
    assert (tmp_path / first).read_text(encoding="utf-8") == "mine"


@pytest.fixture
def clone(tmp_path):
    """What is recognised as a clone of the repository."""
    for name in ("tcemu", *FOLDERS):
        (tmp_path / name).mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "tcemu"', encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("cwd", "folder"), [(".", "."), ("notebooks", ".."), ("exercises", "."), ("tcemu", "..")])
def test_lab_opens_a_clone_that_is_named_in_place(clone, here, cwd, folder):
    code, out, _ = here("lab", "--lay-out-only", folder, cwd=clone / cwd)
    assert (code, out) == (0, f"This is a clone of the repository: opening the notebooks of {clone}.\n")
    assert not any(list((clone / name).iterdir()) for name in FOLDERS)


@pytest.mark.parametrize(("cwd", "folder"), [(".", []), ("notebooks", []), (".", ["my-course"]), (".", ["mine"])])
def test_lab_in_a_clone_lays_the_course_out_beside_it(clone, here, cwd, folder):
    """The clone's own notebooks stay as they are: to run one changes it."""
    place = clone / (folder[0] if folder else LEARNERS)
    code, out, _ = here("lab", "--lay-out-only", *folder, cwd=clone / cwd)
    assert code == 0
    assert out.splitlines()[0] == f"The course is in {place} (files: {len(files(source()))} laid out)."
    assert files(place) == files(source())
    assert not any(list((clone / name).iterdir()) for name in FOLDERS)


def test_git_ignores_the_learners_folder_and_the_readme_names_it():
    root = Path(tcemu.__file__).parents[1]
    assert f"/{LEARNERS}/" in (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"tcemu lab {LEARNERS}\n" in (root / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lab", "taken"], "tcemu: taken is a file, not a folder. " + ADVICE),
        (["lab", "taken/deeper"], f"{CANNOT} taken/deeper: taken/deeper: Not a directory. " + ADVICE),
        (["lab", "x" * 300], f"{CANNOT} {'x' * 300}: {'x' * 300}: File name too long. " + ADVICE),
        (["lab", "loop"], "tcemu: loop is a file, not a folder. " + ADVICE),
        (["lab", "theirs"], "(notebooks/thesis.ipynb). " + ADVICE),
        (["lab", "--prot", "8888"], "Error: No such option '--prot'. Did you mean '--port'?\n"),
        (["lab", "--port", "eight"], "Error: Invalid value for '--port': 'eight' is not a valid integer range.\n"),
        (["lab", "--port", "99999"], "Error: Invalid value for '--port': 99999 is not in the range 1<=x<=65535.\n"),
        (["lab", "here", "there"], "Error: Got unexpected extra argument (there)\n"),
        (["lba"], "Error: No such command 'lba'. Did you mean 'lab'?\n"),
    ],
)
def test_a_mistake_is_exit_code_2_and_a_sentence(tmp_path, here, arguments, message):
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "theirs" / "notebooks").mkdir(parents=True)
    (tmp_path / "theirs" / "notebooks" / "thesis.ipynb").touch()
    before = sorted(tmp_path.rglob("*"))
    code, out, err = here(*arguments, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err.endswith(message)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_mistake_ends_the_process_with_exit_code_2_and_no_traceback(tmp_path):
    (tmp_path / "taken").touch()
    code, out, err = run("lab", "taken", cwd=tmp_path)
    assert (code, out, err) == (2, "", "tcemu: taken is a file, not a folder. " + ADVICE)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], []),
        (["--no-browser", "--port", "9000"], ["--no-browser", "--port=9000"]),
        (["--", "--ServerApp.token=x", "--", "y"], ["--ServerApp.token=x", "--", "y"]),
        (["--no-browser", "sub", "--", "--collaborative"], ["--no-browser", "--collaborative"]),
    ],
)
def test_what_jupyter_lab_is_asked(tmp_path, monkeypatch, arguments, options):
    asked = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tcemu.cli, "open_lab", lambda *what: asked.append(what))
    monkeypatch.setattr(tcemu.cli, "warm_up", lambda: asked.append("warm") or "All is compiled.")
    done = CliRunner().invoke(tcemu.cli.commands, ["lab", *arguments])
    assert done.exit_code == 0, done.output
    opened = (Path("sub" if "sub" in arguments else "."), START, options)
    assert asked == ["warm", opened], "the kernels are compiled before the course opens"
    assert done.output.endswith("All is compiled.\n")
    CliRunner().invoke(tcemu.cli.commands, ["lab", "--no-warm", *arguments])
    assert asked[2:] == [opened]


def first_notebook():
    return next(name.removeprefix("notebooks/") for name in files(source()) if name.endswith(".ipynb"))


# The real JupyterLab --------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def served(folder, home):
    """Run ``tcemu lab --no-browser`` in `folder`, Jupyter's own folders in `home`; give a function that asks it."""
    port, token = free_port(), "first-light"
    jupyter = {f"JUPYTER{name}_DIR": str(home / name) for name in ("_CONFIG", "_DATA", "_RUNTIME", "LAB_WORKSPACES")}
    command = [sys.executable, "-m", "tcemu.cli", "lab", "--no-warm", "--no-browser", "--port", str(port)]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--", f"--IdentityProvider.token={token}", "--ServerApp.port_retries=0"],
            cwd=folder,
            env={**os.environ, **jupyter},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    def ask(path):
        address = f"http://127.0.0.1:{port}{path}"
        request = urllib.request.Request(address, headers={"Authorization": f"token {token}"})
        deadline = time.monotonic() + 600
        while True:
            try:
                with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310 - our own server
                    return answer.read().decode()
            except urllib.error.HTTPError:
                raise
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"JupyterLab does not answer; it said:\n{(home / 'log').read_text(encoding='utf-8')}")
                time.sleep(0.2)

    try:
        yield ask
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.mark.slow
def test_jupyterlab_opens_the_course_in_an_empty_folder(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "course"
    home.mkdir()
    folder.mkdir()
    with served(folder, home) as ask:
        there = {item["path"] for name in FOLDERS for item in json.loads(ask(f"/api/contents/{name}"))["content"]}
        assert there == {"/".join(name.split("/")[:2]) for name in files(source())}
        notebook = json.loads(ask(f"/api/contents/notebooks/{first_notebook()}"))
        assert notebook["type"] == "notebook"
        page = ask("/lab/tree/notebooks/" + first_notebook())
        assert '"appName": "JupyterLab"' in page
        assert "python3" in json.loads(ask("/api/kernelspecs"))["kernelspecs"]
    assert clone_around(folder) is None, "the folder was served because it was laid out, not as part of a clone"
