"""Registers that lack a value, followed to where that matters (see effects.py).

Some lack it until something is written to them (unset.py), and those of tcgen05.ld until tcgen05.wait::ld (loading.py).
Each register that may lack its value has a shadow, a predicate: the lanes in which it does. Shadows are computed by
further steps, beside those of the function, in native code too. Which registers need one is found once, by a static
analysis: most functions have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.alu.arrays import ARRAYS
from tcemu.machine.events import UseOf
from tcemu.machine.masks import FULL, bits_of, lanes_of
from tcemu.simt.behind import OUT
from tcemu.simt.beside import Beside
from tcemu.simt.effects import Effect, Move, Use, any_of
from tcemu.simt.register_file import Constant, Slot, Source
from tcemu.simt.steps import Compute, Step
from tcemu.simt.values import put, value

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]
#: The shadow of what has its value.
_NO = Constant(0, 1)


class Lacking(NamedTuple):
    """The registers that may lack their value, as bits; those that may be computed from what lacks it, or a part.

    `always` are those that lack it on every way here, and what is computed from them.
    """

    all: int = 0
    computed: int = 0
    parts: int = 0
    always: int = 0

    def __or__(self, other: Lacking) -> Lacking:
        return Lacking(*(one | two for one, two in zip(self, other, strict=True)))

    def met(self, other: Lacking | None) -> Lacking:
        """Where a way with this meets another, if there is one yet."""
        return self if other is None else (self | other)._replace(always=self.always & other.always)

    def but(self, bits: int) -> Lacking:
        """Without these registers."""
        return Lacking(*(each & ~bits for each in self))


class Shadows(Beside):
    """The shadows of one function, for one reason why registers lack a value."""

    #: uses that do no harm
    harmless: frozenset[UseOf] = frozenset()

    def __init__(self, program: Program, effects: Sequence[Sequence[Effect]]) -> None:
        super().__init__(program)
        self.effects = effects
        #: the bit of each register in sets of them
        self.bits: dict[Slot, int] = {}
        #: the registers that lack a value when the function begins
        self._first = tuple(self.at_first())
        self._of: dict[Slot, Slot] = {}
        #: by block: what its operation does, and the rows of the shadows that say whether it does anything
        self._operations: dict[int, tuple[Effect, Array]] = {}
        if self._first or self.marks or any(self.taken_by(each) for block in effects for each in block):
            self._follow()
            for number in range(len(effects)):
                self._shade(number)

    def __bool__(self) -> bool:
        return super().__bool__() or self.marks

    # ------------------------------------------------------------------------------------------ the reason

    @property
    def marks(self) -> bool:
        """Whether it writes what says which bytes lack a value, for others."""
        return False

    def at_first(self) -> Iterable[Slot]:
        """The registers that lack a value when the function begins."""
        return ()

    def taken_by(self, effect: Effect) -> Sequence[Slot]:
        """The registers that lack a value from an instruction on."""
        return ()

    def taken(self, frame: Frame, effect: Effect) -> dict[Slot, int]:
        """Those that lack one from an operation on, each in which lanes."""
        return dict.fromkeys(self.taken_by(effect), FULL)

    def part(self, effect: Effect) -> bool:
        """Whether they may be part of something larger that is copied as a whole."""
        return False

    def ends(self, effect: Effect) -> bool:
        """Whether all registers have a value from an operation on."""
        return False

    def judged(self, effect: Effect, of: UseOf, slot: Slot, may: Lacking) -> UseOf | None:
        """What is reported of an instruction's use of a register that may lack its value; None: nothing."""
        return of if of not in self.harmless else None

    def accessed(self, effect: Effect, may: Lacking) -> Iterator[Step]:
        """The steps that read or write, beside an access to memory, what says which bytes lack a value."""
        return iter(())

    # ------------------------------------------------------------------------------------------ found once

    def bit(self, slot: Slot) -> int:
        """The bit of a register."""
        bit = self.bits.get(slot)
        if bit is None:
            bit = self.bits[slot] = 1 << len(self.bits)
        return bit

    def bits_of(self, slots: Iterable[Slot]) -> int:
        """The bits of registers."""
        bits = 0
        for each in slots:
            bits |= self.bit(each)
        return bits

    def _follow(self) -> None:
        """Find out which registers may lack their value before each block."""
        follows = self.program.ways.follows
        before: list[Lacking | None] = [None] * len(follows)
        first = self.bits_of(self._first)
        before[0] = Lacking(first, always=first)
        waiting = [0]
        while waiting:
            number = waiting.pop()
            after = before[number] or Lacking()
            for effect in self.effects[number]:
                after = self._past(effect, after)
            for each in follows[number]:
                if each != OUT and (met := after.met(before[each])) != before[each]:
                    before[each] = met
                    waiting.append(each)
        self._before = [each or Lacking() for each in before]
        self._ever = 0
        for number, effects in enumerate(self.effects):
            may = self._before[number]
            for effect in effects:
                self._ever |= may.all
                may = self._past(effect, may)
            self._ever |= may.all

    def _lacks(self, move: Move, may: Lacking) -> bool:
        """Whether a result may lack its value."""
        wanted = self.bits_of(slots_among(move.sources))
        return wanted & may.all == wanted if move.every else bool(wanted & may.all)

    def _past(self, effect: Effect, may: Lacking) -> Lacking:
        """The registers that may lack their value behind an instruction."""
        if self.ends(effect):
            return Lacking()
        results = self.bits_of(effect.results)
        after = may.but(results) if effect.guard is None else may._replace(always=may.always & ~results)
        taken = self.bits_of(self.taken_by(effect))
        if taken:
            after |= Lacking(taken, 0, taken * self.part(effect))
        for each in effect.moves:
            if self._lacks(each, may):
                sources, bit = self.bits_of(slots_among(each.sources)), self.bit(each.result)
                computed = not each.copies or bool(sources & may.computed)
                parts, always = (
                    each.copies and bool(sources & may.parts),
                    effect.guard is None and self._must(each, may),
                )
                after |= Lacking(bit, bit * computed, bit * parts, bit * always)
        return after

    def _must(self, move: Move, may: Lacking) -> bool:
        """Whether a result lacks its value in any case; one that also depends on other values need not."""
        sources = self.bits_of(slots_among(move.sources))
        if move.meaning is any_of:
            return bool(sources & may.always)
        return sources & may.always == sources and {*move.plain} <= {*move.sources}

    # ------------------------------------------------------------------------------------------ further steps

    def shadow(self, source: Source | None, may: Lacking) -> Source:
        """The shadow of a source; none of the lanes, if it has its value."""
        return self.shadow_of(source) if isinstance(source, Slot) and self.bit(source) & may.all else _NO

    def shadow_of(self, slot: Slot) -> Slot:
        """The shadow of a register. There can be no more of them once the function runs."""
        if slot not in self._of:
            self._of[slot] = self.program.slots.further()
        return self._of[slot]

    def _shade(self, number: int) -> None:
        """Find the steps that compute the shadows of a block, and what its operation does."""
        may = self._before[number]
        for at, effect in enumerate(self.effects[number]):
            if self.program.blocks[number].operation is not None:
                self._note_operation(number, effect, may)
            else:
                steps = list(self._steps(effect, may))
                if steps:
                    self.further[number][at] = steps
            may = self._past(effect, may)

    def _used(self, effect: Effect, may: Lacking) -> Iterator[Use]:
        """The uses that are reported, each with the registers that may lack their values."""
        for use in effect.uses:
            judged: dict[UseOf | None, list[Slot]] = {}
            for slot in use.slots:
                if self.bit(slot) & may.all:
                    judged.setdefault(self.judged(effect, use.of, slot, may), []).append(slot)
            for of, slots in judged.items():
                if of is not None:
                    reported = Use(of, tuple(slots))
                    self.finds(effect.number, reported)
                    yield reported

    def _steps(self, effect: Effect, may: Lacking) -> Iterator[Step]:
        for use in self._used(effect, may):
            yield self.compared(effect.number, use, any_of, [*map(self.shadow_of, use.slots)], effect.guard)
        yield from self.accessed(effect, may)
        moves = [each for each in effect.moves if self._lacks(each, may)]
        done = {*(each.result for each in moves), *self.taken_by(effect)}
        rest = [each for each in effect.results if each not in done and self.bit(each) & self._ever]
        if moves or rest:
            taken: list[list[Source]] = [
                [*(self.shadow(each, may) for each in move.sources), *move.plain] for move in moves
            ]
            meaning = _together([(each.meaning, len(own)) for each, own in zip(moves, taken, strict=True)], len(rest))
            sources = [each for own in taken for each in own]
            results = (*(self.shadow_of(each.result) for each in moves), *map(self.shadow_of, rest))
            yield Compute(effect.number, meaning, (*sources, _NO), results, effect.guard)

    def _note_operation(self, number: int, effect: Effect, may: Lacking) -> None:
        """Note what an operation does, which Python carries out."""
        uses = tuple(self._used(effect, may))
        moves = tuple(each for each in effect.moves if self._lacks(each, may))
        results = tuple(each for each in effect.results if self.bit(each) & self._ever)
        used = [slot for use in uses for slot in use.slots]
        moved = [each for move in moves for each in slots_among(move.sources) if self.bit(each) & may.all]
        shadows = [self.shadow_of(each) for each in (*results, *self.taken_by(effect), *used, *moved)]
        if shadows or (self.ends(effect) and may.all):
            rows = np.array([each.row for each in shadows], np.intp)
            self.operations.add(number)
            self._operations[number] = effect._replace(guard=None, uses=uses, moves=moves, results=results), rows

    # ------------------------------------------------------------------------------------------ while it runs

    def begin(self, frame: Frame) -> None:
        """A call begins: its registers lack values, and none of them has been used."""
        super().begin(frame)
        frame.masks[self._own] = 0
        frame.masks[self._unset] = FULL

    @cached_property
    def _own(self) -> Array:
        """The rows of all shadows."""
        return np.array([each.row for each in self._of.values()], np.intp)

    @cached_property
    def _unset(self) -> Array:
        """The rows of the registers that lack a value when the function begins."""
        return np.array([self._of[each].row for each in self._first if each in self._of], np.intp)

    def operate(self, frame: Frame, block: int, lanes: int) -> None:
        """An operation is about to be carried out, for some lanes."""
        effect, rows = self._operations[block]
        if not (frame.masks[rows].any() or self.taken_by(effect) or self.ends(effect)):
            return
        for use in effect.uses:
            for slot in use.slots:
                self.note(frame, effect.number, use, frame.mask(self._of[slot]) & lanes)
        if self.ends(effect):
            for slot in self._of.values():
                frame.masks[slot.row] = 0
        new = dict.fromkeys(effect.results, 0) | self.taken(frame, effect)
        for move in effect.moves:
            shadows = [lanes_of(frame.mask(self._of[each]) if each in self._of else 0) for each in move.sources]
            lacking = move.meaning(ARRAYS, *shadows, *(value(frame, each) for each in move.plain))
            new[move.result] = bits_of(lacking if move.lanes is None else lacking[move.lanes(frame)])
        for slot, bits in new.items():
            put(frame, self._of[slot], lanes_of(bits), lanes)
        self.tell(frame)


def slots_among(sources: Sequence[Any]) -> list[Slot]:
    """The registers among sources."""
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
