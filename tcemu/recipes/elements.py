"""The elements of D at which recipes are compared first: a few, those that distinguish recipes best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tcemu.formats import Format, lookup
from tcemu.recipes.engines import Engine, engine
from tcemu.recipes.epilogue import Epilogue
from tcemu.recipes.inputs import CONVERSIONS
from tcemu.recipes.likely import likely
from tcemu.recipes.order import Chain, chains, splits
from tcemu.recipes.prefixes import Paths, Prefixes
from tcemu.recipes.product import added, block_of, factors, finished, joining, output, promoted, through
from tcemu.recipes.recipe import Recipe
from tcemu.recipes.reductions import reduced, trees

Array = npt.NDArray[Any]
#: The last nodes of the chains of each slice of a split, and the blocks whose scales they take.
Ends: TypeAlias = list[list[tuple[int, int]]]
#: The most elements among which the search looks for these.
_MOST = 1 << 20
#: The fields that determine how sums are added.
_SUMS = attrgetter("join", "partial", "total", "reduce")
_OF_BLOCKS = attrgetter("scales", "promotion")
#: The fields that determine the order of k.
_ORDER_OF_K = attrgetter("splits", "size", "slices", "tile", "residue", "every", "lead", "order", "pairs", "step")


def telling(a: Array, b: Array, d: Array, plus: Epilogue | None, kind: str, count: int) -> tuple[Array, Array]:
    """Rows and columns of `count` elements of D.

    A narrow D hides most differences between recipes. They show where the exact sum is almost halfway between two
    numbers of D's type, so these elements come first; without rounding, any elements do.
    """
    rows = np.unique(np.linspace(0, len(a) - 1, max(1, min(len(a), _MOST // b.shape[1]))).astype(np.int64))
    if narrow(kind, joins=plus is not None and plus.joins):
        place = _beside_half(real(a[rows], b, plus and plus.of_rows(rows)), lookup(kind))
        order = np.argsort(place, axis=None, kind="stable")[:count]
    else:
        order = np.random.default_rng(0).permutation(len(rows) * b.shape[1])[:count]
    i, j = np.unravel_index(order, (len(rows), b.shape[1]))
    return rows[i], j


def narrow(kind: str, *, joins: bool = True) -> bool:
    """Whether a type of D hides most of what its sums differ in. Integer sums are exact, unless f32 joins them."""
    form = lookup(kind)
    return form.bits <= 16 if form.kind == "float" else joins


def real(a: Array, b: Array, plus: Epilogue | None) -> Array:
    """D of some rows in f32 or f64, nearly exact."""
    wide = np.float32 if a.dtype.itemsize < 4 and a.dtype.kind not in "iu" else np.float64
    if plus is not None and plus.blocks is not None:
        left, right = plus.blocks.spread(a, b.T)
    else:
        left, right = a.astype(wide), b.astype(wide).T
    with np.errstate(all="ignore"):
        sums = (left @ right.T).astype(np.float64)
    return sums if plus is None else plus.real(sums)


def _beside_half(sums: Array, form: Format) -> Array:
    """How far numbers are from halfway between two of a format, in units of its last place; 1 if that says nothing."""
    with np.errstate(all="ignore"):
        if form.kind == "float":
            _, exponents = np.frexp(sums)
            unit = np.ldexp(1.0, np.maximum(exponents - 1, form.emin) - form.mantissa)
        else:
            unit = np.ones_like(sums)
        place = np.abs(sums / unit - np.floor(sums / unit) - 0.5)
        beyond = (sums > form.largest) | (sums < form.lowest)
    step: Array = np.where(~np.isfinite(place) | (sums == 0) | beyond, 1.0, place)
    return step


@dataclass(frozen=True, eq=False)
class Tried:
    """A recipe, and the elements whose bits it gives."""

    recipe: Recipe
    same: Array

    @property
    def share(self) -> float:
        """The share of the elements whose bits it gives."""
        return float(self.same.mean())


def missed(tried: list[Tried], count: int) -> Array:
    """Places of at most `count` elements, those first whose bits the fewest recipes give.

    >>> from tcemu.recipes import Recipe
    >>> from tcemu.recipes.elements import Tried, missed
    >>> missed([Tried(Recipe("fma.rn.f32"), np.array([True, False, True]))], 2).tolist()
    [1]
    """
    agreeing = np.sum([each.same for each in tried], axis=0)
    order = np.argsort(agreeing, kind="stable")[:count]
    elements: Array = order[agreeing[order] < len(tried)]
    return elements


class Elements:
    """Some elements of D: the row of A and the column of B of each (elements, k), and their bits."""

    def __init__(self, a: Array, b: Array, d: Array, plus: Epilogue | None = None) -> None:
        self._a, self._b, self._depth, self._plus = a, b, a.shape[1], plus
        self._d, self._bits = d, _bits(d)
        self._blocks = None if plus is None else plus.blocks
        self._paths: dict[tuple[int, int], Paths] = {}
        self._ends: dict[tuple[object, ...], list[Ends]] = {}
        self._trees: dict[tuple[object, str], Prefixes] = {}

    @classmethod
    def of(cls, a: Array, b: Array, d: Array, plus: Epilogue | None, rows: Array, columns: Array) -> Elements:
        """The elements of a product at these rows and columns."""
        bits = np.ascontiguousarray(d[rows, columns])
        return cls(a[rows], np.ascontiguousarray(b[:, columns].T), bits, plus and plus.at(rows, columns))

    @property
    def steps(self) -> int:
        """The instructions that were computed for each element."""
        return sum(len(tree) for tree in self._trees.values())

    def inputs(self) -> set[str]:
        """The conversions of A and B from which the elements can come."""
        return likely(self._a, self._b, self._d, self._plus, CONVERSIONS)

    def tried(self, recipes: list[Recipe], reductions: bool = False) -> list[Tried]:
        """Each recipe with its share; with `reductions` also with every tree that adds up its splits."""
        plans = [(recipe, self._tree(recipe), self._planned(recipe)) for recipe in recipes]
        for tree in {id(tree): tree for _, tree, _ in plans}.values():
            tree.compute()
        results: list[Tried] = []
        last: tuple[object, ...] = ()
        for recipe, tree, ends in plans:
            kind = engine(recipe.instruction, recipe.target).sums
            same = (id(tree), id(ends), *_SUMS(recipe), *(_OF_BLOCKS(recipe) if self._blocks else ()))
            if same != last:  # recipes that differ only in what comes after the sums follow each other
                sums, last = self._splits(recipe, tree, ends), same
                total, wide = added(recipe, sums, kind, self._plus)
            results.append(Tried(recipe, self._same(output(recipe, total, wide, kind, self._plus))))
            if reductions and len(sums) > 2 and not (recipe.size or recipe.total or recipe.reduce):
                results += self._in_trees(recipe, sums, kind)
        return results

    def values(self, recipes: list[Recipe]) -> list[Array]:
        """The results of recipes before they are rounded to D's type."""
        plans = [(recipe, self._tree(recipe), self._planned(recipe)) for recipe in recipes]
        for tree in {id(tree): tree for _, tree, _ in plans}.values():
            tree.compute()
        kinds = [engine(recipe.instruction, recipe.target).sums for recipe in recipes]
        return [
            joining(recipe, *added(recipe, self._splits(recipe, tree, ends), kind, self._plus), self._plus)[0]
            for (recipe, tree, ends), kind in zip(plans, kinds, strict=True)
        ]

    def _splits(self, recipe: Recipe, tree: Prefixes, ends: list[Ends]) -> list[Array]:
        return [self._split(recipe, tree, slices) for slices in ends]

    def _split(self, recipe: Recipe, tree: Prefixes, slices: Ends) -> Array:
        """The sum of a split from the ends of its slices' chains."""
        return reduced([self._slice(recipe, tree, ends) for ends in slices], recipe.join)

    def _slice(self, recipe: Recipe, tree: Prefixes, ends: list[tuple[int, int]]) -> Array:
        sums = [tree.sums[node] for node, _ in ends]
        if self._blocks is None or engine(recipe.instruction, recipe.target).scale:
            return reduced(sums, "")
        return promoted(sums, [block for _, block in ends], self._blocks, recipe)

    def _in_trees(self, recipe: Recipe, sums: list[Array], kind: str) -> list[Tried]:
        """The trees that give all of the elements, or else the one that gives most."""
        if recipe.partial:
            sums = list(through(np.stack(sums), kind, recipe.partial))
        totals_of_trees = list(trees(sums))
        if not totals_of_trees:
            return []
        totals = np.stack([total for _, total in totals_of_trees])
        same = self._same(finished(replace(recipe, splits=1), [totals], kind, self._plus))
        shares = same.mean(axis=-1)
        best = np.flatnonzero(shares == shares.max())[: None if shares.max() == 1 else 1]
        return [Tried(replace(recipe, reduce=totals_of_trees[i][0]), same[i]) for i in best]

    def _same(self, d: Array) -> Array:
        """Which elements of D (..., elements) have the given bits."""
        same: Array = _bits(d) == self._bits
        return same

    def _planned(self, recipe: Recipe) -> list[Ends]:
        """The ends of the chains of each slice of each split; recipes with the same order of k share them."""
        by = engine(recipe.instruction, recipe.target)
        key = (by.depth, by.batch, by.scale, *_ORDER_OF_K(recipe))
        if key not in self._ends:
            paths = self._path(recipe, by)
            self._ends[key] = [
                [
                    [(paths.end(chain), self._block(chain, by)) for chain in chains(recipe, ks, by.depth, self._depth)]
                    for ks in slices
                    if len(ks)
                ]
                for slices in splits(recipe, self._depth)
                if len(slices[0])
            ]
        return self._ends[key]

    def _block(self, chain: Chain, by: Engine) -> int:
        return 0 if self._blocks is None or by.scale else block_of(chain, self._depth, self._blocks.size)

    def _path(self, recipe: Recipe, by: Engine) -> Paths:
        """The paths of all chains of instructions of the same size, and of as many pairs of parts."""
        return self._paths.setdefault((by.batch, len(recipe.pairs)), Paths(by.batch))

    def _tree(self, recipe: Recipe) -> Prefixes:
        """The tree of the chains of one instruction and one kind of inputs."""
        by = engine(recipe.instruction, recipe.target)
        key = (by.identity, recipe.inputs)
        if key not in self._trees:
            factored = factors(recipe, by, self._a, self._b, self._blocks)
            self._trees[key] = Prefixes(by, self._path(recipe, by), *factored)
        return self._trees[key]


def _bits(d: Array) -> Array:
    bits: Array = np.ascontiguousarray(d).view(f"u{d.dtype.itemsize}")
    return bits
