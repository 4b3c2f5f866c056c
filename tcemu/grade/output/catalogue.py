"""What a course calls its notebooks and exercises, and what it released: the installed course, or one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tcemu.course.bank import exercises
from tcemu.course.manifests import Manifest, manifest
from tcemu.course.record import Exercise


@dataclass(frozen=True)
class Catalogue:
    """The names of one course; what is not in it keeps the name that it has.

    >>> from tcemu.grade.output.catalogue import installed
    >>> installed().label("02_fragments"), installed().title("where_of_a"), installed().title("mine")
    ('02 Fragments', 'Where is A[row][column]?', 'mine')
    """

    manifest: Manifest

    def exercise(self, name: str) -> Exercise | None:
        """The row of an exercise, if the course has it."""
        return exercises(self.manifest.root).get(name)

    def title(self, name: str) -> str:
        """What an exercise is called."""
        row = self.exercise(name)
        return row.title if row else name

    def label(self, stem: str) -> str:
        """What a notebook is called: its number and its title."""
        return next((entry.label for entry in self.manifest.notebooks if entry.file == f"{stem}.ipynb"), stem)

    def released(self, stem: str) -> Iterator[str]:
        """The sources of the code cells of the notebooks of that name, as they were released."""
        for name, path in self.manifest.contents().items():
            if Path(name).name == f"{stem}.ipynb":
                held = json.loads(path.read_text(encoding="utf-8"))["cells"]
                yield from ("".join(cell["source"]) for cell in held if cell["cell_type"] == "code")


@cache
def installed() -> Catalogue:
    """The installed course."""
    return Catalogue(manifest())
