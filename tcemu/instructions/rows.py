"""Rows of the instruction table: legal forms that share a gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial, reduce
from itertools import product
from math import prod
from operator import or_
from typing import Any

from tcemu.instructions.facts import Facts
from tcemu.instructions.nearness import far
from tcemu.instructions.spelling import Words
from tcemu.instructions.targets import Gate, ptx_version, target_named

#: The words of a slot that change nothing but speed, each with the "PTX version, target" that it needs, or "".
Hints = Mapping[str, Mapping[str, str]]


#: Why the machine does not execute .add.noftz.f32.
UNFLUSHED = "the machine has no .add.noftz.f32, which came with PTX ISA 9.4"


def typed(operations: str, types: str) -> list[str]:
    """Words of the slots "op type": each of some operations with each of some types.

    >>> from tcemu.instructions.rows import typed
    >>> typed("and or", "b32 b64")
    ['and b32', 'and b64', 'or b32', 'or b64']
    """
    return [f"{operation} {type_}" for operation in operations.split() for type_ in types.split()]


@dataclass(frozen=True)
class Rows:
    """The product of the words of all slots. A key may name several slots whose words go together, in that order.

    An empty word leaves an optional slot out, or all slots of a key that names several; "-" leaves out one of several.
    `facts` hold whatever else the family says about these forms. `hints` are slots whose words change nothing but
    speed: every form takes any of them, or none.
    """

    slots: Mapping[str, Iterable[str]]
    ptx: str
    since: str
    facts: Facts = field(default_factory=Facts)
    hints: Hints = field(default_factory=dict)

    @cached_property
    def gate(self) -> Gate:
        """What all of these forms need."""
        return Gate(self.ptx, tuple(self.since.split()))

    def gate_of(self, words: Words) -> Gate:
        """What the form with `words` needs: hints may need more than the form without them."""
        needs = [self.hints[slot].get(word) for slot, word in words.items() if slot in self.hints]
        if not any(needs):
            return self.gate
        ptx, since = latest((self.ptx, self.since), *(need.split() for need in needs if need))
        return Gate(ptx, tuple(since.split()))

    @cached_property
    def choices(self) -> tuple[tuple[Words, ...], ...]:
        """For each key, the choices of words by slot; a slot that is left out has none."""
        return tuple(_choices(*key) for key in self.keys)

    @cached_property
    def keys(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each key with its words."""
        return tuple((slots, tuple(chosen)) for slots, chosen in self.slots.items())

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
        for slots, combinations in self._sets:
            if tuple(left.pop(slot, "") for slot in slots) not in combinations:
                return False
        return not left

    def words_of(self, slot: str) -> tuple[str, ...]:
        """The words that a slot may have in these forms, in the order of the row; an empty word means absent."""
        keys = [chosen for chosen in self.choices if any(slot in choice for choice in chosen)]
        words = [choice.get(slot, "") for chosen in keys for choice in chosen]
        return tuple(dict.fromkeys(words)) or ("",)

    def closest(self, words: Words, order: Iterable[str]) -> Words:
        """The form that is nearest; of equals, one that agrees in earlier slots of `order`. Hints that fit stay."""
        slots = list(order)
        closest = {slot: words[slot] for slot, fit in self.hints.items() if words.get(slot) in fit}
        for named, chosen in self.keys:  # no two keys share a slot
            own = named.split()
            closest |= _nearest(named, chosen, tuple((slot, words.get(slot)) for slot in slots if slot in own))
        return closest

    @cached_property
    def _sets(self) -> tuple[tuple[tuple[str, ...], frozenset[tuple[str, ...]]], ...]:
        """For each key, its slots and the combinations of words that they may have."""
        return tuple(_together(*key) for key in self.keys)

    def meets(self, other: Rows) -> bool:
        """Whether some instruction is spelt by both rows."""
        mine, its = self.alone, other.alone
        if any(mine.get(slot, _NONE).isdisjoint(its.get(slot, _NONE)) for slot in {*mine, *its}):
            return False
        few, many = sorted((self, other), key=len)
        return any(many.admits(words) for words in few.expand())

    @cached_property
    def alone(self) -> dict[str, frozenset[str]]:
        """The words that each slot may have, regardless of the others."""
        alone: dict[str, frozenset[str]] = {}
        for key in self.keys:
            alone |= _apart(*key)
        return alone


