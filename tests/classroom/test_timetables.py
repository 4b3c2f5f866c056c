"""The guide's timetables: notebooks and exercises that exist, minutes that add up, nothing before what it needs."""

import re

import pytest
from places import ROOT

from tcemu.course import exercises, manifest

GUIDE = (ROOT / "classroom" / "README.md").read_text(encoding="utf-8")
NOTEBOOKS = {entry.label: entry for entry in manifest().notebooks}


def table(title):
    """The rows of a timetable, each a list of cells."""
    part = GUIDE.split(f"### {title}\n")[1].split("\n#")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return rows[2:]


def minutes(cell):
    """The minutes of the exercises in a cell."""
    return sum(exercises()[name].minutes for name in re.findall("`(.+?)`", cell))


def needs(labels):
    """Notebooks that come before what they need."""
    files = [NOTEBOOKS[label].file for label in labels]
    return [file for at, file in enumerate(files) for before in manifest_entry(file).before if before in files[at:]]


def manifest_entry(file):
    return next(entry for entry in manifest().notebooks if entry.file == file)


def missing(labels):
    """Notebooks that others need and that the timetable leaves out."""
    files = {NOTEBOOKS[label].file for label in labels}
    return {before for file in files for before in manifest_entry(file).before} - files


@pytest.mark.parametrize("title", ["Two hours", "Half a day", "A day"])
def test_the_minutes_of_a_day_are_those_of_the_course(title):
    *rows, total = table(title)
    for what, tasks, stated in rows:
        if what[0].isdigit():
            assert set(re.findall("`(.+?)`", tasks)) <= set(NOTEBOOKS[what].exercises)
            assert int(stated) == NOTEBOOKS[what].minutes + minutes(tasks), what
    assert int(total[2].strip("*")) == sum(int(stated) for *_, stated in rows)
    labels = [what for what, *_ in rows if what[0].isdigit()]
    assert needs(labels) == []
    assert missing(labels) == set()


def test_the_minutes_of_ten_weeks_are_those_of_the_course():
    rows = table("Ten weeks")
    assert [int(week) for week, *_ in rows] == list(range(1, 11))
    for week, lesson, here, in_class, home, at_home in rows:
        assert set(re.findall("`(.+?)`", here + home)) <= set(NOTEBOOKS[lesson].exercises), week
        assert int(in_class) == NOTEBOOKS[lesson].minutes + minutes(here) <= 120, week
        assert int(at_home) == minutes(home), week
    labels = [lesson for _, lesson, *_ in rows]
    assert needs(labels) == []
    assert missing(labels) == set()


def test_the_guide_s_course_can_be_laid_out(tmp_path):
    text = GUIDE.split('    title = "Tensor cores, week by week"')[1].split("\n\nand start")[0]
    text = 'title = "Tensor cores, week by week"' + re.sub("(?m)^    ", "", text)
    (tmp_path / "course.toml").write_text(text, encoding="utf-8")
    assert {"notebooks/00_first_light.ipynb", "exercises/00_first_light.ipynb"} <= set(manifest(tmp_path).contents())
