"""Batches of instructions whose accumulators blocks take from the registers as they are; see `direct_tables`.

It computes as `tcemu.kernels.products` does, from and to the same words, if all elements are zeros, NaN, or numbers in
a window. If others are among them, it calls a function of that module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels import direct_bare, loading, short_sums
from tcemu.kernels import direct_packing as packing
from tcemu.kernels.ahead import NOTES, expect, fetch_lines
from tcemu.kernels.blocks import Chain
from tcemu.kernels.calls import call, number, put
from tcemu.kernels.compiling import merged, njit
from tcemu.kernels.direct_bare import BIAS, bare_columns, bare_rows
from tcemu.kernels.direct_packing import clear, fold_marks, pack_columns, pack_rows
from tcemu.kernels.direct_sparse import spread_rows
from tcemu.kernels.direct_tables import PAIRS_OF_VECTOR, Order, Rows, order_of
from tcemu.kernels.lanes import LONG, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.loading import FORMAT_X, FORMAT_Y, within
from tcemu.kernels.moves import addresses, pick_at
from tcemu.kernels.rooms import Parts, whole
from tcemu.kernels.rule import FRACTION, ROWS
from tcemu.kernels.sharing import PART, finish_some, leave, take, wait_for_all
from tcemu.kernels.short_sums import is_short, may_be_short
from tcemu.kernels.sides import InRegisters
from tcemu.kernels.simd import Code, Slot, vector_code
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
#: elements.
SPREAD, CHUNKS, CHUNK, STORED, NUMBERS = map(np.int64, range(72, 77))
#: The kinds of what is packed, in the order in which a tile has room for them.
VALUES, EXPONENTS, MARKS, SQUARES = range(4)
#: A block in its table: where it finds those of x, those of y, and its four vectors of accumulators, in bytes from the
#: first of a tile.
_ACCUMULATORS, _ENTRY = 8, WIDTH
#: Tiles that are computed together, at most, and the words of room that they may take.
_MOST, _ROOM = 8, 1 << 15
#: After tiles with NaN, so many times as many are expected to have them too; likewise after sums that are not short. If
#: tiles have to be computed elsewhere again and again, so many times as many are not tried, at most.
PATIENCE = 16
#: No way to compute tiles elsewhere: the address of `_any_tiles`; those of the tables, numbers, room and what is
#: fetched ahead there, and of two functions; and whether x and y change places.
NOT_THERE = (0,) * 8
#: Bytes of a vector, and of a pair.
_VECTOR, _PAIR = 64, 8


class Direct(NamedTuple):
    """The tables and numbers that `run_direct` takes."""

    tables: Array
    numbers: Array
    #: Whether x is A, and y is B.
    swapped: bool

    @property
    def room(self) -> int:
        """The words that a call needs besides."""
        return int(self.numbers[ROOM])


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
        numbers[SPREAD:] = parts.add(order.spread.table), *order.spread[1:4]
    return Direct(parts.together(), numbers, order.swapped)


def _ups(rows: Rows, form: Sequence[int]) -> Array:
    """How far up each of a word's elements is, for the lanes of a vector of words, (elements, 16)."""
    return np.tile(above(form) - rows.bits, (1, PAIRS_OF_VECTOR))


def _entries(order: Order, places: Array, width: int) -> Array:
    """The table of blocks. places: where a tile has room for each; width: bytes of a vector of accumulators."""
    rows, found = order.rows, np.zeros((len(order.rows.blocks), _ENTRY), np.int64)
    for entry, (group, four, pair, vectors) in zip(found, rows.blocks, strict=True):
        of_four, at_pair = four * order.elements * _VECTOR, pair * _PAIR
        of_x = group * order.sums.size * _VECTOR
        moves = [of_x, of_x, group * _VECTOR, group * 4]
        moves += [ROWS * of_four + at_pair, of_four + at_pair, four * ROWS * _VECTOR + at_pair, 0]
        entry[:_ACCUMULATORS] = places[:_ACCUMULATORS] + moves
        entry[_ACCUMULATORS : _ACCUMULATORS + ROWS] = np.array(vectors) * width
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


