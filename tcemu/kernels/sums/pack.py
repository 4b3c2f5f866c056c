"""Elements of a format as floats and exponents, sixteen at a time; `tcemu.kernels.sums` explains windows and paths.

`pack` takes any elements, one in each word. `pack_words` takes words in which they may lie anywhere, as long as all are
zeros or numbers in a window. Emitted, because LLVM does not make these vectors of loops: four times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.batch.abi import FORMAT, OPERAND, Fields
from tcemu.kernels.emit.code import Code, Strided, Variable, vector_code
from tcemu.kernels.emit.lanes import BYTES, REAL, SIGN, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.sums import ABSENT, CENTRE, HIGHEST, LOWEST, OUTSIDE, QUIET, SMALL, SPAN, SPECIAL

#: What `survey` finds is in so many bits below the start; one of them says that it has looked at all elements.
PLACES, SEARCHED = 4, 8


class Elements:
    """Patterns of a format, sixteen at a time, while the loop over them is emitted."""

    def __init__(self, code: Code, patterns: Any, form: Any) -> None:
        self.code, self.patterns = code, patterns
        one = code.word(1)
        fields = form if isinstance(form, Fields) else Fields(code, form, FORMAT)
        self.exponent, mantissa, self.bias, padding, nan, self.normalised = (
            code.short(each)
            for each in (fields.exponent, fields.mantissa, fields.bias, fields.padding, fields.nan, fields.normalised)
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
        start = Variable((self.code.word(1) - self.bias - self.fraction * self.normalised).up(PLACES))
        self.code.branch(self.exponent.compare(">", SMALL), lambda: start.set(self._searched(count)))
        return self.code.signed(start.get()).value

    def _searched(self, count: Any) -> Lanes:
        code, nothing = self.code, self.code.lanes(0)
        finite_tops, tops, lows = Variable(nothing), Variable(nothing), Variable(self.limit)
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
        flags = special.choose(code.word(SPECIAL), 0) | outside.choose(code.word(OUTSIDE), 0)
        return start.up(PLACES) | flags.up(1) | special.either(outside).choose(code.word(1), 0) | SEARCHED

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

    return types.int64(types.uint64, form, types.int64), codegen


class _Pack(Elements):
    """The loops that pack elements: one for finite numbers in the window, one for all."""

    def __init__(self, code: Code, args: Any) -> None:
        patterns, form, count, seen, self.value, self.out, self.fourfold = args
        super().__init__(code, patterns, form)
        self.count, self.normal = code.number(count), self.normalised.compare("!=", 0).everywhere()
        seen = code.short(code.number(seen))
        self.care, first = seen & 1, seen.signed_down(PLACES)
        hidden = code.word(1).up(self.fraction)
        self.low, self.hidden, self.lowest = (each.everywhere() for each in (hidden - 1, hidden, first + self.bias))
        self.sign = (code.word(31) - self.exponent - self.fraction).everywhere()
        self.unit = (code.word(127 - CENTRE) - self.fraction).everywhere()
        self.up = (code.word(23) - self.fraction).everywhere()
        self.base = (code.word(127 - CENTRE) - self.bias - first).up(23).everywhere()

    def emit(self) -> Any:
        """Emit the loops; return what they found, as `pack` does."""
        flags = Variable(self.code.lanes(0))
        self.code.branch(self.care, lambda: flags.set(self._all()), lambda: flags.set(self._finite()))
        return self.code.any_bits(flags.get())

    # ---------------------------------------------------------------------------------------- finite, in the window

    def _finite(self) -> Lanes:
        """Pack everything as if it were finite; if it is not, begin again with care."""
        tops, flags = Variable(self.code.lanes(0)), Variable(self.code.lanes(0))
        with self.code.each(self.count) as i:
            tops.set(self._simply(i).larger(tops.get()))
        special = self.code.any_set(tops.get().compare(">=", self.limit))
        self.code.branch(special, lambda: flags.set(self._all()))
        return flags.get()

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
        specials, outsides = Variable(self.code.lanes(0)), Variable(self.code.lanes(0))
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
def pack(typingctx, patterns, form, count, seen, value, exponent, fourfold):  # type: ignore[no-untyped-def]
    """Pack `count` times 16 patterns of a FORMAT; all but count, seen and fourfold are addresses.

    seen: what `survey` has seen. value: float32, scaled by 2^-(start + CENTRE). exponent: bytes relative
    to `start`; with `fourfold`, each four times.

    Returns SPECIAL if any element is NaN or infinite, plus OUTSIDE if any is outside the window; both count as zeros.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _Pack(vector_code(builder), args).emit()

    kinds = [types.uint64, form, *[types.int64] * 2, *[types.uint64] * 2, types.int64]
    return types.int64(*kinds), codegen


