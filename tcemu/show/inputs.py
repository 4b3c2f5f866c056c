"""Checks the arguments of the pictures, and converts them to the form that they draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy.typing as npt

from tcemu.errors import FormatError, OperandError, TargetError, briefly, span, whole
from tcemu.formats import Format, lookup
from tcemu.instructions import Instruction


def format_of(form: object) -> Format:
    """A format, or the name of one. Raises FormatError."""
    return form if isinstance(form, Format) else lookup(form)  # type: ignore[arg-type] # lookup refuses the rest


def formats_of(formats: object) -> list[Format]:
    """Formats or their names; a single one is a list of one. Raises FormatError."""
    if isinstance(formats, str | Format):
        return [format_of(formats)]
    if not isinstance(formats, Iterable):
        raise FormatError(f"formats must be a list of names, such as ['e4m3', 'e5m2']; got {briefly(formats)}")
    return [format_of(each) for each in formats]


def targets_of(targets: object) -> list[str]:
    """Names of targets. Raises TargetError for anything but a list of at least one."""
    if isinstance(targets, str) or not isinstance(targets, Iterable) or not (names := list(targets)):
        raise TargetError(f"targets must be a list of names, such as ['sm_80', 'sm_90a']; got {briefly(targets)}")
    return names


def patterns_of(
    instruction: Instruction, matrices: Sequence[npt.ArrayLike], row: int, column: int
) -> tuple[list[int], list[int], int]:
    """The patterns of a row of A, of a column of B and of an element of C, from A, B and C. Raises OperandError."""
    if not isinstance(matrices, list | tuple) or len(matrices) != 3:
        raise OperandError(f"the matrices must be a list of A, B and C of {instruction}; got {briefly(matrices)}")
    row, column, (m, n, k) = whole(row, "a row"), whole(column, "a column"), instruction.shape
    if not (0 <= row < m and 0 <= column < n):
        has = f"rows {span(0, m - 1)} and columns {span(0, n - 1)}"
        raise OperandError(f"row {row}, column {column}: there are {has}")
    read = []
    for role, matrix, shape in zip("abc", matrices, ((m, k), (k, n), (m, n)), strict=True):
        patterns = instruction.types[role].patterns(matrix, role)
        if patterns.shape != shape:
            raise OperandError(f"{role} must be a matrix of shape {shape}; got {patterns.shape}")
        read.append(patterns)
    a, b, c = read
    return a[row].tolist(), b[:, column].tolist(), int(c[row, column])
