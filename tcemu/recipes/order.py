"""The order in which a recipe takes k: splits, which consist of chains from zero, which consist of instructions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.recipes.recipe import Recipe

Array = npt.NDArray[Any]
#: The k of a chain in the order of its instructions; -1 for a place that holds zeros.
Chain = npt.NDArray[np.int64]


def splits(recipe: Recipe, depth: int) -> list[list[Chain]]:
    """The k of each slice of each split, ascending.

    >>> from tcemu.recipes import Recipe
    >>> from tcemu.recipes.order import splits
    >>> [[ks.tolist() for ks in split] for split in splits(Recipe("fma.rn.f32", slices=2, tile=2), 8)]
    [[[0, 1, 4, 5], [2, 3, 6, 7]]]
    """
    size = recipe.size or -(-depth // recipe.splits)
    ends = [min(i * size, depth) for i in range(recipe.splits)] + [depth]
    return [_slices(recipe, np.arange(start, end, dtype=np.int64)) for start, end in pairwise(ends)]


def _slices(recipe: Recipe, ks: Chain) -> list[Chain]:
    if recipe.slices == 1:
        return [ks]
    turn = _positions(recipe, len(ks)) // recipe.tile % recipe.slices
    return [ks[turn == i] for i in range(recipe.slices)]


def _positions(recipe: Recipe, count: int) -> Chain:
    """The positions of k in rounds of one tile per slice. If the first round is short, its first tiles are whole."""
    positions, whole = np.arange(count, dtype=np.int64), recipe.tile * recipe.slices
    if recipe.residue == "first" and count % whole:
        positions[count % whole :] += whole - count % whole
    return positions


def chains(recipe: Recipe, ks: Chain, step: int, depth: int = 0) -> list[Chain]:
    """The chains of a split that has these k, for an instruction of `step` products.

    Where elements have several parts, a tile (or a step) adds one pair of parts after the other: k of pair p is
    p * depth + k.

    >>> from tcemu.recipes import Recipe
    >>> from tcemu.recipes.order import chains
    >>> [chain.tolist() for chain in chains(Recipe("fma.rn.f32", every=4), np.arange(6), 2)]
    [[0, 1, 2, 3], [4, 5]]
    """
    pairs = recipe.pairs
    if len(pairs) == 1 and not (recipe.order or recipe.every or recipe.lead):
        return _one_chain(recipe, ks, step)
    units = [_in_order(recipe, tile, step) for tile in _tiles(recipe, ks)]
    if recipe.step:
        units = [part for tile in units for part in _cut(tile, recipe.step)]
    if recipe.apart:
        return [np.concatenate([np.where(u < 0, -1, u + p * depth) for u in units]) for p in range(len(pairs))]
    if len(pairs) > 1:
        units = [np.concatenate([np.where(u < 0, -1, u + p * depth) for p in range(len(pairs))]) for u in units]
    size = recipe.step or recipe.tile or recipe.every
    many = max(1, recipe.every // size) if recipe.every else len(units)
    lead = recipe.lead // size if recipe.lead else many
    cuts = [0, *range(lead, len(units), many), len(units)] if units else []
    return [np.concatenate(units[start:end]) for start, end in pairwise(cuts) if start < end]


def _one_chain(recipe: Recipe, ks: Chain, step: int) -> list[Chain]:
    """The chain of a split whose sums never start again. Most recipes are like this, so it is quick."""
    size = recipe.tile or len(ks) or 1
    if size % step and size < len(ks):
        return [np.concatenate([_filled(tile, step) for tile in _tiles(recipe, ks)])]
    short = len(ks) % size if recipe.residue == "first" else 0
    if short % step:
        return [np.concatenate([_filled(ks[:short], step), _filled(ks[short:], step)])]
    return [_filled(ks, step)] if len(ks) else []


def _filled(ks: Chain, step: int) -> Chain:
    """k and then zeros, up to whole instructions."""
    rest = -len(ks) % step
    return np.concatenate([ks, np.full(rest, -1)]) if rest else ks


def _tiles(recipe: Recipe, ks: Chain) -> list[Chain]:
    """The tiles of a split; without a tile, what is promoted at once, or everything."""
    size = recipe.tile or recipe.every or len(ks) or 1
    short = len(ks) % size
    if recipe.residue == "first" and short:
        return [ks[:short], *_cut(ks[short:], size)]
    return _cut(ks, size)


def _cut(ks: Chain, size: int) -> list[Chain]:
    return [ks[i : i + size] for i in range(0, len(ks), size)]


def _in_order(recipe: Recipe, tile: Chain, step: int) -> Chain:
    """A tile in its order, filled up to whole instructions, or all of it where its place in a larger sum counts."""
    size = recipe.tile if recipe.order or recipe.lead else -(-len(tile) // step) * step
    filled = np.full(size, -1)
    filled[: len(tile)] = tile
    if not recipe.order:
        return filled
    names, order = list(recipe.digits), recipe.order.partition(">")[2]
    grid = filled.reshape(list(recipe.digits.values()))
    return grid.transpose([names.index(name) for name in order]).reshape(-1)
