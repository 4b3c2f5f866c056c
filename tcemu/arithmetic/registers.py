"""D = A B + C from registers into registers: read by layout, compute, write by layout, in one pass where that is known.

What the kernels need to know of an operation and its fragments (which bits of which register hold an element, formats,
the order of the sums) is put together once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.compute import Operation, compute, tiles_of
from tcemu.arithmetic.model import FusedSums
from tcemu.backend import backend
from tcemu.layouts import Fragment

if TYPE_CHECKING:
    from tcemu.kernels.tiles import Tiles

Array = npt.NDArray[Any]


def compute_registers(
    operation: Operation, fragments: Mapping[str, Fragment], a: Array, b: Array, c: Array, places: Array | None = None
) -> Array:
    """Flat registers of D (warps, lanes * registers) from those of A, B and C; fragments a, b, c and d are read.

    `places` (warps, m, k) makes A sparse, as in `compute`.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> a, b = np.full((1, 32 * 4), 0x3C003C00, np.uint32), np.full((1, 32 * 2), 0x3C003C00, np.uint32)
    >>> d = tcemu.arithmetic.compute_registers(operation, mma.fragments, a, b, np.zeros((1, 32 * 4), np.uint32))
    >>> d.shape, d.view(np.float32)[0, 0]
    ((1, 128), np.float32(16.0))
    """
    known = tuple(fragments[role] for role in "abcd")
    fused = isinstance(operation.model, FusedSums) and not operation.keeps_addend
    products = len(c) * prod(fragments["d"].shape) * operation.depth
    if fused and backend(products) == "numba" and all(len(one.shape) == 2 for one in known):
        plan = _plan(operation, *known, places is not None)
        a, b, c = (np.ascontiguousarray(each) for each in (a, b, c))
        return plan(a, b, c, places)
    return _by_layout(operation, fragments, a, b, c, places)


def _by_layout(
    operation: Operation, fragments: Mapping[str, Fragment], a: Array, b: Array, c: Array, places: Array | None
) -> Array:
    """The meaning, in three paragraphs."""
    per = 32 if operation.packed else 1
    (*_, m, stored), (*_, k, n) = fragments["a"].shape, fragments["b"].shape

    # READ: by layout
    a = fragments["a"].read(a, words=operation.packed).reshape(-1, m, stored // per)
    b = fragments["b"].read(b, words=operation.packed).reshape(-1, k // per, n)
    c = fragments["c"].read(c).reshape(-1, m, n)

    # COMPUTE: by the arithmetic row
    d = compute(operation, a, b, c, places)

    # WRITE: by layout
    return fragments["d"].write(d.reshape(-1, fragments["d"].layout.scatter.size))


@lru_cache(maxsize=1024)
def _plan(operation: Operation, a: Fragment, b: Fragment, c: Fragment, d: Fragment, sparse: bool) -> Tiles:
    """How the kernels compute an operation on these fragments."""
    from tcemu.kernels.tiles import Place, Results

    places = [Place(*fragment.places, fragment.format.code_mask) for fragment in (a, b, c)]
    per = d.elements_per_register
    results = Results(np.array(d.layout.gather).reshape(-1, per), d.container.width)
    return tiles_of(operation, (d.shape[0], d.shape[1], a.shape[1]), sparse, places, results)
