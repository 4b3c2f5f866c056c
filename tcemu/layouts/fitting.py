"""Which descriptor reads a tile that is already in shared memory, from the address of each element, or why none does.

The addresses of a canonical layout are a sum, on which the swizzle acts last (descriptor.py). So each combination of
major direction, swizzle and base offset is tried: undo the swizzle, and see whether what remains is such a sum. If it
is not, the first of these that fails is the reason:

    units    16 bytes hold neighbours along the major direction
    start    the tile starts at a multiple of 16
    lines    the 8 lines of an atom are one line's bytes apart
    swizzle  the units of a line are swapped as the swizzle does it
    atoms    atoms are at equal distances in each direction
    fields   these distances are multiples of 16 below 256 KiB
    place    all of this holds, but for another start
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError
from tcemu.layouts.canonical import SWIZZLES, Canonical, Element, Major, element_bits
from tcemu.layouts.descriptor import Descriptor, tile_addresses
from tcemu.layouts.swizzle import swizzled
from tcemu.layouts.tile_addresses import TileAddresses, addresses_of

Array = npt.NDArray[Any]
#: CuTe's swizzles of 16-byte units, the fewest bits first, and those of the hardware (shift 3) before others.
_SWIZZLES = [(bits, 4, shift) for bits in (1, 2, 3, 4) for shift in (3, 4, 5, 6, 7, 8) if shift >= bits]
_CHECKS = ("units", "start", "lines", "swizzle", "atoms", "fields", "place")
_MAJORS: tuple[Major, ...] = ("K", "MN")


@dataclass(frozen=True)
class Way:
    """One way to read a tile: the major direction and the descriptor."""

    major: Major
    descriptor: Descriptor


@dataclass(frozen=True)
class Reason:
    """Why no descriptor of one major direction and swizzle fits: which check fails, and how."""

    major: Major
    swizzle: int
    check: str
    message: str

    def __str__(self) -> str:
        return f"{self.major}-major, {_named(self.swizzle)}: {self.message}"


@dataclass(frozen=True)
class Rows:
    """Rows: their distance in bytes and, as CuTe's Swizzle<bits, base, shift>, what XORs their 16-byte units."""

    pitch: int
    swizzle: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        how = "" if self.swizzle is None else f" with CuTe's Swizzle<{', '.join(map(str, self.swizzle))}>"
        return f"rows that are {self.pitch} bytes apart{how}"


@dataclass(frozen=True)
class Fit:
    """What `fit` found: the ways in which a descriptor reads the tile, and why all others do not.

    >>> fitted = tcemu.layouts.fit(lambda n, k: 48 * k + 2 * n, "f16", 24, 16)  # rows of 24 numbers
    >>> fitted.ways, str(fitted.rows)
    ((), 'rows that are 48 bytes apart')
    >>> print(fitted.advice()[:60])
    the tile is in rows that are 48 bytes apart, which no LBO an
    >>> print(fitted.reasons[0])
    MN-major, no swizzle: the 8 lines of an atom, k = 0 to 7, must be 16 bytes apart; k = 0 and 1 are 48 bytes apart
    """

    bits: int
    ways: tuple[Way, ...]
    #: Of the swizzles that do not fit, the most likely first.
    reasons: tuple[Reason, ...]
    #: The rows that the tile is in, if no descriptor fits and it is in rows.
    rows: Rows | None

    @property
    def descriptor(self) -> Descriptor:
        """The first descriptor that fits. Raises LayoutError, which says why, if there is none."""
        if not self.ways:
            raise LayoutError(str(self))
        return self.ways[0].descriptor

    def __str__(self) -> str:
        if self.ways:
            return "\n".join(f"{way.major}-major: {way.descriptor}{self._note(way.major)}" for way in self.ways)
        first = self.reasons[0].major
        likely = [str(reason) for reason in self.reasons if reason.major == first]
        return "\n  ".join([f"no descriptor fits: {self.advice()}", *likely])

    def _note(self, major: Major) -> str:
        if major == "K" or self.bits == 16:
            return ""
        return "; wgmma reads only 16-bit elements in this direction, so the tile must be transposed for it"

    def advice(self) -> str:
        """What to do if no descriptor fits."""
        if self.reasons and self.reasons[0].check == "place":
            return "it must be moved"
        better = (
            "store it as core matrices, 8 lines of 16 bytes one after the other (no swizzle), or with a swizzle of 32, "
            "64 or 128 bytes: copy_tile and a TMA box write such a tile, and Descriptor.for_tile describes it"
        )
        if self.rows is None:
            return better
        other = "" if self.rows.pitch % 16 else " (ldmatrix can read it)"
        return f"the tile is in {self.rows}, which no LBO and SBO can say{other}; {better}"


