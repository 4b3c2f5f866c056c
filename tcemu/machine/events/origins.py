"""What every event has: its block, or the warps that it comes from, with their lines in the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tcemu.tracebacks import place

__all__ = ["FULL", "BlockEvent", "By", "Event", "Observer", "Site", "WarpEvent", "WarpsEvent"]

#: Every lane of a warp.
FULL = 0xFFFFFFFF


class Site(NamedTuple):
    """A line of the kernel and, if a front end inlined it, the lines that call it, innermost first."""

    file: str
    line: int
    function: str
    inlined: tuple[Site, ...] = ()

    def __str__(self) -> str:
        return place(self.file, self.line) if self.line else "an unknown line"


class By(NamedTuple):
    """The origin of an event: the block's and the warp's number, the active lanes as bits, and the line."""

    block: int
    warp: int
    active: int
    site: Site

    def __str__(self) -> str:
        return f"warp {self.warp} of block {self.block} at {self.site}"


class Event:
    """Anything that happened in a block."""

    #: the block's number
    block: int

    @property
    def name(self) -> str:
        """The kind of event."""
        return type(self).__name__


@dataclass(eq=False)
class BlockEvent(Event):
    """Something that happened in a block, but not to one warp alone."""

    block: int


@dataclass(eq=False)
class WarpEvent(Event):
    """Something that a warp did, or that was done for it."""

    by: By

    @property
    def block(self) -> int:  # type: ignore[override]
        """The warp's block."""
        return self.by.block


@dataclass(eq=False)
class WarpsEvent(Event):
    """Something that several warps of a block did together."""

    bys: tuple[By, ...]

    @property
    def block(self) -> int:  # type: ignore[override]
        """The warps' block."""
        return self.bys[0].block


#: Whatever receives the events of a launch. An observer that does not always need each event may have a method
#: `hears(kind)`: as long as it returns False, the machine may leave out events of that kind, if they are frequent
#: (Touched, Computed). Its result may change only when it receives an event other than Accessed, Issued or
#: Touched. With a method `follows(instruction, whole)`, it needs Issued only of instructions for which that returns
#: True; `whole` says whether all lanes that have not exited execute it. The machine calls it once in a launch. If an
#: attribute `once` contains Touched, the machine may leave out an access to registers that repeats one: by the same
#: lanes, on the same line, with no event in between but those three kinds. If a method `takes(event)` returns True
#: for an Accesses, it gets these native accesses of a front end in one event. It gets Sourced only if an attribute
#: `also` contains that.
Observer = Callable[[Event], None]
