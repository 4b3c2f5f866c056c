"""Where everything is for `tcemu.kernels.direct`: tables and numbers, found once for an instruction.

Blocks take vectors of C that have eight columns of two rows each; this is C of m16n8 in float32, and what belongs to
it:

    C     a vector          row g, columns 2t + p, and row g + 8, columns 2t + p: lanes (t h p), taken as (t p h)
          a block           four vectors with the same columns
    B     a vector of x     an element of each column for one k, each twice: lanes (t p h)
    A     a row of y        for each k, the elements of rows g and g + 8, which are side by side in the registers

So only B has to be put in order. A's elements are packed in the order in which they come; where their words are not
side by side, these are put in order first. If vectors have eight rows of two columns, A and B change places: x is A.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.direct_sparse import Spread, spread_of
from tcemu.kernels.direct_vectors import PAIR, Exchange, Vectors, exchanges
from tcemu.kernels.lanes import WIDTH, permutes_words
from tcemu.kernels.moves import HALVES, SAME
from tcemu.kernels.picks import half_of, is_network, picks, whole_vectors
from tcemu.kernels.rule import ROWS

if TYPE_CHECKING:
    from tcemu.kernels.places import Load, Place
    from tcemu.kernels.tiles import Tiles

Array = npt.NDArray[np.int64]
#: Pairs in a vector of words.
PAIRS_OF_VECTOR = WIDTH // PAIR
_WORD, _NOTHING = 32, np.empty(0, np.int64)


class Block(NamedTuple):
    """A block.

    group: its columns. four: its four vectors of y's words. pair: the first in each. vectors: those of C in the
    registers, in the order of its rows.
    """

    group: int
    four: int
    pair: int
    vectors: tuple[int, ...]


class Rows(NamedTuple):
    """How blocks take y.

    blocks: all of them. pairs: for each k its place in a row of y, in pairs. bits: the first bit of each of a word's
    elements, for both rows of a pair, (elements, 2). vectors: rows of all blocks; each is a vector of words, or two if
    it is `long`. picks: the table that puts words in order, empty if they are. half: if they are, and there are
    duplicates, the words of two vectors that make one.
    """

    blocks: list[Block]
    pairs: Array
    bits: Array
    vectors: int
    long: bool
    picks: Array = _NOTHING
    half: Array | None = None

    @property
    def elements(self) -> int:
        """The vectors of elements that a row has."""
        return len(self.bits) << self.long


class Order(NamedTuple):
    """How blocks take the registers of a tile.

    swapped: whether x is A. lanes: see `Exchange`. sums: the k of each sum, in order. groups: of columns. load: how x
    is loaded. rows: how y is. spread: how its stored elements take their places, if it is sparse.
    """

    swapped: bool
    lanes: Array
    sums: Array
    groups: int
    load: Load
    rows: Rows
    spread: Spread | None = None

    @property
    def pairs(self) -> Array:
        """For each k its place in a row of y, in pairs."""
        return self.rows.pairs if self.spread is None else self.spread.pairs

    @property
    def elements(self) -> int:
        """The vectors of elements of a row."""
        return self.rows.elements if self.spread is None else self.spread.chunks * self.spread.chunk

    @property
    def effort(self) -> tuple[bool, int, bool]:
        """What it takes besides computing: whether words are picked one by one; how many are put in order."""
        tables = [each for each in (self.load.picks, self.rows.picks) if each.size]
        return not all(map(is_network, tables)), sum(int(each[0]) for each in tables), self.swapped


def order_of(tiles: Tiles) -> Order | None:
    """The order in which blocks can take the registers of a tile with the least effort; None if they cannot."""
    if not _simple(tiles):
        return None
    c, d = _of_addends(tiles), _of_results(tiles)
    if c is None or d is None or not all(np.array_equal(*each) for each in zip(c, d, strict=True)):
        return None
    sides = (False,) if tiles.pruned else (False, True)
    ways = ((swapped, way) for swapped in sides for way in exchanges(c.turned if swapped else c))
    found = [order for swapped, way in ways if (order := _with_factors(tiles, swapped, way)) is not None]
    return min(found, key=lambda order: order.effort, default=None)


def _simple(tiles: Tiles) -> bool:
    """Whether elements are numbers in parts of words, and C and D are both float32 or both float16."""
    halves = (tiles.rule.addends, tiles.rule.results, tiles.rule.half) == (HALVES, HALVES, True)
    plain = (tiles.rule.addends, tiles.rule.results, tiles.rule.half) == (SAME, SAME, False)
    evenly = not tiles.lengthwise and len(tiles.sums[0]) % 2 == 0
    partly = not any(place.whole or place.flip for place in (tiles.a, tiles.b))
    return permutes_words() and evenly and partly and (halves or plain)


def _of_addends(tiles: Tiles) -> Vectors | None:
    """C's elements that there are results of, in the order of the registers, if these hold nothing else."""
    width, elements = _width(tiles), np.sort(tiles.d.elements, axis=None)
    at = (tiles.c.word.ravel() * _WORD + tiles.c.bit.ravel())[elements] // width
    if at.size % WIDTH or not np.array_equal(np.sort(at), np.arange(at.size)):
        return None
    return _in_vectors(elements[np.argsort(at)], tiles.shape[1])


