"""What code in the box can reach, and what it can take."""

import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from boxed import HONEST, LIMITS, Probe, marks, needs_box
from handed import notebook
from places import ROOT
from rows import rows

import tcemu
from tcemu.grade import box, cgroups, room, scales
from tcemu.grade.box import BoxEnded, BoxKilled, Seat, check_box
from tcemu.grade.records import Submission
from tcemu.grade.room import BoxUnavailable
from tcemu.grade.scales import in_files, resident
from tcemu.grade.work import Task
from tcemu.grade.worker import Worker

pytestmark = needs_box


@pytest.fixture(scope="module")
def inside():
    probe = Probe()
    yield probe
    probe.box.end()


REFUSED = {"PermissionError", "OSError"}
READS = "try: X = {}\nexcept OSError as error: X = type(error).__name__"
SOCKET = "import socket\ntry: X = {}\nexcept OSError as error: X = 'refused'"


@rows(
    "what, source, found",
    [
        ("solutions", READS.format(f"open({str(ROOT / 'solutions' / '02_fragments.ipynb')!r}).read()"),
         "FileNotFoundError"),
        ("tests", READS.format(f"__import__('os').listdir({str(ROOT / 'tests')!r})"), "FileNotFoundError"),
        ("rows", "import os, tcemu\nX = os.listdir(os.path.dirname(tcemu.__file__) + '/course')", []),
        ("the judges", "try: import tcemu.course.judges\nexcept ImportError: X = 'absent'", "absent"),
        ("the grader", "import os, tcemu\nX = sorted(os.listdir(os.path.dirname(tcemu.__file__) + '/grade'))",
         ["__init__.py", "inside"]),
        ("passwords", READS.format("open('/etc/passwd').read()"), "FileNotFoundError"),
        ("the environment", "import os\nX = sorted(set(os.environ) & {'SECRET_OF_THE_GRADER', 'USER'})", []),
        ("the first process's", READS.format("b'SECRET_OF_THE_GRADER' in open('/proc/1/environ', 'rb').read()"),
         {False, "PermissionError"}),
        ("other processes", "import os\nX = len([each for each in os.listdir('/proc') if each.isdigit()]) < 5", True),
        ("writing the package", READS.format("open(__import__('tcemu').__file__, 'a')"), REFUSED),
        ("writing compiled kernels", "import os, tcemu\nplace = os.path.dirname(tcemu.__file__) + '/kernels/x.nbi'\n"
         + READS.format("open(place, 'w')"), REFUSED),
        ("writing the root", READS.format("open('/x', 'w')"), REFUSED),
        ("writing where it may", READS.format("open('/tmp/x', 'w').write('12')"), 2),
        ("the internet", SOCKET.format("socket.create_connection(('1.1.1.1', 53), 2)"), "refused"),
        ("a packet socket", SOCKET.format("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"), "refused"),
        ("devices", "import os\nX = sorted(os.listdir('/dev'))", ["full", "null", "random", "urandom", "zero"]),
        ("pages lent to a pipe", ("import ctypes, os\nr, w = os.pipe()\n"
         "X = ctypes.CDLL(None).vmsplice(w, (ctypes.c_size_t * 2)(id(w), 1), 1, 0)"), -1),
        ("clearing the disk's cache", "import ctypes\nX = ctypes.CDLL(None).syncfs(0)", -1),
        ("a lock of a whole file", READS.format("__import__('fcntl').flock(open('/tmp/l', 'w'), 2)"), None),
        ("mounting", "import ctypes\nX = ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None)", -1),
        ("a large file", ("try:\n    with open('/tmp/large', 'wb') as file:\n        file.truncate(1 << 40)\n"
         "except OSError: X = 'too large'"), "too large"),
        ("many files", ("import os\ntry:\n    for n in range(20): open(f'/tmp/{n}', 'wb').write(bytes(8 << 20))\n"
         "except OSError: X = 'full'\nfor n in range(20):\n    if os.path.exists(f'/tmp/{n}'): os.remove(f'/tmp/{n}')"),
         "full"),
        ("memory", "try: bytearray(2 << 30)\nexcept MemoryError: X = 'refused'", "refused"),
        ("many processes", ("import os, time\nX = 0\nchildren = []\ntry:\n    for X in range(1000):\n"
         "        child = os.fork()\n        if not child: time.sleep(60)\n        children.append(child)\n"
         "except OSError: pass\nfor child in children: os.kill(child, 9), os.waitpid(child, 0)"),
         range(1, LIMITS.processes)),
        (".pth files", "import sys\nX = 'site' in sys.modules", False),
        ("a core of it", "import resource\nX = resource.getrlimit(resource.RLIMIT_CORE)[1]", 1),
        ("root's rights", "X = [line for line in open('/proc/self/status') if line.startswith('CapEff')][0].split()[1]",
         "0000000000000000"),
    ],
    lambda what, source, found: what,
)  # fmt: skip
def test_what_it_reaches(what, source, found, inside):
    held = inside.finds(source)
    assert held in found if isinstance(found, set | range) else held == found


