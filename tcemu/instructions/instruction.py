"""An instruction: one legal opcode with everything the tables know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tcemu.arithmetic import Operation, Row, find
from tcemu.errors import TableError
from tcemu.formats import Format
from tcemu.instructions.targets import Gate, Target
from tcemu.layouts import Fragment


class Shape(NamedTuple):
    """Rows of A and D, columns of B and D, and the products summed for each output."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"


@dataclass(frozen=True)
class Instruction:
    """A legal instruction. Made by tcemu.parse; two with the same opcode are equal."""

    #: The opcode in the documented order of its qualifiers.
    opcode: str
    #: The family's name: "mma".
    family: str
    #: Where the PTX manual describes it.
    section: str
    shape: Shape = field(compare=False)
    #: Number formats of the operands, by role: d, a, b, c.
    types: Mapping[str, Format] = field(compare=False, repr=False)
    #: Who holds what, by role; "q a batch" in front of rows and columns where several products run side by side.
    fragments: Mapping[str, Fragment] = field(compare=False, repr=False)
    #: What it needs of PTX version and target.
    gate: Gate = field(compare=False, repr=False)
    #: Qualifiers that change arithmetic: rounding, satfinite, op.
    qualifiers: tuple[tuple[str, str], ...] = field(compare=False, default=(), repr=False)

    def __post_init__(self) -> None:
        m, n, k = self.shape
        for role, expected in (("d", (m, n)), ("a", (m, k)), ("b", (k, n)), ("c", (m, n))):
            if self.fragments[role].shape[-2:] != expected:
                raise TableError(f"{self.opcode}: {role} is {expected}, its layout describes {self.fragments[role].shape}")

    def arithmetic(self, target: Target) -> Row:
        """The row of the arithmetic table for this instruction on `target`. Raises ArithmeticUnknown."""
        types = {role: form.name for role, form in self.types.items()}
        return find(target.number, self.family, str(self.shape), types["a"], types["b"], types["d"])

    def operation(self, target: Target) -> Operation:
        """What one tile of it computes on `target`."""
        names = {role: form.name for role, form in self.types.items()}
        return Operation(self.arithmetic(target).model, **names, depth=self.shape.k, qualifiers=self.qualifiers)

    @cached_property
    def lanes(self) -> int:
        """Lanes that execute it together."""
        return self.fragments["d"].lanes

    def __str__(self) -> str:
        return self.opcode

    def __repr__(self) -> str:
        registers = ", ".join(f"{role} {self.fragments[role].registers}" for role in "dabc")
        return f"<{self.opcode}: registers a lane {registers}; {self.gate}>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(repr(self))  # type: ignore[attr-defined]
