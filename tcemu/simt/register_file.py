"""The register file of a warp: where each register of a function lies, and what its instructions read and write.

The file is one array of bytes. A register of b bits takes 32 lanes x b/8 bytes, side by side, so that native code loads
it as one vector; a predicate is one word with a bit for each lane. Registers that an instruction names together, such
as a fragment, are neighbours, so that one slice takes them all. A register of 128 bits is two of 64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tcemu.assembly import Function, Register, Vector, width

#: Lanes of a warp.
LANES = 32
#: The file begins at a multiple of this, and so does each width of register in it.
ALIGN = 256


class Slot(NamedTuple):
    """A register: the byte of the file where it starts, and its bits; 1 for a predicate."""

    at: int
    bits: int

    @property
    def row(self) -> int:
        """Its number among the registers of its width, counted from the start of the file."""
        return self.at // (4 * self.bits)

    @property
    def bytes(self) -> int:
        """What it takes of the file."""
        return 4 * self.bits


class Constant(NamedTuple):
    """The same number in all lanes."""

    value: int
    bits: int


class Uniform(NamedTuple):
    """Bytes of the kernel's parameters, the same in all lanes."""

    at: int
    bits: int


#: What an instruction reads.
Source: TypeAlias = Slot | Constant | Uniform
#: The widths that registers have, the widest first: so each starts at a multiple of its size.
_WIDTHS = (64, 32, 16, 8, 1)


@dataclass
class Slots:
    """The slots of a function's registers by name; one of 128 bits is the two names NAME.lo and NAME.hi."""

    by_name: dict[str, Slot] = field(default_factory=dict)
    size: int = 0

    @classmethod
    def of(cls, function: Function, more: Iterable[tuple[str, int]] = ()) -> Slots:
        """Those of a function, and `more` with names and bits that its instructions need."""
        by_width: dict[int, list[str]] = {bits: [] for bits in _WIDTHS}
        for name in dict.fromkeys([*_together(function), *function.registers]):
            bits = width(function.registers[name])
            for each in (name,) if bits < 128 else (f"{name}.lo", f"{name}.hi"):
                by_width[min(bits, 64)].append(each)
        for name, bits in more:
            by_width[bits].append(name)
        made = cls()
        for bits, names in by_width.items():
            for name in names:
                made.by_name[name] = Slot(made.size, bits)
                made.size += 4 * bits
            made.size += -made.size % ALIGN
        return made

    def further(self, bits: int = 1) -> Slot:
        """One more register, without a name: a predicate or one of more bits."""
        slot = Slot(self.size + -self.size % (4 * bits), bits)
        self.size = slot.at + slot.bytes
        return slot


def _together(function: Function) -> Iterator[str]:
    """The registers that instructions name in one operand, in that order."""
    seen: set[str] = set()
    for instruction in function.body:
        for operand in instruction.operands:
            if isinstance(operand, Vector):
                names = [each.name for each in operand.items if isinstance(each, Register)]
                if len(names) > 1 and not seen & set(names):
                    seen.update(names)
                    yield from names
