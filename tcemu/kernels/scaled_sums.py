"""Sums of blocks whose products have scales, powers of two, as for MX formats; `tcemu.kernels.blocks` has the others.

A scale moves all products of a sum alike. Most sums take the products as on the fast path, and the rest as on the wide
one. A short sum (see `tcemu.kernels.short_sums`) takes one operation for each product:

    the products are added exactly, as floats, before the scale moves them
    the accumulator is moved the other way, cut off where E says, and added, rounded toward zero
    the scale moves the result

No product may be cut off: E must not be so large, because of the accumulator or of a product, that the last bit of the
smallest possible product is below those that are kept. And E must not be below that of the smallest possible product,
as it could be if all products are zero.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from tcemu.kernels.lanes import REAL, SIGN, WORD, WORDS, Lanes
from tcemu.kernels.rounding import added_toward_zero
from tcemu.kernels.rule import SCALE_NAN
from tcemu.kernels.short_sums import BITS, added, is_bounded
from tcemu.kernels.simd import Slot
from tcemu.kernels.sums import CENTRE, INFINITY, QUIET

if TYPE_CHECKING:
    from tcemu.kernels.blocks import Chain

#: Bounds of the powers of two that scale products: outside them, all products are below one, and zeros stay zero.
_LEAST_POWER, _MOST_POWER = 1, 126
#: Short sums take scales from 2^-48 to 2^48. E is at least -34 with formats of so few bits: a subnormal accumulator is
#: cut off whole, even after it has been moved, and all results are in the normal range of float32.
_FAR = 48


def add_scales(chain: Chain, of_x: Any, of_y: Any) -> None:
    """Note the exponents of the scales, for each row."""
    lanes = chain.code.load(of_x, 0, WORDS, unit=64)
    for row, both in enumerate(chain.scales):
        both.set(lanes + chain.code.load(of_y, row, WORD, unit=4).everywhere())


def add_sum(chain: Chain, first: Lanes) -> None:
    """Compute any sum."""
    most = []
    for field, scale in zip(chain.peaks(first), chain.scales, strict=True):
        found = field.down(23) - 127 + scale.get()
        most.append(field.compare("==", 0).choose(chain.floor, found).larger(chain.floor))
    raised, terms, tiny = chain.addends(most)
    # Outside these bounds all products vanish, or are zero.
    powers = (up + scale.get() + chain.base + 2 * CENTRE for up, scale in zip(raised, chain.scales, strict=True))
    addends = [power.larger(_LEAST_POWER).smaller(_MOST_POWER).up(23) for power in powers]
    totals = chain.halves(first, lambda x, y, _, row: ((x * y).bits() + addends[row]).floats().truncated(), terms)
    chain.round_wide(totals, raised, tiny)


def put_nan(chain: Chain) -> None:
    """A NaN scale makes all its results NaN."""
    for running, scale in zip(chain.running, chain.scales, strict=True):
        running.set(scale.get().compare(">", SCALE_NAN // 2).choose(chain.code.lanes(QUIET), running.get()))


def add_short(chain: Chain, below: Lanes) -> Lanes:
    """Compute a chain of a single sum if it is short. Returns 1 if it is not, else 0.

    Instead of specials, there are results of `short_sums.squares`. below: the bits that products may have below the
    start of the window.
    """
    code, left = chain.code, Slot(chain.code.long(1))
    x, y = (code.load(at, 0, REAL, unit=4) for at in (chain.sides.specials_x, chain.sides.specials_y))
    below = code.short(below)

    def try_it() -> None:
        least, reach = (chain.base + 127).up(23), chain.unit - below.up(23).everywhere()
        peaks, exponents, outside = chain.peaks(code.long(0)), [], []
        for bits, peak, scale in zip(chain.accumulators(), peaks, chain.scales, strict=True):
            own = (bits & INFINITY) - scale.get().up(23)
            own = (bits & ~SIGN).compare("==", 0).choose(least, own)
            # Modulo 2^32: an exponent below 0 counts as far above all.
            e = peak.larger(own, unsigned=True)
            exponents.append(e)
            outside.append((e - least).compare(">", reach, unsigned=True))
            outside.append((scale.get() + _FAR).compare(">", 2 * _FAR, unsigned=True))

        def add() -> None:
            _add_short(chain, exponents)
            left.set(code.long(0))

        code.branch(code.number_of_any(reduce(Lanes.either, outside)), lambda: None, add)

    code.branch(is_bounded(x, y, code.word(BITS) - below), try_it)
    return left.get()


def _add_short(chain: Chain, exponents: list[Lanes]) -> None:
    """Compute the sum. exponents: E of each row, in float32's exponent field, before the scale moves it."""
    code = chain.code
    products = added(code, chain.sides, code.long(0), chain.depth)
    for running, scale, e, product in zip(chain.running, chain.scales, exponents, products, strict=True):
        bits, moved = running.get(), scale.get().up(23)
        given = (bits & ~SIGN).compare("==", 0).choose(code.lanes(0), bits - moved)
        term = (given.floats() * (chain.scale - e).floats()).truncated().converted()
        total = added_toward_zero(product * (chain.top + (127 << 23) - e).floats(), term)
        result = (total * (e - chain.unit).floats()).bits()
        running.set(result.compare("==", 0).choose(result, result + moved))
