"""Computes whole arrays of one operation: with the kernels if they are available, otherwise with the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import reference
from tcemu.arithmetic.model import BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.backend import backend, computed
from tcemu.formats import Format, lookup

if TYPE_CHECKING:
    from tcemu.kernels.tiles import Place, Results, Tiles

Array = npt.NDArray[Any]
#: Fills d (w, m, n) from a (w, m, k), b (w, k, n), c (w, m, n) and the places of a sparse A's elements, else empty.
Kernel = Callable[[Array, Array, Array, Array, Array], None]

#: Rounding words to the kernels' numbers.
MODES = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
_NAN_KINDS = {"none": 0, "ieee": 1, "all ones": 2}


@dataclass(frozen=True)
class Operation:
    """A model with everything it needs to compute: formats of a, b, c and d, products for an output, qualifiers.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> operation.depth, operation.formats["a"].name, operation.packed
    (16, 'f16', False)
    """

    model: Model
    a: str
    b: str
    c: str
    d: str
    depth: int
    #: Qualifiers of the instruction that change arithmetic, as (name, word): rounding, satfinite, op.
    qualifiers: tuple[tuple[str, str], ...] = ()
    #: Format of the scales, if there are any.
    scale: str = ""

    @cached_property
    def _hash(self) -> int:
        return hash((self.model, self.a, self.b, self.c, self.d, self.depth, self.qualifiers, self.scale))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def formats(self) -> dict[str, Format]:
        """The formats by role: a, b, c, d, and scale if there are scales."""
        return {role: lookup(getattr(self, role)) for role in ("a", "b", "c", "d", "scale") if getattr(self, role)}

    @property
    def keeps_addend(self) -> bool:
        """Whether C enters the sums as it is, with the exponents of another format than D's."""
        return isinstance(self.model, FusedSums) and not self.model.widen and self.c != self.d

    @property
    def packed(self) -> bool:
        """Whether A and B are taken as words of 32 elements along k, instead of one by one."""
        return isinstance(self.model, BitDot)


def compute(operation: Operation, a: Array, b: Array, c: Array, places: Array | None = None) -> Array:
    """Patterns d (w, m, n) of patterns a (w, m, k) times b (w, k, n) plus c (w, m, n); b1 comes in words.

    `places` (w, m, k) makes A sparse: its elements meet those rows of a B that has more than k rows.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> a, b = np.full((1, 16, 16), 0x3C00, np.uint16), np.full((1, 16, 8), 0x4000, np.uint16)  # patterns of 1 and 2
    >>> d = tcemu.arithmetic.compute(operation, a, b, np.zeros((1, 16, 8), np.uint32))
    >>> d.shape, d.view(np.float32)[0, 0, 0]
    ((1, 16, 8), np.float32(32.0))
    """
    d = np.empty(c.shape, operation.formats["d"].storage)
    products = d.size * operation.depth
    if backend(products) == "numba":
        _kernel(operation)(a, b, c, d, _for_kernels(places))
    else:
        _by_reference(operation, a, b, c, d, places)
        computed(products)
    return d


#: The places of a dense A: none.
_DENSE = np.empty((0, 0, 0), np.int16)


def _for_kernels(places: Array | None) -> Array:
    """Places in the one dtype that kernels are compiled for; those of a dense A are empty."""
    return _DENSE if places is None else places.astype(np.int16, copy=False)


def _met(b: Array, places: Array | None, w: int, m: int, n: int) -> list[int]:
    """The elements of a column of B that a row of A meets."""
    column = b[w, :, n] if places is None else b[w, places[w, m], n]
    found: list[int] = column.tolist()
    return found


def compute_scaled(
    operation: Operation, a: Array, b: Array, c: Array, scale_a: Array, scale_b: Array, places: Array | None = None
) -> Array:
    """Like compute, with scales (w, m, s) of A and (w, s, n) of B, each for an equal share of A's elements.

    >>> opcode = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    >>> operation = tcemu.parse(opcode).operation(tcemu.instructions.target_named("sm_120a"))
    >>> a, b = np.full((1, 16, 64), 2, np.uint8), np.full((1, 64, 8), 2, np.uint8)  # patterns of 1
    >>> two, one = np.full((1, 16, 2), 128, np.uint8), np.full((1, 2, 8), 127, np.uint8)  # scales of 2 and of 1
    >>> d = tcemu.arithmetic.compute_scaled(operation, a, b, np.zeros((1, 16, 8), np.uint32), two, one)
    >>> d.view(np.float32)[0, 0, 0]  # 64 products of 1 * 2 and 1
    np.float32(128.0)
    """
    d = np.empty(c.shape, operation.formats["d"].storage)
    products = d.size * operation.depth
    if backend(products) == "numba":
        _scaled_kernel(operation)(a, b, c, d, scale_a, scale_b, _for_kernels(places))
        return d
    model = operation.model
    for w, m, n in np.ndindex(d.shape):
        scales = scale_a[w, m].tolist(), scale_b[w, :, n].tolist()
        row, column = a[w, m].tolist(), _met(b, places, w, m, n)
        d[w, m, n] = reference.dot_scaled(_scaled(model), row, column, int(c[w, m, n]), scales, operation.formats)
    computed(products)
    return d


