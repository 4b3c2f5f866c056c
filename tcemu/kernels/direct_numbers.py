"""The tables and numbers that `tcemu.kernels.direct` takes, from the order that `direct_tables` finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels import direct_bare
from tcemu.kernels.ahead import NOTES
from tcemu.kernels.direct_bare import BIAS
from tcemu.kernels.direct_tables import PAIRS_OF_VECTOR, Order, Rows, order_of
from tcemu.kernels.lanes import WIDTH, whole_vectors_of_words
from tcemu.kernels.loading import FORMAT_X, FORMAT_Y
from tcemu.kernels.moves import pick_at
from tcemu.kernels.rooms import Parts, whole
from tcemu.kernels.rule import ROWS
from tcemu.kernels.sums import CENTRE
from tcemu.kernels.windows import above, start_of_window

if TYPE_CHECKING:
    from tcemu.kernels.places import Load
    from tcemu.kernels.tiles import Tiles

Array = npt.NDArray[Any]
#: The places of the numbers that the kernel reads besides the rule and the formats of x and y: how many tiles are
#: computed together, and whether both formats have few bits;
TOGETHER, FEW = map(np.int64, range(22, 24))
#: how x is loaded: where the table of `pick` begins, and its address; the bytes of room for the words of a tile; where
#: the tables of `pack_columns` begin; vectors of a group, groups of columns, and where the window starts;
PICKS, PICK, PICKED, SOURCE, UPS_X, OF_GROUP, GROUPS, START_X = map(np.int64, range(24, 32))
#: how y is loaded: where the table of `pick` begins, or 0 if words stay as they are, and the bytes of room for those
#: of a tile; where the table of `pack_rows` begins; elements of a word, rows, whether they are long, and where the
#: window starts; whether a vector is half of two, and where the table begins that says which;
PICKS_Y, PICKED_Y, UPS_Y, PER, OF_Y, LONG_Y, START_Y, HALF, TAKEN = map(np.int64, range(32, 41))
#: for `direct_bare`: whether it packs these elements; the base of what it packs; vectors of words of x, and where the
#: table of their order begins; runs, and parts of a vector of y;
BARE, BASE, WORDS_OF_X, ORDER, RUNS, PARTS = map(np.int64, range(41, 47))
#: where the table of blocks begins, and their number; where the orders of lanes and the places of pairs begin; the
#: bytes from a row of y to the next; whether accumulators exchange lanes with others;
TABLE, BLOCKS, TO_BLOCK, TO_REGISTERS, PAIRS, STEP, EXCHANGE = map(np.int64, range(47, 54))
#: where room begins for picked words of x and of y, for what is fetched ahead, and for tiles, and all its words; the
#: bytes of a tile's room, and those before values, exponents, marks and squares of x, of y, and of what is stored of y,
#: there;
WORDS_X, WORDS_Y, AHEAD, TILES, ROOM, APART = map(np.int64, range(54, 60))
OF_X_THERE, OF_Y_THERE, OF_STORED_THERE = map(np.int64, (60, 64, 68))
#: if y is sparse, where the table of `spread_rows` begins, the chunks of a word, and a chunk's places and stored
#: elements;
SPREAD, CHUNKS, CHUNK, STORED = map(np.int64, range(72, 76))
#: 1 if every two blocks have the same x, so that they are computed together where that is possible, else 0.
PAIRED, NUMBERS = map(np.int64, range(76, 78))
#: Whether the processor's registers hold two blocks.
PAIRS_BLOCKS = whole_vectors_of_words()
#: The kinds of what is packed, in the order in which a tile has room for them.
VALUES, EXPONENTS, MARKS, SQUARES = range(4)
#: A block in its table: where it finds those of x, those of y, and its four vectors of accumulators, in bytes from the
#: first of a tile.
ACCUMULATORS, ENTRY = 8, WIDTH
#: Tiles that are computed together, at most, and the words of room that they may take.
_MOST, _ROOM = 8, 1 << 15
#: Bytes of a vector, and of a pair.
_VECTOR, _PAIR = 64, 8


class Direct(NamedTuple):
    """The tables and numbers that `run_direct` takes.

    swapped: whether x is A, and y is B. where: for each k, its place in the sums. room: the words that a call needs
    besides.
    """

    tables: Array
    numbers: Array
    swapped: bool
    where: Array
    room: int


def direct(tiles: Tiles) -> Direct | None:
    """How `run_direct` computes these tiles; None if it cannot."""
    order = order_of(tiles)
    return None if order is None else _direct(tiles, order)


def _direct(tiles: Tiles, order: Order) -> Direct:
    of_x, of_y = tiles.formats if order.swapped else tiles.formats[::-1]
    parts, numbers = Parts(), np.zeros(NUMBERS, np.int64)
    numbers[:FORMAT_X], numbers[FORMAT_X:FORMAT_Y], numbers[FORMAT_Y:TOGETHER] = tiles.rule_in_numbers, of_x, of_y
    sums, load, rows, per = order.sums, order.load, order.rows, len(order.rows.bits)
    picked = whole(int(load.picks[0]))
    numbers[PICKS:PICKS_Y] = (
        parts.add(load.picks), pick_at(), 4 * picked, parts.add(load.source), parts.add(above(of_x) - load.bits),
        sums.size // 2, order.groups, start_of_window(of_x),
    )  # fmt: skip
    in_order = whole(int(rows.picks[0])) if rows.picks.size else 0
    half = np.zeros(WIDTH, np.int64) if rows.half is None else rows.half
    numbers[PICKS_Y:BARE] = (
        parts.add(rows.picks) if rows.picks.size else 0, 4 * in_order, parts.add(_ups(rows, of_y)), per, rows.vectors,
        rows.long, start_of_window(of_y), rows.half is not None, parts.add(half),
    )  # fmt: skip
    base = 2 * BIAS - of_x[2] - of_y[2] - 2 * CENTRE
    of_part = int(order.pairs.max() % PAIRS_OF_VECTOR) + 1
    numbers[BARE:TABLE] = (
        _may_be_bare(tiles, order), base, picked // WIDTH, parts.add(_order_of_bytes(load)), _runs(order),
        PAIRS_OF_VECTOR // of_part,
    )  # fmt: skip
    values_x, values_y = order.groups * sums.size, rows.vectors * order.elements
    stored = rows.vectors * per if order.spread else 0
    sizes = [
        values_x, values_x, order.groups, whole(order.groups) // WIDTH, values_y, values_y // ROWS, rows.vectors, 1,
        stored, stored // ROWS,
    ]  # fmt: skip
    places = np.cumsum([0, *sizes]) * _VECTOR
    width = _VECTOR // 2 if tiles.rule.half else _VECTOR
    numbers[TABLE:WORDS_X] = (
        parts.add(_entries(order, places, width)), len(rows.blocks), parts.add(order.lanes),
        parts.add(np.argsort(order.lanes)), parts.add(order.pairs[sums] * _PAIR), order.elements * _VECTOR,
        (order.lanes[:WIDTH] >= WIDTH).any(),
    )  # fmt: skip
    # An odd number of lines: the same places of two tiles do not compete for the same places of a cache.
    apart = (int(places[-1]) // _VECTOR | 1) * WIDTH
    together = min(max(_ROOM // (picked + in_order + apart), 1), _MOST)
    numbers[TOGETHER:PICKS] = together, tiles.few_bits
    numbers[WORDS_X:APART] = np.cumsum([0, picked * together, in_order * together, whole(2 * NOTES), apart * together])
    numbers[APART], numbers[OF_X_THERE:OF_STORED_THERE] = 4 * apart, places[:8]
    numbers[OF_STORED_THERE:SPREAD] = (*places[8:10], *places[6:8]) if order.spread else places[4:8]
    if order.spread:
        numbers[SPREAD:PAIRED] = parts.add(order.spread.table), *order.spread[1:4]
    numbers[PAIRED] = PAIRS_BLOCKS and _in_pairs(order)
    return Direct(parts.together(), numbers, order.swapped, np.argsort(sums, axis=None), int(numbers[ROOM]))


def _in_pairs(order: Order) -> bool:
    """Whether every two blocks have the same columns."""
    groups = [block.group for block in order.rows.blocks]
    return groups[::2] == groups[1::2]


def _ups(rows: Rows, form: Sequence[int]) -> Array:
    """How far up each of a word's elements is, for the lanes of a vector of words, (elements, 16)."""
    return np.tile(above(form) - rows.bits, (1, PAIRS_OF_VECTOR))


