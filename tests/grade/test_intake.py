"""Intake of honest work, packed as nbgrader, Gradescope, Moodle, Canvas and people pack it."""

import json

import nbformat
import pytest
from handed import ANSWER, GOOD, STEM, archive, folder, notebook

from tcemu.course import RECORD
from tcemu.errors import CourseError
from tcemu.grade.intake import Roster, submissions
from tcemu.grade.records import Submission

METADATA = """---
submission_1:
  :submitters:
  - :name: Ada Byron
    :sid: '0815'
    :email: ada@example.edu
  :created_at: 2026-10-10 20:45:35.236513000 Z
  :score: 0.0
  :status: processed
  :results:
    tests: []
submission_2:
  :submitters:
  - :name: Bob
    :email: bob@example.edu
  - :name: Cid
  :created_at: 2026-10-11 20:45:35.236513000 Z
submission_3:
  :submitters:
  - :name: Ada Byron
    :sid: '0815'
  :created_at: 2026-10-09 20:45:35.236513000 Z
"""


def read(path, files, pack):
    """The submissions by student, from a folder or from an archive with these files."""
    if pack == "folder":
        return {each.student: each for each in submissions(folder(path / "work", files))}
    (path / "work.zip").write_bytes(archive(files))
    return {each.student: each for each in submissions(path / "work.zip")}


def sources(submission, stem=STEM):
    return [cell["source"] for cell in json.loads(submission.read(stem))["cells"]]


OTHER = notebook(ANSWER, "x = 2")
WAYS = {
    "nbgrader": (
        {"submitted/ada/02_fragments/02_fragments.ipynb": GOOD, "submitted/ada/02_fragments/timestamp.txt": b"2026",
         "submitted/bob/02_fragments/02_fragments.ipynb": OTHER},
        {"ada": [ANSWER], "bob": [ANSWER, "x = 2"]},
    ),
    "nbgrader's folder itself": (
        {"ada/02_fragments/02_fragments.ipynb": GOOD, "bob/02_fragments/02_fragments.ipynb": OTHER},
        {"ada": [ANSWER], "bob": [ANSWER, "x = 2"]},
    ),
    "Gradescope": (
        {"assignment_77_export/submission_metadata.yml": METADATA.encode(),
         "assignment_77_export/submission_1/02_fragments.ipynb": OTHER,
         "assignment_77_export/submission_2/02_fragments (1).ipynb": GOOD,
         "assignment_77_export/submission_3/02_fragments.ipynb": GOOD},
        {"0815": [ANSWER, "x = 2"], "bob@example.edu": [ANSWER], "Cid": [ANSWER]},
    ),
    "Moodle": (
        {"Ada Byron_12345_assignsubmission_file_/02_fragments.ipynb": GOOD,
         "Ada Byron_12345_assignsubmission_onlinetext_/onlinetext.html": b"<p>Hello</p>",
         "Bob_6_assignsubmission_file_/work.zip": archive({"deep/02_fragments.ipynb": OTHER})},
        {"Ada Byron": [ANSWER], "Bob": [ANSWER, "x = 2"]},
    ),
    "Moodle without folders": (
        {"Ada Byron_12345_assignsubmission_file_02_fragments.ipynb": GOOD,
         "Ada Byron_99_assignsubmission_file_mine.ipynb": OTHER},
        {"Ada Byron 12345": [ANSWER], "Ada Byron 99": [ANSWER, "x = 2"]},
    ),
    "Canvas": (
        {"byronada_LATE_12345_67890_02_fragments-1.ipynb": GOOD, "bob_7_8_02_fragments.ipynb": GOOD,
         "bob_7_9_02_fragments-1.ipynb": OTHER},
        {"byronada": [ANSWER], "bob": [ANSWER, "x = 2"]},
    ),
    "Moodle 4": (  # its folders end without _, a team has a number of its own, and those without a team have none
        {"Ada Byron_12345_assignsubmission_file/02_fragments.ipynb": GOOD,
         "Ada Byron_12345_assignsubmission_onlinetext/onlinetext.html": b"<p>Hello</p>",
         "Team 7_3_assignsubmission_file/deep/02_fragments.ipynb": OTHER,
         "Default group_assignsubmission_file/02_fragments.ipynb": GOOD},
        {"Ada Byron": [ANSWER], "Team 7": [ANSWER, "x = 2"], "Default group": [ANSWER]},
    ),
    "Moodle, anonymous": (
        {"Participant_7_assignsubmission_file_02_fragments.ipynb": GOOD,
         "Participant_8_assignsubmission_file_02_fragments.ipynb": OTHER},
        {"Participant 7": [ANSWER], "Participant 8": [ANSWER, "x = 2"]},
    ),
    "Canvas with all that it writes": (
        {"o_neilbob_7_81_02_fragments.ipynb": GOOD, "byronada_12345_67890_mein_02_fragments_3_4_.ipynb": GOOD,
         "byronada_12345_67891_02_fragments.ipynb": OTHER, "dee_LATE_9_text.html": b"<p>", "eve_10_link.html": b"<a>"},
        {"o_neilbob": [ANSWER], "byronada": [ANSWER, "x = 2"], "dee": None, "eve": None},
    ),
    "Canvas, anonymous": (
        {"anon_Ab1c2_67890_02_fragments.ipynb": GOOD, "LATE_anon_Zz9y8_67891_02_fragments.ipynb": OTHER},
        {"anon_Ab1c2": [ANSWER], "anon_Zz9y8": [ANSWER, "x = 2"]},
    ),
    "files": ({"ada.ipynb": GOOD, "bob.zip": archive({"02_fragments.ipynb": OTHER})},
              {"ada": [ANSWER], "bob": [ANSWER, "x = 2"]}),
    "folders": ({"ada/02_fragments.ipynb": GOOD, "ada/README.md": b"", "bob/homework.ipynb": OTHER},
                {"ada": [ANSWER], "bob": [ANSWER, "x = 2"]}),
    "one student": ({"exercises/02_fragments.ipynb": OTHER, "notebooks/02_fragments.ipynb": GOOD},
                    {"work": [ANSWER, "x = 2"]}),
    "a course with more in it": ({RECORD: b"{}", "exercises/02_fragments.ipynb": OTHER, "mine.ipynb": notebook("1")},
                                 {"work": [ANSWER, "x = 2"]}),
    "a file that was not renamed": ({"ada.ipynb": GOOD, "02_fragments.ipynb": OTHER},
                                    {"ada": [ANSWER], "02_fragments": [ANSWER, "x = 2"]}),
}  # fmt: skip


