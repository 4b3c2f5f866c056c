"""D = A B + C from registers into registers: read by layout, compute, write by layout; the kernels do it in one pass.

What the kernels need to know about an operation and its fragments (which bits of which register hold an element,
formats, the order of the sums) is prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.compute import Operation, compute, tiles_of
from tcemu.arithmetic.model import FusedSums, ScaledSums
from tcemu.backend import backend
from tcemu.formats import Format
from tcemu.layouts import Fragment

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

    `places` (warps, m, k) makes A sparse, as in `compute`. D is written into `out` if that is given and contiguous.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> a, b = np.full((1, 32 * 4), 0x3C003C00, np.uint32), np.full((1, 32 * 2), 0x3C003C00, np.uint32)
    >>> d = tcemu.arithmetic.compute_registers(operation, mma.fragments, a, b, np.zeros((1, 32 * 4), np.uint32))
    >>> d.shape, d.view(np.float32)[0, 0]
    ((1, 128), np.float32(16.0))
    """
    known = fragments["a"], fragments["b"], fragments["c"], fragments["d"]
    products = len(c) * prod(fragments["d"].shape) * operation.depth
    plan = _plan(operation, *known, places is not None) if backend(products) == "numba" else None
    if plan is not None:
        return plan(np.ascontiguousarray(a), np.ascontiguousarray(b), np.ascontiguousarray(c), places, out)
    d = _by_layout(operation, fragments, a, b, c, places)
    if out is None:
        return d
    out[...] = d
    return out


def scaled_plan(operation: Operation, fragments: Mapping[str, Fragment], *, sparse: bool) -> ScaledPlan | None:
    """How the kernels compute sums of scaled products in one pass; None unless one power of two scales all of k."""
    model = operation.model
    if not isinstance(model, ScaledSums) or model.group != 1 or operation.formats["scale"].mantissa:
        return None
    unscaled = replace(operation, model=FusedSums(model.fraction, model.block, model.floor), scale="")
    plan = _plan(unscaled, fragments["a"], fragments["b"], fragments["c"], fragments["d"], sparse)
    return None if plan is None else partial(_scaled, plan, operation.formats["scale"])


def _scaled(
    plan: Any, form: Format, a: Array, b: Array, c: Array, scales: Sequence[Array], places: Array | None, out: Array
) -> Array:
    """D into `out`, from flat registers and from the scales' patterns (warps, m, 1) and (warps, 1, n)."""
    from tcemu.kernels.blocks import SCALE_NAN

    table = np.arange(1 << form.container, dtype=np.int32) - form.bias
    table[form.nan_bits] = SCALE_NAN
    exponents = tuple(table[each.reshape(len(each), -1)] for each in scales)
    found: Array = plan(*(np.ascontiguousarray(each) for each in (a, b, c)), places, out, exponents)
    return found


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
        self._make = partial(_plan, operation, *known, False)
        self._plan: Plan | None = None
        self._products = prod(fragments["d"].shape) * operation.depth
        self._own = [(each.lanes, each.registers) for each in known]
        self._most = most
        self._shapes: dict[tuple[tuple[int, ...], ...], tuple[int, tuple[int, ...]] | None] = {}

    def __call__(self, a: Any, b: Any, c: Any) -> Array | None:
        """Registers of D (..., 32, registers); None if others must check the operands, or raise an error about them."""
        if not type(a) is type(b) is type(c) is np.ndarray:
            return None
        if not a.dtype is b.dtype is c.dtype is _WORDS:
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
        d = np.empty(shape, _WORDS)
        if not (a.flags.c_contiguous and b.flags.c_contiguous and c.flags.c_contiguous):
            a, b, c = (np.ascontiguousarray(each) for each in (a, b, c))
        self._plan(a.reshape(count, -1), b.reshape(count, -1), c.reshape(count, -1), None, d.reshape(count, -1))
        return d

    def _remember(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Whether these are registers of the same few warps: how many, and the shape of D."""
        if len(self._shapes) >= 256:
            self._shapes.clear()
        warps = shapes[0][:-2]
        fits = all(shape == (*warps, *own) for shape, own in zip(shapes, self._own, strict=False))
        fits = fits and 0 < prod(warps) <= self._most
        self._shapes[shapes] = (prod(warps), (*warps, *self._own[-1])) if fits else None


_WORDS = np.dtype(np.uint32)
ScaledPlan = Callable[..., Array]
#: Takes flat registers of A, B and C, the places of a sparse A, and perhaps room for D, which it returns.
Plan = Callable[[Array, Array, Array, "Array | None", "Array | None"], Array]


@lru_cache(maxsize=1024)
def _plan(operation: Operation, a: Fragment, b: Fragment, c: Fragment, d: Fragment, sparse: bool) -> Plan | None:
    """How the kernels compute an operation on these fragments in one pass; None if they do not."""
    if any(len(one.shape) != 2 for one in (a, b, c, d)):
        return None
    return plan_of(operation, InWords(*a.places), InWords(*b.places), c, d, sparse=sparse)


class InWords(NamedTuple):
    """Where the elements of a matrix, in C order, are in 32-bit words: the word, and the first bit in it."""

    word: Array
    bit: Array
    #: Whether the signs are flipped.
    negate: bool = False


def plan_of(
    operation: Operation, a: InWords, b: InWords, c: Fragment, d: Fragment, *, sparse: bool = False
) -> Plan | None:
    """How the kernels compute an operation on operands in any words in one pass; None if they do not."""
    if not isinstance(operation.model, FusedSums) or operation.keeps_addend or backend() != "numba":
        return None
    from tcemu.kernels.tiles import Place, Results

    (m, n), forms = d.shape, operation.formats
    given = [
        Place(one.word, one.bit, forms[role].code_mask, forms[role].sign_bit if one.negate else 0)
        for role, one in (("a", a), ("b", b))
    ]
    addend = Place(*c.places, c.format.code_mask)
    results = Results(np.array(d.layout.gather).reshape(-1, d.elements_per_register), d.container.width)
    return tiles_of(operation, (m, n, a.word.size // m), sparse, [*given, addend], results)