#: The topmost byte of each word, four times.
_TOPS = [4 * lane + 3 for lane in range(WIDTH) for _ in range(4)]


class Exponents(NamedTuple):
    """The exponents of a vector: the topmost byte of each word, less a number; with `clipped`, not below ABSENT."""

    code: Code
    words: Lanes
    less: Lanes
    clipped: bool

    def counted(self, tops: Lanes) -> Lanes:
        """Topmost bytes of words as exponents."""
        power = tops - self.code.byte(self.less).everywhere(4 * WIDTH)
        return power.larger(ABSENT) if self.clipped else power

    def store(self, out: Any, at: Lanes, fourfold: Any) -> None:
        """Store them as `pack` does."""

        def four_times() -> None:
            self.code.store(self.counted(self.words.seen_as(BYTES).shuffled(_TOPS)), out, at, unit=64)

        def once() -> None:
            power = self.words.down(24) - self.less.everywhere()
            self.code.store((power.larger(ABSENT) if self.clipped else power).bytes(), out, at, unit=16)

        self.code.branch(fourfold, four_times, once)


def _of_values(code: Code, double: Lanes) -> Exponents:
    """The exponents of packed values, from twice their patterns: only a zero is so low that it is clipped."""
    return Exponents(code, double, code.word(127 - CENTRE), clipped=True)


