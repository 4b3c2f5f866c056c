"""Registers that lack a value, followed to where that matters (see effects.py).

Some lack it until something is written to them, and those of tcgen05.ld until tcgen05.wait::ld. Each register that may
lack its value has a shadow, a predicate: the lanes in which it does. Shadows are computed by further steps, beside
those of the function, in native code too. Which registers need one is found once, by a static analysis: most functions
have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.alu.arrays import ARRAYS
from tcemu.machine.events import Undefined, UseOf
from tcemu.machine.masks import bits_of, lanes_of
from tcemu.machine.tcgen05_move import Unwaited
from tcemu.simt.behind import OUT
from tcemu.simt.effects import Effect, Move, Use, any_of, effects_of
from tcemu.simt.register_file import Constant, Slot, Source
from tcemu.simt.steps import Block, Compute, Step
from tcemu.simt.values import put, value

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]
#: The shadow of what has its value.
_NO = Constant(0, 1)
#: The bits of the registers that a bank has.
_BITS = 32


def shadows_of(program: Program) -> tuple[Shadows, ...]:
    """What follows the registers of a function that lack a value; most have nothing to follow."""
    effects = [tuple(effects_of(program, number)) for number in range(len(program.blocks))]
    return tuple(each for each in (kind(program, effects) for kind in (Unset, Loading)) if each)


def blocks_with(program: Program, shadows: Sequence[Shadows]) -> tuple[Block, ...]:
    """The blocks of a function with the steps that compute shadows, each before the step that it is about."""
    blocks = []
    for number, block in enumerate(program.blocks):
        steps: list[Step] = []
        for at in range(len(block.steps) + 1):
            steps += [step for each in shadows for step in each.further[number].get(at, ())]
            steps += block.steps[at : at + 1]
        blocks.append(replace(block, steps=tuple(steps)))
    return tuple(blocks)


class Shadows:
    """The shadows of one function, for one reason why registers lack a value."""

    def __init__(self, program: Program, effects: Sequence[Sequence[Effect]]) -> None:
        self._program, self._effects = program, effects
        self._bits: dict[Slot, int] = {}
        #: the registers that lack a value when the function begins
        self._first = tuple(self._at_first())
        self._of: dict[Slot, Slot] = {}
        #: for each use, by its instruction and what it is: the lanes that have used what has no value
        self._found: dict[tuple[int, Use], Slot] = {}
        #: by block, and the place of a step in it: the steps before that one
        self.further: list[dict[int, list[Step]]] = [{} for _ in effects]
        self._operations: dict[int, Effect] = {}
        if self._first or any(self._taken_by(each) for block in effects for each in block):
            self._follow()
            for number in range(len(effects)):
                self._shade(number)

    def __bool__(self) -> bool:
        return bool(self._found)

    #: uses that do no harm
    harmless: frozenset[UseOf] = frozenset()

    def _at_first(self) -> Iterable[Slot]:
        """The registers that lack a value when the function begins."""
        return ()

    def _taken_by(self, effect: Effect) -> Sequence[Slot]:
        """The registers that lack a value from an operation on."""
        return ()

    def _ends(self, effect: Effect) -> bool:
        """Whether all registers have a value from an operation on."""
        return False

    def _report(self, frame: Frame, number: int, use: Use) -> None:
        """Tell observers of a use in the lanes that are active."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ found once

    def _bit(self, slot: Slot) -> int:
        bit = self._bits.get(slot)
        if bit is None:
            bit = self._bits[slot] = 1 << len(self._bits)
        return bit

    def _bits_of(self, slots: Sequence[Slot]) -> int:
        bits = 0
        for each in slots:
            bits |= self._bit(each)
        return bits

    def _follow(self) -> None:
        """Find out which registers may lack their value before each block."""
        follows = self._program.ways.follows
        before: list[int | None] = [None] * len(follows)
        before[0] = self._bits_of(self._first)
        waiting = [0]
        while waiting:
            number = waiting.pop()
            after = before[number] or 0
            for effect in self._effects[number]:
                after = self._past(effect, after)
            for each in follows[number]:
                if each != OUT and (before[each] is None or after & ~(before[each] or 0)):
                    before[each] = (before[each] or 0) | after
                    waiting.append(each)
        self._before = before
        self._ever = 0
        for number, effects in enumerate(self._effects):
            may = before[number] or 0
            for effect in effects:
                self._ever |= may
                may = self._past(effect, may)
            self._ever |= may

    def _lacks(self, move: Move, may: int) -> bool:
        """Whether a result may lack its value."""
        wanted = self._bits_of(_slots(move.sources))
        return wanted & may == wanted if move.every else bool(wanted & may)

    def _past(self, effect: Effect, may: int) -> int:
        """The registers that may lack their value behind an instruction."""
        if self._ends(effect):
            return 0
        lacking = [each.result for each in effect.moves if self._lacks(each, may)]
        kept = may if effect.guard is not None else may & ~self._bits_of(effect.results)
        return kept | self._bits_of([*lacking, *self._taken_by(effect)])

    # ------------------------------------------------------------------------------------------ further steps

    def _shadow(self, source: Source, may: int) -> Source:
        """The shadow of a source; none of the lanes, if it has its value."""
        if not isinstance(source, Slot) or not self._bit(source) & may:
            return _NO
        return self._shadow_of(source)

    def _shadow_of(self, slot: Slot) -> Slot:
        if slot not in self._of:
            self._of[slot] = self._program.slots.further()
        return self._of[slot]

    def _shade(self, number: int) -> None:
        """Find the steps that compute the shadows of a block, and what its operation does."""
        block, may = self._program.blocks[number], self._before[number] or 0
        for at, effect in enumerate(self._effects[number]):
            if block.operation is not None:
                self._note_operation(number, effect, may)
            else:
                steps = list(self._steps(effect, may))
                if steps:
                    self.further[number][at] = steps
            may = self._past(effect, may)

    def _steps(self, effect: Effect, may: int) -> Iterator[Step]:
        for use in effect.uses:
            shadows = [self._shadow_of(each) for each in use.slots if self._bit(each) & may]
            if shadows and use.of not in self.harmless:
                found = self._found[effect.number, use] = self._program.slots.further()
                yield Compute(effect.number, any_of, (found, *shadows), (found,), effect.guard)
        moves = [each for each in effect.moves if self._lacks(each, may)]
        lacking = {each.result for each in moves}
        rest = [each for each in effect.results if each not in lacking and self._bit(each) & self._ever]
        if moves or rest:
            taken: list[list[Source]] = [
                [*(self._shadow(each, may) for each in move.sources), *move.plain] for move in moves
            ]
            meaning = _together([(each.meaning, len(own)) for each, own in zip(moves, taken, strict=True)], len(rest))
            sources = [each for own in taken for each in own]
            results = (*(self._shadow_of(each.result) for each in moves), *map(self._shadow_of, rest))
            yield Compute(effect.number, meaning, (*sources, _NO), results, effect.guard)

    def _note_operation(self, number: int, effect: Effect, may: int) -> None:
        """Note what an operation does, which Python carries out."""
        uses = [Use(each.of, slots) for each in effect.uses
                if (slots := tuple(slot for slot in each.slots if self._bit(slot) & may))
                and each.of not in self.harmless]  # fmt: skip
        moves = tuple(each for each in effect.moves if self._lacks(each, may))
        results = tuple(each for each in effect.results if self._bit(each) & self._ever)
        for slot in (*results, *self._taken_by(effect), *(slot for use in uses for slot in use.slots)):
            self._shadow_of(slot)  # while there can be more of them
        for use in uses:
            self._found[effect.number, use] = self._program.slots.further()
        if uses or results or (self._ends(effect) and may):
            self._operations[number] = Effect(effect.number, None, tuple(uses), moves, results)

    # ------------------------------------------------------------------------------------------ while it runs

    def begin(self, frame: Frame) -> None:
        """A call begins: its registers lack values."""
        for each in self._first:
            if each in self._of:
                frame.masks[self._of[each].row] = 0xFFFFFFFF

    def operate(self, frame: Frame, block: int, lanes: int) -> None:
        """An operation is about to be carried out, for some lanes."""
        effect = self._operations.get(block)
        if effect is None:
            return
        for use in effect.uses:
            for slot in use.slots:
                frame.masks[self._found[effect.number, use].row] |= frame.mask(self._of[slot]) & lanes
        if self._ends(effect):
            for slot in self._of.values():
                frame.masks[slot.row] = 0
        new = dict.fromkeys(effect.results, 0) | dict.fromkeys(self._taken_by(effect), 0xFFFFFFFF)
        for move in effect.moves:
            shadows = [
                lanes_of(frame.mask(self._of[each])) if each in self._of else lanes_of(0) for each in move.sources
            ]
            lacking = move.meaning(ARRAYS, *shadows, *(value(frame, each) for each in move.plain))
            new[move.result] = bits_of(lacking if move.lanes is None else lacking[move.lanes(frame)])
        for slot, bits in new.items():
            put(frame, self._of[slot], lanes_of(bits), lanes)
        self.tell(frame)

    @cached_property
    def _rows(self) -> Array:
        """The rows of the uses."""
        return np.array([each.row for each in self._found.values()], np.intp)

    def tell(self, frame: Frame) -> None:
        """Tell observers which uses there have been."""
        if not frame.masks[self._rows].any():
            return
        run, core = frame.run, frame.run.core
        bits = run.bits
        run.context.flush()
        for (number, use), slot in self._found.items():
            lanes = frame.mask(slot)
            if lanes:
                frame.masks[slot.row] = 0
                run.activate(lanes)
                core.at = self._program.sites[number]
                self._report(frame, number, use)
        run.activate(bits)


