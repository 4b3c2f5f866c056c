"""The fragments of a product: A on the left, B on top, and D where the rows of A meet the columns of B.

A layer over the drawing has a target for the pointer over every cell of the map, and a band over every row and column:
an element of D lights its row of A and its column of B, and so on. CSS alone makes a cell light its bands; if scripts
may run, a few lines of script move from cell to cell with the arrow keys. A page that allows neither shows the plain
drawing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tcemu.arguments import explained
from tcemu.errors import span
from tcemu.instructions import Instruction, parse
from tcemu.layouts import Fragment
from tcemu.show import svg
from tcemu.show.fragment_map import (
    AXIS,
    MOST,
    Cell,
    Focus,
    Placed,
    batch_of,
    cell_target,
    cells,
    draw,
    element,
    heading,
    in_words,
    is_wide,
    legend,
)
from tcemu.show.layers import LOOK
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import LINE

_GAP = 30
#: Room for the note above A, even if there is nothing above D.
_NOTE = (220, 150)
#: Room for the note if what is above D is low.
_LEAST = 120
#: Width of a bold letter.
_LETTER = 7.5
#: The operands to the left of D, level with its rows, and those above its columns.
_BESIDE, _ABOVE = ("scale_a", "e", "a"), ("scale_b", "b")


@dataclass
class _Layout:
    """The fragments that are drawn, and the corner of D."""

    grids: list[Placed] = field(default_factory=list)
    x: float = 2 * AXIS
    y: float = 2 * AXIS + 8


@explained
def mma_map(
    instruction: Instruction, lane: int | None = None, register: int | None = None, batch: int | None = None
) -> Picture:
    """A on the left, B on top, and D where the rows of A meet the columns of B.

    Metadata is left of A, scales are left of A and above B; operands in shared memory are not drawn. `lane` marks
    everything that one lane holds; `register` marks one register of every lane (or, with `lane`, of that lane). m8n8k4
    of f16 is four independent products; `batch` selects one, by default that of `lane`. The selector of metadata and
    the thread-id of scales are always those of `lane`. Of a warpgroup, the rows of one warp are drawn: that of `lane`.
    Raises LayoutError for a lane, register or batch that does not exist.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> tcemu.show.mma_map(mma, lane=5).title
    'mma m16n8k16 f16: lane and register of each element'
    """
    instruction = instruction if hasattr(instruction, "fragments") else parse(instruction)
    fragments = instruction.fragments
    matrices = [fragments[role] for role in "abd" if role in fragments]
    focus, a = Focus(lane, register), fragments["a"]
    for fragment in matrices:
        Focus(lane, None).check(fragment)
    batch = batch_of(a, lane, batch)
    if register is not None and register >= max(fragment.registers for fragment in matrices):
        focus.check(a)
    layout = _arranged(instruction, lane, batch)
    bottom = layout.grids[-1].bottom
    scaled = "; scales show the lane only" if "scale_a" in fragments else ""
    beside = next(grid for grid in layout.grids if grid.fragment is a)
    body = [draw(grid, focus) for grid in layout.grids], _note(instruction, focus, layout.grids[-1])
    key = legend(beside, focus, 2 * AXIS, bottom + 24, scaled)
    width = layout.grids[-1].right + 16
    which = f", product {batch} of {a.shape[0]}" if len(a.shape) == 3 else ""
    m, n, k = instruction.shape
    form = f"{instruction.family} m{m}n{n}k{k} {instruction.types['a'].name}"
    title = f"{form}{which}: lane and register of each element"
    return picture(title, in_words(layout.grids, focus), width, bottom + 38 + LINE, (body, key), _layer(layout.grids))


def _arranged(instruction: Instruction, lane: int | None, batch: int) -> _Layout:
    """Place every fragment; D comes last."""
    fragments = instruction.fragments
    narrow = is_wide(fragments["a"])
    sizes = {role: element(fragments[role], narrow if role in "abd" else None) for role in fragments}
    wide = max(sizes[role][0] for role in "bd" if role in fragments)
    high = max(sizes[role][1] for role in "ad")
    # the selector and the thread-id follow the lane; only m8n8k4 has several products
    batches = {role: batch if role in "abd" else batch_of(fragments[role], lane, None) for role in fragments}
    layout, warp = _Layout(), (lane or 0) // 32
    above = [role for role in _ABOVE if role in fragments]
    heights = {role: fragments[role].shape[-2] * sizes[role][1] for role in above}
    corner = max(sum(heights[role] + _GAP + AXIS for role in above), _LEAST) if above else _NOTE[1]
    top, layout.y = layout.y, 2 * AXIS + corner
    for role in (role for role in _BESIDE if role in fragments):
        grid = _placed(fragments[role], batches[role], layout, (sizes[role][0], high), warp)
        layout.grids.append(grid)
        layout.x += max(grid.box.wide + _GAP + AXIS, _LETTER * len(heading(grid.fragment)) + AXIS)
    layout.x = max(layout.x, 2 * AXIS + _NOTE[0] + _GAP + AXIS)
    for role in above:
        layout.grids.append(Placed.at_corner(fragments[role], batches[role], layout.x, top, (wide, sizes[role][1])))
        top += heights[role] + _GAP + AXIS
    layout.grids.append(_placed(fragments["d"], batches["d"], layout, (wide, high), warp))
    return layout


def _placed(fragment: Fragment, batch: int, layout: _Layout, size: tuple[float, float], warp: int) -> Placed:
    """An operand beside D, or D: of several warps' fragment, the rows of `warp`."""
    grid = Placed.at_corner(fragment, batch, layout.x, layout.y, size)
    return grid.of_warp(warp) if fragment.lanes > 32 else grid


