"""Where everything is for `tcemu.kernels.direct`: tables and numbers, found once for an instruction.

Sixteen elements of C and D that are side by side in the registers are a vector. Blocks take it as it is, apart from
the order of its lanes, if it has eight columns of two rows each; this is C of m16n8 in float32, and what belongs to it:

    C     a vector          row g, columns 2t + p, and row g + 8, columns 2t + p: lanes (t h p), taken as (t p h)
          a block           four vectors with the same columns
    B     a vector of x     an element of each column for one k, each twice: lanes (t p h)
    A     a row of y        for each k, the elements of rows g and g + 8, which are side by side in the registers

So only B has to be put in order. A's elements are packed in the order in which they come.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.lanes import WIDTH, whole_vectors_of_words
from tcemu.kernels.moves import HALVES, SAME
from tcemu.kernels.picks import half_of, whole_vectors
from tcemu.kernels.rule import ROWS

if TYPE_CHECKING:
    from tcemu.kernels.tiles import Tiles

Array = npt.NDArray[np.int64]
#: Rows of C in a vector, and its columns.
PAIR, COLUMNS = 2, WIDTH // 2
#: Pairs in a vector of words.
PAIRS_OF_VECTOR = WIDTH // PAIR
_WORD = 32


class Vectors(NamedTuple):
    """C or D in vectors of sixteen elements: the row and column of each lane, (vectors, 16)."""

    rows: Array
    columns: Array


class Block(NamedTuple):
    """A block.

    group: its columns. four: its four vectors of A's words. pair: the first in each. vector: the first of C.
    """

    group: int
    four: int
    pair: int
    vector: int


class Order(NamedTuple):
    """How blocks take the registers of a tile.

    lanes: C's lanes in the order of the blocks, (16). columns: those of each group of blocks, (groups, 8). pairs: for
    each k (in C order of A's columns) its place in a row of y, in pairs. per: A's elements in a word. vectors: those of
    A's words. stride: from a vector of C to the next one in its block. half: if A has duplicates, the words of two
    vectors that make one of `vectors`.
    """

    lanes: Array
    columns: Array
    blocks: list[Block]
    stride: int
    pairs: Array
    per: int
    vectors: int
    half: Array | None = None


def order_of(tiles: Tiles) -> Order | None:
    """The order in which blocks can take the registers of a tile; None if they cannot."""
    if not _simple(tiles):
        return None
    c, d = _of_addends(tiles), _of_results(tiles)
    if c is None or d is None or not all(np.array_equal(*each) for each in zip(c, d, strict=True)):
        return None
    lanes = np.lexsort((c.rows[0], c.columns[0]))
    rows, columns = (each[:, lanes].reshape(-1, COLUMNS, PAIR) for each in c)
    alike = (rows == rows[:, :1]).all() and (columns == columns[:, :, :1]).all()
    if not alike or (rows[..., 0] == rows[..., 1]).any():
        return None
    return _with_a(tiles, lanes, rows[:, 0], columns[..., 0])


def _simple(tiles: Tiles) -> bool:
    """Whether elements are numbers in parts of words, A is dense, and C and D are both float32 or both float16."""
    halves = (tiles.rule.addends, tiles.rule.results, tiles.rule.half) == (HALVES, HALVES, True)
    plain = (tiles.rule.addends, tiles.rule.results, tiles.rule.half) == (SAME, SAME, False)
    dense = not tiles.pruned and not tiles.lengthwise and len(tiles.sums[0]) % 2 == 0
    partly = not any(place.whole or place.flip for place in (tiles.a, tiles.b))
    return whole_vectors_of_words() and dense and partly and (halves or plain)


def _of_addends(tiles: Tiles) -> Vectors | None:
    (m, n, _), width = tiles.shape, _width(tiles)
    at = (tiles.c.word.ravel() * _WORD + tiles.c.bit.ravel()) // width
    if at.size % WIDTH or not np.array_equal(np.sort(at), np.arange(m * n)):
        return None
    return _in_vectors(np.argsort(at), n)


def _of_results(tiles: Tiles) -> Vectors | None:
    (m, n, _), elements = tiles.shape, tiles.d.elements
    if elements.size != m * n or elements.size % WIDTH or elements.shape[1] * _width(tiles) != _WORD:
        return None
    return _in_vectors(elements.ravel(), n)


def _width(tiles: Tiles) -> int:
    """The bits of an element of C and D."""
    return tiles.d.width if tiles.rule.half else _WORD


def _in_vectors(elements: Array, n: int) -> Vectors:
    return Vectors((elements // n).reshape(-1, WIDTH), (elements % n).reshape(-1, WIDTH))


def _with_a(tiles: Tiles, lanes: Array, rows: Array, columns: Array) -> Order | None:
    """The order of blocks, if A fits. rows (vectors of C, 2), columns (vectors of C, 8)."""
    m, _, k = tiles.shape
    bits, used = np.unique(tiles.a.bit), np.unique(tiles.a.word)
    word, bit = np.searchsorted(used, tiles.a.word.reshape(m, k)), tiles.a.bit.reshape(m, k)
    first, second = word[rows[:, 0]], word[rows[:, 1]]
    per, vectors, every = len(bits), len(used) // WIDTH, whole_vectors(used)
    half = None if every else half_of(used)
    fits = (second == first + 1).all() and (first % PAIR == 0).all() and (bit[rows[:, 0]] == bit[rows[:, 1]]).all()
    evenly = np.array_equal(bits - bits[0], np.arange(per) * (_WORD // per))
    if not (fits and evenly and (every or half is not None)) or vectors % ROWS:
        return None
    source, pair = first // WIDTH, first % WIDTH // PAIR
    start = pair.min(axis=1)
    places = bit[rows[:, 0]] // (_WORD // per) * PAIRS_OF_VECTOR + pair - start[:, None]
    if (source != source[:, :1]).any() or (places != places[0]).any():
        return None
    groups, of_group = np.unique(columns, axis=0, return_inverse=True)
    found: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    for vector, of in enumerate(zip(of_group.ravel().tolist(), source[:, 0].tolist(), start.tolist(), strict=True)):
        found[of[0], of[1] // ROWS, of[2]][of[1] % ROWS] = vector
    blocks = [Block(*key, met.get(0, 0)) for key, met in sorted(found.items())]
    strides = {met.get(row, 0) - met.get(row - 1, 0) for met in found.values() for row in range(1, ROWS)}
    if any(len(met) != ROWS for met in found.values()) or len(strides) > 1:
        return None
    return Order(lanes, groups, blocks, strides.pop(), places[0], per, vectors, half)
