"""Which submissions look like each other, from the shape of their code; nothing of it is run.

Names of variables, comments and layout do not count, nor does what the released notebook contains. The shape is the
sequence of nodes of Python's syntax tree. Of all runs of GRAM nodes, winnowing keeps so many that two sequences with
the same GRAM + WINDOW - 1 nodes somewhere have one in common (Schleimer, Wilkerson and Aiken, "Winnowing: local
algorithms for document fingerprinting", 2003). What many students wrote is how the exercise is solved; only what few
have tells.
"""

from __future__ import annotations

import ast
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.records import Submission
from tcemu.grade.syntax import parsed

GRAM, WINDOW = 12, 4
#: A fingerprint is rare if at most this many students have it, or this part of the class.
_FEW, _PART = 4, 0.1
#: The fewest rare fingerprints that reported pairs share, and the smallest part of those of one of them. The same
#: short answer makes about ten, with the runs that begin or end in the released cells beside it.
_SHARED, _ALIKE = 16, 0.6
#: Code with fewer fingerprints than this is the same by chance.
_SHORT = 30


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
    found: list[Group] = []
    for stem in sorted({stem for each in submissions for stem in each.files}):
        shapes = {each.student: shape(sources(each.read(stem))) for each in submissions if stem in each.files}
        released = fingerprints(shape((course or installed()).released(stem)))
        found += _in_notebook(stem, {name: nodes for name, nodes in shapes.items() if nodes}, released)
    return sorted(found, key=lambda group: (-group.part, group.notebook, group.students))


def _in_notebook(
    stem: str, shapes: Mapping[str, tuple[str, ...]], released: frozenset[int]
) -> Iterator[Group]:
    prints = {name: fingerprints(nodes) - released for name, nodes in shapes.items()}
    same: dict[str, list[str]] = {}
    for name, nodes in sorted(shapes.items()):
        if len(prints[name]) >= _SHORT:
            same.setdefault(hashlib.sha256(json.dumps(nodes).encode()).hexdigest(), []).append(name)
    twins = [names for names in same.values() if len(names) > 1]
    told = {pair for names in twins for pair in combinations(names, 2)}
    yield from (Group(tuple(names), stem, 1.0) for names in twins)
    yield from (Group(pair, stem, part) for pair, part in _pairs(prints) if pair not in told)


def _pairs(prints: Mapping[str, Collection[int]]) -> Iterator[tuple[tuple[str, str], float]]:
    """The pairs that share much of what few have."""
    holders: dict[int, list[str]] = {}
    for name in sorted(prints):
        for each in prints[name]:
            holders.setdefault(each, []).append(name)
    few = max(_FEW, int(_PART * len(prints)))
    rare = [names for names in holders.values() if len(names) <= few]
    sizes = Counter(name for names in rare for name in names)
    shared = Counter(pair for names in rare for pair in combinations(names, 2))
    for pair, number in sorted(shared.items()):
        part = number / min(sizes[name] for name in pair)
        if number >= _SHARED and part >= _ALIKE:
            yield pair, part


def shape(sources: Iterable[str]) -> tuple[str, ...]:
    """The nodes of the syntax trees of cells, from left to right; a cell that is not Python has none.

    >>> from tcemu.grade.output.similarity import shape
    >>> shape(["x = 1  # mine"]) == shape(["other=1"])
    True
    """
    return tuple(node for cell in parsed(sources) if cell.tree for node in _nodes(cell.tree))


def _nodes(tree: ast.AST) -> Iterator[str]:
    """The nodes in order, without recursion: constants, attributes and operators tell two answers apart."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Constant(value=bool() | int() | float() | None as value) if abs(value or 0) < 1 << 64:
                yield repr(value)
            case ast.Attribute(attr=name):
                yield f".{name}"
            case ast.Load() | ast.Store() | ast.Del() | ast.Expr():
                pass
            case _:
                yield type(node).__name__
        waiting.extend(reversed([*ast.iter_child_nodes(node)]))


def fingerprints(nodes: Sequence[str]) -> frozenset[int]:
    """The smallest hash of each window of runs of nodes.

    >>> from tcemu.grade.output.similarity import fingerprints
    >>> len(fingerprints(["Name"] * 100))
    1
    """
    hashes = [zlib.crc32("\n".join(nodes[at : at + GRAM]).encode()) for at in range(len(nodes) - GRAM + 1)]
    return frozenset(min(hashes[at : at + WINDOW]) for at in range(max(len(hashes) - WINDOW + 1, min(len(hashes), 1))))


def sources(content: bytes) -> list[str]:
    """The sources of a plain notebook, which intake wrote."""
    return [str(cell["source"]) for cell in json.loads(content)["cells"]]
