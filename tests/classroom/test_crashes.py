"""Whole classrooms that crash at any moment: the next start has the old passwords, everybody's work, and no leftovers.

Needs JupyterHub and its proxy (the extra `classroom`) and bubblewrap (Debian: apt-get install bubblewrap).
"""

import os
import random
import re
import shutil
import signal
import time
from contextlib import suppress
from importlib.util import find_spec

import pytest
from quick import THOROUGH, spread, turn
from school import PASSWORD, free_port, started, wait_for

NEEDS = {
    "the extra classroom": find_spec("jupyterhub") and find_spec("jupyterhub_traefik_proxy"),
    "bubblewrap": shutil.which("bwrap"),
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(NEEDS.values()), reason=f"needs {[name for name, there in NEEDS.items() if not there]}"),
]
#: Each takes minutes; one crash, every day another one, is tried by every run.
long = pytest.mark.skipif(not THOROUGH, reason="takes minutes: only with --thorough")
WORK = "the work of a whole afternoon"
#: The processes of a classroom, by words of their command lines.
PARTS = {"command": "tcemu classroom", "hub": "-m jupyterhub", "proxy": "traefik", "service": "classroom.service",
         "server": "bwrap"}  # fmt: skip
#: Moments of a start, in their order: the first file or process that is there.
MOMENTS = ("nothing", "lock", "settings.json", "hub", "cookie-secret", "hub.sqlite", "routes.toml", "proxy", "service")

#: Exit codes after Ctrl + C: it stopped, had not begun, or was still loading.
SANE = (0, 1, 130)


class Class:
    """One folder and one port, in which a classroom is started again and again."""

    def __init__(self, folder):
        self.folder, self.port, self.log = folder, free_port(), folder.parent / "log"
        self.url, self.process, self.before = f"http://127.0.0.1:{self.port}", None, []

    def start(self, *options):
        """Start it without waiting, not even for the end of the one before."""
        self.before.append(self.process)
        self.process = started(self.folder, "--address=127.0.0.1", f"--port={self.port}", *options)

    def answers(self):
        """Wait until it answers; before it says where it is, it ends what still answers from the start before."""
        while "Stop it with Ctrl + C" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        wait_for(f"{self.url}/services/classroom/static/classroom.css", self.process, self.log)

    def processes(self, *parts):
        """Those that run, of these parts."""
        import psutil

        from tcemu.classroom.running import left

        found = left(self.folder)
        if self.process and self.process.poll() is None:
            found.append(psutil.Process(self.process.pid))
        words = [PARTS[part] for part in parts or PARTS]
        lines = []
        for each in found:
            try:
                lines.append((each, " ".join(each.cmdline())))
            except psutil.Error:
                continue
        return [each for each, line in lines if any(word in line for word in words)]

    def kill(self, *parts):
        found = self.processes(*parts)
        assert found or not parts
        random.shuffle(found)
        for each in found:
            try:
                each.kill()
            except Exception:  # noqa: BLE001, S112 - it ended with another one
                continue

    def reached(self, moment):
        if moment in PARTS:
            return bool(self.processes(moment))
        return moment == "nothing" or (self.folder / "hub" / moment).exists()

    def loading(self):
        """Whether Python is through with its own start, in which nobody can catch Ctrl + C, and loads the package."""
        import psutil

        with suppress(psutil.Error):
            return any("numpy" in each.path for each in psutil.Process(self.process.pid).memory_maps())
        return False

    def wait(self, moment):
        for _ in range(60_000):
            if self.loading() and self.reached(moment):
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.01)
        pytest.fail(f"{moment} never came\n{self.log.read_text()}")

    def learner(self, password=PASSWORD):
        """What ann's server says is in her file; None if she cannot log in."""
        import requests

        with requests.Session() as asked:
            page = asked.get(f"{self.url}/hub/login", timeout=600).text
            token = re.findall(r'name="_xsrf" value="([^"]+)"', page)[0].replace("&#x3D;", "=")
            data = {"username": "ann", "password": password, "_xsrf": token}
            asked.post(f"{self.url}/hub/login", data=data, timeout=600)
            for _ in range(1200):
                page = asked.get(f"{self.url}/user/ann/lab", timeout=600)  # which shows ann to her server
                if "/hub/login" in page.url:
                    return None
                answer = asked.get(f"{self.url}/user/ann/api/contents/work.txt", timeout=600)
                if answer.status_code == 200:
                    return answer.json()["content"]
                time.sleep(0.5)
        pytest.fail(f"ann's server does not answer\n{self.log.read_text()}")

    def stop(self):
        """Ctrl + C; the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return [each.wait(1200) for each in (*self.before, self.process) if each][-1]


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A classroom in which ann has worked, and which stopped as it should."""
    made = Class(tmp_path_factory.mktemp("crashes") / "class")
    try:
        made.start(f"--password={PASSWORD}")
        made.answers()
        home = made.folder / "learners" / "ann"
        home.mkdir(mode=0o700)
        (home / "work.txt").write_text(WORK)
        if os.geteuid() == 0:  # as the hub leaves a home, whose owner is the learner
            from tcemu.classroom.box import user_for

            owner = user_for(home, root=True)
            os.chown(home / "work.txt", owner, owner)
        assert made.learner() == WORK
        assert made.stop() == 0
        yield made
    finally:
        made.kill()
        made.process.wait(1200)


