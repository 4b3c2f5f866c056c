"""The orders in which CUTLASS and torch keep the metadata of a sparse A in memory, four bits for each chunk of a row.

"sm80", of CUTLASS 2 and torch's _to_sparse_semi_structured: integers of 16 bits (four chunks of 16- or 32-bit elements)
or 32 bits (eight chunks of 8- or 4-bit elements), whose rows are interleaved and then swapped in blocks of 2 by 2
(reorder_meta in host_reorder.h), in columns of two (ColumnMajorInterleaved<2>), so that ldmatrix loads the registers.

"sm90", of CUTLASS 3 (Sm90GemmSparseConfig::TensorEAtom): bytes, in atoms of 64 rows by tile_k columns of A. In an atom,
the chunks of 8-bit elements are in rows; others in the order (below, the fastest last) that lets a thread of wgmma load
its registers at once:

    row // 16, upper half of the columns of an instruction, row % 8, instruction, row // 8 % 2, four chunks

Both were written from CUTLASS's sources.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def width(bits: int) -> int:
    """Bits of an integer of "sm80", for elements of A of `bits` bits."""
    return 16 if bits >= 16 else 32


def rows_of(bits: int) -> int:
    """The rows that "sm80" interleaves: M is a multiple of it."""
    return 32 if bits >= 16 else 16


def to_sm80(codes: Array, bits: int) -> Array:
    """(M, columns) of unsigned integers, as torch has it, of codes (M, chunks) of four bits."""
    per = width(bits) // 4
    rows, chunks = codes.shape
    shifts = 4 * np.arange(per, dtype=np.uint32)
    plain = (codes.reshape(rows, chunks // per, per).astype(np.uint32) << shifts).sum(axis=-1, dtype=np.uint32)
    words = np.empty(plain.size, f"u{width(bits) // 8}")
    words[_offsets(rows, chunks // per, bits)] = plain.ravel()
    return words.reshape(rows, chunks // per)


def from_sm80(metadata: Array, bits: int) -> Array:
    """The codes (M, chunks) of integers (M, columns)."""
    per = width(bits) // 4
    rows, columns = metadata.shape
    plain = metadata.ravel()[_offsets(rows, columns, bits)].astype(np.uint32)
    codes = plain[:, None] >> 4 * np.arange(per, dtype=np.uint32) & 15
    return codes.astype(np.uint8).reshape(rows, -1)


def _offsets(rows: int, columns: int, bits: int) -> Array:
    """Where each integer of a plain (rows, columns) is kept, flat."""
    row, column = np.indices((rows, columns))
    group = rows_of(bits)
    row = row // group * group + row % 8 * (group // 8) + row % group // 8
    odd = row % 2 - column % 2  # exchange the two elements of a 2x2 block that are beside its diagonal
    row, column = row - odd, column + odd
    return np.asarray(column // 2 * 2 * rows + row * 2 + column % 2).ravel()


def to_sm90(codes: Array, bits: int, atom: int) -> Array:
    """Bytes, flat, of codes (M, chunks) of four bits; `atom` is the number of chunks in a row of an atom."""
    rows, chunks = codes.shape
    cut, order = _cut(rows, chunks, bits, atom)
    nibbles = codes.reshape(cut).transpose(order).ravel()
    return np.asarray(nibbles[::2] | nibbles[1::2] << 4).astype(np.uint8)


def from_sm90(metadata: Array, rows: int, chunks: int, bits: int, atom: int) -> Array:
    """The codes (M, chunks) of bytes."""
    cut, order = _cut(rows, chunks, bits, atom)
    flat = metadata.ravel()
    nibbles = np.stack([flat & 15, flat >> 4], axis=-1)
    moved = nibbles.reshape([cut[axis] for axis in order])
    return np.ascontiguousarray(moved.transpose(np.argsort(order)).reshape(rows, chunks), dtype=np.uint8)


def _cut(rows: int, chunks: int, bits: int, atom: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The digits of (row, chunk), and their order in memory."""
    if bits < 16:
        return (rows // 64, 64, chunks // atom, atom), (2, 0, 1, 3)
    # rows: atom, 16 rows, half of them, row; chunks: atom, instruction, half of it, four chunks
    return (rows // 64, 4, 2, 8, chunks // atom, atom // 8, 2, 4), (4, 0, 1, 6, 3, 5, 2, 7)
