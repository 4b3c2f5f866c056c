"""Elements of a format as floats and exponents, sixteen at a time; `tcemu.kernels.sums` explains windows and paths."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.lanes import BYTES, LONG, SIGN, WIDTH, WORDS, Lanes
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import (
    ABSENT,
    CENTRE,
    HIGHEST,
    LOWEST,
    OUTSIDE,
    SMALL,
    SPAN,
    SPECIAL,
)

#: What `survey` finds is in so many bits below the start; one of them says that it has looked at all elements.
PLACES, SEARCHED = 4, 8


class Elements:
    """Patterns of a format, sixteen at a time, while the loop over them is emitted."""

    def __init__(self, code: Code, patterns: Any, form: Any) -> None:
        self.code, self.patterns = code, patterns
        one = code.word(1)
        self.exponent, mantissa, self.bias, padding, nan, self.normalised = (
            code.short(code.load(form, i, LONG, unit=8)) for i in (0, 1, 2, 3, 5, 6)
        )
        magnitudes = one.up(self.exponent + mantissa) - 1
        ieee = one.up(self.exponent + mantissa) - one.up(mantissa)
        self.fraction, self.ieee = mantissa, nan.compare("==", 1)
        # unsigned patterns from this limit on are NaN or infinite
        limit = self.ieee.choose(ieee, nan.compare("==", 2).choose(magnitudes, magnitudes + 1))
        self.fraction_lanes, self.padding, self.magnitudes, self.limit = (
            each.everywhere() for each in (mantissa, padding, magnitudes, limit)
        )

    def codes(self, i: Lanes) -> tuple[Lanes, Lanes]:
        """The patterns of a vector without padding, and also without sign; pruned elements are zero."""
        pattern = self.code.load(self.patterns, i, WORDS, unit=64)
        pattern = pattern.compare("==", -1).choose(self.code.lanes(0), pattern).down(self.padding)
        return pattern, pattern & self.magnitudes


class _Survey(Elements):
    """The search for the start of a window, and for elements that take care."""

    def emit(self, count: Any) -> Any:
        """What `survey` returns."""
        start = Slot((self.code.word(1) - self.bias - self.fraction * self.normalised).up(PLACES))
        self.code.branch(self.exponent.compare(">", SMALL), lambda: start.set(self._searched(count)))
        return self.code.signed(start.get()).value

    def _searched(self, count: Any) -> Lanes:
        code, nothing = self.code, self.code.lanes(0)
        finite_tops, tops, lows = Slot(nothing), Slot(nothing), Slot(self.limit)
        with code.each(count) as i:
            _, magnitude = self.codes(i)
            finite = magnitude.compare(">=", self.limit).choose(nothing, magnitude)
            finite_tops.set(finite.larger(finite_tops.get()))
            tops.set(magnitude.larger(tops.get()))
            # One less than a zero is, unsigned, above everything.
            lows.set((magnitude - 1).smaller(lows.get(), unsigned=True))
        highest = self._power(code.largest(finite_tops.get()))
        start = (highest - SPAN).smaller(HIGHEST // 2).larger(LOWEST // 2)
        lowest = self._power(code.largest(lows.get() ^ -1) ^ -1)
        outside = (lowest - start).compare("<", 0).either((highest - start).compare(">", SPAN))
        special = code.largest(tops.get()) - code.first(self.limit)
        special = special.compare(">=", 0)
        found = special.choose(code.word(SPECIAL), 0) | outside.choose(code.word(OUTSIDE), 0)
        return start.up(PLACES) | found.up(1) | special.either(outside).choose(code.word(1), 0) | SEARCHED

    def _power(self, magnitude: Lanes) -> Lanes:
        """The exponent of a magnitude."""
        return magnitude.down(self.fraction).larger(1) - self.bias


@intrinsic
def survey(typingctx, patterns, form, count):  # type: ignore[no-untyped-def]
    """The start of the window of `count` times 16 patterns, and in the PLACES lowest bits, what `pack` should know.

    That is 1 if it must take care, twice what it will return, and SEARCHED if that has been looked for. A small format
    fits in one window, whatever its elements. For others the window starts as low as the largest element and the
    results allow, so that few elements are outside.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _Survey(vector_code(builder), *args[:2]).emit(args[2])

    return types.int64(types.uint64, types.uint64, types.int64), codegen


