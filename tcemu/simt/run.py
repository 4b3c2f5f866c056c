"""A warp that runs a kernel: its lanes in groups, each at a place of its own (PTX ISA 9.1, 3.1: independent threads).

1. The group with the lowest place runs, until it comes to the place of another, which it joins. So the lanes of an if
   or a loop meet again behind it.
2. Where lanes disagree about a branch, they part.
3. An instruction with a membermask, or .aligned, waits for the lanes that it names, or for all that are left.
4. A group that has polled, slept, or gone round a loop for long lets the others go first; if all have, the warp lets
   others go first.

A place is a frame, a call of a function, and a block in it; inner calls come before what follows the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tcemu.machine.masks import FULL, lanes_of
from tcemu.simt.context import Context
from tcemu.simt.errors import FAULT, JOINED, LEFT, OPERATION, SPENT, SPLIT
from tcemu.simt.frames import Frame, aligned, distinct
from tcemu.simt.local import Local
from tcemu.simt.printed import Listener
from tcemu.simt.special import SPECIAL

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp
    from tcemu.simt.events import Operation
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]
#: A frame and the block in it.
Where: TypeAlias = "tuple[Frame, int]"
#: After so many loads that found nothing new, a group counts as one that polls.
_REPEATS = 32
#: No block has this number.
NOWHERE = 0xFFFFFFFF


class Run:
    """One warp of a running kernel."""

    def __init__(
        self, program: Program, warp: Warp, parameters: bytes, pointers: Mapping[str, int], says: Listener
    ) -> None:
        self.program, self.warp, self.core, self.says = program, warp, warp.core, says
        #: the bytes of the kernel's parameters, and the addresses of the module's variables
        self.parameters = aligned(len(parameters))
        self.parameters[: len(parameters)] = np.frombuffer(parameters, np.uint8)
        self.pointers = pointers
        self.local = Local(program.local_bytes)
        self.context = Context(self)
        #: the lanes that are active now: as bits, as bool (32,) or None for all, and the first of them
        self.bits, self.first = FULL, 0
        self.active: Array | None = None
        #: the groups that can run, those that wait for lanes, and those that let others go first
        self.ready: dict[Where, int] = {}
        self.parked: dict[Where, int] = {}
        self.tired: set[Where] = set()
        #: what to do when a segment has ended, by the reason
        self._after = {
            SPLIT: self._split, LEFT: self._leave, JOINED: self._add, SPENT: self._spent, FAULT: self._finish,
        }  # fmt: skip
        self._special: dict[str, Any] = {}

    def special(self, name: str) -> Any:
        """The value of a special register."""
        if name not in self._special:
            dynamic = self.core.block.shape.shared - self.program.layout.static_shared
            self._special[name] = dynamic if name == "dynamic_smem_size" else SPECIAL[name].read(self.warp)
        return self._special[name]

    def activate(self, bits: int) -> None:
        """Let operations be carried out for these lanes."""
        if bits != self.bits:
            self.bits = bits
            self.active = None if bits == FULL else lanes_of(bits)
            self.first = (bits & -bits).bit_length() - 1
        self.core.bits = bits

    # ------------------------------------------------------------------------------------------ groups

    def go(self) -> None:
        """Run until all lanes have exited."""
        self.ready[Frame(self, self.program), 0] = self.core.there
        while self.ready or self.parked:
            forced = not self.ready
            if forced:  # the lanes that they wait for do not come: the machine says what that means
                first = min(self.parked, key=_order)
                self.ready[first] = self.parked.pop(first)
            self._advance(*self._chosen(), forced)
        self.core.at = None

    def _chosen(self) -> tuple[Frame, int, int]:
        """Take the group that goes next."""
        ready = self.ready
        if len(ready) == 1:
            (where, mask), = ready.items()
            ready.clear()
            self.tired.clear()
            return *where, mask
        fresh = [each for each in ready if each not in self.tired]
        if not fresh:
            self.tired.clear()
            fresh = list(ready)
        where = min(fresh, key=_order)
        return *where, ready.pop(where)

    def _add(self, frame: Frame, block: int, mask: int) -> None:
        """Lanes come to a place."""
        where = frame, block
        self.ready[where] = self.ready.get(where, 0) | mask

    def _limit(self, frame: Frame, block: int) -> int:
        """The first place of the frame, behind a block, where another group is or will return to."""
        least = NOWHERE
        for other, place in self.ready:
            inner: Frame | None = other
            at = place
            while inner is not None and inner is not frame:
                at, inner = inner.back, inner.caller
            if inner is not None and block < at < least:
                least = at
        return least

    def _advance(self, frame: Frame, block: int, mask: int, forced: bool) -> None:
        """Run a group until it parts, joins another, waits or is tired."""
        program, limit = frame.program, self._limit(frame, block) if self.ready else NOWHERE
        self.context.enter(frame)
        runner, blocks = program.runner, program.blocks
        while block < limit:
            found = runner(self, frame, block, mask, limit)
            reason, at = found & 15, found >> 4
            operation = blocks[at].operation if reason == OPERATION else None
            if operation is None:
                self._after[reason](frame, at, mask)
                return
            mask = self._gathered(operation, frame, at, mask, forced)
            if not mask:
                return
            moved = self._carry_out(operation, frame, mask)
            block, forced = at + 1, False
            if moved is not None:
                for each in moved:
                    self._add(*each)
                return
            if self.ready and (operation.polls or self.core.strand.repeats > _REPEATS):
                self.tired.add((frame, block))
                break
        self._add(frame, block, mask)

    def _split(self, frame: Frame, block: int, mask: int) -> None:
        """Lanes disagree about a branch."""
        taken = self.context.taken
        self._add(frame, self.context.target, taken)
        self._add(frame, block, mask & ~taken)

    def _gathered(self, operation: Operation, frame: Frame, at: int, mask: int, forced: bool) -> int:
        """The lanes for which an operation can be carried out now; 0: they wait for others."""
        if operation.members is None or (mask == self.core.there and not self.parked):
            return mask
        self.activate(mask)
        needed, where = operation.members(frame), (frame, at)
        mask |= self.parked.pop(where, 0)
        mask |= self.ready.pop(where, 0)
        if needed & ~mask and not forced and (self.ready or self.parked or needed & ~self.core.there == 0):
            self.parked[where] = mask
            return 0
        return mask

    def _carry_out(self, operation: Operation, frame: Frame, mask: int) -> Any:
        """An operation, for the lanes of its guard."""
        core = self.core
        core.at = operation.site
        context = self.context
        if context.logged:
            context.flush()
        guard = operation.guard
        active = mask
        if guard is not None:
            held = frame.mask(guard.place)
            active = (~held if guard.negated else held) & mask
        moved = None
        for part in self._groups(operation, frame, active):
            self.activate(part)
            moved = operation.act(frame)
            if moved is not None and mask & ~active:
                moved.append((frame, frame.program.behind(operation), mask & ~active))
        core.bits = mask
        return moved

    def _groups(self, operation: Operation, frame: Frame, active: int) -> Iterable[int]:
        """The lanes that carry an operation out together: those that name each other in their membermasks."""
        if operation.named is None or not active:
            return (active,) if active else ()
        masks = frame.lanes(operation.named)
        first = int(masks[(active & -active).bit_length() - 1])
        if not active & ~first:
            return (active,)
        self.activate(active)
        return [lanes for _, lanes in distinct(frame, operation.named)]

    # ------------------------------------------------------------------------------------------ leaving

    def _leave(self, frame: Frame, block: int, group: int) -> None:
        """Lanes return from a function, or exit; the others go on."""
        mask = self.context.taken
        if group & ~mask:
            self._add(frame, block, group & ~mask)
        if frame.caller is None or self.context.exits:
            self._exit(mask)
            return
        self.activate(mask)
        frame.call.returned(frame)
        self._add(frame.caller, frame.back, mask)

    def _exit(self, mask: int) -> None:
        """Lanes exit: others may have waited for these only."""
        core = self.core
        self.context.flush()
        core.bits = mask
        core.at = self.program.last
        core.exit()
        for where in list(self.parked):
            self.ready[where] = self.ready.get(where, 0) | self.parked.pop(where)

    def _spent(self, frame: Frame, block: int, mask: int) -> None:
        """A group has gone round a loop for long: others go first, of this warp or of all."""
        context, core = self.context, self.core
        context.flush()
        core.strand.operations += context.refuel()
        if self.ready:
            self.tired.add((frame, block))
        else:
            core.grid.scheduler.rest(core.strand)
        self._add(frame, block, mask)

    def _finish(self, frame: Frame, number: int, mask: int) -> None:
        """An access that native code cannot do: the executor does it, or says what is wrong with it."""
        operation = frame.program.operation_of(number)
        self._carry_out(operation, frame, mask)
        self._add(frame, frame.program.behind(operation), mask)


def _order(where: Where) -> tuple[int, ...]:
    frame, block = where
    return *frame.order, block
