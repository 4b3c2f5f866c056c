"""Split-K: when D has few tiles and K is long, several blocks share a tile, each with its part of K.

Each block writes its part separately, and a second kernel adds the parts in f32, in their order. The result does not
depend on which block finishes first, as it would with atomic additions, but its bits do depend on the number of
splits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.mma_pipeline import MMA, STAGE_BYTES, K, M, N, accumulate, store_all
from tcemu.gemm.operands import check
from tcemu.launcher import launch
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.warp import Warp

__all__ = ["MMA", "add_parts", "kernel", "multiply", "part"]

STAGES = 3
#: Threads of a block that adds parts, one for each element.
ADDERS = 128


def part(index: int, splits: int, depth: int) -> range:
    """The steps along K of one part: equal shares; if there is a remainder, the first ones are a step longer."""
    steps = -(-depth // K)
    share, more = divmod(steps, splits)
    first = index * share + min(index, more)
    return range(first, first + share + (index < more))


def kernel(warp: Warp, a: Pointer, b: Pointer, parts: Pointer) -> None:
    """Block (x, y, z) writes its tile of part z: A (m, k) and B (k, n) of f16, parts (splits, m, n) of f32."""
    z = warp.ctaid[2]
    c = accumulate(warp, STAGES, a, b, part(z, parts.shape[0], b.shape[0]))
    store_all(warp, Pointer(parts.at(z, 0, 0), parts.dtype, parts.shape[1:]), c)


def add_parts(warp: Warp, parts: Pointer, d: Pointer) -> None:
    """D = the sum of the parts, each addition rounded to nearest: one element for each thread."""
    m, n = d.shape
    at = ADDERS * warp.ctaid[0] + warp.threads
    with warp.only(at < m * n):
        row, column = at // n, at % n
        total = warp.ld_global(parts.at(0, row, column)).view(np.float32)
        for z in range(1, parts.shape[0]):
            total = scalar.add(total, warp.ld_global(parts.at(z, row, column)).view(np.float32))
        warp.st_global(d.at(row, column), total.view(np.uint32))


@explained
def multiply(
    a: npt.NDArray[np.float16], b: npt.NDArray[np.float16], splits: int = 4, **options: Any
) -> tuple[npt.NDArray[np.float32], tuple[Launch, Launch]]:
    """D (m, n) of A (m, k) and B (k, n), and the two launches; n and k are multiples of 8.

    `splits` is 1 or more, and at most the steps of 32 along K. `options` are passed to tcemu.launch: target, seed,
    policy, sanitizer. Raises OperandError for other shapes and splits.

    >>> from tcemu.gemm import split_k
    >>> A, B = np.ones((32, 128), np.float16), np.ones((128, 32), np.float16)
    >>> D, launches = split_k.multiply(A, B, splits=2)
    >>> D[0, 0], len(launches)  # the parts, and their sum
    (np.float32(128.0), 2)
    """
    check(a, b, n=8, k=8)
    steps = -(-len(b) // K)
    if not isinstance(splits, int) or not 1 <= splits <= steps:
        raise OperandError(f"splits= must be 1 to {steps}, the steps of {K} along K; got {briefly(splits)}")
    parts = np.zeros((splits, len(a), b.shape[1]), np.float32)
    d = np.zeros(parts.shape[1:], np.float32)
    grid = -(-b.shape[1] // N), -(-len(a) // M), splits
    first = launch(kernel, grid, 128, (a, b, parts), shared=STAGES * STAGE_BYTES, **options)
    return d, (first, launch(add_parts, -(-d.size // ADDERS), ADDERS, (parts, d), **options))
