"""One fused sum in plain Python integers, step by step: what is infinite or NaN, the alignment, the one rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcemu.arithmetic.ieee import CANONICAL_NAN, signed
from tcemu.arithmetic.model import FusedSums
from tcemu.formats import Format, Rounding, Unpacked, round_exact

#: How each result type is rounded by a fused sum (Fasi et al. 2021; silicon).
ROUNDING: dict[str, Rounding] = {"f32": "rz", "f16": "rn"}


@dataclass(frozen=True)
class Term:
    """One term of a fused sum: a product, or the addend (k is None).

    >>> from tcemu.arithmetic import FusedSums, fused_sum
    >>> f16, f32 = tcemu.formats.lookup("f16"), tcemu.formats.lookup("f32")
    >>> two, zero = tcemu.formats.unpack(f16, 0x4000), tcemu.formats.unpack(f32, 0)
    >>> steps = fused_sum(FusedSums(fraction=25, block=None, floor=None), [(0, two, two)], zero, f32)
    >>> steps.terms[0].k, steps.terms[0].exponent, steps.terms[0].cut
    (0, 2, False)
    """

    k: int | None
    #: Exact value: significand * 2^(exponent - point); the significand has the sign.
    significand: int
    exponent: int
    point: int
    #: What is left of it, in units of 2^(largest - fraction), and whether anything was cut off.
    kept: int
    cut: bool


@dataclass(frozen=True)
class FusedSum:
    """A fused sum step by step: terms, the exponent they were aligned to, the exact sum of what was kept, the result.

    >>> from tcemu.arithmetic import FusedSums, fused_sum
    >>> f16, f32 = tcemu.formats.lookup("f16"), tcemu.formats.lookup("f32")
    >>> two, zero = tcemu.formats.unpack(f16, 0x4000), tcemu.formats.unpack(f32, 0)
    >>> steps = fused_sum(FusedSums(fraction=25, block=None, floor=None), [(0, two, two)], zero, f32)
    >>> steps.total * 2.0 ** (steps.largest - steps.fraction)  # the exact sum of what was kept
    4.0
    """

    terms: tuple[Term, ...]
    largest: int
    fraction: int
    total: int
    #: The pattern of the result.
    result: int
    #: "" for an ordinary sum, else why the result is infinite or NaN.
    special: str = ""


def fused_sum(
    model: FusedSums, products: Sequence[tuple[int, Unpacked, Unpacked]], addend: Unpacked, result: Format
) -> FusedSum:
    """One fused sum of `products` (k, a, b) and `addend`, rounded to `result`.

    >>> from tcemu.arithmetic import FusedSums, fused_sum
    >>> f16, f32 = tcemu.formats.lookup("f16"), tcemu.formats.lookup("f32")
    >>> two, zero = tcemu.formats.unpack(f16, 0x4000), tcemu.formats.unpack(f32, 0)
    >>> steps = fused_sum(FusedSums(fraction=25, block=None, floor=None), [(0, two, two)], zero, f32)
    >>> hex(steps.result)  # 4.0
    '0x40800000'
    """
    special = special_result(products, addend, result)
    if special:
        return FusedSum((), 0, model.fraction, 0, special[0], special[1])
    parts: list[tuple[int | None, int, int, int]] = [
        (k, signed(a) * signed(b), a.exponent + b.exponent, a.fraction + b.fraction) for k, a, b in products
    ]
    parts.append((None, signed(addend), addend.exponent, addend.fraction))
    # A zero takes no part in the search for the largest exponent, whatever its own exponent field says.
    exponents = [exponent for _, significand, exponent, _ in parts if significand]
    floor = model.floor if model.floor is not None else min(exponents, default=0)
    largest = max([*exponents, floor])
    terms = tuple(aligned(*part, largest, model.fraction) for part in parts)
    total = sum(term.kept for term in terms)
    pattern = round_exact(
        result, total, largest - model.fraction, ROUNDING[result.name], keep=model.keep, overflow="infinity"
    )
    return FusedSum(terms, largest, model.fraction, total, pattern)


def aligned(k: int | None, significand: int, exponent: int, point: int, largest: int, fraction: int) -> Term:
    """Cut a term off, toward zero, `fraction` bits after the binary point of the largest exponent."""
    shift = fraction + exponent - largest - point
    magnitude = abs(significand)
    kept = magnitude << shift if shift >= 0 else magnitude >> -shift
    cut = shift < 0 and kept << -shift != magnitude
    return Term(k, significand, exponent, point, -kept if significand < 0 else kept, cut)


def special_result(
    products: Sequence[tuple[int, Unpacked, Unpacked]], addend: Unpacked, result: Format
) -> tuple[int, str] | None:
    """The result's pattern and the reason if an operand is infinite or NaN, which is decided before any alignment."""
    nan = CANONICAL_NAN[result.name]
    signs = {addend.negative} if addend.kind == "infinity" else set()
    if addend.kind == "nan":
        return nan, "c is NaN"
    for k, a, b in products:
        kinds = {a.kind, b.kind}
        if "nan" in kinds:
            return nan, f"a factor at k = {k} is NaN"
        if "infinity" in kinds:
            if "zero" in kinds:
                return nan, f"infinity times zero at k = {k}"
            signs.add(a.negative != b.negative)
    if len(signs) == 2:
        return nan, "infinities of both signs"
    if not signs:
        return None
    negative = signs.pop()
    return (result.infinity_bits or 0) | (result.sign_bit if negative else 0), "an infinite term"