@pytest.mark.parametrize("pack", ["folder", "archive"])
def test_every_way_of_handing_in_is_read_from_a_folder_and_from_an_archive(tmp_path, row, pack):
    for name, (files, expected) in WAYS.items():
        with row(name):
            (tmp_path / name).mkdir()
            found = read(tmp_path / name, files, pack)
            handed = {student: sources(each) if each.files else None for student, each in found.items()}
            assert handed == expected


def test_a_single_notebook_is_one_student_s(tmp_path):
    (tmp_path / "ada.ipynb").write_bytes(GOOD)
    (one,) = submissions(tmp_path / "ada.ipynb")
    assert (one.student, list(one.files), one.problems) == ("ada", [STEM], ())


def test_of_two_notebooks_the_later_counts_and_the_other_is_reported(tmp_path):
    files, _ = WAYS["Gradescope"]
    found = read(tmp_path, files, "folder")["0815"]
    assert "submission_3" in found.problems[0]
    assert "more than once" in found.problems[0]
    files, _ = WAYS["one student"]  # the lesson beside its exercises is no second submission
    assert "more than once" not in " ".join(read(tmp_path / "one", files, "folder")["work"].problems)


def test_the_notebook_of_a_record_is_valid_and_has_only_code(tmp_path):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": "<script>"},
             {"cell_type": "code", "id": "a b", "metadata": {"nbgrader": {"points": 1000}}, "source": [ANSWER],
              "outputs": [{"output_type": "stream", "text": "gASVIAAA"}]}]  # fmt: skip
    (tmp_path / "ada.ipynb").write_bytes(json.dumps({"cells": cells, "metadata": {"x": 1}}).encode())
    (one,) = submissions(tmp_path)
    held = nbformat.reads(one.read(STEM).decode(), as_version=4)
    nbformat.validate(held)
    assert [(cell.cell_type, cell.metadata, cell.outputs) for cell in held.cells] == [("code", {}, [])]
    assert b"script" not in one.read(STEM)
    assert b"points" not in one.read(STEM)


