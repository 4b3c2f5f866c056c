"""The map of a fragment: a matrix with the lane and the register in every cell.

Everything comes from the fragment's layout. Neighbouring elements that share a register are one cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tcemu.arguments import explained
from tcemu.errors import LayoutError, briefly, counted, span, whole
from tcemu.layouts import Fragment
from tcemu.layouts.formulas import axes
from tcemu.show import svg
from tcemu.show.layers import layer, target
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import LINE, Box, Grid, notes
from tcemu.show.svg import Drawing

#: Room for the index of a row or column beside a matrix.
AXIS = 22
#: Larger maps are too large for a page, and their cells too small for a pointer.
MOST = 1200
#: Width of a cell, normal and narrow.
_CELL = (50, 36)
#: Lanes that share a shade: those of one groupID, as the PTX manual calls lane >> 2.
_GROUP = 4
#: The shades of neighbouring groups, from the first on.
_SHADES = ("fb", "f", "fo", "fg")
#: The names of rows and columns, by role.
_INDICES = {
    "a": ("m", "k"), "b": ("k", "n"), "e": ("m", "chunk"), "scale_a": ("m", "byte"), "scale_b": ("byte", "n"),
}  # fmt: skip


@dataclass(frozen=True)
class Focus:
    """What a map marks: the cells of a lane, of a register, or of one register of one lane; nothing by default."""

    lane: int | None = None
    register: int | None = None

    def takes(self, lane: int, register: int) -> bool:
        """Whether the cell of `lane` and `register` is marked."""
        if self.lane is None and self.register is None:
            return False
        return self.lane in (None, lane) and self.register in (None, register)

    @property
    def said(self) -> str:
        """What is marked, in words; empty if nothing is."""
        if self.lane is None:
            return "" if self.register is None else f"marked: register {self.register} of every lane"
        return f"marked: lane {self.lane}" + ("" if self.register is None else f", register {self.register}")

    def check(self, fragment: Fragment) -> None:
        """Raise LayoutError if the fragment has no such lane or register, or is not a fragment."""
        if not isinstance(fragment, Fragment):
            raise LayoutError(f"a fragment must be one of tcemu.parse(opcode).fragments; got {briefly(fragment)}")
        limits = (("lane", self.lane, fragment.lanes), ("register", self.register, fragment.registers))
        for what, chosen, limit in limits:
            if chosen is not None and not 0 <= whole(chosen, f"a {what}", LayoutError) < limit:
                has = f"{what}{'s' * (limit > 1)} {span(0, limit - 1)} ({fragment.layout})"
                raise LayoutError(f"{what} {chosen}: fragment {fragment.role} has {has}")


@dataclass(frozen=True)
class Cell:
    """A rectangle of neighbouring elements in one register of one lane (rows and columns as half-open ranges)."""

    row: int
    column: int
    rows: int
    columns: int
    lane: int
    register: int
    #: How many (lane, register) pairs hold these elements: more than 1 in a broadcast.
    copies: int


@dataclass(frozen=True)
class Placed(Grid):
    """A fragment in the picture: a box for each element, of which a cell has one or several."""

    fragment: Fragment
    batch: int
    #: The first row that is drawn: the map of a warpgroup shows those of one warp.
    first: int = 0

    @classmethod
    def at_corner(cls, fragment: Fragment, batch: int, left: float, top: float, size: tuple[float, float]) -> Placed:
        """The fragment at that corner, with elements of that width and height."""
        *_, rows, columns = fragment.shape
        return cls(left, top, *size, rows, columns, fragment, batch)

    def of_warp(self, warp: int) -> Placed:
        """The part that a warp holds."""
        rows = [cell.row for cell in cells(self.fragment, self.batch) if cell.lane // 32 == warp]
        return replace(self, first=min(rows), rows=max(rows) + 1 - min(rows))

    @property
    def drawn(self) -> list[Cell]:
        """The cells in the rows that are drawn."""
        all_cells = cells(self.fragment, self.batch)
        return [cell for cell in all_cells if self.first <= cell.row < self.first + self.rows]

    def cell(self, cell: Cell) -> Box:
        """The box of a cell."""
        return self.block(cell.row - self.first, cell.column, cell.rows, cell.columns)


@lru_cache(maxsize=64)
def cells(fragment: Fragment, batch: int = 0) -> tuple[Cell, ...]:
    """The cells of a fragment from the top left, by rows; `batch` selects one of the four matrices of m8n8k4."""
    rows, columns = fragment.shape[-2:]
    front = (batch,) if len(fragment.shape) == 3 else ()
    holders = {(row, column): fragment.holders(*front, row, column) for row in range(rows) for column in range(columns)}
    owner = {place: held[0][:2] for place, held in holders.items()}
    rectangles: list[Cell] = []
    seen: set[tuple[int, int]] = set()
    for (row, column), who in owner.items():
        if (row, column) in seen:
            continue
        wide = _run(owner, row, column, 0, 1)
        high = _run(owner, row, column, 1, 0) if wide == 1 else 1
        seen |= {(row + i, column + j) for i in range(high) for j in range(wide)}
        rectangles.append(Cell(row, column, high, wide, *who, copies=len(holders[row, column])))
    return tuple(rectangles)


def _run(owner: dict[tuple[int, int], tuple[int, int]], row: int, column: int, down: int, right: int) -> int:
    length = 1
    while owner.get((row + down * length, column + right * length)) == owner[row, column]:
        length += 1
    return length


@explained
def fragment_map(
    fragment: Fragment, lane: int | None = None, register: int | None = None, batch: int | None = None
) -> Picture:
    """One operand: the lane and register of every element, with those of `lane` and `register` marked.

    m8n8k4 of f16 is four independent products; `batch` selects one, by default that of `lane`.
    Raises LayoutError for a lane, register or batch that the fragment does not have.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> tcemu.show.fragment_map(mma.fragments["b"], lane=5).title
    'B (16 × 8 f16): lane and register of each element'
    """
    focus = Focus(lane, register)
    focus.check(fragment)
    batch = batch_of(fragment, lane, batch)
    grid = Placed.at_corner(fragment, batch, 2 * AXIS, 3 * AXIS - 12, element(fragment))
    title = f"{_name(fragment)}: lane and register of each element"
    body = draw(grid, focus), legend(grid, focus, grid.left, grid.bottom + 24, f"; {focus.said}" if focus.said else "")
    elements = cells(fragment, batch)
    on_top = layer(cell_target(grid, cell) for cell in elements) if len(elements) <= MOST else ""
    return picture(title, in_words([grid], focus), max(grid.right + 16, 520), grid.bottom + 38 + LINE, body, on_top)


def batch_of(fragment: Fragment, lane: int | None, batch: int | None) -> int:
    """Which one is drawn (product of m8n8k4, selector, thread-id): `batch`, by default that of `lane`, or else 0."""
    products = fragment.shape[0] if len(fragment.shape) == 3 else 1
    if batch is None:
        return fragment.layout.position(lane, 0)[0] if lane is not None and products > 1 else 0
    if not 0 <= batch < products:
        raise LayoutError(f"batch {batch}: fragment {fragment.role} has {counted(products, 'product')}, counted from 0")
    return batch


def element(fragment: Fragment, narrow: bool | None = None) -> tuple[float, float]:
    """Width and height of one element, so that a cell's label fits; narrower if there are many cells in a row."""
    first = cells(fragment)[0]
    cell = _CELL[is_wide(fragment) if narrow is None else narrow]
    return max(cell / 32, cell / first.columns), max(0.75, 24 / first.rows)