class _Blocks:
    """The loop over blocks, while it is emitted."""

    def __init__(self, code: Code, tables: Any, numbers: Any, base: Any, bare_base: Any) -> None:
        self.code, self.base, self.emitted = code, bare_base, Chain(code, numbers, base)
        self.step, self.apart, self.count = (
            code.load(numbers, int(place), LONG, unit=8) for place in (STEP, APART, BLOCKS)
        )
        self.fraction = code.short(code.load(numbers, FRACTION, LONG, unit=8))
        self.entries, self.pairs, *orders = (
            (code.number(tables) + code.load(numbers, int(place), LONG, unit=8).up(2)).value
            for place in (TABLE, PAIRS, TO_BLOCK, TO_REGISTERS)
        )
        self.orders = [[code.load(order, i, WORDS, unit=64) for i in range(2)] for order in orders]
        self.half, self.exchange = self.emitted.half.compare("!=", 0), code.load(numbers, int(EXCHANGE), LONG, unit=8)
        sparse = code.load(numbers, int(SPREAD), LONG, unit=8).compare("!=", 0)
        self.met = sparse.choose(self.emitted.depth * self.emitted.sums, 0)

    def emit(self, tiles: Any, room: Any, given: tuple[Any, ...], marked: Any, short: Any, ahead: Any) -> None:
        """The loop; see `_blocks`."""
        code = self.code
        c, d, step_c, step_d = (code.number(each) for each in given)
        with code.each(tiles) as t:
            tile, given_c, given_d = code.number(room) + t * self.apart, c + t * step_c, d + t * step_d
            with code.each(self.count) as block:
                fetch_lines(code, ahead, t * self.count + block)
                self._one(block, tile, given_c, given_d, marked, short)

    def _one(self, block: Lanes, tile: Lanes, c: Lanes, d: Lanes, marked: Any, short: Any) -> None:
        code, emitted = self.code, self.emitted
        places = [
            code.wide(code.load(self.entries, block * _ENTRY + i, WORD, unit=4)) for i in range(_ACCUMULATORS + ROWS)
        ]
        of_x, of_y = ([(tile + place).value for place in places[start : start + 4]] for start in (0, 4))
        given, results = ([(start + place).value for place in places[_ACCUMULATORS:]] for start in (c, d))
        sides = InRegisters(
            code, of_x[VALUES], of_x[EXPONENTS], of_y[VALUES], of_y[EXPONENTS], self.step, self.pairs, given, results,
            self.half, self.orders, self.exchange, marked, of_x[MARKS], of_y[MARKS], self.met,
        )  # fmt: skip
        left = Slot(code.long(1))

        def try_it() -> None:
            def add() -> None:
                short_sums.emit(code, sides, emitted.sums, emitted.depth, self.base)
                left.set(code.long(0))

            few = short_sums.is_short_at(code, of_x[SQUARES], of_y[SQUARES], self.fraction)
            code.branch(few, add)

        code.branch(short, try_it)
        code.branch(left.get(), lambda: emitted.emit(sides))


@intrinsic
def _blocks(typingctx, tiles, tables, numbers, room, given, bases, marked, short, ahead):  # type: ignore[no-untyped-def]
    """All blocks of some tiles, from the accumulators in the registers to the results.

    room: of the first tile; given: addresses of C and D, and the bytes from a tile's to the next. bases: as for
    `nests.blocks`, and of short sums. marked: whether there are marks. short: whether sums may be short, so that there
    are squares.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, tables, numbers, room, given, bases, marked, short, ahead = args
        loop = _Blocks(vector_code(builder), tables, numbers, *cgutils.unpack_tuple(builder, bases))
        loop.emit(tiles, room, cgutils.unpack_tuple(builder, given), marked, short, ahead)
        return context.get_dummy_value()

    address, long = types.uint64, types.int64
    kinds = [long, address, address, address, types.UniTuple(address, 4), types.UniTuple(long, 2), long, long, address]
    return types.none(*kinds), codegen


@merged
def _there(numbers, place):  # type: ignore[no-untyped-def]
    """The bytes before values, exponents, marks and squares in a tile's room."""
    return number(numbers, place), number(numbers, place + 1), number(numbers, place + 2), number(numbers, place + 3)


