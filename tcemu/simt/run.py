"""A warp that runs a kernel: its lanes in groups, each at a place of its own (PTX ISA 9.1, 3.1: independent threads).

1. The group with the lowest place runs, until it comes to the place of another, which it joins. So the lanes of an if
   or a loop meet again behind it.
2. Where lanes disagree about a branch, they part.
3. An instruction with a membermask, or .aligned, waits for the lanes that it names, or for all that are left, until
   one of these is behind it, where none gets back to it (`tcemu.simt.behind`).
4. A group that has polled without success, or has gone round a loop for long, lets the others go first; if all have,
   other warps go first. `tcemu.machine.waits` says how the machine lets a group wait.

A place is a frame, a call of a function, and a block in it; inner calls come before what follows the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt

from tcemu.errors import LaunchError
from tcemu.machine.addresses import mapped
from tcemu.machine.events import By, LanesMissed
from tcemu.machine.masks import FULL, lanes_of
from tcemu.machine.waits import Parked, Wait
from tcemu.simt import hidden, memory
from tcemu.simt.context import Context
from tcemu.simt.errors import FAULT, JOINED, LEFT, OPERATION, SPENT, SPLIT, unending
from tcemu.simt.frames import Frame
from tcemu.simt.local import Local
from tcemu.simt.special import SPECIAL

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp
    from tcemu.simt.events import Jumps, Operation
    from tcemu.simt.together import Together

Array = npt.NDArray[Any]
#: A frame and the block in it.
Where: TypeAlias = "tuple[Frame, int]"
#: No block has this number.
NOWHERE = 0xFFFFFFFF


class Run:
    """One warp of a running kernel."""

    def __init__(self, warp: Warp, parameters: Array, pointers: Mapping[str, int], shared: Together) -> None:
        self.program, self.warp, self.core, self.together = shared.program, warp, warp.core, shared
        program = self.program
        #: the bytes of the kernel's parameters, and the addresses of the module's variables
        self.parameters, self.pointers = parameters, pointers
        #: what the block's own addresses in shared memory begin at
        clustered = program.layout.clustered and self.core.block.shape.ranks > 1
        self.origin = mapped(0, self.core.block.rank) if clustered else 0
        if hidden.HEAP.name in pointers:
            shared.heap(pointers[hidden.HEAP.name])
        self.local = Local(program.local_bytes, self.core.block.number, self.core.index)
        self.context = Context(self)
        #: whether an observer wants to know whose results an instruction reads
        self.sourced = bool(self.core.grid.sourced)
        #: the lanes that are active now: as bits, as bool (32,) or None for all, and the first of them
        self.bits, self.first = FULL, 0
        self.active: Array | None = None
        #: the groups that can run; those of them that let others go first, with what they have looked for in vain
        self.ready: dict[Where, int] = {}
        self.tired: dict[Where, Wait | None] = {}
        #: the groups that wait for lanes, and those that the machine lets wait: several may be at one place
        self.parked: dict[Where, int] = {}
        self.waiting: dict[tuple[Where, int], Wait] = {}
        #: what to do when a segment has ended, by the reason
        self._after = {
            SPLIT: self._split, LEFT: self._leave, JOINED: self._add, SPENT: self._spent, FAULT: self._finish,
        }  # fmt: skip

    def special(self, name: str) -> Any:
        """The value of a special register."""
        if name == "dynamic_smem_size":
            return self.core.block.shape.shared - self.program.layout.static_shared
        place = hidden.special(self, name)
        if place is not None:
            return place
        register, known = SPECIAL[name], self.together.special
        if not register.alike:
            return register.read(self.warp)
        key = name, self.core.index
        if key not in known:
            known[key] = register.read(self.warp)
        return known[key]

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
        frame = Frame(self, self.program)
        self.ready[frame, 0] = self.core.present
        while self.ready or self.parked or self.waiting:
            if self.waiting:
                self._wake()
            where, forced = self._next()
            if where is not None:
                mask = self.ready.pop(where)
                self.tired.pop(where, None)
                self._advance(*where, mask, forced)
        self.core.at, self.core.split = None, False
        self.together.free(frame)

    def _next(self) -> tuple[Where | None, bool]:
        """The place of the group that goes next, and whether it does so without the lanes that it waits for.

        None: other warps went first, and what groups wait for may be there now.
        """
        ready, tired = self.ready, self.tired
        if ready:
            fresh = [each for each in ready if each not in tired] if tired else ready
            if not fresh and all(tired.values()):  # all look for something that no lane of this warp brings about
                self._idle()
                return None, False
            if not fresh:
                tired.clear()
            where = min(fresh or ready, key=_order) if len(ready) > 1 else next(iter(ready))
            missed = self._missed(where) if self.parked else None
            if missed is None:
                return where, False
            self._add(*missed, self.parked.pop(missed))
            return missed, True
        barriers = [where for where in self.parked if self._operation(where).barrier]
        if self.waiting and not barriers:
            self._idle()
            return None, False
        others = [] if self.waiting else [where for where in self.parked if where not in barriers]
        where = min(others or barriers, key=_order)  # what is wrong with it, the machine and its observers say
        self._add(*where, self.parked.pop(where))
        return where, True

    def _missed(self, where: Where) -> Where | None:
        """The place of a group that waits for lanes of this group, which are behind it; None: there is none."""
        frame, block = where
        for each in self.parked:
            if any(own is frame and after >> block & 1 for own, after in each[0].behind(each[1])):
                self.activate(self.parked[each])
                members = self._operation(each).members
                if members is not None and members(each[0]) & self.ready[where]:
                    return each
        return None

    def _operation(self, where: Where) -> Operation:
        frame, block = where
        operation = frame.program.blocks[block].operation
        if operation is None:
            raise LaunchError(f"lanes wait at block {block}, which is no operation")
        return operation

    def _idle(self) -> None:
        """No group can continue: other warps run until some may, or the launch ends with a deadlock."""
        core = self.core
        waits = [wait for wait in self.tired.values() if wait is not None]
        waits += self.waiting.values()
        waits += [self._absent(where, mask) for where, mask in self.parked.items()]
        self.tired.clear()
        core.idle(sorted(waits, key=lambda each: each.by.active & -each.by.active))  # by the first of their lanes

    def _absent(self, where: Where, mask: int) -> Wait:
        """What a group waits for that waits for lanes."""
        core, operation = self.core, self._operation(where)
        by = By(core.block.number, core.index, mask, operation.site)
        what = f"the other lanes of its warp at {operation.opcode}"
        return Wait(by, "membermask", 0, lambda: what, lambda: False)

    def _wake(self) -> None:
        """Let groups go on for which what they waited for is there."""
        for (where, mask), wait in list(self.waiting.items()):
            if wait.ready is None or wait.ready():
                del self.waiting[where, mask]
                frame, block = where
                operation = self._operation(where)
                self.activate(mask)
                self.core.at = operation.site
                result = wait.finish()
                if operation.write is not None:
                    operation.write(frame, result)
                self._add(frame, block + 1, mask)

    def _add(self, frame: Frame, block: int, mask: int) -> None:
        """Lanes come to a place."""
        where = frame, block
        if where in self.ready:
            self.ready[where] |= mask
            self.tired.pop(where, None)
        else:
            self.ready[where] = mask

    def _limit(self, frame: Frame, block: int) -> int:
        """The first place of the frame, behind a block, where another group is or will return to.

        Or where the lanes that come there have left an instruction out that others wait at.
        """
        least = NOWHERE
        for other, place in self.ready:
            inner: Frame | None = other
            at = place
            while inner is not None and inner is not frame:
                at, inner = inner.back, inner.caller
            if inner is not None and block < at < least:
                least = at
        for parked in self.parked:
            for own, after in parked[0].behind(parked[1]):
                later = after >> block + 1
                if own is frame and later:
                    least = min(least, block + (later & -later).bit_length())
        return least

    def _advance(self, frame: Frame, block: int, mask: int, forced: bool) -> None:
        """Run a group until it parts, joins another, waits or is tired."""
        program, limit = frame.program, self._limit(frame, block) if self.ready or self.parked else NOWHERE
        self.context.enter(frame)
        blocks, touches = program.blocks, program.touches if self.core.watched else None
        while block < limit:
            before = touches.before(frame) if touches else None
            ended = frame.runner(self, frame, block, mask, limit)
            if touches and before is not None:
                touches.after(frame, mask, before)
            for each in frame.beside:
                each.tell(frame)
            reason, at = ended & 15, ended >> 4
            operation = blocks[at].operation if reason == OPERATION else None
            if operation is None:
                self._after[reason](frame, at, mask)
                return
            if operation.members is not None and mask != self.core.present:
                mask = self._gathered(operation, frame, at, mask, forced)
                if not mask:
                    return
            if not self._carry_out(operation, frame, at, mask):
                return
            block, forced = at + 1, False
            if (frame, block) in self.tired:
                break
        self._add(frame, block, mask)

    def _split(self, frame: Frame, block: int, mask: int) -> None:
        """Lanes disagree about a branch."""
        taken = self.context.taken
        self._add(frame, self.context.target, taken)
        self._add(frame, block, mask & ~taken)

    def _gathered(self, operation: Operation, frame: Frame, at: int, mask: int, forced: bool) -> int:
        """The lanes for which an operation can be carried out now; 0: they wait for others."""
        self.activate(mask)
        where, needed = (frame, at), operation.members(frame) if operation.members is not None else 0
        mask |= self.parked.pop(where, 0) | self.ready.pop(where, 0)
        if needed & ~mask and not forced:
            self.parked[where] = mask
            return 0
        return mask

    def _carry_out(self, operation: Operation, frame: Frame, block: int, mask: int) -> bool:
        """An operation, for the lanes of its guard; whether the group goes on behind it now."""
        core, context, guard = self.core, self.context, operation.guard
        core.at = operation.site
        context.flush()
        active = mask
        if guard is not None:
            held = frame.mask(guard.slot)
            active = (~held if guard.negated else held) & mask
            if not active:
                return True
        self.activate(active)
        if core.watched:
            if frame.program.touches:
                frame.program.touches.tell(frame, block, active)
            for each in frame.operating.get(block, ()):
                each.operate(frame, block, active)
            core.at = operation.site
        if self.sourced:
            core.sourced(frame.program.sourced(core.by(), operation.number))
        split = bool(self.ready or self.parked or self.waiting)
        if split or core.split:
            core.split, core.sought = split, None
            return self._alone(operation, frame, block, mask, active)
        result = operation.act(frame)
        if operation.write is not None:
            operation.write(frame, result)
        elif result is not None:
            return self._jumped(frame, block + 1, mask & ~active, result)
        for each in frame.operating.get(block, ()):
            each.done(frame, block, active)
        core.bits = mask
        return True

    def _alone(self, operation: Operation, frame: Frame, block: int, mask: int, active: int) -> bool:
        """The same for some lanes of a warp, which others may keep waiting."""
        core = self.core
        try:
            result = operation.act(frame)
        except Parked as parked:
            self.waiting[(frame, block), active] = parked.wait
            if mask & ~active:
                self._add(frame, block + 1, mask & ~active)
            return False
        if operation.write is not None:
            operation.write(frame, result)
        elif result is not None:
            return self._jumped(frame, block + 1, mask & ~active, result)
        core.bits = mask
        if core.split and (operation.polls or core.sought is not None):
            self.tired[frame, block + 1] = core.sought
        return True

    def _jumped(self, frame: Frame, behind: int, others: int, jumps: Jumps) -> bool:
        """Lanes have gone elsewhere by an operation: the others go on behind it."""
        for each in jumps:
            self._add(*each)
        if others:
            self._add(frame, behind, others)
        return False

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
        self._tell_missed(mask)
        core.bits = mask
        core.at = self.program.last
        core.exit()
        for where in list(self.parked):
            self._add(*where, self.parked.pop(where))

    def _tell_missed(self, exited: int) -> None:
        """Tell of lanes that wait for these, which exit, because a membermask names them."""
        for where, mask in self.parked.items():
            operation = self._operation(where)
            if operation.named and operation.members is not None:
                self.activate(mask)
                named = operation.members(where[0])
                by = By(self.core.block.number, self.core.index, mask, operation.site)
                self.core.tell(LanesMissed, by, operation.opcode, named, exited & named)

    def _spent(self, frame: Frame, block: int, mask: int) -> None:
        """A group has gone round a loop for long: others go first, of this warp or of all."""
        context, core = self.context, self.core
        context.flush()
        if frame.program.ways.endless >> block & 1:
            self._unending(frame, block, mask)
        core.latest = frame.program.sites[frame.program.blocks[block].first]
        self._add(frame, block, mask)
        if len(self.ready) > 1:
            self.tired[frame, block] = None
        core.ran(context.refuel(), stored=context.stored())
        core.grid.scheduler.rest(core.strand)

    def _unending(self, frame: Frame, block: int, mask: int) -> None:
        core, program = self.core, frame.program
        core.at = program.sites[program.blocks[block].first]
        core.grid.fail(unending(core.index, core.block.number, core.at))

    def _finish(self, frame: Frame, number: int, mask: int) -> None:
        """An access that native code cannot do: the executor does it, or says what is wrong with it."""
        program = frame.program
        step, block = program.accesses[number], program.block_of[number]
        if step.space == "generic":  # it is a block by itself
            if self._carry_out(program.operation_of(step), frame, block, mask):
                self._add(frame, block + 1, mask)
            return
        self.context.flush()
        self.core.at = program.sites[number]
        self.activate(self.context.taken)
        memory.fail(frame, step, self.context.scratch.copy())


def _order(where: Where) -> tuple[int, ...]:
    frame, block = where
    return *frame.order, block