class Unset(Shadows):
    """Registers that nothing has written."""

    harmless = frozenset({"exchanged"})

    def _at_first(self) -> Iterator[Slot]:
        """The registers that matter and that some way through the function reads before it writes them."""
        read, written = [], []
        for effects in self._effects:
            first = done = 0
            for effect in effects:
                sources = [slot for move in effect.moves for slot in (*move.sources, *move.plain)]
                sources += [slot for use in effect.uses for slot in use.slots]
                first |= self._bits_of(_slots(sources)) & ~done
                if effect.guard is None:
                    done |= self._bits_of(effect.results)
            read.append(first)
            written.append(done)
        follows, before = self._program.ways.follows, [0] * len(read)
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
        filled = {*self._program.lowering.specials.values(), *self._program.lowering.addresses.values()}
        filled |= set(self._program.filled)
        return (slot for slot, bit in self._bits.items() if before[0] & bit and slot not in filled)

    def _report(self, frame: Frame, number: int, use: Use) -> None:
        core = frame.run.core
        core.tell(Undefined, core.by(), self._program.opcode(number), use.of)


class Loading(Shadows):
    """The registers of a tcgen05.ld that no tcgen05.wait::ld has covered."""

    def _taken_by(self, effect: Effect) -> Sequence[Slot]:
        return effect.results if self._program.opcode(effect.number).startswith("tcgen05.ld.") else ()

    def _ends(self, effect: Effect) -> bool:
        return self._program.opcode(effect.number).startswith("tcgen05.wait::ld")

    def _report(self, frame: Frame, number: int, use: Use) -> None:
        core = frame.run.core
        loads = [each.registers for _, each in core.block.state(Unwaited).open.get((core.index, "ld"), ())]
        rows = [row for each in loads if each is not None and each.bank is frame.bank for row in each.which()]
        own = [each.row for each in use.slots if each.bits == _BITS and each.row in rows]
        if rows:
            core.touched(frame.bank.view(own or rows), False, tuple(own or rows), ())


def _slots(sources: Sequence[Any]) -> list[Slot]:
    return [each for each in sources if isinstance(each, Slot)]


def _together(meanings: Sequence[tuple[Any, int]], rest: int) -> Any:
    """One meaning for several shadows, each of so many sources; and `rest` that get the last source."""

    def meaning(ops: Any, *values: Any) -> tuple[Any, ...]:
        made, at = [], 0
        for each, count in meanings:
            made.append(each(ops, *values[at : at + count]))
            at += count
        return (*made, *[values[-1]] * rest)

    return meaning
