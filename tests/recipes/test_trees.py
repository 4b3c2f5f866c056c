"""Sums along a tree of prefixes: the kernels and numpy, against each node's own chain from the start."""

import numpy as np
import pytest

from tcemu.arithmetic.arrays import fma32
from tcemu.recipes.engines import _fma_tree


@pytest.mark.parametrize("backend", ["numba", "arrays"])
def test_each_node_of_a_tree_goes_on_from_its_parent(backend, monkeypatch):
    monkeypatch.setattr("tcemu.backend._State.chosen", backend)
    rng = np.random.default_rng(6)
    a, b = (rng.normal(size=(5, 16)).astype(np.float32).view(np.uint32) for _ in range(2))
    parents = np.array([-1, 0, 0, 1, -1, 3, 4, 2], np.int64)
    ks = rng.integers(0, 16, (8, 3)).astype(np.int64)
    expected = []
    for node in range(8):
        chain = [node]
        while parents[chain[0]] >= 0:
            chain.insert(0, parents[chain[0]])
        running = np.zeros(5, np.uint32)
        for k in ks[chain].ravel():
            running = fma32(a[:, k], b[:, k], running)
        expected.append(running)
    for first in (0, 5):  # the nodes before it are known
        sums = np.array(expected)
        sums[first:] = 0
        _fma_tree(a, b, ks, parents, sums, first)
        assert np.array_equal(sums, expected)
