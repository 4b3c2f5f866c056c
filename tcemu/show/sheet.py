"""What pictures are made of: boxes with labels, grids of boxes, rows of bits, scales with ticks, lines of notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tcemu.show import svg
from tcemu.show.svg import Drawing

#: From one line of notes to the next.
LINE = 18


class Box(NamedTuple):
    """A rectangle of the drawing: its corner and its size."""

    x: float
    y: float
    wide: float
    high: float

    @property
    def middle(self) -> float:
        """Half-way from the left to the right."""
        return self.x + self.wide / 2

    def inset(self, by: float) -> Box:
        """A smaller box in this one."""
        return Box(self.x + by, self.y + by, self.wide - 2 * by, self.high - 2 * by)

    def rect(self, style: str) -> str:
        """The box itself."""
        return svg.rect(*self, style)

    def hatch(self, style: str = "g", step: float = 6) -> str:
        """Hatching that fills it: grey for what is dropped or not used."""
        return svg.hatch(*self, style, step=step)

    def unused(self, step: float = 6) -> list[str]:
        """The box of what is dropped or not used."""
        return [self.rect("p"), self.hatch(step=step)]

    def outline(self) -> str:
        """Its edge, as the data of a path."""
        return svg.outline(*self)

    @property
    def base(self) -> float:
        """Where small text in it stands."""
        return self.y + self.high / 2 + 4

    def label(self, content: object, look: str) -> str:
        """Text in its middle."""
        larger = look.startswith("m")
        return svg.text(self.middle, self.base + larger, content, look, "middle")

    def lines(self, texts: Iterable[tuple[object, str]], left: float, top: float, step: float) -> list[str]:
        """Lines of text in it, each with its look."""
        return [svg.text(self.x + left, self.y + top + step * n, text, look) for n, (text, look) in enumerate(texts)]

    def marked(self, step: float = 6) -> list[str]:
        """The box as what the picture is about: a thick frame, and yellow hatching."""
        return [self.rect("x"), self.inset(1).hatch("h", step)]

    def above(self, content: object, look: str, up: float = 6) -> str:
        """Text over its middle."""
        return svg.text(self.middle, self.y - up, content, look, "middle")

    def below(self, content: object, look: str, down: float) -> str:
        """Text under its middle."""
        return svg.text(self.middle, self.y + self.high + down, content, look, "middle")

    def bracket(self, inset: float, down: float = 5) -> str:
        """A bracket under it."""
        return svg.bracket(self.x + inset, self.x + self.wide - inset, self.y + self.high + down)


@dataclass(frozen=True)
class Grid:
    """Boxes of one size in rows and columns.

    >>> from tcemu.show.sheet import Grid
    >>> grid = Grid(left=10, top=20, wide=30, high=40, rows=2, columns=3)
    >>> grid.at(1, 2)
    Box(x=70, y=60, wide=30, high=40)
    >>> grid.right, grid.bottom
    (100, 100)
    """

    left: float
    top: float
    wide: float
    high: float
    rows: int
    columns: int

    @property
    def right(self) -> float:
        """Right edge."""
        return self.left + self.columns * self.wide

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.top + self.rows * self.high

    @property
    def box(self) -> Box:
        """The whole grid."""
        return Box(self.left, self.top, self.columns * self.wide, self.rows * self.high)

    def at(self, row: int, column: int) -> Box:
        """One of its boxes."""
        return Box(self.left + column * self.wide, self.top + row * self.high, self.wide, self.high)

    def block(self, row: int, column: int, rows: int, columns: int) -> Box:
        """Some rows and columns as one box."""
        return self.at(row, column)._replace(wide=columns * self.wide, high=rows * self.high)

    def above(self, names: Iterable[object], look: str = "s t", up: float = 8) -> list[str]:
        """The names of the columns."""
        return [svg.text(self.at(0, n).middle, self.top - up, name, look, "middle") for n, name in enumerate(names)]

    def beside(self, names: Iterable[object], look: str = "s t", gap: float = 6) -> list[str]:
        """The names of the rows, on the left."""
        down = self.top + self.high / 2 + 4
        return [svg.text(self.left - gap, down + n * self.high, name, look, "end") for n, name in enumerate(names)]


class Cell(NamedTuple):
    """What a box of a grid says, its tone, and whether it is marked."""

    label: object
    tone: str = "p"
    marked: bool = False


def cell(box: Box, label: object, tone: str, look: str, marked: bool) -> Drawing:
    """A box on its own: its `tone` and the `look` of its label, unless it is marked."""
    return box.marked() if marked else box.rect(tone), box.label(label, "n b c halo" if marked else look)


def cells(grid: Grid, shown: Mapping[tuple[int, int], Cell], *, frame: bool = False, apart: bool = False) -> Drawing:
    """The boxes of a grid by row and column: those of a tone as one path, the marked ones on top of the others.

    A `frame` is around the grid. Marked boxes that are `apart` are a little smaller, and their tone is around them.
    """
    tones, loud = dict[str, list[str]](), list[Box]()
    labels: tuple[list[str], list[str]] = [], []
    for place, cell in shown.items():
        box = grid.at(*place)
        labels[cell.marked].append(svg.text(box.middle, box.base, cell.label))
        if cell.marked:
            loud.append(box)
        if apart or not cell.marked:
            tones.setdefault(cell.tone, []).append(box.outline())
    quiet = [svg.path("".join(tones[tone]), tone) for tone in sorted(tones, reverse=True)]
    edge = grid.box.rect("k") if frame else ""
    marks: Drawing = [box.inset(1).marked(step=10) for box in loud] if apart else joined(loud)
    return quiet, svg.group(labels[0], "n q c"), edge, marks, svg.group(labels[1], "n b c halo")


def joined(boxes: Sequence[Box]) -> Drawing:
    """Marked boxes as two paths, because a page draws those faster than two elements for each of many."""
    return svg.path(map(Box.outline, boxes), "x"), svg.path((svg.hatch_lines(*box.inset(1)) for box in boxes), "h")


def row_of_bits(
    grid: Grid, bits: int, tones: Sequence[str], low: int = 0, *, divided: bool = False
) -> Iterator[Drawing]:
    """Some bits of a word from the highest down, in a row: bit `low` of the word is the lowest of `bits`.

    Each bit has its tone; those that are not used (p) are hatched in grey, wrong ones (x) in yellow. The bits are
    numbered, every eighth if they are narrow. Thick lines divide tones if they are to be `divided`.
    """
    for place, tone in enumerate(tones):
        box, number = grid.at(0, place), grid.columns - 1 - place
        digit, hatch = bits >> number & 1, {"p": "g", "x": "h"}.get(tone, "")
        look = f"m{' b' * digit}" + {"": "", "g": " clear", "h": " halo"}[hatch]
        yield box.rect(tone), box.hatch(hatch) if hatch else "", box.label(digit, look)
        if grid.wide >= 20 or number % 8 == 0 or not place:
            yield box.above(low + number, "s t")
        if divided and place and tone != tones[place - 1]:
            yield svg.line(box.x, box.y - 2, box.x, grid.bottom + 2, "k")


class Scale(NamedTuple):
    """Where numbers are along an axis: `low` at the pixel `start`, `high` at the pixel `end`.

    >>> from tcemu.show.sheet import Scale
    >>> up = Scale(low=0, high=8, start=200, end=100)  # a vertical axis
    >>> up.at(2)
    175.0
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, number: float) -> float:
        """The pixel of a number."""
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, y: float, labels: Mapping[float, object], size: float = 5, down: float = 20) -> list[str]:
        """Ticks and labels under a horizontal axis at y, by number."""
        places = [(self.at(number), label) for number, label in labels.items()]
        return [svg.line(x, y, x, y + size, "k") + svg.text(x, y + down, label, "s", "middle") for x, label in places]


def notes(x: float, y: float, lines: Iterable[str], look: str = "s") -> list[str]:
    """Lines of text, from y on."""
    return [svg.text(x, y + LINE * number, line, look) for number, line in enumerate(lines)]
