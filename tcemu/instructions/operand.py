"""Operands as records, parsed once from a family's signature: what the checks, the machine, live and the pages read.

A signature gives the roles in PTX's order, "destination = sources":

    d = a b c                                           registers in, registers out
    d = d a/descriptor b_descriptor [e f] scale_d       d is read and written; a may be a descriptor instead; e and f
                                                        are there in sparse forms only
    {matrix} = pointer stride?                          a slot's word names the role; the stride may be left out
    ... [negates: imm_scale_a imm_scale_b]              there where the row's fact of that name is true

A role that is one of the instruction's fragments is its registers. Every other role is a row of ROLES.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tcemu.errors import TableError

if TYPE_CHECKING:
    from tcemu.instructions.instruction import Instruction
    from tcemu.layouts import Fragment

Kind = Literal[
    "registers",  # a fragment: registers that hold a matrix
    "metadata",  # one register a lane
    "scale",  # one register a lane
    "pair",  # (byte_id, thread_id)
    "value",  # registers that hold no matrix, or a number for all lanes
    "address",  # one a lane
    "pointer",  # one address for the warp
    "stride",  # one number for the warp
    "descriptor",  # of a matrix in shared memory
    "tensor map",
    "coordinates",
    "predicate",
    "immediate",
    "membermask",
]
Direction = Literal["in", "out", "in out"]


@dataclass(frozen=True)
class Operand:
    """One operand of an instruction."""

    role: str
    kind: Kind
    direction: Direction = "in"
    #: Whether the caller may leave it out.
    optional: bool = False
    #: Whether a matrix descriptor may stand in place of the registers.
    described: bool = False
    #: What its registers hold, where that is a matrix.
    fragment: Fragment | None = None
    #: Registers of a lane, 0 where it is none, and bits of one.
    registers: int = 0
    bits: int = 32
    #: What an immediate may be, where the manual lists it.
    choices: tuple[int, ...] = ()

    @property
    def read(self) -> bool:
        """Whether the instruction reads it."""
        return self.direction != "out"

    @property
    def written(self) -> bool:
        """Whether the instruction writes it."""
        return self.direction != "in"


_SIGNS, _MAJORS = (-1, 1), (0, 1)
#: THE TABLE of roles that are no fragment, by their word in a signature.
ROLES = {
    # ---- matrix instructions
    "e": Operand("e", "metadata", registers=1),
    "f": Operand("f", "immediate"),
    "scale_a": Operand("scale_a", "scale", registers=1),
    "pick_a": Operand("pick_a", "pair"),
    "scale_b": Operand("scale_b", "scale", registers=1),
    "pick_b": Operand("pick_b", "pair"),
    "b_descriptor": Operand("b", "descriptor", bits=64),
    "scale_d": Operand("scale_d", "predicate"),
    "imm_scale_a": Operand("imm_scale_a", "immediate", choices=_SIGNS),
    "imm_scale_b": Operand("imm_scale_b", "immediate", choices=_SIGNS),
    "imm_trans_a": Operand("imm_trans_a", "immediate", choices=_MAJORS),
    "imm_trans_b": Operand("imm_trans_b", "immediate", choices=_MAJORS),
    "addresses": Operand("addresses", "address"),
    "pointer": Operand("pointer", "pointer", bits=64),
    "stride": Operand("stride", "stride"),
    "N": Operand("N", "immediate"),
}
#: Roles that are registers holding no matrix, of as many registers and bits as the opcode says.
VALUES: dict[str, Callable[[Instruction], tuple[int, int]]] = {}


def operands_of(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands in PTX's order, the destination first; one that is read and written stands once."""
    target, _, source = instruction.signature.format_map(instruction.words).partition("=")
    written, read = target.split(), _present(instruction, source)
    return tuple(
        _operand(instruction, word, "out" if word not in read else "in out" if word in written else "in")
        for word in dict.fromkeys([*written, *read])
    )


def _present(instruction: Instruction, source: str) -> list[str]:
    """The words without those in brackets that the instruction lacks: their fragment, or the fact before the colon."""

    def group(match: re.Match[str]) -> str:
        fact, colon, words = match[1].rpartition(":")
        there = getattr(instruction.facts, fact) if colon else set(words.split()) & set(instruction.fragments)
        return words if there else ""

    return re.sub(r"\[(.*?)\]", group, source).split()


def _operand(instruction: Instruction, word: str, direction: Direction) -> Operand:
    name, slash, _ = word.rstrip("?").partition("/")
    how = {"direction": direction, "optional": word.endswith("?"), "described": bool(slash)}
    fragment = instruction.fragments.get(name)
    if name in ROLES:
        count, bits = VALUES[name](instruction) if name in VALUES else (ROLES[name].registers, ROLES[name].bits)
        return replace(ROLES[name], **how, registers=count, bits=bits, fragment=fragment)  # type: ignore[arg-type]
    if fragment is None and instruction.knows_fragments:
        raise TableError(f"{instruction}: no fragment and no row of ROLES is called {name}")
    fragment = instruction.fragments[name]  # raises where nobody knows it
    bits = fragment.container.register_bits
    return Operand(name, "registers", **how, fragment=fragment, registers=fragment.registers, bits=bits)  # type: ignore[arg-type]
