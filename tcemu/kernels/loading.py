"""Elements of tiles from words, and results back into words, as numbers and tables say that a kernel is given."""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from tcemu.kernels.calls import call, number
from tcemu.kernels.compiling import merged, njit
from tcemu.kernels.moves import HALVES, extract, finish, join, mark, spread, widen

#: The places of the numbers that the kernels read besides the rule, which is first: the formats of x and y; for each of
#: x, y, c and the metadata, how it is loaded (where three tables begin, vectors, mask, bits to flip, see `extract`; if
#: mask is 0, elements are the words that are picked); what `store` takes (where its tables begin, their size, results
#: of a word, bits of a result, words, kind); the kind of addends; what else an arithmetic takes; the codes of metadata
#: that are not legal; what `spread` takes (where its table begins, groups); the vectors of x, y and c as the blocks
#: take them; whether `pack_words` is tried, or `look_up`, whether both formats have few bits, where the tables of
#: `pack_words` for x and y begin, and the starts of their windows; the address of `pick`; how many tiles are computed
#: together, and the bytes of a tile in the rooms of words that are picked; where room begins for results, for picked
#: words of x and of y, stored elements, codes, x, y, c, packed elements and what is fetched ahead, and all its words;
#: the blocks of products of a tile.
FORMAT_X, FORMAT_Y, LOADS, STORE, ADDENDS, OPTION, ILLEGAL, SPREAD, VECTORS = map(
    np.int64, (8, 15, 22, 46, 52, 53, 54, 55, 57)
)
QUICK, FEW, UPS_X, UPS_Y, START_X, START_Y, PICK, TOGETHER, PICKED = map(np.int64, range(60, 69))
HELD, WORDS_X, WORDS_Y, STORED, CODES, IN_X, IN_Y, IN_C, PACKED, AHEAD, ROOM = map(np.int64, range(69, 80))
BLOCKS, NUMBERS = map(np.int64, range(80, 82))
#: The numbers of an operand, in the order of LOADS.
X, Y, C, E = (np.int64(LOADS + 6 * operand) for operand in range(4))
#: The word of an element that a sparse A does not store.
_PRUNED = np.int64(-1)


@njit(cache=True, nogil=True)
def within(room, numbers, place):  # type: ignore[no-untyped-def]
    """The address of what begins at the word that is the number at a place; room and numbers are addresses."""
    return room + uint64(number(numbers, place)) * uint64(4)


@merged
def picked(tiles, words, step, table, numbers, into, apart):  # type: ignore[no-untyped-def]
    """`pick` by its address."""
    call(uint64(number(numbers, PICK)), (tiles, words, step, table, into, apart))


@njit(cache=True, nogil=True)
def _load(tiles, words, step, tables, numbers, room, first, through, into):  # type: ignore[no-untyped-def]
    """The elements of an operand of some tiles; `through`: room for the words that are picked."""
    vectors, mask, apart = number(numbers, first + 3), number(numbers, first + 4), number(numbers, PICKED)
    if mask:
        picked(tiles, words, step, within(tables, numbers, first), numbers, through, apart)
        source, bits = within(tables, numbers, first + 1), within(tables, numbers, first + 2)
        extract(tiles, through, apart, source, bits, vectors, mask, number(numbers, first + 5), into)
    else:
        picked(tiles, words, step, within(tables, numbers, first), numbers, into, 64 * vectors)


@merged
def spread_stored(tiles, stored, tables, numbers, room, nothing, into):  # type: ignore[no-untyped-def]
    """The vectors of a sparse A from those of its stored words, of some kinds; its codes are loaded. See `spread`."""
    groups, table, codes = number(numbers, SPREAD + 1), within(tables, numbers, SPREAD), within(room, numbers, CODES)
    of_x, of_e, rows = number(numbers, X + 3), number(numbers, E + 3), number(numbers, VECTORS)
    spread(tiles, stored, 64 * of_x, codes, 64 * of_e, table, groups, rows, nothing, into)


@merged
def load_codes(tiles, e, step, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load the metadata of some tiles; whether all of it is legal. There is none if A is dense."""
    if not number(numbers, SPREAD + 1):
        return True
    codes = within(room, numbers, CODES)
    _load(tiles, e, step, tables, numbers, room, int64(E), within(room, numbers, WORDS_Y), codes)
    return not mark(codes, tiles * number(numbers, E + 3), number(numbers, ILLEGAL))


@merged
def load_addends(tiles, c, step, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load the accumulators of some tiles."""
    _load(tiles, c, step, tables, numbers, room, int64(C), within(room, numbers, WORDS_Y), within(room, numbers, IN_C))


@merged
def widen_addends(tiles, numbers, room):  # type: ignore[no-untyped-def]
    """Accumulators as float32 patterns."""
    if number(numbers, ADDENDS) == HALVES:
        c = within(room, numbers, IN_C)
        widen(c, int64(1), tiles * number(numbers, VECTORS + 2), c)


@merged
def load_factors(tiles, x, y, steps, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load the elements of x and y of some tiles; the metadata is loaded. x, y: addresses of words."""
    in_x, in_y, stored = within(room, numbers, IN_X), within(room, numbers, IN_Y), within(room, numbers, STORED)
    of_x, of_y, sparse = within(room, numbers, WORDS_X), within(room, numbers, WORDS_Y), number(numbers, SPREAD + 1)
    _load(tiles, x, steps[0], tables, numbers, room, int64(X), of_x, stored if sparse else in_x)
    if sparse:
        spread_stored(tiles, (stored,), tables, numbers, room, (_PRUNED,), (in_x,))
    _load(tiles, y, steps[1], tables, numbers, room, int64(Y), of_y, in_y)


@merged
def store_results(tiles, tables, numbers, room, words, step):  # type: ignore[no-untyped-def]
    """Store the results of some tiles into words."""
    c, at, held = within(room, numbers, IN_C), within(tables, numbers, STORE), within(room, numbers, HELD)
    size, per, width = number(numbers, STORE + 1), number(numbers, STORE + 2), number(numbers, STORE + 3)
    count, vectors, apart = number(numbers, STORE + 4), number(numbers, VECTORS + 2), number(numbers, PICKED)
    finish(c, tiles * vectors, number(numbers, STORE + 5))
    picked(tiles, c, 64 * vectors, at, numbers, words, step)
    for e in range(1, per):
        picked(tiles, c, 64 * vectors, at + uint64(4 * e * size), numbers, held, apart)
        for t in range(tiles):
            join(held + uint64(t * apart), count, e * width, words + uint64(t * step))