# These are cached because many rows share a key and its words.


@cache
def _choices(slots: str, chosen: tuple[str, ...]) -> tuple[Words, ...]:
    """For each choice of a key, the word of each slot."""
    names = slots.split()
    pairs = (zip(names, words.split(), strict=True) if words else () for words in chosen)
    return tuple({slot: word for slot, word in each if word != "-"} for each in pairs)


@lru_cache(maxsize=1 << 14)
def _nearest(slots: str, chosen: tuple[str, ...], asked: tuple[tuple[str, str | None], ...]) -> Words:
    """The choice of a key nearest to the words asked for in its slots; earlier slots decide between equals."""
    words = {slot: word for slot, word in asked if word is not None}
    return min(_choices(slots, chosen), key=partial(rank, words=words, slots=[slot for slot, _ in asked]))


@cache
def _together(slots: str, chosen: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[tuple[str, ...]]]:
    """The slots of a key, and the combinations of words that they may have."""
    names = tuple(slots.split())
    return names, frozenset(tuple(choice.get(slot, "") for slot in names) for choice in _choices(slots, chosen))


@cache
def _apart(slots: str, chosen: tuple[str, ...]) -> dict[str, frozenset[str]]:
    """The words that each slot of a key may have, regardless of the others."""
    names, choices = _together(slots, chosen)
    return {slot: frozenset(choice[place] for choice in choices) for place, slot in enumerate(names)}


@cache
def _spelt(slots: str, chosen: tuple[str, ...]) -> dict[str, dict[str, None]]:
    """The words of each slot of a key, in the order in which the choices first have them."""
    spelt: dict[str, dict[str, None]] = {}
    for choice in _choices(slots, chosen):
        for slot, word in choice.items():
            spelt.setdefault(slot, {})[word] = None
    return spelt


def latest(*needs: Sequence[str]) -> tuple[str, str]:
    """The PTX version and the targets that satisfy all of several (PTX version, targets): the latest of each."""
    ptx = max((each[0] for each in needs), key=ptx_version)
    return ptx, max((each[1] for each in needs), key=lambda since: target_named(since.split()[0]).number)


def rank(one: Words, words: Words, slots: Iterable[str]) -> tuple[float, list[bool], int]:
    """A sort key: how far a form is from `words`, then in which slots it differs, then how many words it has."""
    compared = list(slots)
    differ = [slot not in words or one.get(slot) != words[slot] for slot in compared]
    return round(far(words, one, compared), 6), differ, len(one)


#: The words of a slot that a row does not have.
_NONE = frozenset({""})


def vocabulary(rows: Iterable[Rows]) -> dict[str, tuple[str, ...]]:
    """The words of each slot that occur in `rows`; the slots are in the order in which the forms first have them."""
    slots: dict[str, dict[str, None]] = {}
    for row in rows:
        # the first form has the first choice of every key; the last key varies fastest
        first = [key for key in row.keys if key[1][0]]
        later = [key for key in reversed(row.keys) if not key[1][0]]
        for key in (*first, *later):
            for slot, words in _spelt(*key).items():
                slots.setdefault(slot, {}).update(words)
        for slot, hints in row.hints.items():
            slots.setdefault(slot, {}).update(dict.fromkeys(hints))
    return {slot: tuple(words) for slot, words in slots.items()}


def in_spaces(slots: Mapping[str, Iterable[str]], spaces: str, ptx: str, since: str, **facts: Any) -> list[Rows]:
    """Forms with a generic address, and forms in each of `spaces`; PTX 7.8 added .shared::cta."""
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
    """Forms of a matrix product: every shape with every "d a b c" of types; by default A by rows and B by columns."""
    slots: dict[str, Iterable[str]] = {"shape": shapes.split(), "alayout": ("row",), "blayout": ("col",)}
    slots |= {"dtype atype btype ctype": list(types), **(options or {})}
    return Rows(slots, ptx, since, Facts(**facts))


def pairs(accumulators: str, a: str, b: str | None = None) -> list[str]:
    """Every "d a b c" with equal accumulators and any pair of operand types."""
    return [f"{d} {x} {y} {d}" for d, x, y in product(accumulators.split(), a.split(), (b or a).split())]
