"""Which elements of A and B a wrong kernel multiplies: asked of the kernel itself, with one number in each row of A."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Columns of A and B: the steps of k that the rungs take are not longer.
DEPTH = 64
#: By how much the one number of a row of A is right of the diagonal: an element of the next 8 x 8 matrix, of the next.
_SHIFTS = (0, 8, 1)
#: Computes D (m, n) of f32 from A (m, k) and B (n, k) of f16; None if it cannot.
Multiply = Callable[[Array, Array], "Array | None"]


class Meeting(NamedTuple):
    """By element of D: how many products it has, and of the one, the row of A, and the row and the column of B."""

    products: Array
    row: Array
    column: Array
    along: Array


def which(multiply: Multiply, m: int, n: int) -> str:
    """The first element of D that has other products than it should, in words; empty if each has its own.

    >>> from tcemu.course.ladder.meetings import which
    >>> which(lambda a, b: a.astype(np.float32) @ np.roll(b, 8, axis=1).T.astype(np.float32), 64, 8)
    'D[0][0] has A[0][0] times B[0][56], where it should have A[0][0] times B[0][0].'
    """
    nothing = multiply(np.zeros((m, DEPTH), np.float16), np.zeros((n, DEPTH), np.float16))
    if nothing is None:
        return ""
    if nothing.any():
        return "Where A and B are zeros, D is not, as if the accumulator did not begin as zeros."
    for shift in _SHIFTS:
        meeting = _asked(multiply, m, n, shift)
        if meeting is None or not _are_counts(meeting.products):
            return ""
        if says := _first_wrong(meeting, shift):
            return says
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, DEPTH)).astype(np.float16) for rows in (m, n))
    d = multiply(a, b)
    if d is None or not np.allclose(d, a.astype(np.float32) @ b.T.astype(np.float32), rtol=1e-4, atol=1e-4):
        return ""
    return f"With k = {DEPTH} D is right, so look at what changes from one step along k to the next."


def _are_counts(products: Array) -> bool:
    """Whether D can be sums of so many ones: what a kernel makes of other bits says nothing about products."""
    return bool(((products >= 0) & (products <= DEPTH) & (products == np.rint(products))).all())


def _first_wrong(meeting: Meeting, shift: int) -> str:
    """The first element of D that has other products than it should; empty if each has its own."""
    m, n = meeting.products.shape
    rows, columns = np.arange(m)[:, None], np.arange(n)
    places = (rows + shift) % DEPTH
    right = (meeting.products == 1) & (meeting.row == rows) & (meeting.column == columns) & (meeting.along == places)
    if right.all():
        return ""
    i, j = (int(each) for each in np.argwhere(~right)[0])
    should = f"A[{i}][{places[i, 0]}] times B[{j}][{places[i, 0]}]"
    count = meeting.products[i, j]
    if count != 1:
        many = f"has {count:.0f} products, where it should have one, {should}."
        return f"D[{i}][{j}] {many}" if count else f"D[{i}][{j}] lacks {should}."
    row, column, along = (int(each[i, j]) for each in meeting[1:])
    if not (0 <= row < m and 0 <= column < n and 0 <= along < DEPTH):
        return f"D[{i}][{j}] lacks {should}."
    has = f"A[{row}][{(row + shift) % DEPTH}] times B[{column}][{along}]"
    return f"D[{i}][{j}] has {has}, where it should have {should}."


def _asked(multiply: Multiply, m: int, n: int, shift: int) -> Meeting | None:
    """Four products, in which each row of A has one number, in another column: a 1, or its own number, and so has B."""
    rows, ones = np.arange(m), np.ones((n, DEPTH), np.float16)
    single = np.zeros((m, DEPTH), np.float16)
    single[rows, (rows + shift) % DEPTH] = 1
    numbered = single * (rows + 1)[:, None].astype(np.float16)
    by_row = np.repeat(np.arange(1, n + 1, dtype=np.float16)[:, None], DEPTH, axis=1)
    by_column = np.repeat(np.arange(1, DEPTH + 1, dtype=np.float16)[None, :], n, axis=0)
    asked = ((single, ones), (numbered, ones), (single, by_row), (single, by_column))
    answers = [multiply(*each) for each in asked]
    if any(each is None for each in answers):
        return None
    products, *codes = answers
    return Meeting(np.asarray(products), *(np.asarray(each) - 1 for each in codes))
