"""Registers in, registers out: computes an operation on fragments, in one pass if the kernels can do that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.compute import compute
from tcemu.arithmetic.operation import Operation
from tcemu.arithmetic.plans import Chosen, InWords, Operands, Plan, plan
from tcemu.backend import backend
from tcemu.layouts import Fragment

if TYPE_CHECKING:
    from tcemu.kernels.tiles import Pruned

Array = npt.NDArray[Any]


def compute_registers(
    operation: Operation,
    fragments: Mapping[str, Fragment],
    a: Array,
    b: Array,
    c: Array,
    places: Array | None = None,
    out: Array | None = None,
) -> Array:
    """Flat registers of D (warps, lanes * registers) from those of A, B and C; fragments a, b, c and d are read.

    `places` (warps, m, k) makes A sparse, as in `compute`; a plan with the metadata itself is faster. D is written into
    `out` if that is given and contiguous.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> a, b = np.full((1, 32 * 4), 0x3C003C00, np.uint32), np.full((1, 32 * 2), 0x3C003C00, np.uint32)
    >>> d = tcemu.arithmetic.compute_registers(operation, mma.fragments, a, b, np.zeros((1, 32 * 4), np.uint32))
    >>> d.shape, d.view(np.float32)[0, 0]
    ((1, 128), np.float32(16.0))
    """
    products = len(c) * prod(fragments["d"].shape) * operation.depth
    plan = plan_of(operation, fragments) if places is None and backend(products) == "numba" else None
    if plan is not None:
        found: Any = plan(*(np.ascontiguousarray(each) for each in (a, b, c)), out=out)
        return np.asarray(found)
    d = _by_layout(operation, fragments, a, b, c, places)
    if out is None:
        return d
    out[...] = d
    return out


def _by_layout(
    operation: Operation, fragments: Mapping[str, Fragment], a: Array, b: Array, c: Array, places: Array | None
) -> Array:
    """The definition, in three steps."""
    per = 32 if operation.packed else 1
    (*_, m, stored), (*_, k, n) = fragments["a"].shape, fragments["b"].shape

    # READ: by layout
    a = fragments["a"].read(a, words=operation.packed).reshape(-1, m, stored // per)
    b = fragments["b"].read(b, words=operation.packed).reshape(-1, k // per, n)
    c = fragments["c"].read(c).reshape(-1, m, n)

    # COMPUTE: by the arithmetic row
    d = compute(operation, a, b, c, places)

    # WRITE: by layout
    return fragments["d"].write(d.reshape(-1, fragments["d"].layout.scatter.size))


class FewWarps:
    """Computes D of A, B and C for a few warps if the kernels can take the registers as is, without further checks.

    The result of the checks is cached for each combination of shapes.
    """

    def __init__(self, operation: Operation, fragments: Mapping[str, Fragment], most: int) -> None:
        known = fragments["a"], fragments["b"], fragments["c"], fragments["d"]
        self._make = partial(plan_of, operation, fragments)
        self._plan: Plan | None = None
        self._products = prod(fragments["d"].shape) * operation.depth
        self._own = [(each.lanes, each.registers) for each in known]
        dtypes = {each.container.register_dtype for each in known}
        self._words = dtypes.pop() if len(dtypes) == 1 else None
        self._most = most
        self._shapes: dict[tuple[tuple[int, ...], ...], tuple[int, tuple[int, ...]] | None] = {}

    def __call__(self, a: Any, b: Any, c: Any) -> Array | None:
        """Registers of D (..., 32, registers); None if others must check the operands, or raise an error about them."""
        if not type(a) is type(b) is type(c) is np.ndarray:
            return None
        if not a.dtype is b.dtype is c.dtype is self._words:
            return None
        shapes = a.shape, b.shape, c.shape
        if shapes not in self._shapes:
            self._remember(shapes)
        found = self._shapes[shapes]
        if found is None:
            return None
        count, shape = found
        if self._plan is None and backend(count * self._products) == "numba":
            self._plan = self._make()
        if self._plan is None:
            return None
        d = np.empty(shape, self._words)
        if not (a.flags.c_contiguous and b.flags.c_contiguous and c.flags.c_contiguous):
            a, b, c = (np.ascontiguousarray(each) for each in (a, b, c))
        self._plan(a.reshape(count, -1), b.reshape(count, -1), c.reshape(count, -1), out=d.reshape(count, -1))
        return d

    def _remember(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Whether these are registers of the same few warps: how many, and the shape of D."""
        if len(self._shapes) >= 256:
            self._shapes.clear()
        warps = shapes[0][:-2]
        fits = all(shape == (*warps, *own) for shape, own in zip(shapes, self._own, strict=False))
        fits = fits and 0 < prod(warps) <= self._most
        self._shapes[shapes] = (prod(warps), (*warps, *self._own[-1])) if fits else None


def plan_of(operation: Operation, fragments: Mapping[str, Fragment], chosen: Chosen | None = None) -> Plan | None:
    """How the kernels compute an operation on fragments a, b, c and d in one pass; None if they do not.

    `chosen` makes A sparse; fragment e is then its metadata.
    """
    a, b, c, d = (fragments[role] for role in "abcd")
    return _plan_of(operation, a, b, c, d, fragments["e"] if chosen else None, chosen)


@lru_cache(maxsize=1024)
def _plan_of(
    operation: Operation,
    a: Fragment,
    b: Fragment,
    c: Fragment,
    d: Fragment,
    e: Fragment | None,
    chosen: Chosen | None,
) -> Plan | None:
    if any(len(one.shape) != 2 for one in (a, b, c, d)):
        return None
    left, right = (InWords(*(one.word_places if operation.packed else one.places)) for one in (a, b))
    pruned = _pruned(e, chosen) if e and chosen else None
    return plan_in_words(operation, left, right, c, d, pruned)


def _pruned(e: Fragment, chosen: Chosen) -> Pruned | None:
    if backend() != "numba":
        return None
    from tcemu.kernels.tiles import Pruned

    word, bit = (each.reshape(e.shape)[chosen.selector] for each in e.places)
    return Pruned(word, bit, dict(chosen.places), chosen.chunk)


def plan_in_words(
    operation: Operation, a: InWords, b: InWords, c: Fragment, d: Fragment, pruned: Pruned | None = None
) -> Plan | None:
    """How the kernels compute an operation on operands in any words in one pass; None if they do not."""
    if backend() != "numba":
        return None
    (m, n), held = d.shape, np.array(d.layout.gather).reshape(-1, d.elements_per_register)
    operands = Operands(a, b, InWords(*c.places), held, d.container.width, pruned)
    return plan(operation, (m, n, a.word.size // m), operands)
