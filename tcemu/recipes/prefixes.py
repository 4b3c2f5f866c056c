"""Sums of many chains at a few elements of D; chains with a common beginning compute it only once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import lookup
from tcemu.recipes.engines import Engine
from tcemu.recipes.order import Chain

Array = npt.NDArray[Any]


class Paths:
    """A tree whose paths are chains, `batch` k at each node. It is the same for all instructions with that many.

    >>> from tcemu.recipes.prefixes import Paths
    >>> paths = Paths(2)
    >>> [paths.end(np.array(chain)) for chain in ([0, 1, 2, 3], [0, 1, 4], [0, 1])]
    [1, 2, 0]
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._nodes: dict[tuple[int, bytes], int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def end(self, chain: Chain) -> int:
        """The node at the end of a chain."""
        chain = np.asarray(chain, np.int64)
        nodes, at, size = self._nodes, -1, self._batch * chain.itemsize
        rest = -len(chain) % self._batch
        words = chain.tobytes() + b"\xff" * (rest * chain.itemsize)  # -1: zeros
        for start in range(0, len(words), size):
            at = nodes.setdefault((at, words[start : start + size]), len(nodes))
        return at

    def arrays(self) -> tuple[Array, Array]:
        """Each node's parent, or -1, and its k (nodes, batch)."""
        parents = np.array([parent for parent, _ in self._nodes], np.int64)
        ks = np.frombuffer(b"".join(words for _, words in self._nodes), np.int64).reshape(-1, self._batch)
        return parents, ks


class Prefixes:
    """The sums at the nodes of a tree, for an instruction and each element's factors `a` and `b` (elements, k)."""

    def __init__(self, by: Engine, paths: Paths, a: Array, b: Array) -> None:
        self._by, self._paths, self._a, self._b = by, paths, a, b
        self._patterns = np.empty((0, len(a)), lookup(by.sums).storage)
        #: The sums (nodes, elements) in the accumulator's dtype.
        self.sums = lookup(by.sums).matrix(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def compute(self) -> None:
        """Compute the sums of all nodes that have none yet."""
        first, count = len(self._patterns), len(self._paths)
        if first == count:
            return
        parents, ks = self._paths.arrays()
        patterns = np.empty((count, len(self._a)), self._patterns.dtype)
        patterns[:first] = self._patterns
        self._by.grow(self._a, self._b, ks, parents, patterns, first)
        self._patterns, self.sums = patterns, lookup(self._by.sums).matrix(patterns)
