"""Sums whose elements are all in a window; most of them are usual: with half the overhead.

    rule             results are float32; the products of a sum fit in 32 bits, and so does the sum if results are cut
    accumulators     zero, or normal: not below the smallest E of products, and far from overflow

Two cases need no path of their own there. If an accumulator is far above all products, their power of two stops where
they all vanish, and those of the accumulator's 24 bits that results keep pass through the sum without loss. If all
products are zero, E is the smallest E of products, and no accumulator has a bit below 2^(E - F), with F fraction bits,
that results keep: at the start by the condition above, and later because each sum leaves a multiple of 2^(E - F).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tcemu.kernels.emit.code import Variable
from tcemu.kernels.emit.lanes import SIGN, Lanes, whole_vectors_of_words
from tcemu.kernels.sums import INFINITY
from tcemu.kernels.sums.rounding import SignedSum, to_float16

if TYPE_CHECKING:
    from tcemu.kernels.sums.block import Chain


#: Exponent field of accumulators that are too large: below it, no chain of up to 2^16 sums in the window overflows.
LARGE = 230 << 23


def suits(chain: Chain) -> Lanes:
    """Whether the rule and all accumulators of a block are of this kind."""
    code = chain.code
    sizes = [bits & ~SIGN for bits in chain.accumulators()]
    # A zero is, unsigned, as far above everything as what is too small.
    apart = reduce(lambda one, other: one.larger(other, unsigned=True), (size - chain.least for size in sizes))
    outside = Variable(code.number(code.number_of_any(apart.compare(">", chain.reach, unsigned=True))))

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
        _usual_sum(chain, i * chain.depth, fits)


def _usual_sum(chain: Chain, first: Lanes, fits: bool) -> None:
    running, peaks = chain.running, chain.spread(chain.largest(first).larger(0) + chain.offset)
    exponents, addends, terms = [], [], []
    for bits, peak in zip(chain.accumulators(), peaks, strict=True):
        e = peak.larger(bits & INFINITY)
        exponents.append(e)
        # All products vanish at 2^1, so it need not be less, where a zero that is packed as NaN would stay: see CENTRE.
        addends.append((chain.top - e).larger(1 << 23))
        terms.append((bits.floats() * (chain.scale - e).floats()).truncated())
    totals = [Variable(term if fits else chain.code.lanes(0)) for term in terms]
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
        totals = [SignedSum(whole, whole ^ wrong) for whole, wrong in zip(wholes, wrapped, strict=True)]
        _put(running, [total.toward_zero() for total in totals], powers)

    chain.code.branch(
        chain.code.any_set(reduce(or_, wrapped).compare("<", 0)),
        by_magnitude,
        lambda: _put(running, [_toward_zero(whole) for whole in wholes], powers),
    )


def _cut(chain: Chain, running: list[Variable]) -> None:
    for each in running:
        each.set(each.get() & chain.mask)


def _toward_zero(sums: Lanes) -> Lanes:
    if whole_vectors_of_words():
        return sums.converted_toward_zero()
    return SignedSum(sums, sums).toward_zero()


def _put(running: list[Variable], values: list[Lanes], powers: list[Lanes]) -> None:
    for each, value, power in zip(running, values, powers, strict=True):
        each.set((value * power).bits())


def add_sum(chain: Chain, first: Lanes) -> None:
    """Any sum on the fast path."""
    peaks = chain.peaks(first)
    exponents, addends, terms = [], [], []
    for bits, peak, own in zip(chain.accumulators(), peaks, _own_exponents(chain), strict=True):
        # A subnormal is below everything that is kept beside a product, and slow on the processor.
        held = (bits & INFINITY).compare(">", 0).choose(bits, 0).floats()
        e = peak.larger(chain.least).larger(own.get())
        exponents.append(e)
        addends.append(chain.top - e)
        terms.append((held * (chain.scale - e).floats()).truncated())
    totals = chain.halves(first, lambda x, y, _, row: ((x * y).bits() + addends[row]).floats().truncated(), terms)
    powers = [(e - chain.unit).floats() for e in exponents]
    passes = [(e - peak).compare(">=", chain.far) for e, peak in zip(exponents, peaks, strict=True)]
    chain.code.branch(chain.half, lambda: _put_to_nearest(chain, totals, powers, passes),
                     lambda: _put_toward_zero(chain, totals, powers, passes))  # fmt: skip


def _own_exponents(chain: Chain) -> list[Variable]:
    """The exponents of accumulators: a float16 subnormal has that of the smallest normal number."""
    found = [Variable(bits & INFINITY) for bits in chain.accumulators()]

    def raised() -> None:
        for each in found:
            own = each.get()
            each.set(own.compare(">", 0).choose(own.larger((127 - 14) << 23), 0))

    chain.code.branch(chain.half, raised)
    return found


def _put_toward_zero(chain: Chain, totals: list[SignedSum], powers: list[Lanes], passes: list[Lanes]) -> None:
    """totals * powers as float32 toward zero, into the accumulators, unless they pass."""

    def put(values: list[Lanes]) -> None:
        for running, value, power, passing in zip(chain.running, values, powers, passes, strict=True):
            found = passing.choose(running.get(), (value * power).bits())
            running.set(found & chain.mask)

    chain.with_floats(totals, put)


def _put_to_nearest(chain: Chain, totals: list[SignedSum], powers: list[Lanes], passes: list[Lanes]) -> None:
    """totals * powers as float16 to nearest, into the accumulators, unless they pass."""

    def put(values: list[Lanes]) -> None:
        for running, value, power, passing in zip(chain.running, values, powers, passes, strict=True):
            found = to_float16(value * power) + 0.0  # no sum is -0
            running.set(passing.choose(running.get(), found.bits()))

    chain.with_floats(totals, put, odd=True)
