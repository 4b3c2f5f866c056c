"""An instruction as its kernel sees it: the operands in PTX's order, the immediates, and where its bytes lie."""

from __future__ import annotations

from dataclasses import dataclass

from tcemu.instructions.instruction import Instruction


@dataclass(frozen=True)
class Form:
    """What one kernel is made for."""

    instruction: Instruction
    #: Operand words: roles of fragments, or "addresses", "pointer", "stride", and those that are immediates.
    destination: tuple[str, ...]
    sources: tuple[str, ...]
    #: The text of each immediate.
    immediates: tuple[tuple[str, str], ...] = ()
    #: "shared" or "memory" where the instruction touches bytes.
    space: str = ""

    @property
    def loads(self) -> tuple[str, ...]:
        """Sources that every warp reads from memory first: all but immediates."""
        fixed = dict(self.immediates)
        return tuple(word for word in self.sources if word not in fixed)

    @property
    def stores(self) -> bool:
        """Whether its answer is in memory."""
        return not self.destination


def words(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The roles of its destination and of its sources, in PTX's order."""
    written = tuple(operand.role for operand in instruction.operands if operand.written)
    return written, tuple(operand.role for operand in instruction.sources)
