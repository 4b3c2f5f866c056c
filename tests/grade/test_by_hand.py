"""What teachers add to grades: points by hand, deadlines, and files of the websites that they use."""

import csv
import io
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from handed import GOOD, archive

from tcemu.cli import commands
from tcemu.course import manifest
from tcemu.errors import CourseError
from tcemu.grade.intake import submissions
from tcemu.grade.output import write_all
from tcemu.grade.output.lms import filled
from tcemu.grade.records import Grade, Mark, Submission

STEMS = "02_fragments", "03_wmma"


def grade(student, *points, state="graded"):
    marks = [Mark(f"exercise{place}", STEMS[place], "right", value, 4) for place, value in enumerate(points)]
    return Grade(student, "00", tuple(marks), state)


def rows(path):
    return {row["student"]: row for row in csv.DictReader(io.StringIO(path.read_text()))}


# ---------------------------------------------------------------------------------------------- by hand


def test_points_and_comments_by_hand_are_kept_over_a_regrade_and_shown_as_such(tmp_path):
    (tmp_path / "manual.csv").write_text(
        "student,exercise,points,comment\nada,exercise0,3.5,The lanes were <counted>.\nbob,,,Come and see me.\n"
        'cid,exercise1,,"Well, well."\n'
    )
    grades = [grade("ada", 1.0, 2.0), grade("bob", 1.0), grade("cid", 1.0, 4.0)]
    for _ in range(2):
        write_all(grades, tmp_path, nbgrader=False)
        found = rows(tmp_path / "grades.csv")
        assert (found["ada"]["points"], found["ada"]["by_hand"]) == ("5.5", "exercise0 (grader: 1)")
        assert (found["cid"]["points"], found["cid"]["by_hand"]) == ("5", "")
        page = (tmp_path / "feedback" / "ada.html").read_text()
        assert "3.5 of 4 points, by hand; the grader gave 1." in page
        assert "The lanes were &lt;counted&gt;." in page
        assert "The teacher says: Come and see me." in (tmp_path / "feedback" / "bob.html").read_text()
        assert "Points by hand." in (tmp_path / "report.html").read_text()
        held = json.loads((tmp_path / "gradescope" / "ada.json").read_text())
        assert (held["score"], "the grader gave 1" in held["tests"][0]["output"]) == (5.5, True)


@pytest.mark.slow
def test_nbgrader_gets_points_by_hand_as_such(tmp_path):
    api = pytest.importorskip("nbgrader.api")
    (tmp_path / "manual.csv").write_text("student;exercise;points;comment\nada;exercise0;3,5;good\n")
    write_all([grade("ada", 1.0)], tmp_path)
    with api.Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        score = book.find_grade("exercise0-check", STEMS[0], STEMS[0], "ada")
        assert (score.auto_score, score.manual_score) == (1.0, 3.5)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("adda,exercise0,1,", "line 2: there is no student 'adda'. Did you mean 'ada'"),
        ("ada,exercise9,1,", "line 2: ada has no exercise 'exercise9'. Did you mean 'exercise0'"),
        ("ada,exercise0,five,", "line 2: five is not a number of points"),
        ("ada,exercise0,-1,", "line 2: -1 is not a number of points"),
        ("ada,exercise0,nan,", "line 2: nan is not a number of points"),
        ("ada,exercise0,5,", "line 2: exercise0 gives at most 4 points"),
        ("ada,,1,", "points need an exercise"),
        ("ada,exercise0,1,\nada,exercise0,2,", "line 3: ada exercise0 is listed twice"),
    ],
)
def test_a_wrong_row_by_hand_is_told(tmp_path, line, says):
    (tmp_path / "manual.csv").write_text(f"student,exercise,points,comment\n{line}\n")
    with pytest.raises(CourseError, match=says.replace("(", "[(]")):
        write_all([grade("ada", 1.0)], tmp_path, nbgrader=False)


# ---------------------------------------------------------------------------------------------- deadlines

COURSE = """
title = "Mine"

[[notebook]]
file = "02_fragments.ipynb"
title = "Fragments"
minutes = 5
due = 2026-10-12T23:59:00+02:00
exercises = ["where_of_b"]

[late]
grace = 15
per_day = 10
most = 25
"""


@pytest.fixture
def course(tmp_path):
    (tmp_path / "course.toml").write_text(COURSE)
    return manifest(tmp_path)


