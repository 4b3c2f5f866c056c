"""How two recipes differ: an element's sums under both, and an input for which they give different bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, listing
from tcemu.formats import lookup
from tcemu.recipes.candidates import types_of
from tcemu.recipes.engines import engine
from tcemu.recipes.epilogue import Epilogue
from tcemu.recipes.order import splits
from tcemu.recipes.product import Operands, finished, multiply
from tcemu.recipes.recipe import Recipe
from tcemu.show.outputs import ElementSums

Array = npt.NDArray[Any]


def sums_of(recipe: Recipe, a: Array, b: Array, element: Any, plus: Epilogue | None = None) -> ElementSums:
    """The partial sums of an element under a recipe: a (K,) is its row of A, b (K,) its column of B."""
    shown, recipe = recipe, _in_splits(recipe, len(a))
    operands = Operands(recipe, a[None], b[:, None], None if plus is None else plus.blocks)
    cuts = [slices for slices in splits(recipe, len(a)) if len(slices[0])]
    sums = [operands.split(slices) for slices in cuts]
    kind = operands.engine.sums
    plain = replace(recipe, output="", fused="c", rounding="", overflow="", activation="")
    parts = tuple(
        (f"k {slices[0][0]}-{slices[-1][-1]}", float(total[0, 0])) for slices, total in zip(cuts, sums, strict=True)
    )
    d = finished(recipe, sums, kind, plus)[0, 0]
    total = float(finished(plain, sums, kind)[0, 0])
    return ElementSums(str(shown), parts, total, float(d), bits_of(d), bits_of(d) == bits_of(element))


def _in_splits(recipe: Recipe, depth: int) -> Recipe:
    """The same sums with their fresh starts as splits, where that is the same."""
    plain = recipe.every and not recipe.tile and recipe.splits == recipe.slices == 1
    if not plain or engine(recipe.instruction, recipe.target).sums == "f16":
        return recipe
    return replace(recipe, every=0, splits=-(-depth // recipe.every), size=recipe.every)


def bits_of(value: Any) -> str:
    """The pattern of a number of any numpy dtype, in hexadecimal digits.

    >>> from tcemu.recipes.apart import bits_of
    >>> bits_of(np.float16(1))
    '0x3c00'
    """
    array = np.asarray(value)
    pattern = int(array.reshape(1).view(f"u{array.dtype.itemsize}")[0])
    return f"{pattern:#0{2 + 2 * array.dtype.itemsize}x}"


@explained
def separate(
    one: Recipe, other: Recipe, depth: int, tries: int = 32, types: tuple[str, str] | None = None
) -> tuple[Array, Array] | None:
    """A (1, depth) and B (depth, 1) whose products differ under two recipes; None if none of `tries` x 1,024 does.

    `types` are those of A and B; by default the first that both recipes take. Raises OperandError for recipes that do
    not take the same types.

    >>> from tcemu.recipes import Recipe, multiply, separate
    >>> one, other = Recipe("fma.rn.f32"), Recipe("fma.rn.f32", splits=2)
    >>> A, B = separate(one, other, 64)
    >>> multiply(one, A, B)[0, 0] == multiply(other, A, B)[0, 0]
    np.False_
    """
    if depth < 1:
        raise OperandError(f"matrices have at least one k; got depth={depth}")
    kinds = _both_take(one, other, types)
    for seed in range(tries):
        a, b = (_drawn(kind, depth, 2 * seed + i) for i, kind in enumerate(kinds))
        left, right = multiply(one, a, b.T), multiply(other, a, b.T)
        if left.dtype != right.dtype:
            raise OperandError(f"{one} and {other} give products of different types: {left.dtype} and {right.dtype}")
        differ = np.argwhere(left.view(f"u{left.dtype.itemsize}") != right.view(f"u{right.dtype.itemsize}"))
        if len(differ):
            i, j = differ[0]
            return a[i : i + 1], np.ascontiguousarray(b[j : j + 1].T)
    return None


def _both_take(one: Recipe, other: Recipe, types: tuple[str, str] | None) -> tuple[str, str]:
    """`types`, or the first types of A and B that both recipes take."""
    common = [pair for pair in types_of(one) if pair in types_of(other)]
    if not common:
        raise OperandError(f"{one} and {other} take matrices of different types, so no input fits both")
    if types is not None and types not in common:
        accepted = listing([f"{a} and {b}" for a, b in common])
        raise OperandError(f"{one} and {other} both take matrices of {accepted}; got {' and '.join(types)}")
    return types or common[0]


def _drawn(kind: str, depth: int, seed: int) -> Array:
    """32 rows of numbers of many magnitudes."""
    form, rng = lookup(kind), np.random.default_rng(seed)
    if form.kind != "float":
        return rng.integers(int(form.lowest), int(form.largest), (32, depth), endpoint=True).astype(form.dtype)
    values = rng.standard_normal((32, depth)) * 2.0 ** rng.integers(-4, 5, (32, depth))
    return form.matrix(form.encode(values))
