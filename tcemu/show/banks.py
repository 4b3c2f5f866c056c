"""Banks of shared memory under one access: what each delivers; and the rows of a tile that an ldmatrix reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly, counted, listing, ranges, span, whole
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid, cell, notes
from tcemu.show.svg import Drawing
from tcemu.timing.banks import BANKS, WORD
from tcemu.timing.wavefronts import Part, Wavefronts, wavefronts


@explained
def banks(wavefronts: Wavefronts) -> Picture:
    """How many different words each bank delivers in each part; the busiest banks of a part are marked.

    `wavefronts` is what tcemu.wavefronts returns for one warp. Raises OperandError for the result of many warps: pass
    one of them, banks(result[0]).

    >>> tcemu.show.banks(tcemu.wavefronts(8 * np.arange(32), "ld.shared.b32")).title
    'ld.shared.b32: 2 wavefronts, 1 without conflicts'
    """
    parts = wavefronts.parts
    loads = [_loads(wavefronts, part) for part in parts]
    grid = Grid(118, 38, 22, 26, len(parts), BANKS)
    head = grid.above(range(BANKS)), svg.text(grid.left - 8, grid.top - 8, "bank", "s t", "end")
    rows = [_part(grid, row, part, load) for row, (part, load) in enumerate(zip(parts, loads, strict=True))]
    says = "A number: different words that the bank delivers, one in each wavefront."
    slow = " Hatched: the banks that decide how many." if any(part.wavefronts > 1 for part in parts) else ""
    body = head, rows, svg.text(16, grid.bottom + 22, says + slow, "s")
    count = counted(int(wavefronts.count), "wavefront")
    title = f"{wavefronts.access}: {count}, {wavefronts.least} without conflicts"
    words = " ".join(map(_busiest, range(len(parts)), parts, loads))
    return picture(title, words, grid.right + 130, grid.bottom + 36, body)


def _loads(wavefronts: Wavefronts, part: Part) -> Counter[int]:
    """Different words by bank, in one part."""
    granule = wavefronts.access.granule
    starts = {int(wavefronts.addresses[lane]) // granule * granule for lane in part.lanes}
    return Counter((start + offset) // WORD % BANKS for start in starts for offset in range(0, granule, WORD))


def _part(grid: Grid, row: int, part: Part, load: Counter[int]) -> Iterator[Drawing]:
    low = grid.at(row, 0).base
    yield svg.text(16, low, f"lanes {ranges(part.lanes, '–')}", "s")
    for bank in range(BANKS):
        words = load[bank]
        tone, look = ("f", "n c") if words else ("p", "n c q")
        yield cell(grid.at(row, bank), words or "·", tone, look, words == part.wavefronts > 1)
    yield _cost(part, grid.right + 12, low)


def _cost(part: Part, x: float, y: float) -> str:
    """The wavefronts of a part, in bold if there are several."""
    return svg.text(x, y, counted(part.wavefronts, "wavefront"), "b" if part.wavefronts > 1 else "s")


def _busiest(number: int, part: Part, load: Counter[int]) -> str:
    busy = [bank for bank in range(BANKS) if load[bank] == part.wavefronts]
    most = f"at most {counted(part.wavefronts, 'word')} from a bank, from bank{'s' * (len(busy) > 1)} {ranges(busy)}"
    return f"Part {number}, lanes {ranges(part.lanes)}: {counted(part.wavefronts, 'wavefront')}, {most}."


LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
#: Bytes of a unit: a row of an 8 by 8 matrix of 16-bit elements.
UNIT = 16
ROWS = 16
_LEFT, _TOP, _HIGH = 58, 58, 26


@dataclass(frozen=True)
class Tile:
    """16 rows of a tile, and the unit at which an ldmatrix.x4 of 16 by 16 elements begins."""

    row_bytes: int
    padding: int
    swizzle: int
    unit: int

    @property
    def units(self) -> int:
        """Units of a row."""
        return self.row_bytes // UNIT

    def address(self, row: int, unit: int) -> int:
        """The byte address of a unit."""
        turn = row // max(1, BANKS * WORD // self.row_bytes) % self.swizzle
        return row * (self.row_bytes + self.padding) + UNIT * (unit ^ turn)

    def bank(self, row: int, unit: int) -> int:
        """The first of the four banks of a unit."""
        return self.address(row, unit) // WORD % BANKS

    @property
    def addresses(self) -> npt.NDArray[np.int64]:
        """What the 32 lanes give to ldmatrix.x4: lanes 0 to 15 the rows of a unit, the others those of the next."""
        return np.array([self.address(lane % ROWS, self.unit + lane // ROWS) for lane in range(32)])

    def read(self, part: int) -> list[tuple[int, int]]:
        """The rows and units that a part reads: one of the four 8 by 8 matrices."""
        return [(8 * (part % 2) + row, self.unit + part // 2) for row in range(8)]


@explained
def padded_tile(row_bytes: int = 128, padding: int = 0, swizzle: int = 1, unit: int = 0) -> Picture:
    """The banks of every 16-byte unit of a tile with 16 rows, and the wavefronts of an ldmatrix.x4 that reads it.

    `row_bytes` is 32, 64, 128 or 256, and `padding` the unused bytes after each row, a multiple of 16. A `swizzle` of
    2, 4 or 8 swaps that many units, 1 none. The ldmatrix.x4 loads 16 by 16 elements of 16 bits at `unit` and the
    unit after it. Units of a part that compete for the same banks are marked.
    Raises OperandError for anything else.

    >>> tcemu.show.padded_tile(128).title
    '128-byte rows, no padding, no swizzle: 32 wavefronts, 4 without conflicts'
    >>> tcemu.show.padded_tile(128, padding=16).title
    '128-byte rows, 16 bytes of padding, no swizzle: 4 wavefronts, 4 without conflicts'
    >>> tcemu.show.padded_tile(128, swizzle=8).title
    '128-byte rows, no padding, unit XOR row mod 8: 4 wavefronts, 4 without conflicts'
    """
    tile = _tile(row_bytes, padding, swizzle, unit)
    cost = wavefronts(tile.addresses, LDMATRIX)
    grid = Grid(_LEFT, _TOP, 448 / tile.units, _HIGH, ROWS, tile.units)
    parts = Grid(grid.right + 108, _TOP, 36, 2 * _HIGH, len(cost.parts), 8)
    legend = (
        "A number: the first of the unit's four banks. Framed: the 8 × 8 matrices that ldmatrix.x4 reads, one by one.",
        "Hatched: other units of the same part are in the same banks.",
    )
    body = _units(tile, grid), _parts(tile, parts, cost), notes(_LEFT, grid.bottom + 22, legend)
    count = counted(int(cost.count), "wavefront")
    title = f"{row_bytes}-byte rows, {_moved(tile)}: {count}, {cost.least} without conflicts"
    return picture(title, _in_words(tile, cost), parts.right + 116, grid.bottom + 54, body)


def _tile(row_bytes: object, padding: object, swizzle: object, unit: object) -> Tile:
    if row_bytes not in (32, 64, 128, 256):
        raise OperandError(f"rows must have 32, 64, 128 or 256 bytes here; got {briefly(row_bytes)}")
    size = whole(row_bytes, "a number of bytes")
    units, gap, turn = size // UNIT, whole(padding, "the padding"), whole(swizzle, "a swizzle")
    if not 0 <= gap <= 128 or gap % UNIT:
        raise OperandError(f"the padding must be a multiple of {UNIT} bytes, for ldmatrix, up to 128; got {gap}")
    turns = [each for each in (1, 2, 4, 8) if each <= units]
    if turn not in turns:
        raise OperandError(f"a swizzle swaps {listing(turns)} of the {units} units of a row; got {turn}")
    start = whole(unit, "a unit")
    if not 0 <= start < units - 1:
        raise OperandError(f"unit {start}: the ldmatrix.x4 reads it and the next one, so it is {span(0, units - 2)}")
    return Tile(size, gap, turn, start)


def _moved(tile: Tile) -> str:
    """Padding and swizzle in words."""
    padding = f"{tile.padding} bytes of padding" if tile.padding else "no padding"
    shared = max(1, BANKS * WORD // tile.row_bytes)
    row = f"(row div {shared})" if shared > 1 else "row"
    swizzle = f"unit XOR {row} mod {tile.swizzle}" if tile.swizzle > 1 else "no swizzle"
    return f"{padding}, {swizzle}"


# ---------------------------------------------------------------------------------------------- drawing


def _busy(tile: Tile, part: int) -> Counter[int]:
    """How many units of a part begin in each bank."""
    return Counter(tile.bank(row, unit) for row, unit in tile.read(part))


def _units(tile: Tile, grid: Grid) -> Drawing:
    """The units, those that are read on top, those in conflict marked."""
    plain, loud = list[Drawing](), list[Drawing]()
    read = {place: part for part in range(4) for place in tile.read(part)}
    busy = [_busy(tile, part) for part in range(4)]
    for row, unit in np.ndindex(ROWS, tile.units):
        part, bank = read.get((row, unit)), tile.bank(row, unit)
        if part is None:
            plain.append(cell(grid.at(row, unit), bank, "p", "n c q", marked=False))
        else:
            loud.append(cell(grid.at(row, unit), bank, "fb", "n b c", marked=busy[part][bank] > 1))
    frames = [grid.block(*tile.read(part)[0], 8, 1).rect("k") for part in range(4)]
    title = svg.text(_LEFT, 20, "16 rows of the tile, in units of 16 bytes", "b")
    units = [unit if unit or grid.wide < 36 else "unit 0" for unit in range(tile.units)]
    return plain, loud, frames, title, grid.beside(["row 0", *range(1, ROWS)], gap=8), grid.above(units, "s t c")


def _parts(tile: Tile, grid: Grid, cost: Wavefronts) -> Iterator[Drawing]:
    """For each part, how many units each four banks deliver."""
    left = grid.left
    yield svg.text(left - 70, 20, "ldmatrix.x4, part by part: units from each four banks", "b")
    yield grid.above([f"{4 * place}–{4 * place + 3}" for place in range(8)], "s t c")
    for part, each in enumerate(cost.parts):
        y, busy, rows = grid.at(part, 0).y, _busy(tile, part), tile.read(part)
        yield svg.text(left - 8, y + 13, f"rows {span(rows[0][0], rows[-1][0], '–')}", "s t", "end")
        yield svg.text(left - 8, y + 27, f"unit {rows[0][1]}", "s t", "end")
        for place in range(8):
            units = busy[4 * place]
            tone, look = ("fb", "n c") if units else ("p", "n c q")
            yield cell(grid.at(part, place)._replace(high=34), units or "·", tone, look, marked=units > 1)
        yield _cost(each, grid.right + 10, y + 21)
    total = f"{counted(int(cost.count), 'wavefront')}; without conflicts {cost.least}"
    yield svg.text(left, grid.bottom + 20, total, "b")


def _in_words(tile: Tile, cost: Wavefronts) -> str:
    """The text alternative: the banks of the units that each part reads, and its wavefronts."""
    parts = []
    for part, each in enumerate(cost.parts):
        read = tile.read(part)
        banks = ", ".join(str(tile.bank(row, unit)) for row, unit in read)
        rows = f"rows {span(read[0][0], read[-1][0])}, unit {read[0][1]}"
        parts.append(f"Part {part}, {rows}: first banks {banks}; {counted(each.wavefronts, 'wavefront')}.")
    return f"Each unit of 16 bytes is in four banks. {' '.join(parts)}"
