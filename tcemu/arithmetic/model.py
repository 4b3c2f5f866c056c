"""The kinds of arithmetic that tensor-core instructions do. A model is a frozen value; the table has one in each row.

All of them compute one output of D = A B + C from a row of A, a column of B and an element of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tcemu.errors import TableError

#: Place of the addend c in a sequence of partial sums.
ADDEND = -1


@dataclass(frozen=True)
class FusedSums:
    """A chain of fused sums: products and one addend are aligned, cut off, summed exactly and rounded once.

    One fused sum (for its steps see :func:`tcemu.arithmetic.fused.fused_sum`):
      - the exponent of a product is the sum of its factors' exponents, subnormals unnormalised;
      - every term is aligned to the largest exponent E of a non-zero term and cut off, toward zero, `fraction` bits
        behind the binary point of E; E is never below `floor`;
      - the exact sum of what is left is rounded once: toward zero for f32, to nearest even for f16. Zero is +0.
    The result is the addend of the next sum; c is the addend of the first.

    >>> from tcemu.arithmetic import FusedSums
    >>> ampere = FusedSums(fraction=24, block=8, floor=None)
    >>> ampere.sums(16)  # an instruction of 16 products is a chain of two sums
    [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]
    """

    #: Bits kept behind the binary point of the largest exponent.
    fraction: int
    #: Products in one sum; None: all of the instruction's.
    block: int | None
    #: The largest exponent is never taken below this; None: no floor.
    floor: int | None
    #: Fraction bits of the result; None: all bits of the format. Ada's and Hopper's native fp8 units keep 13.
    keep: int | None = None
    #: The order in which k joins the chain. "pairs": first k mod 4 in {0, 1}, the low halves of the registers, then
    #: the rest.
    order: Literal["ascending", "pairs"] = "ascending"
    #: "first": c is the addend of the first sum. "last": the chain starts from +0, and c is added to its result to
    #: nearest.
    addend: Literal["first", "last"] = "first"
    #: Operands are converted to this format first, exactly; an e4m3 subnormal becomes a normal f16.
    through: str | None = None
    #: The chain runs in this format, and its result is converted to the type of D, to nearest even. None: it runs in
    #: the type of D.
    via: str | None = None
    #: Whether a c of another type is converted to the type of the sums first, which makes an f16 subnormal normal. Else
    #: the first sum takes it as it is, and its subnormals keep the exponent of their own type.
    widen: bool = True

    def __post_init__(self) -> None:
        if self.addend == "last" and not self.widen:
            raise TableError("an addend that is added last is a separate operand, in the type of the result")
        if self.block is not None and self.block < 1:
            raise TableError(f"a fused sum of {self.block} products")

    def sums(self, depth: int) -> list[list[int]]:
        """The k of each sum of the chain, for an instruction of `depth` products."""
        ks = list(range(depth))
        if self.order == "pairs":
            ks = [k for k in ks if k % 4 < 2] + [k for k in ks if k % 4 >= 2]
            block = self.block or depth // 2
        else:
            block = self.block or depth
        return [ks[start : start + block] for start in range(0, depth, block)]


@dataclass(frozen=True)
class FmaGroups:
    """Fused multiply-adds in f32 on the ordinary cores: each group of k a chain, then the groups and c added in order.

    Every operation rounds to nearest even; the last result is converted to the type of D, to nearest even.

    >>> mma = tcemu.parse("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32")
    >>> mma.arithmetic(tcemu.instructions.target_named("sm_90")).model  # Hopper has no tensor cores for it
    FmaGroups(groups=((0, 1, 2, 3),), order=(0, -1), from_zero=True)
    """

    #: The k of each chain.
    groups: tuple[tuple[int, ...], ...]
    #: What is added, in this order: indices of `groups`, and ADDEND for c.
    order: tuple[int, ...]
    #: Whether a chain starts from +0; else from its first product, whose sign of zero then stays.
    from_zero: bool

    def __post_init__(self) -> None:
        if sorted(self.order) != sorted([ADDEND, *range(len(self.groups))]):
            raise TableError("every group and the addend are added exactly once")

    @property
    def added_to_c(self) -> tuple[tuple[int, ...], ...] | None:
        """The k of each chain, in the order in which they are added to c; None if two are added before c is."""
        if ADDEND not in self.order[:2]:
            return None
        return tuple(self.groups[group] for group in self.order if group != ADDEND)


@dataclass(frozen=True)
class FmaChain:
    """f64: c, then a fused multiply-add for each ascending k, in the rounding of the instruction (IEEE binary64).

    A NaN operand is returned with its quiet bit set; b's NaN wins over the sum's, and the sum's over a's. An invalid
    operation gives 0xFFF8000000000000.

    >>> mma = tcemu.parse("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64")
    >>> mma.arithmetic(tcemu.instructions.target_named("sm_80")).model
    FmaChain()
    """


@dataclass(frozen=True)
class IntegerDot:
    """The exact integer sum of products and c; it wraps to 32 bits, or with .satfinite is clamped once at the end.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
    >>> mma.arithmetic(tcemu.instructions.target_named("sm_80")).model
    IntegerDot()
    """


@dataclass(frozen=True)
class BitDot:
    """The number of ones in a xor b, or a and b, added to c; it wraps to 32 bits.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc")
    >>> type(mma.arithmetic(tcemu.instructions.target_named("sm_80")).model).__name__
    'BitDot'
    """


@dataclass(frozen=True)
class ScaledSums:
    """Fused sums of products with the scales of their block of k: the scales' exponents add to those of the products.

    `group` products, which share their scales, are added exactly before they become one term; the term's exponent is
    then that of the two scales alone, whatever the size of the sum. It counts in the search for the largest exponent
    even if the products cancel, but not if every product or a scale is zero. Results are f32, rounded toward zero.

    >>> opcode = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    >>> tcemu.parse(opcode).arithmetic(tcemu.instructions.target_named("sm_120a")).model.group
    16
    """

    fraction: int
    #: Products of one sum; None: all of the instruction's.
    block: int | None
    group: int
    floor: int | None


Model: TypeAlias = FusedSums | FmaGroups | FmaChain | IntegerDot | BitDot | ScaledSums