def test_what_is_no_code_does_not_change_the_digest(tmp_path):
    def digest(**keys):
        (tmp_path / "ada.ipynb").write_bytes(notebook(ANSWER, **keys))
        return submissions(tmp_path)[0].digest

    assert digest() == digest(metadata={"saved": "later"})


def test_a_roster_names_the_learners_and_brings_a_student_s_hand_ins_together(tmp_path):
    (tmp_path / "roster.csv").write_text("\ufeffhanded_in,learner,group\nByronAda,ada,1\n")
    work = folder(tmp_path / "work", {"byronada_1_2_02_fragments.ipynb": GOOD, "bob_3_4_02_fragments.ipynb": GOOD})
    found = submissions(work, roster=Roster.read(tmp_path / "roster.csv"))
    assert [each.student for each in found] == ["ada", "bob"]
    for text, part in {"name,learner\na,b\n": "line 2", "handed_in,learner\na,\n": "line 2",
                       "handed_in,learner\na,b\nA,c\n": "listed twice"}.items():  # fmt: skip
        (tmp_path / "roster.csv").write_text(text)
        with pytest.raises(CourseError, match=part):
            Roster.read(tmp_path / "roster.csv")
    with pytest.raises(CourseError, match="cannot read the roster"):
        Roster.read(tmp_path / "none.csv")


def test_the_members_of_a_group_have_places_of_their_own(tmp_path):
    files, _ = WAYS["Gradescope"]
    found = read(tmp_path, files, "archive")
    places = [each.folder for each in found.values()]
    assert len(set(places)) == len(places) == 3


def test_records_survive_the_way_to_json_and_back(tmp_path):
    for each in read(tmp_path, WAYS["Canvas"][0], "archive").values():
        assert Submission.of_json(each.to_json()) == each


LOOKS = [("ada", "\u0430da", "CYRILLIC SMALL LETTER A"), ("ada", "ADA", "'ADA'"), ("jos\u00e9", "jose\u0301 ", "(2)"),
         ("ada", "ada ", "(2)"), ("ada l", "ada  l", "'ada  l'"),
         ("nina", "\u03b7\u03b9\u03b7a", "GREEK SMALL LETTER ETA"),
         ("bob1", "bobl", "'bobl'")]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "part"), LOOKS)
def test_names_that_look_alike_are_told_apart_and_shown(tmp_path, one, other, part):
    (tmp_path / "work.zip").write_bytes(archive({f"{name}/02_fragments.ipynb": GOOD for name in (one, other, "zoe")}))
    found = submissions(tmp_path / "work.zip")
    assert len({each.student for each in found}) == 3
    told = [" ".join(each.problems) for each in found if "looks the same" in " ".join(each.problems)]
    assert len(told) == 2
    assert part in " ".join(told)


def test_a_path_without_work_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "grades.csv").write_text("ada,1")
    (tmp_path / "broken.zip").write_bytes(b"PK\3\4 and nothing else")
    for name, part in {"missing": "does not exist", "empty": "nothing that was handed in",
                       "grades.csv": "neither a folder nor a zip", "broken.zip": "damaged"}.items():  # fmt: skip
        with pytest.raises(CourseError, match=part):
            submissions(tmp_path / name)


@pytest.mark.parametrize("way", ["Gradescope", "Moodle", "Canvas", "one student", "nbgrader", "files"])
def test_whose_numbers_were_marked_is_said_where_nobody_knows(tmp_path, way):
    """The names on a website differ from those for which a learner's notebooks draw numbers."""
    files, _ = WAYS[way]
    work = folder(tmp_path / "work", files)
    known = way in ("nbgrader", "files")
    alone = submissions(work)
    assert all(known is ("No roster lists" not in " ".join(each.problems)) for each in alone)
    listed = Roster({each.student: f"learner {each.student}" for each in alone})
    assert not any("roster" in " ".join(each.problems) for each in submissions(work, roster=listed))
