"""Intake of hostile work: each file is refused in a sentence, and the rest of the class is read."""

import io
import json
import os
import socket
import struct
import unicodedata
import zipfile

import pytest
from handed import ANSWER, GOOD, STEM, archive, folder, linked, notebook
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu.grade import syntax
from tcemu.grade.intake import limits, submissions
from tcemu.grade.intake.file import Refused
from tcemu.grade.intake.gradescope import rows
from tcemu.grade.intake.notebooks import cleaned

GOOD_CELLS = {"cells": [{"cell_type": "code", "source": ANSWER}]}


def bomb(size=64 << 20):
    """An archive with a notebook of zeros, which grows a thousandfold."""
    return archive({"02_fragments.ipynb": b"0" * size})


def lying():
    """An archive that claims that its notebook has ten bytes."""
    held = bytearray(archive({"02_fragments.ipynb": b" " * 5000 + GOOD}, zipfile.ZIP_STORED))
    at = held.rfind(b"PK\1\2")
    held[at + 20 : at + 28] = struct.pack("<II", 10, 10)
    return bytes(held)


def endless():
    """An archive that promises four gigabytes of contents."""
    held = bytearray(archive({"02_fragments.ipynb": GOOD}))
    at = held.rfind(b"PK\5\6")
    held[at + 12 : at + 16] = b"\xff\xff\xff\xff"
    return bytes(held)


def encrypted():
    held = bytearray(archive({"02_fragments.ipynb": GOOD}))
    held[held.rfind(b"PK\1\2") + 8] |= 1
    return bytes(held)


def cell(**keys):
    return json.dumps({"cells": [{"cell_type": "code", "source": ANSWER}, {"cell_type": "code", **keys}]}).encode()


#: What a file contains, and a part of the sentence about it.
FILES = {
    "02_fragments.ipynb": {
        "empty": (b"", "is empty"),
        "blank": (b" \n", "is empty"),
        "a picture": (b"\x89PNG\r\n\x1a\n\0\0\xff", "not text in UTF-8"),
        "UTF-16": (GOOD.decode().encode("utf-16"), "not text in UTF-8"),
        "a web page": (b"<html><script>alert(1)</script>", "line 1 is not JSON"),
        "cut off": (GOOD[:-20], "not JSON"),
        "a number": (b"1" * 100_000, "no list of cells"),
        "a list": (b"[]", "no list of cells"),
        "cells that are no list": (b'{"cells": {"0": 1}}', "no list of cells"),
        "an old format": (b'{"worksheets": [{"cells": []}], "nbformat": 3}', "save it"),
        "nested lists": (b"[" * 500_000, "nested"),
        "nested objects": (b'{"a":' * 100_000, "nested"),
        "nested metadata": (notebook(ANSWER).replace(b'"metadata": {}', b'"metadata": ' + b"[" * 300 + b"]" * 300),
                            "nested"),
        "quotes without end": (b'{"cells": "' + b'\\"' * 2_000_000, "not JSON"),
        "too long": (b" " * (limits.NOTEBOOK + 1), "larger than 8 MB"),
        "too much code": (notebook(ANSWER, *["#" * syntax.CELL] * 4), "of code"),
        "a cell that takes minutes to parse": (notebook(ANSWER, "f'" + "{1}" * 200_000 + "'"), "Code cell 2 has"),
        "source that is a number": (cell(source=5), "code cell 2 is not text"),
        "source of objects": (cell(source=[{"a": 1}]), "code cell 2 is not text"),
        "too many cells": (notebook(ANSWER, *["1"] * syntax.CELLS), "code cells"),
    },
    "work.zip": {
        "not an archive": (b"PK", "not a zip archive"),
        "a bomb": (bomb(), "would grow"),
        "a size that lies": (lying(), "damaged"),
        "contents without end": (endless(), "lists more"),
        "too many files": (archive(dict.fromkeys((f"{n}.txt" for n in range(limits.FILES + 1)), b"")), "holds 201"),
        "encrypted": (encrypted(), "encrypted"),
        "an archive in an archive": (archive({"inner.zip": archive({"a.ipynb": GOOD})}), "inside an archive"),
        "a path that climbs": (archive({"../../../tmp/02_fragments.ipynb": GOOD}), "climbs out"),
        "an absolute path": (archive({"/etc/02_fragments.ipynb": GOOD}), "absolute path"),
        "a drive": (archive({"C:/02_fragments.ipynb": GOOD}), "absolute path"),
        "backslashes": (archive({"..\\..\\02_fragments.ipynb": GOOD}), "for Windows"),
        "a link": (archive(linked("02_fragments.ipynb", "/etc/passwd")), "symbolic link"),
        "deep folders": (archive({"a/" * 500 + "02_fragments.ipynb": GOOD}), "folders deep"),
        "an unknown compression": (archive({"02_fragments.ipynb": GOOD}).replace(b"\x08\0", b"\x63\0"), "damaged"),
    },
    "work.tar.gz": {"an archive of another kind": (b"\x1f\x8b", "of an unsupported kind")},
}  # fmt: skip


def test_each_hostile_file_costs_only_its_own_student(tmp_path, row):
    for file, cases in FILES.items():
        for name, (content, part) in cases.items():
            with row(f"{file}: {name}"):
                root = folder(tmp_path / file / name, {f"eve/{file}": content, f"ada/{STEM}.ipynb": GOOD})
                ada, eve = submissions(root)
                assert (ada.student, list(ada.files), ada.problems) == ("ada", [STEM], ())
                assert part in " ".join(eve.problems), eve.problems
                assert all(len(problem) < 300 and problem.isprintable() for problem in eve.problems)
    assert not list(tmp_path.parent.glob("**/escape*"))


