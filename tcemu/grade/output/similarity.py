"""Which submissions look like each other, from the shapes in their code; nothing of it is run.

What can be changed without work does not count (`shapes`), nor does what the released notebook contains. Each shape
that two students share counts by how few others have it: what many wrote is how the exercise is solved. Those who are
alike with both do not count among the others, so a ring of ten tells as much as one of two.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.output.shapes import shapes_in
from tcemu.grade.records import Submission
from tcemu.grade.syntax import parsed

#: The parts of the code of one of a pair that are also the other's: of all shapes, and of all weight.
_NEAR, _ALIKE = 0.75, 0.88
#: The fewest shapes that a pair shares, and their weight: 1 for each that nobody else has. Short answers have fewer.
_SHAPES, _WEIGHT = 20, 12
#: A ring of more than this many, and of half of the class, is none: what they share was given to them.
_MANY = 10


@dataclass(frozen=True)
class Group:
    """Students whose code for one notebook is alike, and how much: 1.0 is the same but for names and layout."""

    students: tuple[str, ...]
    notebook: str
    part: float


def groups(submissions: Sequence[Submission], course: Catalogue | None = None) -> list[Group]:
    """The groups that a teacher should look at, the most alike first. None of them is proof of anything.

    >>> from tcemu.grade.output.similarity import groups
    >>> groups([])
    []
    """
    pairs: list[Group] = []
    for stem in sorted({stem for each in submissions for stem in each.files}):
        held = {each.student: shapes(sources(each.read(stem))) for each in submissions if stem in each.files}
        released = shapes((course or installed()).released(stem))
        pairs += _in_notebook(stem, {name: each - released for name, each in sorted(held.items())})
    return sorted(pairs, key=lambda group: (-group.part, group.notebook, group.students))


def _in_notebook(stem: str, held: Mapping[str, frozenset[int]]) -> Iterator[Group]:
    names = [name for name in held if len(held[name]) >= _SHAPES]
    same: dict[frozenset[int], list[int]] = {}
    for number, name in enumerate(names):
        same.setdefault(held[name], []).append(number)
    alike = _pairs(_table([held[name] for name in names]))
    alike |= {pair: 1.0 for twins in same.values() for pair in combinations(twins, 2)}
    for ring in _rings(alike):
        part = min(alike[pair] for pair in combinations(ring, 2) if pair in alike)
        yield Group(tuple(names[number] for number in ring), stem, part)


def _table(held: Sequence[Collection[int]]) -> npt.NDArray[np.float32]:
    """Which student, row by row, has which shape."""
    columns = {each: number for number, each in enumerate(sorted({each for shapes in held for each in shapes}))}
    made = np.zeros((len(held), len(columns)), np.float32)
    for row, shapes in zip(made, held, strict=True):
        row[[columns[each] for each in shapes]] = 1
    return made


def _pairs(held: npt.NDArray[np.float32]) -> dict[tuple[int, int], float]:
    """The pairs that share much of what few others have, and how much."""
    holders, sizes, shared = held.sum(axis=0), held.sum(axis=1), held @ held.T
    most = np.log1p(max(len(held), 1))
    near = (shared >= _SHAPES) & (shared >= _NEAR * np.minimum(sizes[:, None], sizes))
    pairs: dict[tuple[int, int], float] = {}
    for one in range(len(held)):
        others = one + 1 + np.flatnonzero(near[one, one + 1 :])
        rings = (near[one] & near[others]).astype(np.float32)
        outside = holders - rings @ held
        weight = 1 - np.log1p(outside) / most
        both = (weight * held[one] * held[others]).sum(axis=1)
        part = both / np.maximum(np.minimum(weight @ held[one], (weight * held[others]).sum(axis=1)), 1)
        tells = (both >= _WEIGHT) & (part >= _ALIKE) & (rings.sum(axis=1) <= max(_MANY, len(held) // 2))
        pairs |= {(one, int(other)): float(value) for other, value in zip(others[tells], part[tells], strict=True)}
    return pairs


def _rings(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Who is alike with somebody who is alike with somebody."""
    rings: dict[int, set[int]] = {}
    for one, other in pairs:
        joined = rings.get(one, {one}) | rings.get(other, {other})
        rings.update(dict.fromkeys(joined, joined))
    return sorted({tuple(sorted(ring)) for ring in rings.values()})


def shapes(sources: Iterable[str]) -> frozenset[int]:
    """The shapes in cells; a cell that is not Python has none.

    >>> from tcemu.grade.output.similarity import shapes
    >>> shapes(["x = 2 * f(y) + 1  # mine"]) == shapes(["other=1+f(z)*(1+1)"])
    True
    """
    return frozenset(shape for cell in parsed(sources) if cell.tree for shape in shapes_in(cell.tree))


def sources(content: bytes) -> list[str]:
    """The sources of a plain notebook, which intake wrote."""
    return [str(cell["source"]) for cell in json.loads(content)["cells"]]
