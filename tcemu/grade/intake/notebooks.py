"""A notebook that somebody handed in, and the plain one that is made of it: its code cells, and nothing else.

Outputs, metadata, Markdown and every other key stay behind, so nothing in them can do harm later. No number in the
file is ever converted: NaN, 10**1000000 and the rest mean nothing here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from tcemu.errors import counted
from tcemu.grade.intake.file import Refused
from tcemu.grade.intake.limits import DEPTH, amount
from tcemu.grade.syntax import BOOK, CELL, CELLS

#: Strings, which may contain brackets, and brackets. A string that does not end matches too: every byte is seen once.
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
#: Ids that nbformat allows.
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Cleaned:
    """The plain notebook as JSON, the sources of its cells, and what was wrong with the original, a sentence each."""

    content: bytes
    sources: tuple[str, ...]
    problems: tuple[str, ...] = ()


def cleaned(held: bytes) -> Cleaned:
    r"""The plain notebook made of a file's bytes. Raises Refused for what is not a notebook.

    >>> from tcemu.grade.intake.notebooks import cleaned
    >>> cleaned(b'{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "y = 2"]}]}').sources
    ('x = 1\ny = 2',)
    """
    cells = [cell for cell in _cells(_parsed(held)) if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    problems: list[str] = []
    if len(cells) > CELLS:
        problems.append(f"It has {len(cells):,} code cells; the first {CELLS:,} are read.")
    kept: dict[str, str] = {}
    for number, cell in enumerate(cells[:CELLS], 1):
        source = _source(cell.get("source"))
        if source is None:
            problems.append(f"The source of code cell {number} is not text.")
        elif (size := len(source.encode())) > CELL:
            problems.append(f"Code cell {number} has {amount(size)}; cells of more than {amount(CELL)} are left out.")
        else:
            name = _named(cell.get("id"), number)
            if name in kept:
                problems.append(f"Two cells have the id {name}.")
            kept[_free(name, kept)] = source
    size = sum(len(source.encode()) for source in kept.values())
    if size > BOOK:
        raise Refused(f"contains {amount(size)} of code; at most {amount(BOOK)} are read")
    return Cleaned(_written(kept), tuple(kept.values()), _few(problems))


def _parsed(held: bytes) -> Any:
    """The file's JSON, with None for every number. Raises Refused."""
    if not held.strip():
        raise Refused("is empty")
    try:
        text = held.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused("is not text in UTF-8, so it is not a notebook") from None
    if _depth(held) > DEPTH:
        raise Refused(f"is not a notebook: its brackets are nested more than {DEPTH} deep")
    try:
        return json.loads(text, parse_int=_nothing, parse_float=_nothing, parse_constant=_nothing)
    except json.JSONDecodeError as error:
        raise Refused(f"is not a notebook: line {error.lineno} is not JSON") from None
    except (ValueError, RecursionError, MemoryError):
        raise Refused("is not a notebook: it is not JSON") from None


def _nothing(_: str) -> None:
    return None


def _depth(held: bytes) -> int:
    """How deep brackets are nested, counted up to one more than DEPTH: json would follow them without end."""
    depth = deepest = 0
    for token in _TOKENS.finditer(held):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > DEPTH:
                break
        elif first in b"]}":
            depth -= 1
    return deepest


def _cells(notebook: Any) -> list[Any]:
    if isinstance(notebook, dict) and isinstance(notebook.get("cells"), list):
        return list(notebook["cells"])
    if isinstance(notebook, dict) and "worksheets" in notebook:
        raise Refused("is a notebook of the format of 2014: open it in JupyterLab and save it")
    raise Refused("is not a notebook: it has no list of cells")


def _source(held: Any) -> str | None:
    """A cell's source as text that UTF-8 can write; None if it is something else."""
    lines = held if isinstance(held, list) else [held]
    if not all(isinstance(line, str) for line in lines):
        return None
    return "".join(lines).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _named(held: Any, number: int) -> str:
    """A cell's id, or one made of its number if nbformat does not allow it."""
    return held if isinstance(held, str) and _ID.fullmatch(held) else f"cell-{number}"


def _free(name: str, taken: Container[str]) -> str:
    names = chain([name], (f"{name[:50]}-{number}" for number in count(2)))
    return next(free for free in names if free not in taken)


def _few(problems: list[str], most: int = 5) -> tuple[str, ...]:
    """The first problems, and how many more there are: a thousand of them would bury the rest of the class."""
    more = len(problems) - most
    return (*problems[:most], *([f"And {counted(more, 'problem')} more of this kind."] if more > 0 else []))


def _written(cells: Mapping[str, str]) -> bytes:
    """A valid notebook of code cells, sources by their ids; the same bytes each time."""
    empty: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    held = [{**empty, "id": name, "source": source} for name, source in cells.items()]
    notebook = {"cells": held, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(notebook, sort_keys=True, indent=1) + "\n").encode()