@intrinsic
def exponents(typingctx, values, count, exponent, fourfold):  # type: ignore[no-untyped-def]
    """What `pack` stores for `count` times 16 values that it has packed, if subnormals are normalised."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        values, count, exponent, fourfold = args
        code = vector_code(builder)
        with code.each(count) as i:
            _of_values(code, code.load(values, i, WORDS, unit=64).up(1)).store(exponent, i, fourfold)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.uint64, types.int64), codegen


class PackedVector(NamedTuple):
    """A vector that is packed: its floats, and code that gives the exponents."""

    value: Lanes
    exponents: Callable[[], Exponents]


class Packer(Elements):
    """Packs vectors of words, in which the sign of an element is the topmost bit; notes what does not fit."""

    def __init__(self, code: Code, form: Any, start: Any) -> None:
        super().__init__(code, None, form)
        bits = code.word(8) - self.exponent
        self.down, self.first = bits.everywhere(), code.short(code.number(start)) + self.bias
        self.kept = ((code.word(1).up(self.exponent + self.fraction) - 1).up(code.word(23) - self.fraction)
                     | SIGN).everywhere()  # fmt: skip
        self.base = (code.word(127 - CENTRE) - self.first).up(23).everywhere()
        self.two, self.hidden = code.lanes(2.0, REAL), (self.base + (1 << 23) | SIGN).floats()
        self.normal = self.normalised.compare("!=", 0).everywhere()
        # The least number whose exponent counts as it is.
        self.floor = self.normal.choose(code.lanes(0), self.base + (1 << 23))
        # The sign makes room for a zero below: everything is twice as large.
        limit = code.first(self.limit).up(code.word(24) - self.fraction)
        most = (self.first + (SPAN + 1)).up(24).smaller(limit, unsigned=True)
        least = self.first.larger(1).up(24)
        self.most, self.least, self.span = (each.everywhere() for each in (most, least, most - least))
        # Subnormal numbers of a small format are in its window, too.
        self.lowest = (self.exponent.compare(">", SMALL).choose(least, code.word(1)) - 1).everywhere()
        self.tops, self.lows = Variable(code.lanes(0)), Variable(code.lanes(-1))
        # Exponents are in the topmost byte, relative to `first`.
        self.powers = (self.first - (127 - CENTRE)).up(24).everywhere()
        self.absent = (self.first + ABSENT).up(24).everywhere()

    def misfits(self) -> Lanes:
        """Whether something did not fit: not 0."""
        above = self.tops.get().compare(">=", self.most, unsigned=True)
        below = self.lows.get().compare("<", self.lowest, unsigned=True)
        return self.code.number(self.code.number_of_any(above.either(below)))

    def few_bits(self, word: Lanes) -> PackedVector:
        """A vector of a format with few bits: zeros and subnormal numbers take no more operations than others.

        No element is below the window. When all vectors are packed, `tops` must be doubled.
        """
        one = 1 << 23
        # Exponent and fraction go to the fields of float32; a subnormal has the exponent 1 and no hidden bit.
        size = word.down(self.down) & (self.kept & QUIET)
        normal = (size + self.base).floats()
        subnormal = normal.exactly_times_plus(self.two, self.hidden)
        x = size.compare("<", one).choose(subnormal, normal).bits()
        self.tops.set(size.larger(self.tops.get(), unsigned=True))

        def exponents() -> Exponents:
            held = size.compare("!=", 0).choose(x.larger(self.floor), self.code.lanes(0))
            return _of_values(self.code, held.up(1))

        return PackedVector(x | (word & SIGN), exponents)

    def any_bits_of(self, word: Lanes) -> PackedVector:
        """A vector as if all its elements were normal numbers, and if they are not, once more."""
        code, moved = self.code, word.signed_down(self.down) & self.kept
        double = moved.up(1)
        x, power = Variable(moved + self.base), Variable(double)

        def again() -> None:
            value, exponent = self._with_zeros(moved, double)
            x.set(value)
            power.set(exponent)

        code.branch(code.any_set((double - self.least).compare(">=", self.span, unsigned=True)), again)
        return PackedVector(x.get(), lambda: Exponents(code, power.get(), self.first, clipped=False))

    def _with_zeros(self, moved: Lanes, double: Lanes) -> tuple[Lanes, Lanes]:
        """The floats of a vector, and the words of its exponents; notes the largest number, and the least."""
        one = 1 << 23
        field = double.down(1) + self.base
        # A subnormal has the exponent 1 and no hidden bit.
        tiny, zero = double.compare("<", 1 << 24, unsigned=True), double.compare("==", 0)
        field = tiny.choose(field + one, field)
        x = tiny.choose((field.floats() - (self.base + one).floats()).bits(), field)
        power = self.normal.choose(x, field).up(1) + self.powers
        self.tops.set(double.larger(self.tops.get(), unsigned=True))
        # One less than a zero is, unsigned, above everything.
        self.lows.set((double - 1).smaller(self.lows.get(), unsigned=True))
        return x | (moved & SIGN), zero.choose(self.absent, power)


@intrinsic
def pack_words(typingctx, tiles, words, step, operand, few, value, exponent, fourfold, bare):  # type: ignore[no-untyped-def]
    """Like `pack`, for vector v of a tile from words[source[v]] << above[v], where an element's sign is on top.

    step: the bytes from a tile's words to the next. operand: OPERAND, which has these tables. few: whether the format
    has few bits, see `Packer.few_bits`. bare: if so, exponents are left out. Returns whether an element is not a
    number, or is outside the window: not 0. Nothing is packed then.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, words, step, operand, few, value, exponent, fourfold, bare = args
        code = vector_code(builder)
        elements = Fields(code, operand, OPERAND)
        packer, words = Packer(code, elements.format, elements.start), Strided(words, code.number(step))
        vectors, source, above = elements.loaded, elements.source.value, elements.above.value

        def each(packed: Callable[[Lanes], PackedVector]) -> None:
            with code.each(vectors) as v:
                picked, up = code.wide(code.load(source, v, WORD, unit=4)), code.load(above, v, WORDS, unit=64)
                with code.loop(0, code.number(tiles)) as t:
                    vector, at = packed(code.load(words.of(t), picked, WORDS, unit=64).up(up)), t * vectors + v
                    code.store(vector.value, value, at, unit=64)
                    stored = lambda vector=vector, at=at: vector.exponents().store(exponent, at, fourfold)  # noqa: E731
                    code.branch(bare, lambda: None, stored)

        def each_of_few_bits() -> None:
            each(packer.few_bits)
            packer.tops.set(packer.tops.get().up(1))

        code.branch(few, each_of_few_bits, lambda: each(packer.any_bits_of))
        return packer.misfits().value

    kinds = [types.int64, types.uint64, types.int64, operand, types.int64, types.uint64, types.uint64]
    return types.int64(*kinds, types.int64, types.int64), codegen
