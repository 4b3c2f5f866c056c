"""Chains of fused multiply-adds of float32 over whole matrices."""

from __future__ import annotations

import numpy as np

from tcemu.kernels.compiling import njit
from tcemu.kernels.groups import _bits32, _fma32, _value32


@njit(cache=True, nogil=True, error_model="numpy")
def chains32(a, b, c):  # type: ignore[no-untyped-def]
    """c[m, n] = fma(a[m, k], b[k, n], c[m, n]) for ascending k, to nearest; uint32 patterns, NaN is 0x7FFFFFFF."""
    running = np.empty(c.shape[1], np.float32)
    right = b.view(np.float32)
    for m in range(a.shape[0]):
        for n in range(c.shape[1]):
            running[n] = _value32(c[m, n])
        for k in range(a.shape[1]):
            x = _value32(a[m, k])
            for n in range(c.shape[1]):
                running[n] = _fma32(x, right[k, n], running[n])
        for n in range(c.shape[1]):
            c[m, n] = np.uint32(0x7FFFFFFF) if running[n] != running[n] else _bits32(running[n])

