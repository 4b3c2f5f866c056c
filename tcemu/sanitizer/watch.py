"""Which handlers of a block's sections receive an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tcemu.machine.events import Event, Issued
from tcemu.sanitizer.block import Handler, Only, Section

if TYPE_CHECKING:
    from tcemu.instructions import Instruction


class Watch:
    """The handlers of sections, by the kind of event, in the order of the sections."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = tuple(sections)
        self._handlers: dict[type[Event], list[Handler]] = {}
        self._only: list[Only] = []
        #: the handlers of Issued for each instruction so far
        self._issued: dict[Instruction, list[Handler]] = {}
        for section in self._sections:
            for kind, handler in section.handlers.items():
                if isinstance(handler, Only):
                    self._only.append(handler)
                else:
                    self.add(kind, handler)

    def add(self, kind: type[Event], handler: Handler) -> None:
        """Let a handler receive events of this kind after those that do so already."""
        self._handlers.setdefault(kind, []).append(handler)

    def of(self, kind: type[Event]) -> Sequence[Handler]:
        """The handlers of a kind of event other than Issued."""
        return self._handlers.get(kind, ())

    def close(self) -> None:
        """Forget the sections. They refer to each other: only a collection of garbage would free their memory later."""
        for section in self._sections:
            vars(section).clear()

    @property
    def needs(self) -> tuple[Callable[[Instruction], bool], ...]:
        """Of which instructions a handler needs to know when a warp issues them: any of these."""
        return tuple(each.needs for each in self._only)

    def issued(self, event: Issued) -> Sequence[Handler]:
        """The handlers that need to know of this instruction."""
        instruction = event.instruction
        found = self._issued.get(instruction)
        if found is None:
            found = self._issued[instruction] = [each.handle for each in self._only if each.needs(instruction)]
        return found
