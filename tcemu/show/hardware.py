"""Where a tensor core sits: chip, SM, sub-core, and the way of the data to it; and a cell of Tensor Memory."""

from __future__ import annotations

from collections.abc import Iterator

from tcemu.arguments import explained
from tcemu.layouts.tensor_memory import COLUMNS, LANES, LANES_OF_WARP, lanes_of_warp, tensor_memory_address
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box, Grid
from tcemu.show.svg import Drawing

_CHIP = Grid(24, 60, 15, 15, 11, 12)
_L2, _GLOBAL = Box(24, 330, 180, 40), Box(24, 420, 180, 40)
_SM = Box(268, 34, 608, 350)
_SHARED = Box(_SM.x + 16, _L2.y, _SM.wide - 32, _L2.high)
#: The four sub-cores; each keeps a margin on its left for arrows.
_SUBCORES = Grid(_SM.x + 16, _SM.y + 12, 146, 262, 1, 4)
_MARGIN = 24
#: What one sub-core has, from the top: its place from the sub-core's upper edge, height, note and tone, by name.
_PARTS = {
    "scheduler": (26, 42, "one warp a clock", "p"),
    "32 cores": (78, 42, "32 multiply-adds", "p"),
    "registers": (130, 42, "64 KiB", "fg"),
    "tensor core": (200, 50, "512 multiply-adds", "fb"),
}
_STEPS = (
    "1  global memory → L2 → shared memory: cp.async, TMA",
    "2  shared memory → registers: ld.shared, ldmatrix",
    "3  registers → tensor core: mma.sync",
    "4  shared memory → tensor core: wgmma, without step 2",
)


@explained
def where_it_sits() -> Picture:
    """An H100 with its SMs, one SM with its four sub-cores, and how data reach a tensor core.

    The numbers are those of NVIDIA's data sheet and white paper: multiply-adds per clock, of float32 and of f16.

    >>> tcemu.show.where_it_sits().title
    'Where a tensor core sits: an H100, and one of its 132 SMs'
    """
    words = (
        "An H100 has 132 SMs, an L2 cache of 50 MB and 80 GB of global memory. An SM has four sub-cores and 228 KiB of "
        "shared memory. Each sub-core has a scheduler, which issues an instruction of one warp per clock; 32 ordinary "
        "cores for 32 multiply-adds of float32 per clock; 64 KiB of registers; and a tensor core for 512 of f16. Data "
        f"take these steps. {'; '.join(_STEPS)}."
    )
    shared = _box(_SHARED, "shared memory", "228 KiB, for the warps of a block", "fo")
    subcores = [_subcore(number) for number in range(_SUBCORES.columns)]
    steps = [svg.text(_SM.x, _GLOBAL.y + 4 + 21 * n, step) for n, step in enumerate(_STEPS)]
    title = "Where a tensor core sits: an H100, and one of its 132 SMs"
    size = _SM.x + _SM.wide + 16, _GLOBAL.y + 84
    return picture(title, words, *size, (_SM.rect("p"), _chip(), shared, subcores, steps))


def _chip() -> Iterator[Drawing]:
    """The SMs of the chip, one of them marked; the memories outside; the first step of the data."""
    chosen = _CHIP.at(4, 11).inset(1)
    yield svg.text(_CHIP.left, 22, "the chip", "b"), svg.text(_CHIP.left, 46, "132 SMs, one in each square", "s")
    yield [_CHIP.at(*divmod(place, _CHIP.columns)).inset(1).rect("p") for place in range(_CHIP.rows * _CHIP.columns)]
    yield chosen.rect("x"), svg.text(_SM.x, 22, "one SM, for up to 64 warps", "b")
    right = chosen.x + chosen.wide
    yield svg.line(right, chosen.y, _SM.x, _SM.y, dash="4 3")
    yield svg.line(right, chosen.y + chosen.high, _SM.x, _SM.y + _SM.high, dash="4 3")
    yield _box(_L2, "L2 cache", "50 MB", "p"), _box(_GLOBAL, "global memory", "80 GB, 3.35 TB/s", "p")
    middle = _L2.y + _L2.high / 2
    yield _step(1, (_L2.middle, _GLOBAL.y - 2), (_L2.middle, _L2.y + _L2.high + 3))
    yield _step(1, (_L2.x + _L2.wide + 2, middle), (_SHARED.x - 3, middle))