@pytest.mark.parametrize(
    ("when", "minutes", "points"),
    [
        ("2026-10-12 21:59:00 UTC", "0", "4"),
        ("2026-10-12 22:14:00.123456 UTC", "0", "4"),  # the minutes of grace
        ("2026-10-12 22:15:00 UTC", "16", "3.6"),
        ("2026-10-13 21:59:00 +0000", "1440", "3.6"),
        ("2026-10-14 00:00:00.236513000 Z", "1561", "3.2"),
        ("2026-11-14 00:00:00 Z", "46201", "3"),  # not more than 25 %
        ("2026-10-14 00:00 CET", "", "4"),
        ("LATE", "", "4"),
        ("", "", "4"),
    ],
)
def test_lateness_is_shown_and_never_taken(tmp_path, course, when, minutes, points):
    work = Submission("ada", "ada", {STEMS[0]: b'{"cells": []}'}, handed_in={STEMS[0]: when} if when else {})
    write_all([grade("ada", 4.0)], tmp_path, [work], course=course, nbgrader=False)
    row = rows(tmp_path / "grades.csv")["ada"]
    assert (row["points"], row["minutes_late"], row["points_by_late_rule"]) == ("4", minutes, points)
    page, report = ((tmp_path / name).read_text() for name in ("feedback/ada.html", "report.html"))
    assert "4 of 4 points" in page
    for text in (page, report):
        assert ("after the deadline" in text) is (minutes not in ("", "0"))
        assert ("would become" in text) is (points != "4")
        assert ("has a deadline, but nothing says" in text) is (when == "")


def test_a_course_without_deadlines_has_no_columns_for_them(tmp_path):
    work = Submission("ada", "ada", {STEMS[0]: b'{"cells": []}'}, handed_in={STEMS[0]: "LATE"})
    write_all([grade("ada", 4.0)], tmp_path, [work], nbgrader=False)
    assert "minutes_late" not in rows(tmp_path / "grades.csv")["ada"]


GRADESCOPE = "submission_1:\n  :submitters:\n  - :sid: '7'\n  :created_at: 2026-10-13 10:00:00.2 Z\n"
HANDED = {
    "nbgrader": ({"ada/02_fragments/02_fragments.ipynb": GOOD,
                  "ada/02_fragments/timestamp.txt": b"2026-10-13 10:00 UTC"},
                 "2026-10-13 10:00 UTC"),
    "Gradescope": ({"submission_metadata.yml": GRADESCOPE.encode(), "submission_1/02_fragments.ipynb": GOOD},
                   "2026-10-13 10:00:00.2 Z"),
    "Canvas": ({"byronada_LATE_1_2_02_fragments.ipynb": GOOD}, "LATE"),
    "Canvas, in time": ({"byronada_1_2_02_fragments.ipynb": GOOD}, ""),
    "Canvas, anonymous": ({"LATE_anon_Ab1c2_67890_02_fragments.ipynb": GOOD}, "LATE"),
    "Moodle": ({"Ada Byron_1_assignsubmission_file/02_fragments.ipynb": GOOD}, ""),
    "files": ({"ada.ipynb": GOOD}, ""),
}  # fmt: skip


@pytest.mark.parametrize("way", HANDED)
def test_every_hand_in_says_when_as_far_as_it_knows(tmp_path, way):
    files, when = HANDED[way]
    (tmp_path / "work.zip").write_bytes(archive(files))
    (found,) = submissions(tmp_path / "work.zip")
    assert found.handed_in == ({STEMS[0]: when} if when else {})
    assert Submission.of_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("+02:00", "", "due = 2026-10-12T23:59:00 has no time zone, such as 2026-10-12T23:59:00[+]02:00"),
        ("due = 2026-10-12T23:59:00+02:00", 'due = "Monday"', "due = 'Monday' is not a date and time"),
        ("per_day = 10", "per_week = 10", "late: per_week is unknown; the names are grace, per_day and most"),
        ("most = 25", "most = 250", "late: most = 250 is not a whole number from 0 to 100"),
        ("grace = 15", "grace = -1", "late: grace = -1 is not a whole number of minutes"),
    ],
)
def test_wrong_deadlines_are_told(tmp_path, old, new, says):
    (tmp_path / "course.toml").write_text(COURSE.replace(old, new))
    with pytest.raises(CourseError, match=says):
        manifest(tmp_path)


# ---------------------------------------------------------------------------------------------- websites

