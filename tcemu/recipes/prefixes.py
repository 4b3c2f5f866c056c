"""Sums of many chains at a few elements of D; chains that begin alike are computed once, up to where they part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import lookup
from tcemu.recipes.engines import Engine
from tcemu.recipes.order import Chain

Array = npt.NDArray[Any]


class Prefixes:
    """A tree whose paths are chains, instruction by instruction, and the sums at its nodes.

    `a` and `b` (elements, k) are the factors of each element, as `factors` gives them.
    """

    def __init__(self, by: Engine, a: Array, b: Array) -> None:
        self._by, self._a, self._b = by, a, b
        self._nodes: dict[tuple[int, bytes], int] = {}
        self._sums = np.empty((0, len(a)), lookup(by.sums).storage)

    def __len__(self) -> int:
        return len(self._nodes)

    def ends(self, chains: Iterable[Chain]) -> list[int]:
        """The node at the end of each chain; `compute` gives these nodes their sums."""
        return [self._end(chain) for chain in chains]

    def _end(self, chain: Chain) -> int:
        nodes, at, size = self._nodes, -1, self._by.depth * chain.itemsize
        words = chain.tobytes()
        for start in range(0, len(words), size):
            at = nodes.setdefault((at, words[start : start + size]), len(nodes))
        return at

    def compute(self) -> None:
        """Compute the sums of all nodes that have none yet."""
        first, count = len(self._sums), len(self._nodes)
        if first == count:
            return
        keys = list(self._nodes)
        parents = np.array([parent for parent, _ in keys], np.int64)
        ks = np.frombuffer(b"".join(words for _, words in keys), np.int64).reshape(count, -1)
        sums = np.empty((count, len(self._a)), self._sums.dtype)
        sums[:first] = self._sums
        self._by.grow(self._a, self._b, ks, parents, sums, first)
        self._sums = sums

    def sums(self, node: int) -> Array:
        """The patterns of a node's sums (elements)."""
        found: Array = self._sums[node]
        return found
