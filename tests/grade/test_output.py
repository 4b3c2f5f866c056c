"""What comes of grades: files that are read back, and pages in which text stays text."""

import csv
import io
import json
import os
import random
import sqlite3
from contextlib import closing
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples
from rich.console import Console

from tcemu.course import exercise, judged, manifest
from tcemu.errors import CourseError
from tcemu.grade.output import gradebook, tables, write_all
from tcemu.grade.output.catalogue import Catalogue
from tcemu.grade.output.feedback import feedback
from tcemu.grade.output.gradescope import results
from tcemu.grade.output.sheet import sheet
from tcemu.grade.plain import file_name, visible
from tcemu.grade.records import Grade, Mark, Submission
from tcemu.grade.run import Store
from tcemu.grade.work import Task

HOSTILE = "<script>alert(1)</script>"
FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1"]


def mark(name, state="right", points=1.0, of=2, **more):
    return Mark(name, "02_fragments", state, points, of, **more)


def grade(student="ada", *marks, **more):
    return Grade(student, "ab" * 32, marks, tcemu="0.1.0", course="cd" * 32, **more)


WRONG = mark("where_of_b", "wrong", 0.5, says="B[0][1] is wrong.", mistake="The row is forgotten.", scores={"reads": 7})
CLASS = [
    grade("ada", mark("where_of_b", points=2.0), mark("who_answers", points=2.0)),
    grade("bob", WRONG, mark("who_answers", "open", 0.0)),
    grade(HOSTILE, WRONG, mark("who_answers", "failed", 0.0, says=f"Cell 3 raises {HOSTILE}\nline 2")),
    grade("eve", mark("where_of_b", "failed", 0.0), state="quarantined", says="work.zip is damaged."),
]


# ---------------------------------------------------------------------------------------------- tables


def test_the_sheet_reads_back_as_what_was_written():
    head, *read = csv.reader(io.StringIO(sheet(CLASS)))
    assert head[-2:] == ["where_of_b", "who_answers"]
    ada, bob, *_, eve = (dict(zip(head, row, strict=True)) for row in read)
    assert (ada["points"], ada["of"], bob["where_of_b"], bob["who_answers"]) == ("4", "4", "0.5", "0")
    assert (eve["state"], eve["says"]) == ("quarantined", "work.zip is damaged.")
    assert (eve["points"], eve["where_of_b"]) == ("", "")


def test_no_cell_of_the_sheet_is_a_formula():
    for row in csv.reader(io.StringIO(sheet([grade(name, says=name) for name in FORMULAS]))):
        assert not [cell for cell in row if cell.lstrip().startswith(("=", "+", "-", "@", "＝"))]


SEPARATED = ["x;=cmd|'calc'!A0;", "x; @SUM(A1)", 'x;"=1"', "a\t+1", "a|-1", "a:=1", "x;''=1"]


def test_no_part_of_a_cell_is_a_formula_whatever_separates_cells():
    """A spreadsheet divides lines where its language says, and knows nothing of quotes that do not begin a cell."""
    names = [f"{place}{name}" for place in ("", "a") for name in SEPARATED]
    text = sheet([grade(name, says=name, folder=name) for name in names])
    for row in csv.reader(io.StringIO(text)):
        assert len(row) == 9
    for separator in ";\t|:,":
        for line in text.splitlines():
            assert not [part for part in line.split(separator) if part.strip("\"' ").startswith(("=", "+", "-", "@"))
                        and not part.strip('" ').startswith("'")], line  # fmt: skip


@examples(100)
@given(st.lists(st.text(), unique_by=str, min_size=2))
def test_different_students_have_different_files_on_every_file_system(names):
    files = [file_name(name) for name in names]
    assert len({file.casefold() for file in files}) == len(files)
    assert all(file.isascii() and "/" not in file and not file.startswith(".") and len(file) < 60 for file in files)


def test_gradescope_gets_what_its_specification_names():
    held = json.loads(results(CLASS[2]))
    assert held["score"] == 0.5
    assert [(test["score"], test["max_score"], test["status"]) for test in held["tests"]] == [
        (0.5, 2, "failed"), (0.0, 2, "failed"),
    ]  # fmt: skip
    assert {test["output_format"] for test in held["tests"]} == {held["output_format"]} == {"text"}
    assert {test["visibility"] for test in held["tests"]} == {"visible"}
    assert HOSTILE in held["tests"][1]["output"]  # Gradescope shows it as text
    assert "damaged" in json.loads(results(CLASS[3]))["output"]


# ---------------------------------------------------------------------------------------------- pages


