"""Loads that a compiler has moved ahead of a condition get it back, as their guard.

Of ``if (n > 32) sum += s[1];`` NVRTC may make a load, a sum, and a selp that takes the sum if n > 32 and throws it away
otherwise. On a GPU that is the same, because a load of shared memory does no harm. Here it would be a read of memory
that nothing has written, or a race, in a kernel that has neither. So a load becomes ``@p ld`` if what it reads is used
only by one selp, where p is true.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from tcemu import alu
from tcemu.assembly import Function, Instruction, Memory, Register
from tcemu.simt.contraction import definitions, registers_in, uses

#: Loads that a compiler may move: of memory that is certainly there, and neither volatile nor strong.
_LOAD = re.compile(r"ld\.(?:weak\.)?shared(?:::cta)?\.(?:v[24]\.)?[bfsu]\d+")
_ENDS = ("bra", "brx", "ret", "exit", "call")


class _Choice(NamedTuple):
    """The selp that uses a value, and the lanes that do: those in which its predicate is true, or false."""

    by: Instruction
    predicate: Register
    negated: bool


def guarded(function: Function) -> Function:
    """The function with the loads guarded that were moved ahead of a condition."""
    if not any(_LOAD.fullmatch(each.opcode) for each in function.body):
        return function
    return _Guarding(function).done()


class _Guarding:
    """The body, piece by piece: loads get guards, and what computes a guard comes before its load."""

    def __init__(self, function: Function) -> None:
        self.function, self.body = function, list(function.body)
        self.defined, self.used = definitions(function.body), uses(function.body)
        self.guards = {each.guard.name for each in function.body if each.guard}

    def done(self) -> Function:
        """Go through the straight pieces of the body."""
        ends = {*self.function.labels.values(), *(at + 1 for at, each in enumerate(self.body) if _ends(each))}
        places = sorted({0, len(self.body), *ends})
        for start, end in pairwise(places):
            piece = self.body[start:end]
            if any(each.opcode.startswith("selp.") for each in piece):
                self.body[start:end] = self._piece(piece)
        return replace(self.function, body=tuple(self.body))

    def _piece(self, piece: list[Instruction]) -> list[Instruction]:
        here = {id(each) for each in piece}
        for load in [each for each in piece if _LOAD.fullmatch(each.opcode) and not each.guard]:
            choice = self._choice(load, here)
            if choice is not None:
                at, by = _index(piece, load), _index(piece, choice.by)
                before = self._needed(choice.predicate.name, piece[at:by])
                if before is not None:
                    rest = [each for each in piece[at + 1 : by] if all(each is not other for other in before)]
                    guarded_load = replace(load, guard=choice.predicate, negated=choice.negated)
                    piece[at:by] = [*before, guarded_load, *rest]
        return piece

    def _choice(self, load: Instruction, here: set[int]) -> _Choice | None:
        """The selp that alone uses what a load reads; None if anything else does, or something outside the piece."""
        choices = []
        left = list(_written(load))
        while left:
            name = left.pop()
            if self.defined[name] != 1 or name in self.guards:
                return None
            for each in (self.function.body[at] for at in self.used.get(name, ())):
                if id(each) not in here or each.guard:
                    return None
                if each.opcode.startswith("selp."):
                    _, taken, other, predicate = each.operands
                    sides = [isinstance(side, Register) and side.name == name for side in (taken, other)]
                    if sum(sides) != 1 or not isinstance(predicate, Register):
                        return None
                    choices.append(_Choice(each, predicate, negated=sides[1]))
                elif alu.find(each.opcode) is None or isinstance(each.operands[0], Memory):
                    return None
                else:
                    left += _written(each)
        return choices[0] if len(choices) == 1 else None

    def _needed(self, predicate: str, between: list[Instruction]) -> list[Instruction] | None:
        """What computes a predicate between a load and the selp, in order; None if it cannot come before the load."""
        writers = {name: each for each in between for name in _written(each)}
        needed: set[int] = set()
        left = [predicate]
        while left:
            name = left.pop()
            each = writers.get(name)
            if each is None or id(each) in needed:
                continue
            if self.defined[name] != 1 or each.guard or alu.find(each.opcode) is None:
                return None
            needed.add(id(each))
            left += registers_in(each.operands[1:])
        return [each for each in between if id(each) in needed]


def _index(piece: list[Instruction], wanted: Instruction) -> int:
    return next(at for at, each in enumerate(piece) if each is wanted)


def _written(text: Instruction) -> tuple[str, ...]:
    """The registers that an instruction writes."""
    if not text.operands or isinstance(text.operands[0], Memory):
        return ()
    return tuple(registers_in(text.operands[:1]))


def _ends(text: Instruction) -> bool:
    return text.opcode.partition(".")[0] in _ENDS