def _subcore(number: int) -> Iterator[Drawing]:
    """One of the four columns of the SM, and the last steps of the data."""
    frame = _SUBCORES.at(0, number)._replace(wide=_SUBCORES.wide - 8)
    yield frame.rect("f"), svg.text(frame.middle, frame.y + 17, f"sub-core {number}", "s", "middle")
    inner, wide = frame.x + _MARGIN, frame.wide - _MARGIN - 6
    place = {name: Box(inner, frame.y + top, wide, high) for name, (top, high, *_) in _PARTS.items()}
    yield [_box(place[name], name, note, tone) for name, (_, _, note, tone) in _PARTS.items()]
    registers, core = place["registers"], place["tensor core"]
    turn, level = frame.x + 11, registers.y + registers.high / 2
    yield svg.line(turn, _SHARED.y - 2, turn, level, "k"), svg.arrow(turn, level, inner - 3, level)
    yield svg.text(turn + 3, level + 34, "2", "b")
    yield _step(3, (core.middle - 20, registers.y + registers.high + 2), (core.middle - 20, core.y - 3))
    yield _step(4, (core.middle + 20, _SHARED.y - 2), (core.middle + 20, core.y + core.high + 3))


def _box(box: Box, name: str, note: str, tone: str) -> Drawing:
    """A box with its name and what it holds or does."""
    lines = [(name, "b", -7), (note, "s", 10)]
    return box.rect(tone), [svg.text(box.middle, box.base + down, line, look, "middle") for line, look, down in lines]


def _step(number: int, start: tuple[float, float], end: tuple[float, float]) -> Drawing:
    """An arrow, with its number beside it."""
    (x1, y1), (x2, y2) = start, end
    aside, down = (-4, -7) if abs(y1 - y2) < 1 else (7, 5)
    return svg.arrow(x1, y1, x2, y2), svg.text((x1 + x2) / 2 + aside, (y1 + y2) / 2 + down, number, "b")


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
    quarters = [_quarter(quarter, reached) for quarter in range(_GRID.rows)]
    names = svg.text(_GRID.left, _GRID.top - 10, f"columns 0 to {COLUMNS - 1}, 32 bits each", "s")
    legend = f"Bits 31 to 16 of an address are the lane, {lane} = {lane:#x}; bits 15 to 0 are the column, "
    legend += f"{column} = {column:#x}."
    body = quarters, _cell(lane, column, lane in reached), names, svg.text(_GRID.left, _GRID.bottom + 28, legend, "s")
    words = f"Warp {warp} reaches lanes {reached[0]} to {reached[-1]} of {LANES}. {legend}"
    return picture(title, words, _GRID.right + 90, _GRID.bottom + 44, body)


def _quarter(quarter: int, reached: range) -> Iterator[str]:
    box, first = _GRID.at(quarter, 0), quarter * LANES_OF_WARP
    mine = first in reached
    yield box.rect("fg k" if mine else "p")
    yield svg.text(box.x - 8, box.base, f"lanes {first}–{first + 31}", "b s" if mine else "s", "end")
    yield svg.text(_GRID.right + 8, box.base, "this warp", "b s") if mine else ""


def _cell(lane: int, column: int, can: bool) -> list[str]:
    all_ = _GRID.box
    x, y = all_.x + column * all_.wide / COLUMNS, all_.y + lane * all_.high / LANES
    cross = [svg.line(all_.x, y, _GRID.right, y), svg.line(x, all_.y, x, _GRID.bottom)]
    side, anchor = (10, "start") if column < COLUMNS / 2 else (-10, "end")
    label = f"lane {lane}, column {column}" + ("" if can else ": out of reach")
    named = svg.text(x + side, y + (20 if lane < 64 else -10), label, "b halo", anchor)
    return [*cross, svg.rect(x - 4, y - 4, 8, 8, "x"), named]