def as_before(room):
    """Start it again, without its password: it has the old one, and everybody's work."""
    room.start()
    room.answers()
    assert room.learner("not-the-password") is None
    assert room.learner() == WORK


#: What is killed together; nothing named is everything.
KILLED = [(), ("hub",), ("command",), ("command", "hub"), ("hub", "proxy"), ("hub", "service", "server")]


@pytest.mark.parametrize(
    "parts",
    spread(KILLED, 6, first=turn(6)),
    ids=lambda parts: " and ".join(parts) or "everything",
)
def test_the_next_start_goes_on_after_a_kill(room, parts):
    as_before(room)
    room.kill(*parts)
    as_before(room)
    assert len(room.processes("proxy")) == len(room.processes("service")) == 1
    assert room.stop() == 0
    assert room.processes() == []
    assert "Traceback" not in room.log.read_text()


@long
def test_the_hub_starts_its_proxy_and_its_service_again(room):
    as_before(room)
    for part in ("proxy", "service"):
        (before,) = room.processes(part)
        before.kill()
        for _ in range(6000):
            found = room.processes(part)
            if found and before not in found:
                break
            time.sleep(0.1)
        room.answers()
    assert room.learner() == WORK
    assert room.stop() == 0
    assert "Traceback" not in room.log.read_text()


@long
def test_files_that_a_power_loss_cut_off(room):
    hub = room.folder / "hub"
    as_before(room)
    room.kill()
    for name in ("settings.json", "hub.sqlite", "routes.toml", "proxy.toml", "cookie-secret"):
        content = (hub / name).read_bytes()
        (hub / name).write_bytes(content[: len(content) // 3])
    (hub / "hub.sqlite-journal").write_bytes(b"\0" * 700)
    as_before(room)
    assert "hub.sqlite was damaged, and is now" in room.log.read_text()
    assert room.stop() == 0


@long
def test_empty_files(room):
    for name in ("settings.json", "hub.sqlite", "routes.toml", "proxy.toml", "cookie-secret"):
        (room.folder / "hub" / name).write_bytes(b"")
    as_before(room)
    assert room.stop() == 0


@long
@pytest.mark.parametrize("how", ["Ctrl + C", "kill -9"])
def test_any_moment_of_a_start(room, how):
    for moment in MOMENTS:
        room.start()
        room.wait(moment)
        if how == "kill -9":
            room.kill()
            continue
        assert room.stop() in SANE, moment
        said = room.log.read_text()
        assert "Traceback" not in said, (moment, said)
        assert room.processes() == [], moment
    as_before(room)
    assert room.stop() == 0


@long
@pytest.mark.parametrize("how", ["Ctrl + C", "kill -9"])
def test_any_moment_of_the_first_start(tmp_path, how):
    for number, moment in enumerate(MOMENTS):
        room = Class(tmp_path / str(number) / "class")
        room.folder.parent.mkdir()
        room.start(f"--password={PASSWORD}")
        room.wait(moment)
        if how == "kill -9":
            room.kill()
        else:
            assert room.stop() in SANE, moment
            assert "Traceback" not in room.log.read_text(), moment
        room.start(f"--password={PASSWORD}")
        room.answers()
        assert room.stop() == 0
        assert room.processes() == []


@long
def test_a_second_start_leaves_the_first_alone(room):
    as_before(room)
    first, log = room.process, room.log.read_text()
    second = started(room.folder)
    assert second.wait(1200) == 2
    assert "is running already; stop that one first" in room.log.read_text()
    room.log.write_text(log)
    assert first.poll() is None
    assert room.learner() == WORK
    assert room.stop() == 0
