"""The ways in which work is handed in, one row each: how to recognise it, and whose each file is.

    nbgrader      submitted/ada/02_fragments/02_fragments.ipynb, with timestamp.txt beside it
    Gradescope    submission_27378463/02_fragments.ipynb; submission_metadata.yml says whose that is
    Moodle        Ada Byron_12345_assignsubmission_file/02_fragments.ipynb, or ..._file_02_fragments.ipynb
    Canvas        byronada_LATE_12345_67890_02_fragments-1.ipynb, or LATE_anon_Ab1c2_67890_02_fragments.ipynb
    one student   02_fragments.ipynb, or a laid-out course with the folders notebooks and exercises
    plain files   ada.ipynb, ada/02_fragments.ipynb, ada.zip

The name of a file or folder identifies the student; nothing inside a notebook says whose it is. nbgrader and plain
files are named after learners; the others call them what a website does, and a roster translates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from tcemu.course.lay_out import RECORD
from tcemu.course.source import FOLDERS
from tcemu.grade.intake import gradescope, limits
from tcemu.grade.intake.file import File, Refused
from tcemu.grade.intake.lessons import Lessons

#: Folders that only hold the others: an archive often has one of them around everything.
_AROUND = re.compile(r"submitted|submissions|assignment_[0-9]+_export", re.IGNORECASE)
#: Moodle (mod/assign/classes/downloader.php): the student or the team, the number, which those without a team lack, the
#: plugin that took it, such as file or onlinetext; then the file, if the teacher does not ask for folders.
_MOODLE = re.compile(r"(?P<name>.+?)(?:_(?P<number>[0-9]+))?_assignsubmission_[a-z0-9]+_?(?P<file>.*)", re.DOTALL)
#: Canvas (lib/content_zipper.rb): the name, in which may be _, whether it was late, the number of the student, or what
#: stands for all three where marking is anonymous; then the number of the file and the file, or a text or a link.
_CANVAS = re.compile(
    r"(?:(?P<anonymous>(?:LATE_)?anon_[A-Za-z0-9]+)|(?P<name>.+?)_(?P<late>LATE_)?(?P<number>[0-9]+))"
    r"_(?:(?P<turn>[0-9]+)_(?P<file>.+)|(?:text|link)\.html)", re.DOTALL
)  # fmt: skip
_TIMESTAMP = "timestamp.txt"


@dataclass(frozen=True)
class Handed:
    """A file with its student; of two files for the same notebook, the one that sorts last by `order` counts."""

    student: str
    file: File
    order: tuple[str | int, ...] = ()
    #: When it was handed in, as the hand-in writes it; "LATE" if that is all that is known.
    when: str = ""


@dataclass(frozen=True)
class Way:
    """One way of handing in.

    `sort` takes the files and the name of the folder or archive around them, and gives each file to a student.
    """

    name: str
    recognises: Callable[[Sequence[File], Lessons], bool]
    sort: Callable[[Sequence[File], str], Iterator[Handed]]
    #: Whether the names are those that the learners' own notebooks use, from which the numbers of exercises follow.
    learners: bool = False


def way_of(files: Sequence[File], lessons: Lessons) -> Way:
    """The row that fits: the first one that recognises the files.

    >>> from tcemu.grade.intake.file import refused
    >>> from tcemu.grade.intake.hand_ins import way_of
    >>> from tcemu.grade.intake.lessons import Lessons
    >>> way_of([refused(("byronada_12345_67890_x.ipynb",), "")], Lessons({})).name
    'Canvas'
    """
    return next(way for way in WAYS if way.recognises(files, lessons))


def unwrapped(files: Sequence[File]) -> list[File]:
    """The files without the folders around all of them."""
    while files and all(len(file.parts) > 1 for file in files):
        (first,) = around if len(around := {file.parts[0] for file in files}) == 1 else ("",)
        if not _AROUND.fullmatch(first):
            break
        files = [replace(file, parts=file.parts[1:]) for file in files]
    return list(files)


# ---------------------------------------------------------------------------------------------- Gradescope


def _is_gradescope(files: Sequence[File], lessons: Lessons) -> bool:
    return any(file.parts == (gradescope.METADATA,) for file in files)


def _gradescope(files: Sequence[File], around: str) -> Iterator[Handed]:
    listed = next(file for file in files if file.parts == (gradescope.METADATA,))
    try:
        rows = gradescope.rows(listed.read(limits.METADATA))
    except Refused as error:
        raise Refused(f"has a list of submissions, {gradescope.METADATA}, that {error}") from None
    for file in files:
        if file is not listed:
            row = rows.get(file.parts[0], gradescope.Row((), ""))
            for student in row.students or (file.parts[0],):
                yield Handed(student, file, (row.when,), row.when)


# ---------------------------------------------------------------------------------------------- Moodle and Canvas


def _all_match(pattern: re.Pattern[str], files: Sequence[File], lessons: Lessons) -> bool:
    """Whether there are names and all of them match: such an archive has nothing else at the top level."""
    tops = {file.parts[0] for file in files}
    return bool(tops) and all(pattern.fullmatch(top) for top in tops)


def _people(pattern: re.Pattern[str], files: Sequence[File], around: str) -> Iterator[Handed]:
    """Students by name; numbers distinguish those with the same name."""
    read = [(file, match) for file in files if (match := pattern.fullmatch(file.parts[0]))]
    numbers: dict[str, set[str]] = {}
    for _, match in read:
        numbers.setdefault(_who(match), set()).add(match["number"] or "")
    for file, match in read:
        name = _who(match) if len(numbers[_who(match)]) == 1 else f"{_who(match)} {match['number'] or ''}".rstrip()
        parts = (match["file"],) if match["file"] and len(file.parts) == 1 else file.parts
        turn = int((match.groupdict().get("turn") or "0")[:18])
        marked = match.groupdict().get("late") or match.groupdict().get("anonymous") or ""
        late = "LATE" if marked.startswith("LATE_") else ""
        yield Handed(name, replace(file, parts=parts), (turn, file.name), late)


def _who(match: re.Match[str]) -> str:
    """The student's name, or what Canvas puts in its place."""
    return match["name"] or match["anonymous"].removeprefix("LATE_")


