"""results.json, what Gradescope reads from an autograder: the score, and a test for each exercise."""

from __future__ import annotations

import json
from typing import Any

from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.output.lateness import Lateness
from tcemu.grade.output.sheet import number
from tcemu.grade.output.words import WORDS, about_grade
from tcemu.grade.plain import visible
from tcemu.grade.records import Grade, Mark


def results(grade: Grade, course: Catalogue | None = None, late: Lateness | None = None) -> str:
    """The results of one student as JSON, for Gradescope's /autograder/results/results.json.

    Every text is plain ("text"), so that Gradescope shows markup instead of following it.

    >>> import json
    >>> from tcemu.grade.output.gradescope import results
    >>> from tcemu.grade.records import Grade, Mark
    >>> held = json.loads(results(Grade("ada", "0", (Mark("where_of_a", "02_fragments", "right", 2.0, 2),))))
    >>> held["score"], held["tests"][0]["status"]
    (2.0, 'passed')
    """
    held: dict[str, Any] = {
        "score": round(grade.points, 4),
        "output": "\n".join(visible(line) for line in (*about_grade(grade), *(late.says if late else ()))),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(mark, number, course or installed()) for number, mark in enumerate(grade.marks, 1)],
        "extra_data": {"student": grade.student, "digest": grade.digest, "tcemu": grade.tcemu, "course": grade.course},
    }
    return json.dumps(held, indent=1, sort_keys=True) + "\n"


def _test(mark: Mark, place: int, course: Catalogue) -> dict[str, Any]:
    hand = "" if mark.graded is None else f"Points by hand; the grader gave {number(mark.graded)}."
    scores = (f"{name}: {count:,}" for name, count in mark.scores.items())
    said = [f"{WORDS[mark.state]}.", hand, mark.comment, mark.says, mark.mistake, *scores]
    return {
        "name": visible(f"{mark.notebook}: {course.title(mark.exercise)}"),
        "name_format": "text",
        "number": str(place),
        "score": round(mark.points, 4),
        "max_score": mark.of,
        "status": "passed" if mark.state == "right" else "failed",
        "output": "\n".join(visible(line, lines=True) for line in said if line),
        "output_format": "text",
        "visibility": "visible",
    }
