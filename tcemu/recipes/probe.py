"""A and B whose product shows the order of its sums, and how to read it.

A row of A is small numbers and one big one, at some k; a column of B is small numbers and one big negative one. In the
element of D where they meet, the two big products cancel. Every small product that was added between them is lost, for
it is far below what a sum keeps beside a big number: the element counts the small products that are left. So K minus
that count is the size of the smallest sum that has both k (Peichen Xie and others, "FPRev", arXiv 2411.00442).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, listing, ranges
from tcemu.formats import lookup

Array = npt.NDArray[Any]
#: By type: the small number and the big one. Big times small is more than 2^25 K times small times small.
SMALL_AND_BIG = {
    "f16": (2.0**-24, 2.0**15),
    "bf16": (1.0, 2.0**60),
    "f32": (1.0, 2.0**60),
    "f64": (1.0, 2.0**100),
    "e5m2": (2.0**-16, 2.0**15),
}


@explained
def probe(kind: str, rows: int, columns: int, depth: int, seed: int = 0) -> tuple[Array, Array]:
    """A (rows, depth) and B (depth, columns) whose first halves show the order of k, and whose others are random.

    `kind` is "f16", "bf16", "f32", "f64" or "e5m2", and they have its dtype. Multiply them with any library on any GPU,
    and give the product to `whose_bits` and `order_of`. Raises OperandError for another kind, or a size below 2.

    >>> from tcemu.recipes import probe
    >>> A, B = probe("bf16", 64, 64, 128)
    >>> A.shape, float(A[3, 2]), float(A[3, 3]) == 2.0**60
    ((64, 128), 1.0, True)
    """
    if kind not in SMALL_AND_BIG:
        raise OperandError(f"a probe must have elements of {listing(SMALL_AND_BIG)}; got {kind!r}")
    if min(rows, columns, depth) < 2 or seed < 0:
        raise OperandError(
            f"a probe has at least 2 rows, columns and k, and a seed that is not negative; got {rows}, {columns}, "
            f"{depth} and the seed {seed}"
        )
    small, big = SMALL_AND_BIG[kind]
    draw = np.random.default_rng(seed).standard_normal
    a, b = draw((rows, depth)), draw((depth, columns))
    marked, columns_marked = _marked(rows // 2, depth), _marked(columns // 2, depth)
    a[: rows // 2], b[:, : columns // 2] = small, small
    a[np.arange(rows // 2, dtype=np.int64), marked] = big
    b[columns_marked, np.arange(columns // 2, dtype=np.int64)] = -big
    form = lookup(kind)
    return form.matrix(form.encode(a)), form.matrix(form.encode(b))


def _marked(count: int, depth: int) -> Array:
    """The k that each of `count` rows marks: all in turn, or the first ones and then some of the others."""
    if count >= depth:
        return np.arange(count, dtype=np.int64) % depth
    near = count // 2
    far = np.linspace(near, depth - 1, count - near).astype(np.int64)
    return np.concatenate([np.arange(near, dtype=np.int64), far])


@dataclass(frozen=True, eq=False)
class Order:
    """In which sums k meet: `sizes[i, j]` products are in the smallest sum that has both `first[i]` and `second[j]`.

    >>> from tcemu.recipes import Order
    >>> print(Order(2, np.array([0]), np.array([0, 1]), np.array([[1, 2]])))
    Sums that have k = 0, by their number of products:
         2: joined by k = 1
    """

    depth: int
    first: Array
    second: Array
    sizes: Array

    def __str__(self) -> str:
        """The sums that k = 0, or the first marked k, is in, from the smallest to the whole."""
        start = int(np.argmin(self.first))
        lines = []
        for size in np.unique(self.sizes[start]):
            ks = {int(k) for k in self.second[self.sizes[start] == size]} - {int(self.first[start])}
            if ks:
                lines.append(f"{size:6}: joined by k = {_briefly(sorted(ks))}")
        more = [f"        ... {len(lines) - 12} more"] if len(lines) > 13 else []
        shown = lines if not more else [*lines[:11], *more, lines[-1]]
        head = f"Sums that have k = {self.first[start]}, by their number of products:"
        return "\n".join([head, *shown])


def _briefly(ks: list[int]) -> str:
    said = ranges(ks, "-")
    return said if len(said) <= 80 else f"{said[:76].rpartition(',')[0]}, ..."


def split(a: Array, b: Array, kind: str) -> tuple[Array, Array]:
    """The rows of A and the columns of B that are a probe's marked ones."""
    small = SMALL_AND_BIG.get(kind, (np.nan, np.nan))[0]
    return _rows(a.astype(float), small), _rows(b.T.astype(float), small)


def unmarked(a: Array, b: Array, kind: str) -> tuple[Array, Array]:
    """The rows of A and the columns of B that are not a probe's: all of them if A and B are not a probe."""
    rows, columns = split(a, b, kind)
    every = np.arange(len(a), dtype=np.int64), np.arange(b.shape[1], dtype=np.int64)
    left = np.setdiff1d(every[0], rows), np.setdiff1d(every[1], columns)
    return left if left[0].size and left[1].size else every


def _rows(matrix: Array, small: float) -> Array:
    return np.flatnonzero((matrix == small).sum(axis=1) == matrix.shape[1] - 1)


@explained
def order_of(a: Array, b: Array, d: Array, kind: str) -> Order | None:
    """The order that a product of a probe shows; None if it is not a product of one, or D cannot hold the counts.

    a (m, k), b (k, n) and d (m, n) are arrays of floats of any dtype. Raises OperandError for other shapes.

    >>> from tcemu.recipes import Recipe, multiply, order_of, probe
    >>> A, B = probe("f32", 16, 16, 8)
    >>> D = multiply(Recipe("fma.rn.f32", splits=2), A, B)
    >>> print(order_of(A, B, D, "f32"))
    Sums that have k = 0, by their number of products:
         2: joined by k = 1
         3: joined by k = 2
         4: joined by k = 3
         8: joined by k = 4-7
    """
    if (a.ndim, b.ndim) != (2, 2) or a.shape[1] != len(b) or d.shape != (len(a), b.shape[1]):
        raise OperandError(f"A is (m, k), B (k, n) and their product D (m, n); got {a.shape}, {b.shape} and {d.shape}")
    rows, columns = split(a, b, kind)
    if not rows.size or not columns.size:
        return None
    small = SMALL_AND_BIG[kind][0]
    first = np.argmax(np.abs(a[rows].astype(float)), axis=1)
    second = np.argmax(np.abs(b[:, columns].astype(float)), axis=0)
    left = d[np.ix_(rows, columns)].astype(float) / small**2
    depth = a.shape[1]
    apart = first[:, None] != second[None, :]
    if not (np.isfinite(left[apart]).all() and (left[apart] >= 0).all() and (left[apart] < depth).all()) or (
        not left[apart].any() and depth > 16
    ):
        return None
    return Order(depth, first, second, depth - np.where(apart, left, depth - 1).astype(np.int64))
