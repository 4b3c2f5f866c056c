"""Which notebook of the course a file is: by its name, or else by the exercises that it answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tcemu.course.manifests import Manifest
from tcemu.grade.syntax import parsed

#: What browsers, JupyterLab and Canvas add to the name of a copy: "02_fragments (1)", "-Copy2", "-1".
_COPY = re.compile(r"(?: ?\([0-9]{1,4}\)|-Copy[0-9]{1,4}|-[0-9]{1,4}|_copy|-checkpoint)$")


@dataclass(frozen=True)
class Lessons:
    """The notebooks of a course by their stems, each with the names of its exercises.

    >>> from tcemu import course
    >>> from tcemu.grade.intake.lessons import Lessons
    >>> lessons = Lessons.of(course.manifest())
    >>> lessons.named("02_fragments (1)-Copy1"), lessons.answered(["def where_of_b(row, column): return 0, 0"])
    ('02_fragments', '02_fragments')
    """

    exercises: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, manifest: Manifest) -> Lessons:
        """The notebooks of a manifest that have exercises."""
        rows = {entry.file.removesuffix(".ipynb"): {*entry.tasks, *entry.exercises} for entry in manifest.notebooks}
        return cls({stem: frozenset(names) for stem, names in rows.items() if names})

    @cached_property
    def _stems(self) -> Mapping[str, str]:
        return {stem.casefold(): stem for stem in self.exercises}

    def named(self, stem: str) -> str:
        """The notebook that a file's stem names, or ""."""
        for _ in range(4):
            if stem.casefold() in self._stems:
                return self._stems[stem.casefold()]
            stem = _COPY.sub("", stem)
        return ""

    def answered(self, sources: Iterable[str]) -> str:
        """The notebook most of whose exercises the cells define or check, or "" if that is none or two."""
        names = {name for cell in parsed(sources) for name in (*cell.makes, *cell.checks)}
        counts = sorted(((len(names & known), stem) for stem, known in self.exercises.items()), reverse=True)
        if not counts or not counts[0][0] or (len(counts) > 1 and counts[1][0] == counts[0][0]):
            return ""
        return counts[0][1]
