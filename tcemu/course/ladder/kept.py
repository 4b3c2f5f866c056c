"""A learner's kernels: files of their own in the folder my_gemm of the laid-out course, and their cycles.

    my_gemm/2_wmma.py, my_gemm/2_wmma.cu    the last right answer in each language, the learner's to open and compile
    my_gemm/cycles.json                     {"wmma.py": 10632}: the fewest cycles

A restart keeps them, and so does an update of the course, which replaces only files that it has laid out. Outside a
laid-out course they are kept until Python ends.
"""

from __future__ import annotations

import json
from pathlib import Path

from tcemu.course import progress
from tcemu.course.keeping import keep
from tcemu.course.ladder.table import Rung
from tcemu.errors import CourseError

FOLDER = "my_gemm"
_CYCLES = "cycles.json"
#: Without a laid-out course: texts and cycles by "wmma.py".
_texts: dict[str, str] = {}
_cycles: dict[str, int] = {}


def folder() -> Path | None:
    """The folder of the learner's kernels, which may not exist yet; None outside a laid-out course."""
    place = progress.folder()
    return place and place / FOLDER


def file_of(rung: Rung, language: str) -> str:
    """The name of a kernel's file.

    >>> from tcemu.course.ladder import kept, table
    >>> kept.file_of(table.rung_named("wmma"), "cu")
    '2_wmma.cu'
    """
    return f"{rung.number}_{rung.name}.{language}"


def text(rung: Rung, language: str) -> str:
    """The learner's last right answer; empty if there is none."""
    place = folder()
    if place is None:
        return _texts.get(f"{rung.name}.{language}", "")
    try:
        return (place / file_of(rung, language)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"cannot read {place / file_of(rung, language)}: {error}") from error


def cycles() -> dict[str, int]:
    """The learner's fewest cycles by "wmma.py"; what a damaged file says does not count."""
    place = folder()
    if place is None:
        return dict(_cycles)
    try:
        held = json.loads((place / _CYCLES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    numbers = held.items() if isinstance(held, dict) else ()
    return {name: value for name, value in numbers if isinstance(value, int) and value > 0}


def note(rung: Rung, language: str, answer: str, count: int) -> str:
    """Keep a right answer, and its cycles if they are the fewest; returns its file, empty if it is only in memory.

    Raises CourseError if it cannot be written.
    """
    name, place = f"{rung.name}.{language}", folder()
    fewest = {**cycles(), name: min(count, cycles().get(name, count))}
    if place is None:
        _texts[name] = answer
        _cycles.update(fewest)
        return ""
    try:
        keep(place / file_of(rung, language), answer, 0o644)
        keep(place / _CYCLES, json.dumps(fewest, indent=1) + "\n", 0o644)
    except OSError as error:
        raise CourseError(f"cannot write to {place}: {error.strerror or error}") from error
    return f"{FOLDER}/{file_of(rung, language)}"