class _Pack(Elements):
    """The loops that pack elements: one for finite numbers in the window, one for all."""

    def __init__(self, code: Code, args: Any) -> None:
        patterns, form, count, found, self.value, self.out, self.fourfold = args
        super().__init__(code, patterns, form)
        self.count, self.normal = code.number(count), self.normalised.compare("!=", 0).everywhere()
        found = code.short(code.number(found))
        self.care, first = found & 1, found.signed_down(PLACES)
        hidden = code.word(1).up(self.fraction)
        self.low, self.hidden, self.lowest = (
            each.everywhere() for each in (hidden - 1, hidden, first + self.bias)
        )
        self.sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        self.unit = (code.word(127 - CENTRE) - self.fraction).everywhere()
        self.up = (code.word(23) - self.fraction).everywhere()
        self.base = (code.word(127 - CENTRE) - self.bias - first).up(23).everywhere()

    def emit(self) -> Any:
        """Emit the loops; return what they found, as `pack` does."""
        found = Slot(self.code.lanes(0))
        self.code.branch(self.care, lambda: found.set(self._all()), lambda: found.set(self._finite()))
        return self.code.any_bits(found.get())

    # ---------------------------------------------------------------------------------------- finite, in the window

    def _finite(self) -> Lanes:
        """Pack everything as if it were finite; if it is not, begin again with care."""
        tops, found = Slot(self.code.lanes(0)), Slot(self.code.lanes(0))
        with self.code.each(self.count) as i:
            tops.set(self._simply(i).larger(tops.get()))
        special = self.code.any_set(tops.get().compare(">=", self.limit))
        self.code.branch(special, lambda: found.set(self._all()))
        return found.get()

    def _simply(self, i: Lanes) -> Lanes:
        """Pack one vector; returns the magnitudes."""
        code, (pattern, magnitude) = self.code, self.codes(i)
        # The fields of a format moved to those of float32; a subnormal has the exponent 1 and no hidden bit.
        tiny, one = magnitude.compare("<", self.hidden), 1 << 23
        moved = magnitude.up(self.up) + self.base
        moved = tiny.choose(moved + one, moved)
        x = tiny.choose(moved.floats() - (self.base + one).floats(), moved.floats()).bits()
        field = self.normal.choose(x, moved)
        power = field.down(23) - (127 - CENTRE)
        code.store(x | (pattern.up(self.sign) & SIGN), self.value, i, unit=64)
        self._store_powers(magnitude.compare("==", 0).choose(code.lanes(ABSENT), power), i)
        return magnitude

    def _store_powers(self, power: Lanes, i: Lanes) -> None:
        code = self.code

        def four_times() -> None:
            lanes = [4 * lane for lane in range(WIDTH) for _ in range(4)]
            code.store(power.seen_as(BYTES).shuffled(lanes), self.out, i, unit=64)

        code.branch(self.fourfold, four_times, lambda: code.store(power.bytes(), self.out, i, unit=16))

    # ---------------------------------------------------------------------------------------------- all, with care

    def _all(self) -> Lanes:
        specials, outsides = Slot(self.code.lanes(0)), Slot(self.code.lanes(0))
        with self.code.each(self.count) as i:
            special, outside = self._carefully(i)
            specials.set(special.choose(self.code.lanes(SPECIAL), specials.get()))
            outsides.set(outside.choose(self.code.lanes(OUTSIDE), outsides.get()))
        return specials.get() | outsides.get()

    def _carefully(self, i: Lanes) -> tuple[Lanes, Lanes]:
        """Pack one vector; returns where numbers are not finite, and where they are outside the window."""
        code, (pattern, magnitude) = self.code, self.codes(i)
        field = magnitude.down(self.fraction_lanes)
        hidden = field.compare("==", 0).choose(code.lanes(0), self.hidden)
        power = field.larger(1) - self.lowest
        special = magnitude.compare(">=", self.limit)
        # compared unsigned, what is below the window counts as far above it
        misses = power.compare(">", SPAN, unsigned=True)
        nothing = magnitude.compare("==", 0)
        outside = misses.both(nothing.neither(special)).but_not(self.normal)
        out = special.either(outside).either(nothing)
        x = ((magnitude & self.low) | hidden).converted() * (self.unit + power).up(23).floats()
        power = self.normal.choose(x.bits().down(23) - (127 - CENTRE), power)
        x = x.bits() | (pattern.up(self.sign) & SIGN)
        code.store(out.choose(code.lanes(0), x), self.value, i, unit=64)
        self._store_powers(out.choose(code.lanes(ABSENT), power), i)
        return special, outside


@intrinsic
def pack(typingctx, patterns, form, count, found, value, exponent, fourfold):  # type: ignore[no-untyped-def]
    """Pack `count` times 16 patterns; all but count, found and fourfold are addresses.

    form: the six numbers of a format, and whether subnormals are normalised, as in a wider format. found: what `survey`
    has found. value: float32, scaled by 2^-(start + CENTRE). exponent: bytes relative to `start`; with `fourfold`, each
    four times.

    Returns SPECIAL if any element is NaN or infinite, plus OUTSIDE if any is outside the window; both count as zeros.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _Pack(vector_code(builder), args).emit()

    kinds = [types.uint64] * 2 + [types.int64] * 2 + [types.uint64] * 2 + [types.int64]
    return types.int64(*kinds), codegen
