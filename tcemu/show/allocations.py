"""The columns of Tensor Memory that blocks hold, one allocation after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted, span
from tcemu.layouts.tensor_memory import COLUMNS
from tcemu.machine.events import Event, TensorAllocated, TensorFreed
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box, Scale, notes
from tcemu.show.svg import Drawing

_LEFT, _TOP, _WIDE, _HIGH, _GAP = 70, 40, 640, 200, 44
#: The least height of a box for its label.
_LABEL = 14


@dataclass
class _Held:
    """Columns of a block, from one event to another; the SM is a guess: blocks there never share columns."""

    block: int
    start: int
    columns: int
    begin: int
    end: int
    sm: int = 0

    def meets(self, other: _Held) -> bool:
        """Whether both hold a column at the same time."""
        apart = self.start + self.columns <= other.start or other.start + other.columns <= self.start
        return not apart and self.begin < other.end and other.begin < self.end


@explained
def allocations(events: Iterable[Event]) -> Picture:
    """Who holds which columns of Tensor Memory, from each tcgen05.alloc to its tcgen05.dealloc.

    `events` are those of a launch, in order, as `observers=[events.append]` collects them. Raises OperandError if
    none of them is about columns.

    >>> events = []
    >>> def kernel(warp):
    ...     warp.tcgen05_alloc(0, 64)
    ...     warp.bar_warp_sync()
    ...     warp.tcgen05_dealloc(int(warp.ld_shared(0)[0, 0]), 64)
    >>> result = tcemu.launch(kernel, shared=64, target="sm_100a", observers=[events.append])
    >>> tcemu.show.allocations(events).title
    'Tensor Memory: 1 allocation, at most 64 of 512 columns at a time'
    """
    changes = [each for each in events if isinstance(each, TensorAllocated | TensorFreed)]
    held = _held(changes)
    if not held:
        raise OperandError("none of these events is of tcgen05.alloc: collect them with observers=[events.append]")
    sms = 1 + max(each.sm for each in held)
    time, body = Scale(0, len(changes), _LEFT, _LEFT + _WIDE), list[Drawing]()
    for sm in range(sms):
        frame = Box(_LEFT, _TOP + sm * (_HIGH + _GAP), _WIDE, _HIGH)
        ends = [svg.text(_LEFT - 8, frame.y + y, text, "s", "end") for y, text in ((10, "column 0"), (_HIGH, "511"))]
        body += [frame.rect("p"), [_drawn(one, frame, time) for one in held if one.sm == sm], ends]
        body.append(svg.text(_LEFT, frame.y - 8, f"an SM{f', no. {sm}' * (sms > 1)}", "s"))
    low = _TOP + sms * (_HIGH + _GAP)
    body.append(notes(_LEFT, low - 20, ["From left to right: one tcgen05.alloc or tcgen05.dealloc after the other."]))
    most = max(sum(each.columns for each in held if each.sm == sm and each.begin <= at < each.end)
               for sm in range(sms) for at in range(len(changes)))  # fmt: skip
    title = f"Tensor Memory: {counted(len(held), 'allocation')}, at most {most} of {COLUMNS} columns at a time"
    words = "; ".join(
        f"block {each.block} holds columns {span(each.start, each.start + each.columns - 1)} from step {each.begin} to "
        f"{each.end}" for each in held
    )  # fmt: skip
    return picture(title, f"{words}.", _LEFT + _WIDE + 16, low, body)


def _held(changes: list[TensorAllocated | TensorFreed]) -> list[_Held]:
    placed = list[_Held]()
    for step, event in enumerate(changes):
        if isinstance(event, TensorAllocated):
            made = _Held(event.block, event.start, event.columns, step, len(changes))
            while any(each.sm == made.sm and each.end > step and each.meets(made) for each in placed):
                made.sm += 1
            placed.append(made)
            continue
        for each in placed:
            if (each.block, each.start, each.end) == (event.block, event.start, len(changes)):
                each.end = step
    return placed


def _drawn(held: _Held, frame: Box, time: Scale) -> Drawing:
    unit = frame.high / COLUMNS
    x, y = time.at(held.begin), frame.y + held.start * unit
    box = Box(x, y, time.at(held.end) - x, held.columns * unit)
    label = f"block {held.block}: {held.columns}" if box.wide > 80 else f"{held.block}"
    return box.rect("fg k" if held.block % 2 else "fb k"), box.label(label, "s") if box.high >= _LABEL else ""