def _entries(order: Order, places: Array, width: int) -> Array:
    """The table of blocks. places: where a tile has room for each; width: bytes of a vector of accumulators."""
    rows, found = order.rows, np.zeros((len(order.rows.blocks), ENTRY), np.int64)
    for entry, (group, four, pair, vectors) in zip(found, rows.blocks, strict=True):
        of_four, at_pair = four * order.elements * _VECTOR, pair * _PAIR
        of_x = group * order.sums.size * _VECTOR
        moves = [of_x, of_x, group * _VECTOR, group * 4]
        moves += [ROWS * of_four + at_pair, of_four + at_pair, four * ROWS * _VECTOR + at_pair, 0]
        entry[:ACCUMULATORS] = places[:ACCUMULATORS] + moves
        entry[ACCUMULATORS : ACCUMULATORS + ROWS] = np.array(vectors) * width
    return found


def _may_be_bare(tiles: Tiles, order: Order) -> bool:
    """Whether elements are bytes with the sign on top, all columns are one group, and y's words stay as they are."""
    of_bytes = all(form[0] + form[1] == 7 and not form[3] for form in tiles.formats)
    plain = order.rows.half is None and not order.rows.picks.size and not order.rows.long and order.groups == 1
    return tiles.few_bits and of_bytes and plain and len(order.rows.bits) == direct_bare.PER


def _order_of_bytes(load: Load) -> Array:
    """For each vector of picked words, the numbers of the vectors of its first, second ... bytes."""
    first = load.bits.reshape(-1, WIDTH)[:, 0]
    return np.lexsort((first, load.source))


def _runs(order: Order) -> int:
    """2 if a chain has two sums, one with either half of the elements of a word; else 1."""
    sums = order.sums
    halves = order.pairs[sums] // PAIRS_OF_VECTOR * 2 // order.elements
    return 2 if len(sums) == 2 and (halves == [[0], [1]]).all() else 1
