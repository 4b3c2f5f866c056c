"""What leaves a segment of straight code: an operation, which the machine or the executor carries out for a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tcemu.machine.events import Site

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.steps import Guard

#: Where lanes go on, if not behind the operation: the frame, the block and the lanes.
Jumps: TypeAlias = "list[tuple[Frame, int, int]]"
#: Carries an operation out for the lanes of the frame's warp that are active now.
Act = Callable[["Frame"], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction that straight code cannot contain."""

    opcode: str
    number: int
    site: Site
    guard: Guard | None
    #: returns the result or, without `write`, where lanes go on
    act: Act
    #: writes the result into registers
    write: Callable[[Frame, Any], None] | None = None
    #: the lanes that must have come here before it is carried out; None: any may come alone
    members: Callable[[Frame], int] | None = None
    #: whether a membermask names them
    named: bool = False
    #: whether it may be part of a loop that waits for other lanes, so that these go first
    polls: bool = False
    #: whether lanes of a warp may wait there at several places, each by itself
    barrier: bool = False
