"""D = A B as a recipe says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.recipes.engines import Engine, engine
from tcemu.recipes.epilogue import Addend, addend, joined
from tcemu.recipes.inputs import CONVERSIONS, converted, nearest
from tcemu.recipes.order import Chain, chains, splits
from tcemu.recipes.recipe import Recipe
from tcemu.recipes.reductions import reduced

Array = npt.NDArray[Any]


@explained
def multiply(
    recipe: Recipe,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Array:
    """D = alpha A B + beta C as the recipe computes it.

    A (M, K) and B (K, N) have the types that the instruction takes, or that `inputs` converts. C is (M, N), or (N,) for
    a bias that every row gets. D has the type `output`, or the accumulator's. Raises OperandError for other operands.

    >>> from tcemu.recipes import Recipe, multiply
    >>> A, B = np.ones((2, 40), np.float16), np.ones((40, 3), np.float16)
    >>> recipe = Recipe("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", splits=2, output="f16")
    >>> multiply(recipe, A, B, np.array([1, 2, 3], np.float16), alpha=0.5)[0]
    array([21., 22., 23.], dtype=float16)
    """
    operands = Operands(recipe, np.asarray(a), np.asarray(b))
    sums = [operands.split(slices) for slices in splits(recipe, operands.depth) if len(slices[0])]
    return finished(recipe, sums, operands.engine.sums, addend(c, sums[0].shape, alpha, beta))


class Operands:
    """A (M, K) and B (K, N) as the instruction takes them, and the sums of its chains."""

    def __init__(self, recipe: Recipe, a: Array, b: Array) -> None:
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise OperandError(f"A must be (M, K) and B (K, N); got shapes {a.shape} and {b.shape}")
        self.recipe, self.depth = recipe, a.shape[1]
        self.engine: Engine = engine(recipe.instruction, recipe.target)
        self._a, self._b = factors(recipe, self.engine, a, b.T)
        self._zero = np.zeros((len(a), b.shape[1]), lookup(self.engine.sums).storage)

    def split(self, slices: list[Chain]) -> Array:
        """The sum of a split in the accumulator's dtype (M, N)."""
        sums = [reduced([self._chain(each) for each in self._chains(ks)], "") for ks in slices if len(ks)]
        return reduced(sums, self.recipe.join)

    def _chains(self, ks: Chain) -> list[Chain]:
        return chains(self.recipe, ks, self.engine.depth, self.depth)

    def _chain(self, ks: Chain) -> Array:
        sums = self.engine.run(_columns(self._a, ks), _columns(self._b, ks).T, self._zero)
        return lookup(self.engine.sums).matrix(sums)


def factors(recipe: Recipe, by: Engine, a: Array, b: Array) -> tuple[Array, Array]:
    """The patterns of A (M, K) and of B's columns (N, K), for each pair of parts side by side, and a last zero."""
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


def finished(recipe: Recipe, sums: list[Array], kind: str, plus: Addend | None = None) -> Array:
    """D from the sums of the splits, which have the accumulator's type `kind`."""
    wide = "f32" if kind == "f16" and (len(sums) > 1 or plus) else kind
    sums = [each.astype(lookup(wide).dtype, copy=False) for each in sums]
    total = _rounding_on(sums, recipe.total, wide) if recipe.total else reduced(sums, recipe.reduce)
    return rounded(total if plus is None else joined(total, plus, recipe.fused), wide, recipe.output or kind)


def _rounding_on(sums: list[Array], total: str, kind: str) -> Array:
    """The sums added from left to right to a total of another type."""
    running = rounded(sums[0], kind, total)
    for each in sums[1:]:
        running = rounded(each + running.astype(each.dtype), kind, total)
    return running.astype(sums[0].dtype)


def rounded(values: Array, kind: str, output: str) -> Array:
    """Sums of one type in another, to nearest even."""
    if kind == output:
        return values
    return nearest(values, lookup(output))
