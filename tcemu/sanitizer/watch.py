"""Which handlers of a block's sections receive an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tcemu.machine.events import Accessed, Event, Issued
from tcemu.sanitizer.block import Access, ForAccesses, ForInstructions, Handler, Section

if TYPE_CHECKING:
    from tcemu.instructions import Instruction


class Watch:
    """The handlers of sections, by the kind of event, in the order of the sections.

    They are looked up when the first event of a kind comes: a block has few of the kinds that there are.
    """

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = tuple(sections)
        self._handlers: dict[type[Event], list[Handler]] = {}
        self._added: dict[type[Event], list[Handler]] = {}
        #: the handlers of Issued for each opcode so far, and those of Accessed for each kind of access so far
        self._issued: dict[str, list[Handler]] = {}
        self._accessed: dict[tuple[object, ...], list[Handler]] = {}

    def add(self, kind: type[Event], handler: Handler) -> None:
        """Let a handler receive events of this kind after the sections; none of the kind may have come so far."""
        self._added.setdefault(kind, []).append(handler)

    def of(self, kind: type[Event], event: Any) -> Sequence[Handler]:
        """The handlers that need this event, whose type is `kind`."""
        if kind is Accessed:
            access = event.space, event.writes, event.order, event.collective, event.owner >= 0
            return self._accessed.get(access) or self._of_access(Access(*access))
        if kind is Issued:
            return self._issued.get(event.instruction.opcode) or self._of_issue(event.instruction)
        found = self._handlers.get(kind)
        return self._of_kind(kind) if found is None else found

    def _of_access(self, access: Access) -> Sequence[Handler]:
        needing = [each.handle for each in self._having(Accessed, ForAccesses) if each.needs(access)]
        self._accessed[access] = needing
        return needing

    def _of_issue(self, instruction: Instruction) -> Sequence[Handler]:
        having = self._having(Issued, ForInstructions)
        needing = [each for each in having if each.needs(instruction, False) or each.needs(instruction, True)]
        found = self._issued[instruction.opcode] = [each.handle for each in needing]
        return found

    def _of_kind(self, kind: type[Event]) -> Sequence[Handler]:
        found = self._handlers[kind] = [*self._having(kind, object), *self._added.get(kind, ())]
        return found

    def _having(self, kind: type[Event], sort: type[Any]) -> list[Any]:
        """What the sections have for a kind of event, of this sort."""
        found = [section.handlers[kind] for section in self._sections if kind in section.handlers]
        return [each for each in found if isinstance(each, sort)]

    def close(self) -> None:
        """Forget the sections. They refer to each other: only a collection of garbage would free their memory later."""
        for section in self._sections:
            vars(section).clear()

    @property
    def needs(self) -> tuple[Callable[[Instruction, bool], bool], ...]:
        """Tests of an instruction and whether a whole warp issues it: if one is true, a handler needs to know of it."""
        return tuple(each.needs for each in self._having(Issued, ForInstructions))
