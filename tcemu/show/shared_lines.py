"""128-byte lines of shared memory, one below the other: shared by the pictures of tiles and of boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcemu.layouts.swizzle import turn
from tcemu.show import svg


@dataclass(frozen=True)
class SharedLines:
    """Where the 16-byte units of some lines are drawn, and the labels beside them."""

    #: Numbers of the lines (address div 128), ascending.
    lines: list[int]
    swizzle: int
    base_offset: int = 0
    left: float = 84
    top: float = 56
    unit: float = 92
    height: float = 22
    #: Room to the right of the units.
    margin: float = 84

    @property
    def right(self) -> float:
        """Right edge of the units."""
        return self.left + 8 * self.unit

    @property
    def bottom(self) -> float:
        """Lower edge of the units."""
        return self.top + len(self.lines) * self.height

    @property
    def jumps(self) -> bool:
        """Whether lines are left out between two of those shown."""
        return any(after != before + 1 for before, after in zip(self.lines, self.lines[1:], strict=False))

    def turn(self, line: int) -> int:
        """What the unit numbers of a line are XORed with."""
        return int(turn(np.array(line), self.swizzle, self.base_offset))

    def corner(self, row: int, column: int) -> tuple[float, float]:
        """The upper left corner of a unit."""
        return self.left + column * self.unit, self.top + row * self.height

    def box(self, row: int, column: int) -> str:
        """The outline of a unit, for a path."""
        x, y = self.corner(row, column)
        wide, high = svg.number(self.unit), svg.number(self.height)
        return f"M{svg.number(x)} {svg.number(y)}h{wide}v{high}h-{wide}z"

    def head(self) -> list[str]:
        """The bytes and banks of the units, above the lines."""
        elements = [svg.text(self.left - 10, self.top - 8, "address", "s t", "end")]
        for unit in range(8):
            x = self.left + (unit + 0.5) * self.unit
            elements.append(svg.text(x, self.top - 24, f"bytes {16 * unit}–{16 * unit + 15}", "s", "middle"))
            elements.append(svg.text(x, self.top - 8, f"banks {4 * unit}–{4 * unit + 3}", "s t", "middle"))
        return elements

    def beside(self) -> list[str]:
        """Addresses on the left, the swizzle's XOR on the right, and a thick line where its pattern starts."""
        elements, start, end = [], self.left - 70, self.right + self.margin - 10
        for row, line in enumerate(self.lines):
            y = self.top + row * self.height
            elements.append(svg.text(self.left - 10, y + 15, f"{128 * line:#x}", "n q", "end"))
            turned = self.turn(line)
            if self.swizzle:
                elements.append(svg.text(self.right + 10, y + 15, f"unit XOR {turned}", "n q t"))
            if row and line != self.lines[row - 1] + 1:
                elements.append(svg.line(start, y, end, y, "k", dash="6 4"))
            elif self.swizzle and not turned:
                elements.append(svg.line(start, y, end, y, "k"))
        return elements
