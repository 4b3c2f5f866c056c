"""Sums of chains that need no special care, with half the operations beside those of the products.

    rule             results are float32; the products of a sum fit in 32 bits, and so does the sum if results are cut
    accumulators     zero, or normal: not below the smallest E of products, and far from overflow

Two cases need no path of their own here. If an accumulator is far above all products, their power of two stops where
they all vanish, and those of the accumulator's 24 bits that results keep pass through the sum without loss. If all
products are zero, E is the smallest E of products, and no accumulator has a bit below 2^(E - F), with F fraction bits,
that results keep: at the start by the condition above, and later because each sum leaves a multiple of 2^(E - F).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tcemu.kernels.lanes import SIGN, Lanes, whole_vectors_of_words
from tcemu.kernels.rounding import Total
from tcemu.kernels.simd import Slot
from tcemu.kernels.sums import INFINITY

if TYPE_CHECKING:
    from tcemu.kernels.blocks import Chain

#: Exponent field of accumulators that are too large: below it, no chain of up to 2^16 sums in the window overflows.
LARGE = 230 << 23


def suits(chain: Chain) -> Lanes:
    """Whether the rule and all accumulators of a block are of this kind."""
    code = chain.code
    sizes = [bits & ~SIGN for bits in chain.accumulators()]
    # A zero is, unsigned, as far above everything as what is too small.
    apart = reduce(lambda one, other: one.larger(other, unsigned=True), (size - chain.least for size in sizes))
    outside = Slot(code.number(code.number_of_any(apart.compare(">", chain.reach, unsigned=True))))

    def look_again() -> None:
        found = [(size - chain.least).compare(">", chain.reach, unsigned=True) for size in sizes]
        found = [each.both(size.compare("!=", 0)) for each, size in zip(found, sizes, strict=True)]
        outside.set(code.number(code.number_of_any(reduce(Lanes.either, found))))

    code.branch(outside.get(), look_again)
    return outside.get().compare("==", 0).both(chain.usual)


def add_sums(chain: Chain) -> None:
    """All sums of the chain of a block, one after the other."""
    chain.code.branch(chain.fits, lambda: _loop(chain, fits=True), lambda: _loop(chain, fits=False))


def _loop(chain: Chain, *, fits: bool) -> None:
    with chain.code.loop(0, chain.sums) as i:
        _sum(chain, i * chain.depth, fits)


def _sum(chain: Chain, first: Lanes, fits: bool) -> None:
    running, peaks = chain.running, chain.spread(chain.largest(first).larger(0) + chain.offset)
    exponents, addends, terms = [], [], []
    for bits, peak in zip(chain.accumulators(), peaks, strict=True):
        e = peak.larger(bits & INFINITY)
        exponents.append(e)
        # All products vanish at 2^1, so it need not be less, where a zero that is packed as NaN would stay: see CENTRE.
        addends.append((chain.top - e).larger(1 << 23))
        terms.append((bits.floats() * (chain.scale - e).floats()).truncated())
    totals = [Slot(term if fits else chain.code.lanes(0)) for term in terms]
    chain.add(totals, first, 0, chain.depth, lambda x, y, _, row: ((x * y).bits() + addends[row]).floats().truncated())
    powers = [(e - chain.unit).floats() for e in exponents]
    parts = [total.get() for total in totals]
    if fits:
        _put(running, [_toward_zero(part) for part in parts], powers)
        chain.code.branch(chain.cuts, lambda: _cut(chain, running))
        return
    wholes = [part + term for part, term in zip(parts, terms, strict=True)]
    # Negative where both signs agree, but not with that of the sum.
    wrapped = [(part ^ whole) & (term ^ whole) for part, term, whole in zip(parts, terms, wholes, strict=True)]

    def by_magnitude() -> None:
        totals = [Total(whole, whole ^ wrong) for whole, wrong in zip(wholes, wrapped, strict=True)]
        _put(running, [total.toward_zero() for total in totals], powers)

    chain.code.branch(
        chain.code.any_set(reduce(or_, wrapped).compare("<", 0)),
        by_magnitude,
        lambda: _put(running, [_toward_zero(whole) for whole in wholes], powers),
    )


def _cut(chain: Chain, running: list[Slot]) -> None:
    for each in running:
        each.set(each.get() & chain.mask)


def _toward_zero(sums: Lanes) -> Lanes:
    if whole_vectors_of_words():
        return sums.converted_toward_zero()
    return Total(sums, sums).toward_zero()


def _put(running: list[Slot], values: list[Lanes], powers: list[Lanes]) -> None:
    for each, value, power in zip(running, values, powers, strict=True):
        each.set((value * power).bits())
