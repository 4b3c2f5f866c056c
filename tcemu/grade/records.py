"""The grader's input and output: plain records, to and from JSON with the same bytes every time."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

#: The outcome of one exercise; "failed": its cell raised an error, did not end, or was not reached.
MarkState = Literal["open", "wrong", "right", "failed"]
#: The outcome of a submission; "refused": it has no notebook that could run; "quarantined": it killed its workers.
GradeState = Literal["graded", "refused", "quarantined"]


def digest_of(files: Mapping[str, bytes]) -> str:
    """The SHA-256 of named bytes, in any order: the same for the same submission, whatever its folder is called.

    >>> from tcemu.grade.records import digest_of
    >>> digest_of({"a": b"1", "b": b"2"}) == digest_of({"b": b"2", "a": b"1"})
    True
    >>> len(digest_of({}))
    64
    """
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode("utf-8", "surrogatepass"), files[name]):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


@dataclass(frozen=True)
class Submission:
    """What one student handed in: a notebook for each stem ("02_fragments"), as its bytes or where they are.

    >>> from tcemu.grade.records import Submission
    >>> one = Submission("ada", "submitted/ada", {"02_fragments": b"{}"})
    >>> one.read("02_fragments"), one == Submission.of_json(one.to_json())
    (b'{}', True)
    """

    #: The id in the student's own notebooks, which determines the variants that are marked.
    student: str
    #: Where it was found: one line for the teacher, unique in a run.
    folder: str
    files: Mapping[str, Path | bytes] = field(default_factory=dict)
    #: Problems with the submission, a sentence each, for the student and the teacher.
    problems: tuple[str, ...] = ()
    #: SHA-256 of the bytes, `digest_of`; filled in if it is not given.
    digest: str = ""
    #: When each notebook was handed in, in the hand-in's own words; "LATE" is Canvas's. No mark depends on it.
    handed_in: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", digest_of(self.contents()))

    def read(self, stem: str) -> bytes:
        """The bytes of one notebook. Raises OSError if a file cannot be read."""
        held = self.files[stem]
        return held if isinstance(held, bytes) else held.read_bytes()

    def contents(self) -> dict[str, bytes]:
        """The bytes of every notebook."""
        return {stem: self.read(stem) for stem in self.files}

    def to_json(self) -> str:
        """The record as JSON; bytes are base64. The same record gives the same text."""
        held = {stem: base64.b64encode(content).decode() for stem, content in self.contents().items()}
        return _json({"student": self.student, "folder": self.folder, "files": held, "problems": self.problems,
                      "digest": self.digest, "handed_in": dict(self.handed_in)})  # fmt: skip

    @classmethod
    def of_json(cls, text: str) -> Submission:
        """The record that `to_json` wrote. Raises ValueError, KeyError or TypeError for any other text."""
        held = json.loads(text)
        files = {stem: base64.b64decode(content) for stem, content in held["files"].items()}
        return cls(held["student"], held["folder"], files, tuple(held["problems"]), held["digest"],
                   dict(held.get("handed_in", {})))  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """The result of one exercise.

    `says`, `mistake` and `scores` come from the marking; where the answer's own words are quoted, they are plain text
    without control characters. `pictures` are complete SVG documents.
    """

    exercise: str
    #: The notebook's stem: "02_fragments".
    notebook: str
    state: MarkState
    #: Points earned, from 0 to `of`.
    points: float
    of: int
    says: str = ""
    mistake: str = ""
    scores: Mapping[str, int] = field(default_factory=dict)
    pictures: tuple[str, ...] = ()
    #: What the teacher says; and, where the teacher gave the points, those that the grader gave.
    comment: str = ""
    graded: float | None = None


@dataclass(frozen=True)
class Grade:
    """The result of one submission.

    The same bytes, course and version of tcemu give the same text of `to_json`, so `seconds` is left out
    of it, and of comparisons.

    >>> from tcemu.grade.records import Grade, Mark
    >>> mark = Mark("where_of_a", "02_fragments", "right", 2.0, 2, "Right in 256 cases.")
    >>> grade = Grade("ada", "00" * 32, (mark,), tcemu="1.0", course="ab" * 8)
    >>> grade.points, grade.of, grade == Grade.of_json(grade.to_json())
    (2.0, 2, True)
    """

    student: str
    #: The submission's digest.
    digest: str
    marks: tuple[Mark, ...] = ()
    state: GradeState = "graded"
    #: What the student has to know about the submission as a whole; several sentences, one a line.
    says: str = ""
    #: The version of tcemu that marked it.
    tcemu: str = ""
    #: The digest of the course: its manifest and its exercises.
    course: str = ""
    #: The submission's folder, as in Submission.
    folder: str = ""
    #: Seconds that grading took; not part of the result.
    seconds: float = field(default=0.0, compare=False)

    @property
    def points(self) -> float:
        """Points earned."""
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> int:
        """Points that could be earned in the requested notebooks of the course."""
        return sum(mark.of for mark in self.marks)

    @property
    def worth(self) -> bool:
        """Whether its points say something: a submission in quarantine gets none, and no zero."""
        return self.state != "quarantined"

    def to_json(self) -> str:
        """The record as JSON, without the seconds. The same record gives the same text."""
        return _json({name: held for name, held in asdict(self).items() if name != "seconds"})

    @classmethod
    def of_json(cls, text: str) -> Grade:
        """The record that `to_json` wrote. Raises ValueError, KeyError or TypeError for any other text."""
        held = json.loads(text)
        known = {each.name for each in fields(cls)}
        marks = tuple(Mark(**(mark | {"pictures": tuple(mark["pictures"])})) for mark in held.pop("marks"))
        return cls(marks=marks, **{name: value for name, value in held.items() if name in known})


def _json(record: Any) -> str:
    return json.dumps(record, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"
