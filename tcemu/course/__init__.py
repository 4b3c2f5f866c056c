"""The course: find its notebooks and exercises, lay them out for a learner, and check what the learner writes.

from tcemu.course import check, given, hint
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from tcemu.course.lay_out import RECORD, Laid, lay_out
from tcemu.course.source import FOLDERS, LEARNERS, START, clone_around, clone_opened, files, own_folder, source

if TYPE_CHECKING:
    from tcemu.course import ladder, progress
    from tcemu.course.answers import AnswerError, Unanswered
    from tcemu.course.bank import exercise, exercises
    from tcemu.course.broken_rules import which_rule
    from tcemu.course.checking import check, given, hint, judged
    from tcemu.course.manifests import Manifest, manifest
    from tcemu.course.overviews import overview
    from tcemu.course.record import Exercise, Finding, Given, Judge
    from tcemu.course.verdict import Verdict

__all__ = [
    "FOLDERS", "LEARNERS", "RECORD", "START", "AnswerError", "Exercise", "Finding", "Given", "Judge", "Laid",
    "Manifest", "Unanswered", "Verdict", "check", "clone_around", "clone_opened", "exercise", "exercises", "files",
    "given", "hint", "judged", "ladder", "lay_out", "manifest", "overview", "own_folder", "progress", "source",
    "which_rule",
]  # fmt: skip

#: Laying the course out needs no exercise, so they are loaded when one of their names is first used.
_HOMES = {
    "answers": "AnswerError Unanswered",
    "bank": "exercise exercises",
    "broken_rules": "which_rule",
    "checking": "check given hint judged",
    "manifests": "Manifest manifest",
    "overviews": "overview",
    "record": "Exercise Finding Given Judge",
    "verdict": "Verdict",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> _Any:
    if name in ("ladder", "progress"):
        return _import_module(f"tcemu.course.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(_import_module(f"tcemu.course.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