# ---------------------------------------------------------------------------------------------- folders


def _is_nbgrader(files: Sequence[File], lessons: Lessons) -> bool:
    """Student, assignment, notebook: every notebook has two folders around it, the second named as a notebook is."""
    books = [file for file in files if file.name.endswith(".ipynb")]
    return bool(books) and all(len(file.parts) >= 3 for file in books) and any(
        file.name == _TIMESTAMP or lessons.named(file.parts[1]) for file in files if len(file.parts) >= 3
    )  # fmt: skip


def _nbgrader(files: Sequence[File], around: str) -> Iterator[Handed]:
    for (student, *_), group in groupby(sorted(files, key=_assignment), key=_assignment):
        held = list(group)
        stamp = next((file for file in held if file.name == _TIMESTAMP and len(file.parts) == 3), None)
        when = _text(stamp) if stamp else ""
        for file in held:
            if file.name != _TIMESTAMP:
                yield Handed(student, file, (when,), when)


def _assignment(file: File) -> tuple[str, ...]:
    return file.parts[:2] if len(file.parts) > 1 else (_stem(file.name), "")


def _text(file: File) -> str:
    try:
        return file.read(100).decode("utf-8", "replace").strip()
    except Refused:
        return ""


def _is_one(files: Sequence[File], lessons: Lessons) -> bool:
    """Whether these are the notebooks themselves, so that one student handed them in.

    All of them have to be: one file of a class that is still called as it was released is no reason to give a student
    everybody's work.
    """
    if any(file.parts == (RECORD,) for file in files):
        return True  # a course that was laid out for somebody, with whatever else they put there
    books = [file.parts for file in files if file.name.endswith((".ipynb", ".zip"))]
    return bool(books) and all(
        parts[0] in FOLDERS if len(parts) > 1 else lessons.named(_stem(parts[0])) for parts in books
    )


def _one(files: Sequence[File], around: str) -> Iterator[Handed]:
    return (Handed(around, file) for file in files)


def _plain(files: Sequence[File], around: str) -> Iterator[Handed]:
    return (Handed(file.parts[0] if len(file.parts) > 1 else _stem(file.name), file) for file in files)


def _stem(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return stem if dot and stem and ending.lower() in ("ipynb", "zip") else name


def _always(files: Sequence[File], lessons: Lessons) -> bool:
    return True


WAYS = (
    Way("Gradescope", _is_gradescope, _gradescope),
    Way("Moodle", partial(_all_match, _MOODLE), partial(_people, _MOODLE)),
    Way("Canvas", partial(_all_match, _CANVAS), partial(_people, _CANVAS)),
    Way("nbgrader", _is_nbgrader, _nbgrader, learners=True),
    Way("one student", _is_one, _one),
    Way("plain files", _always, _plain, learners=True),
)