def _scaled(model: Model) -> ScaledSums:
    if not isinstance(model, ScaledSums):
        raise TypeError(model)
    return model


@cache
def _scaled_kernel(operation: Operation) -> Callable[..., None]:
    from tcemu.kernels.scaled import chain_scaled

    model, forms = _scaled(operation.model), operation.formats
    tables = tuple(numbers(forms[role]) for role in ("a", "b", "d", "scale"))
    floor = model.floor if model.floor is not None else -(1 << 19)
    nan, keep = reference.CANONICAL_NAN[operation.d], forms["d"].mantissa
    block = model.block or operation.depth

    zero, rules = forms["scale"].zero, (model.group, block, model.fraction, floor, keep, nan)

    def run(a: Array, b: Array, c: Array, d: Array, scale_a: Array, scale_b: Array, places: Array) -> None:
        chain_scaled(a, b, c, d, scale_a, scale_b, *tables, zero, *rules, places)

    return run


def _by_reference(operation: Operation, a: Array, b: Array, c: Array, d: Array, places: Array | None) -> None:
    qualifiers = dict(operation.qualifiers)
    for w, m, n in np.ndindex(d.shape):
        row, column = a[w, m].tolist(), _met(b, places, w, m, n)
        d[w, m, n] = reference.dot(operation.model, row, column, int(c[w, m, n]), operation.formats, qualifiers)


@cache
def _kernel(operation: Operation) -> Kernel:
    return _build(operation.model, operation)


@singledispatch
def _build(model: Model, operation: Operation) -> Kernel:
    raise TypeError(model)


def numbers(form: Format) -> npt.NDArray[np.int64]:
    """A float format as the six numbers that the kernels take."""
    fields = (form.exponent, form.mantissa, form.bias, form.padding, form.infinities, _NAN_KINDS[form.nan])
    return np.array(fields, dtype=np.int64)


@cache
def conversion(source: str, target: str) -> Array:
    """Every pattern of a small format as the pattern of a wider one, by the codec: an exact table."""
    values = lookup(source).decode(np.arange(1 << lookup(source).container))
    return lookup(target).encode(values)


@_build.register
def _(model: FusedSums, operation: Operation) -> Kernel:
    if operation.keeps_addend:
        return _with_own_exponents(model, operation)

    def run(a: Array, b: Array, c: Array, d: Array, places: Array) -> None:
        shape, sparse = (*c.shape[1:], a.shape[2]), bool(places.size)
        words = [in_words(x) for x in (a, b, c)]
        plan = _patterns_plan(operation, shape, sparse, tuple(size for _, size in words))
        found = plan(words[0][0], words[1][0], words[2][0], places if sparse else None)
        per = 32 // plan.d.width
        d[...] = (found.view(d.dtype) if per > 1 or d.dtype.itemsize == 4 else found).reshape(d.shape)

    return run


def _with_own_exponents(model: FusedSums, operation: Operation) -> Kernel:
    """The sums of a chip that does not widen C: a subnormal C keeps the exponent that its own format gives it."""
    from tcemu.kernels.fused import chain

    through = {role: lookup(model.through or getattr(operation, role)) for role in "ab"}
    result = lookup(model.via) if model.via else operation.formats["d"]
    order = np.array([k for ks in model.sums(operation.depth) for k in ks], dtype=np.int64)
    tables = tuple(numbers(form) for form in (through["a"], through["b"], operation.formats["c"], result))
    floor = model.floor if model.floor is not None else -(1 << 19)
    keep = model.keep if model.keep is not None else result.mantissa
    nearest, first = reference.ROUNDING[result.name] == "rn", model.addend == "first"
    block, nan = len(model.sums(operation.depth)[0]), reference.CANONICAL_NAN[result.name]

    def run(a: Array, b: Array, c: Array, d: Array, places: Array) -> None:
        if model.through is not None:
            a, b = conversion(operation.a, model.through)[a], conversion(operation.b, model.through)[b]
        sums = d if model.via is None else np.empty(d.shape, result.storage)
        chain(a, b, c, sums, *tables, order, block, model.fraction, floor, keep, nearest, first, nan, places)
        if model.via is not None:
            d[...] = narrow(sums)

    return run


