"""A sparse A for `tcemu.kernels.direct`: stored elements, which are packed as they come, take their places in a row.

    stored        a vector for each element of a word          words of rows g and g + 8, as the registers have them
    row           a vector for each k that it stands for       one of the stored elements of its chunk, or none

Four bits of metadata, the code of a chunk, say where its stored elements belong. The codes of four rows are the bytes
of a word, as their exponents are, and tables of sixteen bytes say for each code which elements a place takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.lanes import BYTES, REALS, WIDTH, WORDS, Lanes
from tcemu.kernels.places import CODES
from tcemu.kernels.rooms import Tiles as Rooms
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import NOT_STORED

if TYPE_CHECKING:
    from tcemu.kernels.places import Place, Pruned

Array = npt.NDArray[np.int64]
#: Words of metadata of a tile: two vectors.
METADATA = 2 * WIDTH
#: The places of a chunk, at most, and its stored elements.
_PLACES, _STORED = 4, 2
#: The vectors of a table before those of rows: which codes are illegal; and for each place, and each stored element,
#: which codes put that element there.
_HEAD = 1 + _PLACES * _STORED


class Spread(NamedTuple):
    """How stored elements take their places.

    table: for `spread_rows`. chunks: of a word. chunk: places of a chunk. stored: its stored elements. pairs: for each
    k, its place in a row, in pairs.
    """

    table: Array
    chunks: int
    chunk: int
    stored: int
    pairs: Array


def spread_of(pruned: Pruned, a: Place, shape: tuple[int, int], pairs: Array, per_vector: int) -> Spread | None:
    """How the stored elements of A (m, k) take their places; None if a chunk is not a part of a word.

    pairs: for each of them, its place in a row of stored elements. per_vector: pairs of a vector.
    """
    (m, k), stored, chunk = shape, pruned.stored, pruned.chunk
    words, kind, place = a.word.reshape(m, k), pairs // per_vector, pairs % per_vector
    chunks = (int(kind.max()) + 1) // stored
    first = kind[::stored]
    # The elements of a chunk lie side by side in a word.
    together = (kind.reshape(-1, stored) == first[:, None] + np.arange(stored)).all() and (first % stored == 0).all()
    same = (place.reshape(-1, stored) == place[::stored, None]).all()
    if not together or not same or chunk > _PLACES or pruned.word.max() >= METADATA or words.size % WIDTH:
        return None
    of_k = (first[:, None] // stored * chunk + np.arange(chunk)) * per_vector + place[::stored, None]
    at, bits = (np.zeros((words.max() + 1, chunks), np.int64) for _ in range(2))
    number = np.arange(k // stored)
    at[words[:, ::stored], first // stored] = pruned.word[:, number]
    bits[words[:, ::stored], first // stored] = pruned.bit[:, number]
    codes = np.stack([each.reshape(-1, WIDTH, chunks).transpose(0, 2, 1) for each in (at, bits)], axis=2)
    return Spread(np.concatenate([_head(pruned), codes.ravel()]), chunks, chunk, stored, of_k.ravel())


def _head(pruned: Pruned) -> Array:
    """The first vectors of the table: sixteen bytes, four times."""
    numbers = [pruned.illegal]
    numbers += [
        pruned.codes_with(i, place) if place < pruned.chunk and i < pruned.stored else 0
        for place in range(_PLACES)
        for i in range(_STORED)
    ]
    found = np.array([[255 * (number >> code & 1) for code in range(CODES)] for number in numbers], np.uint8)
    return np.tile(found, (1, 4)).view(np.uint32).ravel().astype(np.int64)


class _Spread:
    """The loops that put elements into their places, while they are emitted."""

    def __init__(self, code: Code, table: Any, chunks: Any, chunk: Any, stored: Any, bare: Any) -> None:
        self.code, self.table, self.bare = code, table, code.number(bare)
        self.chunks, self.chunk, self.stored = (code.number(each) for each in (chunks, chunk, stored))
        self.bad = Slot(code.lanes(0).seen_as(BYTES))

    def emit(self, tiles: Any, e: Rooms, fours: Lanes, rooms: Rooms, given: list[Lanes], to: list[Lanes]) -> Any:
        """All loops; returns whether a code is illegal: not 0."""
        code = self.code
        with code.each(tiles) as t:
            metadata = [code.load(e.of(t), i, WORDS, unit=64) for i in range(METADATA // WIDTH)]
            held, into = ([(code.number(rooms.of(t)) + each).value for each in places] for places in (given, to))
            with code.each(fours) as four, code.each(self.chunks) as number:
                codes = self._codes(metadata, four, number)
                self.bad.set(self.bad.get() | self._looked_up(0, codes))
                self._chunk(four, number, codes, held, into)
        return code.number_of_any(self.bad.get().seen_as(WORDS).compare("!=", 0))

    def _codes(self, metadata: list[Lanes], four: Lanes, number: Lanes) -> Lanes:
        """The codes of four rows, a byte each."""
        code, words = self.code, self.code.lanes(0)
        for row in range(ROWS):
            at = ((four * ROWS + row) * self.chunks + number).up(1) + _HEAD
            which, bit = (code.load(self.table, at + i, WORDS, unit=64) for i in range(2))
            found = code.picked(metadata[0], metadata[1], which).down(bit) & (CODES - 1)
            words = words | found.up(8 * row)
        return words.seen_as(BYTES)

    def _looked_up(self, number: int, codes: Lanes) -> Lanes:
        """The bytes of a vector of the table for these codes."""
        return self.code.looked_up(self.code.load(self.table, number, BYTES, unit=64), codes)

    def _chunk(self, four: Lanes, number: Lanes, codes: Lanes, held: list[Any], into: list[Any]) -> None:
        """The vectors of one chunk of each word of four rows, and their exponents."""
        code, of_row, of_stored = self.code, self.chunks * self.chunk, self.chunks * self.stored
        sources = [number * self.stored, (number + 1) * self.stored - 1]
        rows = [four * ROWS + row for row in range(ROWS)]
        values = [[code.load(held[0], v * of_stored + each, REALS, unit=64) for each in sources] for v in rows]
        targets = [(code.number(into[0]) + (v * of_row + number * self.chunk) * 64).value for v in rows]

        def places(first: int) -> None:
            for place in range(first, first + _STORED):
                masks = [self._looked_up(place * _STORED + (i + 1), codes) for i in range(_STORED)]
                code.branch(self.bare, lambda: None, lambda place=place, masks=masks: exponents(place, masks))  # type: ignore[misc]
                for row, (target, (one, other)) in enumerate(zip(targets, values, strict=True)):
                    takes = [(mask.seen_as(WORDS) & (0xFF << 8 * row)).compare("!=", 0) for mask in masks]
                    code.store(takes[0].choose(one, takes[1].choose(other, 0.0)), target, place, unit=64)

        def exponents(place: int, masks: list[Lanes]) -> None:
            absent = ~(masks[0] | masks[1]) & NOT_STORED
            taken = [code.load(held[1], four * of_stored + source, BYTES, unit=64) for source in sources]
            found = (taken[0] & masks[0]) | (taken[1] & masks[1]) | absent
            code.store(found, into[1], four * of_row + number * self.chunk + place, unit=64)

        places(0)
        code.branch(self.chunk.compare(">", _STORED), lambda: places(_STORED))


@intrinsic
def spread_rows(  # type: ignore[no-untyped-def]
    typingctx, tiles, e, step, table, fours, chunks, chunk, stored, room, apart, given, to, bare,
):
    """y of some tiles from its stored elements, and their metadata e; returns whether that is illegal: not 0.

    step: the bytes from a tile's metadata to the next. table, chunks, chunk, stored: of `Spread`; fours: of rows. room,
    apart, to: as for `pack_rows`; given: the same of the stored elements. bare: whether there are no exponents.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, e, step, table, fours, chunks, chunk, stored, room, apart, given, to, bare = args
        places = [[code.number(each) for each in cgutils.unpack_tuple(builder, every)] for every in (given, to)]
        emitted = _Spread(code, table, chunks, chunk, stored, bare)
        rooms = Rooms(room, code.number(apart))
        return emitted.emit(tiles, Rooms(e, code.number(step)), code.number(fours), rooms, *places)

    long, address, four = types.int64, types.uint64, types.UniTuple(types.int64, 4)
    kinds = [long, address, long, address, *[long] * 4, address, long, four, four, long]
    return long(*kinds), codegen