@explained
def fit(
    tile: TileAddresses,
    element: Element,
    mn: int | None = None,
    k: int | None = None,
    *,
    major: Major | None = None,
    swizzle: int | None = None,
    start: int = 0,
) -> Fit:
    """Which descriptors read a tile of mn by k elements that lies at given bytes, and why all others do not.

    `tile` says where element (mn, k) is: a function of mn and k that returns its byte, the two strides in bytes, or an
    array (mn, k) of bytes, whose shape is the tile's. mn is a row of A or a column of B. `start` is added to all of
    them. Of elements of one bit, the byte that holds them counts; a stride along k then leads to the next byte.
    `major` and `swizzle` restrict what is tried.

    Raises LayoutError if the places are not those of a tile: negative, two in one byte, or of another shape.

    >>> rows = tcemu.layouts.fit((128, 2), "f16", 64, 64)  # 64 rows of 128 bytes, as cudaMemcpy leaves them
    >>> print(rows)  # doctest: +ELLIPSIS
    no descriptor fits: the tile is in rows that are 128 bytes apart, which no LBO and SBO can say...
    >>> swizzled = tcemu.layouts.fit(lambda n, k: 128 * n + (2 * k ^ 16 * (n % 8)), "f16", 64, 64)
    >>> print(swizzled)
    K-major: start 0, LBO 16, SBO 1024, 128-byte swizzle (0x4000004000010000)
    >>> swizzled.descriptor.swizzle
    128
    """
    bits = element_bits(element)
    where = addresses_of(tile, bits, mn, k, start)
    results = [_try(where, Canonical(bits, each, size)) for each in _majors(bits, major) for size in _sizes(swizzle)]
    ways = tuple(each for each in results if isinstance(each, Way))
    reasons = sorted(
        (each for each in results if isinstance(each, Reason)),
        key=lambda reason: (not _contiguous(where, reason.major, bits), -_CHECKS.index(reason.check)),
    )
    return Fit(bits, ways, tuple(reasons), None if ways else _rows(where, bits))


def _majors(bits: int, major: Major | None) -> tuple[Major, ...]:
    if major is not None:
        return (Canonical(bits, major).major,)  # which checks it
    return _MAJORS if bits >= 8 else ("K",)


def _sizes(swizzle: int | None) -> list[int]:
    return sorted(SWIZZLES) if swizzle is None else [swizzle]


# ---------------------------------------------------------------------------------------------- one layout


