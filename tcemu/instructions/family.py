"""A family of instructions: how it is spelt, which rows are legal, and what executes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from operator import and_
from typing import Any

import numpy.typing as npt

from tcemu.errors import IllegalInstruction, TableError, listing
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.nearness import TYPED, distance
from tcemu.instructions.operand import Operand
from tcemu.instructions.rows import Rows, rank
from tcemu.instructions.spelling import Spelling, Words
from tcemu.instructions.targets import Gate, Target

#: Destination registers (or None, for stores) of an instruction on operands; `memories` has "shared" and "memory".
Execute = Callable[[Instruction, Any, Sequence[npt.ArrayLike], Mapping[str, Any]], Any]
#: More words than the second are not listed; only the nearest few are.
_FEW, _MOST = 4, 12
Make = Callable[[Words, Rows, str], Instruction]


@dataclass(frozen=True)
class Refusal:
    """Words that people write together although no instruction has them, and why that is so."""

    words: Mapping[str, tuple[str, ...]]
    reason: str
    #: Words for other slots, where the most similar form would be wrong; an empty word leaves a slot out.
    instead: Mapping[str, str] = field(default_factory=dict)

    def applies(self, words: Words) -> bool:
        """Whether it applies to an opcode with these words; an empty word stands for an absent one."""
        return all(words.get(slot, "") in refused for slot, refused in self.words.items())


#: Whether an instruction with this gate exists where somebody asks about it.
Where = Callable[[Gate], bool]


def anywhere(_: Gate) -> bool:
    """Every instruction exists on some target."""
    return True


@dataclass(frozen=True, eq=False)
class Family:
    """All instructions with one mnemonic. An instruction is legal if a row has it.

    Rows are checked on demand: no two may spell the same instruction, and the first and the last form of each are made.
    So are the other forms; making one whose layouts contradict its row raises TableError.
    """

    name: str
    section: str
    spelling: Spelling
    #: The rows as they are written; `rows` are the same, checked.
    written: tuple[Rows, ...]
    #: Makes the instruction from its words, the row that has them, and the opcode.
    make: Make
    #: Executes one on registers and memory; None if it has a meaning only in a kernel.
    execute: Execute | None = None
    refusals: tuple[Refusal, ...] = ()
    #: The mnemonic, and words, at least one of which distinguishes the family from others with that mnemonic.
    mnemonic: str = ""
    distinguishing: frozenset[str] = frozenset()
    #: The words that its opcodes begin with, in this order: "bar.sync", "bar.cta.sync".
    stems: tuple[str, ...] = ()
    #: Whether it computes, and so needs a row of arithmetic.
    computes: bool = False
    #: Whether tcemu.matmul can send whole matrices through it: a dense product without further operands.
    matrices: bool = False
    #: Keyword arguments of tcemu.run that it uses: "shared", "memory".
    memories: frozenset[str] = frozenset()
    #: The operands in PTX's order, see tcemu.instructions.operand.
    signature: str = "d = a b c"
    #: Roles of operands that no other family has, by their word in the signature.
    roles: Mapping[str, Operand] = field(default_factory=dict)
    #: Whether all lanes of the warp must execute it together even though the opcode does not say .aligned.
    aligned: bool = False
    #: Whether it may change anything besides the destination, so that another thread may be waiting for it.
    changes: bool = True
    #: Whether none of its forms has fragments, so that only the spelling can contradict a row.
    plain: bool = False
    #: Why the machine does not execute it; empty if it does, or if the rows of some forms say why.
    unsupported: str = ""
    #: What an instruction does, in one line.
    about: str = ""
    #: Rules for programs that are not about a single operand, each a sentence or two.
    rules: tuple[str, ...] = ()
    #: Sentences about an instruction on a target that no other table has: sums of types that are not in the opcode.
    tells: Callable[[Instruction, Target], Iterable[str]] | None = None

    def __post_init__(self) -> None:
        if not self.mnemonic:
            object.__setattr__(self, "mnemonic", self.name)

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """What is legal. Raises TableError, each time, for rows that contradict themselves or each other."""
        for (one, mine), (other, its) in combinations(zip(self.written, self._masks, strict=True), 2):
            if all(map(and_, mine, its)) and one.meets(other):
                raise TableError(f"two rows of {self.name} spell the same instruction")
        for row in self.written:
            for words in row.ends:
                if self.plain:
                    self.check(self.spelling.write(words), words)
                else:
                    made = self._made(words, row)
                    self.check(made.opcode, made.words)
        return self.written

    @property
    def _masks(self) -> list[list[int]]:
        """For each row and slot, the words that it may have, one bit each; the lowest bit means no word."""
        bits = {
            slot: {word: 2 << number for number, word in enumerate(words)} | {"": 1}
            for slot, words in self.spelling.vocabulary.items()
        }
        return [
            [sum(known[word] for word in row.alone.get(slot, ("",))) for slot, known in bits.items()]
            for row in self.written
        ]

    def check(self, opcode: str, words: Mapping[str, str]) -> None:
        """Raise TableError for a form that does not read back as the words it was made from."""
        if self.spelling.read(opcode) != words:
            raise TableError(f"{opcode} does not read back as {words}")

    @cached_property
    def variants(self) -> tuple[tuple[Words, Instruction], ...]:
        """(words, instruction) of every form, without hints."""
        return tuple(form for row in self.rows for form in self.forms(row))

    def forms(self, row: Rows) -> Iterator[tuple[Words, Instruction]]:
        """(words, instruction) of every form of one row, without hints."""
        return ((words, self._made(words, row)) for words in row.expand())

    @cached_property
    def size(self) -> int:
        """How many forms there are, without hints."""
        return sum(len(row) for row in self.rows)

    def claims(self, words: Sequence[str]) -> bool:
        """Whether an opcode with these words belongs to this family, legal or not."""
        if words[0] != self.mnemonic or (self.distinguishing and self.distinguishing.isdisjoint(words)):
            return False
        return not self.stems or any(list(words[: len(stem)]) == stem for stem in self._stems)

    def begins(self, words: Sequence[str], opcode: str) -> bool:
        """Whether an opcode with these words begins with the same stem as `opcode`, its documented spelling."""
        stems = (stem for stem in self.stems if f"{opcode}.".startswith(f"{stem}."))
        return not self.stems or any(".".join(words).startswith(stem) for stem in stems)

    @cached_property
    def _stems(self) -> list[list[str]]:
        return [stem.split(".") for stem in self.stems]

    @cached_property
    def _forms(self) -> dict[str, Instruction]:
        """The instructions made so far, by opcode."""
        return {}

    def _made(self, words: Words, row: Rows) -> Instruction:
        opcode = self.spelling.write(words)
        instruction = self._forms.get(opcode)
        if instruction is None:
            made = self.make(words, row, opcode)
            said = opcode.split(".")
            aligned = self.aligned or "aligned" in said
            instruction = replace(
                made,
                signature=self.signature,
                roles=self.roles,
                aligned=aligned,
                sync=aligned or "sync" in said,
                changes=self.changes,
                unsupported=made.facts.unsupported or self.unsupported,
            )
            self._forms[opcode] = instruction
        return instruction

    def find(self, words: Words, where: Where = anywhere) -> Instruction:
        """The instruction spelt with `words`. Raises IllegalInstruction, which names the nearest that exists there."""
        for row in self.rows:
            if row.admits(words):
                return self._made(words, row)
        raise IllegalInstruction(f"{self.lesson(words) or self.clash(words)} {self.hint(words, where)}")

    def lesson(self, words: Words) -> str:
        """Why there is no such instruction, in the table's words; empty where the table has none for them."""
        refusal = self._refusal(words)
        return refusal.reason if refusal else ""

    def hint(self, words: Words, where: Where = anywhere) -> str:
        """The nearest legal form, as a sentence; if no form there has its types, the nearest that has them."""
        near, admitted = self.nearest(words), self.nearest_where(words, where)
        if admitted is not None and _alike(near, admitted):
            return f"Nearest legal form: {admitted.opcode}"
        return f"The nearest form with these types needs {near.gate.targets}: {near.opcode}"

    def nearest(self, words: Words) -> Instruction:
        """The legal form with the least distance from `words`."""
        instruction = self.nearest_where(words)
        if instruction is None:
            raise TableError(f"{self.name} has no rows")
        return instruction

    def nearest_where(self, words: Words, where: Where = anywhere) -> Instruction | None:
        """The nearest form of those that exist there; None if none does."""
        refusal, rows = self._refusal(words), [row for row in self.rows if where(row.gate)]
        if not rows:
            return None
        chosen, row = self._closest({**words, **refusal.instead} if refusal else words, rows)
        if not where(row.gate_of(chosen)):  # because of a hint
            chosen = {slot: word for slot, word in chosen.items() if slot not in row.hints}
        return self._made({slot: word for slot, word in chosen.items() if word}, row)

    def _refusal(self, words: Words) -> Refusal | None:
        """The first that applies, if it is about words that a legal form of this kind would not have."""
        near = dict(self._closest(words, self.rows)[0])
        wrong = {slot for slot in (*words, *near) if words.get(slot) != near.get(slot)}
        return next((each for each in self.refusals if each.applies(words) and not wrong.isdisjoint(each.words)), None)

    def _closest(self, words: Words, rows: Sequence[Rows]) -> tuple[Words, Rows]:
        """The words of the nearest form of some rows, and its row."""
        order = self.spelling.vocabulary
        best = [(row.closest(words, order), row) for row in rows]
        return min(best, key=lambda each: rank(each[0], words, order))

    def clash(self, words: Words) -> str:
        """Which slots cannot be combined with the others, and which words could."""
        near = self.nearest(words).words
        order = self.spelling.vocabulary
        differ = [slot for slot in order if words.get(slot, "") != near.get(slot, "")]
        would_do = ((slot, self._would_do(slot, words)) for slot in dict.fromkeys((*differ, *order)))
        advice = [self._advice(slot, words, accepted) for slot, accepted in would_do if accepted]
        advice = advice or [self._advice(slot, words, [near.get(slot, "")]) for slot in differ]
        return " ".join(advice[:2])

    def _would_do(self, slot: str, words: Words) -> list[str]:
        """Words that would make the opcode legal if `slot` alone were changed."""
        rest = {other: word for other, word in words.items() if other != slot}
        accepted: dict[str, None] = {}
        for row in self.rows:
            for word in row.words_of(slot):
                if row.admits({**rest, slot: word} if word else rest):
                    accepted[word] = None
        return list(accepted)

    @staticmethod
    def _advice(slot: str, words: Words, would_do: list[str]) -> str:
        few = sorted(would_do, key=lambda word: distance(slot, words.get(slot, ""), word))[:_FEW]
        if would_do == [slot]:
            return f"With .{slot} it would be legal."
        accepted = [f".{word}" if word else "absent" for word in would_do if len(would_do) <= _MOST or word in few]
        such = ", for example," if len(would_do) > _MOST else ""
        got = (
            f".{words[slot]} cannot be combined with the other qualifiers"
            if slot in words
            else f"The .{slot} qualifier is missing"
        )
        return f"{got}: .{slot} must be{such} {listing(accepted)} here."


def _alike(one: Instruction, other: Instruction) -> bool:
    """Whether two forms have the same types."""
    return all(one.words.get(slot) == other.words.get(slot) for slot in TYPED)
