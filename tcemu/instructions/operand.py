"""Operands as records, parsed once from a family's signature; the checks, the machine, live and `tcemu isa` read them.

A signature gives the roles in PTX's order, "destination = sources":

    d = a b c                                           registers in, registers out
    d = d a/descriptor b_descriptor [e f] scale_d       d is read and written; a may be a descriptor instead; only
                                                        sparse forms have e and f
    {matrix} = pointer stride?                          a slot's word names the role; the stride may be left out
    ... [negates: imm_scale_a imm_scale_b]              present if the row's fact of that name is true
    ... [.cache_hint: cache_policy]                     present if the opcode has a word in that slot

A role named like one of the instruction's fragments means its registers. Every other role is a row of ROLES, or of the
family's own `roles`, which no other family needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tcemu.errors import TableError
from tcemu.instructions.elements import elements_of, tensor_registers

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
    "tensor address",  # in Tensor Memory, one for the warp
    "lane mask",  # registers with one bit for each lane of Tensor Memory
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
    #: Whether a matrix descriptor may replace the registers.
    described: bool = False
    #: The fragment that its registers hold, if it is a matrix.
    fragment: Fragment | None = None
    #: Registers per lane (0 if it is not in registers), and bits per register.
    registers: int = 0
    bits: int = 32
    #: The accepted values of an immediate, if the manual lists them.
    choices: tuple[int, ...] = ()
    #: Whether the instruction takes one value for all lanes that execute it. The machine also accepts a register with
    #: one for each lane, integers (32,), if the active lanes agree; of coordinates, each number may be one.
    uniform: bool = False
    #: Whether it is a destination that the instruction writes later: when a wait says so.
    later: bool = False
    #: What it is, where its role and kind do not say enough.
    about: str = ""

    @property
    def in_the_text(self) -> bool:
        """Whether it is part of the instruction's text."""
        return self.kind in ("immediate", "pair")

    @property
    def read(self) -> bool:
        """Whether the instruction reads it."""
        return self.direction != "out"

    @property
    def written(self) -> bool:
        """Whether the instruction writes it."""
        return self.direction != "in"


