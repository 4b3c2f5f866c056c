"""Mistakes that people make, as the wrong answers that follow from them.

A judge compares a wrong answer with what each mistake would have given. The mistakes of a fragment map are derived
from its layout line, by forgetting or exchanging digits, so that a new exercise on a map gets them automatically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions import parse
from tcemu.layouts.fragment import Fragment
from tcemu.layouts.layout import Layout

Array = npt.NDArray[np.int64]


#: Mistakes that explain one answer, of which each may be the learner's.
_ALTERNATIVES = 3


@dataclass(frozen=True)
class Mistake:
    """A mistake by its name, and what an answer that makes it gives.

    >>> from tcemu.course.mistakes import Mistake
    >>> Mistake("You swapped the two halves.", np.array([2, 1])).gives
    array([2, 1])
    """

    #: What the learner did, in a sentence: "This is the map of B."
    says: str
    gives: npt.NDArray[Any]


def diagnosis(got: npt.NDArray[Any], right: npt.NDArray[Any], mistakes: Iterable[Mistake], most: float = 1.0) -> str:
    """The name of the mistake that explains `got`; empty if none does.

    A mistake explains an answer to the part in which the two agree, of the elements where either of them is wrong;
    with the default of `most` it has to explain everything, and if less is enough, the part is said. If several explain
    it equally well, that is said too, and if they are more than a few, none is named. Elements are compared along the
    first axis, as a whole.

    >>> from tcemu.course.mistakes import Mistake, diagnosis
    >>> mistakes = [Mistake("You counted from 1.", np.array([1, 2, 3]))]
    >>> diagnosis(np.array([1, 2, 3]), np.array([0, 1, 2]), mistakes)
    'You counted from 1.'
    """
    close: dict[float, dict[str, None]] = {}
    differs = _differ(got, right)
    for mistake in mistakes:
        if mistake.gives.shape == got.shape:
            concerned = differs | _differ(mistake.gives, right)
            part = float((~_differ(got, mistake.gives) & concerned).sum() / max(int(concerned.sum()), 1))
            close.setdefault(part, {})[mistake.says] = None
    best = max(close, default=0.0)
    if best < most or not best or len(close[best]) > _ALTERNATIVES:
        return ""
    says = " Or: ".join(close[best])
    return says if best == 1 else f"{says} That explains {best:.0%} of what is wrong."


def _differ(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    differs: npt.NDArray[np.bool_] = np.asarray(one != other).reshape(len(one) if one.ndim else 1, -1)
    return np.asarray(differs.any(axis=1))


# ---------------------------------------------------------------------------------------------- fragment maps


@dataclass(frozen=True)
class Map:
    """A map (row, column) -> (lane, register, element), as the digits of row and column that each is written in.

    >>> from tcemu.course.mistakes import Map, fragment_of
    >>> Map.of(fragment_of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "a"))(8, 5)
    array([2, 1, 1])
    """

    #: Sizes of the digits, and the digits of row and column; of lane and slot; and those that count as 0.
    layout: Layout
    lane: tuple[str, ...]
    slot: tuple[str, ...]
    #: Elements in a register.
    elements: int
    dropped: frozenset[str] = frozenset()
    transposed: bool = False

    @classmethod
    def of(cls, fragment: Fragment) -> Map:
        """The map of a fragment; a broadcast's digit is 0, which is the first holder."""
        lane, slot = fragment.layout.right
        return cls(fragment.layout, tuple(lane), tuple(slot), fragment.elements_per_register)

    def __call__(self, *position: npt.ArrayLike) -> Array:
        """An array (..., 3) for positions (row, column), or (batch, row, column), which may be arrays."""
        numbers = [np.asarray(number, np.int64) for number in position]
        if self.transposed:
            numbers[-2:] = numbers[:-3:-1]
        digits = self._digits(numbers)
        lane, slot = (self._number(group, digits) for group in (self.lane, self.slot))
        return np.stack([*np.broadcast_arrays(lane, slot // self.elements, slot % self.elements)], axis=-1)

    def _digits(self, numbers: list[Array]) -> dict[str, Array]:
        digits: dict[str, Array] = {}
        for number, group in zip(numbers, self.layout.left, strict=True):
            left = number
            for digit in reversed(group):
                left, digits[digit] = np.divmod(left, self.layout.sizes[digit])
        return {digit: np.zeros_like(value) if digit in self.dropped else value for digit, value in digits.items()}

    def _number(self, group: tuple[str, ...], digits: dict[str, Array]) -> Array:
        number = np.int64(0) * next(iter(digits.values()))
        for digit in group:
            number = number * self.layout.sizes[digit] + digits.get(digit, 0)
        return number

    # ------------------------------------------------------------------------------------------ wrong maps

    def mistakes(self) -> Iterator[tuple[str, Map]]:
        """Wrong maps by the name of the mistake: swapped, forgotten and misplaced digits."""
        yield "You swapped row and column: this is the transposed map.", replace(self, transposed=True)
        for exchange, wrong in self._exchanged():
            yield self._said(*exchange), wrong
        for digit in (*self.lane, *self.slot):
            if self.layout.sizes[digit] > 1 and any(digit in group for group in self.layout.left):
                where = "lane" if digit in self.lane else "register" if self._in_register(digit) else "element"
                says = f"The {where} does not depend on {self._word(digit)}, but it should."
                yield says, replace(self, dropped=frozenset({digit}))
        if self.elements > 1:
            says = f"You counted elements instead of registers: {self.elements} of them share a register."
            yield says, replace(self, elements=1)

    def mistakes_of_the_inverse(self) -> Iterator[tuple[str, Map]]:
        """The same for the map from lane and register to row and column; forgotten digits have no inverse."""
        yield next(self.mistakes())
        for (first, second), wrong in self._exchanged():
            yield f"You swapped {self._place(first)} and {self._place(second)}.", wrong

    def _exchanged(self) -> Iterator[tuple[tuple[str, str], Map]]:
        """Two digits that are swapped, wherever they are in the lane or in the register, and the map that is."""
        both = (*combinations(self.lane, 2), *combinations(self.slot, 2), *product(self.lane, self.slot))
        for first, second in both:
            lane, slot = (_exchange(group, first, second) for group in (self.lane, self.slot))
            yield (first, second), replace(self, lane=lane, slot=slot)

    def _said(self, first: str, second: str) -> str:
        """That two digits are swapped, in terms of row and column."""
        one, other = self._word(first), self._word(second)
        if (first in self.lane) == (second in self.lane):
            return f"In the {'lane' if first in self.lane else 'register'}, you swapped {one} and {other}."
        upper = one[0].upper() + one[1:]
        return f"{upper} belongs in the lane and {other} in the register; you have them the other way round."

    def _place(self, digit: str) -> str:
        """A digit as a formula of the lane, the register or the element in it: "lane // 4"."""
        group, name = (self.lane, "lane") if digit in self.lane else (self.slot, "register")
        low, size = prod(self.layout.sizes[each] for each in group[group.index(digit) + 1 :]), self.layout.sizes[digit]
        if name == "register":
            low, name = (low // self.elements, name) if self._in_register(digit) else (low, "element")
        above = f"{name} // {low}" if low > 1 else name
        highest = group[0] == digit or (name == "element" and low * size == self.elements)
        return above if highest else f"{above} % {size}"

    def _in_register(self, digit: str) -> bool:
        """Whether a slot's digit is part of the register's number, not of the element's place in it."""
        low = 1
        for lower in self.slot[self.slot.index(digit) + 1 :]:
            low *= self.layout.sizes[lower]
        return low >= self.elements

    def _word(self, digit: str) -> str:
        """A digit as a formula, which needs no layout line to be understood: "row // 8"."""
        names = ("batch", "row", "column")[-len(self.layout.left) :]
        for name, group in zip(names, self.layout.left, strict=True):
            if digit in group:
                low = 1
                for lower in group[group.index(digit) + 1 :]:
                    low *= self.layout.sizes[lower]
                above = f"{name} // {low}" if low > 1 else name
                return above if group[0] == digit else f"{above} % {self.layout.sizes[digit]}"
        return f"the copy {digit}"


def _exchange(group: tuple[str, ...], first: str, second: str) -> tuple[str, ...]:
    """The digits with two of them swapped, wherever they are."""
    return tuple({first: second, second: first}.get(digit, digit) for digit in group)


def fragment_of(opcode: str, role: str) -> Fragment:
    """The fragment of an operand of an instruction."""
    return parse(opcode).fragments[role]