def test_what_others_on_the_machine_have_is_out_of_reach(inside, tmp_path):
    """Each of these works outside, or the test would show nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        tempfile.NamedTemporaryFile(dir=Path.home()) as at_home,
    ):
        abstract.bind(f"\0tcemu-{os.getpid()}")
        named.bind(str(tmp_path / "socket"))
        abstract.listen()
        named.listen()
        (tmp_path / "file").write_text("secret", encoding="utf-8")
        for what in (
            f"socket.create_connection({server.getsockname()!r}, 2)",
            f"socket.socket(socket.AF_UNIX).connect({abstract.getsockname().decode()!r})",
            f"socket.socket(socket.AF_UNIX).connect({named.getsockname()!r})",
            f"open({str(tmp_path / 'file')!r})",
            f"open({at_home.name!r})",
            f"os.kill({os.getpid()}, 0)",
        ):
            source = f"import os, socket\ntry:\n    {what}\n    X = 'reached'\nexcept OSError: X = 'refused'"
            outside = subprocess.check_output([sys.executable, "-W", "ignore", "-c", f"{source}\nprint(X)"], text=True)
            assert (outside, inside.finds(source)) == ("reached\n", "refused"), what


@pytest.fixture(autouse=True, scope="module")
def secret():
    """A variable of the grader's, which no box may have. The fixture `inside` starts after it."""
    os.environ["SECRET_OF_THE_GRADER"] = "42"  # noqa: S105 - it is none
    yield
    del os.environ["SECRET_OF_THE_GRADER"]


def test_it_ends_with_all_of_its_processes():
    probe = Probe()
    probe.finds("import os, time\nfor _ in range(3):\n    if not os.fork():\n        os.setsid(); time.sleep(60)")
    process = probe.box._process.pid
    assert resident(process) > 1 << 20
    probe.box.end()
    assert resident(process) == 0
    assert probe.box._process.returncode == -9


@pytest.fixture(params=["a cgroup", "scales"])
def weighed(request, monkeypatch):
    """By the kernel, where it lets the grader make a cgroup, and by the grader."""
    if request.param == "scales":
        monkeypatch.setattr(box, "made", lambda memory: None)
    elif (group := cgroups.made(1 << 30)) is None:
        pytest.skip("this machine lets nobody make a cgroup")
    else:
        group.remove()


#: Memory that several processes share, of which each gives its pages back at once.
SHARED = """import mmap, os, time
for _ in range(4):
    shared = mmap.mmap(-1, 150 << 20)
    for start in range(0, 150 << 20, 1 << 20):
        shared[start : start + (1 << 20)] = b"x" * (1 << 20)
    shared.madvise(mmap.MADV_DONTNEED)
    if not os.fork():
        time.sleep(60)
    shared.close()
time.sleep(60)"""


