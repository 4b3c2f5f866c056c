"""A tile in shared memory: 128-byte lines in 16-byte units, with what each holds, or with what an ldmatrix reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError, OperandError, briefly, counted, span
from tcemu.formats.arrays import as_array
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import Canonical, Element, Major
from tcemu.layouts.descriptor import as_bits, tile_addresses
from tcemu.layouts.swizzle import swizzled, turn
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Cell, Grid, cells, notes
from tcemu.show.svg import Drawing
from tcemu.timing.wavefronts import Wavefronts, wavefronts


@dataclass(frozen=True)
class SharedLines:
    """Where the 16-byte units of some lines are drawn, and the labels beside them."""

    #: Numbers of the lines (address div 128), ascending.
    lines: list[int]
    swizzle: int
    base_offset: int = 0
    #: Room to the right of the units.
    margin: float = 84

    @property
    def grid(self) -> Grid:
        """A row for each line, a box for each unit."""
        return Grid(84, 56, 92, 22, len(self.lines), 8)

    @property
    def jumps(self) -> bool:
        """Whether lines are left out between two of those shown."""
        return any(after != before + 1 for before, after in zip(self.lines, self.lines[1:], strict=False))

    def turn(self, line: int) -> int:
        """What the unit numbers of a line are XORed with."""
        return int(turn(np.array(line), self.swizzle, self.base_offset))

    def drawn(self, held: Callable[[int], Cell]) -> Drawing:
        """The lines with what each unit (address div 16) holds, and the labels around them."""
        units = {(row, column): held(8 * line + column) for row, line in enumerate(self.lines) for column in range(8)}
        return self._head(), cells(self.grid, units, apart=True), self._beside()

    def _head(self) -> Iterator[str]:
        """The bytes and banks of the units, above the lines."""
        yield svg.text(self.grid.left - 10, self.grid.top - 8, "address", "s t", "end")
        for unit in range(8):
            box = self.grid.at(0, unit)
            yield box.above(f"bytes {16 * unit}–{16 * unit + 15}", "s", 24)
            yield box.above(f"banks {4 * unit}–{4 * unit + 3}", "s t", 8)

    def _beside(self) -> Iterator[str]:
        """Addresses on the left, the swizzle's XOR on the right, and a thick line where its pattern starts."""
        grid = self.grid
        start, end = grid.left - 70, grid.right + self.margin - 10
        for row, line in enumerate(self.lines):
            box, y, turned = grid.at(row, 0), grid.at(row, 0).y, self.turn(line)
            yield svg.text(grid.left - 10, box.base, f"{128 * line:#x}", "n q", "end")
            yield svg.text(grid.right + 10, box.base, f"unit XOR {turned}", "n q t") if self.swizzle else ""
            jumps = row and line != self.lines[row - 1] + 1
            if jumps or (self.swizzle and not turned):
                yield svg.line(start, y, end, y, "k", dash="6 4" if jumps else "")


class _Unit(NamedTuple):
    """The elements of a 16-byte unit: first and last mn and k, and whether other elements share the unit."""

    mn: tuple[int, int]
    k: tuple[int, int]
    more: bool

    def label(self) -> str:
        return f"{span(*self.mn, '–')}, {span(*self.k, '–')}{' +' if self.more else ''}"


@dataclass(frozen=True)
class _Tile:
    """What is drawn: the descriptor, its layout, the units by number, and the lines shown."""

    descriptor: Descriptor
    layout: Canonical
    units: dict[int, _Unit]
    lines: SharedLines
    #: lines of the tile above and below those shown
    hidden: tuple[int, int]
    #: how the address of the one marked element comes about, in two lines
    sum: tuple[str, ...] = ()


