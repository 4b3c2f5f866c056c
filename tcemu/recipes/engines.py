"""The engines that add up a recipe's products: a tensor-core instruction, or fused multiply-adds of f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import FusedSums, Operation, compute, compute_scaled, matmul
from tcemu.arithmetic.arrays import fma32
from tcemu.arithmetic.operation import conversion, numbers
from tcemu.backend import backend
from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.instructions import parse, target_named

Array = npt.NDArray[Any]
Tree: TypeAlias = Callable[[Array, Array, Array, Array, Array, int], None]

#: Fused multiply-adds of a node; more zeros at the end of a chain change nothing.
_FMAS = 8
#: Opcodes that are not in the table of matrix instructions.
ORDINARY = ("fma.rn.f32",)


@dataclass(frozen=True)
class Engine:
    """Types of A, B and the sums, products of one instruction, and patterns d = a b + c of whole matrices."""

    a: str
    b: str
    sums: str
    depth: int
    #: Products of a node of the tree that `grow` takes: one instruction, or several.
    batch: int
    run: Callable[[Array, Array, Array], Array]
    #: Sums of single elements, node by node of a tree: a, b (elements, k), ks (nodes, batch), parents (nodes), sums
    #: (nodes, elements), and the first node to compute.
    grow: Tree
    #: Two engines with the same identity give the same bits.
    identity: object
    #: The format of the scales that the instruction takes, each for `block` k; "" for none. Factors then are patterns
    #: of elements with those of their scales above the low byte.
    scale: str = ""
    block: int = 0


@cache
def engine(opcode: str, target: str) -> Engine:
    """The engine of an opcode. Raises IllegalInstruction, ArithmeticUnknown, and OperandError for other instructions.

    >>> from tcemu.recipes.engines import engine
    >>> engine("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_80").depth
    16
    """
    if opcode in ORDINARY:
        return Engine("f32", "f32", "f32", 1, _FMAS, _fma, _fma_tree, opcode)
    parsed = parse(opcode, target)
    if parsed.family == "mma.block_scale" and not parsed.sparse:
        return _scaled(parsed.operation(target_named(target)), parsed.facts.scales)
    dense = parsed.family in ("mma", "wgmma", "wmma.mma") and not parsed.sparse
    if not dense or parsed.types["a"].name == "b1":
        raise OperandError(f"a recipe cannot name {parsed}, only dense mma, wgmma and wmma.mma")
    operation = parsed.operation(target_named(target))
    if operation.c != operation.d:
        raise OperandError(f"{parsed}: its result cannot be the addend of the next step")
    return Engine(
        operation.a,
        operation.b,
        operation.d,
        operation.depth,
        operation.depth,
        lambda a, b, c: matmul(operation, a, b, c),
        _tree(operation),
        operation,
    )


def _scaled(operation: Operation, count: int) -> Engine:
    """The engine of an instruction that takes `count` scales for its k."""
    block = operation.depth // count

    def tiles(a: Array, b: Array, c: Array) -> Array:
        """D of tiles a (w, m, k), b (w, k, n) and c (w, m, n)."""
        x, y = (each & 0xFF for each in (a, b))
        of_a, of_b = a[:, :, ::block] >> 8, b[:, ::block] >> 8
        parts = [np.ascontiguousarray(each, np.uint8) for each in (x, y, of_a, of_b)]
        return compute_scaled(operation, parts[0], parts[1], c, parts[2], parts[3])

    def run(a: Array, b: Array, c: Array) -> Array:
        for k in range(0, a.shape[1], operation.depth):
            c = tiles(a[None, :, k : k + operation.depth], b[None, k : k + operation.depth], c[None])[0]
        return c

    grow = _level_by_level(operation.depth, tiles)
    depth = operation.depth
    return Engine(operation.a, operation.b, operation.d, depth, depth, run, grow, operation, operation.scale, block)


def _by_tiles(operation: Operation) -> Tree:
    """Tiles of one element, for operations without a tree in the kernels."""
    return _level_by_level(operation.depth, lambda a, b, c: compute(operation, a, b, c))


def _level_by_level(depth: int, tiles: Callable[[Array, Array, Array], Array]) -> Tree:
    """The tree, with tiles a (w, 1, k), b (w, k, 1) and c (w, 1, 1) of each level at once."""

    def grow(a: Array, b: Array, ks: Array, parents: Array, sums: Array, first: int) -> None:
        left = np.arange(first, len(ks), dtype=np.int64)
        while left.size:
            ready = left[~np.isin(parents[left], left)]
            x, y = (np.moveaxis(each[:, ks[ready]], 1, 0).reshape(-1, depth) for each in (a, b))
            before = np.where(parents[ready, None] < 0, sums.dtype.type(0), sums[parents[ready]]).reshape(-1, 1, 1)
            sums[ready] = tiles(x[:, None], y[:, :, None], before).reshape(len(ready), -1)
            left = left[np.isin(parents[left], left)]

    return grow


def _tree(operation: Operation) -> Tree:
    """The tree of an operation's sums: a plain loop where there is one, because tiles of one element are slow."""
    model, by_tiles = operation.model, _by_tiles(operation)
    if not isinstance(model, FusedSums) or operation.d != "f32" or model.via or not model.widen:
        return by_tiles
    forms = [lookup(model.through or name) for name in (operation.a, operation.b)]
    floor = -(1 << 19) if model.floor is None else model.floor
    rule = np.array([model.fraction, floor, 23 if model.keep is None else model.keep, 0], np.int64)
    places = np.array(model.sums(operation.depth))

    def grow(a: Array, b: Array, ks: Array, parents: Array, sums: Array, first: int) -> None:
        if backend(ks.size * len(a)) != "numba":
            by_tiles(a, b, ks, parents, sums, first)
            return
        from tcemu.kernels.exact import fused_tree

        if model.through:
            a, b = conversion(operation.a, model.through)[a], conversion(operation.b, model.through)[b]
        words = [np.ascontiguousarray(each, np.uint32) for each in (a, b)]
        last = model.addend == "last"
        fused_tree(*words, ks, parents, sums, first, *map(numbers, forms), rule, places, last)

    return grow


def _fma(a: Array, b: Array, c: Array) -> Array:
    """c, then a fused multiply-add of f32 for each ascending k; uint32 patterns."""
    if backend(c.size * a.shape[1]) == "numba":
        from tcemu.kernels.chains import chains32

        d = c.copy()
        chains32(np.ascontiguousarray(a), np.ascontiguousarray(b), d)
        return d
    d = c
    for k in range(a.shape[1]):
        d = fma32(a[:, k, None], b[k], d)
    return d


def _fma_tree(a: Array, b: Array, ks: Array, parents: Array, sums: Array, first: int) -> None:
    if backend(ks.size * len(a)) == "numba":
        from tcemu.kernels.chains import fma_tree

        fma_tree(a, b, ks, parents, sums, first)
        return
    depths: dict[int, int] = {}  # nodes whose parents are known are computed at once
    for node, parent in enumerate(parents[first:].tolist(), first):
        depths[node] = depths.get(parent, 0) + 1
    for _, nodes in groupby(sorted(depths, key=depths.__getitem__), key=depths.__getitem__):
        some = np.array(list(nodes), np.intp)
        known = parents[some]
        running = np.where(known[:, None] >= 0, sums[known], np.uint32(0))
        for k in ks[some].T:
            running = fma32(a[:, k].T, b[:, k].T, running)
        sums[some] = running
