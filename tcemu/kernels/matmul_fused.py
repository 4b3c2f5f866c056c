"""Fused sums over a tile of a matrix product, by the vector passes of `tcemu.kernels.sums` or by the plain rule.

A tile holds some hundred rows of A, some hundred columns of B and the accumulators between them. All ways give the same
bits for every input; the fast one needs four vector operations a product, `exact` some forty scalar ones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from tcemu.kernels import sums
from tcemu.kernels.matmul_exact import INFINITY, QUIET, WIDTH, exact

Array = npt.NDArray[Any]


@njit(cache=True, nogil=True, error_model="numpy")
def plain(a, b, c, fmt_a, fmt_b, rule):  # type: ignore[no-untyped-def]
    """c[m, j] = one fused sum of c[m, j], a[m, k] and b[WIDTH * k + j] by the plain integer rule."""
    for m in range(a.shape[0]):
        for j in range(c.shape[1]):
            if (c[m, j] & 0x7FFFFFFF) > INFINITY:  # NaN, and so it stays: no need to look
                c[m, j] = QUIET
            else:
                c[m, j] = exact(a[m], b[j::WIDTH], c[m, j], fmt_a, fmt_b, rule)


class Rule(NamedTuple):
    """Fraction bits F, the floor of E, fraction bits kept, and whether results are float16 rounded to nearest."""

    fraction: int
    floor: int
    keep: int
    half: bool


class Scratch:
    """Memory of one thread: the packed forms of a tile of A and of one of B, of at most so many elements."""

    def __init__(self, of_a: int, of_b: int) -> None:
        self._rooms = [[np.empty(size, kind) for kind in (np.float32, np.int8)] for size in (of_a, of_b)]

    def parts(self, operand: int, shape: tuple[int, ...]) -> list[Array]:
        """Value and exponent for operand 0 or 1 of a shape."""
        return [room[: math.prod(shape)].reshape(shape) for room in self._rooms[operand]]


def tile(
    a: Array, b: Array, c: Array, formats: tuple[Array, Array], rule: Rule, chain: int, fast: bool, scratch: Scratch
) -> None:
    """c = a @ b + c for one tile, in place, k in the order of the sums.

    a (sums, rows, L) and b (sums, L * WIDTH): uint32 patterns, C-contiguous, L products (4, 8, 16 or 32) to a fused
    sum; c (rows, columns): int32, float32 patterns, columns a multiple of 64 and at most WIDTH. With `chain`, chains of
    so many sums start from zero and c is added last. Without `fast` everything goes by the plain rule.
    """
    count, numbers, running = len(a), np.array(rule, np.int64), c[None]
    part = np.zeros_like(running) if chain else running
    found, operands, bases = 0, [], np.zeros(1, np.int64)
    if fast:
        for i, (patterns, form) in enumerate(zip((a, b), formats, strict=True)):
            value, exponent = scratch.parts(i, (1, *patterns.shape))
            start = sums.window(patterns.reshape(-1), form, False)
            found |= sums.pack(patterns.reshape(-1), form, False, start, value.reshape(-1), exponent.reshape(-1))
            operands += [value, exponent]
            bases += start
        sweep = sums.sweep_of(a.shape[2], rule.half, WIDTH)
        if not found:
            sweep(*operands, running, part, bases, 1, numbers, chain, 0, count)
            return
    fast = fast and not (found & sums.OUTSIDE and (rule.half or rule.keep != 23))
    signs, aside = [], []
    for patterns, form in zip((a, b), formats, strict=True):
        own = (1, *patterns.shape)
        if fast and found & sums.SPECIAL:
            signs.append(np.empty(own, np.float32))
            sums.pack_special(patterns.reshape(-1), form, signs[-1].reshape(-1))
        if fast and found & sums.OUTSIDE:
            aside += [np.empty(own, np.float32), np.empty(own, np.int32)]
            sums.pack_wide(patterns.reshape(-1), form, aside[-2].reshape(-1), aside[-1].reshape(-1))
    fixed = np.empty_like(running)
    for i in range(count):
        if chain and i % chain == 0:
            part[...] = 0
        if signs:
            sums.specials(*signs, part, 1, i, WIDTH, fixed)
        if aside:
            sums.wide_of(a.shape[2], WIDTH)(*aside, part, 1, numbers, i, i + 1)
        elif fast:
            sweep(*operands, part, part, bases, 1, numbers, 0, i, i + 1)
        else:
            plain(a[i], b[i], part[0], *formats, numbers)
        if signs:
            sums.correct(part.reshape(-1), fixed.reshape(-1))
        if chain and i % chain == chain - 1:
            sums.join(part[0], running[0], rule.half)
