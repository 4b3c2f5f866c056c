"""Sparse matrices for mma.sp (PTX ISA 9.1, 9.7.14.6): prune, compress and decompress them.

    opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    dense = sparse.prune(matrix, opcode)                        # two of every four elements stay
    values, metadata = sparse.compress(dense, opcode)           # (16, 16) and (32,)
    d = tcemu.run(opcode, fragments["a"].pack(values), b, c, metadata, 0)
    torchs = sparse.to_cutlass(registers, opcode)               # of all tiles of a matrix, (M / 16, K / 32, 32)

A row is divided into chunks: two of four elements are stored (2:4: f16, bf16, s8, fp8), one of two (1:2: tf32), or two
of four pairs (4:8 by pairs: s4, e2m1). The metadata says which ones, in four bits for each chunk. The places that it
names are always ascending, so that mma.sp and mma.sp::ordered_metadata both accept it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import IllegalInstruction, OperandError, did_you_mean, listing, shown, whole
from tcemu.formats import Format
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, parse
from tcemu.instructions.mma_sp import k_of_stored, metadata_registers, pattern_of, selector
from tcemu.instructions.sparsity import SPARSITY, Sparsity
from tcemu.layouts import metadata_orders as orders

Array = npt.NDArray[Any]

__all__ = ["compress", "decompress", "from_cutlass", "prune", "tiles", "to_cutlass"]

_MATRIX = "the matrix to prune or tile: not an array"
#: The patterns of sparsity by the names that `prune` takes.
_NAMED = {kind: sparsity for (kind, order), sparsity in SPARSITY.items() if order == "sp::ordered_metadata"}


@explained
def compress(dense: npt.ArrayLike, instruction: str | Instruction, chosen: int = 0) -> tuple[Array, Array]:
    """Stored values (..., 16, K / 2) and metadata registers (..., 32) of matrices (..., 16, K) for `instruction`.

    The matrices have the dtype of the instruction's A, or hold its patterns as unsigned integers; the values have the
    same dtype. `chosen` is the selector that the instruction will get: the metadata is in the lanes that it selects,
    and all others are 0, so that the registers of tiles with different selectors can be combined with `|`.

    Zeros of either sign may be dropped; a zero is stored, with its sign, if its chunk has room. A chunk with fewer
    nonzero elements than can be stored also stores zeros, the lowest places first. Raises OperandError, which names row
    and columns, for a chunk with too many nonzero elements: use `prune` first.

    >>> opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    >>> dense = tcemu.sparse.prune(np.random.default_rng(0).normal(size=(16, 32)).astype(np.float16), opcode)
    >>> values, metadata = tcemu.sparse.compress(dense, opcode)
    >>> values.shape, values.dtype, metadata.shape, metadata.dtype
    ((16, 16), dtype('float16'), (32,), dtype('uint32'))
    """
    parsed, pattern = _sparse(instruction)
    chosen = selector(parsed, chosen)
    form, (m, _, k) = parsed.types["a"], parsed.shape
    array, patterns = _patterns(form, dense, f"the dense A of {parsed}")
    if patterns.shape[-2:] != (m, k):
        raise OperandError(
            f"{parsed}: compress takes matrices (..., {m}, {k}); got shape {patterns.shape}. `tiles` divides a larger "
            "matrix into tiles of that shape."
        )
    unit, units = _units(pattern)
    groups = patterns.reshape(*patterns.shape[:-1], k // pattern.chunk, units, unit)
    busy = np.asarray(_not_zero(form, groups).any(axis=-1))
    _check_room(parsed, pattern, busy)

    # store nonzero units first, then zeros with a sign, then the lowest; in ascending order
    rank = np.where(busy, 0, np.where((groups & form.storage.type(form.code_mask)).any(axis=-1), 1, 2))
    kept = np.sort(np.argsort(rank, axis=-1, kind="stable")[..., : units // 2], axis=-1)
    values = np.take_along_axis(groups, kept[..., None], axis=-2).reshape(*patterns.shape[:-1], k // 2)

    fragment = parsed.fragments["e"]
    codes = np.zeros((values.size // (m * k // 2), *fragment.shape), np.uint8)
    codes[:, chosen] = _codes(pattern, kept).reshape(-1, *fragment.shape[1:])
    registers = fragment.write(codes.reshape(len(codes), prod(fragment.shape)))
    return _as_given(form, array, values), registers.reshape(*patterns.shape[:-2], fragment.lanes)


@explained
def decompress(
    values: npt.ArrayLike, metadata: npt.ArrayLike, instruction: str | Instruction, chosen: int = 0
) -> Array:
    """The dense matrices (..., 16, K) of stored values (..., 16, K / 2) and metadata registers (..., 32).

    Elements that are not stored are +0. Leading axes broadcast. Raises OperandError, which names lane and bits, for
    metadata that the instruction does not accept.

    >>> opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    >>> dense = tcemu.sparse.prune(np.ones((16, 32), np.float16), opcode)
    >>> values, metadata = tcemu.sparse.compress(dense, opcode)
    >>> np.array_equal(tcemu.sparse.decompress(values, metadata, opcode), dense)
    True
    """
    parsed, _ = _sparse(instruction)
    chosen = selector(parsed, chosen)
    form, (m, _, k) = parsed.types["a"], parsed.shape
    stored, patterns = _patterns(form, values, f"the stored values of {parsed}")
    if patterns.shape[-2:] != (m, k // 2):
        raise OperandError(f"{parsed}: decompress takes stored values (..., {m}, {k // 2}); got shape {patterns.shape}")
    held = metadata_registers(parsed, metadata)
    try:
        lead = np.broadcast_shapes(patterns.shape[:-2], held.shape[:-1])
    except ValueError:
        raise OperandError(
            f"{parsed}: the leading axes do not broadcast: values {patterns.shape[:-2]}, metadata {held.shape[:-1]}"
        ) from None
    places = k_of_stored(parsed, held.reshape(-1, held.shape[-1]), chosen).reshape(*held.shape[:-1], m, k // 2)
    dense = np.zeros((*lead, m, k), form.storage)
    places, patterns = (np.broadcast_to(array, (*lead, m, k // 2)) for array in (places, patterns))
    np.put_along_axis(dense, places, patterns, axis=-1)
    return _as_given(form, stored, dense)


@explained
def prune(dense: npt.ArrayLike, instruction: str | Instruction) -> Array:
    """`dense` (..., K) with the smaller half of each chunk replaced by 0, so that `compress` can store it.

    `instruction` is a sparse one or, for an array of any numbers, the name of a pattern: "2:4", "1:2", "4:8" (by
    pairs). The elements (or pairs, by their sum) of largest magnitude stay; of equal ones the first. A NaN counts as
    larger than any number. Raises OperandError for an unknown pattern, or if K is not a multiple of the chunk.

    >>> tcemu.sparse.prune([3.0, -1.0, 0.5, -4.0], "2:4")  # the two of largest magnitude stay
    array([ 3.,  0.,  0., -4.])
    """
    if isinstance(instruction, str) and instruction in _NAMED:
        pattern, form = _NAMED[instruction], None
        result = _numbers(dense)
        magnitude = np.abs(result.astype(np.float64))
    else:
        if isinstance(instruction, str) and "." not in instruction:
            raise OperandError(
                f"no sparsity pattern is called {shown(instruction)}.{did_you_mean(instruction, _NAMED)} "
                f"The patterns are {listing(_NAMED, 'and')}; an opcode of mma.sp implies its own."
            )
        parsed, pattern = _sparse(instruction)
        form = parsed.types["a"]
        array, patterns = _patterns(form, dense, f"the dense A of {parsed}")
        result, magnitude = patterns.copy(), np.abs(form.decode(patterns).astype(np.float64))
    if not result.ndim or result.shape[-1] % pattern.chunk:
        raise OperandError(
            f"{pattern.name} sparsity divides rows into chunks of {pattern.chunk}; got shape {result.shape}, whose "
            f"last axis is not a multiple of {pattern.chunk}"
        )
    unit, units = _units(pattern)
    shape = (*result.shape[:-1], result.shape[-1] // pattern.chunk, units, unit)
    with np.errstate(over="ignore"):
        weight = magnitude.reshape(shape).sum(axis=-1)
    # sorting puts NaN last; the order is reversed so that the first of equals stays
    gone = units - 1 - np.argsort(weight[..., ::-1], axis=-1, kind="stable")[..., : units // 2]
    stays = np.ones(shape[:-1], bool)
    np.put_along_axis(stays, gone, values=False, axis=-1)
    result.reshape(shape)[~stays] = np.zeros((), result.dtype)
    return result if form is None else _as_given(form, array, result)


@explained
def tiles(matrix: npt.ArrayLike, instruction: str | Instruction) -> Array:
    """A matrix (..., M, K) divided into the instruction's tiles of A, (..., M / 16, K / k, 16, k).

    Raises OperandError unless M and K are multiples of the tile.

    >>> opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    >>> tcemu.sparse.tiles(np.ones((64, 128), np.float16), opcode).shape  # 4 by 4 tiles of 16 by 32
    (4, 4, 16, 32)
    """
    parsed, _ = _sparse(instruction)
    array, (m, _, k) = as_array(matrix, _MATRIX), parsed.shape
    if array.ndim < 2 or array.shape[-2] % m or array.shape[-1] % k:
        raise OperandError(
            f"{parsed}: the number of rows must be a multiple of {m}, that of columns of {k}; got shape {array.shape}"
        )
    cut = array.reshape(*array.shape[:-2], array.shape[-2] // m, m, array.shape[-1] // k, k)
    return np.ascontiguousarray(cut.swapaxes(-3, -2))


@explained
def to_cutlass(
    metadata: npt.ArrayLike,
    instruction: str | Instruction,
    chosen: int = 0,
    *,
    order: str = "sm80",
    tile_k: int = 128,
) -> Array:
    """The metadata of a whole A in the order of CUTLASS and torch, from registers (M / m, K / k, lanes) of its tiles.

    The registers are those of `compress` for all `tiles` of the matrix, with the same selector. `order` "sm80" gives
    integers (M, columns) as CUTLASS 2 and torch's SparseSemiStructuredTensor have them (torch's dtype is the signed
    one); M must be a multiple of 32, or of 16 for elements of 8 or 4 bits, and the number of columns even. "sm90" gives
    the bytes of CUTLASS 3's sparse kernels for wgmma, whose tiles have `tile_k` columns (CUTLASS takes at most 128); M
    must be a multiple of 64 and K of `tile_k`. Raises OperandError for other shapes.

    >>> opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    >>> A = tcemu.sparse.prune(np.random.default_rng(0).normal(size=(64, 128)).astype(np.float16), opcode)
    >>> values, metadata = tcemu.sparse.compress(tcemu.sparse.tiles(A, opcode), opcode)
    >>> torchs = tcemu.sparse.to_cutlass(metadata, opcode)
    >>> metadata.shape, torchs.shape, torchs.dtype
    ((4, 4, 32), (64, 8), dtype('uint16'))
    >>> np.array_equal(tcemu.sparse.from_cutlass(torchs, opcode), metadata)
    True
    """
    parsed, _ = _sparse(instruction)
    chosen = selector(parsed, chosen)
    fragment, held = parsed.fragments["e"], as_array(metadata, "the metadata must be an array of registers")
    if held.ndim != 3 or held.shape[-1] != fragment.lanes:
        raise OperandError(
            f"{parsed}: to_cutlass takes the registers of all tiles, (M / {parsed.shape.m}, K / {parsed.shape.k}, "
            f"{fragment.lanes}); got shape {held.shape}"
        )
    flat = metadata_registers(parsed, held).reshape(-1, fragment.lanes)
    codes = fragment.read(flat).reshape(*held.shape[:2], *fragment.shape)[:, :, chosen]
    rows = codes.swapaxes(1, 2).reshape(held.shape[0] * fragment.shape[-2], -1)
    return _Order(parsed, order, tile_k).write(np.ascontiguousarray(rows))


@explained
def from_cutlass(
    metadata: npt.ArrayLike,
    instruction: str | Instruction,
    chosen: int = 0,
    *,
    shape: tuple[int, int] | None = None,
    order: str = "sm80",
    tile_k: int = 128,
) -> Array:
    """The registers (M / m, K / k, lanes) for `instruction` of metadata in the order of CUTLASS and torch.

    The inverse of `to_cutlass`. In the order "sm80" the integers (M, columns) say how large A is; for "sm90", `shape`
    is (M, K). Bits of lanes that the selector does not choose are 0.

    >>> opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    >>> first_two = np.full((32, 4), 0x4444, np.int16)  # elements 0 and 1 of each four
    >>> registers = tcemu.sparse.from_cutlass(first_two, opcode)
    >>> registers.shape, hex(registers[0, 0, 0])
    ((2, 2, 32), '0x44444444')
    """
    parsed, pattern = _sparse(instruction)
    chosen = selector(parsed, chosen)
    codes = _Order(parsed, order, tile_k).read(as_array(metadata, "the metadata must be an array of integers"), shape)
    fragment, (m, k) = parsed.fragments["e"], (parsed.shape.m, parsed.shape.k // pattern.chunk)
    if codes.shape[0] % m or codes.shape[1] % k:
        raise OperandError(
            f"{parsed}: A must have a multiple of {m} rows and of {parsed.shape.k} columns; it has {codes.shape[0]} "
            f"and {codes.shape[1] * pattern.chunk}"
        )
    tiled = codes.reshape(codes.shape[0] // m, m, codes.shape[1] // k, k).swapaxes(1, 2)
    every = np.zeros((tiled.shape[0] * tiled.shape[1], *fragment.shape), np.uint8)
    every[:, chosen] = tiled.reshape(-1, m, k)
    return fragment.write(every.reshape(len(every), -1)).reshape(*tiled.shape[:2], fragment.lanes)


class _Order:
    """An order of CUTLASS for the A of an instruction."""

    def __init__(self, instruction: Instruction, order: str, tile_k: int) -> None:
        if order not in ("sm80", "sm90"):
            raise OperandError(
                f"order must be 'sm80' (CUTLASS 2, torch) or 'sm90' (CUTLASS 3, wgmma); got {shown(str(order))}"
            )
        self.name, self.chunk = order, pattern_of(instruction).chunk
        self.bits = instruction.types["a"].container if self.chunk < 8 else 4
        self.block = 512 // self.bits
        self.tile_k = whole(tile_k, "tile_k", OperandError)
        if order == "sm90" and (self.bits == 4 or self.tile_k < 1 or self.tile_k % self.block):
            raise OperandError(
                f"order 'sm90' is for elements of 8, 16 or 32 bits and a tile_k that is a multiple of {self.block}; "
                f"got {instruction.types['a'].name} and {self.tile_k}"
            )

    def write(self, codes: Array) -> Array:
        self.check(codes.shape[0], codes.shape[1] * self.chunk)
        if self.name == "sm80":
            return orders.to_sm80(codes, self.bits)
        return orders.to_sm90(codes, self.bits, self.tile_k // self.chunk)

    def read(self, metadata: Array, shape: tuple[int, int] | None) -> Array:
        if metadata.dtype.kind not in "iu":
            raise OperandError(f"the metadata must be integers; got dtype {metadata.dtype}")
        size = orders.width(self.bits) // 8 if self.name == "sm80" else 1
        if metadata.dtype.itemsize != size or (self.name == "sm80" and metadata.ndim != 2):
            what = f"(M, columns) of {8 * size} bits" if self.name == "sm80" else "bytes"
            raise OperandError(
                f"order {self.name!r} keeps the metadata of elements of {self.bits} bits in integers, {what}; got "
                f"dtype {metadata.dtype}, shape {metadata.shape}"
            )
        held = metadata.view(f"u{size}")
        if self.name == "sm80":
            self.check(held.shape[0], held.shape[1] * 2 * size * self.chunk)
            return orders.from_sm80(held, self.bits)
        if shape is None:
            raise OperandError("order 'sm90' needs shape=(M, K), which the bytes do not say")
        rows, columns = (whole(each, "a size of A", OperandError) for each in shape)
        self.check(rows, columns)
        if 2 * held.size * self.chunk != rows * columns:
            size = rows * columns // self.chunk // 2
            raise OperandError(f"the metadata of {rows} by {columns} elements has {size} bytes; got {held.size}")
        return orders.from_sm90(held, rows, columns // self.chunk, self.bits, self.tile_k // self.chunk)

    def check(self, rows: int, columns: int) -> None:
        """Raise OperandError unless the order can hold the metadata of an A of this size."""
        down, across = 64, self.tile_k
        if self.name == "sm80":
            down, across = orders.rows_of(self.bits), orders.width(self.bits) // 2 * self.chunk
        if rows < 1 or columns < 1 or rows % down or columns % across:
            raise OperandError(
                f"order {self.name!r} needs an A whose rows are a multiple of {down} and whose columns are one of "
                f"{across}; got {rows} by {columns}. Pad it with zeros"
            )


# ---------------------------------------------------------------------------------------------- what they share


def _sparse(instruction: str | Instruction) -> tuple[Instruction, Sparsity]:
    parsed = parse(instruction)
    if "e" not in parsed.fragments:
        raise IllegalInstruction(
            f"{parsed} has no sparse operand; mma.sp and mma.sp::ordered_metadata have one (PTX ISA 9.7.14.6)"
        )
    return parsed, pattern_of(parsed)


def _units(pattern: Sparsity) -> tuple[int, int]:
    """Elements that are stored or dropped together, and how many such units a chunk has: 1 and 4, 1 and 2, 2 and 4."""
    unit = 2 if pattern.chunk == 8 else 1
    return unit, pattern.chunk // unit


def _codes(pattern: Sparsity, kept: Array) -> Array:
    """Four bits for each chunk, from the units (..., stored) that are kept."""
    unit, units = _units(pattern)
    table = np.zeros(1 << units, np.uint8)
    for code, places in pattern.positions.items():
        if list(places) == sorted(places):
            table[sum(1 << unit_kept for unit_kept in {place // unit for place in places})] = code
    return np.asarray(table[(1 << kept).sum(axis=-1)])


def _patterns(form: Format, matrix: npt.ArrayLike, what: str) -> tuple[Array, Array]:
    patterns = form.patterns(matrix, what)
    if patterns.ndim < 2:
        raise OperandError(f"{what} needs at least two axes, rows and columns; got shape {patterns.shape}")
    return np.asarray(matrix), np.ascontiguousarray(patterns)


def _as_given(form: Format, array: Array, patterns: Array) -> Array:
    """The patterns unchanged if patterns were given, otherwise in the format's dtype."""
    return patterns if form.kind == "float" and array.dtype == form.storage else form.matrix(patterns)


