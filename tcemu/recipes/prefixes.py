"""Sums of many chains at a few elements of D at once. Chains that begin alike are computed once up to where they part."""

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
        self._levels: dict[int, list[tuple[int, int, Chain]]] = {}
        self._sums = {-1: np.zeros(len(a), lookup(by.sums).storage)}

    def ends(self, chains: Iterable[Chain]) -> list[int]:
        """The node at the end of each chain; `compute` gives these nodes their sums."""
        return [self._end(chain) for chain in chains]

    def _end(self, chain: Chain) -> int:
        at, step = -1, self._by.depth
        for level in range(len(chain) // step):
            ks = chain[level * step : (level + 1) * step]
            key = (at, ks.tobytes())
            node = self._nodes.get(key)
            if node is None:
                node = self._nodes[key] = len(self._nodes)
                self._levels.setdefault(level, []).append((node, at, ks))
            at = node
        return at

    def compute(self) -> None:
        """Compute the sums of all nodes that have none yet."""
        for level in sorted(self._levels):
            rows = self._levels[level]
            ks = np.stack([each[2] for each in rows])
            a, b = (np.moveaxis(x[:, ks], 1, 0).reshape(-1, self._by.depth) for x in (self._a, self._b))
            before = np.concatenate([self._sums[at] for _, at, _ in rows])
            sums = self._by.step(a, b, before).reshape(len(rows), -1)
            for (node, _, _), values in zip(rows, sums, strict=True):
                self._sums[node] = values
        self._levels.clear()

    def sums(self, node: int) -> Array:
        """The patterns of a node's sums (elements)."""
        return self._sums[node]
