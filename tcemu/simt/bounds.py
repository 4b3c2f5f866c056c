"""Accesses to shared memory that leave the variable whose address they were computed from, for one that lies beside it.

Which variable that is, a static analysis finds out: an address that is computed from that of one variable, and from
numbers, has to lie in it. Where ways with different variables meet, or a pointer comes from memory or a call, nobody
knows. Further steps compare the addresses, in native code too; a kernel with one shared variable needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tcemu.assembly.names import demangle
from tcemu.machine.events import Strayed
from tcemu.machine.masks import bits_of
from tcemu.simt.beside import Beside
from tcemu.simt.effects import Effect, Use
from tcemu.simt.layout import symbols
from tcemu.simt.memory import addresses_of
from tcemu.simt.register_file import Slot, Source
from tcemu.simt.steps import Access, Compute, Step

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program

#: The variables that a register's value was computed from; None: not known yet.
Origin: TypeAlias = "frozenset[str] | None"
#: Stands for all variables: one of several, or one that comes from elsewhere.
_ANY = frozenset({"", "?"})
#: Instructions whose result is one of their sources.
_CHOOSING = ("selp", "min", "max")


class Bounds(Beside):
    """The accesses of a function to shared variables that may leave them."""

    def __init__(self, program: Program, effects: Sequence[Sequence[Effect]]) -> None:
        super().__init__(program)
        #: by instruction: the name of the variable, its first byte and the end
        self._limits: dict[int, tuple[str, int, int]] = {}
        self._operations: dict[int, Access] = {}
        shared = program.layout.shared
        if len(set(shared.values())) < 2:
            return
        self._sizes = {each.name: each.size for each in program.layout.shared_variables}
        self._origins = _origins(program, effects)
        for number, block in enumerate(program.blocks):
            operation = block.operation is not None
            for at, effect in enumerate(effects[number]):
                step = effect.access
                if step is not None and step.space == "shared" and self._limit(step):
                    self.finds(step.number, None)
                    if operation:
                        self.operations.add(number)
                        self._operations[number] = step
                    else:
                        self.further[number][at] = [self._compared(step)]

    def _limit(self, step: Access) -> bool:
        """Find the bytes that an access may use; whether there may be others."""
        text, slot = self.program.function.body[step.number], step.address
        names = set(symbols(text.operands)) & set(self.program.layout.shared)
        origin = self._origins.get(slot, frozenset()) if isinstance(slot, Slot) else frozenset(names)
        if origin is None or len(origin) != 1:
            return False
        (name,) = origin
        first, size = self.program.layout.shared[name], self._sizes[name]
        if size:
            self._limits[step.number] = name, first, first + size
        return bool(size)

    def _compared(self, step: Access) -> Step:
        """The step that compares the addresses of an access."""
        _, first, end = self._limits[step.number]
        sources: list[Source] = [step.address, *([] if step.origin is None else [step.origin])]
        offset, beyond = step.offset & (1 << step.address.bits) - 1, max(end - first - step.size + 1, 0)
        return self.compared(step.number, None, partial(_outside, offset, first, beyond), sources, step.guard)

    def operate(self, frame: Frame, block: int, lanes: int) -> None:
        """An access that is an operation."""
        step = self._operations[block]
        _, first, end = self._limits[step.number]
        addresses = addresses_of(frame, step)
        self.note(frame, step.number, None, bits_of((addresses < first) | (addresses > end - step.size)) & lanes)
        self.tell(frame)

    def report(self, frame: Frame, number: int, use: Use | None) -> None:
        """As an access that has left its variable."""
        core, (name, first, end) = frame.run.core, self._limits[number]
        named = demangle(name).short.rpartition("::")[2]
        core.tell(Strayed, core.by(), self.program.opcode(number), named, first, end)


def _outside(offset: int, first: int, beyond: int, ops: Any, address: Any, *origin: Any) -> Any:
    """Whether an access begins before the first byte of a variable, or behind the last one where it may.

    Counted from the first one, its address is `beyond` or more in both cases: before it, an unsigned number is large.
    """
    address = address + offset
    for each in origin:
        address = ops.unsigned(address, 64) - ops.unsigned(each, 64)
    return address - first >= beyond


def _origins(program: Program, effects: Sequence[Sequence[Effect]]) -> dict[Slot, Origin]:
    """The shared variables that each register was computed from."""
    definitions = list(_definitions(program, effects))
    written = {slot for slot, *_ in definitions}
    origins: dict[Slot, Origin] = {
        each: frozenset() for _, sources, *_ in definitions for each in sources if each not in written
    }
    changed = True
    while changed:
        changed = False
        for slot, sources, named, chooses in definitions:
            given = [origins.get(each) for each in sources] + ([named] if named or not sources else [])
            known = [each for each in given if each is not None]
            if not known:
                continue
            alike = not chooses or all(each == known[0] for each in known)
            origin = frozenset().union(*known) if alike else _ANY
            before = origins.get(slot)
            after = origin if before is None or before == origin else _ANY
            if after != before:
                origins[slot], changed = after, True
    return origins


def _definitions(
    program: Program, effects: Sequence[Sequence[Effect]]
) -> Iterator[tuple[Slot, list[Slot], frozenset[str], bool]]:
    """What writes registers: the registers and the variables that it reads, and whether it chooses one of them."""
    shared = set(program.layout.shared)
    for block, here in zip(program.blocks, effects, strict=True):
        if block.operation is not None:
            yield from ((slot, [], frozenset(), False) for effect in here for slot in effect.results)
        for step in block.steps:
            text = program.function.body[step.number]
            computes = isinstance(step, Compute)
            results = step.results if computes else () if step.writes else step.registers  # type: ignore[union-attr]
            sources = [each for each in step.sources if isinstance(each, Slot) and each.bits > 1] if computes else []  # type: ignore[union-attr]
            named = frozenset(shared & set(symbols(text.operands))) if computes else frozenset()
            for slot in results:
                if isinstance(slot, Slot):
                    yield slot, sources, named, text.opcode.startswith(_CHOOSING)
