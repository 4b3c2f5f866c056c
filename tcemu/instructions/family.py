"""A family of instructions: how it is spelt, which rows are legal, and what executes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation
from tcemu.errors import IllegalInstruction, TableError, listing
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.spelling import Spelling, Words

Execute = Callable[[Instruction, Operation, Sequence[npt.ArrayLike]], npt.NDArray[Any]]


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

    def __post_init__(self) -> None:
        opcodes = [instruction.opcode for _, instruction in self.variants]
        twice = {opcode for opcode in opcodes if opcodes.count(opcode) > 1}
        if twice:
            raise TableError(f"two rows spell the same instruction: {sorted(twice)}")
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
        """The legal instruction that shares the most words."""
        return max(self.variants, key=lambda variant: _shared(variant[0], words))[1]

    def clash(self, words: Words) -> str:
        """Which slot does not go with the others, and what would."""
        best = max(_shared(candidate, words) for candidate, _ in self.variants)
        slots = [slot for slot in self.spelling.vocabulary if self._would_do(slot, words)] if best else []
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
        given = f".{words[slot]} does not go with the other qualifiers" if slot in words else f"The .{slot} qualifier is missing"
        return f"{given}: with them, .{slot} is {listing(accepted)}."


def _shared(one: Words, other: Words) -> tuple[int, int]:
    """How many slots agree; among equals, how few differ."""
    same = sum(one.get(slot) == word for slot, word in other.items())
    return same, -len(one)


def leading_axes(arrays: Sequence[npt.NDArray[Any]]) -> tuple[int, ...]:
    """The shape of the leading axes of register arrays, broadcast; they are independent warps."""
    return np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
