"""Which handlers of a block's sections receive an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tcemu.machine.events import Accessed, Event, Issued
from tcemu.sanitizer.block import Access, ForAccesses, ForInstructions, Handler, Section

if TYPE_CHECKING:
    from tcemu.instructions import Instruction


class Watch:
    """The handlers of sections, by the kind of event, in the order of the sections."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = tuple(sections)
        self._handlers: dict[type[Event], list[Handler]] = {}
        self._issues: list[ForInstructions] = []
        self._accesses: list[ForAccesses] = []
        #: the handlers of Issued for each opcode so far, and those of Accessed for each kind of access so far
        self._issued: dict[str, list[Handler]] = {}
        self._accessed: dict[tuple[object, ...], list[Handler]] = {}
        for section in self._sections:
            for kind, handler in section.handlers.items():
                if isinstance(handler, ForInstructions):
                    self._issues.append(handler)
                elif isinstance(handler, ForAccesses):
                    self._accesses.append(handler)
                else:
                    self.add(kind, handler)

    def add(self, kind: type[Event], handler: Handler) -> None:
        """Let a handler receive events of this kind after those that do so already."""
        self._handlers.setdefault(kind, []).append(handler)

    def of(self, kind: type[Event], event: Any) -> Sequence[Handler]:
        """The handlers that need this event, whose type is `kind`."""
        if kind is Accessed:
            access = event.space, event.writes, event.order, event.collective
            return self._accessed.get(access) or self._of_access(Access(*access))
        if kind is Issued:
            return self._issued.get(event.instruction.opcode) or self._of_issue(event.instruction)
        return self._handlers.get(kind, ())

    def _of_access(self, access: Access) -> Sequence[Handler]:
        found = self._accessed[access] = [each.handle for each in self._accesses if each.needs(access)]
        return found

    def _of_issue(self, instruction: Instruction) -> Sequence[Handler]:
        needing = [each for each in self._issues if each.needs(instruction, False) or each.needs(instruction, True)]
        found = self._issued[instruction.opcode] = [each.handle for each in needing]
        return found

    def close(self) -> None:
        """Forget the sections. They refer to each other: only a collection of garbage would free their memory later."""
        for section in self._sections:
            vars(section).clear()

    @property
    def needs(self) -> tuple[Callable[[Instruction, bool], bool], ...]:
        """Tests of an instruction and whether a whole warp issues it: if one is true, a handler needs to know of it."""
        return tuple(each.needs for each in self._issues)
