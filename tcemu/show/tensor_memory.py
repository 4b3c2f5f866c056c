"""Tensor Memory: its lanes and columns, the quarter that a warp can reach, and one cell with its address."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.layouts.tensor_memory import COLUMNS, LANES, LANES_OF_WARP, lanes_of_warp, tensor_memory_address
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid

#: A quarter of the lanes in each row.
_GRID = Grid(96, 44, 512, 56, LANES // LANES_OF_WARP, 1)


@explained
def tensor_memory(warp: int, lane: int, column: int) -> Picture:
    """The Tensor Memory of a block, the lanes that `warp` reaches, and the cell at (lane, column).

    Raises LayoutError for a cell that does not exist.

    >>> tcemu.show.tensor_memory(1, 33, 7).title
    'Tensor Memory: lane 33, column 7 has the address 0x00210007; warp 1 can load it'
    """
    address, reached = tensor_memory_address(lane, column), lanes_of_warp(warp)
    can = "can" if lane in reached else "cannot"
    title = f"Tensor Memory: lane {lane}, column {column} has the address {address:#010x}; warp {warp} {can} load it"
    body = [element for quarter in range(_GRID.rows) for element in _quarter(quarter, reached)]
    body += _cell(lane, column, lane in reached)
    body.append(svg.text(_GRID.left, _GRID.top - 10, f"columns 0 to {COLUMNS - 1}, 32 bits each", "s"))
    legend = f"Bits 31 to 16 of an address are the lane, {lane} = {lane:#x}; bits 15 to 0 are the column, "
    legend += f"{column} = {column:#x}."
    body.append(svg.text(_GRID.left, _GRID.bottom + 28, legend, "s"))
    words = f"Warp {warp} reaches lanes {reached[0]} to {reached[-1]} of {LANES}. {legend}"
    return picture(title, words, _GRID.right + 90, _GRID.bottom + 44, body)


def _quarter(quarter: int, reached: range) -> list[str]:
    box, first = _GRID.at(quarter, 0), quarter * LANES_OF_WARP
    mine = first in reached
    own = [box.rect("fg k" if mine else "p")]
    own.append(svg.text(box.x - 8, box.base, f"lanes {first}–{first + 31}", "b s" if mine else "s", "end"))
    return own + ([svg.text(_GRID.right + 8, box.base, "this warp", "b s")] if mine else [])


def _cell(lane: int, column: int, can: bool) -> list[str]:
    all_ = _GRID.box
    x, y = all_.x + column * all_.wide / COLUMNS, all_.y + lane * all_.high / LANES
    cross = [svg.line(all_.x, y, _GRID.right, y), svg.line(x, all_.y, x, _GRID.bottom)]
    side, anchor = (10, "start") if column < COLUMNS / 2 else (-10, "end")
    label = f"lane {lane}, column {column}" + ("" if can else ": out of reach")
    told = svg.text(x + side, y + (20 if lane < 64 else -10), label, "b halo", anchor)
    return [*cross, svg.rect(x - 4, y - 4, 8, 8, "x"), told]
