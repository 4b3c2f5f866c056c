"""The elements of D at which recipes are compared first: few, and those that tell most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import lookup
from tcemu.recipes.engines import engine
from tcemu.recipes.epilogue import Addend, joined
from tcemu.recipes.order import chains, splits
from tcemu.recipes.prefixes import Prefixes
from tcemu.recipes.product import added, factors, finished
from tcemu.recipes.recipe import Recipe
from tcemu.recipes.reductions import trees

Array = npt.NDArray[Any]
#: The most elements among which the telling ones are looked for.
_MOST = 1 << 20


def telling(a: Array, b: Array, d: Array, plus: Addend | None, kind: str, count: int) -> tuple[Array, Array]:
    """Rows and columns of `count` elements of D.

    A narrow D hides most differences between recipes. They show where the exact sum is almost halfway between two
    numbers of D's type, so these elements come first; without rounding, any elements do.
    """
    rows = np.unique(np.linspace(0, len(a) - 1, max(1, min(len(a), _MOST // b.shape[1]))).astype(int))
    if kind in ("f16", "bf16"):
        with np.errstate(all="ignore"):
            sums = a[rows].astype(np.float32) @ b.astype(np.float32)
            if plus is not None:
                sums = joined(sums, Addend(plus.alpha, plus.beta, plus.c[rows]), "none")
            _, exponents = np.frexp(sums)
            unit = np.ldexp(1.0, np.maximum(exponents - 1, lookup(kind).emin) - lookup(kind).mantissa)
            place = np.abs(sums / unit - np.floor(sums / unit) - 0.5)
        place[~np.isfinite(place) | (sums == 0)] = 1.0
        order = np.argsort(place, axis=None, kind="stable")[:count]
    else:
        order = np.random.default_rng(0).permutation(len(rows) * b.shape[1])[:count]
    i, j = np.unravel_index(order, (len(rows), b.shape[1]))
    return rows[i], j


def is_fine(a: Array, b: Array, d: Array, rows: Array, columns: Array) -> bool:
    """Whether D is too exact for factors that were rounded to tf32 or bf16 first.

    The errors of rounded factors add up to about 2^-12 of the products' norm; those of f32 sums are far smaller unless
    the sums grow much larger than that norm, and then nothing is concluded.

    >>> from tcemu.recipes.elements import is_fine
    >>> A = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    >>> is_fine(A, A, A @ A, np.arange(8), np.arange(8)), is_fine(A, A, A @ A * 1.001, np.arange(8), np.arange(8))
    (True, False)
    """
    with np.errstate(all="ignore"):
        products = a[rows].astype(float) * b[:, columns].T.astype(float)
        errors = np.abs(products.sum(axis=1) - d[rows, columns].astype(float)) / np.linalg.norm(products, axis=1)
    return bool(np.nanmedian(errors) < 2.0**-16)


@dataclass(frozen=True)
class Tried:
    """A recipe, and the share of the elements whose bits it gives."""

    recipe: Recipe
    share: float


class Elements:
    """Some elements of D: the row of A and the column of B of each (elements, k), and their bits."""

    def __init__(self, a: Array, b: Array, d: Array, plus: Addend | None = None) -> None:
        self._a, self._b, self._depth, self._plus = a, b, a.shape[1], plus
        self._bits = _bits(d)
        self._trees: dict[tuple[object, str], Prefixes] = {}

    @classmethod
    def of(cls, a: Array, b: Array, d: Array, plus: Addend | None, rows: Array, columns: Array) -> Elements:
        """The elements of a product at these rows and columns."""
        bits = np.ascontiguousarray(d[rows, columns])
        return cls(a[rows], np.ascontiguousarray(b[:, columns].T), bits, plus and plus.at(rows, columns))

    @property
    def steps(self) -> int:
        """The instructions that were computed for each element."""
        return sum(len(tree) for tree in self._trees.values())

    def tried(self, recipes: list[Recipe], reductions: bool = False) -> list[Tried]:
        """Each recipe with its share; with `reductions` also with every tree that adds up its splits."""
        plans = []
        for recipe in recipes:
            by, tree = engine(recipe.instruction, recipe.target), self._tree(recipe)
            ends = [
                [tree.ends(chains(recipe, ks, by.depth, self._depth)) for ks in slices if len(ks)]
                for slices in splits(recipe, self._depth)
                if len(slices[0])
            ]
            plans.append((recipe, tree, ends, by.sums))
        for tree in self._trees.values():
            tree.compute()
        found: list[Tried] = []
        for recipe, tree, ends, kind in plans:
            form = lookup(kind)
            sums = [
                added([added([form.matrix(tree.sums(node)) for node in nodes]) for nodes in split]) for split in ends
            ]
            found.append(self._judged(recipe, finished(recipe, sums, kind, self._plus)))
            if reductions and len(sums) > 2 and not recipe.size:
                found += self._in_trees(recipe, sums, kind)
        return found

    def _in_trees(self, recipe: Recipe, sums: list[Array], kind: str) -> list[Tried]:
        """The trees that give all of the elements, or else the one that gives most."""
        found = list(trees(sums))
        if not found:
            return []
        totals = np.stack([total for _, total in found])
        shares = self._shares(finished(replace(recipe, splits=1), [totals], kind, self._plus))
        best = np.flatnonzero(shares == shares.max())[: None if shares.max() == 1 else 1]
        return [Tried(replace(recipe, reduce=found[i][0]), float(shares[i])) for i in best]

    def _judged(self, recipe: Recipe, d: Array) -> Tried:
        return Tried(recipe, float(self._shares(d)))

    def _shares(self, d: Array) -> Array:
        """The share of the elements that have their bits, along the last axis of (..., elements)."""
        shares: Array = np.mean(_bits(d) == self._bits, axis=-1)
        return shares

    def _tree(self, recipe: Recipe) -> Prefixes:
        """The tree of the chains of one instruction and one kind of inputs."""
        by = engine(recipe.instruction, recipe.target)
        key = (by.identity, recipe.inputs)
        if key not in self._trees:
            self._trees[key] = Prefixes(by, *factors(recipe, by, self._a, self._b))
        return self._trees[key]


def _bits(d: Array) -> Array:
    bits: Array = np.ascontiguousarray(d).view(f"u{d.dtype.itemsize}")
    return bits
