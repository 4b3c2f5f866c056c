"""Which lanes hold the scales of block-scaled mma (PTX ISA 9.1, 9.7.14.3), one byte each.

The thread-id T selects one of the lanes that could hold a row's (or column's) scales and comes first, as a batch; y is
the byte of the register, g the lane's group, and h selects the lower or upper half of the rows.
"""

from __future__ import annotations

from tcemu.layouts.layout import Layout

#: (thread-id-a, row, byte) and (thread-id-b, byte, column).
SCALE_A = Layout("T (h g) y -> (g T h) y", T=2, h=2, g=8, y=4)
SCALE_B = Layout("T y g -> (g T) y", T=4, g=8, y=4)
