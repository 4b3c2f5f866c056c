"""What one tensor copy moves: the box in its tensor on the left, its 16-byte units in shared memory on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_places import Places
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.shared_lines import SharedLines

#: The drawing of the tensor: its corner and its size.
_LEFT, _TOP, _WIDE, _HIGH = 16, 56, 176, 300
#: Widths of the rest: addresses, a unit, the swizzle's XOR.
_ADDRESSES, _UNIT, _MARGIN = 84, 84, 84
#: Tones of the units in a line of the box, used in turn.
_TONES = ("fb", "fo", "fg", "f")
#: The longest label in normal size and in small size, in characters.
_ROOM, _TIGHT = 11, 13


@dataclass(frozen=True)
class _Unit:
    """A 16-byte unit of the box: its place in its line, its first element, and its bytes outside the tensor."""

    place: int
    first: tuple[int, ...]
    outside: frozenset[int]

    def label(self) -> str:
        full = _numbers(self.first)
        return full if len(full) <= _TIGHT else full.replace(" ", "")


@dataclass(frozen=True)
class _Sheet:
    """What is drawn: the copy, its units by their number in shared memory, and the lines shown."""

    made: TensorMap
    at: tuple[int, ...]
    units: dict[int, _Unit]
    lines: SharedLines
    #: lines of shared memory that are not shown
    hidden: int


@explained
def tensor_box(tensor_map: TensorMap, coordinates: Sequence[int], address: int = 0, *, lines: int = 24) -> Picture:
    """The box at `coordinates` (innermost first), copied to `address` in shared memory: its first `lines` lines.

    16-byte units are named after their first element; units at the same place in a line of the box have the same tone,
    which shows the swizzle. What is outside the tensor is hatched. Raises OperandError for an invalid number of lines
    and for an Im2colMap, and as TensorMap.places does.

    >>> from tcemu.machine.tensor_map import TensorMap
    >>> matrix = TensorMap(0, "f16", (128, 64), (256,), (64, 8), swizzle=128)  # 64 rows of 128, boxes of 8 rows of 64
    >>> tcemu.show.tensor_box(matrix, (64, 8)).title
    'The box at (64, 8) of a tensor in shared memory: 64 × 8, 128-byte swizzle'
    """
    if not 1 <= lines <= 32:
        raise OperandError(f"1 to 32 lines of shared memory can be drawn; got {lines}")
    if tensor_map.mode != "tile":
        raise OperandError(
            f"tensor_box draws the boxes of tile mode; got a map of {tensor_map.mode} mode, whose `pixels` lists what "
            "a copy takes (PTX ISA 5.5.4)"
        )
    found = tensor_map.places(coordinates, address)
    at = tuple(int(place) for place in coordinates)
    units = _units(tensor_map, at, found)
    touched = sorted({number // 8 for number in units})
    left = _LEFT + _WIDE + _ADDRESSES
    shown = SharedLines(touched[:lines], tensor_map.swizzle, left=left, unit=_UNIT, margin=_MARGIN)
    sheet = _Sheet(tensor_map, at, units, shown, len(touched) - len(shown.lines))
    drawing, under = _tensor(sheet)
    low = max(shown.bottom, under) + 22
    notes = _notes(sheet)
    body = [*drawing, *shown.head(), *_cells(sheet), *shown.beside()]
    body += [svg.text(_LEFT, low + 18 * row, note, "s") for row, note in enumerate(notes)]
    swizzle = f"{tensor_map.swizzle}-byte swizzle" if tensor_map.swizzle else "no swizzle"
    title = (
        f"The box at ({_numbers(at)}) of a tensor in shared memory: {' × '.join(map(str, tensor_map.box))}, {swizzle}"
    )
    return picture(title, _in_words(sheet, address), shown.right + shown.margin, low + 18 * len(notes), body)


def _units(made: TensorMap, at: tuple[int, ...], found: Places) -> dict[int, _Unit]:
    """The units by number (address div 16)."""
    per = made.line // found.size
    units: dict[int, _Unit] = {}
    outside: dict[int, set[int]] = {}
    for index, (where, inside) in enumerate(zip(found.shared_addresses.tolist(), found.inside.tolist(), strict=True)):
        line, along = divmod(index, per)
        number, byte = where // 16, along * found.size
        if byte % 16 == 0:
            first = at[0] + byte // made.element_bytes
            units[number] = _Unit(byte // 16, (first, *_outer(made, at, line)), frozenset())
        if not inside:
            outside.setdefault(number, set()).update(range(where % 16, where % 16 + found.size))
    return {number: _Unit(unit.place, unit.first, frozenset(outside.get(number, ()))) for number, unit in units.items()}


def _outer(made: TensorMap, at: tuple[int, ...], line: int) -> tuple[int, ...]:
    """The coordinates of a line of the box, without the innermost one."""
    counts, steps = made.copied[1:], made.element_strides[1:]
    index = np.unravel_index(line, counts, order="F") if counts else ()
    return tuple(int(start + step * i) for start, step, i in zip(at[1:], steps, index, strict=True))


# ---------------------------------------------------------------------------------------------- the tensor


def _tensor(sheet: _Sheet) -> tuple[list[str], float]:
    """The tensor and the box in the plane of the two innermost dimensions; and the y at which the drawing ends."""
    made = sheet.made
    sizes, box, at = (*made.sizes, 1)[:2], (*made.box, 1)[:2], (*sheet.at, 0)[:2]
    low = [min(0, at[axis]) for axis in (0, 1)]
    high = [max(sizes[axis], at[axis] + box[axis]) for axis in (0, 1)]
    scale = [room / (high[axis] - low[axis]) for axis, room in ((0, _WIDE), (1, _HIGH))]
    # elements are drawn square if there is room
    even = min(scale)
    scale = [min(each, max(even, 60 / (high[axis] - low[axis]))) for axis, each in enumerate(scale)]

    def corner(x: float, y: float) -> tuple[float, float]:
        return _LEFT + (x - low[0]) * scale[0], _TOP + (y - low[1]) * scale[1]

    (x, y), (right, bottom) = corner(0, 0), corner(*sizes)
    (box_x, box_y), (box_right, box_bottom) = corner(*at), corner(at[0] + box[0], at[1] + box[1])
    wide, tall = max(box_right - box_x, 5), max(box_bottom - box_y, 5)
    elements = [
        svg.text(_LEFT, _TOP - 24, "the tensor and the box" if made.rank < 3 else "two innermost dimensions", "s"),
        svg.rect(x, y, right - x, bottom - y, "p"),
        svg.rect(box_x, box_y, wide, tall, "f"),
    ]
    outside = _beyond((box_x, box_y, wide, tall), (x, y, right, bottom))
    elements += [svg.hatch(*piece, "g", step=5) for piece in outside]
    elements.append(svg.rect(box_x, box_y, wide, tall, "k"))
    under = max(bottom, box_y + tall)
    elements.append(svg.text(_LEFT, under + 18, f"{' × '.join(map(str, made.sizes))} of {made.element}", "s"))
    elements.append(svg.text(_LEFT, under + 34, f"box at ({_numbers(sheet.at)})", "s"))
    return elements, under + 34


Rectangle = tuple[float, float, float, float]


def _beyond(box: Rectangle, tensor: Rectangle) -> list[Rectangle]:
    """The parts of a box (x, y, width, height) that are outside a tensor (left, top, right, bottom)."""
    x, y, wide, high = box
    left, top, right, bottom = tensor
    inner_x, inner_end = max(x, left), min(x + wide, right)
    if inner_x >= inner_end or max(y, top) >= min(y + high, bottom):
        return [box]
    parts = [
        (x, y, left - x, high),
        (right, y, x + wide - right, high),
        (inner_x, y, inner_end - inner_x, top - y),
        (inner_x, bottom, inner_end - inner_x, y + high - bottom),
    ]
    return [part for part in parts if part[2] > 0.5 and part[3] > 0.5]


# ---------------------------------------------------------------------------------------------- shared memory


def _cells(sheet: _Sheet) -> list[str]:
    shown = sheet.lines
    outlines: dict[str, list[str]] = {tone: [] for tone in ("p", *_TONES)}
    hatches: list[str] = []
    plain: list[str] = []
    small: list[str] = []
    faded: list[str] = []
    for row, line in enumerate(shown.lines):
        for column in range(8):
            x, y = shown.corner(row, column)
            unit = sheet.units.get(8 * line + column)
            middle, base = x + shown.unit / 2, y + 15
            if unit is None:
                outlines["p"].append(shown.box(row, column))
                plain.append(svg.text(middle, base, "·"))
                continue
            outlines["p" if len(unit.outside) == 16 else _TONES[unit.place % 4]].append(shown.box(row, column))
            hatches += _hatched(unit, x, y, shown)
            label = svg.text(middle, base, unit.label())
            (faded if unit.outside else plain if len(unit.label()) <= _ROOM else small).append(label)
    tones = [svg.path("".join(data), tone) for tone, data in outlines.items() if data]
    texts = [svg.group(plain, "n c"), svg.group(small, "n c t"), svg.group(faded, "n c t q clear")]
    return [*tones, *hatches, *texts]


def _hatched(unit: _Unit, x: float, y: float, shown: SharedLines) -> list[str]:
    """Hatching over the bytes of a unit that are outside the tensor, at one of its ends."""
    if not unit.outside:
        return []
    byte, first, size = shown.unit / 16, min(unit.outside), len(unit.outside)
    return [svg.hatch(x + first * byte, y, size * byte, shown.height, "g", step=8)]


# ---------------------------------------------------------------------------------------------- words


def _notes(sheet: _Sheet) -> list[str]:
    made, per = sheet.made, 16 // sheet.made.element_bytes
    first = min(sheet.units.values(), key=lambda unit: (unit.first[::-1], unit.place))
    last = first.first[0] + per - 1
    among = f", at {_numbers(first.first[1:])} in the other{'s' * (made.rank > 2)}" if made.rank > 1 else ""
    span = f"{_number(first.first[0])} to {_number(last)}"
    notes = [f"{first.label()} means: elements {span} of the innermost dimension{among}."]
    notes.append("Same tone: same place in a line of the box.")
    if any(unit.outside for unit in sheet.units.values()):
        notes.append(f"Hatched: outside the tensor, {'NaN' if made.fill == 'nan' else 'zeros'} when loaded.")
    if any(8 * line + column not in sheet.units for line in sheet.lines.lines for column in range(8)):
        notes.append("A dot: not part of the box.")
    if made.swizzle:
        notes.append("A thick line: the swizzle's pattern starts.")
    if sheet.hidden:
        notes.append(f"{counted(sheet.hidden, 'more line')} below.")
    return [notes[0], " ".join(notes[1:])]


def _in_words(sheet: _Sheet, address: int) -> str:
    made = sheet.made
    order = sorted(sheet.units.items(), key=lambda item: (item[1].first[:0:-1], item[1].place))
    lines = [(number, unit) for number, unit in order if unit.place == 0]
    places = [f"{unit.label()} at {16 * number:#x}, unit {number % 8}" for number, unit in lines[:16]]
    rest = f"; and {len(lines) - 16} more" if len(lines) > 16 else ""
    outside = sum(len(unit.outside) for unit in sheet.units.values())
    filling = "NaN" if made.fill == "nan" else "zeros"
    edge = f" {outside} of them are outside the tensor and are loaded as {filling}." if outside else ""
    swizzle = "The units of each line are in order."
    if made.swizzle:
        turns = made.swizzle // 16
        swizzle = f"In each 128-byte line, the swizzle XORs the unit's number with a number from 0 to {turns - 1}."
    return (
        f"The {made}, at ({_numbers(sheet.at)}), is at {address:#x} in shared memory and has {made.bytes} bytes."
        f"{edge} {swizzle} The lines of the box begin, by first element, at: {'; '.join(places)}{rest}."
    )


def _number(value: int) -> str:
    return str(value).replace("-", "−")


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(_number(value) for value in values)
