"""The canonical layouts of a tile in shared memory (PTX ISA 9.1, 9.7.15.5.1.2), built from atoms of 8 lines.

A line is 16 bytes without a swizzle, or as many bytes as the swizzle has. K-major: a line holds consecutive elements
along k, and an atom 8 rows. MN-major: a line holds consecutive elements along mn, and an atom 8 values of k. Atoms
repeat in both directions, at the distances that LBO and SBO give; which of the two belongs to which direction depends
on the layout, and that is the most common mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from tcemu.errors import LayoutError, briefly, did_you_mean, listing, whole
from tcemu.formats import Format, lookup

Major = Literal["K", "MN"]
#: A format, its name, or the bits of an element.
Element = Format | str | int

#: Bytes of a swizzle, indexed by the value of its field.
SWIZZLES = (0, 128, 64, 32)
_BITS = (1, 8, 16, 32)
#: The fields that lead from atom to atom along mn and along k.
_STEPS = {
    ("K", False): ("sbo", "lbo"),
    ("K", True): ("sbo", "lbo"),
    ("MN", False): ("sbo", "lbo"),
    ("MN", True): ("lbo", "sbo"),
}


def element_bits(element: Element) -> int:
    """Bits that an element takes in shared memory: 1, 8, 16 or 32. Raises LayoutError for any other."""
    if isinstance(element, bool) or not isinstance(element, Format | str | int):
        raise LayoutError(f"an element must be a format, its name or its number of bits; got {briefly(element)}")
    form = lookup(element) if isinstance(element, str) else element
    bits = form if isinstance(form, int) else form.container
    if bits not in _BITS:
        got = f"{bits} bits" if isinstance(form, int) else f"{form.name} of {bits} bits"
        raise LayoutError(f"wgmma reads tiles whose elements have {listing(_BITS)} bits; got {got} (PTX ISA 9.7.15.2)")
    return bits


@dataclass(frozen=True)
class Canonical:
    """One canonical layout: bits of an element, the major direction (along which a line runs), the swizzle's bytes.

    Raises LayoutError for a major direction or swizzle that does not exist.
    """

    bits: int
    major: Major = "K"
    swizzle: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.major, str) or self.major not in get_args(Major):
            hint = did_you_mean(str(self.major).upper(), get_args(Major))
            raise LayoutError(f"major must be {listing(get_args(Major))}; got {briefly(self.major)}.{hint}")
        if whole(self.swizzle, "a swizzle", LayoutError) not in SWIZZLES:
            raise LayoutError(f"a swizzle must have {listing(sorted(SWIZZLES))} bytes; got {briefly(self.swizzle)}")
        if self.bits < 8 and self.major == "MN":
            raise LayoutError(
                f"elements of {self.bits} bit are packed along k, eight to a byte: they have no MN-major layout"
            )

    @cached_property
    def size(self) -> int:
        """Bytes of an element; 1 if several share a byte."""
        return max(self.bits // 8, 1)

    @cached_property
    def line(self) -> int:
        """Bytes of a line."""
        return self.swizzle or 16

    @cached_property
    def per_line(self) -> int:
        """Elements of a line."""
        return self.line * 8 // self.bits

    @cached_property
    def atom(self) -> tuple[int, int]:
        """Elements of an atom along mn and along k."""
        return (8, self.per_line) if self.major == "K" else (self.per_line, 8)

    @cached_property
    def atom_bytes(self) -> int:
        """Bytes of an atom, after which the swizzle's pattern repeats: 256, 512 or 1024."""
        return 8 * self.line

    @cached_property
    def steps(self) -> tuple[str, str]:
        """The fields, "lbo" or "sbo", that lead from atom to atom along mn and along k."""
        return _STEPS[self.major, self.swizzle > 0]

    def atoms(self, mn: int, k: int) -> tuple[int, int]:
        """The number of atoms in each direction for a tile of mn by k elements."""
        return -(-mn // self.atom[0]), -(-k // self.atom[1])

    def __str__(self) -> str:
        return f"{self.major}-major, {f'{self.swizzle}-byte swizzle' if self.swizzle else 'no swizzle'}"