def _of_results(tiles: Tiles) -> Vectors | None:
    elements = tiles.d.elements
    once = np.unique(elements).size == elements.size
    if not once or elements.size % WIDTH or elements.shape[1] * _width(tiles) != _WORD:
        return None
    return _in_vectors(elements.ravel(), tiles.shape[1])


def _width(tiles: Tiles) -> int:
    """The bits of an element of C and D."""
    return tiles.d.width if tiles.rule.half else _WORD


def _in_vectors(elements: Array, n: int) -> Vectors:
    return Vectors((elements // n).reshape(-1, WIDTH), (elements % n).reshape(-1, WIDTH))


def _with_factors(tiles: Tiles, swapped: bool, way: Exchange) -> Order | None:
    """The order with a way to make vectors of C, if the factors fit."""
    m, n, k = tiles.shape
    x, y = (tiles.a, tiles.b) if swapped else (tiles.b, tiles.a)
    groups, of_unit = np.unique(way.columns, axis=0, return_inverse=True)
    # k and columns of each element of x
    numbers = np.arange(m * k).reshape(m, k).T if swapped else np.arange(x.word.size).reshape(-1, n)
    sums = np.array([tiles.ordered(ks, x.bit.ravel()[numbers[:, 0]]) for ks in tiles.sums]) if swapped else tiles.longer
    rows = _rows(y, (n, k) if swapped else (m, k), swapped, way, of_unit.ravel())
    if rows is None:
        return None
    spread = None
    if tiles.pruned:
        spread = spread_of(tiles.pruned, y, (m, k), rows.pairs, PAIRS_OF_VECTOR)
        if spread is None or rows.long or rows.picks.size or rows.half is not None:
            return None
    # (groups, sums, half of the products, two k, columns)
    elements = numbers[sums.reshape(len(sums), -1, 2, 1), groups[:, None, None, None]]
    return Order(swapped, way.lanes, sums, len(groups), x.load(elements), rows, spread)


class _Words(NamedTuple):
    """The words of y: for pairs of rows, those of both rows that hold its elements, (pairs, places, 2)."""

    words: Array
    bits: Array
    pairs: Array


def _rows(y: Place, shape: tuple[int, int], turned: bool, way: Exchange, of_unit: Array) -> Rows | None:
    """How blocks take y with a way to make vectors of C; of_unit: the group of columns of each of its units."""
    rows, k = shape
    word, bit = (each.reshape(k, rows).T if turned else each.reshape(rows, k) for each in (y.word, y.bit))
    found = _words(word, bit, way.rows.reshape(-1, PAIR))
    if found is None:
        return None
    words = found.words.reshape(*way.rows.shape[:2], -1)
    return _as_they_are(y, words, found, way, of_unit) or _in_order(words, found, way, of_unit)


def _words(word: Array, bit: Array, rows: Array) -> _Words | None:
    """The words of pairs of rows, (pairs, 2); word and bit: of each element, (rows, k). None if they do not fit."""
    words, bits = (each[rows].transpose(0, 2, 1) for each in (word, bit))
    kinds, of_k = np.unique(bits[0], axis=0, return_inverse=True)
    places = [np.flatnonzero(of_k.ravel() == kind) for kind in range(len(kinds))]
    places = [ks[np.argsort(words[0, ks, 0])] for ks in places]
    count, same = len(places[0]), words[:, places[0]]
    fits = (bits == bits[0]).all() and 2 * PAIRS_OF_VECTOR % count == 0
    if not fits or not all(np.array_equal(words[:, ks], same) for ks in places):
        return None
    pairs = np.empty(word.shape[1], np.int64)
    vector, place = np.divmod(np.arange(count), PAIRS_OF_VECTOR)
    for kind, ks in enumerate(places):
        pairs[ks] = (vector * len(kinds) + kind) * PAIRS_OF_VECTOR + place
    return _Words(same, kinds, pairs)


def _as_they_are(y: Place, words: Array, found: _Words, way: Exchange, of_unit: Array) -> Rows | None:
    """Rows whose words lie side by side, in an order that suits the blocks; words: (units, 1 or 2, words of a pair)."""
    used = np.unique(y.word)
    every = whole_vectors(used)
    half = None if every else half_of(used)
    if (not every and half is None) or words.shape[-1] > WIDTH:
        return None
    at = np.searchsorted(used, words)
    begin, vectors = at[..., 0], used.size // WIDTH
    side_by_side = (at == begin[..., None] + np.arange(at.shape[-1])).all() and (begin % at.shape[-1] == 0).all()
    evenly = (found.bits == found.bits[:, :1]).all() and vectors % ROWS == 0
    if not side_by_side or not evenly:
        return None
    source, start = begin // WIDTH, begin % WIDTH // PAIR
    met: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    for unit, group in enumerate(of_unit.tolist()):
        of_unit_alone = zip(source[unit].tolist(), start[unit].tolist(), way.vectors[unit].tolist(), strict=True)
        places = [(vector, first // ROWS, first % ROWS, pair) for first, pair, vector in of_unit_alone]
        if len(places) == PAIR and not _exchanged(*places):
            return None
        for vector, four, row, pair in places:
            met[group, four, pair][row] = vector
    if any(sorted(each) != [*range(ROWS)] for each in met.values()):
        return None
    blocks = [Block(*key, tuple(each[row] for row in range(ROWS))) for key, each in sorted(met.items())]
    return Rows(blocks, found.pairs, found.bits, vectors, long=False, half=half)


def _exchanged(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether vectors (vector, four, row, pair) are the first two rows of a block, or the last two, in this order."""
    _, four, row, pair = one
    return row % PAIR == 0 and other[1:] == (four, row + 1, pair)


def _in_order(words: Array, found: _Words, way: Exchange, of_unit: Array) -> Rows | None:
    """Rows whose words are put in an order that suits the blocks."""
    at_once = ROWS // words.shape[1]
    places: dict[tuple[tuple[int, ...], ...], int] = {}
    blocks, size = [], words.shape[2] // PAIR
    parts = max(PAIRS_OF_VECTOR // size, 1)
    for group in range(of_unit.max() + 1):
        units = np.flatnonzero(of_unit == group)
        units = units[np.lexsort(words[units, 0].T[::-1])]
        if len(units) % at_once:
            return None
        for some in units.reshape(-1, at_once):
            rows = tuple(map(tuple, words[some].reshape(ROWS, -1).tolist()))
            four, part = divmod(places.setdefault(rows, len(places)), parts)
            blocks.append(Block(group, four, part * size, tuple(way.vectors[some].ravel().tolist())))
    ordered = np.zeros((-(-len(places) // parts), ROWS, parts, words.shape[2]), np.int64)
    for rows, place in places.items():
        ordered[place // parts, :, place % parts] = rows
    long = size > PAIRS_OF_VECTOR
    return Rows(blocks, found.pairs, found.bits, ROWS * len(ordered), long, picks(ordered.ravel()))