@explained
def shared_tile(
    descriptor: Descriptor | int,
    element: Element,
    mn: int,
    k: int,
    major: Major = "K",
    *,
    at_mn: int | None = None,
    at_k: int | range | None = None,
    lines: int = 32,
) -> Picture:
    """Where a tile of mn by k elements is: the first `lines` 128-byte lines that it touches.

    The units that hold `at_mn` and `at_k` are marked, by default those at the beginning of every row (k = 0 of a
    K-major tile) or column (mn = 0 of an MN-major one), so that the swizzle shows as a diagonal. If both are given,
    the lines around that element are drawn, and the sum that gives its address. `at_k` may be a range: what one
    instruction reads.
    Raises LayoutError for marks outside the tile, for an invalid number of lines, and for an invalid descriptor or
    tile.

    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> tcemu.show.shared_tile(tile, "f16", 64, 64, lines=8).title
    'A tile of 64 × 64 elements of 16 bits in shared memory: K-major, 128-byte swizzle'
    """
    decoded = Descriptor.decode(as_bits(descriptor))
    layout = decoded.layout(element, major)
    if mn < 1 or k < 1 or k % max(8 // layout.bits, 1) or not 1 <= lines <= 36:
        raise LayoutError(
            f"a tile needs rows and columns of whole bytes, and 1 to 36 lines can be drawn; got {mn} by {k} and "
            f"{lines} lines"
        )
    for name, at, size in (("at_mn", at_mn, mn), ("at_k", at_k, k)):
        if at is not None and (not _several(at) or not 0 <= _several(at)[0] <= _several(at)[-1] < size):
            raise LayoutError(f"{name} {at}: the tile has {name[3:]} {span(0, size - 1)}")
    if at_mn is None and at_k is None:
        at_mn, at_k = (None, 0) if major == "K" else (0, None)
    per = max(8 // layout.bits, 1)
    where, units = _placed(decoded, layout, mn, k)
    touched = sorted({unit // 8 for unit in units})
    above, sum_ = 0, tuple[str, ...]()
    if at_mn is not None and isinstance(at_k, int):
        middle = touched.index(int(where[at_mn, at_k // per]) // 8) - lines // 2
        above, sum_ = max(0, min(middle, len(touched) - lines)), _sum(decoded, element, major, at_mn, at_k)
    shown = SharedLines(touched[above : above + lines], layout.swizzle, decoded.base_offset)
    hidden = above, len(touched) - above - len(shown.lines)
    tile = _Tile(decoded, layout, units, shown, hidden, sum_)
    rows = slice(None) if at_mn is None else slice(at_mn, at_mn + 1)
    columns = slice(None) if at_k is None else slice(_several(at_k)[0] // per, _several(at_k)[-1] // per + 1)
    named = ((name, _several(at)) for name, at in (("mn", at_mn), ("k", at_k)) if at is not None)
    chosen = " and ".join(f"{name} = {span(at[0], at[-1], '–')}" for name, at in named)
    marked = set(where[rows, columns].ravel().tolist())
    low = shown.grid.bottom + 22
    drawn = shown.drawn(lambda unit: _cell(tile, unit, unit in marked))
    body = drawn, notes(shown.grid.left, low, _legend(tile, chosen))
    title = f"A tile of {mn} × {k} elements of {layout.bits} bit{'s' * (layout.bits > 1)} in shared memory: {layout}"
    height = low + 18 * (2 + len(sum_))
    return picture(title, _in_words(tile, marked, chosen), shown.grid.right + shown.margin, height, body)


def _several(at: int | range) -> range:
    return at if isinstance(at, range) else range(at, at + 1)


def _sum(descriptor: Descriptor, element: Element, major: Major, mn: int, k: int) -> tuple[str, ...]:
    """How the address of an element comes about, with numbers: 0 + (9 mod 8) * 128 + ... = 1192."""
    address = descriptor.address(mn, k, element, major)
    # the swizzle permutes units in a line, so that it is its own inverse
    before = int(swizzled(np.array(address), descriptor.swizzle, descriptor.base_offset))
    terms = re.sub(r"\bk\b", str(k), re.sub(r"\bmn\b", str(mn), descriptor.formula(element, major)))
    turned = f"; after the swizzle {address} = {address:#x}" if descriptor.swizzle else f" = {address:#x}"
    return f"Byte address of mn = {mn}, k = {k}: {terms}", f"= {before}{turned}"


@lru_cache(maxsize=32)  # a slider asks for the same tile again and again
def _placed(descriptor: Descriptor, layout: Canonical, mn: int, k: int) -> tuple[npt.NDArray[Any], dict[int, _Unit]]:
    """The unit number of every element (or byte of elements) of the tile, and the units by number."""
    per = max(8 // layout.bits, 1)
    where = tile_addresses(descriptor, layout, np.arange(mn), np.arange(0, k, per)) // 16
    order = np.argsort(where.ravel(), kind="stable")
    numbers, firsts, sizes = np.unique(where.ravel()[order], return_index=True, return_counts=True)
    rows, columns = np.divmod(order, where.shape[1])
    # a unit holds a piece of one row (or column); what else is there overlaps it
    along = rows if layout.major == "K" else columns
    keep = along == np.repeat(along[firsts], sizes.astype(np.intp, copy=False))
    lasts = np.maximum.reduceat(np.where(keep, np.arange(len(order)), -1), firsts)
    more = np.add.reduceat(keep, firsts, dtype=np.int64) < sizes
    corners = np.stack([rows[firsts], rows[lasts], columns[firsts] * per, columns[lasts] * per + per - 1, more]).T
    units = [_Unit((top, low), (left, right), bool(over)) for top, low, left, right, over in corners.tolist()]
    return where, dict(zip(numbers.tolist(), units, strict=True))


def _cell(tile: _Tile, number: int, marked: bool) -> Cell:
    """What a unit holds; its atom decides its background."""
    unit = tile.units.get(number)
    if unit is None:
        return Cell("·")
    atom = unit.mn[0] // tile.layout.atom[0] + unit.k[0] // tile.layout.atom[1]
    return Cell(unit.label(), "pf"[atom % 2], marked)


def _legend(tile: _Tile, marks: str) -> list[str]:
    example = tile.units[min(tile.units)]
    chosen = f"{span(*example.mn, '–')}, {span(*example.k, '–')}"
    first = f"{chosen} means: mn {span(*example.mn)}, k {span(*example.k)}."
    rules = [f"Framed and hatched: {marks}."]
    if any(8 * line + column not in tile.units for line in tile.lines.lines for column in range(8)):
        rules.append("A dot: not part of the tile.")
    if any(what.more for what in tile.units.values()):
        rules.append("A plus: other elements overlap these.")
    if tile.layout.swizzle:
        rules.append("A thick line: the swizzle's pattern starts.")
    if tile.lines.jumps:
        rules.append("Dashed: lines are left out.")
    for hidden, where in zip(tile.hidden, ("above", "below"), strict=True):
        if hidden:
            rules.append(f"{counted(hidden, 'more line')} {where}.")
    lines = f"{first} {rules[0]}", " ".join(rules[1:]), *tile.sum
    return [line for line in lines if line]


def _in_words(tile: _Tile, marked: Collection[int], chosen: str) -> str:
    """The text alternative: the descriptor, and where the marked units are."""
    order = sorted(marked, key=lambda unit: (tile.units[unit].mn, tile.units[unit].k))
    places = [f"{tile.units[unit].label()} at {16 * unit:#x}, unit {unit % 8} of its line" for unit in order[:16]]
    rest = f"; and {len(order) - 16} more" if len(order) > 16 else ""
    swizzle = "The units of each line are in order"
    if tile.layout.swizzle:
        turns = tile.layout.swizzle // 16
        swizzle = f"In each 128-byte line, the swizzle XORs the unit's number with a number from 0 to {turns - 1}"
    sum_ = f"{' '.join(tile.sum)}. " if tile.sum else ""
    return f"{sum_}{tile.descriptor}. {swizzle}. Units with {chosen}, as mn, k: {'; '.join(places)}{rest}."


Array = npt.NDArray[Any]

_LOAD = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
#: The rows of a matrix, and 128-byte lines that fit into a picture.
_ROWS, _SHOWN = 8, 36


@explained
def shared_rows(addresses: npt.ArrayLike, unit: int = 0, first: int = 0) -> Picture:
    """Where a tile's rows are, and what it costs to read one 16-byte unit of each of 8 rows with ldmatrix.

    `addresses` (rows, units) are the byte addresses of a tile's 16-byte units, multiples of 16. The picture marks
    `unit` of the rows `first` to `first` + 7, which are the rows of one 8 x 8 matrix. Raises OperandError for other
    addresses, for two units at one address, and for a unit or row that the tile does not have.

    >>> row, unit = np.indices((8, 8))
    >>> tcemu.show.shared_rows(128 * row + 16 * unit).title
    'Unit 0 of rows 0 to 7: 8 wavefronts where 1 would do'
    """
    where = as_array(addresses, "addresses")
    if where.ndim != 2 or where.dtype.kind not in "iu" or len(where) < _ROWS or not where.shape[1]:
        raise OperandError(f"addresses must be integers (rows, units), 8 rows or more; got {where.dtype} {where.shape}")
    rows, units = where.shape
    if not 0 <= unit < units or not 0 <= first <= rows - _ROWS:
        got = f"unit {briefly(unit)} of the rows from {briefly(first)} on"
        raise OperandError(f"the tile has {counted(rows, 'row')} of {counted(units, 'unit')}; got {got}")
    numbers, stored = np.unique(where, return_inverse=True)
    if (where < 0).any() or (where % 16).any():
        raise OperandError("a 16-byte unit is at a multiple of 16 in shared memory (PTX ISA 9.7.14.5.15)")
    if len(numbers) < where.size:
        again = np.ones(where.size, bool)  # the units at an address that an earlier one has
        again[np.unique(stored, return_index=True)[1]] = False
        row, column = divmod(int(np.flatnonzero(again)[0]), units)
        raise OperandError(f"unit {column} of row {row} is at the address of another unit: {int(where[row, column])}")
    touched = sorted(set((where // 128).ravel().tolist()))
    lines = SharedLines(touched[:_SHOWN], 0, margin=16)
    asked = where[first : first + _ROWS, unit]
    cost = wavefronts(np.resize(asked, 32), _LOAD)
    held = {int(address): place for place, address in np.ndenumerate(where)}

    def unit_at(number: int) -> Cell:
        row, column = held.get(16 * number, (0, -1))
        label = "·" if column < 0 else f"row {row}, {column}"
        return Cell(label, "pf"[row % 2], 16 * number in asked)

    body = lines.drawn(unit_at), notes(lines.grid.left, lines.grid.bottom + 20, _read(cost, touched))
    count = counted(int(cost.count), "wavefront")
    ideal = "no conflict" if cost.count == cost.least else f"{count} where {cost.least} would do"
    which = f"Unit {unit} of rows {first} to {first + _ROWS - 1}"
    title = f"{which}: {ideal if cost.count > cost.least else f'{count}, {ideal}'}"
    return picture(title, _addresses(where, unit, first), lines.grid.right + lines.margin, lines.grid.bottom + 48, body)


def _read(cost: Wavefronts, touched: list[int]) -> tuple[str, str]:
    (part,) = cost.parts
    more = f" {counted(len(touched) - _SHOWN, 'more line')} below." if len(touched) > _SHOWN else ""
    framed = "Framed and hatched: the units that ldmatrix reads for one 8 × 8 matrix. “row 3, 1”: row 3, unit 1."
    busiest = f"Banks {part.bank}–{part.bank + 3} have to deliver {counted(part.wavefronts, 'unit')}, one after the"
    return framed, (f"{busiest} other." if part.wavefronts > 1 else "No two of them share a bank.") + more


def _addresses(where: Array, unit: int, first: int) -> str:
    """The text alternative: the address and the banks of each row's unit."""
    rows = [
        f"row {first + row} at {address:#x}, banks {address // 4 % 32} to {address // 4 % 32 + 3}"
        for row, address in enumerate(where[first : first + _ROWS, unit].tolist())
    ]
    return f"The unit of each row: {'; '.join(rows)}."
