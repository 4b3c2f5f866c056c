"""The epilogue after the sums: scales, alpha, beta C and a bias in f32 (f64 for f64), relu, the scale of D."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError
from tcemu.recipes.scales import Blocks, scales_of

if TYPE_CHECKING:
    from tcemu.recipes.recipe import Recipe

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Epilogue:
    """What joins the sums: D = scale_d relu(alpha scale_a scale_b sums + beta scale_c C + bias).

    `c`, `bias` and `scales` (of A, of B) have D's shape. `blocks` are scales for each block of k, which belong to the
    sums; `scales` is then None.
    """

    alpha: float = 1.0
    beta: float = 1.0
    c: Array | None = None
    bias: Array | None = None
    scales: tuple[Array, Array] | None = None
    blocks: Blocks | None = None
    scale_c: float = 1.0
    scale_d: float = 1.0

    @property
    def joins(self) -> bool:
        """Whether anything joins the sums after they are complete."""
        plain = self.alpha == self.scale_d == 1 and self.c is self.bias is None and self.scales is None
        return not plain

    def at(self, rows: Array, columns: Array) -> Epilogue:
        """The same for some elements of D."""
        return self._with(lambda each: each[rows, columns], self.blocks and self.blocks.at(rows, columns))

    def of_rows(self, rows: Array) -> Epilogue:
        """The same for some rows of D."""
        return self._with(lambda each: each[rows], self.blocks and self.blocks.of_rows(rows))

    def _with(self, some: Any, blocks: Blocks | None) -> Epilogue:
        c, bias = (each if each is None else some(each) for each in (self.c, self.bias))
        scales = self.scales and (some(self.scales[0]), some(self.scales[1]))
        return replace(self, c=c, bias=bias, scales=scales, blocks=blocks)

    def real(self, total: Array) -> Array:
        """D of float64 sums, whose blocks are scaled already, without any rounding but that of float64; no relu."""
        factor = self.alpha if self.scales is None else self.alpha * self.scales[0].astype(float) * self.scales[1]
        with np.errstate(all="ignore"):
            total = factor * total
            if self.c is not None:
                total = total + self.beta * self.scale_c * self.c.astype(float)
            if self.bias is not None:
                total = total + self.bias.astype(float)
            return total * self.scale_d


def epilogue(
    shape: tuple[int, int],
    depth: int,
    c: npt.ArrayLike | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    bias: npt.ArrayLike | None = None,
    scale_a: npt.ArrayLike | None = None,
    scale_b: npt.ArrayLike | None = None,
    scale_c: float = 1.0,
    scale_d: float = 1.0,
) -> Epilogue | None:
    """The epilogue for a product of this shape and K; None if there is none. Raises OperandError for what does not fit.

    >>> from tcemu.recipes.epilogue import epilogue
    >>> epilogue((2, 3), 64, scale_a=np.float32(2)).scales[0].tolist()
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """
    wide, thin = _addend(c, shape, "C"), _addend(bias, shape, "bias")
    if wide is None and thin is not None:  # a bias alone is a C whose rows are all the same
        wide, thin, beta, scale_c = thin, None, 1.0, 1.0
    scales, blocks = scales_of(scale_a, scale_b, shape, depth)
    made = Epilogue(float(alpha), float(beta), wide, thin, scales, blocks, float(scale_c), float(scale_d))
    return made if made.joins or blocks is not None else None


def _addend(addend: npt.ArrayLike | None, shape: tuple[int, int], what: str) -> Array | None:
    if addend is None:
        return None
    array = np.asarray(addend)
    if array.shape not in (shape, shape[1:], (1, shape[1]), (shape[0], 1)):
        raise OperandError(
            f"{what} must be {shape}, or a bias of {shape[1:]} for the columns or {(shape[0], 1)} for the rows; got "
            f"shape {array.shape}"
        )
    return np.broadcast_to(array, shape)


def joined(total: Array, plus: Epilogue, recipe: Recipe) -> Array:
    """The result before it is rounded to D's type, from sums in f32 or f64.

    >>> from tcemu.recipes import Recipe
    >>> from tcemu.recipes.epilogue import Epilogue, joined
    >>> joined(np.full(1, 3, np.float32), Epilogue(0.5, 2.0, np.full(1, 4, np.float16)), Recipe("fma.rn.f32"))
    array([9.5], dtype=float32)
    """
    kind = total.dtype.type
    with np.errstate(all="ignore"):
        *factors, last = _factors(plus, recipe.scales, kind)
        for factor in factors:
            total = factor * total
        total = _added(total, last, plus, recipe.fused)
        return total if plus.scale_d == 1 else total * kind(plus.scale_d)


def _factors(plus: Epilogue, way: str, kind: Any) -> list[Array]:
    """alpha and the scales, in the order in which they multiply the sums."""
    alpha = np.asarray(kind(plus.alpha))
    if plus.scales is None:
        return [alpha]
    a, b = (each.astype(kind) for each in plus.scales)
    if not way:
        return [alpha * (a * b)]
    return [alpha * a, b] if way == "a" else [alpha * b, a]


def _added(total: Array, factor: Array, plus: Epilogue, fused: str) -> Array:
    """factor total + beta scale_c C + bias; CUTLASS adds the bias before C where C's product is fused."""
    kind = total.dtype.type
    if plus.c is None:
        result: Array = factor * total
        return result
    beta, c = kind(plus.beta) * kind(plus.scale_c), plus.c.astype(kind)
    bias = None if plus.bias is None else plus.bias.astype(kind)
    if fused == "none" or kind is not np.float32:
        result = factor * total + beta * c
    elif fused == "sum":
        result = fma(factor, total, beta * c)
    elif bias is not None:
        return fma(beta, c, fma(factor, total, bias))
    else:
        result = fma(beta, c, factor * total)
    return result if bias is None else result + bias


def fma(x: Any, y: Array, z: Array) -> Array:
    """x y + z of float32, rounded once: a sum of binary64 that is rounded to odd can be rounded again.

    >>> from tcemu.recipes.epilogue import fma
    >>> float(fma(np.float32(1 + 2**-23), np.float32([1 - 2**-23]), np.float32([-1]))[0]) == -(2**-46)
    True
    """
    product, wide = np.asarray(x, np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + wide
    part = total - product
    error = (product - (total - part)) + (wide - part)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    beside = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even & np.isfinite(total), beside, total).astype(np.float32)