_SIGNS, _MAJORS = (-1, 1), (0, 1)
#: THE TABLE of roles that are not fragments, by their word in a signature.
ROLES = {
    # ---- matrix instructions
    "e": Operand("e", "metadata", registers=1),
    "f": Operand("f", "immediate", uniform=True),
    "scale_a": Operand("scale_a", "scale", registers=1),
    "pick_a": Operand("pick_a", "pair", uniform=True),
    "scale_b": Operand("scale_b", "scale", registers=1),
    "pick_b": Operand("pick_b", "pair", uniform=True),
    "b_descriptor": Operand("b", "descriptor", bits=64, uniform=True),
    "scale_d": Operand("scale_d", "predicate", uniform=True),
    "imm_scale_a": Operand("imm_scale_a", "immediate", choices=_SIGNS, uniform=True),
    "imm_scale_b": Operand("imm_scale_b", "immediate", choices=_SIGNS, uniform=True),
    "imm_trans_a": Operand("imm_trans_a", "immediate", choices=_MAJORS, uniform=True),
    "imm_trans_b": Operand("imm_trans_b", "immediate", choices=_MAJORS, uniform=True),
    "addresses": Operand("addresses", "address"),
    "pointer": Operand("pointer", "pointer", bits=64, uniform=True),
    "stride": Operand("stride", "stride", uniform=True),
    "N": Operand("N", "immediate", uniform=True),
    # ---- values of a lane: how many registers, and of how many bits, VALUES says
    "d_value": Operand("d", "value"),
    "d_answer": Operand("d", "value"),
    "d_num": Operand("d", "value", later=True, about="registers of each lane"),
    "a_num": Operand("a", "value", about="registers of each lane"),
    "a_value": Operand("a", "value"),
    "b_value": Operand("b", "value"),
    "c_value": Operand("c", "value"),
    "predicate": Operand("predicate", "predicate", bits=1),
    "predicate_out": Operand("p", "predicate", bits=1),
    "membermask": Operand("membermask", "membermask", registers=1, uniform=True),
    # ---- memory
    "address": Operand("address", "address", bits=64),
    "destination": Operand("destination", "address", bits=64),
    "source": Operand("source", "address", bits=64),
    "size": Operand("size", "value", registers=1),
    "src_size": Operand("src_size", "value", registers=1),
    "tensor_map": Operand("tensor_map", "tensor map", bits=64, uniform=True),
    "coordinates": Operand("coordinates", "coordinates", uniform=True),
    "cache_policy": Operand("cache_policy", "value", registers=1, bits=64),
    # ---- barriers
    "barrier": Operand("barrier", "value", registers=1, uniform=True),
    "threads": Operand("threads", "value", registers=1, uniform=True),
    "mbarrier": Operand("mbarrier", "address", bits=64),
    "count": Operand("count", "value", registers=1),
    "tx_count": Operand("tx_count", "value", registers=1),
    "state": Operand("state", "value", registers=1, bits=64),
    "parity": Operand("parity", "value", registers=1),
    "suspend_hint": Operand("suspend_hint", "value", registers=1),
    # ---- the rest
    "duration": Operand("duration", "value", registers=1),
    "register_count": Operand("count", "immediate", uniform=True),
    "cta_mask": Operand("cta_mask", "value", registers=1, bits=16, uniform=True),
    "cta": Operand("cta", "value", registers=1),
    "byte_mask": Operand("byte_mask", "value", registers=1, bits=16, uniform=True),
    "offsets": Operand("offsets", "coordinates", uniform=True),
    "ordinal": Operand("ordinal", "immediate", uniform=True),
    "new_value": Operand("value", "value", registers=1, bits=64),
}
#: Roles that are registers but not a matrix; the opcode gives their number and bits.
VALUES: dict[str, Callable[[Instruction], tuple[int, int]]] = {
    "d_value": lambda instruction: elements_of(instruction).held,
    "a_value": lambda instruction: elements_of(instruction).held,
    "b_value": lambda instruction: elements_of(instruction).held,
    "c_value": lambda instruction: elements_of(instruction).held,
    "d_num": lambda instruction: (tensor_registers(instruction), 32),
    "a_num": lambda instruction: (tensor_registers(instruction), 32),
    "d_answer": lambda instruction: (0, 1) if instruction.facts.answers == "predicate" else (1, 32),
}


def operands_of(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands in PTX's order, the destination first; one that is read and written is listed once."""
    target, _, source = instruction.signature.format_map(instruction.words).partition("=")
    written, read = _present(instruction, target), _present(instruction, source)
    return tuple(
        _operand(instruction, word, "out" if word not in read else "in out" if word in written else "in")
        for word in dict.fromkeys([*written, *read])
    )


def _present(instruction: Instruction, source: str) -> list[str]:
    """The words, without the bracketed ones that do not apply to the instruction.

    Bracketed words apply if the instruction has the fragment, or what precedes the colon: a fact, or .slot for a slot.
    """

    def group(match: re.Match[str]) -> str:
        slot, colon, words = match[1].partition(": ")
        if not colon:
            return slot if set(slot.split()) & set(instruction.fragments) else ""
        present = instruction.words.get(slot[1:]) if slot.startswith(".") else getattr(instruction.facts, slot)
        return words if present else ""

    return re.sub(r"\[(.*?)\]", group, source).split()


def _operand(instruction: Instruction, word: str, direction: Direction) -> Operand:
    name, slash, _ = word.rstrip("?").partition("/")
    how = {"direction": direction, "optional": word.endswith("?"), "described": bool(slash)}
    fragment = instruction.fragments.get(name)
    role = instruction.roles.get(name) or ROLES.get(name)
    if role is not None:
        count, bits = VALUES[name](instruction) if name in VALUES else (role.registers, role.bits)
        kind = "predicate" if bits == 1 else role.kind
        return replace(role, **how, kind=kind, registers=count, bits=bits, fragment=fragment)  # type: ignore[arg-type]
    if fragment is None and instruction.knows_fragments:
        raise TableError(f"{instruction}: no fragment, no row of ROLES and none of the family's roles is called {name}")
    fragment = instruction.fragments[name]  # raises if it is unknown
    bits = fragment.container.register_bits
    return Operand(name, "registers", **how, fragment=fragment, registers=fragment.registers, bits=bits)  # type: ignore[arg-type]
