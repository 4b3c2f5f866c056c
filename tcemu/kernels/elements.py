"""Trees of fused sums, or of fused multiply-adds, at single elements of D, each with factors of its own.

A node continues its parent's sum with the products of one instruction: `ks[node]` says which. Parents come before their
children; -1 is a sum of +0. Patterns are uint32, and so are accumulators, which are float32.
"""

from __future__ import annotations

import numpy as np

from tcemu.kernels.compiling import njit
from tcemu.kernels.groups import _bits32, _fma32, _value32
from tcemu.kernels.matmul_exact import INFINITY, QUIET, exact


@njit(cache=True, nogil=True, error_model="numpy")
def fused_tree(a, b, ks, parents, sums, first, fmt_a, fmt_b, rule, places, join):  # type: ignore[no-untyped-def]
    """sums[node, e] for all nodes from `first` on: a, b (elements, k), sums (nodes, elements).

    places[s] says which of a node's products the sum s has. With `join`, the products start from +0, and the parent's
    sum is added to theirs, to nearest.
    """
    x, y = np.empty(places.shape[1], np.uint32), np.empty(places.shape[1], np.uint32)
    for node in range(first, ks.shape[0]):
        for e in range(a.shape[0]):
            before = sums[parents[node], e] if parents[node] >= 0 else np.uint32(0)
            running = np.uint32(0) if join else before
            for s in range(places.shape[0]):
                for i in range(places.shape[1]):
                    k = ks[node, places[s, i]]
                    x[i], y[i] = a[e, k], b[e, k]
                if (running & np.uint32(0x7FFFFFFF)) > np.uint32(INFINITY):
                    running = np.uint32(QUIET)
                else:
                    running = exact(x, y, running, fmt_a, fmt_b, rule)
            if join:
                total = _value32(before) + _value32(running)
                running = np.uint32(QUIET) if total != total else np.uint32(_bits32(total))
            sums[node, e] = running


@njit(cache=True, nogil=True, error_model="numpy")
def fma_tree(a, b, ks, parents, sums, first):  # type: ignore[no-untyped-def]
    """The same with a fused multiply-add for each product, to nearest; a and b are patterns of float32."""
    for node in range(first, ks.shape[0]):
        for e in range(a.shape[0]):
            running = _value32(sums[parents[node], e] if parents[node] >= 0 else np.uint32(0))
            for i in range(ks.shape[1]):
                running = _fma32(_value32(a[e, ks[node, i]]), _value32(b[e, ks[node, i]]), running)
            sums[node, e] = np.uint32(QUIET) if running != running else _bits32(running)
