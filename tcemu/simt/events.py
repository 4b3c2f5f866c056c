"""What leaves a segment of straight code: an operation, which the machine or the executor carries out for a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tcemu.machine.events import Site

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.places import Place
    from tcemu.simt.steps import Guard

#: Where lanes go on, if not behind the operation: the frame, the block and the lanes.
Moves: TypeAlias = "list[tuple[Frame, int, int]]"
#: Carries an operation out for the lanes of the frame's warp that are active now.
Act = Callable[["Frame"], "Moves | None"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction that is no straight code."""

    opcode: str
    number: int
    site: Site
    guard: Guard | None
    act: Act
    #: the lanes that must have come here before it is carried out; None: any may come alone
    members: Callable[[Frame], int] | None = None
    #: the register of its membermask: each lane names its own group
    named: Place | None = None
    #: whether it may be part of a loop that waits for other lanes, so that these go first
    polls: bool = False
