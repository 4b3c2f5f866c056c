"""Rows of the instruction table: legal forms that share a gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product
from math import prod
from operator import or_
from typing import Any

from tcemu.instructions.facts import Facts
from tcemu.instructions.spelling import Words
from tcemu.instructions.targets import Gate, ptx_version, target_named

#: The words of a slot that change nothing but speed, each with the "PTX version, target" that it needs, or "".
Hints = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Rows:
    """The product of the words of all slots. A key may name several slots whose words go together, in that order.

    An empty word leaves an optional slot out, a key of several slots included; "-" leaves out one of several. `facts`
    are what else the family knows of these forms. `hints` are slots whose words change nothing but speed: every form
    takes any of them, or none.
    """

    slots: Mapping[str, Iterable[str]]
    ptx: str
    since: str
    facts: Facts = field(default_factory=Facts)
    hints: Hints = field(default_factory=dict)

    @cached_property
    def gate(self) -> Gate:
        """What all of them need."""
        return Gate(self.ptx, tuple(self.since.split()))

    def gate_of(self, words: Words) -> Gate:
        """What one of them needs, spelt with `words`: hints may need more than the form without them."""
        needs = [self.hints[slot].get(word, "") for slot, word in words.items() if slot in self.hints]
        ptx, since = latest((self.ptx, self.since), *(tuple(need.split()) for need in needs if need))
        return self.gate if (ptx, since) == (self.ptx, self.since) else Gate(ptx, tuple(since.split()))

    @cached_property
    def choices(self) -> tuple[tuple[Words, ...], ...]:
        """For each key the words that it may be, by slot; none where the slot is left out."""
        return tuple(tuple(_choice(slots, words) for words in chosen) for slots, chosen in self.slots.items())

    def expand(self) -> Iterator[Words]:
        """The words of each form, without hints."""
        for chosen in product(*self.choices):
            words: Words = {}
            for each in chosen:
                words |= each
            yield words

    @property
    def ends(self) -> tuple[Words, Words]:
        """The words of the first form and of the last."""
        none: Words = {}
        first, last = (reduce(or_, (chosen[end] for chosen in self.choices), none) for end in (0, -1))
        return first, last

    def __len__(self) -> int:
        return prod(len(chosen) for chosen in self.choices)

    def admits(self, words: Words) -> bool:
        """Whether one of the forms is spelt with `words`."""
        left = {slot: word for slot, word in words.items() if word not in self.hints.get(slot, ())}
        for slots, there in self._sets:
            if tuple(left.pop(slot, "") for slot in slots) not in there:
                return False
        return not left

    def words_of(self, slot: str) -> tuple[str, ...]:
        """What a slot may be in these forms, in the order of the row; absent is an empty word."""
        keys = [chosen for chosen in self.choices if any(slot in choice for choice in chosen)]
        found = [choice.get(slot, "") for chosen in keys for choice in chosen]
        return tuple(dict.fromkeys(found)) or ("",)

    def closest(self, words: Words, order: Iterable[str]) -> Words:
        """The form that shares the most words; among equals the earliest slots of `order`, then the fewest words."""
        slots, found = list(order), dict[str, str]()
        for chosen in self.choices:  # the keys have no slot in common, so each has its best choice by itself

            best: Words = max(chosen, key=lambda choice: alike(dict(choice), words, slots))
            found |= best
        return found

    @cached_property
    def _sets(self) -> tuple[tuple[tuple[str, ...], frozenset[tuple[str, ...]]], ...]:
        """For each key its slots, and the words that they may have together."""
        sets = []
        for key, chosen in zip(self.slots, self.choices, strict=True):
            slots = tuple(key.split())
            sets.append((slots, frozenset(tuple(choice.get(slot, "") for slot in slots) for choice in chosen)))
        return tuple(sets)

    def meets(self, other: Rows) -> bool:
        """Whether both spell one instruction."""
        mine, its = self._alone, other._alone
        if any(mine.get(slot, _NONE).isdisjoint(its.get(slot, _NONE)) for slot in {*mine, *its}):
            return False
        few, many = sorted((self, other), key=len)
        return any(many.admits(words) for words in few.expand())

    @cached_property
    def _alone(self) -> dict[str, frozenset[str]]:
        """The words that each slot may have, whatever the others have."""
        return {
            slot: frozenset(choice[place] for choice in there)
            for slots, there in self._sets
            for place, slot in enumerate(slots)
        }


def _choice(slots: str, words: str) -> Words:
    """The word of each slot."""
    if not words:
        return {}
    pairs = zip(slots.split(), words.split(), strict=True)
    return {slot: word for slot, word in pairs if word != "-"}


def latest(*needs: tuple[str, ...]) -> tuple[str, str]:
    """Of several (PTX version, targets) the version and the targets that satisfy all: what was there last."""
    ptx = max((each[0] for each in needs), key=ptx_version)
    return ptx, max((each[1] for each in needs), key=lambda since: target_named(since.split()[0]).number)


def alike(one: Words, other: Words, slots: Iterable[str]) -> tuple[int, list[bool], int]:
    """How many slots of `other` agree; among equals, which ones; among equals, how few words there are."""
    agree = [slot in other and one.get(slot) == other[slot] for slot in slots]
    return sum(agree), agree, -len(one)


#: What a slot may be that a row does not have.
_NONE = frozenset({""})


def vocabulary(rows: Iterable[Rows]) -> dict[str, tuple[str, ...]]:
    """The words of each slot that occur in `rows`; slots stand in the order in which the forms come to have them."""
    slots: dict[str, dict[str, None]] = {}
    for row in rows:
        # the first form has the first choice of every key; the last key is the first to come to its second choice
        first = [chosen for chosen in row.choices if chosen[0]]
        later = [chosen for chosen in reversed(row.choices) if not chosen[0]]
        for words in (words for chosen in (*first, *later) for words in chosen):
            for slot, word in words.items():
                slots.setdefault(slot, {})[word] = None
        for slot, hints in row.hints.items():
            slots.setdefault(slot, {}).update(dict.fromkeys(hints))
    return {slot: tuple(words) for slot, words in slots.items()}


def in_spaces(slots: Mapping[str, Iterable[str]], spaces: str, ptx: str, since: str, **facts: Any) -> list[Rows]:
    """Forms with a generic address and in each of `spaces`; .shared::cta may be spelt from PTX 7.8 on."""
    later = max(ptx, "7.8", key=ptx_version)
    both = (("", *spaces.split()), ptx), (("shared::cta",), later)
    return [Rows({**slots, "ss": names}, version, since, Facts(**facts)) for names, version in both]


def multiply(
    shapes: str,
    types: Iterable[str],
    ptx: str,
    since: str,
    options: Mapping[str, tuple[str, ...]] | None = None,
    **facts: Any,
) -> Rows:
    """Forms of a matrix product: every shape with every "d a b c" of types; A by rows, B by columns by default."""
    slots: dict[str, Iterable[str]] = {"shape": shapes.split(), "alayout": ("row",), "blayout": ("col",)}
    slots |= {"dtype atype btype ctype": list(types), **(options or {})}
    return Rows(slots, ptx, since, Facts(**facts))


def pairs(accumulators: str, a: str, b: str | None = None) -> list[str]:
    """Every "d a b c" with equal accumulators and any pair of operand types."""
    return [f"{d} {x} {y} {d}" for d, x, y in product(accumulators.split(), a.split(), (b or a).split())]
