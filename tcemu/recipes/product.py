"""D = A B as a recipe says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.recipes.engines import Engine, engine
from tcemu.recipes.inputs import CONVERSIONS, converted
from tcemu.recipes.order import Chain, chains, splits
from tcemu.recipes.recipe import Recipe

Array = npt.NDArray[Any]


def multiply(recipe: Recipe, a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """D = A B as the recipe computes it: A (M, K), B (K, N) of the types that its instruction, or `inputs`, starts from.

    >>> from tcemu.recipes import Recipe, multiply
    >>> A, B = np.ones((2, 40), np.float16), np.ones((40, 3), np.float16)
    >>> recipe = Recipe("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", splits=2, output="f16")
    >>> multiply(recipe, A, B)[0]
    array([40., 40., 40.], dtype=float16)
    """
    operands = Operands(recipe, np.asarray(a), np.asarray(b))
    sums = [operands.split(ks) for ks in splits(recipe, operands.depth)]
    return finished(recipe, sums, operands.engine.sums)


class Operands:
    """A (M, K) and B (K, N) as the instruction takes them, and the sums of its chains."""

    def __init__(self, recipe: Recipe, a: Array, b: Array) -> None:
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise OperandError(f"A is (M, K) and B is (K, N); got shapes {a.shape} and {b.shape}")
        self.recipe, self.depth = recipe, a.shape[1]
        self.engine: Engine = engine(recipe.instruction, recipe.target)
        self._a, self._b = factors(recipe, self.engine, a, b.T)
        self._zero = np.zeros((len(a), b.shape[1]), lookup(self.engine.sums).storage)

    def split(self, ks: Chain) -> Array:
        """The sum of a split in the accumulator's dtype (M, N)."""
        form, total = lookup(self.engine.sums), None
        for chain in chains(self.recipe, ks, self.engine.depth, self.depth):
            part = form.matrix(self.engine.run(_columns(self._a, chain), _columns(self._b, chain).T, self._zero))
            total = part if total is None else total + part
        return form.matrix(self._zero) if total is None else total


def factors(recipe: Recipe, by: Engine, a: Array, b: Array) -> tuple[Array, Array]:
    """The patterns of A (M, K) and of B's columns (N, K) for each pair of parts, side by side, and a column of zeros."""
    conversion = CONVERSIONS[recipe.inputs]
    if conversion:
        left, right = converted(a, conversion), converted(b, conversion)
    else:
        left, right = [lookup(by.a).patterns(a, "A")], [lookup(by.b).patterns(b, "B")]
    ends = [np.zeros_like(each[0][:, :1]) for each in (left, right)]
    return (
        np.concatenate([*(left[i] for i, _ in recipe.pairs), ends[0]], axis=1),
        np.concatenate([*(right[j] for _, j in recipe.pairs), ends[1]], axis=1),
    )


def _columns(matrix: Array, ks: Chain) -> Array:
    """The columns `ks` of a matrix; a view where they are consecutive."""
    if len(ks) and ks[0] >= 0 and np.array_equal(ks, np.arange(ks[0], ks[0] + len(ks))):
        return matrix[:, ks[0] : ks[0] + len(ks)]
    return matrix[:, ks]


def finished(recipe: Recipe, sums: list[Array], kind: str) -> Array:
    """D from the sums of the splits, which have the accumulator's type `kind`."""
    output = lookup(recipe.output or kind)
    if len(sums) == 1:
        return rounded(sums[0], kind, output.name)
    if recipe.partial:
        sums = [rounded(each, kind, recipe.partial) for each in sums]
    wide = np.float32 if kind in ("f16", "f32") else sums[0].dtype
    sums = [each.astype(wide, copy=False) for each in sums]
    for stride, count in recipe.stages:
        sums = _staged(sums, stride, count)
    return rounded(sums[0], {np.float32: "f32"}.get(wide, kind), output.name)


def _staged(sums: list[Array], stride: int, count: int) -> list[Array]:
    """The list with the sums of a stage at the place of the first of each, the others as they were."""
    result = list(sums)
    for first in range(len(sums)):
        if first // stride % count == 0:
            total = sums[first]
            for i in range(1, count):
                if first + i * stride < len(sums):
                    total = total + sums[first + i * stride]
            result[first] = total
    return result


def rounded(values: Array, kind: str, output: str) -> Array:
    """Sums of one type in another, to nearest even."""
    if kind == output:
        return values
    form = lookup(output)
    return form.matrix(form.encode(values, "rn"))
