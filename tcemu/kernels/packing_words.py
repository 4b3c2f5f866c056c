"""Elements of a format from words in which they may lie anywhere, as long as all are zeros or numbers in a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.lanes import BYTES, REAL, SIGN, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.packing import Elements
from tcemu.kernels.rooms import Tiles
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import ABSENT, CENTRE, QUIET, SMALL, SPAN

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
        self.tops, self.lows = Slot(code.lanes(0)), Slot(code.lanes(-1))
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
        x, power = Slot(moved + self.base), Slot(double)

        def again() -> None:
            found, exponent = self._with_zeros(moved, double)
            x.set(found)
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
def pack_words(  # type: ignore[no-untyped-def]
    typingctx, tiles, words, step, source, ups, vectors, form, start, few, value, exponent, fourfold,
    bare,
):
    """Like `pack`, for vector v of a tile from words[source[v]] << ups[v], where an element's sign is the topmost bit.

    step: the bytes from a tile's words to the next. few: whether the format has few bits, see `Packer.few_bits`. bare:
    if so, exponents are left out. Returns whether an element is no number, or outside the window from `start` on: not
    0. Nothing is packed then.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, words, step, source, ups, vectors, form, start, few, value, exponent, fourfold, bare = args
        code = vector_code(builder)
        packer, words, vectors = Packer(code, form, start), Tiles(words, code.number(step)), code.number(vectors)

        def each(packed: Callable[[Lanes], PackedVector]) -> None:
            with code.each(vectors) as v:
                picked, up = code.wide(code.load(source, v, WORD, unit=4)), code.load(ups, v, WORDS, unit=64)
                with code.loop(0, code.number(tiles)) as t:
                    found, at = packed(code.load(words.of(t), picked, WORDS, unit=64).up(up)), t * vectors + v
                    code.store(found.value, value, at, unit=64)
                    stored = lambda found=found, at=at: found.exponents().store(exponent, at, fourfold)  # noqa: E731
                    code.branch(bare, lambda: None, stored)

        def each_of_few_bits() -> None:
            each(packer.few_bits)
            packer.tops.set(packer.tops.get().up(1))

        code.branch(few, each_of_few_bits, lambda: each(packer.any_bits_of))
        return packer.misfits().value

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64, types.uint64]
    return types.int64(*kinds, types.int64, types.int64, types.uint64, types.uint64, types.int64, types.int64), codegen
