"""Fused sums of single elements of D, each with factors of its own, by the plain integer rule."""

from __future__ import annotations

import numpy as np

from tcemu.kernels.compiling import njit
from tcemu.kernels.groups import _bits32, _value32
from tcemu.kernels.matmul_exact import INFINITY, QUIET, exact


@njit(cache=True, nogil=True, error_model="numpy")
def fused_elements(a, b, c, fmt_a, fmt_b, rule, places, join):  # type: ignore[no-untyped-def]
    """c[w] = the chain of fused sums of a[w, k] * b[w, k] that starts with c[w]; uint32 patterns, f32 accumulators.

    places[s] has the k of the sum s. With `join`, the chain starts from +0, and c[w] is added to its result, to nearest.
    """
    x, y = np.empty(places.shape[1], np.uint32), np.empty(places.shape[1], np.uint32)
    for w in range(a.shape[0]):
        running = np.uint32(0) if join else c[w]
        for s in range(places.shape[0]):
            for i in range(places.shape[1]):
                x[i], y[i] = a[w, places[s, i]], b[w, places[s, i]]
            if (running & np.uint32(0x7FFFFFFF)) > np.uint32(INFINITY):
                running = np.uint32(QUIET)
            else:
                running = exact(x, y, running, fmt_a, fmt_b, rule)
        if join:
            total = _value32(c[w]) + _value32(running)
            running = np.uint32(QUIET) if total != total else np.uint32(_bits32(total))
        c[w] = running
