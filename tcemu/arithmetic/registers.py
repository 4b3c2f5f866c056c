"""Registers in, registers out: computes an operation on fragments, in one pass if the kernels can do that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.compute import compute
from tcemu.arithmetic.operation import Operation
from tcemu.arithmetic.plans import Chosen, InWords, Operands, Plan, among, plan
from tcemu.backend import backend
from tcemu.layouts import Fragment

if TYPE_CHECKING:
    from tcemu.kernels.batch.gather import Pruned

Array = npt.NDArray[Any]
_BYTE = np.dtype(np.uint8)


def compute_registers(
    operation: Operation,
    fragments: Mapping[str, Fragment],
    a: Array,
    b: Array,
    c: Array,
    stored_k: Array | None = None,
    out: Array | None = None,
) -> Array:
    """Flat registers of D (warps, lanes * registers) from those of A, B and C; fragments a, b, c and d are read.

    `stored_k` (warps, m, k) makes A sparse, as in `compute`; a plan with the metadata itself is faster. D is written
    into `out` if that is given and contiguous.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> a, b = np.full((1, 32 * 4), 0x3C003C00, np.uint32), np.full((1, 32 * 2), 0x3C003C00, np.uint32)
    >>> d = tcemu.arithmetic.compute_registers(operation, mma.fragments, a, b, np.zeros((1, 32 * 4), np.uint32))
    >>> d.shape, d.view(np.float32)[0, 0]
    ((1, 128), np.float32(16.0))
    """
    products = len(c) * prod(fragments["d"].shape) * operation.depth
    plan = plan_of(operation, fragments) if stored_k is None and backend(products) == "numba" else None
    if plan is not None:
        result: Any = plan(*(np.ascontiguousarray(each) for each in (a, b, c)), out=out)
        return np.asarray(result)
    d = _by_layout(operation, fragments, a, b, c, stored_k)
    if out is None:
        return d
    out[...] = d
    return out


def _by_layout(
    operation: Operation, fragments: Mapping[str, Fragment], a: Array, b: Array, c: Array, stored_k: Array | None
) -> Array:
    """The definition, in three steps."""
    per = 32 if operation.packed else 1
    (*_, m, stored), (*_, k, n) = fragments["a"].shape, fragments["b"].shape

    # READ: by layout
    a = fragments["a"].read(a, words=operation.packed).reshape(-1, m, stored // per)
    b = fragments["b"].read(b, words=operation.packed).reshape(-1, k // per, n)
    c = fragments["c"].read(c).reshape(-1, m, n)

    # COMPUTE: by the arithmetic row
    d = compute(operation, a, b, c, stored_k)

    # WRITE: by layout
    return fragments["d"].write(d.reshape(-1, fragments["d"].layout.scatter.size))


class FewWarps:
    """Computes D of A, B and C for a few warps if the kernels can take the registers as is, without further checks.

    The result of the checks is cached for each combination of shapes. `chosen` makes A sparse. `scales` are the bytes
    of the registers (32) scale_a and scale_b that are the scales (m, s) of A and (s, n) of B.
    """

    def __init__(
        self,
        operation: Operation,
        fragments: Mapping[str, Fragment],
        most: int,
        chosen: Chosen | None = None,
        scales: tuple[Array, ...] = (),
    ) -> None:
        known = fragments["a"], fragments["b"], fragments["c"], fragments["d"]
        self._make = partial(_few, operation, fragments, chosen, scales)
        self._plan: Plan | None = None
        self._products = prod(fragments["d"].shape) * operation.depth
        self._own: list[tuple[int, ...]] = [(each.lanes, each.registers) for each in known]
        self._sparse, self._scaled = chosen is not None, bool(scales)
        others = [*["e"] * self._sparse, *["scale_a", "scale_b"] * bool(scales)]
        self._own[3:3] = [(fragments[role].lanes,) for role in others]
        dtypes = {each.container.register_dtype for each in known}
        self._words = dtypes.pop() if len(dtypes) == 1 else None
        self._most = most
        self._shapes: dict[tuple[tuple[int, ...], ...], _Few | None] = {}

    def __call__(self, a: Any, b: Any, c: Any, *others: Any) -> Array | None:
        """Registers of D (..., 32, registers); None if others must check the operands, or raise an error about them.

        The others, (..., 32), are the metadata of a sparse A, and the scales of A and of B.
        """
        if not type(a) is type(b) is type(c) is np.ndarray:
            return None
        if not a.dtype is b.dtype is c.dtype is self._words:
            return None
        shapes: tuple[tuple[int, ...], ...] = a.shape, b.shape, c.shape
        if others:
            for each in others:
                if type(each) is not np.ndarray or each.dtype is not self._words:
                    return None
            shapes = (*shapes, *[each.shape for each in others])
        few = self._shapes[shapes] if shapes in self._shapes else self._remember(shapes)
        if few is None:
            return None
        if self._plan is None and backend(few.warps * self._products) == "numba":
            self._plan = self._make()
        if self._plan is None:
            return None
        if not (a.flags.c_contiguous and b.flags.c_contiguous and c.flags.c_contiguous):
            a, b, c = (np.ascontiguousarray(each) for each in (a, b, c))
        d = np.empty(few.flat[-1], self._words)
        a, b, c = a.reshape(few.flat[0]), b.reshape(few.flat[1]), c.reshape(few.flat[2])
        if not others:
            self._plan(a, b, c, out=d, known=few.known)
        elif self._plan(a, b, c, out=d, known=few.known, **self._named(few.warps, others)) is None:
            return None  # the metadata is illegal
        few.known = True
        return d.reshape(few.shape)

    def fill(self, d: Array, a: Array, b: Array, c: Array, *others: Array) -> bool:
        """Compute flat registers (warps, words) of D from those of A, B, C and others, of any number of warps.

        Returns whether the kernels did it. All arrays are contiguous.
        """
        if self._plan is None and backend(len(d) * self._products) == "numba":
            self._plan = self._make()
        return self._plan is not None and self._plan(a, b, c, out=d, **self._named(len(d), others)) is not None

    def _named(self, warps: int, others: Sequence[Array]) -> dict[str, Any]:
        """The other operands, as plans take them."""
        named: dict[str, Any] = {}
        if self._sparse:
            named["metadata"] = np.ascontiguousarray(others[0]).reshape(warps, -1)
        if self._scaled:  # kernels are compiled for arrays that can be written
            one, other = (np.require(each, requirements=("C", "W")).view(_BYTE) for each in others[-2:])
            named["scales"] = one.reshape(warps, -1), other.reshape(warps, -1)
        return named

    def _remember(self, shapes: tuple[tuple[int, ...], ...]) -> _Few | None:
        """What is known of these shapes; None unless they are those of registers of the same few warps."""
        if len(self._shapes) >= 256:
            self._shapes.clear()
        warps = shapes[0][:-2]
        fits = len(shapes) == len(self._own) - 1
        fits = fits and all(shape == (*warps, *own) for shape, own in zip(shapes, self._own, strict=False))
        fits = fits and 0 < prod(warps) <= self._most
        few = self._shapes[shapes] = _Few(warps, self._own) if fits else None
        return few


class _Few:
    """Registers of a few warps: how many warps, the shape of D, and all shapes, D's last, as a plan takes them."""

    def __init__(self, warps: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> None:
        self.warps, self.shape = prod(warps), (*warps, *own[-1])
        self.flat = tuple((self.warps, prod(each)) for each in own)
        #: whether the plan has checked such arrays
        self.known = False


def _few(
    operation: Operation, fragments: Mapping[str, Fragment], chosen: Chosen | None, scales: tuple[Array, ...]
) -> Plan | None:
    """The plan of `FewWarps`."""
    whole = plan_of(operation, fragments, chosen)
    return among(whole, scales) if whole is not None and scales else whole


def shares_warps(operation: Operation, fragments: Mapping[str, Fragment], warps: int) -> bool:
    """Whether `compute_registers` computes so many warps, in one call, on all cores."""
    products = warps * prod(fragments["d"].shape) * operation.depth
    return backend(products) == "numba" and getattr(plan_of(operation, fragments), "shares", False)


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
    left, right = (InWords(*(one.words_of_bits if operation.packed else one.bits_of_elements)) for one in (a, b))
    pruned = _pruned(e, chosen) if e and chosen else None
    return plan_in_words(operation, left, right, c, d, pruned)


def _pruned(e: Fragment, chosen: Chosen) -> Pruned | None:
    if backend() != "numba":
        return None
    from tcemu.kernels.batch.gather import Pruned

    word, bit = (each.reshape(e.shape)[chosen.selector] for each in e.bits_of_elements)
    return Pruned(word, bit, dict(chosen.positions), chosen.chunk)


def plan_in_words(
    operation: Operation, a: InWords, b: InWords, c: Fragment, d: Fragment, pruned: Pruned | None = None
) -> Plan | None:
    """How the kernels compute an operation on operands in any words in one pass; None if they do not."""
    if backend() != "numba":
        return None
    *several, m, n = d.shape
    held, products = np.array(d.layout.gather).reshape(-1, d.elements_per_register), prod(several)
    operands = Operands(a, b, InWords(*c.bits_of_elements), held, d.container.width, pruned, products)
    return plan(operation, (m, n, a.word.size // (products * m)), operands)
