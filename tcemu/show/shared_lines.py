"""128-byte lines of shared memory, one below the other, in 16-byte units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tcemu.layouts.swizzle import turn
from tcemu.show import svg
from tcemu.show.sheet import Cell, Grid, cells


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

    def drawn(self, held: Callable[[int], Cell]) -> list[str]:
        """The lines with what each unit (address div 16) holds, and the labels around them."""
        units = {(row, column): held(8 * line + column) for row, line in enumerate(self.lines) for column in range(8)}
        return [*self._head(), *cells(self.grid, units, apart=True), *self._beside()]

    def _head(self) -> list[str]:
        """The bytes and banks of the units, above the lines."""
        grid = self.grid
        elements = [svg.text(grid.left - 10, grid.top - 8, "address", "s t", "end")]
        for unit in range(8):
            x = grid.at(0, unit).middle
            elements.append(svg.text(x, grid.top - 24, f"bytes {16 * unit}–{16 * unit + 15}", "s", "middle"))
            elements.append(svg.text(x, grid.top - 8, f"banks {4 * unit}–{4 * unit + 3}", "s t", "middle"))
        return elements

    def _beside(self) -> list[str]:
        """Addresses on the left, the swizzle's XOR on the right, and a thick line where its pattern starts."""
        grid, elements = self.grid, list[str]()
        start, end = grid.left - 70, grid.right + self.margin - 10
        for row, line in enumerate(self.lines):
            box, y, turned = grid.at(row, 0), grid.at(row, 0).y, self.turn(line)
            elements.append(svg.text(grid.left - 10, box.base, f"{128 * line:#x}", "n q", "end"))
            if self.swizzle:
                elements.append(svg.text(grid.right + 10, box.base, f"unit XOR {turned}", "n q t"))
            if row and line != self.lines[row - 1] + 1:
                elements.append(svg.line(start, y, end, y, "k", dash="6 4"))
            elif self.swizzle and not turned:
                elements.append(svg.line(start, y, end, y, "k"))
        return elements
