"""D = A B as a recipe says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.recipes.engines import Engine, engine
from tcemu.recipes.epilogue import Epilogue, epilogue, fma, joined
from tcemu.recipes.inputs import CONVERSIONS, converted
from tcemu.recipes.order import Chain, chains, splits
from tcemu.recipes.outputs import rounded
from tcemu.recipes.recipe import DOWN, Recipe
from tcemu.recipes.reductions import reduced
from tcemu.recipes.scales import Blocks

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
    bias: npt.ArrayLike | None = None,
    scale_a: npt.ArrayLike | None = None,
    scale_b: npt.ArrayLike | None = None,
    scale_c: float = 1.0,
    scale_d: float = 1.0,
) -> Array:
    """D = scale_d relu(alpha scale_a A scale_b B + beta scale_c C + bias) as the recipe says; relu if it does.

    A (M, K) and B (K, N) have the types that the instruction takes, or that `inputs` converts. C is (M, N), or (N,) for
    a bias that every row gets; `bias` is one beside C. scale_a and scale_b are a number, or (M, 1) and (1, N), or one
    for each block, such as (M, K / 128) and (K / 128, N / 128). alpha, scales and C are f32 (f64 for f64), also where
    the sums are integers. D has the type `output`, or the accumulator's. Raises OperandError for other operands.

    >>> from tcemu.recipes import Recipe, multiply
    >>> A, B = np.ones((2, 40), np.float16), np.ones((40, 3), np.float16)
    >>> recipe = Recipe("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", splits=2, output="f16")
    >>> multiply(recipe, A, B, np.array([1, 2, 3], np.float16), alpha=0.5)[0]
    array([21., 22., 23.], dtype=float16)
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise OperandError(f"A must be (M, K) and B (K, N); got shapes {a.shape} and {b.shape}")
    more = {"bias": bias, "scale_a": scale_a, "scale_b": scale_b, "scale_c": scale_c, "scale_d": scale_d}
    plus = epilogue((len(a), b.shape[1]), len(b), c, alpha=alpha, beta=beta, **more)  # type: ignore[arg-type]
    return product(recipe, a, b, plus)


def product(recipe: Recipe, a: Array, b: Array, plus: Epilogue | None) -> Array:
    """D as the recipe computes it."""
    operands = Operands(recipe, a, b, None if plus is None else plus.blocks)
    sums = [operands.split(slices) for slices in splits(recipe, operands.depth) if len(slices[0])]
    return finished(recipe, sums, operands.engine.sums, plus)


class Operands:
    """A (M, K) and B (K, N) as the instruction takes them, and the sums of its chains."""

    def __init__(self, recipe: Recipe, a: Array, b: Array, blocks: Blocks | None = None) -> None:
        self.recipe, self.depth, self._blocks = recipe, a.shape[1], blocks
        self.engine: Engine = engine(recipe.instruction, recipe.target)
        self._a, self._b = factors(recipe, self.engine, a, b.T, blocks)
        self._zero = np.zeros((len(a), b.shape[1]), lookup(self.engine.sums).storage)

    def split(self, slices: list[Chain]) -> Array:
        """The sum of a split in the accumulator's dtype (M, N)."""
        sums = [self._slice(self._chains(ks)) for ks in slices if len(ks)]
        return reduced(sums, self.recipe.join)

    def _slice(self, ks: list[Chain]) -> Array:
        sums = [self._chain(each) for each in ks]
        if self._blocks is None or self.engine.scale:
            return reduced(sums, "")
        return promoted(sums, [block_of(each, self.depth, self._blocks.size) for each in ks], self._blocks, self.recipe)

    def _chains(self, ks: Chain) -> list[Chain]:
        return chains(self.recipe, ks, self.engine.depth, self.depth)

    def _chain(self, ks: Chain) -> Array:
        sums = self.engine.run(_columns(self._a, ks), _columns(self._b, ks).T, self._zero)
        return lookup(self.engine.sums).matrix(sums)


def factors(recipe: Recipe, by: Engine, a: Array, b: Array, blocks: Blocks | None = None) -> tuple[Array, Array]:
    """The patterns of A (M, K) and of B's columns (N, K), for each pair of parts side by side, and a last zero.

    With those of their scales, if the instruction takes some.
    """
    conversion = CONVERSIONS[recipe.inputs]
    if conversion:
        left, right = converted(a, conversion), converted(b, conversion)
    else:
        left, right = [lookup(by.a).patterns(a, "A")], [lookup(by.b).patterns(b, "B")]
    if by.scale:
        of_a, of_b = (None, None) if blocks is None else (blocks.a, blocks.b)
        _check_blocks(by, blocks)
        left, right = [_with_scales(left[0], of_a, by)], [_with_scales(right[0], of_b, by)]
    ends = [np.zeros_like(each[0][:, :1]) for each in (left, right)]
    return (
        np.concatenate([*(left[i] for i, _ in recipe.pairs), ends[0]], axis=1),
        np.concatenate([*(right[j] for _, j in recipe.pairs), ends[1]], axis=1),
    )


def _check_blocks(by: Engine, blocks: Blocks | None) -> None:
    if blocks is not None and blocks.size != by.block:
        raise OperandError(f"this instruction takes a scale for each {by.block} k; these are for each {blocks.size}")


