"""Exercises of notebook 05 about the addresses that each lane gives to ldmatrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function
from tcemu.course.record import Exercise
from tcemu.instructions import parse

Array = npt.NDArray[Any]
_MMA = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
#: Bytes from one row of a tile to the next, in the exercises on addresses.
_ROW = 128

# ---------------------------------------------------------------------------------------------- addresses of rows


def _address(row: Array, column: Array) -> Array:
    """The address of an f16 element in a tile that starts at 0."""
    return np.asarray(_ROW * row + 2 * column)[..., None]


def _a(lane: Array) -> Array:
    """Row lane % 8 of matrix lane // 8 starts where lane 4 (lane % 8) has the first element of that register."""
    row, column = np.array([_MMA.fragments["a"].position(4 * (each % 8), each // 8) for each in lane.tolist()]).T
    return _address(row, column)


def _b(lane: Array) -> tuple[Array, Array]:
    """(k, n) of the first element of each row, if the rows of the matrices are columns of B; two tiles along n."""
    k, n = np.array([_MMA.fragments["b"].position(4 * (each % 8), each // 8 % 2) for each in lane.tolist()]).T
    return k, n + lane // 16 * 8


def _b_by_columns(lane: Array) -> Array:
    k, n = _b(lane)
    return _address(n, k)


def _b_by_rows(lane: Array) -> Array:
    """With .trans, row r of a matrix is a row of B: the r of n becomes that of k."""
    k, n = _b(lane)
    return _address(k + lane % 8, n - lane % 8)


_OWN = (
    "This is the address of what the lane receives. A lane gives the address of a row of 16 bytes; eight lanes receive "
    "pieces of each row."
)
_ELEMENTS = "You counted elements. An address counts bytes, and an f16 has two."
_DENSE = "The rows of a matrix are 128 bytes apart here, not 16."


def _known(right: Callable[[Array], Array], exchanged: str) -> tuple[tuple[str, Callable[..., Array]], ...]:
    """The usual mistakes with the addresses of ldmatrix."""

    def middle(lane: Array) -> Array:
        """Matrices 1 and 2 swapped."""
        return right(lane // 16 * 8 + lane // 8 % 2 * 16 + lane % 8)

    return (
        (exchanged, middle),
        (_OWN, lambda lane: _address(lane // 4, 2 * (lane % 4))),
        (_ELEMENTS, lambda lane: right(lane) // 2),
        (_DENSE, lambda lane: (16 * lane)[..., None]),
        ("All four matrices have the same address: lanes 8 to 31 give the rows of matrices 1 to 3.",
         lambda lane: right(lane % 8)),
        ("Every lane from 8 on gives the next row further down: 32 rows of one column of units.",
         lambda lane: (_ROW * lane)[..., None]),
        ("Matrices 2 and 3 are those of lanes 0 to 15 again: they start elsewhere.", lambda lane: right(lane % 16)),
    )  # fmt: skip


#: Says what is at a row and a column of the tile.
What = Callable[[int, int], str]


def _about(what: What, registers: Sequence[str]) -> Callable[[tuple[int, ...], tuple[int, ...]], str]:
    """Says which row a lane gives, and `what` is at the address that it got instead, in which row of the tile."""

    def about(case: tuple[int, ...], value: tuple[int, ...]) -> str:
        (lane,), (address,) = case, value
        says = f"Lane {lane} gives row {lane % 8} of matrix {lane // 8}, which goes to {registers[lane // 8]}. Your "
        says += f"address is {address}: "
        if address % 16:
            return f"{says}not a multiple of 16, so ldmatrix faults."
        return f"{says}there is {what(address // _ROW, address % _ROW // 2)}, which is wrong."

    return about


def _addresses(right: Callable[[Array], Array], what: What, registers: Sequence[str], exchanged: str) -> Function:
    about, how = _about(what, registers), "the address of every lane"
    return Function({"lane": range(32)}, ("address",), right, _known(right, exchanged), about, how)


_TWO_TILES = ("b0 of columns 0 to 7", "b1 of columns 0 to 7", "b0 of columns 8 to 15", "b1 of columns 8 to 15")

EXERCISES = [
    Exercise(
        "rows_of_a",
        "Which row does a lane give?",
        "A tile of A starts at address 0 of shared memory; its elements are f16, and its rows are 128 bytes apart. "
        "Write `rows_of_a(lane)`, which returns the address that a lane gives to `ldmatrix` .x4, so that the four "
        "registers are a0 to a3 of m16n8k16 for rows 0 to 15 and columns 0 to 15.",
        _addresses(
            _a,
            lambda row, column: f"A[{row}][{column}]",
            ("a0", "a1", "a2", "a3"),
            "Matrices 1 and 2 are swapped: a1 is 8 rows further down, a2 is 8 columns further right.",
        ),
        minutes=8,
        only=(),
        know="the fragment of A, and that matrix m comes from lanes 8 m to 8 m + 7",
        section="9.7.14.5.15",
        hints=(
            "Lanes 8 m to 8 m + 7 give the rows of matrix m, and matrix m goes to register m of all lanes.",
            "Which rows and which columns of A does register a1 hold, over all lanes? And a2?",
            "8 f16 columns are 16 bytes. Lanes 0 to 15 walk down 16 rows, and lanes 16 to 31 do so again.",
        ),
    ),
    Exercise(
        "rows_of_b",
        "B, column-major",
        "The columns of B are in shared memory, 128 bytes apart, from address 0 on. Write `rows_of_b(lane)`, the "
        "address that a lane gives to one `ldmatrix` .x4 **without** .trans, which loads B for two mma.sync m16n8k16: "
        "registers 0 and 1 are b0 and b1 of columns 0 to 7, registers 2 and 3 are b0 and b1 of columns 8 to 15 (k is "
        "0 to 15).",
        _addresses(
            _b_by_columns,
            lambda column, k: f"B[{k}][{column}]",
            _TWO_TILES,
            "Matrices 1 and 2 are swapped: b1 is 8 further along k, and the other tile is 8 columns away.",
        ),
        minutes=10,
        only=(),
        know="rows_of_a, and the fragment of B",
        section="9.7.14.5.15",
        hints=(
            "A row of the matrix in shared memory is now a piece of a column of B: 8 neighbours along k.",
            "Matrix 1 goes to b1, which is 8 further along k: 16 bytes further in the same column.",
            "Lanes 0 to 7 and 8 to 15 have the same columns, lanes 16 to 31 the next eight.",
        ),
    ),
    Exercise(
        "rows_of_b_by_rows",
        "B, row-major, with .trans",
        "Now the rows of B are in shared memory, 128 bytes apart, from address 0 on. Write `rows_of_b_by_rows(lane)`, "
        "the address that a lane gives to one `ldmatrix` .x4 **with** .trans, so that the registers are the same as in "
        "the previous exercise: b0 and b1 of columns 0 to 7, then b0 and b1 of columns 8 to 15.",
        _addresses(
            _b_by_rows,
            lambda k, column: f"B[{k}][{column}]",
            _TWO_TILES,
            "Matrices 1 and 2 are swapped: b1 is 8 rows further down, and the other tile is 8 columns further right.",
        ),
        minutes=10,
        only=(),
        know="rows_of_b",
        section="9.7.14.5.15",
        hints=(
            "With .trans, a row in shared memory is a row of B: one k, eight neighbours along n.",
            "b1 is 8 further along k. Along k means down, if B is row-major.",
            "gemm/mma_pipeline.py does the same: look at `down` and `along`.",
        ),
    ),
]
