"""Rows of the instruction table: legal forms that share a gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from tcemu.instructions.spelling import Words
from tcemu.instructions.targets import Gate, ptx_version


@dataclass(frozen=True)
class Rows:
    """The product of the words of all slots. A key may name several slots whose words go together, in that order.

    An empty word leaves an optional slot out. `facts` are what else the family knows of these forms.
    """

    slots: Mapping[str, Iterable[str]]
    ptx: str
    since: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def gate(self) -> Gate:
        """What all of them need."""
        return Gate(self.ptx, tuple(self.since.split()))

    @cached_property
    def choices(self) -> tuple[tuple[Words, ...], ...]:
        """For each key the words that it may be, by slot; none where the slot is left out."""
        return tuple(
            tuple(dict(zip(slots.split(), words.split(), strict=True)) if words else {} for words in chosen)
            for slots, chosen in self.slots.items()
        )

    def expand(self) -> Iterator[Words]:
        """The words of each form."""
        for chosen in product(*self.choices):
            words: Words = {}
            for each in chosen:
                words |= each
            yield words


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
    return {slot: tuple(words) for slot, words in slots.items()}


def in_spaces(slots: Mapping[str, Iterable[str]], spaces: str, ptx: str, since: str, **facts: Any) -> list[Rows]:
    """Forms with a generic address and in each of `spaces`; .shared::cta may be spelt from PTX 7.8 on."""
    later = max(ptx, "7.8", key=ptx_version)
    both = (("", *spaces.split()), ptx), (("shared::cta",), later)
    return [Rows({**slots, "ss": names}, version, since, facts) for names, version in both]


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
    return Rows(slots, ptx, since, facts)


def pairs(accumulators: str, a: str, b: str | None = None) -> list[str]:
    """Every "d a b c" with equal accumulators and any pair of operand types."""
    return [f"{d} {x} {y} {d}" for d, x, y in product(accumulators.split(), a.split(), (b or a).split())]
