"""Batches of instructions whose accumulators blocks take from the registers as they are; see `direct_tables`.

It computes as `tcemu.kernels.products` does, from and to the same words, as long as all elements are zeros, NaN, or
numbers in a window. It stops at tiles that have others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels import direct_packing as packing
from tcemu.kernels import short_sums
from tcemu.kernels.ahead import NOTES, expect, fetch_lines
from tcemu.kernels.blocks import Chain
from tcemu.kernels.calls import call, number
from tcemu.kernels.compiling import merged, njit
from tcemu.kernels.direct_packing import clear, fold_marks, pack_columns, pack_rows, squares_of_rows
from tcemu.kernels.direct_tables import COLUMNS, Order, order_of
from tcemu.kernels.lanes import LONG, WIDTH, WORD, WORDS
from tcemu.kernels.loading import FORMAT_X, FORMAT_Y, within
from tcemu.kernels.moves import pick_at
from tcemu.kernels.picks import picks
from tcemu.kernels.rooms import Parts, whole
from tcemu.kernels.rule import DEPTH, ROWS, SUMS
from tcemu.kernels.short_sums import is_short, may_be_short, squares
from tcemu.kernels.sides import InRegisters
from tcemu.kernels.simd import Slot, vector_code
from tcemu.kernels.windows import above, start_of_window

if TYPE_CHECKING:
    from tcemu.kernels.tiles import Tiles

Array = npt.NDArray[Any]
#: The places of the numbers that the kernel reads besides the rule and the formats of x, which is B, and y, which is A:
#: how many tiles are computed together; how x is loaded (where the table of `pick` begins, its address, bytes of room
#: for the words of a tile, where the tables of `pack_columns` begin, vectors of a group, groups of columns); how y is
#: loaded (where the table of `pack_rows` begins, elements of a word, vectors of words, parts of a vector); whether both
#: formats have few bits, and the starts of their windows; the runs of `squares_of_rows` and what belongs to each; the
#: table of blocks and their number; the orders of lanes; the places of pairs; where room begins for picked words of x,
#: its values, exponents, marks and squares, the same of y, and what is fetched ahead, and all its words.
TOGETHER, PICKS, PICK, PICKED, SOURCE, UPS_X, OF_GROUP, GROUPS, UPS_Y, PER, OF_Y, PARTS = map(np.int64, range(22, 34))
FEW, START_X, START_Y, RUNS, OF_RUN, TABLE, BLOCKS, TO_BLOCK, TO_REGISTERS, PAIRS = map(np.int64, range(34, 44))
WORDS_X, VALUE_X, BYTES_X, MARKS_X, SQUARES_X = map(np.int64, range(44, 49))
VALUE_Y, BYTES_Y, MARKS_Y, SQUARES_Y, AHEAD, ROOM, NUMBERS = map(np.int64, range(49, 56))
#: Words of a block in its table: the bytes of its tile's values of x, of values and exponents of y before its own,
#: those of the pair that is first, the group of columns, the four of A's vectors, and its four vectors of C.
ENTRY = WIDTH
_AT_X, _AT_Y, _AT_BYTES_Y, _PAIR, _GROUP, _FOUR, _VECTORS = range(7)
#: Tiles that are computed together, at most, and the words of room that they may take.
_MOST, _ROOM = 8, 1 << 15
#: After tiles with NaN, so many are expected to have them too; and likewise after tiles with sums that are not short.
PATIENCE = 16
#: Bytes of a vector, and of a pair.
_VECTOR, _PAIR_BYTES = 64, 8


class Direct(NamedTuple):
    """The tables and numbers that `run_direct` takes, and the words that it needs besides."""

    tables: Array
    numbers: Array

    @property
    def room(self) -> int:
        """The words that a call needs besides."""
        return int(self.numbers[ROOM])


def direct(tiles: Tiles) -> Direct | None:
    """How `run_direct` computes these tiles; None if it cannot."""
    order = order_of(tiles)
    return None if order is None else _tables(tiles, order)


def _tables(tiles: Tiles, order: Order) -> Direct:
    n, sums, parts, numbers = tiles.shape[1], tiles.in_order, Parts(), np.zeros(NUMBERS, np.int64)
    of_y, of_x = tiles.formats
    numbers[:FORMAT_X], numbers[FORMAT_X:FORMAT_Y], numbers[FORMAT_Y:TOGETHER] = tiles.rule_in_numbers, of_x, of_y
    # (groups, sums, half of the products, two k, columns)
    elements = sums.reshape(*sums.shape[:1], -1, 2, 1) * n + order.columns[:, None, None, None]
    load = tiles.b.load(elements)
    bits = np.unique(tiles.a.bit)
    groups, of_group = len(order.columns), sums.size // 2
    picked = whole(int(load.picks[0]))
    numbers[PICKS:OF_Y] = (
        parts.add(load.picks), pick_at(), 4 * picked, parts.add(load.source), parts.add(above(of_x) - load.bits),
        of_group, groups, parts.add(above(of_y) - bits), order.per,
    )  # fmt: skip
    pairs = _VECTOR // _PAIR_BYTES
    each = int(order.pairs.max() % pairs) + 1
    numbers[OF_Y], numbers[PARTS], numbers[FEW], numbers[START_X], numbers[START_Y] = (
        order.vectors, pairs // each, tiles.few_bits, start_of_window(of_x), start_of_window(of_y),
    )  # fmt: skip
    runs = _runs(order, sums)
    numbers[RUNS], numbers[OF_RUN] = runs, order.per // runs
    entries = np.zeros((len(order.blocks), ENTRY), np.int64)
    for entry, block in zip(entries, order.blocks, strict=True):
        of_four = block.four * order.per * _VECTOR
        entry[:_VECTORS] = (
            block.group * of_group * 2 * _VECTOR, ROWS * of_four, of_four, block.pair * _PAIR_BYTES, block.group,
            block.four,
        )  # fmt: skip
        entry[_VECTORS : _VECTORS + ROWS] = block.vectors
    numbers[TABLE:WORDS_X] = (
        parts.add(entries), len(entries), parts.add(order.lanes), parts.add(np.argsort(order.lanes)),
        parts.add(order.pairs[sums] * _PAIR_BYTES),
    )  # fmt: skip
    fours = order.vectors // ROWS
    values_x, values_y = 2 * groups * of_group * WIDTH, order.vectors * order.per * WIDTH
    sizes = (
        picked, values_x, values_x, groups * WIDTH, whole(groups), values_y, values_y // ROWS, order.vectors * WIDTH,
        fours * WIDTH, whole(2 * NOTES),
    )  # fmt: skip
    numbers[TOGETHER] = together = min(max(_ROOM // sum(sizes), 1), _MOST)
    numbers[WORDS_X:NUMBERS] = np.cumsum([0, *sizes]) * together
    return Direct(parts.together(), numbers)


def _runs(order: Order, sums: Array) -> int:
    """The sums of a chain, if each has its own elements of a word, side by side; else 1."""
    pairs = _VECTOR // _PAIR_BYTES
    elements, of_run = order.pairs[sums] // pairs, order.per // len(sums)
    own = of_run > 0 and order.per % len(sums) == 0
    return len(sums) if own and (elements // of_run == np.arange(len(sums))[:, None]).all() else 1


@intrinsic
def _blocks(typingctx, tiles, tables, numbers, room, given, base, marked, short, ahead):  # type: ignore[no-untyped-def]
    """All blocks of some tiles, from the accumulators in the registers to the results.

    All but counts and flags are addresses; given: of C and D, and the bytes from a tile's to the next. base: as for
    `nests.blocks`. marked: whether there are marks. short: whether sums may be short, so that there are squares.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, tables, numbers, room, given, base, marked, short, ahead = args
        code = vector_code(builder)
        numbers_at = {place: code.load(numbers, int(place), LONG, unit=8) for place in _READ}

        def table(place: Any) -> Any:
            return (code.number(tables) + numbers_at[place].up(2)).value

        def rooms(place: Any) -> Any:
            return code.number(room) + numbers_at[place].up(2)

        emitted = Chain(code, numbers, base)
        c, d, step_c, step_d = (code.number(each) for each in cgutils.unpack_tuple(builder, given))
        of_x = numbers_at[OF_GROUP] * numbers_at[GROUPS] * (2 * _VECTOR)
        step = numbers_at[PER] * _VECTOR
        of_y, count = numbers_at[OF_Y] * step, numbers_at[BLOCKS]
        half = emitted.half.compare("!=", 0)
        size = half.choose(code.long(_VECTOR // 2), _VECTOR)
        orders = [code.load(table(place), 0, WORDS, unit=64) for place in (TO_BLOCK, TO_REGISTERS)]
        entries, pairs = table(TABLE), table(PAIRS)
        bits = code.short(numbers_at[np.int64(0)])
        with code.each(tiles) as t, code.each(count) as j:
            fetch_lines(code, ahead, t * count + j)
            entry = [code.wide(code.load(entries, j * ENTRY + i, WORD, unit=4)) for i in range(_VECTORS + ROWS)]
            at_x = t * of_x + entry[_AT_X]
            own, marks_y = entry[_PAIR], t * numbers_at[OF_Y] + entry[_FOUR].up(2)
            vectors = [each * size for each in entry[_VECTORS:]]
            at_four = t * numbers_at[OF_Y].down(2) + entry[_FOUR]
            at_group = t * numbers_at[GROUPS] + entry[_GROUP]
            sides = InRegisters(
                code,
                (rooms(VALUE_X) + at_x).value,
                (rooms(BYTES_X) + at_x).value,
                (rooms(VALUE_Y) + t * of_y + entry[_AT_Y] + own).value,
                (rooms(BYTES_Y) + t * of_y.down(2) + entry[_AT_BYTES_Y] + own).value,
                step,
                pairs,
                [(c + t * step_c + each).value for each in vectors],
                [(d + t * step_d + each).value for each in vectors],
                half,
                *orders,
                marked,
                (rooms(MARKS_X) + at_group * _VECTOR).value,
                (rooms(MARKS_Y) + marks_y * _VECTOR + own).value,
            )
            left = Slot(code.long(1))

            def try_it(sides=sides, at_group=at_group, at_four=at_four, own=own, left=left):  # type: ignore[no-untyped-def]
                at = rooms(SQUARES_X) + at_group.up(2), rooms(SQUARES_Y) + at_four * _VECTOR + own
                few = short_sums.is_short_at(code, *(each.value for each in at), bits)

                def add() -> None:
                    short_sums.emit(code, sides, emitted.sums, emitted.depth, base)
                    left.set(code.long(0))

                code.branch(few, add)

            code.branch(short, try_it)
            code.branch(left.get(), lambda sides=sides: emitted.emit(sides))
        return context.get_dummy_value()

    address, long = types.uint64, types.int64
    kinds = [long, address, address, address, types.UniTuple(address, 4), long, long, long, address]
    return types.none(*kinds), codegen


#: The numbers that `_blocks` reads.
_READ = (
    np.int64(0), PER, OF_GROUP, GROUPS, OF_Y, BLOCKS, TABLE, TO_BLOCK, TO_REGISTERS, PAIRS, VALUE_X, BYTES_X, MARKS_X,
    SQUARES_X, VALUE_Y, BYTES_Y, MARKS_Y, SQUARES_Y,
)  # fmt: skip


@merged
def _pack(tiles, x, y, steps, tables, numbers, room, care, bare):  # type: ignore[no-untyped-def]
    """Pack x and y of some tiles; returns what `tcemu.kernels.direct_packing` finds."""
    through, apart = within(room, numbers, WORDS_X), number(numbers, PICKED)
    call(uint64(number(numbers, PICK)), (tiles, x, steps[0], within(tables, numbers, PICKS), through, apart))
    of_group, groups, few = number(numbers, OF_GROUP), number(numbers, GROUPS), number(numbers, FEW) * (1 - care)
    marks_x, marks_y, vectors = within(room, numbers, MARKS_X), within(room, numbers, MARKS_Y), number(numbers, OF_Y)
    if care:
        clear(marks_x, tiles * groups)
        clear(marks_y, tiles * vectors)
    found = pack_columns(
        tiles, through, apart, within(tables, numbers, SOURCE), within(tables, numbers, UPS_X), of_group, groups,
        numbers + uint64(8 * FORMAT_X), number(numbers, START_X), few, care, bare, within(room, numbers, VALUE_X),
        within(room, numbers, BYTES_X), marks_x,
    )  # fmt: skip
    if found & packing.MISFIT:
        return found
    found |= pack_rows(
        tiles, y, steps[1], within(tables, numbers, UPS_Y), number(numbers, PER), vectors,
        numbers + uint64(8 * FORMAT_Y), number(numbers, START_Y), few, care, bare, within(room, numbers, VALUE_Y),
        within(room, numbers, BYTES_Y), marks_y,
    )  # fmt: skip
    if found & packing.MARKED:
        fold_marks(marks_y, tiles * vectors, number(numbers, PARTS))
    return found


@merged
def _short(tiles, tables, numbers, room):  # type: ignore[no-untyped-def]
    """How many blocks of some tiles have short sums; finds the squares for that."""
    groups, fours, count = number(numbers, GROUPS), number(numbers, OF_Y) // ROWS, number(numbers, BLOCKS)
    squares_x, squares_y = within(room, numbers, SQUARES_X), within(room, numbers, SQUARES_Y)
    squares(
        within(room, numbers, VALUE_X), tiles * groups, number(numbers, SUMS), number(numbers, DEPTH), int64(0),
        squares_x,
    )  # fmt: skip
    squares_of_rows(
        within(room, numbers, VALUE_Y), tiles * fours, number(numbers, OF_RUN), number(numbers, RUNS),
        number(numbers, PARTS), squares_y,
    )  # fmt: skip
    found, entries = int64(0), within(tables, numbers, TABLE)
    for t in range(tiles):
        for block in range(count):
            entry = entries + uint64(4 * ENTRY * block)
            at_x = t * groups + _entry(entry, _GROUP)
            at_y = (t * fours + _entry(entry, _FOUR)) * _VECTOR + _entry(entry, _PAIR)
            found += is_short(squares_x + uint64(4 * at_x), squares_y + uint64(at_y), numbers)
    return found


@merged
def _entry(entry, place):  # type: ignore[no-untyped-def]
    """A word of a block in its table."""
    return number(entry, int64(place) // 2) >> (32 * (int64(place) % 2)) & int64(0xFFFFFFFF)


@njit(cache=True, nogil=True, error_model="numpy")
def run_direct(x, y, c, tables, numbers, scratch, d, start):  # type: ignore[no-untyped-def]
    """The results d (tiles, words) of tiles from `start` on; returns the first tile that it does not compute.

    x, y and c (tiles, words): words of B, A and C. tables, numbers: of `Direct`; scratch: as much room.
    """
    room, at, told = uint64(scratch.ctypes.data), uint64(tables.ctypes.data), uint64(numbers.ctypes.data)
    words_x, words_y, words_c, to_d = (
        uint64(x.ctypes.data), uint64(y.ctypes.data), uint64(c.ctypes.data), uint64(d.ctypes.data),
    )  # fmt: skip
    steps, step_d = (4 * x.shape[1], 4 * y.shape[1], 4 * c.shape[1], 0), 4 * d.shape[1]
    count, together, base = d.shape[0], numbers[TOGETHER], numbers[START_X] + numbers[START_Y]
    possible, careful, full = may_be_short(told, FORMAT_X, FORMAT_Y, uint64(0)), start, start
    for t in range(start, count, together):
        tiles = min(together, count - t)
        given = words_x, words_y, words_c, words_c
        ahead = expect(within(room, told, AHEAD), t + tiles, count, given, steps, to_d, step_d, numbers[BLOCKS])
        at_x, at_y = words_x + uint64(t * steps[0]), words_y + uint64(t * steps[1])
        care, bare = int64(t < careful), int64(possible and t >= full)
        found = _pack(tiles, at_x, at_y, steps, at, told, room, care, bare)
        if found & packing.MISFIT and not care:
            careful = t + PATIENCE * together
            found = _pack(tiles, at_x, at_y, steps, at, told, room, int64(1), bare)
        if found & packing.MISFIT:
            return t
        short = int64(0)
        if possible:
            few, every = _short(tiles, at, told, room), tiles * numbers[BLOCKS]
            # If only a few are short, all of them together take less time as ordinary sums.
            short = int64(2 * few > every)
            if few != every:
                full = t + PATIENCE * together
                if bare:
                    found = _pack(tiles, at_x, at_y, steps, at, told, room, int64(t < careful), int64(0))
        addresses = words_c + uint64(t * steps[2]), to_d + uint64(t * step_d), uint64(steps[2]), uint64(step_d)
        _blocks(tiles, at, told, room, addresses, base, int64(found & packing.MARKED), short, ahead)
    return count
