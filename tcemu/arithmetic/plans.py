"""How the kernels compute an operation in one pass: a plan knows in advance where every element is.

A plan takes contiguous words (tiles, words) of A, B and C, and returns those of D. Words are registers, or whatever
holds the elements. They have 32 bits, or 64 if the elements do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.model import BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.arithmetic.operation import MODES, Operation, normalised, numbers
from tcemu.formats import Format, lookup, unpack

if TYPE_CHECKING:
    from tcemu.kernels.batch.gather import Elements, Pruned
    from tcemu.kernels.batch.plan import BatchPlan

Array = npt.NDArray[Any]
#: Takes words of A, B and C; by name the metadata of a sparse A, scales, room for D, and whether arrays like these have
#: been checked before. None: the metadata is illegal.
Plan = Callable[..., "Array | None"]


class InWords(NamedTuple):
    """Where the elements of a matrix, in C order, are in words: the word, and the first bit in it."""

    word: Array
    bit: Array
    #: Whether the signs are flipped.
    negate: bool = False

    @classmethod
    def packed(cls, count: int, width: int) -> InWords:
        """A number of elements of the same width in bits, one after the other."""
        bits, size = np.arange(count, dtype=np.int64) * width, max(width, 32)
        return cls(bits // size, bits % size)


class Chosen(NamedTuple):
    """How a sparse A is pruned."""

    #: The elements of a chunk.
    chunk: int
    #: The legal values of a chunk's four bits of metadata, each with the positions of the stored elements.
    positions: tuple[tuple[int, tuple[int, ...]], ...]
    #: The selector, which says which lanes' metadata counts.
    selector: int


class Operands(NamedTuple):
    """The place of every element. d: for each word of D, the elements (C order) that it holds, of `width` bits each."""

    a: InWords
    b: InWords
    c: InWords
    d: Array
    width: int
    #: The metadata of a sparse A.
    pruned: Pruned | None = None
    #: Separate products, each with its own A, B, C and D, one after the other.
    products: int = 1


def stretched(dense: Any) -> Plan:
    """The plan for a sparse A that comes with all its elements, those that it does not store as words of ones."""
    made: Plan = dense.stretched()
    return made


def among(every: Any, indices: Sequence[Array]) -> Plan:
    """The plan for scales that come among the bytes (tiles, bytes) of two arrays, at indices (m, s) and (s, n)."""
    made: Plan = every.among(indices)
    return made


def plan(operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    """The plan for tiles of a shape (m, n, k), where k counts what A stores; None if the kernels have none."""
    return _plan(operation.model, operation, shape, operands)


@singledispatch
def _plan(model: Model, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    return None


def _matrices(operation: Operation, operands: Operands) -> dict[str, Elements]:
    """A, B and C as the kernels take them."""
    from tcemu.kernels.batch.gather import Elements

    forms = operation.formats
    return {
        role: Elements(one.word, one.bit, forms[role].code_mask, forms[role].sign_bit if one.negate else 0)
        for role, one in zip("abc", operands[:3], strict=True)
    }


def _tiles(operation: Operation, shape: tuple[int, int, int], operands: Operands, **more: Any) -> BatchPlan:
    from tcemu.kernels.batch.gather import Results
    from tcemu.kernels.batch.plan import BatchPlan

    fields: dict[str, Any] = {"d": Results(operands.d, operands.width), "pruned": operands.pruned}
    fields |= {"products": operands.products} | _matrices(operation, operands)
    return BatchPlan(shape, **fields | more)


@_plan.register
def _(model: FusedSums, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    return None if operation.keeps_addend else _fused(model, operation, shape, operands)


def _fused(
    model: FusedSums, operation: Operation, shape: tuple[int, int, int], operands: Operands, *, scaled: bool = False
) -> BatchPlan:
    from tcemu.kernels.batch.load import FLOAT16, FLOAT32, UNCHANGED
    from tcemu.kernels.batch.plan import Rule

    result = lookup(model.via or operation.d)
    half = result.name == "f16"
    rule = Rule(
        fraction=model.fraction,
        floor=Rule().floor if model.floor is None else model.floor,
        keep=result.mantissa if model.keep is None else model.keep,
        half=half,
        join=model.addend == "last",
        addends=FLOAT16 if operation.c == "f16" else UNCHANGED,
        # Chains in float32 leave results as they should be; those in float16 may leave -0.
        results=FLOAT16 if operation.d == "f16" else FLOAT32 if half else UNCHANGED,
        scaled=scaled,
    )
    sums = tuple(tuple(ks) for ks in model.sums(shape[2]))
    return _tiles(operation, shape, operands, rule=rule, formats=_formats(operation), sums=sums)


def _formats(operation: Operation) -> tuple[list[int], list[int]]:
    left, right = normalised(operation)
    return [*numbers(operation.formats["a"]), left], [*numbers(operation.formats["b"]), right]


@_plan.register
def _(model: IntegerDot, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    from tcemu.kernels.sums import INTEGERS

    return _whole(operation, shape, operands, INTEGERS, "satfinite" in dict(operation.qualifiers))


@_plan.register
def _(model: BitDot, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    from tcemu.kernels.batch.gather import Elements
    from tcemu.kernels.sums import BITS

    every = {role: Elements(one.word, one.bit, -1) for role, one in zip("ab", operands[:2], strict=True)}
    return _whole(operation, shape, operands, BITS, dict(operation.qualifiers)["op"] == "xor", **every)


def _whole(
    operation: Operation, shape: tuple[int, int, int], operands: Operands, kind: int, option: bool, **more: Any
) -> BatchPlan:
    """The plan for exact integer sums: all of k is one."""
    from tcemu.kernels.batch.plan import Rule

    signs = [[operation.formats[role].sign_bit, *[0] * 6] for role in "ab"]
    rule = Rule(kind, option)
    return _tiles(operation, shape, operands, rule=rule, formats=signs, sums=(tuple(range(shape[2])),), **more)


@_plan.register
def _(model: FmaChain, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    from tcemu.kernels.f64 import Chains

    mode = MODES[dict(operation.qualifiers).get("rounding") or "rn"]
    a, b, c, d, *_ = operands
    return Chains(shape, mode, a.word, b.word, c.word, d.ravel())


@_plan.register
def _(model: FmaGroups, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    from tcemu.kernels.batch.load import FLOAT16, UNCHANGED
    from tcemu.kernels.batch.plan import Rule
    from tcemu.kernels.chains import FROM_PRODUCT, FROM_ZERO
    from tcemu.kernels.sums import CHAINS

    if model.added_to_c is None or not takes_groups(operation):
        return None
    half = operation.d == "f16"
    kind = FLOAT16 if half else UNCHANGED
    rule = Rule(CHAINS, FROM_ZERO if model.from_zero else FROM_PRODUCT, half=half, addends=kind, results=kind)
    sums = tuple(tuple(ks) for ks in model.added_to_c)
    return _tiles(operation, shape, operands, rule=rule, formats=_formats(operation), sums=sums)


def takes_groups(operation: Operation) -> bool:
    """Whether the kernels of `FmaGroups` take these types: f16 factors, and C and D both f16 or both f32."""
    return operation.a == operation.b == "f16" and operation.c == operation.d and operation.d in ("f16", "f32")


@_plan.register
def _(model: ScaledSums, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan | None:
    form, depth = operation.formats["scale"], shape[2]
    if model.group == 1 and not form.mantissa:
        sums = FusedSums(model.fraction, model.block, model.floor)
        unscaled = replace(operation, model=sums, scale="")
        return _WithScales(_fused(sums, unscaled, shape, operands, scaled=True), _powers(form), 1)
    if depth != (model.block or depth) or not _fits(operation, model):
        return None
    return _groups(model, operation, shape, operands)


def _fits(operation: Operation, model: ScaledSums) -> bool:
    """Whether a group's sum, times the significands of two scales, is exact in the kernels, and never infinite or NaN.

    `tcemu.kernels.sums.scaled` says why.
    """
    from tcemu.kernels.sums.scaled import EXACT, SIGNIFICAND

    forms = [operation.formats["a"], operation.formats["b"]]
    bits = sum(form.emax - form.emin + form.mantissa + 1 for form in forms) + (model.group - 1).bit_length()
    scale = operation.formats["scale"].mantissa + 1
    finite = not any(form.has_nan or form.infinities for form in forms)
    return finite and bits + 2 * scale <= EXACT and scale <= SIGNIFICAND


def _groups(model: ScaledSums, operation: Operation, shape: tuple[int, int, int], operands: Operands) -> Plan:
    from tcemu.kernels.batch.plan import Rule
    from tcemu.kernels.sums import GROUPED

    form, ks = operation.formats["scale"], range(shape[2])
    floor = Rule().floor if model.floor is None else model.floor
    rule = Rule(GROUPED, 2 * form.mantissa, model.fraction, floor)
    groups = tuple(tuple(ks[start : start + model.group]) for start in ks[:: model.group])
    tiles = _tiles(operation, shape, operands, rule=rule, formats=_formats(operation), sums=groups)
    return _WithScales(tiles, _scales(form), len(groups))


class _WithScales:
    """A plan whose scales are patterns (tiles, m, s) of A and (tiles, s, n) of B."""

    def __init__(self, tiles: BatchPlan, table: Array, groups: int) -> None:
        self.tiles, self._table, self._groups = tiles, table, groups
        self._of = cache(lambda count: self._looking_up(*self._order_of(count)))

    def __call__(self, a: Array, b: Array, c: Array, *, scales: tuple[Array, Array], **more: Any) -> Array | None:
        flat = tuple(np.ascontiguousarray(each).reshape(len(each), -1) for each in scales)
        return self._of(scales[0].shape[2])(a, b, c, scales=flat, **more)

    def among(self, indices: Sequence[Array]) -> Plan:
        """The plan for scales among the bytes (tiles, bytes) of two arrays, at indices (m, s) and (s, n)."""
        orders = self._order_of(indices[0].shape[1])
        return self._looking_up(*(each.ravel()[order] for each, order in zip(indices, orders, strict=True)))

    def _looking_up(self, order_a: Array, order_b: Array) -> Plan:
        """The plan that takes these scales, one after the other, of two arrays (tiles, scales)."""
        from tcemu.kernels.sums.scaled import looked_up

        tiles, table = self.tiles, self._table

        def made(a: Array, b: Array, c: Array, *, scales: tuple[Array, Array], **more: Any) -> Array | None:
            of_a, of_b = looked_up(scales[0], order_a, table), looked_up(scales[1], order_b, table)
            return tiles(a, b, c, scales=(of_a, of_b), **more)

        return made

    def _order_of(self, count: int) -> tuple[Array, Array]:
        """The scales of A and of B (numbers in C order) that the blocks take, one after the other."""
        tiles, used = self.tiles, np.arange(self._groups, dtype=np.int64) * count // self._groups
        lanes, rows = tiles.lanes[:, None], tiles.rows[:, None]
        of_a, of_b = (rows, lanes) if tiles.along_n else (lanes, rows)
        return (of_a * count + used[:, None]).ravel(), (used[:, None] * tiles.shape[1] + of_b).ravel()

    def stretched(self) -> _WithScales:
        """The same plan for an A with all its elements, the pruned ones marked."""
        return _WithScales(self.tiles.stretched(), self._table, self._groups)


def _scales(form: Format) -> Array:
    """Every scale as `tcemu.kernels.sums.scaled` takes it."""
    from tcemu.kernels.sums import SCALE_NAN
    from tcemu.kernels.sums.scaled import SIGNIFICAND

    scales = [unpack(form, pattern) for pattern in range(1 << form.container)]
    words = [
        SCALE_NAN << SIGNIFICAND if one.kind == "nan" else (one.exponent << SIGNIFICAND) + one.significand
        for one in scales
    ]
    return np.array(words, np.int32)


def _powers(form: Format) -> Array:
    """The exponent of every scale that is a power of two."""
    from tcemu.kernels.sums.scaled import SIGNIFICAND

    return _scales(form) >> SIGNIFICAND