def _with_scales(patterns: Array, scales: Array | None, by: Engine) -> Array:
    """Patterns of elements with those of their scales above the low byte; scales of 1 if there are none."""
    form, count = lookup(by.scale), patterns.shape[1]
    if scales is None:
        scales = np.ones((len(patterns), -(-count // by.block)))
    codes = form.encode(scales)
    if not np.array_equal(form.decode(codes), scales):
        raise OperandError(f"this instruction's scales are {by.scale}, which cannot hold all of these")
    spread: Array = codes[:, np.arange(count, dtype=np.int64) // by.block].astype(np.uint16)
    return patterns.astype(np.uint16) | spread << 8


def _columns(matrix: Array, ks: Chain) -> Array:
    """The columns `ks` of a matrix; a view where they are consecutive."""
    if len(ks) and ks[0] >= 0 and np.array_equal(ks, np.arange(ks[0], ks[0] + len(ks), dtype=np.int64)):
        return matrix[:, ks[0] : ks[0] + len(ks)]
    return matrix[:, ks]


def block_of(ks: Chain, depth: int, size: int) -> int:
    """The block whose scales a chain's sum takes. Raises OperandError for a chain with k of several blocks."""
    numbers = np.unique(ks[ks >= 0] % depth // size)
    if len(numbers) > 1:
        raise OperandError(
            f"scales change every {size} k, so a recipe for them needs sums that start again there, such as "
            f"every={size}"
        )
    return int(numbers[0]) if len(numbers) else 0


def promoted(sums: list[Array], at: list[int], blocks: Blocks, recipe: Recipe) -> Array:
    """The sums of chains, each times the scales of its block, added from left to right."""
    total: Array | None = None
    with np.errstate(all="ignore"):
        for each, block in zip(sums, at, strict=True):
            value, (a, b) = each.astype(np.float32), blocks.pair(block)
            if recipe.scales:
                value, last = value * (a if recipe.scales == "a" else b), (b if recipe.scales == "a" else a)
            else:
                last = a * b
            if total is None:
                total = value * last
            else:
                total = fma(last, value, total) if recipe.promotion == "fma" else total + value * last
    if total is None:
        raise OperandError("a split without k has no sum")
    return total


def finished(recipe: Recipe, sums: list[Array], kind: str, plus: Epilogue | None = None) -> Array:
    """D from the sums of the splits, which have the accumulator's type `kind`."""
    return output(recipe, *added(recipe, sums, kind, plus), kind, plus)


def added(recipe: Recipe, sums: list[Array], kind: str, plus: Epilogue | None) -> tuple[Array, str]:
    """The sum of the splits, and its type."""
    if plus is not None and plus.blocks is not None and kind in ("f16", "s32"):
        kind = "f32"
    wide = "f32" if kind == "f16" and (len(sums) > 1 or (plus is not None and plus.joins)) else kind
    sums = [each.astype(lookup(wide).dtype, copy=False) for each in sums]
    if recipe.partial:
        sums = list(through(np.stack(sums), wide, recipe.partial))
    if recipe.total:
        return _rounding_on(sums[::-1] if recipe.reduce == DOWN else sums, recipe.total, wide), wide
    return reduced(sums, recipe.reduce), wide


def output(recipe: Recipe, total: Array, wide: str, kind: str, plus: Epilogue | None) -> Array:
    """D from the sum of the splits."""
    result, wide = joining(recipe, total, wide, plus)
    return rounded(result, wide, recipe.output or kind, recipe.rounding, recipe.overflow)


def joining(recipe: Recipe, total: Array, wide: str, plus: Epilogue | None) -> tuple[Array, str]:
    """The result before it is rounded to D's type, and its own type."""
    if recipe.product:
        total = through(total, wide, recipe.product)
    if plus is not None and plus.joins:
        if wide == "s32" and recipe.epilogue == "s32":
            total = _integers(total, plus)
        else:
            wide = "f32" if wide == "s32" else wide
            total = joined(total.astype(lookup(wide).dtype, copy=False), plus, recipe)
    if recipe.activation:
        total = np.where((total > 0) | np.isnan(total), total, total.dtype.type(0))
    return total, wide


def _integers(total: Array, plus: Epilogue) -> Array:
    """alpha sums + beta C in s32, which wraps: cuBLASLt with the scale type 32I, whose alpha and beta are 0 or 1."""
    wide = total.astype(np.int64) * int(plus.alpha)
    if plus.c is not None:
        wide = wide + int(plus.beta) * plus.c.astype(np.int64)
    return wide.astype(np.int32)


def through(values: Array, kind: str, form: str) -> Array:
    """Numbers rounded to another type, in their own dtype."""
    with np.errstate(invalid="ignore", over="ignore"):  # a sum that is no number, or that overflows
        return rounded(values, kind, form).astype(values.dtype)


def _rounding_on(sums: list[Array], total: str, kind: str) -> Array:
    """The sums added from left to right to a total of another type."""
    running = rounded(sums[0], kind, total)
    for each in sums[1:]:
        running = rounded(each + running.astype(each.dtype), kind, total)
    return running.astype(sums[0].dtype)