def is_wide(fragment: Fragment) -> bool:
    """Whether the cells of a row are too many to be drawn at full width."""
    return fragment.shape[-1] > 8 * cells(fragment)[0].columns


def draw(grid: Placed, focus: Focus) -> Drawing:
    """The ordinary cells, a path for each shade, and a group of labels; the marked cells on top."""
    drawn = grid.drawn
    quiet = [cell for cell in drawn if not focus.takes(cell.lane, cell.register)]
    marked = [cell for cell in drawn if focus.takes(cell.lane, cell.register)]
    shade = shades_of(drawn)
    shades = [svg.path((grid.cell(cell).outline() for cell in quiet if shade[cell.lane // _GROUP] == style), style)
              for style in _SHADES]  # fmt: skip
    small = " t" if grid.cell(drawn[0]).wide < 40 else ""
    below = shades, _notches(grid, drawn), svg.group((_label(grid, cell) for cell in quiet), f"n q c{small}")
    above = (
        [grid.cell(cell).marked() for cell in marked],
        svg.group((_label(grid, cell) for cell in marked), f"n b c halo{small}"),
    )
    return below, grid.box.rect("k"), above, _axes(grid, drawn)


def shades_of(drawn: Sequence[Cell]) -> dict[int, str]:
    """The look of the cells of each group of four lanes, so that the map shows groups before a lane is marked.

    Shades are given out in order: the two groups of a quad pair, 1 and 5, differ.
    """
    groups = sorted({cell.lane // _GROUP for cell in drawn})
    return {group: _SHADES[place % len(_SHADES)] for place, group in enumerate(groups)}


def cell_target(grid: Placed, cell: Cell, names: str = "") -> str:
    """A cell that can be pointed at: what it holds is its title, from which view.js reads what to choose."""
    role = grid.fragment.role
    rows, columns = (span(first, first + size - 1, "–") for first, size in
                     ((cell.row, cell.rows), (cell.column, cell.columns)))  # fmt: skip
    title = f"{role.upper()}[{rows}, {columns}]: {role}{cell.register} of lane {cell.lane}"
    return target(grid.cell(cell).outline(), title, names)


def _label(grid: Placed, cell: Cell) -> str:
    """Lane and register; a lane of one digit is padded with a space."""
    box = grid.cell(cell)
    lane = f"{cell.lane:\N{NO-BREAK SPACE}>2}{'+' if cell.copies > 1 else ''}"
    role = grid.fragment.role
    # there is no room for a long name, and a lane with one register needs none
    return svg.text(box.middle, box.base, lane if len(role) > 1 else f"{lane} {role}{cell.register}")


def _notches(grid: Placed, drawn: Sequence[Cell]) -> Drawing:
    """Short marks on the edges of the cells between one element and the next, if there is room for them."""
    cell, data = drawn[0], list[str]()
    if grid.wide >= 5 and cell.columns > 1:
        xs = [grid.at(0, column).x for column in range(grid.columns) if column % cell.columns]
        ys = [grid.at(row, 0).y for row in range(1, grid.rows)]
        data = [f"M{svg.number(x)} {svg.number(y - 3)}v6" for x in xs for y in ys]
    elif grid.high >= 5 and cell.rows > 1:
        ys = [grid.at(row, 0).y for row in range(grid.rows) if row % cell.rows]
        xs = [grid.at(0, column).x for column in range(1, grid.columns)]
        data = [f"M{svg.number(x - 3)} {svg.number(y)}h6" for x in xs for y in ys]
    return svg.path(data, "l")


def _axes(grid: Placed, drawn: Sequence[Cell]) -> Drawing:
    rows, columns, fragment = drawn[0].rows, drawn[0].columns, grid.fragment
    down, across = _INDICES.get(fragment.role, ("m", "n"))
    name = svg.text(grid.left, grid.top - AXIS, heading(fragment), "b")
    several = len(fragment.shape) == 3 and fragment.shape[0] > 1  # which one is drawn: "product 2", "selector 0"
    which = svg.text(grid.left, grid.top - AXIS - 16, f"{axes(fragment)[0]} {grid.batch}", "s") if several else ""
    coarse = replace(grid, wide=columns * grid.wide, high=rows * grid.high)
    above = coarse.above(_ranges(across, 0, grid.columns, columns), up=6)
    return name, which, above, coarse.beside(_ranges(down, grid.first, grid.rows, rows))


def _ranges(name: str, first: int, count: int, size: int) -> list[str]:
    """The labels of rows or columns, some of which are drawn as one; the first one names the index."""
    labels = [span(start, start + size - 1, "–") for start in range(first, first + count, size)]
    return [f"{name}={labels[0]}" if name else labels[0], *labels[1:]]


def legend(grid: Placed, focus: Focus, x: float, y: float, more: str = "") -> list[str]:
    """How to read the label of a cell of this map, and `more` about it; what hatching and shades mean."""
    role, drawn = grid.fragment.role, grid.drawn
    sharing = grid.fragment.elements_per_register
    cell = next((cell for cell in drawn if focus.takes(cell.lane, cell.register)), drawn[-1])
    together = f"; {sharing} neighbouring elements share a register" if sharing > 1 else ""
    held = f"register {role}{cell.register} of lane {cell.lane}"
    label = f"{cell.lane} {role}{cell.register} means: {held}" if len(role) == 1 else f"{cell.lane} means: {held}"
    groups = shades_of(drawn)
    repeat = "; the four shades repeat" if len(groups) > len(_SHADES) else ""
    shades = f"each group of four lanes (lane // 4) has a shade{repeat}"
    if any(cell.copies > 1 for cell in drawn):
        more = f"; +: other lanes hold the same{more}"
    return notes(x, y, (f"{label}{together}{more}", *([shades] if len(groups) > 1 else [])))


def heading(fragment: Fragment) -> str:
    """The heading above a matrix."""
    rows, columns = fragment.shape[-2:]
    return f"{_title(fragment)}  {rows} × {columns}  {fragment.type}"


def _title(fragment: Fragment) -> str:
    """A for a, B for b; e and scale_a as they are."""
    return fragment.role.upper() if fragment.role in "abcd" else fragment.role


def _name(fragment: Fragment) -> str:
    return f"{_title(fragment)} ({' × '.join(str(size) for size in fragment.shape)} {fragment.type})"


def in_words(grids: Sequence[Placed], focus: Focus) -> str:
    """The text alternative: what is marked, register by register, then the layouts."""
    words = []
    if focus.lane is not None:
        parts = [_held(grid, focus) for grid in grids]
        words.append(f"Lane {focus.lane} holds {'; '.join(part for part in parts if part)}.")
    elif focus.register is not None:
        words.append(f"Register {focus.register} of every lane is marked.")
    for fragment in (grid.fragment for grid in grids):
        registers = f"{counted(fragment.registers, 'register')} in each of {fragment.lanes} lanes"
        words.append(f"{_name(fragment)}: {registers}, layout {fragment.layout}.")
    return " ".join(words)


def _held(grid: Placed, focus: Focus) -> str:
    fragment, parts = grid.fragment, []
    *_, row, column = axes(fragment)
    for register in range(fragment.registers):
        mine = [b for b in grid.drawn if (b.lane, b.register) == (focus.lane, register)]
        if mine and focus.takes(mine[0].lane, register):
            where = [f"{_several(row, b.row, b.rows)} {_several(column, b.column, b.columns)}" for b in mine]
            parts.append(f"{fragment.role}{register} = {' and '.join(where)}")
    return ", ".join(parts)


def _several(what: str, start: int, size: int) -> str:
    return f"{what}{'s' * (size > 1)} {span(start, start + size - 1, '–')}"