def in_words(patterns: Array) -> tuple[Array, int]:
    """Matrices (w, rows, columns) as uint32 words (w, words), and the bits that an element takes there."""
    flat = np.ascontiguousarray(patterns).reshape(len(patterns), -1)
    size = flat.dtype.itemsize
    if flat.shape[1] * size % 4:
        return flat.astype(np.uint32), 32
    return flat.view(np.uint32), 8 * size


@lru_cache(maxsize=256)
def _patterns_plan(operation: Operation, shape: tuple[int, int, int], sparse: bool, widths: tuple[int, ...]) -> Tiles:
    """How the kernels compute an operation on matrices of patterns in C order; `widths` are their bits."""
    from tcemu.kernels.tiles import Place, Results

    m, n, k = shape
    counts = m * k, k * n * (1 + sparse), m * n
    places = []
    for role, count, width in zip("abc", counts, widths, strict=True):
        numbers, form = np.arange(count) * width, operation.formats[role]
        places.append(Place(numbers // 32, numbers % 32, form.code_mask))
    per = 1 if m * n * operation.formats["d"].storage.itemsize % 4 else 4 // operation.formats["d"].storage.itemsize
    return tiles_of(operation, shape, sparse, places, Results(np.arange(m * n).reshape(-1, per), 32 // per))


def tiles_of(
    operation: Operation, shape: tuple[int, int, int], sparse: bool, places: Sequence[Place], results: Results
) -> Tiles:
    """How the kernels compute fused sums on tiles of a shape, k counting what A stores."""
    from tcemu.kernels.tiles import Tiles

    model = operation.model
    if not isinstance(model, FusedSums):
        raise TypeError(model)
    result = lookup(model.via or operation.d)
    return Tiles(
        shape,
        (numbers(operation.formats["a"]), numbers(operation.formats["b"])),
        normalised(operation),
        tuple(tuple(ks) for ks in model.sums(shape[2])),
        model.fraction,
        model.floor,
        model.keep if model.keep is not None else result.mantissa,
        join=model.addend == "last",
        half=result.name == "f16",
        half_c=operation.c == "f16",
        half_d=operation.d == "f16",
        sparse=sparse,
        a=places[0],
        b=places[1],
        c=places[2],
        d=results,
    )


def normalised(operation: Operation) -> tuple[bool, bool]:
    """Whether the subnormals of A, and of B, become normal numbers of the format to which they are converted first."""
    through = getattr(operation.model, "through", None)
    if through is None:
        return False, False
    return lookup(through).emin < operation.formats["a"].emin, lookup(through).emin < operation.formats["b"].emin


def narrow(patterns: Array) -> Array:
    """f32 patterns as f16 patterns, to nearest even; NaN is the canonical one."""
    values = patterns.view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        halves = values.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), np.uint16(reference.CANONICAL_NAN["f16"]), halves)


@_build.register
def _(model: FmaGroups, operation: Operation) -> Kernel:
    from tcemu.kernels.groups import add_groups

    tables = tuple(numbers(lookup(name)) for name in (operation.a, operation.b, operation.c, operation.d, "f32"))
    group = np.array([next(g for g, ks in enumerate(model.groups) if k in ks) for k in range(operation.depth)])
    order, nan = np.array(model.order), reference.CANONICAL_NAN[operation.d]
    return lambda a, b, c, d, _: add_groups(a, b, c, d, *tables, group, order, model.from_zero, nan)


@_build.register
def _(model: FmaChain, operation: Operation) -> Kernel:
    from tcemu.kernels.matmul_plain import chains64

    mode = MODES[dict(operation.qualifiers).get("rounding") or "rn"]

    def run(a: Array, b: Array, c: Array, d: Array, places: Array) -> None:
        d[...] = c
        chains64(np.ascontiguousarray(a), np.ascontiguousarray(b), d, mode)

    return run


@_build.register
def _(model: IntegerDot, operation: Operation) -> Kernel:
    from tcemu.kernels.integer import dot, dot_sparse

    signs = operation.formats["a"].sign_bit, operation.formats["b"].sign_bit
    saturate = "satfinite" in dict(operation.qualifiers)

    def run(a: Array, b: Array, c: Array, d: Array, places: Array) -> None:
        if not places.size:
            dot(a, b, c, d, *signs, saturate)
        else:
            dot_sparse(a, b, c, d, *signs, saturate, places)

    return run


@_build.register
def _(model: BitDot, operation: Operation) -> Kernel:
    from tcemu.kernels.integer import popc

    exclusive = dict(operation.qualifiers)["op"] == "xor"
    return lambda a, b, c, d, _: popc(a, b, c, d, exclusive)
