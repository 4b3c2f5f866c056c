"""A family of instructions: how it is spelt, which rows are legal, and what executes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tcemu.errors import IllegalInstruction, TableError, listing
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.rows import Rows
from tcemu.instructions.spelling import Spelling, Words

#: Destination registers (or None, for stores) of an instruction on operands; `memories` has "shared" and "memory".
Execute = Callable[[Instruction, Any, Sequence[npt.ArrayLike], Mapping[str, Any]], Any]
Make = Callable[[Words, Rows, str], Instruction]


@dataclass(frozen=True)
class Refusal:
    """Words that the assembler takes although the hardware does nothing with them, and why they are refused here."""

    words: Mapping[str, tuple[str, ...]]
    reason: str

    def applies(self, words: Words) -> bool:
        """Whether it speaks of an opcode with these words."""
        return all(words.get(slot) in accepted for slot, accepted in self.words.items())


@dataclass(frozen=True)
class Family:
    """All instructions with one mnemonic. Legal means present: `variants` has them all."""

    name: str
    section: str
    spelling: Spelling
    #: (words, instruction) of every legal opcode.
    variants: tuple[tuple[Words, Instruction], ...]
    execute: Execute
    refusals: tuple[Refusal, ...] = ()
    #: The mnemonic, and words of which at least one tells the family from others with that mnemonic.
    mnemonic: str = ""
    marks: frozenset[str] = frozenset()
    #: Whether it computes, and so needs a row of arithmetic.
    computes: bool = True
    #: Whether tcemu.matmul can send whole matrices through it: a dense product without further operands.
    matrices: bool = False
    #: Keyword arguments of tcemu.run that it has a use for: "shared", "memory".
    memories: frozenset[str] = frozenset()
    #: The operands in PTX's order, "destination = sources"; in braces a slot's word; in brackets what some forms
    #: lack, after a "?" those whose row says so.
    operands: str = "d = a b c"
    #: What one of it does, in a line.
    about: str = ""
    #: What a program has to keep that has nothing to do with one operand, each a sentence or two.
    rules: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, name: str, section: str, spelling: Spelling, rows: Iterable[Rows], make: Make, execute: Execute,
        refusals: tuple[Refusal, ...] = (), **more: Any,
    ) -> Family:  # fmt: skip
        """The family whose variants are all forms of `rows`, each made by `make(words, rows, opcode)`."""
        variants = tuple((words, make(words, row, spelling.write(words))) for row in rows for words in row.expand())
        return cls(name, section, spelling, variants, execute, refusals, **{"mnemonic": name, **more})

    def claims(self, words: Sequence[str]) -> bool:
        """Whether an opcode of these words is one of this family, right or wrong."""
        return words[0] == self.mnemonic and (not self.marks or not self.marks.isdisjoint(words))

    def __post_init__(self) -> None:
        times = Counter(instruction.opcode for _, instruction in self.variants)
        twice = sorted(opcode for opcode, count in times.items() if count > 1)
        if twice:
            raise TableError(f"two rows spell the same instruction: {twice}")
        for words, instruction in self.variants:
            if self.spelling.read(instruction.opcode) != words:
                raise TableError(f"{instruction.opcode} does not read back as {words}")

    def find(self, words: Words) -> Instruction:
        """The instruction spelt with `words`. Raises IllegalInstruction that tells the nearest legal one."""
        for candidate, instruction in self.variants:
            if candidate == words:
                return instruction
        for refusal in self.refusals:
            if refusal.applies(words):
                raise IllegalInstruction(f"{refusal.reason} Nearest legal form: {self.nearest(words).opcode}")
        raise IllegalInstruction(f"{self.clash(words)} Nearest legal form: {self.nearest(words).opcode}")

    def nearest(self, words: Words) -> Instruction:
        """The legal instruction that shares the most words, the shape and other early slots first."""
        return max(self.variants, key=lambda variant: self._shared(variant[0], words))[1]

    def _shared(self, one: Words, other: Words) -> tuple[int, list[bool], int]:
        """How many slots of `other` agree; among equals, which ones; among equals, how few words there are."""
        agree = [slot in other and one.get(slot) == other[slot] for slot in self.spelling.vocabulary]
        return sum(agree), agree, -len(one)

    def clash(self, words: Words) -> str:
        """Which slot does not go with the others, and what would."""
        slots = [slot for slot in self.spelling.vocabulary if self._would_do(slot, words)]
        if not slots:
            return "These qualifiers do not go together."
        return " ".join(self._advice(slot, words) for slot in slots[:2])

    def _would_do(self, slot: str, words: Words) -> list[str]:
        """Words that would make the opcode legal if `slot` alone were changed."""
        rest = {other: word for other, word in words.items() if other != slot}
        return [
            candidate.get(slot, "")
            for candidate, _ in self.variants
            if {other: word for other, word in candidate.items() if other != slot} == rest
        ]

    def _advice(self, slot: str, words: Words) -> str:
        accepted = [f".{word}" if word else "absent" for word in dict.fromkeys(self._would_do(slot, words))]
        given = (
            f".{words[slot]} does not go with the other qualifiers"
            if slot in words
            else f"The .{slot} qualifier is missing"
        )
        return f"{given}: with them, .{slot} is {listing(accepted)}."