def test_links_and_devices_are_named_and_never_opened(tmp_path, row):
    """Opening a pipe would block forever."""
    secret = folder(tmp_path / "solutions", {"02_fragments.ipynb": GOOD})
    root = folder(tmp_path / "work", {"ada/02_fragments.ipynb": GOOD})
    places = {kind: root / kind / "02_fragments.ipynb" for kind in ("symbolic link", "hard link", "pipe", "socket")}
    for place in places.values():
        place.parent.mkdir()
    places["symbolic link"].symlink_to(secret / "02_fragments.ipynb")
    os.link(secret / "02_fragments.ipynb", places["hard link"])
    os.mkfifo(places["pipe"])
    os.mknod(places["socket"], 0o140600) if os.geteuid() == 0 else socket.socket(socket.AF_UNIX).bind(
        os.path.relpath(places["socket"])
    )
    (root / "folder link").symlink_to(secret)
    found = {each.student: each for each in submissions(root)}
    for kind in places:
        with row(kind):
            assert not found[kind].files
            assert f"is a {kind}" in found[kind].problems[0]
    assert not found["folder link"].files
    assert "symbolic link" in found["folder link"].problems[0]
    assert list(found["ada"].files) == [STEM]


def test_a_file_of_200_mb_is_not_read(tmp_path):
    root = folder(tmp_path, {"ada/02_fragments.ipynb": GOOD, "eve/02_fragments.ipynb": b""})
    os.truncate(root / "eve/02_fragments.ipynb", 200 << 20)
    assert [bool(each.files) for each in submissions(root)] == [True, False]


@pytest.mark.slow
def test_one_student_s_files_are_limited_together(tmp_path):
    size = limits.NOTEBOOK - 10_000
    padded = notebook(ANSWER, metadata={"x": "y" * size})
    root = folder(tmp_path, {f"eve/{number}.ipynb": padded for number in range(limits.STUDENT // size + 3)})
    (one,) = submissions(root)
    assert "is not read, because the files before it already take 64 MB" in " ".join(one.problems)


@pytest.mark.parametrize("pack", ["folder", "archive"])
def test_names_that_collide_or_deceive_stay_apart_and_visible(tmp_path, pack):
    names = ["José", unicodedata.normalize("NFD", "José"), "JOSÉ", "a\x1b[2Jda", "\u202eada", "x" * 200, "=cmd", " "]
    files = {f"{name}/02_fragments.ipynb": GOOD for name in names}
    if pack == "archive":
        (tmp_path / "work.zip").write_bytes(archive(files))
        found = submissions(tmp_path / "work.zip")
    else:
        found = submissions(folder(tmp_path / "work", files))
    students = [each.student for each in found]
    assert len(set(students)) == len(names)
    assert all(name.isprintable() and len(name) < 130 for name in students)
    alike = [each.student for each in found if "looks the same" in " ".join(each.problems)]
    assert sorted(alike) == ["JOSÉ", "José", "José (2)"]


def test_the_same_path_twice_in_an_archive_counts_once(tmp_path):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("eve/02_fragments.ipynb", GOOD)
        with pytest.warns(UserWarning, match="Duplicate name"):
            made.writestr("eve/02_fragments.ipynb", notebook(ANSWER, "x = 2"))
    (tmp_path / "work.zip").write_bytes(held.getvalue())
    (one,) = submissions(tmp_path / "work.zip")
    assert "more than once" in one.problems[0]


def test_cells_with_the_same_id_get_ids_of_their_own():
    cells = [{"cell_type": "code", "id": name, "source": "1"} for name in ("a", "a", "cell-2", 5, "../x", None)]
    made = cleaned(json.dumps({"cells": cells}).encode())
    ids = [cell["id"] for cell in json.loads(made.content)["cells"]]
    assert len(set(ids)) == len(ids) == 6
    assert made.problems == ("Two cells have the id a.",)


def test_numbers_and_lone_surrogates_mean_nothing(tmp_path):
    text = '{"cells": [{"cell_type": "code", "execution_count": NaN, "source": "\\ud800"}], "n": 1' + "0" * 10_000 + "}"
    (one,) = json.loads(cleaned(text.encode()).content)["cells"]
    assert one["source"] == "\ufffd"


def test_gradescope_s_list_is_text_without_aliases_and_without_depth():
    assert rows(b"s:\n  :submitters:\n  - :sid: 0815\n")["s"].students == ("0815",)
    for bad in (b"a: &x [1]\nb: *x\n", b"[" * 5000, b"a: [", b"- 1", b"\xff"):
        with pytest.raises(Refused):
            rows(bad)
    assert rows(b"1: 2\nb: {':submitters': 5}\nc: {':submitters': [{':sid': [1]}]}")["b"].students == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["cells", "cell_type", "source", "id"]), inner),
    max_leaves=5,
)


@examples(50)
@given(st.one_of(st.binary(), st.text().map(str.encode), _JSON.map(lambda held: json.dumps(held).encode()),
                 st.lists(_JSON).map(lambda held: json.dumps({"cells": held}).encode())))  # fmt: skip
def test_any_bytes_are_a_notebook_or_are_refused(held):
    try:
        made = cleaned(held)
    except Refused:
        return
    assert cleaned(made.content).content == made.content