class Page(HTMLParser):
    """A page's elements and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.pieces = [], []
        self.feed(page)
        self.close()
        self.text = "".join(self.pieces)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(attrs)))

    def handle_data(self, data):
        self.pieces.append(data)


#: All that a page is made of: nothing that runs, loads, leads anywhere or can be filled in.
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "main", "footer", "h1", "h2", "h3", "p", "ul", "li", "div",
    "section", "strong", "bdi", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "code", "pre", "figure",
    "figcaption", "img", "details", "summary", "svg", "rect",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "content", "http-equiv", "name", "class", "scope", "role", "tabindex", "alt", "src", "width",
    "height", "aria-label", "aria-hidden",
}  # fmt: skip


def inert(page, links=()):
    """Assert that a page does nothing, and leads to these files only; return it, parsed."""
    held = Page(page)
    assert [attrs for tag, attrs in held.elements if tag == "a"] == [(("href", place),) for place in links]
    held.elements = [each for each in held.elements if each[0] != "a"]
    assert {tag for tag, _ in held.elements} <= ELEMENTS
    attributes = [(name, value) for _, attrs in held.elements for name, value in attrs]
    assert {name for name, _ in attributes} <= ATTRIBUTES
    assert all(value.startswith("data:image/svg+xml;base64,") for name, value in attributes if name == "src")
    policy = next(value for name, value in attributes if name == "content" and "src" in value)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    return held


@examples(50)
@given(name=st.text(), says=st.text(), mistake=st.text(min_size=1))
def test_any_text_is_only_text_in_the_feedback(name, says, mistake):
    def parsed(name, says, mistake):
        return inert(feedback(grade(name, mark("where_of_b", "wrong", says=says, mistake=mistake), says=says)))

    made = parsed(name, says, mistake)
    assert visible(name) in made.text
    for part in visible(says.replace("`", ""), lines=True).split("\n"):
        assert part.strip() in made.text.replace("`", "")
    plain = {("code", ()), ("pre", ()), ("ul", ()), ("li", ())}  # what code, further lines and sentences are put into
    harmless = [each for each in parsed("ada", "a", "b").elements if each not in plain]
    assert [each for each in made.elements if each not in plain] == harmless


def test_the_feedback_says_what_check_says_and_no_more():
    verdict = judged(exercise("where_of_b"), lambda row, column: (0, 0))
    drawings = tuple(picture.svg for picture in verdict.finding.pictures)
    page = inert(feedback(grade("ada", mark("where_of_b", "wrong", says=verdict.says, pictures=drawings))))
    assert verdict.says in page.text
    described = [dict(attrs)["alt"] for tag, attrs in page.elements if tag == "img"]
    assert described == [picture.description for picture in verdict.finding.pictures] != []


def test_a_page_has_headings_in_order_and_tables_with_headers():
    page = inert(feedback(CLASS[2]))
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3")]
    assert levels == [1, 2, 3, 3]
    assert all("scope" in dict(attrs) for tag, attrs in page.elements if tag == "th")


# ---------------------------------------------------------------------------------------------- everything


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of the class, without the gradebook."""
    out = tmp_path_factory.mktemp("out")
    return out, write_all(CLASS, out, nbgrader=False)


def contents(out):
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_the_same_grades_give_the_same_bytes_in_any_order(written, tmp_path):
    out, _ = written
    other = [Grade.of_json(each.to_json()) for each in CLASS]
    random.Random(3).shuffle(other)
    write_all(other, tmp_path, nbgrader=False)
    assert contents(tmp_path) == contents(out)
    assert {"feedback/ada.html", "gradescope/ada.json", "grades.csv", "report.html"} < {*contents(out)}
    assert len(contents(out)) == 2 * len(CLASS) + 2


def test_the_report_tells_what_stops_people_and_is_inert(written):
    out, report = written
    feedbacks = [f"feedback/{file_name(each.student)}.html" for each in report.grades]
    assert all((out / place).is_file() for place in feedbacks)
    page = inert((out / "report.html").read_text(), feedbacks)
    told = [(row.exercise, row.tried, row.right) for row in report.rows]
    assert told == [("where_of_b", 3, 1), ("who_answers", 2, 1)]
    assert report.mistakes == [(2, "where_of_b", "The row is forgotten.")]
    assert not report.unsolved
    assert "work.zip is damaged." in page.text
    assert "4 submissions, 3 of them graded" in page.text
    nobody = write_all([CLASS[1]], out / "other", nbgrader=False)
    assert [row.exercise for row in nobody.unsolved] == ["where_of_b", "who_answers"]