#: As Canvas exports its gradebook: with its own second line, and read-only columns at the end.
CANVAS = '''
Student,ID,SIS User ID,SIS Login ID,Section,Fragments (4711),wmma (4712),Essay (4713),Current Score
    Points Possible,,,,,4.0,4.0,10.0,(read only)
"Byron, Ada",101,0815,ada,Tensor 1,,,9.0,90
"Roe, Bob ""Bobby""",102,0816,bobby,Tensor 1,1.0,,,10
"Student, Test",103,,f00,Tensor 1,,,,
'''.lstrip("\n")
#: As Moodle's grading worksheet is.
MOODLE = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission),Feedback comments
Participant 7,Ada Byron,ada@example.edu,Submitted,,100.00,"Monday, 12 October 2026, 10:00 AM",
Participant 8,Bob Roe,bob@example.edu,No submission,,100.00,-,
"""


def test_canvas_gets_points_in_the_columns_of_notebooks_and_nothing_else_changes(tmp_path):
    (tmp_path / "canvas.csv").write_text("\ufeff" + CANVAS, encoding="utf-8")
    done = filled(tmp_path / "canvas.csv", [grade("ada", 3.5, 4.0), grade("zoe", 1.0)], {})
    assert (done.site, done.rows, done.students, done.others) == ("Canvas", 1, ("zoe",), ('Roe, Bob "Bobby"',))
    before, after = (list(csv.reader(io.StringIO(text))) for text in (CANVAS, done.text))
    before[2][5:7] = "3.5", "4"
    assert after == before
    assert done.says == ()


@pytest.mark.parametrize(
    ("learner", "called"),
    [("ada", ""), ("0815", ""), ("101", ""), ("byronada", ""), ("a.b", "byronada"), ("a.b", "Byron, Ada"), ("ADA", "")],
)
def test_whoever_is_meant_is_found_by_login_number_name_or_roster(tmp_path, learner, called):
    (tmp_path / "canvas.csv").write_text(CANVAS)
    done = filled(tmp_path / "canvas.csv", [grade(learner, 3.5)], {learner: called} if called else {})
    assert (done.rows, done.students) == (1, ())


def test_one_assignment_of_canvas_gets_all_points_and_its_scale_is_compared(tmp_path):
    text = 'Student,ID,Section,Homework (1)\n    Points Possible,,,10\n"Byron, Ada",1,A,\n'
    (tmp_path / "canvas.csv").write_text(text)
    done = filled(tmp_path / "canvas.csv", [grade("byronada", 3.5, 4.0)], {})
    assert done.text.endswith('"Byron, Ada",1,A,7.5\n')
    assert done.says == ("Homework (1) has 10 points there, and 8 here; points are written as they are.",)


def test_canvas_in_the_other_forms_that_its_exporter_has(tmp_path):
    """Last and first names apart, semicolons and a decimal comma, a row about posting, cells that stay as they are."""
    text = (
        "LastName;FirstName;ID;SIS Login ID;Section;Fragments (4711);wmma (4712)\n"
        ";;;;;Manual Posting;\n"
        "    Points Possible;;;;;4,00;4,00\n"
        "Byron;Ada;101;ada;Tensor 1;;\n"
        "Roe;Bob;102;;Tensor 1;EX;N/A\n"
        "Student;Test;103;f00;Tensor 1;;\n"
    )
    (tmp_path / "canvas.csv").write_text("\ufeff" + text, encoding="utf-8")
    done = filled(tmp_path / "canvas.csv", [grade("ada", 3.5, 4.0), grade("Roe, Bob", 1.0, 2.0)], {})
    assert done.text == text.replace("101;ada;Tensor 1;;", "101;ada;Tensor 1;3,5;4")
    assert (done.site, done.rows, done.students, done.others) == ("Canvas", 2, (), ())


def test_moodle_gets_grades_and_nothing_else_changes(tmp_path):
    (tmp_path / "moodle.csv").write_text(MOODLE)
    done = filled(tmp_path / "moodle.csv", [grade("Ada Byron", 3.5, 4.0)], {})
    before, after = (list(csv.reader(io.StringIO(text))) for text in (MOODLE, done.text))
    before[1][4] = "7.5"
    assert after == before
    assert (done.site, done.others) == ("Moodle", ("Bob Roe",))
    assert done.says == ("Grade has 100.00 points there, and 8 here; points are written as they are.",)


def test_what_is_in_quarantine_gets_no_points(tmp_path):
    unknown = replace(grade("Ada Byron", 0.0), state="quarantined")
    for text in (CANVAS, MOODLE):
        (tmp_path / "export.csv").write_text(text)
        assert filled(tmp_path / "export.csv", [unknown], {"Ada Byron": "ada"}).text == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,points\nada,1\n", "is an export neither of Canvas's gradebook"),
        ("", "cannot read"),
        ("Student,ID,Essay (1),Talk (2)\n", "has Essay and Talk. Call an assignment like its notebook, for example 02"),
        ("Student,ID,Fragments (1)\nada,1,\nada,1,\n", "two rows are ada"),
    ],
)
def test_a_file_of_no_website_is_told(tmp_path, text, says):
    (tmp_path / "export.csv").write_text(text)
    with pytest.raises(CourseError, match=says):
        filled(tmp_path / "export.csv", [grade("ada", 1.0)], {})


@pytest.mark.slow
def test_the_command_fills_in_both(tmp_path):
    for name, text in (("canvas", CANVAS), ("moodle", MOODLE)):
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "ada.ipynb").write_bytes(GOOD)
    options = ["--lms", str(tmp_path / "canvas.csv"), "--lms", str(tmp_path / "moodle.csv"), "--trusted"]
    command = ["grade", str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--no-warm", "--no-nbgrader", *options]
    done = CliRunner().invoke(commands, command)
    assert done.exit_code == 0, done
    assert "canvas-canvas.csv has the points of 1 student, for Canvas." in done.output.replace("\n", "")
    assert "Bob Roe" in done.output
    assert (tmp_path / "out" / "moodle-moodle.csv").is_file()
