"""An instruction: one legal opcode and everything that the tables say about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tcemu.arguments import explained
from tcemu.arithmetic import Operation, Row, find
from tcemu.errors import ArithmeticUnknown, IllegalInstruction, Named, OperandError, TableError, briefly
from tcemu.formats import Format
from tcemu.instructions.facts import Facts
from tcemu.instructions.operand import Operand, operands_of
from tcemu.instructions.targets import Gate, Target, target_named
from tcemu.layouts import Fragment

Fragments = Mapping[str, Fragment]


def placed(error: OperandError, instruction: Instruction) -> OperandError:
    """The error about an operand, with the instruction and the manual's section added if the message lacks them."""
    message, opcode = str(error), instruction.opcode
    if opcode in message and "PTX ISA" in message:
        return error
    said = message if opcode in message else f"{opcode}: {message}"
    return OperandError(said if "PTX ISA" in message else f"{said} (PTX ISA {instruction.section})")


class NamedFragments(Named[Fragment]):
    """The fragments of an instruction, by role."""

    if TYPE_CHECKING:  # what completion reads: it does not look up a key of a class that it does not know

        def __getitem__(self, role: str) -> Fragment: ...


class NamedFormats(Named[Format]):
    """The number formats of an instruction's operands, by role."""

    if TYPE_CHECKING:  # as above

        def __getitem__(self, role: str) -> Format: ...


class UnknownFragments(dict[str, Fragment]):
    """No fragments, because the chip's layouts have not been published. Looking one up raises ArithmeticUnknown."""

    def __init__(self, opcode: str, target: Target) -> None:
        super().__init__()
        self._message = f"{opcode} is legal on {target}, but that chip's fragment layouts have not been published"

    def __missing__(self, role: str) -> Fragment:
        raise ArithmeticUnknown(self._message)


_SIZES = re.compile(r"m([0-9]+)n([0-9]+)(?:k([0-9]+))?")


class Shape(NamedTuple):
    """m rows of A and D, n columns of B and D, and k products summed for each output.

    k is 0 for a single matrix; all three are 0 for an instruction without one.

    >>> tcemu.instructions.Shape.read("m16n8k16")
    Shape(m=16, n=8, k=16)
    >>> str(tcemu.instructions.Shape(8, 8))
    'm8n8'
    """

    m: int = 0
    n: int = 0
    k: int = 0

    @staticmethod
    def read(word: str) -> Shape:
        """The shape that "m16n8k16" or "m8n8" spells. Raises IllegalInstruction."""
        sizes = _SIZES.fullmatch(word) if isinstance(word, str) else None
        if not sizes:
            raise IllegalInstruction(f"a shape must be spelt as in an opcode, e.g. 'm16n8k16'; got {briefly(word)}")
        return Shape(*(int(number) for number in sizes.groups() if number))

    def __str__(self) -> str:
        return "".join(f"{name}{size}" for name, size in zip("mnk", self, strict=True) if size)


