"""Elements that `tcemu.kernels.packing` leaves out: exponents of any size, and marks for infinities and NaN."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.lanes import LONG, SIGN, WORDS, Lanes
from tcemu.kernels.packing import Elements
from tcemu.kernels.simd import Slot, vector_code
from tcemu.kernels.sums import INFINITY, NOWHERE, QUIET, SPECIAL


class _PackWide(Elements):
    """The loop that packs elements with exponents of any size."""

    def emit(self, count: Any, value: Any, exponent: Any, of_x: Any) -> Any:
        """The loop; returns what `pack_wide` does."""
        code, hidden = self.code, self.code.word(1).up(self.fraction)
        low, hidden, bias = ((hidden - 1).everywhere(), hidden.everywhere(), self.bias.everywhere())
        unit = (code.word(127) - self.fraction).up(23).everywhere().floats()
        sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        tops = Slot(code.lanes(0))
        with code.each(count) as i:
            pattern, magnitude = self.codes(i)
            tops.set(magnitude.larger(tops.get()))
            field = magnitude.down(self.fraction_lanes)
            out = magnitude.compare(">=", self.limit).either(magnitude.compare("==", 0))
            x = ((magnitude & low) | field.compare("==", 0).choose(code.lanes(0), hidden)).converted() * unit
            x = x.bits() | (pattern.up(sign) & SIGN)
            code.store(out.choose(code.lanes(0), x), value, i, unit=64)
            found = out.choose(code.lanes(NOWHERE), field.larger(1) - bias)

            def twice(found: Lanes = found, i: Lanes = i) -> None:
                code.store((found & 0xFFFF) | found.up(16), exponent, i, unit=64)

            code.branch(of_x, twice, lambda found=found, i=i: code.store(found.shorts(), exponent, i, unit=32))  # type: ignore[misc]
        some = code.number(code.number_of_any(tops.get().compare(">=", self.limit)))
        return some.compare("!=", 0).choose(code.long(SPECIAL), 0).value


@intrinsic
def pack_wide(typingctx, patterns, form, count, value, exponent, of_x):  # type: ignore[no-untyped-def]
    """Like `pack`: value (signed significands from 1 to 2, float32; less for subnormals) and exponent.

    Exponents have 16 bits: of x, each is in both halves of a word. Returns SPECIAL if any element is NaN or infinite.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _PackWide(vector_code(builder), *args[:2]).emit(*args[2:])

    return types.int64(*[types.uint64] * 2, types.int64, *[types.uint64] * 2, types.int64), codegen


class _PackSpecial(Elements):
    """The loop that marks infinities and NaN."""

    def emit(self, count: Any, form: Any, value: Any) -> None:
        """The loop."""
        code = self.code
        infinities = code.short(code.load(form, 4, LONG, unit=8)).compare("!=", 0)
        top = code.word(1).up(self.exponent + self.fraction) - code.word(1).up(self.fraction)
        infinite = infinities.choose(top, -1).everywhere()
        sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        with code.each(count) as i:
            pattern, magnitude = self.codes(i)
            size = magnitude.compare("==", 0).choose(code.lanes(0), code.lanes(0x3F800000))
            size = magnitude.compare(">=", self.limit).choose(code.lanes(QUIET), size)
            size = magnitude.compare("==", infinite).choose(code.lanes(INFINITY), size)
            x = size | (pattern.up(sign) & SIGN)
            pruned = code.load(self.patterns, i, WORDS, unit=64).compare("==", -1)
            code.store(pruned.choose(code.lanes(0x40000000), x), value, i, unit=64)


@intrinsic
def pack_special(typingctx, patterns, form, count, value):  # type: ignore[no-untyped-def]
    """Like `pack`: NaN, infinities and zeros as is, +-1 for finite elements, 2 for pruned ones (float32)."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _PackSpecial(vector_code(builder), *args[:2]).emit(args[2], args[1], args[3])
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, types.int64, types.uint64), codegen