def test_a_course_of_one_s_own_has_its_own_titles(tmp_path):
    rows = ['title = "Mine"', "[[notebook]]", 'file = "01_mine.ipynb"', 'title = "My own"', "minutes = 1"]
    (tmp_path / "course.toml").write_text("\n".join(rows))
    write_all(CLASS, tmp_path / "out", course=manifest(tmp_path), nbgrader=False)
    told = grade("ada", Mark("where_of_b", "01_mine", "right", 1.0, 1))
    assert "01 My own" in inert(feedback(told, Catalogue(manifest(tmp_path)))).text
    assert "01_mine" in inert(feedback(told)).text


def test_no_name_or_message_moves_the_terminal_s_cursor(tmp_path):
    said = "\x1b[2J[red]x[/red]\r\u202e\x9b"
    report = write_all([grade(said, mark("where_of_b", "wrong", mistake=said))], tmp_path, nbgrader=False)
    console = Console(file=io.StringIO(), width=200)
    console.print(*tables(report))
    shown = console.file.getvalue()
    assert "⟨U+001B⟩[2J[red]x[/red]⟨U+000D⟩⟨U+202E⟩⟨U+009B⟩" in shown
    assert not {"\x1b", "\r", "\x9b", "\u202e"} & {*shown}


# ---------------------------------------------------------------------------------------------- nbgrader


@pytest.mark.slow
def test_nbgrader_reads_the_gradebook_and_writing_it_again_changes_nothing(tmp_path):
    from nbgrader.api import Gradebook
    from nbgrader.plugins.export import CsvExportPlugin

    path = tmp_path / "gradebook.db"

    def state(book):
        return {
            (student.id, each.notebook.name, score.name): (score.auto_score, score.manual_score, score.max_score)
            for student in book.students for submitted in student.submissions
            for each in submitted.notebooks for score in each.grades
        }  # fmt: skip

    gradebook.write(CLASS, path)
    with Gradebook(f"sqlite:///{path}") as book:
        first = state(book)
        assert first["ada", "02_fragments", "where_of_b-check"] == (2.0, None, 2.0)
        assert first["bob", "02_fragments", "where_of_b-check"] == (0.5, None, 2.0)
        assert len(first) == 8
        score = book.find_grade("where_of_b-check", "02_fragments", "02_fragments", "bob")
        score.manual_score = 1.5  # a teacher's
        book.db.commit()
    before = path.read_bytes()
    gradebook.write(CLASS, path)
    assert path.read_bytes() == before
    gradebook.write([*CLASS, grade("fay", mark("where_of_bytes", points=2.0))], path)
    with Gradebook(f"sqlite:///{path}") as book:
        second = state(book)
        assert second["bob", "02_fragments", "where_of_b-check"] == (0.5, 1.5, 2.0)
        assert {key: held[0] for key, held in second.items() if key in first} == {
            key: held[0] for key, held in first.items()
        }
        CsvExportPlugin(to=str(tmp_path / "export.csv")).export(book)
    rows = {row["student_id"]: row for row in csv.DictReader(io.StringIO((tmp_path / "export.csv").read_text()))}
    assert (rows["ada"]["score"], rows["bob"]["score"], rows["ada"]["max_score"]) == ("4.0", "1.5", "6.0")


def test_a_gradebook_that_is_none_is_left_alone(tmp_path):
    path = tmp_path / "gradebook.db"
    path.write_text("not a database, but long enough to be taken for one" * 20)
    before = path.read_bytes()
    with pytest.raises(CourseError, match="Move the file away"):
        gradebook.write(CLASS, path)
    assert path.read_bytes() == before
    path.unlink()
    with closing(sqlite3.connect(path)) as other:  # of a version that nbgrader does not know
        other.execute("CREATE TABLE student (id TEXT)")
        other.execute("CREATE TABLE course (id TEXT)")
        other.commit()
    with pytest.raises(CourseError, match="Move the file away"):
        gradebook.write(CLASS, path)
    assert [*tmp_path.iterdir()] == [path]


def test_ids_in_the_gradebook_survive_an_export_that_quotes_nothing():
    ids = [gradebook.student_id(name) for name in ("a,b", "a;b", 'a"b', *FORMULAS)]
    assert len({*ids}) == len(ids)
    for name in ids:
        ((read,),) = csv.reader([name])
        assert read == name
        assert not name.startswith(("=", "+", "-", "@"))


# ---------------------------------------------------------------------------------------------- whose they are


@pytest.mark.slow
def test_grades_and_feedback_are_their_owner_s(tmp_path):
    out = tmp_path / "term" / "grades"
    before = os.umask(0)
    try:
        write_all(CLASS[:1], out, nbgrader=True)
        Store(out / "grades").save(Task(Submission("ada", "ada"), ()), CLASS[0])
    finally:
        os.umask(before)
    for place in (out.parent, out, *out.rglob("*")):
        assert oct(place.stat().st_mode & 0o777) == ("0o700" if place.is_dir() else "0o600"), place