@dataclass(frozen=True)
class Instruction:
    """A legal instruction. Made by tcemu.parse; two with the same opcode are equal.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> mma.shape, mma.section, str(mma.gate)
    (Shape(m=16, n=8, k=16), '9.7.14.5.14', 'PTX 7.0, sm_80 or later')
    >>> {role: (fragment.shape, fragment.registers) for role, fragment in mma.fragments.items()}
    {'d': ((16, 8), 4), 'a': ((16, 16), 4), 'b': ((16, 8), 2), 'c': ((16, 8), 4)}
    >>> chip = tcemu.instructions.target_named("sm_80")
    >>> mma.arithmetic(chip).known, mma.operation(chip).depth  # how it is known; products in one output
    ('published silicon', 16)
    >>> mma.on(chip) == mma
    True
    """

    #: The opcode in the documented order of its qualifiers.
    opcode: str
    #: The family's name: "mma".
    family: str
    #: Where the PTX manual describes it.
    section: str
    shape: Shape = field(compare=False)
    #: The PTX version and target that it needs.
    gate: Gate = field(compare=False, repr=False)
    #: Number formats of the operands, by role: d, a, b, c.
    types: Mapping[str, Format] = field(compare=False, repr=False)
    #: Which lane holds what, by role; with several matrices side by side, a batch axis precedes rows and columns.
    fragments: Fragments = field(compare=False, repr=False)
    #: The word in each slot of the opcode.
    words: Mapping[str, str] = field(compare=False, repr=False, default_factory=dict)
    #: What else the family's row says about it.
    facts: Facts = field(compare=False, repr=False, default_factory=Facts)
    #: Fields that differ on some chips; None if the fragments of the chip are unknown.
    elsewhere: tuple[tuple[frozenset[int], Mapping[str, Any] | None], ...] = field(
        compare=False, repr=False, default=()
    )
    #: The operands in PTX's order, as text; `operands` has the records.
    signature: str = field(compare=False, repr=False, default="=")
    #: Roles of operands that no other family has, by their word in the signature.
    roles: Mapping[str, Operand] = field(compare=False, repr=False, default_factory=dict)
    #: Whether all lanes of the warp must execute it together.
    aligned: bool = field(compare=False, repr=False, default=False)
    #: Whether the lanes that execute it wait for each other.
    sync: bool = field(compare=False, repr=False, default=False)
    #: Whether it may change anything besides the destination.
    changes: bool = field(compare=False, repr=False, default=True)
    #: Why the machine does not execute it; empty if it does.
    unsupported: str = field(compare=False, repr=False, default="")

    def __post_init__(self) -> None:
        for name, what, kind in (
            ("fragments", "fragment", NamedFragments),
            ("types", "typed operand", NamedFormats),
        ):
            if type(getattr(self, name)) is dict:
                object.__setattr__(self, name, kind(f"{what} of {self.opcode}", getattr(self, name)))
        m, n, k = self.shape
        sizes = {"d": (m, n), "a": (m, self.facts.stored or k), "b": (k, n), "c": (m, n)}
        for role, fragment in self.fragments.items():
            if k and role in sizes and fragment.shape[-2:] != sizes[role]:
                raise TableError(f"{self.opcode}: {role} is {sizes[role]}, but its layout describes {fragment.shape}")

    def __hash__(self) -> int:
        return hash(self.opcode)  # hashing three fields takes three times as long, and kernels look up each instruction

    def on(self, target: Target) -> Instruction:
        """The instruction as it is on `target`'s chip. If its fragments are unknown there, looking one up raises."""
        for architectures, known in self.elsewhere:
            if target.number in architectures:
                changes = {"fragments": UnknownFragments(self.opcode, target)} if known is None else known
                return replace(self, elsewhere=(), **changes)
        return self

    @property
    def qualifiers(self) -> tuple[tuple[str, str], ...]:
        """The words that change arithmetic: rounding, satfinite, op."""
        return tuple((slot, self.words[slot]) for slot in ("rounding", "satfinite", "op") if slot in self.words)

    @explained
    def arithmetic(self, target: Target | str) -> Row:
        """The row of the arithmetic table for this instruction on `target`. Raises ArithmeticUnknown."""
        target = target_named(target) if isinstance(target, str) else target
        types = {role: form.name for role, form in self.types.items()}
        family = self.facts.computes_as or self.family
        return find(target.number, family, str(self.shape), types["a"], types["b"], types["c"], types["d"])

    def operation(self, target: Target | str) -> Operation:
        """What one tile computes on `target`, over the products that take part."""
        names = {role: self.types[role].name for role in "abcd"}
        depth = self.facts.stored or self.shape.k
        return Operation(
            self.arithmetic(target).model,
            **names,
            depth=depth,
            qualifiers=self.qualifiers,
            scale=self.words.get("stype", ""),
        )

    @cached_property
    def lanes(self) -> int:
        """Lanes that execute it together."""
        # where fragments are unpublished, a warp executes the instruction
        return next((fragment.lanes for fragment in self.fragments.values()), self.facts.lanes)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands in PTX's order, the destination first. Raises ArithmeticUnknown for unknown fragments."""
        return operands_of(self)

    @cached_property
    def sources(self) -> tuple[Operand, ...]:
        """The operands that tcemu.run takes: all except a destination that is only written."""
        return tuple(operand for operand in self.operands if operand.read)

    @cached_property
    def membermask(self) -> bool:
        """Whether an operand says which lanes take part."""
        return any(operand.kind == "membermask" for operand in self.operands)

    @cached_property
    def plans(self) -> dict[Any, Any]:
        """How the kernels execute it, by what is computed; filled in when it is first needed."""
        return {}

    @property
    def knows_fragments(self) -> bool:
        """Whether it is known which lane holds what."""
        return not isinstance(self.fragments, UnknownFragments)

    @property
    def sparse(self) -> bool:
        """Whether only half of A is stored."""
        return self.facts.pattern is not None

    def __str__(self) -> str:
        return self.opcode

    def __repr__(self) -> str:
        counts = {role: fragment.registers for role, fragment in self.fragments.items()}
        if not counts and self.knows_fragments:
            values = (each for each in self.operands if each.kind == "value" and each.role in "dabc")
            counts = {each.role: each.registers for each in values}
        held = ", ".join(f"{role} {count}" for role, count in counts.items())
        none = "no registers" if self.knows_fragments else "registers unknown"
        return f"<{self.opcode}: {f'registers a lane {held}' if held else none}; {self.gate}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))
