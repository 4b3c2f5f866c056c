"""Elements of a format as floats and exponents, sixteen at a time; `tcemu.kernels.sums` explains windows and paths."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.simd import BYTES, LONG, SIGN, WIDTH, WORDS, Code, Lanes, Slot, vector_code
from tcemu.kernels.sums import (
    ABSENT,
    CENTRE,
    HIGHEST,
    INFINITY,
    LOWEST,
    NOWHERE,
    OUTSIDE,
    QUIET,
    SPAN,
    SPECIAL,
)


class _Elements:
    """Patterns of a format, sixteen at a time, while the loop over them is emitted."""

    def __init__(self, code: Code, patterns: Any, form: Any) -> None:
        self.code, self.patterns = code, patterns
        one = code.word(1)
        self.exponent, mantissa, self.bias, padding, nan, self.normalised = (
            code.short(code.load(form, i, LONG, unit=8)) for i in (0, 1, 2, 3, 5, 6)
        )
        magnitudes = one.up(self.exponent + mantissa) - 1
        ieee = one.up(self.exponent + mantissa) - one.up(mantissa)
        # unsigned patterns from this limit on are NaN or infinite
        limit = nan.compare("==", 1).choose(ieee, nan.compare("==", 2).choose(magnitudes, magnitudes + 1))
        self.fraction = mantissa
        self.mantissa, self.padding, self.magnitudes, self.limit = (
            each.everywhere() for each in (mantissa, padding, magnitudes, limit)
        )

    def codes(self, i: Lanes) -> tuple[Lanes, Lanes]:
        """The patterns of a vector without padding, and also without sign; pruned elements are zero."""
        pattern = self.code.load(self.patterns, i, WORDS, unit=64)
        pattern = pattern.compare("==", -1).choose(self.code.lanes(0), pattern).down(self.padding)
        return pattern, pattern & self.magnitudes


class _Window(_Elements):
    """The search for the start of a window."""

    def emit(self, count: Any) -> Any:
        """The start, in 64 bits."""
        code, tops = self.code, Slot(self.code.lanes(0))
        start = Slot(code.word(1) - self.bias - self.fraction * self.normalised)

        def search() -> None:
            with code.loop(0, code.number(count)) as i:
                _, magnitude = self.codes(i)
                finite = magnitude.compare(">=", self.limit).choose(code.lanes(0), magnitude)
                tops.set(finite.larger(tops.get()))
            highest = code.largest(tops.get()).down(self.fraction).larger(1) - self.bias
            start.set((highest - SPAN).smaller(HIGHEST // 2).larger(LOWEST // 2))

        code.branch(self.exponent.compare(">", 5), search)
        return code.signed(start.get()).value


@intrinsic
def window(typingctx, patterns, form, count):  # type: ignore[no-untyped-def]
    """Where the window of `count` times 16 patterns starts; see `pack`.

    A small format fits in one window, whatever its elements. For others the window starts as low as the largest element
    and the results allow, so that few elements are outside.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _Window(vector_code(builder), *args[:2]).emit(args[2])

    return types.int64(types.uint64, types.uint64, types.int64), codegen


class _Pack(_Elements):
    """The loop that packs elements."""

    def __init__(self, code: Code, args: Any) -> None:
        patterns, form, count, start, self.value, self.out, self.fourfold = args
        super().__init__(code, patterns, form)
        self.count, self.normal = code.number(count), self.normalised.compare("!=", 0).everywhere()
        hidden, first = code.word(1).up(self.fraction), code.short(code.number(start))
        self.low, self.hidden, self.lowest = (
            each.everywhere() for each in (hidden - 1, hidden, first + self.bias)
        )
        self.sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        self.unit = (code.word(127 - CENTRE) - self.fraction).everywhere()

    def emit(self) -> Any:
        """Emit the loop; return what it found, as `pack` does."""
        specials, outsides = Slot(self.code.lanes(0)), Slot(self.code.lanes(0))
        with self.code.loop(0, self.count) as i:
            special, outside = self._vector(i)
            specials.set(special.choose(self.code.lanes(SPECIAL), specials.get()))
            outsides.set(outside.choose(self.code.lanes(OUTSIDE), outsides.get()))
        found = specials.get() | outsides.get()
        return self.code.any_bits(found)

    def _vector(self, i: Lanes) -> tuple[Lanes, Lanes]:
        code, (pattern, magnitude) = self.code, self.codes(i)
        field = magnitude.down(self.mantissa)
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
        power = out.choose(code.lanes(ABSENT), power)

        def four_times() -> None:
            lanes = [4 * lane for lane in range(WIDTH) for _ in range(4)]
            code.store(power.seen_as(BYTES).shuffled(lanes), self.out, i, unit=64)

        code.branch(self.fourfold, four_times, lambda: code.store(power.bytes(), self.out, i, unit=16))
        return special, outside


@intrinsic
def pack(typingctx, patterns, form, count, start, value, exponent, fourfold):  # type: ignore[no-untyped-def]
    """Pack `count` times 16 patterns; all but count, start and fourfold are addresses.

    form: the six numbers of a format, and whether subnormals are normalised, as in a wider format. value: float32,
    scaled by 2^-(start + CENTRE). exponent: bytes relative to `start`; with `fourfold`, each four times.

    Returns SPECIAL if any element is NaN or infinite, plus OUTSIDE if any is outside the window; both count as zeros.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _Pack(vector_code(builder), args).emit()

    kinds = [types.uint64] * 2 + [types.int64] * 2 + [types.uint64] * 2 + [types.int64]
    return types.int64(*kinds), codegen


class _PackWide(_Elements):
    """The loop that packs elements with exponents of any size."""

    def emit(self, count: Any, value: Any, exponent: Any) -> None:
        """The loop."""
        code, hidden = self.code, self.code.word(1).up(self.fraction)
        low, hidden, bias = ((hidden - 1).everywhere(), hidden.everywhere(), self.bias.everywhere())
        unit = (code.word(127) - self.fraction).up(23).everywhere().floats()
        sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        with code.loop(0, code.number(count)) as i:
            pattern, magnitude = self.codes(i)
            field = magnitude.down(self.mantissa)
            out = magnitude.compare(">=", self.limit).either(magnitude.compare("==", 0))
            x = ((magnitude & low) | field.compare("==", 0).choose(code.lanes(0), hidden)).converted() * unit
            x = x.bits() | (pattern.up(sign) & SIGN)
            code.store(out.choose(code.lanes(0), x), value, i, unit=64)
            code.store(out.choose(code.lanes(NOWHERE), field.larger(1) - bias), exponent, i, unit=64)


@intrinsic
def pack_wide(typingctx, patterns, form, count, value, exponent):  # type: ignore[no-untyped-def]
    """Like `pack`: value (signed significands from 1 to 2, float32; less for subnormals) and exponent (int32)."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _PackWide(vector_code(builder), *args[:2]).emit(*args[2:])
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, types.int64, types.uint64, types.uint64), codegen


class _PackSpecial(_Elements):
    """The loop that marks infinities and NaN."""

    def emit(self, count: Any, form: Any, value: Any) -> None:
        """The loop."""
        code = self.code
        infinities = code.short(code.load(form, 4, LONG, unit=8)).compare("!=", 0)
        top = code.word(1).up(self.exponent + self.fraction) - code.word(1).up(self.fraction)
        infinite = infinities.choose(top, -1).everywhere()
        sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        with code.loop(0, code.number(count)) as i:
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
