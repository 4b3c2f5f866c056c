"""How a family is spelt: one template both reads and writes its opcodes.

    "mma.sync.aligned.{shape}.{alayout}.{blayout}[.{kind}].{dtype}.{atype}.{btype}.{ctype}[.{op}.popc]"

Words outside braces are fixed; words in square brackets may be absent. Each slot has its vocabulary; slots that share
one are filled from left to right. The assembler accepts qualifiers in any order, and so does reading; writing produces
the documented order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from tcemu.errors import CLOSE, IllegalInstruction, TableError, apart, listing, nearest, shown
from tcemu.formats.table import FORMATS, called
from tcemu.instructions.cuda_names import WORDS
from tcemu.instructions.nearness import SHAPE

Words = dict[str, str]

#: The slots of the types of a product's operands.
OPERANDS = ("dtype", "atype", "btype", "ctype")

#: A message lists up to this many words of a slot.
_FEW = 24


def most_like(word: str, accepted: Iterable[str]) -> str:
    """The accepted word most similar to `word`, preferably with the same beginning; empty if none is similar."""
    asked, places = word[:80], [*accepted]

    def rank(one: str) -> tuple[bool, bool, float, float, float, bool, int]:
        likeness, far = SequenceMatcher(None, one, asked).ratio(), apart(one, asked)
        turned, begun = sorted(one) == sorted(asked), one.startswith(f"{asked}_")  # b4x16 is b4x16_p64
        return not turned, not begun, min(far, CLOSE), -likeness, far, one[:1] != asked[:1], places.index(one)

    called = WORDS.get(asked, "")
    return called if called in places else min(nearest(asked, places, 5), key=rank, default="")


@dataclass(frozen=True)
class Spelling:
    """A template and the vocabulary of each slot."""

    template: str
    vocabulary: Mapping[str, tuple[str, ...]]
    #: Slots whose order matters, such as where a copy goes and where it comes from.
    sequence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if set(self.slots) != set(self.vocabulary):
            raise TableError(
                f"{self.template}: slots and vocabularies differ: {set(self.slots) ^ set(self.vocabulary)}"
            )

    def __hash__(self) -> int:
        return hash(self.template)

    @cached_property
    def slots(self) -> list[str]:
        """The slots in the order in which they are written."""
        return re.findall(r"{(\w+)}", self.template)

    @cached_property
    def optional(self) -> set[str]:
        """The slots that an opcode may leave empty."""
        return {slot for group in re.findall(r"\[(.*?)\]", self.template) for slot in re.findall(r"{(\w+)}", group)}

    @cached_property
    def fixed(self) -> list[str]:
        """The words that every opcode of the family has, the mnemonic first."""
        return re.sub(r"\[.*?\]|\.?{\w+}", "", self.template).split(".")

    @cached_property
    def _attached(self) -> dict[str, str]:
        """Fixed words that accompany an optional slot: popc with op."""
        groups = re.findall(r"\[(.*?)\]", self.template)
        return {
            word: re.findall(r"{(\w+)}", group)[0]
            for group in groups
            for word in re.sub(r"\.?{\w+}", "", group).split(".")
            if word
        }

    @cached_property
    def _homes(self) -> dict[str, list[str]]:
        """The slots that each word may fill, in order."""
        homes: dict[str, list[str]] = defaultdict(list)
        for slot in self.slots:
            for word in self.vocabulary[slot]:
                homes[word].append(slot)
        return homes

    def write(self, words: Mapping[str, str]) -> str:
        """The opcode in the documented order, without the slots that have no word."""
        parts = (text for text, slots in self._parts if slots is None or any(words.get(slot) for slot in slots))
        return "".join(parts).format_map(words)

    @cached_property
    def _parts(self) -> list[tuple[str, list[str] | None]]:
        """The pieces of the template: bracketed ones with their slots, fixed ones without."""
        pieces = re.split(r"\[(.*?)\]", self.template)
        return [(text, re.findall(r"{(\w+)}", text) if number % 2 else None) for number, text in enumerate(pieces)]

    def read(self, text: str, like: str = "") -> Words:
        """The word in each slot. Raises IllegalInstruction for an unknown, a missing or a surplus word.

        `like` is the opcode that was probably meant: what it has beyond `text` is suggested for an unknown word.
        """
        words: Words = {}
        free = list((Counter(like.split(".")) - Counter(text.split("."))).elements()) if like else None
        needed = list(self.fixed)
        attached: list[str] = []
        for word in text.split("."):
            if word in needed:
                needed.remove(word)
            elif word in self._attached:
                attached.append(word)
            else:
                self._place(word, words, free)
        self._complain_of_missing(needed, attached, words)
        self._complain_of_order(words)
        return words

    def knows(self, word: str) -> bool:
        """Whether a word may stand somewhere in an opcode of this spelling."""
        return word in self._homes or word in self.fixed or word in self._attached

    def takes(self, word: str) -> bool:
        """Whether a slot takes this word."""
        return word in self._homes

    def guess(self, text: str, *, similar: bool = True) -> Words:
        """The words of an opcode that cannot be read, in the slots that they were probably meant for.

        A shape and a type count even if no opcode has them. Other unknown words are replaced by the most similar word
        or, without `similar`, dropped.
        """
        said = [self._format(word) for word in text.split(".") if not {word} & {*self.fixed, *self._attached}]
        words, types = self._typed(said)
        for word in said:
            if word in types:
                continue
            own = self._by_kind(word)
            if own:
                words.setdefault(own, word)
                continue
            meant = word if word in self._homes or not similar else most_like(word, self._homes)
            slot = next((home for home in self._homes.get(meant, []) if home not in words), None)
            if slot is not None:
                words[slot] = meant
        return words

    def _format(self, word: str) -> str:
        """The format that other libraries call by an unknown word: e4m3 for fp8. Any other word stays."""
        return word if word in self._homes else next(iter(called(word) or ()), word)

    def _by_kind(self, word: str) -> str:
        """The slot of a shape, or of a type that the family does not know; empty for any other word."""
        if SHAPE.fullmatch(word):
            return "shape" if "shape" in self.vocabulary else ""
        typed = word not in self._homes and (word in FORMATS or re.fullmatch("[bsuf](8|16|32|64|128)", word))
        return "type" if typed and "type" in self.vocabulary else ""

    def _typed(self, said: list[str]) -> tuple[Words, list[str]]:
        """The types of a product's operands by their order, if there are about as many as operands; and those words."""
        slots = [slot for slot in self.slots if slot in OPERANDS]
        types = [word for word in said if word in FORMATS and {*self._homes.get(word, slots)} & {*slots}]
        if len(slots) < 3 or len(types) < 3 or abs(len(types) - len(slots)) > 1:
            return {}, []
        words = dict(zip(slots, types, strict=False))
        if "ctype" in slots:
            words.setdefault("ctype", words["dtype"])
        return words, types

    def _place(self, word: str, words: Words, free: list[str] | None) -> None:
        homes = self._homes.get(word, [])
        for slot in homes:
            if slot not in words:
                words[slot] = word
                return
        if homes or word in self.fixed:
            places = f"has only {listing([f'.{home}' for home in homes], 'and')}" if homes else "has it only once"
            raise IllegalInstruction(f"there is one .{word} too many: the instruction {places}.")
        raise IllegalInstruction(self._unknown(word, words, free))

    def _complain_of_order(self, words: Words) -> None:
        """Raise IllegalInstruction if ordered slots are out of order; `words` has the slots in the text's order."""
        order = [slot for slot in words if slot in self.sequence]
        wanted = [slot for slot in self.sequence if slot in words]
        if order != wanted:
            first = " before ".join(f".{words[slot]}" for slot in wanted)
            raise IllegalInstruction(f"the .{' and .'.join(wanted)} qualifiers must be in this order: {first}.")

    def _unknown(self, word: str, words: Words, free: list[str] | None) -> str:
        """What is wrong with a word that no slot accepts, and what the slot that it probably meant accepts.

        `free` are the words that may be suggested; None for all.
        """
        if not word:
            return "a qualifier is missing: there are two dots in a row, or a dot at one end."
        accepted = [*self._homes, *self.fixed, *self._attached] if free is None else free
        meant = most_like(word, accepted)
        hint = f" Did you mean {meant!r}?" if meant else ""
        said = f"{shown(f'.{word}')} is not a qualifier of {self.fixed[0]}.{hint}"
        instead = meant or (free[0] if free and len(free) == 1 else "")  # the only word that it can stand for
        slot = next((home for home in self._homes.get(instead, []) if home not in words), None)
        if slot is None:
            return said
        choices = self.vocabulary[slot]
        few, such = (choices, "") if len(choices) <= _FEW else (nearest(word[:80], choices, 5), ", for example,")
        return f"{said} .{slot} must be{such} {listing([f'.{choice}' for choice in few])}."

    def _complain_of_missing(self, needed: list[str], attached: list[str], words: Words) -> None:
        if needed:
            raise IllegalInstruction(f".{needed[0]} is missing; it is mandatory.")
        for slot in self.slots:
            if slot not in words and slot not in self.optional:
                accepted = listing([f".{word}" for word in self.vocabulary[slot]])
                raise IllegalInstruction(f"the .{slot} qualifier is missing; it must be {accepted}.")
        for word, slot in self._attached.items():
            if (slot in words) != (word in attached) or attached.count(word) > 1:
                raise IllegalInstruction(
                    f".{word} and {listing([f'.{w}' for w in self.vocabulary[slot]])} must occur together, each once."
                )
