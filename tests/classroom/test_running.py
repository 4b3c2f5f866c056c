"""What a crash leaves behind: processes, files, a port. The pieces; test_crashes.py has whole classrooms."""

import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

running = pytest.importorskip("tcemu.classroom.running", reason="needs psutil, of the extra classroom")

from tcemu.classroom import settings  # noqa: E402
from tcemu.classroom.settings import Classroom  # noqa: E402
from tcemu.course.keeping import keep  # noqa: E402
from tcemu.errors import CourseError  # noqa: E402

SECRET = "0123456789abcdef" * 4
WAITS = [sys.executable, "-c", "print(flush=True); import time; time.sleep(3600)"]


@contextmanager
def process(**environment):
    """A process that waits."""
    with subprocess.Popen(WAITS, env=environment, stdout=subprocess.PIPE) as started:
        started.stdout.readline()  # its environment is its own only from here on
        try:
            yield started
        finally:
            started.kill()


# ---- processes


def test_only_processes_of_this_classroom_are_ended(tmp_path):
    here, other = tmp_path / "here", tmp_path / "other"
    (tmp_path / "link").symlink_to(here)
    with (
        process(**{running.MARK: running.mark(tmp_path / "link")}) as mine,
        process(**{running.MARK: running.mark(other)}) as neighbour,
        process(NOTE=f"{running.MARK}={here}") as stranger,
    ):
        assert running.end(here) == 1
        assert mine.wait(600) is not None
        assert (neighbour.poll(), stranger.poll(), running.end(here)) == (None, None, 0)


def test_one_folder_holds_one_classroom_that_runs(tmp_path, monkeypatch):
    with running.alone(tmp_path):
        monkeypatch.setattr(running, "_ENDS", 0)
        with pytest.raises(CourseError, match="is running already; stop that one first"), running.alone(tmp_path):
            pass
    with running.alone(tmp_path):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    says = r"cannot make a classroom in .* a new one, for example"
    with pytest.raises(CourseError, match=says), running.alone(tmp_path / "file"):
        pass


