"""A lesson with real browsers: two learners log in, work, hand in and get feedback, and the teacher watches.

Needs JupyterHub and its proxy (the extra `classroom`), bubblewrap (Debian: apt-get install bubblewrap) and chromium.
"""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
from lab import CHROMIUM
from places import ROOT
from school import Person, browser, classroom

NEEDS = {
    "the extra classroom": find_spec("jupyterhub") and find_spec("jupyterhub_traefik_proxy"),
    "bubblewrap": shutil.which("bwrap"),
    "chromium": CHROMIUM,
    "playwright": find_spec("playwright"),
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(NEEDS.values()), reason=f"needs {[name for name, there in NEEDS.items() if not there]}"),
]
#: Of the exercises of notebook 00, a right answer and a wrong one, which the course recognises.
RIGHT = "def changed_row(lane, register):\n    return lane // 4 + 8 * (register % 2)"
WRONG = "def changed_row(lane, register):\n    return lane // 4"
#: What a learner may try to read: a neighbour's home, by every name it might have, and what belongs to the hub.
SNOOP = """
import os
def readable(*places):
    return [place for place in places if os.access(place, os.R_OK)]
def holds(path):
    with open(path, "rb") as file:
        return b"handed in by bob" in file.read(1 << 20)
folders = [f"/{name}" for name in os.listdir("/") if name not in ("dev", "proc", "sys", "usr")]
files = [os.path.join(at, name) for top in folders for at, _, names in os.walk(top) for name in names]
others = [pid for pid in os.listdir("/proc") if pid.isdigit() and readable(f"/proc/{pid}/environ")]
print([place for place in PLACES if os.access(place, os.R_OK)], sorted(os.listdir("/classroom")),
      [path for path in files if path.endswith(".ipynb") and readable(path) and holds(path)],
      any(b"JUPYTERHUB_USER=bob" in open(f"/proc/{pid}/environ", "rb").read() for pid in others))
"""


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    folder = tmp_path_factory.mktemp("school") / "class"
    with classroom(folder) as running:
        yield running


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def bob(school, chromium):
    """Bob solves the first exercise wrongly three times and hands it in."""
    bob = Person(chromium, school, "bob")
    bob.page.get_by_role("heading", name="Tensor-core programming").wait_for()
    bob.open_notebook("exercises/00_first_light.ipynb")
    bob.run("import numpy")
    bob.run("def changed_row", WRONG + "  # handed in by bob")
    for _ in range(3):
        assert "Not right yet" in bob.run("check(changed_row)")
    bob.save()
    return bob


@pytest.fixture(scope="module")
def ann(school, chromium, bob):
    """Ann solves it."""
    ann = Person(chromium, school, "ann")
    ann.page.get_by_role("heading", name="Tensor-core programming").wait_for()
    ann.shot("lab")
    ann.open_notebook("exercises/00_first_light.ipynb")
    ann.run("import numpy")
    ann.run("def changed_row", RIGHT)
    assert "Right in" in ann.run("check(changed_row)")
    ann.save()
    return ann


def test_a_wrong_password_opens_nothing(school, chromium):
    nobody = Person(chromium, school, "eve", "tensor-cores")
    nobody.page.get_by_text("Invalid username or password").wait_for()
    assert nobody.open("services/classroom/").url.startswith(f"{school.url}/hub/login")


def test_a_neighbour_s_work_cannot_be_read(school, ann, bob):
    hub = [school.folder / name for name in ("hub", "hub/settings.json", "learners/bob", "submitted")]
    places = [*map(str, hub), str(ROOT / "solutions"), "/classroom/bob", "/etc/shadow"]
    assert ann.run("def one_fused_sum", SNOOP.replace("PLACES", str(places))) == "[] ['.kernels', 'ann'] [] False\n"


def test_what_is_handed_in_reaches_the_teacher_and_the_feedback_comes_back(school, ann, bob):
    ann, bob = ann.leave_jupyterlab_open(), bob.leave_jupyterlab_open()
    for person in (ann, bob):
        person.open("services/classroom/")
        person.page.get_by_role("button", name=re.compile("^Hand in.*: 00 First light")).click()
        person.page.get_by_text("00 First light is handed in.").wait_for()
        assert person.page.get_by_text("There is no feedback for you yet.").count()
    ann.shot("hand-in")
    assert ann.barriers() == []
    handed = {name: school.folder / "submitted" / name / "00_first_light" for name in ("ann", "bob")}
    assert "register % 2" in (handed["ann"] / "00_first_light.ipynb").read_text()
    assert "handed in by bob" in (handed["bob"] / "00_first_light.ipynb").read_text()
    _grade(school)
    for person, other in ((ann, "bob"), (bob, "ann")):
        person.page.reload()
        person.page.get_by_role("link", name="Read your feedback").click()
        person.page.get_by_role("heading", name=f"Feedback for {person.name}").wait_for()
        assert other not in person.page.inner_text("body").split()
    assert "1 of 7 points" in ann.page.inner_text("body")
    assert "0.47 of 7 points" in bob.page.inner_text("body")
    for theme in ("light", "dark"):
        bob.page.emulate_media(color_scheme=theme)
        bob.shot(f"feedback-{theme}")


def _grade(school):
    """The teacher's command, as the guide has it."""
    command = [sys.executable, "-m", "tcemu", "grade", str(school.folder / "submitted"), "--no-warm"]
    command += ["--out", str(school.folder / "grades")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_teacher_sees_who_is_where_and_what_stops_them(school, chromium, ann, bob):
    teacher = Person(chromium, school, "teacher", school.teacher_password)
    teacher.page.wait_for_url("**/services/classroom/board")
    row = teacher.page.get_by_role("row").filter(has=teacher.page.get_by_role("rowheader", name="bob", exact=True))
    assert "Which row changes? (3 tries)" in row.inner_text()
    assert "00 First light" in row.inner_text()
    teacher.page.get_by_text("2 learners, 2 here now").wait_for()
    hurdle = teacher.page.get_by_role("row").filter(has_text="changed_row").first
    assert hurdle.inner_text().split()[-5:] == ["2", "1", "4", "1:", "bob"]
    for theme in ("light", "dark"):
        teacher.page.emulate_media(color_scheme=theme)
        assert teacher.barriers() == []
        teacher.shot(f"board-{theme}")
    assert "Not right yet" in ann.run("def whole_product", "check(whole_product=lambda A, B: A)")
    teacher.page.get_by_text("A whole matrix, tile by tile").first.wait_for()  # without a reload


def test_only_the_teacher_sees_the_class(school, ann):
    ann = ann.leave_jupyterlab_open()
    assert ann.open("services/classroom/board").status == 403
    assert ann.open("user/bob/lab").status in (403, 404)
    assert ann.open("user/bob/api/contents/exercises/00_first_light.ipynb").status in (403, 404)
