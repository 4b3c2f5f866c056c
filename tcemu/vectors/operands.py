"""The operands of an instruction as records: all that test vectors and the GPU need to know about them.

A family spells its operands in PTX's order (`Family.operands`). Nothing else in tcemu.vectors and tcemu.live reads that
spelling, and nothing else there knows what an operand's name stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.operands import sources as names_of_sources
from tcemu.instructions.parse import FAMILIES
from tcemu.layouts import Fragment

Kind = Literal[
    "registers",  # a fragment: (..., lanes, registers)
    "metadata",  # one register for each lane: (..., lanes)
    "scale",  # likewise
    "address",  # one for each lane: (..., lanes)
    "pointer",  # one address for the warp: (...)
    "stride",  # one number for the warp: (...)
    "descriptor",  # of a matrix in shared memory, for the warpgroup: (...)
    "predicate",  # for the warpgroup: (...)
    "immediate",  # a number in the text
    "pair",  # (byte_id, thread_id) in the text
]
#: Kinds that are part of the instruction's text.
IN_THE_TEXT: frozenset[Kind] = frozenset({"immediate", "pair"})


@dataclass(frozen=True)
class Operand:
    """One operand."""

    role: str
    kind: Kind
    #: Whether the instruction reads it, and whether it writes it.
    read: bool = True
    written: bool = False
    #: Whether the caller may leave it out.
    optional: bool = False
    #: What its registers hold; None where it has none.
    fragment: Fragment | None = None

    @property
    def in_the_text(self) -> bool:
        """Whether it is part of the instruction's text, and so of the kernel."""
        return self.kind in IN_THE_TEXT


#: What is not a fragment, by its name in a family's spelling.
_ROLES = {
    "e": Operand("e", "metadata"),
    "f": Operand("f", "immediate"),
    "scale_a": Operand("scale_a", "scale"),
    "pick_a": Operand("pick_a", "pair"),
    "scale_b": Operand("scale_b", "scale"),
    "pick_b": Operand("pick_b", "pair"),
    "addresses": Operand("addresses", "address"),
    "pointer": Operand("pointer", "pointer"),
    "stride": Operand("stride", "stride", optional=True),
    "b_descriptor": Operand("b", "descriptor"),
    "scale_d": Operand("scale_d", "predicate"),
    "imm_scale_a": Operand("imm_scale_a", "immediate"),
    "imm_scale_b": Operand("imm_scale_b", "immediate"),
    "imm_trans_b": Operand("imm_trans_b", "immediate"),
}
_BY_NAME = {family.name: family for family in FAMILIES}


def family_of(instruction: Instruction) -> Family:
    """The family that has the instruction."""
    return _BY_NAME[instruction.family]


def operands(instruction: Instruction, described: bool = False) -> tuple[Operand, ...]:
    """All operands in PTX's order; one that is read and written stands once, in front.

    With `described`, a matrix descriptor stands in place of A's registers, as wgmma allows.
    """
    family = family_of(instruction)
    targets = family.operands.format_map(instruction.words).split("=")[0].split()
    names = names_of_sources(instruction, family)
    found = [replace(_operand(instruction, name), read=name in names, written=True) for name in targets]
    found += [_operand(instruction, name) for name in names if name not in targets]
    return tuple(_with_a_described(found)) if described else tuple(found)


def sources(instruction: Instruction, described: bool = False) -> tuple[Operand, ...]:
    """What tcemu.run takes, in PTX's order."""
    return tuple(operand for operand in operands(instruction, described) if operand.read)


def as_given(instruction: Instruction, values: Sequence[Any]) -> tuple[Operand, ...]:
    """What tcemu.run takes, where these values are given: with a descriptor of A, or with A in registers."""
    plain = sources(instruction)
    if not any(operand.kind == "descriptor" for operand in plain):
        return plain
    a = [value for operand, value in zip(plain, values, strict=False) if operand.role == "a"]
    return sources(instruction, described=any(np.asarray(value).dtype != np.uint32 for value in a))


def written(instruction: Instruction) -> Operand | None:
    """The operand that the instruction writes; None for a store."""
    return next((operand for operand in operands(instruction) if operand.written), None)


def _operand(instruction: Instruction, name: str) -> Operand:
    if name in _ROLES:
        return replace(_ROLES[name], fragment=instruction.fragments.get(name))
    return Operand(name, "registers", fragment=instruction.fragments[name])


def _with_a_described(operands: list[Operand]) -> Iterator[Operand]:
    """A descriptor of A says, as B's does, whether the matrix is transposed."""
    for operand in operands:
        if operand.role == "imm_trans_b":
            yield Operand("imm_trans_a", "immediate")
        yield Operand("a", "descriptor") if operand.role == "a" else operand