@merged
def _pick(tiles, x, y, step_x, step_y, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Pick the words of x of some tiles, and of y; returns where these are, and the bytes from a tile to the next."""
    through, apart, picks = within(room, numbers, WORDS_X), number(numbers, PICKED), uint64(number(numbers, PICK))
    call(picks, (tiles, x, step_x, within(tables, numbers, PICKS), through, apart))
    if number(numbers, PICKS_Y):
        through, apart = within(room, numbers, WORDS_Y), number(numbers, PICKED_Y)
        call(picks, (tiles, y, step_y, within(tables, numbers, PICKS_Y), through, apart))
        return through, apart
    return y, step_y


@merged
def _spread(tiles, e, step, tables, numbers, room, bare):  # type: ignore[no-untyped-def]
    """Put what is stored of y into its places; returns MISFIT if the metadata is illegal, else 0."""
    if not number(numbers, SPREAD):
        return int64(0)
    bad = spread_rows(
        tiles, e, step, within(tables, numbers, SPREAD), number(numbers, OF_Y) // ROWS, number(numbers, CHUNKS),
        number(numbers, CHUNK), number(numbers, STORED), within(room, numbers, TILES), number(numbers, APART),
        _there(numbers, int64(OF_STORED_THERE)), _there(numbers, int64(OF_Y_THERE)), bare,
    )  # fmt: skip
    return int64(packing.MISFIT) if bad else int64(0)


@merged
def _pack(tiles, y, step, tables, numbers, room, care):  # type: ignore[no-untyped-def]
    """Pack x, whose words are picked, and y of some tiles; returns what `tcemu.kernels.direct_packing` finds."""
    groups, vectors, few = number(numbers, GROUPS), number(numbers, OF_Y), number(numbers, FEW)
    there, apart = within(room, numbers, TILES), number(numbers, APART)
    to_x, to_y = _there(numbers, int64(OF_X_THERE)), _there(numbers, int64(OF_STORED_THERE))
    if care:
        clear(tiles, there + uint64(to_x[MARKS]), apart, groups)
        clear(tiles, there + uint64(to_y[MARKS]), apart, vectors)
    found = pack_columns(
        tiles, within(room, numbers, WORDS_X), number(numbers, PICKED), within(tables, numbers, SOURCE),
        within(tables, numbers, UPS_X), number(numbers, OF_GROUP), groups, numbers + uint64(8 * FORMAT_X),
        number(numbers, START_X), few, care, there, apart, to_x,
    )  # fmt: skip
    if found & packing.MISFIT:
        return found
    found |= pack_rows(
        tiles, y, step, number(numbers, HALF), within(tables, numbers, TAKEN), within(tables, numbers, UPS_Y),
        number(numbers, PER), vectors, number(numbers, LONG_Y), numbers + uint64(8 * FORMAT_Y),
        number(numbers, START_Y), few, care, there, apart, to_y,
    )  # fmt: skip
    if found & packing.MARKED:
        fold_marks(tiles, there + uint64(to_y[MARKS]), apart, vectors, number(numbers, PARTS))
    return found


@merged
def _pack_bare(tiles, y, step, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Pack x, whose words are picked, and y of some tiles without exponents; returns how many blocks are short.

    None of them if an element is not finite.
    """
    there, apart, runs = within(room, numbers, TILES), number(numbers, APART), number(numbers, RUNS)
    found = bare_columns(
        tiles, within(room, numbers, WORDS_X), number(numbers, PICKED), within(tables, numbers, ORDER),
        number(numbers, WORDS_OF_X), runs, numbers + uint64(8 * FORMAT_X), there, apart,
        _there(numbers, int64(OF_X_THERE)),
    )  # fmt: skip
    if found:
        return int64(0)
    found = bare_rows(
        tiles, y, step, number(numbers, OF_Y), runs, number(numbers, PARTS), numbers + uint64(8 * FORMAT_Y), there,
        apart, _there(numbers, int64(OF_STORED_THERE)),
    )  # fmt: skip
    return int64(0) if found else _short(tiles, tables, numbers, room)


@merged
def _short(tiles, tables, numbers, room):  # type: ignore[no-untyped-def]
    """How many blocks of some tiles have short sums, according to their squares."""
    there, entries, found = within(room, numbers, TILES), within(tables, numbers, TABLE), int64(0)
    for t in range(tiles):
        tile = there + uint64(t * number(numbers, APART))
        for block in range(number(numbers, BLOCKS)):
            entry = entries + uint64(4 * _ENTRY * block)
            found += is_short(tile + _word(entry, SQUARES), tile + _word(entry, 4 + SQUARES), numbers)
    return found


@merged
def _word(words, place):  # type: ignore[no-untyped-def]
    """The word at a place of the words at an address."""
    return uint64(number(words, int64(place) // 2) >> (32 * (int64(place) % 2)) & int64(0xFFFFFFFF))


@merged
def _elsewhere(tiles, x, y, c, d, steps, step_d, there):  # type: ignore[no-untyped-def]
    """Compute some tiles as NOT_THERE says that it can be."""
    at_x, at_y, step_x, step_y = (y, x, steps[1], steps[0]) if there[7] == 0 else (x, y, steps[0], steps[1])
    together = number(uint64(there[2]), loading.TOGETHER)
    for t in range(0, tiles, together):
        of_x, of_y, of_c, of_d = uint64(t * step_x), uint64(t * step_y), uint64(t * steps[2]), uint64(t * step_d)
        some = min(together, tiles - t)
        operands = at_x + of_x, at_y + of_y, c + of_c, d + of_d, step_x, step_y, steps[2], step_d
        call(uint64(there[0]), (some, *operands, there[1], there[2], there[3], there[4], there[5], there[6]))


@njit(cache=True, nogil=True, error_model="numpy")
def run_direct(x, y, c, e, tables, numbers, scratch, d, sharing, wait, there):  # type: ignore[no-untyped-def]
    """The results d (tiles, words) of tiles that nobody else has taken; returns the first that is left out.

    x, y, c and e (tiles, words): words of B, A and C, or of A, B and C; and of metadata, if A is sparse. tables,
    numbers: of `Direct`; scratch: as much room. sharing: from `share_tiles`. With `wait`, all tiles are done when it
    returns. there: where tiles that do not fit are computed; if that is NOT_THERE, the first of them and what follows
    it in its part are left out.
    """
    room, at, told = uint64(scratch.ctypes.data), uint64(tables.ctypes.data), uint64(numbers.ctypes.data)
    given, steps = addresses(x, y, c, e)
    to_d, step_d = uint64(d.ctypes.data), 4 * d.shape[1]
    count, together, base = d.shape[0], numbers[TOGETHER], numbers[START_X] + numbers[START_Y]
    possible = numbers[BARE] and may_be_short(told, FORMAT_X, FORMAT_Y, uint64(0))
    shares, size = uint64(sharing.ctypes.data), PART * together
    if there[0]:
        put(uint64(there[4]), int64(NOTES), int64(0))
    # Until these tiles, there are likely NaN, sums that are not short, and elements that do not fit.
    careful, long, elsewhere, patience = int64(0), int64(0), int64(0), int64(0)
    part = take(shares, size)
    while part < count:
        stop, t, single = min(part + size, count), part, part
        while t < stop:
            # One by one where some of several tiles did not fit.
            tiles = int64(1) if t < single else min(together, stop - t)
            ahead = expect(within(room, told, AHEAD), t + tiles, stop, given, steps, to_d, step_d, numbers[BLOCKS])
            at_x, at_y = given[0] + uint64(t * steps[0]), given[1] + uint64(t * steps[1])
            at_c, at_d = given[2] + uint64(t * steps[2]), to_d + uint64(t * step_d)
            few, every, found = int64(0), tiles * numbers[BLOCKS], int64(packing.MISFIT if t < elsewhere else 0)
            if not found:
                words_y, step_y = _pick(tiles, at_x, at_y, steps[0], steps[1], at, told, room)
                if possible and t >= max(long, careful):
                    few = _pack_bare(tiles, words_y, step_y, at, told, room)
                    if 2 * few <= every:
                        # If only a few are short, all of them together take less time as ordinary sums.
                        few, long = int64(0), t + PATIENCE * together
                # First without care if no NaN is expected.
                found = int64(packing.MISFIT) if few != every else int64(0)
                for care in range(int64(t < careful), int64(2)):
                    if found & packing.MISFIT:
                        found = _pack(tiles, words_y, step_y, at, told, room, int64(care))
                        if found & packing.MISFIT and not care:
                            careful = t + PATIENCE * together
                if not found & packing.MISFIT:
                    at_e = given[3] + uint64(t * steps[3])
                    found |= _spread(tiles, at_e, steps[3], at, told, room, int64(few == every))
                if found & packing.MISFIT and there[0] == 0:
                    leave(shares, t)
                    break
                if found & packing.MISFIT and tiles > 1 and not patience:
                    single = t + tiles
                    continue
                if found & packing.MISFIT:
                    elsewhere, patience = t + (patience + 1) * tiles, min(2 * patience + 1, PATIENCE)
            if found & packing.MISFIT:
                _elsewhere(tiles, at_x, at_y, at_c, at_d, steps, step_d, there)
            else:
                patience = int64(0)
                accumulators = at_c, at_d, uint64(steps[2]), uint64(step_d)
                bases, marked = (base, numbers[BASE] if few == every else base), int64(found & packing.MARKED)
                _blocks(tiles, at, told, within(room, told, TILES), accumulators, bases, marked, few, ahead)
            t += tiles
        finish_some(shares, stop - part)
        part = take(shares, size)
    return wait_for_all(shares, count) if wait else count