def _numbers(matrix: npt.ArrayLike) -> Array:
    """A copy of an array of real numbers of any dtype."""
    array = as_array(matrix, _MATRIX)
    try:
        if array.dtype.kind not in "iufbV" or array.dtype.names is not None:
            raise TypeError(f"dtype {array.dtype}")
        array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise OperandError(f"only arrays of real numbers can be pruned by the name of a pattern; got {error}") from None
    return array.copy()


def _not_zero(form: Format, patterns: Array) -> Array:
    """Which elements must be stored: all but zeros of either sign."""
    mask = form.code_mask & ~form.sign_bit if form.kind == "float" else form.code_mask
    return np.asarray((patterns & form.storage.type(mask)) != 0)


def _check_room(instruction: Instruction, pattern: Sparsity, busy: Array) -> None:
    """Raise OperandError for the first chunk with too many nonzero elements."""
    unit, units = _units(pattern)
    crowded = busy.sum(axis=-1) > units // 2
    if not crowded.any():
        return
    *lead, row, chunk = (int(x) for x in np.argwhere(crowded)[0])
    count, first = int(busy[(*lead, row, chunk)].sum()), chunk * pattern.chunk
    where = f" of matrix {tuple(lead) if len(lead) > 1 else lead[0]}" if lead else ""
    what = "pairs" if unit == 2 else "elements"
    raise OperandError(
        f"{instruction}: row {row}{where}, chunk {chunk} (columns {first} to {first + pattern.chunk - 1}): {count} of "
        f"{units} {what} are not zero, but {pattern.name} sparsity stores only {units // 2}. `prune` keeps the largest "
        "(PTX ISA 9.7.14.6.1)"
    )
