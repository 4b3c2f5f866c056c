"""Sums of chains that need no special care, with half the operations beside those of the products.

    rule             results are float32 with all their bits; each half of the products of a sum fits in 32 bits
    accumulators     zero, or normal: not below the smallest E of products, and far from overflow
    scales           none, or such that the window, moved by them, is one in which `survey` may put a window

Two cases need no path of their own here. If an accumulator is far above all products, their power of two stops where
they all vanish, and the accumulator's 24 bits pass through the sum without loss. If all products are zero, E is the
smallest E of products, and every accumulator is a multiple of 2^(E - F) with F fraction bits: at the start by the
condition above, and later because each sum leaves such a multiple.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from tcemu.kernels.rounding import Total
from tcemu.kernels.simd import SIGN, Lanes, Slot, whole_vectors_of_words
from tcemu.kernels.sums import HIGHEST, INFINITY, LOWEST

#: A sum of this many products always fits in 32 bits, and one of twice as many without its sign.
SAFE = 16

if TYPE_CHECKING:
    from tcemu.kernels.blocks import Chain

#: Exponent fields where a window of products may start.
WINDOWS = (LOWEST + 127, HIGHEST + 127)
#: Exponent field of accumulators that are too large: below it, no chain of up to 2^16 sums in the window overflows.
LARGE = 230 << 23


def suits(chain: Chain, *, scaled: bool) -> Lanes:
    """Whether the rule and all accumulators and scales of a block are of this kind."""
    outside = []
    for bits, scale in zip(chain.accumulators(), chain.scales, strict=True):
        above, reach = (bits & INFINITY) - chain.least, chain.reach
        if scaled:
            moved, (first, last) = scale.get(), WINDOWS
            outside.append((moved + chain.base + (127 - first)).compare(">", last - first, unsigned=True))
            above, reach = above - moved.up(23), reach - moved.up(23)
        small_or_large = above.compare(">", reach, unsigned=True)
        outside.append(small_or_large.both((bits & ~SIGN).compare("!=", 0)))
    any_outside = chain.code.number(chain.code.number_of_any(reduce(Lanes.either, outside)))
    return any_outside.compare("==", 0).both(chain.usual)


def add_sums(chain: Chain, *, scaled: bool) -> None:
    """All sums of the chain, one after the other."""
    code = chain.code
    code.branch(chain.fits, lambda: _loop(chain, scaled, fits=True), lambda: _loop(chain, scaled, fits=False))


def _loop(chain: Chain, scaled: bool, *, fits: bool) -> None:
    with chain.code.loop(0, chain.sums) as i:
        _sum(chain, i * chain.depth, scaled, fits)


def _sum(chain: Chain, first: Lanes, scaled: bool, fits: bool) -> None:
    fields = chain.largest(first).larger(0) + chain.offset
    exponents, addends, terms = [], [], []
    for bits, peak, scale in zip(chain.accumulators(), chain.spread(fields), chain.scales, strict=True):
        moved = scale.get().up(23)
        e = (peak + moved if scaled else peak).larger(bits & INFINITY)
        exponents.append(e)
        addend = chain.top - e + moved if scaled else chain.top - e
        # All products vanish at 2^1, so it need not be less, where a zero that is packed as NaN would stay: see CENTRE.
        addends.append(addend.larger(1 << 23))
        terms.append((bits.floats() * (chain.scale - e).floats()).truncated())
    powers = [(e - chain.unit).floats() for e in exponents]

    def add(into: list[Slot], start: Any, stop: Any) -> None:
        chain.add(into, first, start, stop, lambda x, y, _, row: ((x * y).bits() + addends[row]).floats().truncated())

    totals = [Slot(term if fits else chain.code.lanes(0)) for term in terms]
    if fits:
        add(totals, 0, chain.depth)
        _put(chain, [_toward_zero(total.get()) for total in totals], powers)
        return
    wraps, rests = ([Slot(chain.code.lanes(0)) for _ in terms] for _ in range(2))
    add(totals, 0, chain.many.choose(chain.code.long(SAFE), chain.depth))

    def add_rest() -> None:
        add(rests, SAFE, chain.depth)
        for total, wrap, rest in zip(totals, wraps, rests, strict=True):
            part, whole = total.get(), total.get() + rest.get()
            wrap.set(_wrapped(part, rest.get(), whole))
            total.set(whole)

    chain.code.branch(chain.many, add_rest)
    parts = [total.get() for total in totals]
    wholes = [part + term for part, term in zip(parts, terms, strict=True)]
    # A sum that wraps twice does not wrap.
    wrapped = [
        wrap.get() ^ _wrapped(part, term, whole)
        for wrap, part, term, whole in zip(wraps, parts, terms, wholes, strict=True)
    ]

    def by_magnitude() -> None:
        totals = [Total(whole, whole ^ wrong) for whole, wrong in zip(wholes, wrapped, strict=True)]
        _put(chain, [total.toward_zero() for total in totals], powers)

    chain.code.branch(
        chain.code.any_set(reduce(or_, wrapped).compare("<", 0)),
        by_magnitude,
        lambda: _put(chain, [_toward_zero(whole) for whole in wholes], powers),
    )


def _wrapped(x: Lanes, y: Lanes, whole: Lanes) -> Lanes:
    """Negative where `whole` is not the sum of x and y: where both signs agree, but not with its own."""
    return (x ^ whole) & (y ^ whole)


def _toward_zero(sums: Lanes) -> Lanes:
    if whole_vectors_of_words():
        return sums.converted_toward_zero()
    return Total(sums, sums).toward_zero()


def _put(chain: Chain, values: list[Lanes], powers: list[Lanes]) -> None:
    for running, value, power in zip(chain.running, values, powers, strict=True):
        running.set((value * power).bits())
