"""Gradescope's list of submissions, submission_metadata.yml: whose folder is whose.

    submission_27378463:
      :submitters:
      - :name: Ada Byron
        :sid: '0815'
        :email: ada@example.edu
      :created_at: 2026-10-10 20:45:35.236513000 Z

It lies beside the folders. Scores, results and the history of each submission follow in it, and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tcemu.grade.intake.file import Refused

#: The file's name.
METADATA = "submission_metadata.yml"
#: The fields that identify a student, the best first.
_WHO = (":sid", ":email", ":name")


@dataclass(frozen=True)
class Row:
    """One folder: who handed it in, several for a group, and when."""

    students: tuple[str, ...]
    when: str


#: Reads everything as text: a student's number keeps its zeros.
_Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
#: How deep the list is nested at most.
_DEPTH = 40


def rows(held: bytes) -> Mapping[str, Row]:
    r"""The rows of the list by folder. Raises Refused if it cannot be read.

    >>> from tcemu.grade.intake.gradescope import rows
    >>> rows(b"submission_1:\n  :submitters:\n  - :name: Ada\n    :sid: '007'\n")["submission_1"].students
    ('007',)
    """
    try:
        text = held.decode("utf-8-sig")
        _refuse_bombs(text)
        metadata = yaml.load(text, _Loader)  # noqa: S506 - a base loader makes lists, dicts and text
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise Refused(f"cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(metadata, dict):
        raise Refused("is not a list of submissions")
    return {folder: _row(entry) for folder, entry in metadata.items() if isinstance(folder, str)}


def _refuse_bombs(text: str) -> None:
    """Raise YAMLError for aliases, which multiply without end, and for deep nesting."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEPTH:
            raise yaml.YAMLError(f"it is nested more than {_DEPTH} deep")


def _row(entry: Any) -> Row:
    held = entry if isinstance(entry, dict) else {}
    submitters = held.get(":submitters")
    people = [person for person in submitters if isinstance(person, dict)] if isinstance(submitters, list) else []
    when = held.get(":created_at")
    return Row(tuple(_named(people)), when if isinstance(when, str) else "")


def _named(people: list[dict[str, Any]]) -> Iterator[str]:
    for person in people:
        known = [person[field] for field in _WHO if isinstance(person.get(field), str) and person[field].strip()]
        if known:
            yield known[0]
