"""Judges sums of products, and recognises the results of computing them in other ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges.values import Mistakes, Values
from tcemu.course.record import Given
from tcemu.errors import TcemuError, listing
from tcemu.instructions import Instruction, matmul, parse, target_named
from tcemu.instructions.targets import GENERATIONS

Array = npt.NDArray[Any]
#: What an exercise multiplies: A (M, K), B (K, N) and C (M, N) for the given numbers.
Operands = Callable[[Given], tuple[Array, Array, Array]]
Pick = Callable[[Array], Any]

#: Products in a matrix product whose exact sums are worth computing one by one.
_MOST = 1 << 18


def whole(matrix: Array) -> Array:
    """All of D."""
    return matrix


def fused_sum(
    opcode: str, operands: Operands, pick: Pick = whole, *, target: str = "sm_90a", patterns: bool = False
) -> Values:
    """Judge what an instruction computes: D, or what `pick` takes from it, as numbers or as bit patterns.

    >>> from tcemu.course import Given, judges
    >>> opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    >>> A, B, C = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.ones((16, 8), np.float32)
    >>> judge = judges.fused_sum(opcode, lambda given: (A, B, C), lambda D: D[0, 0])
    >>> judge.mark(judge.collect(16.0, Given()), Given()).mistake
    'You left C out.'
    """
    form = parse(opcode).types["d"]
    dtype = form.storage if patterns else form.dtype

    def taken(matrix: Array) -> Array:
        return np.ascontiguousarray(pick(matrix)).view(dtype).reshape(np.shape(pick(matrix)))

    def right(given: Given) -> Array:
        a, b, c = operands(given)
        return taken(matmul(a, b, c, instruction=opcode, target=target))

    how = f"every bit, as {target} computes it"
    return Values(right, dtype, sums(opcode, operands, taken, target=target), what="The sum", how=how)


def sums(opcode: str, operands: Operands, pick: Pick = whole, *, target: str = "sm_90a") -> Mistakes:
    """Mistakes of a sum: another order, rounding or architecture, a forgotten C or step, another reading of the bits.

    >>> from tcemu.course import Given, judges
    >>> opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    >>> A, B, C = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.ones((16, 8), np.float32)
    >>> mistakes = dict(judges.sums(opcode, lambda given: (A, B, C), lambda D: D[0, 0])(Given()))
    >>> mistakes["You left C out."]
    np.float32(16.0)
    """
    instruction = parse(opcode)

    def mistakes(given: Given) -> Iterator[tuple[str, Array]]:
        a, b, c = operands(given)
        with np.errstate(all="ignore"):
            for says, matrix in _other_sums(instruction, a, b, c, target):
                yield says, pick(matrix.astype(instruction.types["d"].dtype, copy=False))

    return mistakes


def _other_sums(instruction: Instruction, a: Array, b: Array, c: Array, target: str) -> Iterator[tuple[str, Array]]:
    def product(a: Array, b: Array, c: Array | None = None, on: str = target) -> Array:
        return matmul(a, b, c, instruction=instruction, target=on)

    yield "You left C out.", product(a, b)
    yield from _other_operands(product, a, b, c)
    step = instruction.operation(target_named(target)).depth
    if a.shape[1] > step:
        last, first = (a[:, -step:], b[-step:]), (a[:, :step], b[:step])
        says = "Only the last step along K is in the sum: the result of a step should be the C of the next."
        yield says, product(*last)
        yield says, product(*last, c)
        yield "Only the first step along K is in the sum.", product(*first, c)
        if a.shape[1] > 2 * step:
            yield "The last step along K is missing.", product(a[:, :-step], b[:-step], c)
    yield from _other_targets(product, a, b, c, target)
    numbers = [np.asarray(matrix) for matrix in (a, b, c)]
    if all(matrix.dtype.kind in "biu" for matrix in numbers):
        yield from _whole_numbers(a, b, c)
    else:
        left, right, start = (np.asarray(matrix, np.float64) for matrix in numbers)
        yield from _floats(left, right, start, instruction.types["d"].dtype)


def _other_operands(product: Callable[..., Array], a: Array, b: Array, c: Array) -> Iterator[tuple[str, Array]]:
    """Operands that are read in another order."""
    for name, left, right in (("A", a.T, b), ("B", a, b.T)):
        if left.shape == a.shape and right.shape == b.shape:
            yield f"{name} is transposed.", product(np.ascontiguousarray(left), np.ascontiguousarray(right), c)
    for name, left, right in (
        ("A", np.ascontiguousarray(a.T).reshape(a.shape), b),
        ("B", a, np.ascontiguousarray(b.T).reshape(b.shape)),
    ):
        yield f"{name} is read in the wrong order: rows for columns.", product(left, right, c)
    yield "The sign of C is wrong.", product(a, b, -c if c.dtype.kind != "u" else c)


def _other_targets(
    product: Callable[..., Array], a: Array, b: Array, c: Array, target: str
) -> Iterator[tuple[str, Array]]:
    """What other generations compute; those that agree are named together."""
    right, others = product(a, b, c).tobytes(), dict[bytes, tuple[list[str], Array]]()
    for name in GENERATIONS:
        try:
            matrix = product(a, b, c, name)
        except TcemuError:  # it does not have the instruction, or its arithmetic is unknown
            continue
        if matrix.tobytes() != right:
            others.setdefault(matrix.tobytes(), ([], matrix))[0].append(name)
    for names, matrix in others.values():
        yield f"This is what {listing(names, 'and')} {'computes' if len(names) == 1 else 'compute'}.", matrix


def _floats(a: Array, b: Array, c: Array, dtype: np.dtype[Any]) -> Iterator[tuple[str, Array]]:
    """The same sum in the ways of other arithmetic."""
    if a.shape[0] * a.shape[1] * b.shape[1] <= _MOST:
        terms = a[:, :, np.newaxis] * b[np.newaxis]
        exact = np.array([[fsum((*terms[i, :, j], c[i, j])) if np.isfinite([*terms[i, :, j], c[i, j]]).all() else np.nan
                           for j in range(b.shape[1])] for i in range(a.shape[0])])  # fmt: skip
        rounded = exact.astype(dtype)
        yield "This is the exact sum, rounded once: a tensor core truncates before it adds.", rounded
        beyond = np.abs(rounded.astype(np.float64)) > np.abs(exact)
        if dtype.kind == "f":
            cut = np.where(beyond, np.nextafter(rounded, np.zeros_like(rounded)), rounded)
            yield "This is the exact sum, truncated once: a tensor core truncates before it adds.", cut
    for kind in ("float32", "float16"):
        order: Any = np.dtype(kind)
        left, right, start = (np.asarray(matrix, order) for matrix in (a, b, c))
        for says, ks, first, last in (
            ("in order, starting with C", range(a.shape[1]), start, np.zeros_like(start)),
            ("in order, with C at the end", range(a.shape[1]), np.zeros_like(start), start),
            ("from the last product to the first", range(a.shape[1])[::-1], start, np.zeros_like(start)),
        ):
            total = first
            for k in ks:
                total = total + left[:, [k]] * right[[k]]
            yield f"This is a {kind} loop, which rounds after every addition, {says}.", (total + last).astype(dtype)
        yield f"This is numpy's A @ B + C in {kind}.", (left @ right + start).astype(dtype)


def _whole_numbers(a: Array, b: Array, c: Array) -> Iterator[tuple[str, Array]]:
    """Other readings of the bits, and the other end of the range."""
    limits = np.iinfo(np.int32)
    readings = [("A", _other_sign(a), b), ("B", a, _other_sign(b)), ("A and B", _other_sign(a), _other_sign(b))]
    for name, left, right in [("", a, b), *readings]:
        if left is None or right is None:
            continue
        total = left.astype(np.int64) @ right.astype(np.int64) + c.astype(np.int64)
        signs = f"You read {name} with the wrong sign: signed as unsigned, or the other way round." if name else ""
        yield (
            signs or "You let the sum wrap around; with .satfinite it is clamped to the range.",
            total.astype(np.int32),
        )
        clipped = total.clip(limits.min, limits.max).astype(np.int32)
        yield signs or "You clamped the sum to the range; without .satfinite it wraps around.", clipped


def _other_sign(matrix: Array) -> Array | None:
    other = {"i": "u", "u": "i"}.get(matrix.dtype.kind)
    return matrix.view(f"{other}{matrix.dtype.itemsize}") if other else None
