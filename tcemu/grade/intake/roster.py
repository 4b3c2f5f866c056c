"""A roster: what the hand-in calls a student, and what the student's own notebooks call the learner.

    handed_in,learner
    byronada,ada
    Ada Byron,ada

The numbers of an exercise follow from the learner's name: the user of a JupyterHub, or the one given to
`tcemu check --as`. Canvas, Moodle and Gradescope have other names for the same people. Further columns are not read.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from tcemu.errors import CourseError, listing
from tcemu.grade.plain import alike

#: The columns.
HANDED_IN, LEARNER = "handed_in", "learner"


class Roster:
    """The learners by what the hand-in calls them; upper and lower case are the same.

    >>> from tcemu.grade.intake import Roster
    >>> Roster({"byronada": "ada"})["ByronAda"], Roster({})["bob"]
    ('ada', 'bob')
    """

    def __init__(self, learners: Mapping[str, str]) -> None:
        self._learners = {alike(name): learner for name, learner in learners.items()}
        #: What the hand-in calls each learner.
        self.names = {learner: name for name, learner in learners.items()}

    @classmethod
    def read(cls, path: Path) -> Roster:
        r"""The roster in a CSV file. Raises CourseError, which says what is wrong with it.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from tcemu.grade.intake import Roster
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "roster.csv")
        ...     _ = path.write_text("handed_in,learner\nbyronada,ada\n")
        ...     Roster.read(path)["byronada"]
        'ada'
        """
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = list(csv.DictReader(file))
        except (OSError, ValueError, csv.Error) as error:
            raise CourseError(f"cannot read the roster {path}: {getattr(error, 'strerror', None) or error}") from error
        held: dict[str, str] = {}
        for line, row in enumerate(rows, 2):
            name, learner = ((row.get(column) or "").strip() for column in (HANDED_IN, LEARNER))
            if not name or not learner:
                raise CourseError(f"{path}, line {line}: a row has {listing([HANDED_IN, LEARNER], 'and')}, as in the "
                                  "header handed_in,learner")  # fmt: skip
            if held.setdefault(alike(name), learner) != learner:
                raise CourseError(f"{path}, line {line}: {name} is listed twice, as two learners")
        return cls(held)

    def __contains__(self, name: str) -> bool:
        return alike(name) in self._learners

    def __getitem__(self, name: str) -> str:
        """The learner, or the name itself if it is not listed."""
        return self._learners.get(alike(name), name)
