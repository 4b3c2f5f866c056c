"""From a folder, an archive or a notebook to submissions: one for each student, whatever is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from tcemu.course.manifests import Manifest, manifest
from tcemu.errors import CourseError, listing, shown
from tcemu.grade.intake.archives import in_archive, in_handed_archive
from tcemu.grade.intake.file import File, Refused
from tcemu.grade.intake.folders import file_at, in_folder
from tcemu.grade.intake.hand_ins import Handed, unwrapped, way_of
from tcemu.grade.intake.lessons import Lessons
from tcemu.grade.intake.limits import ARCHIVE, FILES, NOTEBOOK, STUDENT, amount
from tcemu.grade.intake.notebooks import Cleaned, cleaned
from tcemu.grade.intake.roster import Roster
from tcemu.grade.plain import letters, looks, name_of, visible
from tcemu.grade.records import Submission

#: Archives that are not opened.
_REFUSED = frozenset({".gz", ".tar", ".tgz", ".7z", ".rar", ".bz2", ".xz"})


def submissions(
    path: Path, course: Manifest | None = None, roster: Roster | None = None, *, alone: str = ""
) -> list[Submission]:
    """What was handed in at `path`, a folder, a zip archive or a notebook: one record for each student, by name.

    If all of it is one student's, `alone` is the learner's name, whatever the files are called. Without a `roster`,
    students are called what the hand-in calls them; if those need not be the names that their own notebooks use, each
    submission says so in its `problems`.

    What is wrong with a file becomes a sentence in its student's `problems`; the others are read all the same. The
    notebooks of the records are made anew: they have code cells and nothing else. Nothing is written to disk. Raises
    CourseError if there is nothing at `path` that could be read.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tcemu.grade.intake import submissions
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "ada.ipynb").write_text('{"cells": []}')
    ...     [(each.student, each.problems) for each in submissions(Path(folder))]
    [('ada', ('ada.ipynb answers no exercise of the course, and its name is not that of a notebook.',))]
    """
    lessons = Lessons.of(course or manifest())
    try:
        files = unwrapped(list(_files(path)))
        way = way_of(files, lessons)
        handed = (
            [Handed(alone, complete) for complete in files] if alone else list(way.sort(files, path.resolve().stem))
        )
    except Refused as error:
        raise CourseError(f"{path} {error}") from None
    if not handed:
        raise CourseError(f"{path} holds nothing that was handed in: neither notebooks nor archives")
    students: dict[str, list[Handed]] = {}
    learners = roster or Roster({})
    strangers = set()
    for each in handed:
        learner = alone or learners[each.student]
        students.setdefault(learner, []).append(each)
        if not way.learners and not alone and each.student not in learners:
            strangers.add(learner)
    names = _names(sorted(students))
    looks = _looks(names)
    complete = [_submission(names[raw], students[raw], lessons, looks.get(names[raw], "")) for raw in sorted(students)]
    complete = [
        replace(each, problems=(*each.problems, unlisted(raw))) if raw in strangers else each
        for each, raw in zip(complete, sorted(students), strict=True)
    ]
    return sorted(_apart(complete), key=lambda each: each.student)


def _files(path: Path) -> Iterator[File]:
    """Every file that was handed in. Raises CourseError for a path that is none of the three kinds."""
    if path.is_dir():
        yield from in_folder(path)
    elif path.suffix.lower() == ".zip" and path.is_file():
        yield from in_archive(path)
    elif path.suffix.lower() == ".ipynb" and path.is_file():
        yield file_at(path, (path.name,))
    else:
        problem = "is neither a folder nor a zip archive nor a notebook" if path.exists() else "does not exist"
        raise CourseError(
            f"{path} {problem}. Give the folder or the archive with what was handed in: nbgrader's submitted, an "
            "export of Gradescope, Moodle or Canvas, or notebooks named after students"
        )


def _names(raws: Sequence[str]) -> Mapping[str, str]:
    """The name of each student: different for different students, even if both look the same."""
    names: dict[str, str] = {}
    for raw in raws:
        name, number = name_of(raw), 2
        while name in names.values():
            name, number = f"{name_of(raw)} ({number})", number + 1
        names[raw] = name
    return names


def unlisted(name: str) -> str:
    """A sentence about a student whose numbers in the exercises are unknown: a wrong guess costs marks.

    >>> from tcemu.grade.intake import unlisted
    >>> unlisted("ada")[:20]
    "No roster lists 'ada"
    """
    return (
        f"No roster lists {shown(name_of(name))}, so the exercises were marked with the numbers of a learner of that "
        "name. If the learner's own notebooks use another name, right answers may count as wrong: the teacher can name "
        "the learner in a roster (tcemu grade --roster)."
    )


def _looks(names: Mapping[str, str]) -> Mapping[str, str]:
    """A sentence for each name that looks like another one, which a reader may take for it."""
    groups: dict[str, list[str]] = {}
    for raw, name in names.items():
        groups.setdefault(looks(name_of(raw)), []).append(name)
    return {
        name: f"Another student's name looks the same: {listing(map(_spelled, sorted({*group} - {name})), 'and')}."
        for group in groups.values() if len(group) > 1 for name in group
    }  # fmt: skip


def _spelled(name: str) -> str:
    """A name, with the letters in it that look like others."""
    unusual = letters(name)
    return f"{shown(name)}, in which {listing(unusual, 'and')} look like others" if unusual else shown(name)


def _apart(complete: Sequence[Submission]) -> Iterator[Submission]:
    """The submissions, each with a place of its own: the members of a group handed in the same files."""
    seen: Counter[str] = Counter(each.folder for each in complete)
    for each in complete:
        yield replace(each, folder=f"{each.folder} ({each.student})") if seen[each.folder] > 1 else each


# ---------------------------------------------------------------------------------------------- one student


@dataclass(frozen=True)
class _Book:
    """A notebook that was read: where it lay, and what was made of it."""

    file: File
    cleaned: Cleaned
    when: str

    @property
    def is_lesson(self) -> bool:
        """Whether it is the lesson itself, which a laid-out course has beside the exercises of the same name."""
        return "notebooks" in self.file.parts


@dataclass
class _Read:
    """What has been read of one student's files so far."""

    lessons: Lessons
    #: Bytes that may still be read.
    left: int = STUDENT
    problems: list[str] = field(default_factory=list)
    #: For each notebook of the course what was handed in, the one that counts first.
    books: dict[str, list[_Book]] = field(default_factory=dict)


