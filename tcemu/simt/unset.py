"""Registers and local variables of a function that are used before anything has been written to them (see shadows.py).

Beside the bytes of local variables lies what says which of them lack a value; accesses to them read and write that,
too. A register lacks its value if all bytes that were loaded into it do. Who copies a struct copies its padding and the
members that it has left out; and who exchanges a tile by way of shared memory, what lies beyond its edge, perhaps after
computing with it. So what is only copied is not reported if it may be part of a struct, because several elements are
loaded and stored, or if it stays in the block; if it is stored to global memory, that is a warning. What has been
computed and stays in the block is reported only if no way through the function gives it a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tcemu.machine.events import Undefined, UseOf
from tcemu.machine.masks import bits_of, lanes_of
from tcemu.simt.behind import OUT
from tcemu.simt.effects import Effect, Use
from tcemu.simt.memory import addresses_of
from tcemu.simt.register_file import Slot, Source
from tcemu.simt.shadows import Lacking, Shadows, slots_among
from tcemu.simt.steps import Access, Compute, Step
from tcemu.simt.values import put

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame


class Unset(Shadows):
    """Registers and bytes of local variables that nothing has written."""

    harmless = frozenset({"exchanged"})

    @property
    def marks(self) -> bool:
        """Whether it stores to variables, perhaps those of its callers."""
        return any(each.writes for each in self._marked.values())

    def judged(self, effect: Effect, of: UseOf, slot: Slot, may: Lacking) -> UseOf | None:
        """What is only copied need not be used: less so in memory of the block's own, or as a part of a struct.

        Who exchanges values by way of shared memory may compute with what lies beyond the edge, too. So it is spared
        there what has a value on some way.
        """
        own = effect.access is not None and effect.access.space in ("shared", "generic")
        if of in ("value", "kept") and not self.bit(slot) & may.computed:
            spared = of == "kept" or own or (self.bit(slot) & may.parts and self._among(effect))
            return None if spared else "copied"
        if of == "value" and own and not self.bit(slot) & may.always:
            return None
        return super().judged(effect, of, slot, may)

    def _among(self, effect: Effect) -> bool:
        """Whether other stores beside this one may store the rest of the same struct."""
        step = effect.access
        if step is None or step.count > 1:
            return True
        return any(abs(each.offset - step.offset) == step.size for each in self._stores.get(step.address, ()))

    @cached_property
    def _stores(self) -> dict[Source, list[Access]]:
        """The stores by what their addresses are computed from."""
        found: dict[Source, list[Access]] = {}
        for effects in self.effects:
            for each in effects:
                if each.access is not None and each.access.writes:
                    found.setdefault(each.access.address, []).append(each.access)
        return found

    def taken_by(self, effect: Effect) -> Sequence[Slot]:
        """What is loaded from local memory, and from Tensor Memory."""
        step = self._marked.get(effect.number)
        loads = self._loads_cells(effect) if step is None else not step.writes
        return effect.results if loads else ()

    @cached_property
    def _cells(self) -> bool:
        """Whether the function loads from Tensor Memory."""
        return any(self._loads_cells(each) for block in self.effects for each in block)

    def _loads_cells(self, effect: Effect) -> bool:
        return self.program.opcode(effect.number).startswith("tcgen05.ld.")

    def taken(self, frame: Frame, effect: Effect) -> dict[Slot, int]:
        """What a load by generic addresses finds that is an operation."""
        step = self._marked.get(effect.number)
        if step is None or step.writes:
            return {}
        addresses, local = addresses_of(frame, step), frame.run.local
        lanes = lanes_of(frame.run.bits)
        marks = local.marks(addresses - local.window * (step.space == "generic"), step.size, lanes)
        elements = marks.view(f"u{step.bits // 8}") == (1 << step.bits) - 1
        pairs = zip(step.registers, elements.T, strict=True)
        return {slot: bits_of(lacking) for slot, lacking in pairs if isinstance(slot, Slot)}

    def done(self, frame: Frame, block: int, lanes: int) -> None:
        """After a tcgen05.ld, it is known which cells nothing had written."""
        effect, blind = self.effects[block][0], frame.run.core.blind
        if blind is not None and self._loads_cells(effect):
            frame.run.core.blind = None
            for slot, lacking in zip(effect.results, blind.T, strict=True):
                put(frame, self.shadow_of(slot), lacking, lanes)

    def part(self, effect: Effect) -> bool:
        """Whether other loads beside this one may load the rest of the same struct."""
        step = self._marked.get(effect.number)
        if step is None:
            return False
        loads = [each for each in self._marked.values() if not each.writes and each.address == step.address]
        beside = any(each.offset != step.offset for each in loads)
        return beside or step.count > 1 or not isinstance(step.address, Slot)

    @cached_property
    def _marked(self) -> dict[int, Access]:
        """The accesses that may be to local variables, by the numbers of their instructions."""
        if not self.program.code.keeps_variables:
            return {}
        found = [each.access for effects in self.effects for each in effects if each.access is not None]
        words = {each.number: self.program.opcode(each.number).split(".") for each in found}
        own = (each for each in found if each.space in ("local", "generic"))  # what calls pass counts as written
        return {each.number: each for each in own if not {"param", "param::func", "global"} & set(words[each.number])}

    def accessed(self, effect: Effect, may: Lacking) -> Iterator[Step]:
        """Beside the bytes of variables, the marks of those that lack a value."""
        step = self._marked.get(effect.number)
        if step is None:
            return
        slots, number = self.program.slots, step.number
        marks = [None if each is None else slots.further(step.bits) for each in step.registers]
        held = tuple(each for each in marks if each is not None)
        origin = self.program.stacked if step.space == "generic" else None
        access = replace(step, space="unset", registers=tuple(marks), signed=False, origin=origin)
        named = [each for each in step.registers if each is not None]
        if step.writes:
            copied = [each if isinstance(each, Slot) and not self.bit(each) & may.computed else None for each in named]
            shadows = tuple(self.shadow(each, may) for each in copied)
            yield Compute(number, partial(_spread, step.bits), shadows, held, step.guard)
            yield access
        else:
            yield access
            results = tuple(self.shadow_of(each) for each in named if isinstance(each, Slot))
            yield Compute(number, partial(_all_set, step.bits), held, results, step.guard)

    def at_first(self) -> Iterator[Slot]:
        """The registers that matter and that some way through the function reads before it writes them."""
        read, written = [], []
        for effects in self.effects:
            first = done = 0
            for effect in effects:
                sources = [slot for move in effect.moves for slot in (*move.sources, *move.plain)]
                sources += [slot for use in effect.uses for slot in use.slots]
                first |= self.bits_of(slots_among(sources)) & ~done
                if effect.guard is None:
                    done |= self.bits_of(effect.results)
            read.append(first)
            written.append(done)
        follows, before = self.program.ways.follows, [0] * len(read)
        changed = True
        while changed:
            changed = False
            for number in reversed(range(len(read))):
                after = 0
                for each in follows[number]:
                    after |= before[each] if each != OUT else 0
                needed = read[number] | after & ~written[number]
                changed |= needed != before[number]
                before[number] = needed
        filled = {*self.program.lowering.specials.values(), *self.program.lowering.addresses.values()}
        filled |= set(self.program.filled)
        return (slot for slot, bit in self.bits.items() if before[0] & bit and slot not in filled)

    def report(self, frame: Frame, number: int, use: Use | None) -> None:
        """As a use of a variable."""
        core = frame.run.core
        if use is not None:
            core.tell(Undefined, core.by(), self.program.opcode(number), use.of, self._cells)


def _spread(bits: int, ops: Any, *shadows: Any) -> tuple[Any, ...]:
    """Shadows as marks of so many bits each."""
    return tuple(ops.signed(each, bits) for each in shadows)


def _all_set(bits: int, ops: Any, *marks: Any) -> tuple[Any, ...]:
    """Marks as shadows: all bytes must lack a value."""
    return tuple(each == (1 << bits) - 1 for each in marks)
