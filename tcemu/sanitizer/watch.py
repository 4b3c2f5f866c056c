"""Which handlers of a block's sections receive an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tcemu.machine.events import Accessed, Event, Issued
from tcemu.sanitizer.block import Access, ForInstructions, Handler, Section

if TYPE_CHECKING:
    from tcemu.instructions import Instruction


#: The numbers of the sections that need events of a kind, accesses of a kind, or the instruction with an opcode. All
#: blocks of a launch have the same ones.
Places = dict[object, tuple[int, ...]]


class Watch:
    """The handlers of sections, by the kind of event, in the order of the sections.

    They are looked up when the first event of a kind comes: a block has few of the kinds that there are.
    """

    def __init__(self, sections: Iterable[Section], places: Places) -> None:
        self._sections, self._places = tuple(sections), places
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
        needing = self._needing(access, Accessed, lambda each: each.needs(access))
        found = self._accessed[access] = [each.handle for each in needing]
        return found

    def _of_issue(self, instruction: Instruction) -> Sequence[Handler]:
        def needs(each: ForInstructions) -> bool:
            return each.needs(instruction, False) or each.needs(instruction, True)

        needing = self._needing(instruction.opcode, Issued, needs)
        found = self._issued[instruction.opcode] = [each.handle for each in needing]
        return found

    def _of_kind(self, kind: type[Event]) -> Sequence[Handler]:
        found = self._handlers[kind] = [*self._needing(kind, kind), *self._added.get(kind, ())]
        return found

    def _needing(self, key: object, kind: type[Event], needs: Callable[[Any], bool] = lambda _: True) -> list[Any]:
        """What the sections have for a kind of event; `key` stands for those that `needs` accepts."""
        places = self._places.get(key)
        if places is None:
            having = [number for number, section in enumerate(self._sections) if kind in section.handlers]
            places = tuple(number for number in having if needs(self._sections[number].handlers[kind]))
            self._places[key] = places
        return [self._sections[number].handlers[kind] for number in places]

    def close(self) -> None:
        """Forget the sections. They refer to each other: only a collection of garbage would free their memory later."""
        for section in self._sections:
            vars(section).clear()

    @property
    def needs(self) -> tuple[Callable[[Instruction, bool], bool], ...]:
        """Tests of an instruction and whether a whole warp issues it: if one is true, a handler needs to know of it."""
        return tuple(each.needs for each in self._needing(Issued, Issued))