def _note(instruction: Instruction, focus: Focus, d: Placed) -> list[str]:
    """What the map shows, in the empty corner above A."""
    x, y = 2 * AXIS, 2 * AXIS + 16
    (m, n, k), fragments = instruction.shape, instruction.fragments
    lanes = fragments["d"].lanes
    who = "one warp" if lanes == 32 else "one warpgroup"
    equation, where = ("D = A × B + C", []) if "b" in fragments else ("D = A × B + D", ["B is in shared memory"])
    if lanes > 32:
        rows = span(d.first, d.first + d.rows - 1)
        where.append(f"drawn: warp {(focus.lane or 0) // 32} of warps 0 to {lanes // 32 - 1}, rows {rows}")
    lines = [(equation, "b"), *((line, "") for line in (f"{who}, {lanes} lanes: {m} × {n} × {k}", *where))]
    if focus.lane is not None:
        lines.append((f"lane {focus.lane} holds the marked cells", ""))
    elif focus.register is not None:
        lines.append((f"register {focus.register} of every lane is marked", ""))
    return [svg.text(x, y + 20 * number, words, style) for number, (words, style) in enumerate(lines)]


#: The names of rows and columns, by role.
_INDICES = {"a": ("i", "k"), "b": ("k", "j"), "d": ("i", "j")}
#: What a cell of an operand lights: the bands of another, along an axis that both have.
_LIGHTS = (("d", "i", "a"), ("d", "j", "b"), ("a", "i", "d"), ("a", "k", "b"), ("b", "k", "a"), ("b", "j", "d"))


def _layer(grids: Sequence[Placed]) -> str:
    """The _layer over a map of these grids; empty if it has no product in it, or too many cells."""
    drawn = {grid.fragment.role: grid for grid in grids if grid.fragment.role in _INDICES}
    cells_of = {role: cells(grid.fragment, grid.batch) for role, grid in drawn.items()}
    if len(drawn) < len(_INDICES) or sum(map(len, cells_of.values())) > MOST:
        return ""
    bands = [band for role, grid in drawn.items() for band in _bands(role, grid)]
    order = sorted(drawn, reverse=True)  # the arrow keys start in D
    targets = [svg.group((_target(drawn[role], cell) for cell in cells_of[role]), f"z z{role}") for role in order]
    return f"<style>{_rules(drawn)}</style>{svg.group(bands, 'y')}{''.join(targets)}"


def _bands(role: str, grid: Placed) -> Iterator[str]:
    """A rectangle over every row and every column of a matrix, and over those along k that share registers."""
    rows, columns = grid.rows, grid.columns
    down, across = _INDICES[role]
    first = cells(grid.fragment, grid.batch)[0]
    high, wide = first.rows if down == "k" else 1, first.columns if across == "k" else 1
    for row in range(0, rows, high):
        names = " ".join(f"{role}{down}{each}" for each in range(row, row + high))
        yield svg.path(grid.block(row, 0, high, columns).outline(), names)
    for column in range(0, columns, wide):
        names = " ".join(f"{role}{across}{each}" for each in range(column, column + wide))
        yield svg.path(grid.block(0, column, rows, wide).outline(), names)


def _target(grid: Placed, cell: Cell) -> str:
    """A cell that can be pointed at: its rows and columns as classes, and what it holds as its title."""
    role = grid.fragment.role
    down, across = _INDICES[role]
    names = [f"{down}{row}" for row in range(cell.row, cell.row + cell.rows)]
    names += [f"{across}{column}" for column in range(cell.column, cell.column + cell.columns)]
    return cell_target(grid, cell, " ".join(names))


def _rules(drawn: dict[str, Placed]) -> str:
    """The style of the _layer; every picture has its own, because rows with the same number are elsewhere in others.

    `&` is the picture, whose name replaces it.
    """
    look = (
        "& .y path{opacity:0;fill:var(--tc-mark);fill-opacity:.08;stroke:var(--tc-ink);stroke-width:3;"
        f"pointer-events:none}}{LOOK}"
    )
    rules = []
    depth = {role: drawn[role].fragment.shape[-2:][_INDICES[role].index("k")] for role in "ab"}
    for role, axis, other in _LIGHTS:
        if axis == "k" and len(set(depth.values())) > 1:
            continue  # a stored column of a sparse A meets a row of B that the metadata chooses
        number = drawn[role].fragment.shape[-2:][_INDICES[role].index(axis)]
        rules += [f"&:has(.z{role} .{axis}{at}:is(:hover,.on)) .{other}{axis}{at}{{opacity:1}}" for at in range(number)]
    return look + "".join(rules)
