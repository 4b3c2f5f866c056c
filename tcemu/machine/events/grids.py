"""Events of grids: dependent ones of a stream (PTX ISA 9.1, 9.7.13.13), and clusters that are cancelled (9.7.13.17)."""

from __future__ import annotations

from dataclasses import dataclass

from tcemu.machine.events.origins import WarpEvent

__all__ = ["CancelAsked", "CancelQueried", "GridWaited"]


@dataclass(eq=False)
class GridWaited(WarpEvent):
    """griddepcontrol.wait of some lanes has returned: the grid that theirs depends on has ended.

    `launch` is that grid's number in the stream; -1 if theirs depends on none.
    """

    launch: int


@dataclass(eq=False)
class CancelAsked(WarpEvent):
    """clusterlaunchcontrol.try_cancel: a lane asks to cancel a cluster."""


@dataclass(eq=False)
class CancelQueried(WarpEvent):
    """clusterlaunchcontrol.query_cancel: "is_canceled" or "get_first_ctaid".

    `responses` are what the lanes ask about: "cancelled", "failed" or, if no try_cancel has written it, "none".
    """

    what: str
    responses: tuple[str, ...]