def test_shared_memory_is_weighed_whole(weighed):
    probe = Probe(Seat(limits=box.Limits(memory=500 << 20, cell=20)))
    with pytest.raises(BoxEnded, match="more than 500 MB of memory"):
        probe.finds(SHARED)
    probe.box.end()


def test_a_box_that_somebody_else_kills_is_no_end_of_its_own():
    probe = Probe()
    family = list(scales._family(probe.box._process.pid))
    probe.box._process.kill()
    while any(map(resident, family)):
        time.sleep(0.01)
    with pytest.raises(BoxKilled):
        probe.finds("X = 1")
    with pytest.raises(BoxKilled):
        probe.box.check_alive()
    probe.box.end()


def test_time_is_what_it_computes_not_what_passes():
    probe = Probe()
    probe.box.allow(2)
    probe.box.send(["cell", "import time; time.sleep(3)", "probe"])
    assert probe.box.receive()[:2] == ["ran", ""]
    probe.box.allow(1)
    probe.box.send(["cell", "while True: pass", "probe"])
    with pytest.raises(BoxEnded, match="time"):
        probe.box.receive()
    assert 1 < probe.box.used < 60
    probe.box.end()


def test_what_waits_for_ever_is_ended():
    probe = Probe()
    probe.box.allow(0.1)
    probe.box.send(["cell", "import time; time.sleep(3600)", "probe"])
    with pytest.raises(BoxEnded, match="waits"):
        probe.box.receive()
    probe.box.end()


def test_what_many_processes_hold_together_is_limited(weighed):
    probe = Probe(Seat(limits=box.Limits(memory=500 << 20, cell=20)))
    with pytest.raises(BoxEnded, match="more than 500 MB of memory"):
        probe.finds("import os, time\nfor _ in range(4):\n    if not os.fork():\n        held = b'x' * (150 << 20)\n"
                    "        time.sleep(60)\ntime.sleep(60)")  # fmt: skip
    probe.box.end()


def test_what_comes_too_late_is_not_read():
    """Or a box that sends without end would have more time than others."""
    probe = Probe()
    probe.box.send(["value", "X"])
    select.select([probe.box._out], [], [])
    probe.box.most = probe.box._looks = 0.0
    with pytest.raises(BoxEnded, match="time"):
        probe.box.receive()
    probe.box.end()


def test_it_is_weighed_while_nobody_waits_for_it(monkeypatch):
    monkeypatch.setattr(box, "made", lambda memory: None)
    probe = Probe(Seat(limits=box.Limits(memory=500 << 20)))
    probe.finds("import os, time\nfor _ in range(4):\n    if not os.fork():\n        time.sleep(0.2)\n"
                "        held = b'x' * (150 << 20)\n        time.sleep(60)")  # fmt: skip
    until = time.monotonic() + 20
    while not probe.box.trouble and time.monotonic() < until:
        time.sleep(0.05)
    assert probe.box.trouble == "It uses more than 500 MB of memory."
    probe.box.end()


def test_without_a_box_the_files_of_this_machine_are_not_weighed():
    probe = Probe(Seat(trusted=True, limits=box.Limits(memory=1 << 30)))
    found = probe.finds("import subprocess, time\nchild = subprocess.Popen(['sleep', '60'])\ntime.sleep(1)\n"
                        "child.kill()\nX = child.wait()")  # fmt: skip
    assert (found, probe.box.trouble) == (-9, "")
    probe.box.end()


def test_files_in_memory_are_weighed_with_their_inodes(inside):
    process = inside.box._process.pid
    before = in_files(process, room.TMP)
    inside.finds("import os\nopen('/tmp/large', 'wb').write(bytes(8 << 20))\nos.mkdir('/tmp/many')\n"
                 "for n in range(2000): os.symlink('x', f'/tmp/many/{n}')")  # fmt: skip
    assert in_files(process, room.TMP) - before >= (8 << 20) + 2000 * 1024
    inside.finds("import shutil\nos.remove('/tmp/large')\nshutil.rmtree('/tmp/many')")


