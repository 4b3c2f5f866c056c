"""Any sum whose elements are all in a window; `tcemu.kernels.sums.block` has the simple ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcemu.kernels.emit.code import Variable
from tcemu.kernels.emit.lanes import Lanes
from tcemu.kernels.sums import INFINITY
from tcemu.kernels.sums.rounding import SignedSum, to_float16

if TYPE_CHECKING:
    from tcemu.kernels.sums.block import Chain


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
    exponents = [Variable(bits & INFINITY) for bits in chain.accumulators()]

    def raised() -> None:
        for each in exponents:
            own = each.get()
            each.set(own.compare(">", 0).choose(own.larger((127 - 14) << 23), 0))

    chain.code.branch(chain.half, raised)
    return exponents


def _put_toward_zero(chain: Chain, totals: list[SignedSum], powers: list[Lanes], passes: list[Lanes]) -> None:
    """totals * powers as float32 toward zero, into the accumulators, unless they pass."""

    def put(values: list[Lanes]) -> None:
        for running, value, power, passing in zip(chain.running, values, powers, passes, strict=True):
            sums = passing.choose(running.get(), (value * power).bits())
            running.set(sums & chain.mask)

    chain.with_floats(totals, put)


def _put_to_nearest(chain: Chain, totals: list[SignedSum], powers: list[Lanes], passes: list[Lanes]) -> None:
    """totals * powers as float16 to nearest, into the accumulators, unless they pass."""

    def put(values: list[Lanes]) -> None:
        for running, value, power, passing in zip(chain.running, values, powers, passes, strict=True):
            sums = to_float16(value * power) + 0.0  # no sum is -0
            running.set(passing.choose(running.get(), sums.bits()))

    chain.with_floats(totals, put, odd=True)