def _submission(name: str, handed: Sequence[Handed], lessons: Lessons, about_name: str) -> Submission:
    so_far = _Read(lessons)
    latest = sorted(handed, key=lambda each: (each.order, each.file.parts), reverse=True)
    for each in latest[:FILES]:
        _take(so_far, each.file, each.when)
    if len(latest) > FILES:
        so_far.problems.append(f"There are {len(latest):,} files; {FILES} of them are read.")
    if not so_far.books and not so_far.problems:
        so_far.problems.append("What was handed in contains no notebook.")
    files, times, problems = {}, {}, [*([about_name] if about_name else []), *so_far.problems]
    for stem, books in sorted(so_far.books.items()):
        first, *others = sorted(books, key=lambda book: book.is_lesson)
        files[stem], times[stem] = first.cleaned.content, visible(first.when)
        problems += [f"{first.file.where}: {problem}" for problem in first.cleaned.problems]
        problems += [f"{stem} was handed in more than once: {first.file.where} counts, {other.file.where} does not."
                     for other in others if other.is_lesson == first.is_lesson]  # fmt: skip
    times = {stem: when for stem, when in times.items() if when}
    return Submission(name, handed[0].file.where, files, tuple(dict.fromkeys(problems)), handed_in=times)


def _take(so_far: _Read, file: File, when: str, *, inside: bool = False) -> None:
    """Read one file: a notebook, an archive, or what is there without harm."""
    ending = PurePosixPath(file.name.lower()).suffix
    try:
        if ending == ".ipynb":
            _book(so_far, file, when)
        elif ending == ".zip" and inside:
            raise Refused("is an archive inside an archive, which is not opened")
        elif ending == ".zip":
            for each in in_handed_archive(_held(so_far, file, ARCHIVE), file.parts):
                _take(so_far, each, when, inside=True)
        elif ending in _REFUSED:
            raise Refused("is an archive of an unsupported kind; hand in notebooks or a zip archive")
        elif file.refused:
            raise Refused(file.refused)
    except Refused as error:
        so_far.problems.append(f"{file.where} {error}.")


def _book(so_far: _Read, file: File, when: str) -> None:
    book = cleaned(_held(so_far, file, NOTEBOOK))
    stem = so_far.lessons.named(PurePosixPath(file.name).stem) or so_far.lessons.answered(book.sources)
    if not stem:
        raise Refused("answers no exercise of the course, and its name is not that of a notebook")
    so_far.books.setdefault(stem, []).append(_Book(file, book, when))


def _held(so_far: _Read, file: File, limit: int) -> bytes:
    """A file's bytes. Raises Refused, also if the student has used up what is read of one."""
    if so_far.left <= 0:
        raise Refused(f"is not read, because the files before it already take {amount(STUDENT)}")
    held = file.read(limit)
    so_far.left -= len(held)
    return held