@pytest.mark.parametrize("hub", ["import sys; sys.exit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_a_hub_that_ends_by_itself_is_not_silent(tmp_path, hub):
    (tmp_path / "hub").mkdir()
    with pytest.raises(CourseError, match=r"ended by itself \((code 3|signal 9)\); .* run the same command again"):
        running.watch(tmp_path, [sys.executable, "-c", hub], os.environ)


#: A hub that leaves a process of its own, and one that does not listen. Both press Ctrl + C.
LEAVES = f"""
import os, subprocess, time
subprocess.Popen({WAITS!r})
os.kill(os.getppid(), 2)
time.sleep(3600)
"""
DEAF = """
import os, signal, time
signal.signal(15, lambda *_: os.kill(os.getppid(), 2))
os.kill(os.getppid(), 2)
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("hub", [LEAVES, DEAF], ids=["leaves a process", "deaf"])
def test_ctrl_c_ends_everything(tmp_path, hub):
    (tmp_path / "hub").mkdir()
    said = []
    running.watch(tmp_path, [sys.executable, "-c", hub], os.environ, said.append)
    assert said[-1] == "The classroom is stopped."
    assert running.left(tmp_path) == []


def test_a_number_of_a_process_in_the_database_is_not_believed():
    spawner = pytest.importorskip("tcemu.classroom.spawner").BoxedSpawner()
    spawner.load_state({"pid": os.getpid()})
    assert spawner.pid == 0


# ---- the port


def test_a_port_that_something_else_holds(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        says = rf"cannot listen on 127.0.0.1, port {port}: Address already in use \(by .*process {os.getpid()}\)"
        with pytest.raises(CourseError, match=says):
            running.check_port("127.0.0.1", port)
    running.check_port("127.0.0.1", port)


@pytest.mark.parametrize("address", ["192.0.2.1", "no-such-name.invalid"])  # addresses for documentation
def test_an_address_that_is_not_this_machine_s(address):
    with pytest.raises(CourseError, match=f"cannot listen on {address}, port 8000: .*or --address"):
        running.check_port(address, 8000)


# ---- files


def base(path: Path, *, version: bool = True) -> None:
    """A database as JupyterHub makes it, as far as it matters here."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE users (name TEXT)")
        made.executemany("INSERT INTO users VALUES (?)", [(f"learner {number}" * 50,) for number in range(500)])
        if version:
            made.execute("CREATE TABLE alembic_version (version_num TEXT)")
            made.execute("INSERT INTO alembic_version VALUES ('4621fec11365')")
        made.commit()


def test_what_is_whole_stays(tmp_path):
    base(tmp_path / "hub.sqlite")
    (tmp_path / "cookie-secret").write_text(SECRET + "\n")
    before = (tmp_path / "hub.sqlite").read_bytes()
    assert running.mend(tmp_path) == []
    assert (tmp_path / "hub.sqlite").read_bytes() == before
    assert (tmp_path / "cookie-secret").read_text() == SECRET + "\n"
    assert oct((tmp_path / "cookie-secret").stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize("part", [0.001, 0.3, 0.7, 0.99])
def test_half_a_database_is_set_aside_with_its_journal(tmp_path, part):
    base(path := tmp_path / "hub.sqlite")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    (tmp_path / "hub.sqlite-journal").write_bytes(b"half")
    (said,) = running.mend(tmp_path)
    assert "is now hub.sqlite.damaged-1: everybody has to log in again. Passwords, work" in said
    assert [each.name for each in tmp_path.iterdir()] == ["hub.sqlite.damaged-1"]
    path.write_bytes(b"no database" * 1000)
    assert "hub.sqlite.damaged-2" in running.mend(tmp_path)[0]


def test_a_database_without_a_version_is_set_aside_and_an_empty_one_is_not(tmp_path):
    base(tmp_path / "hub.sqlite", version=False)
    assert len(running.mend(tmp_path)) == 1
    (tmp_path / "hub.sqlite").touch()
    assert running.mend(tmp_path) == []


@pytest.mark.parametrize("text", ["", "\n", SECRET[:-1], "g" * 64, "\0" * 64])
def test_a_key_of_cookies_that_the_hub_would_refuse(tmp_path, text):
    (tmp_path / "cookie-secret").write_text(text)
    (said,) = running.mend(tmp_path)
    assert "cookie-secret was damaged: everybody has to log in again" in said
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_hub_that_was_killed_do_not_reach_the_next(tmp_path):
    for name in ("routes.toml", "proxy.toml"):
        (tmp_path / name).write_text("stale")
    assert running.mend(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["", "{", "null", "[]", '{"folder": "x"}', "\0" * 300, "[" * 100_000])
def test_settings_survive_in_their_copy(tmp_path, damage):
    Classroom(tmp_path, "abcdefgh", "x" * 32).save()
    (tmp_path / "hub" / settings.SETTINGS).write_text(damage)
    assert settings.load(tmp_path).password == "abcdefgh"  # noqa: S105 - of no classroom
    (tmp_path / "hub" / settings.COPY).write_text(damage)
    with pytest.raises(CourseError, match=r"settings.json is damaged .* and so is its copy. Delete it to start"):
        settings.load(tmp_path)


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    keep(tmp_path / "file", "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        keep(tmp_path / "file", "new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "old")]


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_what_is_kept_is_its_owner_s(tmp_path, umask):
    before = os.umask(umask)
    try:
        keep(tmp_path / "grades" / "feedback" / "ada.html", "7 of 9")
    finally:
        os.umask(before)
    places = [tmp_path / "grades", tmp_path / "grades" / "feedback", tmp_path / "grades" / "feedback" / "ada.html"]
    assert [oct(place.stat().st_mode)[-3:] for place in places] == ["700", "700", "600"]
