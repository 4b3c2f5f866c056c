"""Vectors of C with four columns of two rows, as registers of binary64 have them; see `tcemu.kernels.chains64`.

This is a vector of C of m16n8 in float64, and what belongs to it:

    C     row g, columns 2t + p, and row g + 8, columns 2t + p: lanes (t h p), taken as (t p h)
    B     an element of each column for one k, each twice: lanes (t p h)
    A     the elements of rows g and g + 8 for one k, side by side in the registers, again and again

So C and D stay as the registers have them, and A is read where it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.lanes import DOUBLE, permutes_words
from tcemu.kernels.raised64 import DOUBLES, LANES
from tcemu.kernels.rooms import Tiles
from tcemu.kernels.simd import vector_code

Array = npt.NDArray[np.int64]
#: Rows of a vector, and its columns.
ROWS, COLUMNS = 2, LANES // 2
#: Two elements of A.
PAIR = ir.VectorType(DOUBLE, ROWS)
#: Vectors of C in a block.
_BLOCK = 4


class Paired(NamedTuple):
    """The order of a tile whose vectors of C are of this kind.

    lanes: those of a vector in the order of the chains, (8). picked: the register of each element of B, for groups of
    columns, pairs of k, a k, and columns, (groups, k / 2, 2, 4). ks: the order of k there. of_c: the vectors of C with
    the columns of each group, (groups, vectors). of_a: for those vectors and each k, ascending, the register of the
    first of two elements of A, (vectors, k).
    """

    lanes: Array
    picked: Array
    ks: Array
    of_c: Array
    of_a: Array


def paired(shape: tuple[int, int, int], a: Array, b: Array, c: Array, d: Array) -> Paired | None:
    """The order of a tile, if its vectors of C are of this kind; a, b, c, d: as for `Chains64`."""
    m, n, k = shape
    same = np.array_equal(np.sort(c, axis=None), np.arange(m * n)) and np.array_equal(d[c.ravel()], np.arange(m * n))
    if not permutes_words() or not same or c.size % LANES or k % 2:
        return None
    of_lanes = [each.reshape(-1, LANES) for each in np.divmod(np.argsort(c.ravel()), n)]
    lanes = np.lexsort([each[0] for each in of_lanes])
    rows, columns = (each[:, lanes].reshape(-1, COLUMNS, ROWS) for each in of_lanes)
    alike = (rows == rows[:, :1]).all() and (columns == columns[:, :, :1]).all()
    if not alike or (rows[..., 0] == rows[..., 1]).any():
        return None
    groups, of_group = np.unique(columns[..., 0], axis=0, return_inverse=True)
    of_c = [np.flatnonzero(of_group.ravel() == group) for group in range(len(groups))]
    pairs = [rows[vectors, 0] for vectors in of_c]
    elements = a.reshape(m, k)[pairs[0]]
    fits = all(np.array_equal(each, pairs[0]) for each in pairs) and len(pairs[0]) % _BLOCK == 0
    if not fits or (elements[:, 1] != elements[:, 0] + 1).any() or a.size % LANES:
        return None
    ks = np.argsort(b.reshape(k, n)[:, 0])
    picked = b.reshape(k, n)[ks.reshape(-1, ROWS)][:, :, groups].transpose(2, 0, 1, 3)
    return Paired(lanes, picked, ks, np.array(of_c), elements[:, 0])


@intrinsic
def twice(typingctx, tiles, words, step, vectors, into):  # type: ignore[no-untyped-def]
    """into[t, 2v] and into[t, 2v + 1] = the first and the second half of words[t, v], each element twice.

    words and into: addresses; a tile has `vectors` vectors, and `step` is the bytes from one to the next in `words`.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, vectors, into = args
        words, vectors = Tiles(words, code.number(step)), code.number(vectors)
        with code.each(tiles) as t, code.each(vectors) as v:
            found = code.load(words.of(t), v, DOUBLES, unit=8 * LANES)
            for half in range(2):
                both = found.shuffled([half * COLUMNS + lane // ROWS for lane in range(LANES)])
                code.store(both, into, (t * vectors + v).up(1) + half, unit=8 * LANES)
        return context.get_dummy_value()

    kinds: list[Any] = [types.int64, types.uint64, types.int64, types.int64, types.uint64]
    return types.none(*kinds), codegen
