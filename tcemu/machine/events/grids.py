"""Events of grids that depend on others: launches of one stream (PTX ISA 9.1, 9.7.13.13)."""

from __future__ import annotations

from dataclasses import dataclass

from tcemu.machine.events.origins import WarpEvent

__all__ = ["GridWaited"]


@dataclass(eq=False)
class GridWaited(WarpEvent):
    """griddepcontrol.wait of some lanes has returned: the grid that theirs depends on has ended.

    `launch` is that grid's number in the stream; -1 if theirs depends on none.
    """

    launch: int
