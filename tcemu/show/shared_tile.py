"""A tile in shared memory: 128-byte lines, and in each 16-byte unit the elements of the matrix that it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import LayoutError, counted, span
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import Canonical, Element, Major
from tcemu.layouts.descriptor import as_bits, tile_addresses
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.shared_lines import SharedLines


class _Unit(NamedTuple):
    """The elements of a 16-byte unit: first and last mn and k, and whether other elements share the unit."""

    mn: tuple[int, int]
    k: tuple[int, int]
    more: bool

    def label(self) -> str:
        return f"{span(*self.mn, '–')}, {span(*self.k, '–')}{' +' if self.more else ''}"


@dataclass(frozen=True)
class _Sheet:
    """What is drawn: the descriptor, its layout, the units by number, and the lines shown."""

    descriptor: Descriptor
    layout: Canonical
    units: dict[int, _Unit]
    lines: SharedLines


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
    K-major tile) or column (mn = 0 of an MN-major one), so that the swizzle shows as a diagonal. `at_k` may be a range:
    what one instruction reads.
    Raises LayoutError for marks outside the tile, for an invalid number of lines, and for an invalid descriptor or
    tile.

    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> tcemu.show.shared_tile(tile, "f16", 64, 64, lines=8).title
    'A tile of 64 × 64 elements of 16 bits in shared memory: K-major, 128-byte swizzle'
    """
    found = Descriptor.decode(as_bits(descriptor))
    layout = found.layout(element, major)
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
    where = tile_addresses(found, layout, np.arange(mn), np.arange(0, k, per)) // 16
    units = _units(where, layout)
    touched = sorted({unit // 8 for unit in units})
    sheet = _Sheet(found, layout, units, SharedLines(touched[:lines], layout.swizzle, found.base_offset))
    rows = slice(None) if at_mn is None else slice(at_mn, at_mn + 1)
    columns = slice(None) if at_k is None else slice(_several(at_k)[0] // per, _several(at_k)[-1] // per + 1)
    named = ((name, _several(at)) for name, at in (("mn", at_mn), ("k", at_k)) if at is not None)
    chosen = " and ".join(f"{name} = {span(at[0], at[-1], '–')}" for name, at in named)
    marked = np.unique(where[rows, columns]).tolist()
    shown, low = sheet.lines, sheet.lines.bottom + 22
    body = [*shown.head(), *_cells(sheet, set(marked)), *shown.beside(), *_legend(sheet, chosen, len(touched), low)]
    title = f"A tile of {mn} × {k} elements of {layout.bits} bit{'s' * (layout.bits > 1)} in shared memory: {layout}"
    return picture(title, _in_words(sheet, marked, chosen), shown.right + shown.margin, low + 18 * 2, body)


def _several(at: int | range) -> range:
    return at if isinstance(at, range) else range(at, at + 1)


def _units(where: npt.NDArray[Any], layout: Canonical) -> dict[int, _Unit]:
    """The units by number, from the unit number of every element (or byte of elements) of the tile."""
    per = max(8 // layout.bits, 1)
    flat = where.ravel()
    order = np.argsort(flat, kind="stable")
    numbers, firsts, sizes = np.unique(flat[order], return_index=True, return_counts=True)
    found = {}
    for unit, first, size in zip(numbers.tolist(), firsts.tolist(), sizes.tolist(), strict=True):
        rows, columns = np.divmod(order[first : first + size], where.shape[1])
        keep = rows == rows[0] if layout.major == "K" else columns == columns[0]
        ends = (int(rows[keep][0]), int(rows[keep][-1])), (int(columns[keep][0]), int(columns[keep][-1]))
        found[unit] = _Unit(ends[0], (ends[1][0] * per, ends[1][1] * per + per - 1), bool((~keep).any()))
    return found


def _cells(sheet: _Sheet, marked: set[int]) -> list[str]:
    quiet: dict[str, list[str]] = {"p": [], "f": []}
    labels: list[str] = []
    loud: list[str] = []
    bold: list[str] = []
    shown = sheet.lines
    for row, line in enumerate(shown.lines):
        for column in range(8):
            (x, y), unit = shown.corner(row, column), 8 * line + column
            what = sheet.units.get(unit)
            middle, base = x + shown.unit / 2, y + 15
            if what is None:
                labels.append(svg.text(middle, base, "·"))
            elif unit in marked:
                loud += [
                    svg.rect(x + 1, y + 1, shown.unit - 2, shown.height - 2, "x"),
                    svg.hatch(x + 2, y + 2, shown.unit - 4, shown.height - 4, step=10),
                ]
                bold.append(svg.text(middle, base, what.label()))
            else:
                labels.append(svg.text(middle, base, what.label()))
            tone = "p" if what is None or not _group(sheet, what) % 2 else "f"
            quiet[tone].append(shown.box(row, column))
    elements = [svg.path("".join(data), tone) for tone, data in quiet.items() if data]
    return [*elements, svg.group(labels, "n q c"), *loud, svg.group(bold, "n b c halo")]


def _group(sheet: _Sheet, what: _Unit) -> int:
    """The number of the unit's atom, which decides its background."""
    return what.mn[0] // sheet.layout.atom[0] + what.k[0] // sheet.layout.atom[1]


def _legend(sheet: _Sheet, marks: str, touched: int, y: float) -> list[str]:
    example = sheet.units[min(sheet.units)]
    chosen = f"{span(*example.mn, '–')}, {span(*example.k, '–')}"
    first = f"{chosen} means: mn {span(*example.mn)}, k {span(*example.k)}."
    notes = [f"Framed and hatched: {marks}."]
    if any(8 * line + column not in sheet.units for line in sheet.lines.lines for column in range(8)):
        notes.append("A dot: not part of the tile.")
    if any(what.more for what in sheet.units.values()):
        notes.append("A plus: other elements overlap these.")
    if sheet.layout.swizzle:
        notes.append("A thick line: the swizzle's pattern starts.")
    if sheet.lines.jumps:
        notes.append("Dashed: lines are left out.")
    if touched > len(sheet.lines.lines):
        notes.append(f"{counted(touched - len(sheet.lines.lines), 'more line')} below.")
    lines = f"{first} {notes[0]}", " ".join(notes[1:])
    return [svg.text(sheet.lines.left, y + 18 * row, line, "s") for row, line in enumerate(lines) if line]


def _in_words(sheet: _Sheet, marked: list[int], chosen: str) -> str:
    """The text alternative: the descriptor, and where the marked units are."""
    order = sorted(marked, key=lambda unit: (sheet.units[unit].mn, sheet.units[unit].k))
    places = [f"{sheet.units[unit].label()} at {16 * unit:#x}, unit {unit % 8} of its line" for unit in order[:16]]
    rest = f"; and {len(order) - 16} more" if len(order) > 16 else ""
    swizzle = "The units of each line are in order"
    if sheet.layout.swizzle:
        turns = sheet.layout.swizzle // 16
        swizzle = f"In each 128-byte line, the swizzle XORs the unit's number with a number from 0 to {turns - 1}"
    return f"{sheet.descriptor}. {swizzle}. Units with {chosen}, as mn, k: {'; '.join(places)}{rest}."
