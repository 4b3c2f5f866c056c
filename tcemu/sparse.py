"""Sparse matrices for mma.sp (PTX ISA 9.1, 9.7.14.6): prune, compress and decompress them.

    opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    dense = sparse.prune(matrix, opcode)                        # two of every four elements stay
    values, metadata = sparse.compress(dense, opcode)           # (16, 16) and (32,)
    d = tcemu.run(opcode, fragments["a"].pack(values), b, c, metadata, 0)

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
from tcemu.errors import IllegalInstruction, OperandError, did_you_mean, listing, shown
from tcemu.formats import Format
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, parse
from tcemu.instructions.mma_sp import metadata_registers, pattern_of, selector, stored_places
from tcemu.instructions.sparsity import SPARSITY, Sparsity

Array = npt.NDArray[Any]

__all__ = ["compress", "decompress", "prune", "tiles"]

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
    found, pattern = _sparse(instruction)
    chosen = selector(found, chosen)
    form, (m, _, k) = found.types["a"], found.shape
    given, patterns = _patterns(form, dense, f"the dense A of {found}")
    if patterns.shape[-2:] != (m, k):
        raise OperandError(
            f"{found}: compress takes matrices (..., {m}, {k}); got shape {patterns.shape}. `tiles` divides a larger "
            "matrix into tiles of that shape."
        )
    unit, units = _units(pattern)
    groups = patterns.reshape(*patterns.shape[:-1], k // pattern.chunk, units, unit)
    busy = np.asarray(_not_zero(form, groups).any(axis=-1))
    _check_room(found, pattern, busy)

    # store nonzero units first, then zeros with a sign, then the lowest; in ascending order
    rank = np.where(busy, 0, np.where((groups & form.storage.type(form.code_mask)).any(axis=-1), 1, 2))
    kept = np.sort(np.argsort(rank, axis=-1, kind="stable")[..., : units // 2], axis=-1)
    values = np.take_along_axis(groups, kept[..., None], axis=-2).reshape(*patterns.shape[:-1], k // 2)

    fragment = found.fragments["e"]
    codes = np.zeros((values.size // (m * k // 2), *fragment.shape), np.uint8)
    codes[:, chosen] = _codes(pattern, kept).reshape(-1, *fragment.shape[1:])
    registers = fragment.write(codes.reshape(len(codes), prod(fragment.shape)))
    return _as_given(form, given, values), registers.reshape(*patterns.shape[:-2], fragment.lanes)


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
    found, _ = _sparse(instruction)
    chosen = selector(found, chosen)
    form, (m, _, k) = found.types["a"], found.shape
    given, patterns = _patterns(form, values, f"the stored values of {found}")
    if patterns.shape[-2:] != (m, k // 2):
        raise OperandError(f"{found}: decompress takes stored values (..., {m}, {k // 2}); got shape {patterns.shape}")
    held = metadata_registers(found, metadata)
    try:
        lead = np.broadcast_shapes(patterns.shape[:-2], held.shape[:-1])
    except ValueError:
        raise OperandError(
            f"{found}: the leading axes do not broadcast: values {patterns.shape[:-2]}, metadata {held.shape[:-1]}"
        ) from None
    places = stored_places(found, held.reshape(-1, held.shape[-1]), chosen).reshape(*held.shape[:-1], m, k // 2)
    dense = np.zeros((*lead, m, k), form.storage)
    places, patterns = (np.broadcast_to(array, (*lead, m, k // 2)) for array in (places, patterns))
    np.put_along_axis(dense, places, patterns, axis=-1)
    return _as_given(form, given, dense)


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
        found, pattern = _sparse(instruction)
        form = found.types["a"]
        given, patterns = _patterns(form, dense, f"the dense A of {found}")
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
    return result if form is None else _as_given(form, given, result)


@explained
def tiles(matrix: npt.ArrayLike, instruction: str | Instruction) -> Array:
    """A matrix (..., M, K) divided into the instruction's tiles of A, (..., M / 16, K / k, 16, k).

    Raises OperandError unless M and K are multiples of the tile.

    >>> opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    >>> tcemu.sparse.tiles(np.ones((64, 128), np.float16), opcode).shape  # 4 by 4 tiles of 16 by 32
    (4, 4, 16, 32)
    """
    found, _ = _sparse(instruction)
    array, (m, _, k) = as_array(matrix, _MATRIX), found.shape
    if array.ndim < 2 or array.shape[-2] % m or array.shape[-1] % k:
        raise OperandError(
            f"{found}: the number of rows must be a multiple of {m}, that of columns of {k}; got shape {array.shape}"
        )
    cut = array.reshape(*array.shape[:-2], array.shape[-2] // m, m, array.shape[-1] // k, k)
    return np.ascontiguousarray(cut.swapaxes(-3, -2))


# ---------------------------------------------------------------------------------------------- what they share


def _sparse(instruction: str | Instruction) -> tuple[Instruction, Sparsity]:
    found = parse(instruction)
    if "e" not in found.fragments:
        raise IllegalInstruction(
            f"{found} has no sparse operand; mma.sp and mma.sp::ordered_metadata have one (PTX ISA 9.7.14.6)"
        )
    return found, pattern_of(found)


def _units(pattern: Sparsity) -> tuple[int, int]:
    """Elements that are stored or dropped together, and how many such units a chunk has: 1 and 4, 1 and 2, 2 and 4."""
    unit = 2 if pattern.chunk == 8 else 1
    return unit, pattern.chunk // unit


def _codes(pattern: Sparsity, kept: Array) -> Array:
    """Four bits for each chunk, from the units (..., stored) that are kept."""
    unit, units = _units(pattern)
    table = np.zeros(1 << units, np.uint8)
    for code, places in pattern.places.items():
        if list(places) == sorted(places):
            table[sum(1 << unit_kept for unit_kept in {place // unit for place in places})] = code
    return np.asarray(table[(1 << kept).sum(axis=-1)])


def _patterns(form: Format, matrix: npt.ArrayLike, what: str) -> tuple[Array, Array]:
    patterns = form.patterns(matrix, what)
    if patterns.ndim < 2:
        raise OperandError(f"{what} needs at least two axes, rows and columns; got shape {patterns.shape}")
    return np.asarray(matrix), np.ascontiguousarray(patterns)


def _as_given(form: Format, given: Array, patterns: Array) -> Array:
    """The patterns unchanged if patterns were given, otherwise in the format's dtype."""
    return patterns if form.kind == "float" and given.dtype == form.storage else form.matrix(patterns)


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
