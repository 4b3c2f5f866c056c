"""Tiles in shared memory: write a matrix where a descriptor says, and read it back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError, OperandError, briefly, listing, whole
from tcemu.formats import Format, lookup
from tcemu.formats.arrays import as_array
from tcemu.layouts.canonical import Canonical, Element, Major, element_bits
from tcemu.layouts.descriptor import Descriptor, as_bits, tile_addresses

Array = npt.NDArray[Any]

#: The formats that wgmma reads from shared memory; a matrix has the dtype of one of them.
_FORMATS = ("f16", "bf16", "tf32", "s8", "u8", "b1", "e4m3", "e5m2")


@explained
def copy_tile(
    matrix: npt.ArrayLike,
    shared: Array,
    descriptor: Descriptor | int,
    major: Major = "K",
    element: Format | str | None = None,
) -> None:
    """Write `matrix` (..., mn, k) into `shared`, uint8 (..., bytes), where `descriptor` says; other bytes stay.

    A matrix has the dtype of a format that wgmma reads (bool for b1), or unsigned patterns of 8, 16 or 32 bits; with
    `element` it is a matrix of that format. mn is a row of A or a column of B, so transpose a B of shape (K, N).

    Raises LayoutError if two elements would share a byte or an element would be outside `shared`; OperandError for
    another dtype or shape.

    >>> shared = np.zeros(8192, np.uint8)
    >>> A = np.arange(64 * 64).reshape(64, 64).astype(np.float16)
    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> tcemu.layouts.copy_tile(A, shared, tile)
    >>> shared.view(np.float16)[64:72]  # row 1 begins with its unit 1: 64 + 8, 64 + 9, ...
    array([72., 73., 74., 75., 76., 77., 78., 79.], dtype=float16)
    """
    patterns, bits = _patterns(matrix, element)
    if patterns.ndim < 2:
        raise OperandError(f"a tile must be a matrix (..., mn, k); got shape {patterns.shape}")
    _check_shared(shared, writing=True)
    described = Descriptor.decode(as_bits(descriptor))
    layout = described.layout(bits, major)
    mn, k = patterns.shape[-2:]
    where = _addresses(described, layout, mn, k, shared.shape[-1])
    _check_distinct(where, described, layout)
    lines = _as_bytes(patterns, bits)
    target = where[..., None] + np.arange(layout.size, dtype=np.int64)
    try:
        shared[..., target.reshape(mn, -1)] = lines
    except ValueError:
        raise OperandError(
            f"the leading axes do not match: {patterns.shape[:-2]} before (mn, k) of the matrix, {shared.shape[:-1]} "
            "before the bytes of shared memory"
        ) from None


def read_tile(
    shared: Array, descriptor: Descriptor | int, shape: tuple[int, int], element: Element, major: Major = "K"
) -> Array:
    """The matrix (..., mn, k) that `descriptor` selects in `shared`, uint8 (..., bytes); `shape` is (mn, k).

    It has the dtype of `element`, a format or its name; if `element` is a number of bits, it holds patterns. Elements
    may share bytes here, because the hardware reads such a tile too. Raises LayoutError for an element outside
    `shared`.

    >>> shared = np.arange(1024, dtype=np.float16).view(np.uint8)
    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 8, 16)
    >>> tcemu.layouts.read_tile(shared, tile, (8, 16), "f16")[:2, 6:10]  # columns 8 and up are in the next core matrix
    array([[ 6.,  7., 64., 65.],
           [14., 15., 72., 73.]], dtype=float16)
    """
    _check_shared(shared, writing=False)
    form = lookup(element) if isinstance(element, str) else element
    bits = element_bits(element)
    mn, k = _two_sizes(shape)
    described = Descriptor.decode(as_bits(descriptor))
    layout = described.layout(bits, major)
    where = _addresses(described, layout, mn, k, shared.shape[-1])
    target = where[..., None] + np.arange(layout.size, dtype=np.int64)
    lines = np.ascontiguousarray(shared[..., target.reshape(mn, -1)])
    if bits < 8:
        patterns = np.unpackbits(lines, axis=-1, bitorder="little")[..., :k]
    else:
        patterns = lines.view(f"<u{layout.size}").astype(f"u{layout.size}")
    return form.matrix(patterns.astype(form.storage)) if isinstance(form, Format) else patterns


def _two_sizes(shape: object) -> tuple[int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise LayoutError(f"the shape of a tile must be (mn, k); got {briefly(shape)}")
    mn, k = (whole(size, "a size of a tile", LayoutError) for size in shape)
    if min(mn, k) < 1:
        raise LayoutError(f"a tile must have at least one row and one column; got {briefly(shape)}")
    return mn, k


def _patterns(matrix: npt.ArrayLike, element: Format | str | None) -> tuple[Array, int]:
    """The patterns of a matrix and the bits of each."""
    if element is not None:
        form = lookup(element) if isinstance(element, str) else element
        return form.patterns(matrix, f"a tile of {form.name}"), element_bits(form)
    array = as_array(matrix, "a tile must be an array (..., mn, k)")
    if array.dtype.kind == "u" and array.dtype.itemsize <= 4:
        return array, 8 * array.dtype.itemsize
    for name in _FORMATS:
        form = lookup(name)
        if array.dtype == form.dtype:
            return form.patterns(array, f"a tile of {name}"), element_bits(form)
    raise OperandError(
        f"a tile must have the dtype of {listing(_FORMATS)}, or unsigned patterns of 8, 16 or 32 bits; got dtype "
        f"{array.dtype}. Convert it first: nothing is rounded silently."
    )


def _as_bytes(patterns: Array, bits: int) -> Array:
    """Bytes (..., mn, bytes of k), with the first element lowest."""
    if bits < 8:
        return np.packbits(patterns.astype(np.uint8), axis=-1, bitorder="little")
    size = bits // 8
    return np.ascontiguousarray(patterns.astype(f"<u{size}")).view(np.uint8)


def _check_shared(shared: object, *, writing: bool) -> None:
    if not isinstance(shared, np.ndarray) or shared.dtype != np.uint8 or shared.ndim < 1:
        got = f"dtype {shared.dtype}" if isinstance(shared, np.ndarray) else type(shared).__name__
        raise OperandError(f"shared memory must be a numpy array of uint8 (..., bytes); got {got}")
    if writing and not shared.flags.writeable:
        raise OperandError("the array given as shared memory is read-only, so nothing can be written to it")


def _addresses(descriptor: Descriptor, layout: Canonical, mn: int, k: int, limit: int) -> Array:
    """Addresses (mn, k), or (mn, k * bits / 8) if several elements share a byte; all are inside `limit` bytes."""
    per = max(8 // layout.bits, 1)
    if k % per:
        raise LayoutError(
            f"a row of {k} elements of {layout.bits} bit ends inside a byte: k must be a multiple of {per}"
        )
    where = tile_addresses(descriptor, layout, np.arange(mn, dtype=np.int64), np.arange(0, k, per, dtype=np.int64))
    outside = where + layout.size > limit
    if outside.any():
        row, column = (int(index) for index in np.argwhere(outside)[0])
        raise LayoutError(
            f"element ({row}, {column * per}) would be at {int(where[row, column])}, but shared memory has {limit} "
            f"bytes. {layout}: {descriptor}"
        )
    return where


def _check_distinct(where: Array, descriptor: Descriptor, layout: Canonical) -> None:
    pair = same_address(where)
    if pair is None:
        return
    per = max(8 // layout.bits, 1)
    (r, c), (row, column) = pair
    along_mn, along_k = (f"{field.upper()} is {getattr(descriptor, field)}" for field in layout.steps)
    atoms = layout.atoms(where.shape[0], where.shape[1] * per)
    steps = [
        f"{text} and is the step between {count} atoms along {axis}"
        for text, count, axis in zip((along_mn, along_k), atoms, ("mn", "k"), strict=True)
        if count > 1
    ]
    raise LayoutError(
        f"elements ({r}, {c * per}) and ({row}, {column * per}) share address {int(where[r, c])}: an atom takes "
        f"{layout.atom_bytes} bytes, {listing(steps, 'and')}. {layout}: {descriptor}"
    )


def same_address(where: Array) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The first two positions with the same address in an array (mn, k) of addresses; None if all differ."""
    flat = where.ravel()
    order = np.argsort(flat, kind="stable")
    same = np.flatnonzero(flat[order][1:] == flat[order][:-1])
    if not same.size:
        return None
    later = order[same + 1]
    chosen = int(same[later.argmin()])
    width = where.shape[1]
    first, second = (divmod(int(order[index]), width) for index in (chosen, chosen + 1))
    return first, second