def _try(where: Array, layout: Canonical) -> Way | Reason:
    """The descriptor of one layout, or why there is none: of all base offsets, the one that gets furthest."""
    tried = [_with_base(where, layout, base) for base in range(max(layout.swizzle // 16, 1))]
    ways = [each for each in tried if isinstance(each, Way)]
    if ways:
        return ways[0]
    begins, align = int(where[0, 0]), layout.atom_bytes if layout.swizzle else 16
    moved = _with_base(where - begins, layout, 0)
    if begins % 16 and isinstance(moved, Reason):
        message = f"the tile starts at {begins}, not at a multiple of 16; moved, {moved.message}"
        return Reason(layout.major, layout.swizzle, moved.check, message)
    if begins % align and isinstance(moved, Way):
        why = "a descriptor drops the low 4 bits of an address"
        if layout.swizzle and not begins % 16:
            why = "there the pattern of the swizzle begins, and a base offset counts whole 128-byte lines"
        message = (
            f"the tile must start at a multiple of {align}, not at {begins}: {why}. Move it to {_up(begins, align)}"
        )
        return Reason(layout.major, layout.swizzle, "place", message)
    return max((each for each in tried if isinstance(each, Reason)), key=lambda reason: _CHECKS.index(reason.check))


def _with_base(where: Array, layout: Canonical, base: int) -> Way | Reason:
    plain = swizzled(where, layout.swizzle, base)
    start = int(plain[0, 0])
    for check, test in _TESTS.items():
        problem = test(where, plain - start, layout, start)
        if problem:
            return Reason(layout.major, layout.swizzle, check, problem)
    steps = dict(zip(layout.steps, _steps(plain - start, layout), strict=True))
    if layout.major == "K" and layout.swizzle and _cut(plain, layout).shape[2] == 1:
        steps["lbo"] = 16  # not used; the manual puts 1 into the field
    made = Descriptor(start, steps["lbo"], steps["sbo"], layout.swizzle, base)
    per = max(8 // layout.bits, 1)
    mn, k = np.arange(where.shape[0], dtype=np.int64), np.arange(0, where.shape[1] * per, per, dtype=np.int64)
    if not np.array_equal(tile_addresses(made, layout, mn, k), where):  # the emulator's own formula has the last word
        return Reason(layout.major, layout.swizzle, "swizzle", "the permutation of units differs from the swizzle's")
    return Way(layout.major, made)


def _lined(array: Array, layout: Canonical) -> Array:
    """(lines, along) of (mn, k): the major direction last."""
    return array if layout.major == "K" else array.T


def _per_line(layout: Canonical) -> int:
    return layout.line // layout.size


def _cut(array: Array, layout: Canonical) -> Array:
    """(atoms across lines, 8, atoms along, elements of a line), padded with -1, from (mn, k)."""
    lined, per = _lined(array, layout), _per_line(layout)
    across, along = -(-lined.shape[0] // 8), -(-lined.shape[1] // per)
    padded = np.full((across * 8, along * per), -1, np.int64)
    padded[: lined.shape[0], : lined.shape[1]] = lined
    return padded.reshape(across, 8, along, per)


def _steps(offsets: Array, layout: Canonical) -> tuple[int, int]:
    """The distances of neighbouring atoms along mn and along k; an atom's bytes where there is only one."""
    origins = _cut(offsets, layout)[:, 0, :, 0]
    lines, along = (int(axis[1]) if axis.size > 1 else layout.atom_bytes for axis in (origins[:, 0], origins[0]))
    return (lines, along) if layout.major == "K" else (along, lines)


def _at(layout: Canonical, line: int, along: int) -> str:
    """An element in the user's order."""
    per = max(8 // layout.bits, 1)
    return f"({line}, {along * per})" if layout.major == "K" else f"({along}, {line})"


def _units(where: Array, _offsets: Array, layout: Canonical, _start: int) -> str:
    lined, unit = _lined(where, layout), 16 // layout.size
    inside = np.arange(lined.shape[1], dtype=np.int64) % unit
    wrong = np.argwhere(np.diff(lined, axis=1) != layout.size)
    wrong = wrong[inside[wrong[:, 1]] != unit - 1]
    if not wrong.size:
        return ""
    line, along = (int(index) for index in wrong[0])
    apart = int(lined[line, along + 1] - lined[line, along])
    return (
        f"{_at(layout, line, along)} and {_at(layout, line, along + 1)} must be {layout.size} "
        f"byte{'s' * (layout.size > 1)} apart; they are {apart} apart"
    )


def _starts(where: Array, _offsets: Array, layout: Canonical, start: int) -> str:
    if not start % 16:
        return "" if start <= 0x3FFFF else f"the tile starts at {start}; a start address is below 262144"
    return f"the tile starts at {int(where[0, 0])}, not at a multiple of 16: a descriptor drops the low 4 bits"


def _lines(where: Array, _offsets: Array, layout: Canonical, _start: int) -> str:
    first = _lined(where, layout)[:, 0]
    # a swizzle permutes units inside a line's bytes only
    begin = first // layout.line * layout.line if layout.swizzle else first
    number = np.arange(first.size, dtype=np.int64)
    wrong = np.flatnonzero(begin != begin[number // 8 * 8] + number % 8 * layout.line)
    if not wrong.size:
        return ""
    line, axis = int(wrong[0]), "mn" if layout.major == "K" else "k"
    return (
        f"the 8 lines of an atom, {axis} = {line // 8 * 8} to {line // 8 * 8 + 7}, must be {layout.line} bytes apart; "
        f"{axis} = {line - 1} and {line} are {int(first[line] - first[line - 1])} bytes apart"
    )


def _exchange(where: Array, offsets: Array, layout: Canonical, start: int) -> str:
    cut = _cut(offsets, layout)
    lines, units = (np.arange(count, dtype=np.int64) for count in (8, cut.shape[3]))
    wanted = cut[:, :1, :, :1] + lines[:, None, None] * layout.line + units * layout.size
    wrong = np.argwhere((cut != wanted) & (cut >= 0))
    if not wrong.size:
        return ""
    block, line, atom, along = (int(index) for index in wrong[0])
    line, along, should = block * 8 + line, atom * cut.shape[3] + along, start + int(wanted[tuple(wrong[0])])
    element, byte = _at(layout, line, along), int(_lined(where, layout)[line, along])
    if not layout.swizzle:
        return f"{element} is at byte {byte}, and should be at {should}, in the same core matrix as its neighbours"
    return (
        f"{element} is at byte {byte}, unit {byte >> 4 & 7} of line {byte >> 7}, and should be at "
        f"{int(swizzled(np.asarray(should), layout.swizzle))}: the swizzle XORs the unit with the number of the "
        f"128-byte line mod {layout.swizzle // 16}"
    )


def _atoms(_where: Array, offsets: Array, layout: Canonical, _start: int) -> str:
    origins = _cut(offsets, layout)[:, 0, :, 0]
    lines, along = (int(axis[1]) if axis.size > 1 else 0 for axis in (origins[:, 0], origins[0]))
    row, column = (np.arange(count, dtype=np.int64) for count in origins.shape[:2])
    wanted = np.add.outer(row * lines, column * along)
    wrong = np.argwhere(origins != wanted)
    if not wrong.size:
        return ""
    block, atom = (int(index) for index in wrong[0])
    element = _at(layout, block * 8, atom * _per_line(layout))
    return (
        f"atoms must be at equal distances, but the atom of {element} is {int(origins[block, atom])} bytes after the "
        f"first one, not {int(wanted[block, atom])}"
    )


def _fields(_where: Array, offsets: Array, layout: Canonical, _start: int) -> str:
    for name, step in zip(layout.steps, _steps(offsets, layout), strict=True):
        if step % 16 or not 0 <= step <= 0x3FFFF:
            why = "is not a multiple of 16" if step % 16 else "does not fit 14 bits of 16 bytes each"
            return f"{name.upper()} would be {step} bytes, which {why}"
    return ""


_TESTS: dict[str, Callable[[Array, Array, Canonical, int], str]] = dict(
    zip(_CHECKS, (_units, _starts, _lines, _exchange, _atoms, _fields), strict=False)
)


# ---------------------------------------------------------------------------------------------- rows


def in_rows(descriptor: Descriptor, layout: Canonical, mn: int, k: int) -> str:
    """A sentence if LBO and SBO without a swizzle look like distances in rows of memory; else nothing.

    They do if one leads over 8 rows, or a multiple, and the other over rows or to the next 16 bytes of a row. A tile
    without gaps, or with gaps in one direction, has atoms that are neighbours in the other.
    """
    along, axis = (k, "k") if layout.major == "K" else (mn, "mn")
    pitch = along * layout.bits // 8
    atoms = zip(layout.steps, layout.atoms(mn, k), strict=True)
    used = [getattr(descriptor, step) for step, count in atoms if count > 1]
    if layout.swizzle or pitch <= 16 or len(used) < 2 or layout.atom_bytes in used:
        return ""
    if not any(step and step % (8 * pitch) == 0 for step in used) or any(step % pitch and step != 16 for step in used):
        return ""
    return (
        f"LBO {descriptor.lbo} and SBO {descriptor.sbo} lead over rows of {pitch} bytes, {along} elements of {axis}. "
        "No descriptor reads a tile in such rows: without a swizzle, the 8 lines of a core matrix are 16 bytes apart, "
        f"not {pitch}. Store it as core matrices, or with a swizzle"
    )


def _contiguous(where: Array, major: Major, bits: int) -> bool:
    """Whether the first two elements along a direction are neighbours."""
    lined = where if major == "K" else where.T
    return lined.shape[1] > 1 and int(lined[0, 1] - lined[0, 0]) == max(bits // 8, 1)


def _rows(where: Array, bits: int) -> Rows | None:
    """The rows that the tile is in, if it is in rows: plain ones, or with the smallest swizzle that makes them so."""
    for major in (each for each in _MAJORS if _contiguous(where, each, bits)):
        lined = where if major == "K" else where.T
        for address in (lined, lined - lined[0, 0]):  # a kernel may swizzle addresses, or offsets in the tile
            for swizzle in (None, *_SWIZZLES):
                plain = address if swizzle is None else _undone(address, *swizzle)
                pitch = int(plain[1, 0] - plain[0, 0]) if len(plain) > 1 else 0
                row, column = (np.arange(count, dtype=np.int64) for count in plain.shape[:2])
                rows = row * pitch, column * max(bits // 8, 1)
                if np.array_equal(plain - plain[0, 0], np.add.outer(*rows)):
                    return Rows(pitch, swizzle)
    return None


def _undone(addresses: Array, bits: int, base: int, shift: int) -> Array:
    """The addresses before CuTe's Swizzle<bits, base, shift>, which is its own inverse."""
    return np.asarray(addresses ^ (addresses >> shift & ((1 << bits) - 1) << base))


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _named(swizzle: int) -> str:
    return f"{swizzle}-byte swizzle" if swizzle else "no swizzle"