def test_a_machine_without_memory_ends_boxes_first(inside):
    assert inside.finds("X = open('/proc/self/oom_score_adj').read()") == "1000\n"


def test_without_bubblewrap_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BoxUnavailable, match=r"apt-get install bubblewrap.*--trusted"):
        check_box()


def test_where_namespaces_are_forbidden_it_says_what_to_set(tmp_path, monkeypatch):
    refuses = tmp_path / "bwrap"
    refuses.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BoxUnavailable, match=r"No permissions.*kernel.unprivileged_userns_clone"):
        check_box()


@pytest.mark.slow
def test_a_box_does_not_outlive_its_grader():
    source = (
        "import sys\nfrom boxed import Probe\nprobe = Probe()\nprint(probe.box._process.pid, flush=True)\n"
        "probe.finds('import time; time.sleep(100)')"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "grade")])
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as grader:
        box_process = int(grader.stdout.readline())
        grader.kill()
    for _ in range(100):
        if not resident(box_process):
            return
        time.sleep(0.05)
    raise AssertionError("the box is still there")


def test_a_checkout_below_tmp_is_in_the_box(tmp_path):
    """The box has its own /tmp, which must not hide the package."""
    place = Path(tempfile.mkdtemp(prefix="tcemu-", dir="/tmp"))
    try:
        shutil.copytree(Path(tcemu.__file__).parent, place / "tcemu", ignore=shutil.ignore_patterns("__pycache__"))
        source = "import tcemu\nfrom tcemu.grade.box import check_box\ncheck_box()\nprint(tcemu.__file__)"
        told = subprocess.run([sys.executable, "-c", source], env={**os.environ, "PYTHONPATH": str(place)}, cwd=place,
                              check=True, capture_output=True, text=True).stdout  # fmt: skip
        assert told.startswith(str(place))
    finally:
        shutil.rmtree(place)


@pytest.mark.slow
def test_a_box_that_does_not_start_marks_nobody(monkeypatch):
    monkeypatch.setattr(room, "path", list)
    with pytest.raises(BoxUnavailable, match=r"nothing can be marked: .*No module named 'tcemu'"):
        marks(HONEST)


@pytest.mark.slow
def test_a_worker_whose_boxes_do_not_start_says_so(tmp_path, monkeypatch):
    refuses = tmp_path / "bwrap"
    refuses.write_text("#!/bin/sh\necho 'bwrap: no space left' >&2\nexit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    worker = Worker()
    with pytest.raises(BoxUnavailable, match="no space left"):
        worker.grade(Task(Submission("ada", "ada", {"02_fragments": notebook(HONEST)}), ("02_fragments",)))
    worker.close()


def test_compiled_kernels_may_be_kept_elsewhere(tmp_path):
    """Only pytest's user may enter its folder, and the box's user has to pass through it."""
    place = tmp_path / "kernels"
    place.mkdir(mode=0o755)
    (place / "kept").write_text("12")
    probe = Probe(Seat(limits=LIMITS, cache=str(place)))
    place = "os.environ['TCEMU_KERNEL_CACHE']"
    assert probe.finds(f"import os\nX = open({place} + '/kept').read()") == "12"
    assert probe.finds("import os\n" + READS.format(f"open({place} + '/more', 'w')")) in REFUSED
    probe.box.end()


#: Timers that nobody stops, and what they do: end the process, or raise an error wherever Python is.
LEFT_RUNNING = """
import signal
def late(*_):
    raise RuntimeError("too late")
signal.signal(signal.SIGALRM, {handler})
signal.setitimer(signal.ITIMER_REAL, 0.1)
"""
LATER = f"import time\ntime.sleep(0.5)\n{HONEST}\nfrom tcemu.course import check\ncheck(where_of_b)"


@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "late"])
def test_a_timer_ends_with_its_cell(handler):
    assert marks(LEFT_RUNNING.format(handler=handler), LATER)["where_of_b"].state == "right"
