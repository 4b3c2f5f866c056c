"""Which handlers of a block's sections receive an event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tcemu.machine.events import Accessed, BlockEnded, BlockStarted, Event, Exited, Issued
from tcemu.sanitizer.barriers import Barriers
from tcemu.sanitizer.block import SECTIONS, Access, Block, ForInstructions, Handler, Section
from tcemu.sanitizer.sections import ORDERED

if TYPE_CHECKING:
    from tcemu.instructions import Instruction


#: Events that sections need only if they have been made for another one.
_LAST = frozenset({BlockEnded, Exited})
#: The sections that need events of a kind, accesses of a kind, or the instruction with an opcode. They are the same in
#: all blocks of a launch.
SectionsOf = dict[object, tuple[type[Section], ...]]


class Watch:
    """The handlers of sections, by the kind of event, in the order of the sections.

    They are looked up when the first event of a kind comes: a block has few of the kinds that there are.
    """

    def __init__(self, block: Block, sections_of: SectionsOf) -> None:
        self.block, self._sections_of = block, sections_of
        #: the handlers of each kind of event so far: see `of`
        self.handlers: dict[object, list[Handler]] = {}
        self._added: dict[type[Event], list[Handler]] = {}
        for section in ORDERED if len(block.numbers) > 1 else (Barriers,):
            block.section(section)

    def add(self, kind: type[Event], handler: Handler) -> None:
        """Let a handler receive events of this kind after the sections; none of the kind may have come so far."""
        self._added.setdefault(kind, []).append(handler)

    def of(self, kind: type[Event], event: Any) -> Sequence[Handler]:
        """The handlers that need this event, whose type is `kind`.

        The same are in `handlers`: of Accessed, by its space, writes, order, collective and owner; of Issued, by its
        opcode; otherwise by `kind`, but not of a block's start, for which the sanitizer itself does something, nor of
        events that further sections may need later.
        """
        what: object = kind
        if kind is Accessed:
            what = event.space, event.writes, event.order, event.collective, event.owner
        elif kind is Issued:
            what = event.instruction.opcode
        handlers = self.handlers.get(what)
        if handlers is None:
            handlers = self._find(kind, what, event)
            if kind not in _LAST and kind is not BlockStarted:
                self.handlers[what] = handlers
        return handlers

    def _find(self, kind: type[Event], what: object, event: Any) -> list[Handler]:
        if kind is Accessed:
            access = Access(event.space, event.writes, event.order, event.collective, event.owner >= 0)
            return [each.handle for each in self._needing(access, Accessed, lambda each: each.needs(access))]
        if kind is Issued:
            return [each.handle for each in self._needing(what, Issued, partial(_issued, event.instruction))]
        return [*self._needing(kind, kind), *self._added.get(kind, ())]

    def _needing(self, key: object, kind: type[Event], needs: Callable[[Any], bool] = lambda _: True) -> list[Any]:
        """What the sections have for a kind of event; `key` stands for those that `needs` accepts."""
        block = self.block
        if not self._sections_of:
            self._index()
        sections: Sequence[type[Section]] | None = self._sections_of.get(key)
        if sections is None:
            having = self._sections_of.get(kind, ())
            sections = self._sections_of[key] = tuple(
                each for each in having if needs(block.section(each).handlers[kind])
            )
        if kind in _LAST:
            sections = [each for each in sections if each in block.made or each not in ORDERED]
        return [block.section(each).handlers[kind] for each in sections]

    def _index(self) -> None:
        """Note the sections that have a handler for each kind of event."""
        by_kind: dict[object, list[type[Section]]] = {}
        for section in SECTIONS:
            for kind in self.block.section(section).handlers:
                by_kind.setdefault(kind, []).append(section)
        self._sections_of.update((kind, tuple(sections)) for kind, sections in by_kind.items())

    def close(self) -> None:
        """Forget the sections."""
        self.block.close()

    @property
    def needs(self) -> tuple[Callable[[Instruction, bool], bool], ...]:
        """Tests of an instruction and whether a whole warp issues it: if one is true, a handler needs to know of it."""
        return tuple(each.needs for each in self._needing(Issued, Issued))


def _issued(instruction: Instruction, each: ForInstructions) -> bool:
    """Whether a handler needs this instruction."""
    return each.needs(instruction, False) or each.needs(instruction, True)
