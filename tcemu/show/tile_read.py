"""What a descriptor finds: the 16-byte units of an operand of wgmma, and the elements that are really stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError, counted, span
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import Canonical, Element, Major
from tcemu.layouts.descriptor import as_bits, tile_addresses
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import LINE, Cell, Grid, cells
from tcemu.show.sheet import notes as lines
from tcemu.show.svg import Drawing

#: Elements of a tile: more than fit into shared memory.
_MOST = 1 << 18


@dataclass(frozen=True)
class _Read:
    """The operand's units by their place in the drawing, and what the memory has stored."""

    layout: Canonical
    #: First element (mn, k) that each unit should hold, and that it holds: (rows, columns, 2); -1 outside the tile.
    wanted: npt.NDArray[np.int64]
    got: npt.NDArray[np.int64]

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        return np.asarray((self.wanted != self.got).any(axis=-1))


@explained
def tile_read(
    tile: Descriptor,
    descriptor: Descriptor | int,
    element: Element,
    mn: int,
    k: int,
    major: Major = "K",
    *,
    at_k: int = 0,
    of_k: int = 0,
    notes: Sequence[str] = (),
) -> Picture:
    """What an instruction whose operand has mn by k elements gets through `descriptor`, one box for each 16-byte unit.

    `tile` is the descriptor with which the tile of mn by `of_k` elements was laid out (by default `k`), and `at_k` the
    first k that the instruction should get. A box says which element is there, and wrong ones are marked. `notes` are
    lines of text below. Raises LayoutError for elements of less than a byte, and for an operand outside the tile.

    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> tcemu.show.tile_read(tile, tile.step(16), "f16", 64, 16, of_k=64).title  # too far by 8 columns
    'What the descriptor finds: 128 of 128 units are wrong'
    """
    decoded = Descriptor.decode(as_bits(descriptor))
    whole = max(of_k, k)
    if tile.layout(element, major).bits < 8 or mn % 8 or not 0 <= at_k < at_k + k <= whole or mn * whole > _MOST:
        raise LayoutError(
            f"a tile of whole units of elements of 8 bits or more, at most {_MOST:,} of them, can be drawn; got mn "
            f"{mn}, k {at_k} to {at_k + k - 1} of {whole}"
        )
    read = _read(tile, decoded, element, (mn, k), major, (at_k, whole))
    count, size = int(read.wrong.sum()), read.wrong.size
    title = f"What the descriptor finds: {count or 'none'} of {size} units {'is' if count == 1 else 'are'} wrong"
    grid = Grid(70, 46, 52 if read.wrong.shape[1] > 8 else 84, 22, *read.wrong.shape)
    low = grid.bottom + 24
    legend = lines(grid.left, low, [_legend(read), str(decoded)]), lines(grid.left, low + 2 * LINE, notes, "")
    words = " ".join([_words(read), str(decoded), *notes])
    height = low + LINE * (len(notes) + 2) - 6
    return picture(title, words, max(grid.right + 16, 720), height, (_drawn(read, grid), legend))


def _read(
    tile: Descriptor, decoded: Descriptor, element: Element, shape: tuple[int, int], major: Major, part: tuple[int, int]
) -> _Read:
    layout, (mn, k), (at_k, of_k) = tile.layout(element, major), shape, part
    unit = 16 // layout.size
    steps = (1, unit) if major == "K" else (unit, 1)
    rows, columns = np.arange(0, mn, steps[0]), np.arange(0, k, steps[1])
    all_k = np.arange(0, of_k, steps[1])
    stored = {
        int(at) // 16: (int(rows[i]), int(all_k[j]))
        for (i, j), at in np.ndenumerate(tile_addresses(tile, layout, rows, all_k))
    }
    asked = tile_addresses(decoded, decoded.layout(element, major), rows, columns) // 16
    got = np.array([[stored.get(int(at), (-1, -1)) for at in line] for line in asked])
    wanted = np.stack(np.meshgrid(rows, columns + at_k, indexing="ij"), axis=-1)
    return _Read(layout, *(_placed(each, major) for each in (wanted, got)))


def _placed(units: npt.NDArray[Any], major: Major) -> npt.NDArray[Any]:
    """Units (mn, k, 2) as they are drawn: eight rows of mn side by side in groups, or k downwards."""
    if major == "MN":
        return units.swapaxes(0, 1)
    across = units.shape[1]
    return units.reshape(-1, 8, across, 2).transpose(1, 0, 2, 3).reshape(8, -1, 2)


def _drawn(read: _Read, grid: Grid) -> Drawing:
    """The units, in two tones for groups of mn beside each other."""
    across = grid.columns // max(int(read.wanted[0, :, 0].max()) // 8 + 1, 1) if read.layout.major == "K" else 1
    shown = {}
    for (row, column), wrong in np.ndenumerate(read.wrong):
        mn, k = read.got[row, column]
        shown[row, column] = Cell("—" if mn < 0 else f"{mn}, {k}", "pf"[column // across % 2], bool(wrong))
    return _axes(read, grid, across), cells(grid, shown, apart=True)


def _axes(read: _Read, grid: Grid, across: int) -> Drawing:
    """Above: the mn of a group of columns, and each column's k; on the left the rows."""
    first, is_k, unit = read.wanted[0].tolist(), read.layout.major == "K", 16 // read.layout.size
    groups = replace(grid, wide=across * grid.wide)
    mns = groups.above([f"mn {span(mn, mn + 7, '–')}" for mn, _ in first[::across]], "s", up=26 if is_k else 8)
    ks = grid.above([f"k {span(k, k + unit - 1, '–')}" for _, k in first]) if is_k else []
    return mns, ks, grid.beside([f"+{mn}" if is_k else f"k {k}" for mn, k in read.wanted[:, 0].tolist()], gap=10)


def _legend(read: _Read) -> str:
    along = "k" if read.layout.major == "K" else "mn"
    says = f"A box is a 16-byte unit, {16 // read.layout.size} elements along {along}; it says mn, k of the first."
    if (read.got < 0).any():
        says += " A dash: not part of the tile."
    return says + (" Framed and hatched: wrong." if read.wrong.any() else "")


def _words(read: _Read) -> str:
    places = np.argwhere(read.wrong)
    if not len(places):
        return "Every unit holds the elements that it should."
    faults = []
    for row, column in places[:8]:
        wanted, got = read.wanted[row, column].tolist(), read.got[row, column].tolist()
        has = "nothing of the tile" if got[0] < 0 else f"({got[0]}, {got[1]})"
        faults.append(f"({wanted[0]}, {wanted[1]}) should be there, and {has} is")
    more = f"; and {counted(len(places) - 8, 'more unit')}" if len(places) > 8 else ""
    return f"Of mn, k: {'; '.join(faults)}{more}."
