"""A learner's box cannot read other learners' files, can write only to its home, and has limits. With real boxes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from tcemu.classroom import box
from tcemu.classroom.box import UIDS, Box, installed, user_for
from tcemu.classroom.learner import link_kernels
from tcemu.classroom.settings import Kernels, Limits
from tcemu.errors import CourseError
from tcemu.grade.syscalls import NAMESPACES, opened

LIMITS = Limits(memory=512, processes=80, file=8)
ROOTED = os.geteuid() == 0
#: What of the repository no learner gets.
HIDDEN = ("solutions", "tests", "tools", ".git")
#: Whether this machine can make a box in which the learner keeps the user who runs the hub.
TRY = ["bwrap", "--ro-bind", "/", "/", "--unshare-user", "true"]
boxed = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap: apt-get install bubblewrap")


@pytest.fixture(params=["a user of their own", "the hub's user"])
def homes(request, tmp_path):
    """Two learners' boxes, in each of the two ways; bob has a secret."""
    rooted = request.param == "a user of their own"
    if rooted and not ROOTED:
        pytest.skip("needs root, as a hub that gives learners users of their own")
    if not rooted and subprocess.run(TRY, capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces, which this machine forbids")
    made = {}
    for name in ("ann", "bob"):
        home = tmp_path / "learners" / name
        made[name] = Box(name, home, LIMITS, user_for(home, rooted))
        (home / "secret.txt").write_text(f"{name}'s work")
        if rooted:
            os.chown(home / "secret.txt", made[name].uid, made[name].uid)
    return made


def run(made, script):
    """The output of a Python script in a box, which is started as the hub does it."""
    calls = opened(NAMESPACES)
    command = made.command(sys.executable, "-I", "-c", script, seccomp=calls)
    done = subprocess.run(command, pass_fds=[calls], capture_output=True, text=True, timeout=1800, check=False)
    os.close(calls)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@boxed
def test_neighbours_and_the_hub_are_out_of_reach(homes):
    ann, bob = homes["ann"], homes["bob"]
    places = [bob.home / "secret.txt", bob.inside, bob.home, "/etc/shadow", *(ROOT / name for name in HIDDEN)]
    script = f"""
import os
print([place for place in {[str(place) for place in places]} if os.path.exists(place)])
print(open("/classroom/ann/secret.txt").read(), sorted(os.listdir("/classroom")))
print(len([name for name in os.listdir("/proc") if name.isdigit()]) < 9, os.getuid() == {ann.uid or 1000})
for command in ("chmod 777 /usr/bin", "touch {ROOT}/tcemu/x", "mkdir /x", "touch /dev/x", "mount -t tmpfs x /usr"):
    print(os.system(command + " 2>/dev/null") != 0, end=" ")
"""
    assert run(ann, script).splitlines() == ["[]", "ann's work ['ann']", "True True", "True True True True True "[:-1]]


@boxed
def test_no_further_namespaces_and_all_that_jupyter_needs(homes):
    script = """
import asyncio, ctypes, os, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
refused = [libc.unshare(flag) for flag in (0x10000000, 0x40000000, 0x20000, 0x20000000, 0x8000000, 0x4000000, 0x80)]
clone = 56 if os.uname().machine == "x86_64" else 220
refused += [libc.syscall(clone, flag | 17, 0, 0, 0, 0) for flag in (0x10000000, 0x50000000)]
refused += [libc.syscall(435, bytes(88), 88), libc.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0)]
refused += [-1 if subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode else 0]
print(set(refused))
thread = threading.Thread(target=print, args=("a thread",))
thread.start(), thread.join()
print(socket.socketpair() and os.memfd_create("x") > 0, subprocess.run(["true"]).returncode)
asyncio.run(asyncio.sleep(0))
"""
    assert run(homes["ann"], script).splitlines() == ["{-1}", "a thread", "True 0"]


@boxed
def test_limits_hold(homes):
    script = """
import os, time
said = []
try:
    bytearray(700 << 20)
except MemoryError:
    said.append("memory")
try:
    with open("big", "wb") as file:
        for _ in range(20):
            file.write(bytes(1 << 20))
except OSError as error:
    said.append(error.strerror)
children = []
try:
    for _ in range(200):
        child = os.fork()
        if not child:
            time.sleep(60)
        children.append(child)
except OSError as error:
    said.append(error.strerror)
for child in children:
    os.kill(child, 9)
print(said, len(children) < 80)
"""
    said = ["memory", "File too large", "Resource temporarily unavailable"]
    if ROOTED and homes["ann"].uid is None:  # the kernel counts no processes of root's, whatever they are called
        script = script.replace("range(200)", "range(1)")
        del said[2]
    assert run(homes["ann"], script) == f"{said} True"


@boxed
def test_shared_kernels_are_found_and_cannot_be_changed(homes, tmp_path):
    shared = tmp_path / "compiled"
    shared.mkdir()
    (shared / "fused.nbi").write_text("index")
    (shared / "notes.txt").write_text("no kernel")
    ann = homes["ann"]
    ann = Box(ann.name, ann.home, LIMITS, ann.uid, Kernels(str(shared), "kernels_1"))
    script = """
import os, sys
sys.path.insert(0, ROOT)
from pathlib import Path
from tcemu.classroom.learner import link_kernels
count = link_kernels(Path("/classroom/.kernels"), Path("/tmp/kernels"))
index = Path("/tmp/kernels/kernels_1/fused.nbi")
print(count, index.read_text())
try:
    index.write_text("poisoned")
except OSError as error:
    print(error.strerror)
Path("/tmp/new").write_text("another index")
os.replace("/tmp/new", index)
print(index.read_text())
""".replace("ROOT", repr(str(ROOT)))
    assert run(ann, script).splitlines() == ["1 index", "Read-only file system", "another index"]
    assert (shared / "fused.nbi").read_text() == "index"


def test_links_follow_a_cache_that_changes(tmp_path):
    shared, own = tmp_path / "shared", tmp_path / "own"
    (shared / "kernels_1").mkdir(parents=True)
    (shared / "kernels_1" / "a.nbc").write_text("old")
    assert link_kernels(shared, own) == 1
    (shared / "kernels_1" / "a.nbc").write_text("new")
    (shared / "kernels_1" / "b.nbi").write_text("index")
    assert link_kernels(shared, own) == 2
    assert (own / "kernels_1" / "a.nbc").read_text() == "new"


@pytest.mark.skipif(not ROOTED, reason="needs root")
def test_each_learner_has_a_user_and_keeps_it(tmp_path):
    users = {name: user_for(tmp_path / name, root=True) for name in ("ann", "bob", "cid")}
    assert len(set(users.values())) == 3
    assert all(uid in UIDS for uid in users.values())
    assert user_for(tmp_path / "bob", root=True) == users["bob"]
    assert oct((tmp_path / "ann").stat().st_mode)[-3:] == "700"


@pytest.mark.skipif(not ROOTED, reason="needs root")
def test_more_learners_than_users_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(box, "UIDS", range(60578, 60579))
    user_for(tmp_path / "ann", root=True)
    with pytest.raises(CourseError, match="has 1 learners already; start another one"):
        user_for(tmp_path / "bob", root=True)


def test_solutions_and_tests_do_not_travel():
    places = [Path(os.path.realpath(place)) for place in installed()]
    for hidden in HIDDEN:
        assert not any(place == ROOT / hidden or place in (ROOT / hidden).parents for place in places)


def test_systemd_limits_the_box_as_a_whole():
    words = Box("ada", Path("home"), Limits(1024, 1.5, 300), systemd=True).command("true")
    assert words[: words.index("bwrap")] == [
        "systemd-run", "--scope", "--quiet", "--collect", "--user", "--property=MemoryMax=1024M",
        "--property=MemorySwapMax=0", "--property=CPUQuota=150%", "--property=TasksMax=300",
    ]  # fmt: skip
    assert "--user" not in Box("ada", Path("home"), Limits(), uid=60578, systemd=True).command("true")
