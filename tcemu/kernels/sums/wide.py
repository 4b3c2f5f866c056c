"""Sums whose elements may have any exponents, so that each product is aligned by a power of two of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.emit.code import Variable, vector_code
from tcemu.kernels.emit.lanes import SHORTS, SIGN, WORDS, Lanes
from tcemu.kernels.sums import INFINITY, NOWHERE, ROWS, SPECIAL
from tcemu.kernels.sums.pack import Elements
from tcemu.kernels.sums.rounding import SignedSum, moved_down

if TYPE_CHECKING:
    from tcemu.kernels.sums.block import Chain


def add_sum(chain: Chain, first: Lanes) -> None:
    """A sum whose elements may have any exponents."""
    peaks = [Variable(chain.floors) for _ in range(ROWS // 2)]
    with chain.code.loop(0, chain.depth) as k:
        for so_far, both in zip(peaks, _exponents(chain, first + k), strict=True):
            so_far.set(both.larger(so_far.get()))
    raised, terms, tiny = chain.addends([row for two in peaks for row in _two_rows(two.get())])
    rows = zip(raised[::2], raised[1::2], strict=True)
    fields = [((low + 127 & 0xFFFF) | (high + 127).up(16)).seen_as(SHORTS) for low, high in rows]
    powers: list[Lanes] = []

    def aligned(x: Lanes, y: Lanes, at: Lanes, row: int) -> Lanes:
        """A product of significands times 2^(exponent + raised), toward zero. The first row makes all powers."""
        if row == 0:
            # 2^-100 brings every product below one, but not out of float32's normal range.
            both = [(own + more).larger(127 - 100) for own, more in zip(_exponents(chain, at), fields, strict=True)]
            powers[:] = [each for two in both for each in _two_fields(two)]
        return (x * y * powers[row].floats()).truncated()

    round_sum(chain, chain.halves(first, aligned, terms), raised, tiny)


def round_sum(chain: Chain, totals: list[SignedSum], raised: list[Lanes], tiny: Lanes) -> None:
    """totals * 2^-raised as float32 toward zero, into the accumulators of each row, unless these are not finite.

    tiny: whether some may be subnormal.
    """

    def put(results: list[Lanes]) -> None:
        for running, result in zip(chain.running, results, strict=True):
            bits = running.get()
            running.set((bits & INFINITY).compare("==", INFINITY).choose(bits, result))

    def emit(*, subnormal: bool) -> None:
        def moved(values: list[Lanes]) -> None:
            put([moved_down(x, up, subnormal=subnormal) for x, up in zip(values, raised, strict=True)])

        chain.with_floats(totals, moved)

    chain.code.branch(tiny, lambda: emit(subnormal=True), lambda: emit(subnormal=False))


def _exponents(chain: Chain, at: Lanes) -> list[Lanes]:
    """The exponents of the products for one k: those of two rows in the halves of words."""
    x = chain.operands.shorts_x(at)
    return [x + chain.operands.shorts_y(at, pair) for pair in range(ROWS // 2)]


def _two_rows(shorts: Lanes) -> tuple[Lanes, Lanes]:
    """The lower and the upper halves of words, with their signs."""
    words = shorts.seen_as(WORDS)
    return words.up(16).signed_down(16), words.signed_down(16)


def _two_fields(shorts: Lanes) -> tuple[Lanes, Lanes]:
    """The lower and the upper halves of words, as float32's exponent fields."""
    words = shorts.seen_as(WORDS)
    return words.up(23), words.down(16).up(23)


class _PackWide(Elements):
    """The loop that packs elements with exponents of any size."""

    def emit(self, count: Any, value: Any, exponent: Any, of_x: Any) -> Any:
        """The loop; returns what `pack_wide` does."""
        code, hidden = self.code, self.code.word(1).up(self.fraction)
        low, hidden, bias = ((hidden - 1).everywhere(), hidden.everywhere(), self.bias.everywhere())
        unit = (code.word(127) - self.fraction).up(23).everywhere().floats()
        sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        tops = Variable(code.lanes(0))
        with code.each(count) as i:
            pattern, magnitude = self.codes(i)
            tops.set(magnitude.larger(tops.get()))
            field = magnitude.down(self.fraction_lanes)
            out = magnitude.compare(">=", self.limit).either(magnitude.compare("==", 0))
            x = ((magnitude & low) | field.compare("==", 0).choose(code.lanes(0), hidden)).converted() * unit
            x = x.bits() | (pattern.up(sign) & SIGN)
            code.store(out.choose(code.lanes(0), x), value, i, unit=64)
            power = out.choose(code.lanes(NOWHERE), field.larger(1) - bias)

            def twice(power: Lanes = power, i: Lanes = i) -> None:
                code.store((power & 0xFFFF) | power.up(16), exponent, i, unit=64)

            code.branch(of_x, twice, lambda power=power, i=i: code.store(power.shorts(), exponent, i, unit=32))  # type: ignore[misc]
        some = code.number(code.number_of_any(tops.get().compare(">=", self.limit)))
        return some.compare("!=", 0).choose(code.long(SPECIAL), 0).value


@intrinsic
def pack_wide(typingctx, patterns, form, count, value, exponent, of_x):  # type: ignore[no-untyped-def]
    """Like `pack`: value (signed significands from 1 to 2, float32; less for subnormals) and exponent.

    Exponents have 16 bits: of x, each is in both halves of a word. Returns SPECIAL if any element is NaN or infinite.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _PackWide(vector_code(builder), *args[:2]).emit(*args[2:])

    return types.int64(types.uint64, form, types.int64, *[types.uint64] * 2, types.int64), codegen
