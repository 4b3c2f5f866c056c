"""Chains of fused sums for a block of outputs: four rows of sixteen lanes, in explicit vectors.

    sixteen lanes                       elements of x for one k, side by side
    four rows                           elements of y for the same k, each taken by all lanes
    c[row][lane]                        the accumulators, float32 patterns; they stay in registers over the chain

`tcemu.kernels.sums` explains how a sum is computed. The depth, the rule and the path are numbers, so that one compiled
function serves every instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from tcemu.kernels import scaled_sums, specials, usual
from tcemu.kernels.lanes import BYTE, LONG, SHORTS, SIGN, WIDTH, WORDS, Lanes, whole_vectors_of_words
from tcemu.kernels.rounding import Total, clean, converted_to_odd, moved_down, subnormal_term, to_float16
from tcemu.kernels.rule import DEPTH, FLOOR, FRACTION, HALF, JOIN, KEEP, ROWS, RULE, SPACE, SUMS
from tcemu.kernels.simd import Code, Slot
from tcemu.kernels.sums import BOTTOM, CENTRE, INFINITY, QUIET


class Chain:
    """The chain of a block, while it is emitted: what all blocks share first, then the code for one."""

    def __init__(self, code: Code, rule: Any, base: Any) -> None:
        self.code = code
        # Stores could change these numbers, as far as the compiler knows: a block does not load them again.
        numbers = [self.code.load(rule, i, LONG, unit=8) for i in range(RULE)]
        self.depth, self.sums = numbers[DEPTH], numbers[SUMS]
        self.half, self.join, self.space = numbers[HALF], numbers[JOIN], numbers[SPACE]
        self.fits = self.space.compare("==", 0)
        fraction, floor, keep = (self.code.short(numbers[i]) for i in (FRACTION, FLOOR, KEEP))
        self._constants(fraction, floor, keep, self.code.short(self.code.number(base)))

    def emit(
        self, sides: Any, scales: Sequence[Any] = (), *, wide: Any = False, special: Any = False, scaled: Any = False,
        short: Any = False,
    ) -> None:  # fmt: skip
        """One block: all sums, one after the other. A flag may be known when this is emitted.

        sides: where everything is, as in `tcemu.kernels.sides`. scales: addresses of those of x and of y. short: 0, or
        what `nests.blocks` takes to look for short sums.
        """
        self.sides = sides
        self.running = self._begin()
        self.scales = [Slot(self.code.lanes(0)) for _ in range(ROWS)]
        self._if(scaled, lambda: scaled_sums.add_scales(self, *scales))

        def any_sums() -> None:
            self._clean(self.running)
            self._add_sums(wide, special, scaled)
            self.code.branch(self.half, lambda: None, lambda: self._clean(self.running))

        if wide is special is scaled is False:
            self.code.branch(usual.suits(self), lambda: usual.add_sums(self), any_sums)
        else:
            left = Slot(self.code.long(1))
            self._if(short, lambda: left.set(scaled_sums.add_short(self, short - 1)))
            self.code.branch(left.get(), any_sums)
        self.code.branch(self.join, self._join)
        self._if(scaled, lambda: scaled_sums.put_nan(self))
        sides.put(self.accumulators())

    def _begin(self) -> list[Slot]:
        """The accumulators as they are at first, or zeros if the chain is added to them."""
        found = [Slot(each) for each in self.sides.given()]

        def start_from_zero() -> None:
            for running in found:
                running.set(self.code.lanes(0))

        self.code.branch(self.join, start_from_zero)
        return found

    def _clean(self, numbers: list[Slot]) -> None:
        for each in numbers:
            each.set(clean(each.get()))

    def _add_sums(self, wide: Any, special: Any, scaled: Any) -> None:
        with self.code.loop(0, self.sums) as i:
            first = i * self.depth
            marks = [Slot(self.code.lanes(0)) for _ in range(ROWS)]
            self._if(special, lambda: specials.look(self, first, marks))
            self._if(scaled, lambda: scaled_sums.add_sum(self, first), lambda: self._plain_sum(first, wide))
            self._if(special, lambda: specials.put_right(self, marks))

    def _if(self, flag: Any, yes: Callable[[], object], no: Callable[[], object] = lambda: None) -> None:
        if isinstance(flag, bool):
            (yes if flag else no)()
        else:
            self.code.branch(flag, yes, no)

    def _constants(self, fraction: Lanes, floor: Lanes, keep: Lanes, base: Lanes) -> None:
        """What all sums share. Exponents are in float32's exponent field, so that no sum has to shift them."""
        half = self.half.compare("!=", 0)
        start = base + 127  # exponent field of the start of the window of products
        self.offset = self.code.byte(start).everywhere(4 * WIDTH)
        self.least = half.choose((floor + 127).larger(start), start).up(23).everywhere()
        self.top = (fraction + start + 2 * CENTRE).up(23).everywhere()
        # If E is this far above the products' exponents, all products vanish and c passes, even NaN and infinities.
        self.far, self.unit = (fraction + 2).up(23).everywhere(), fraction.up(23).everywhere()
        self.scale = (fraction + 254).up(23).everywhere()
        kept = self.code.word(-1).up(self.code.word(23) - keep)
        self.mask = half.choose(self.code.word(-1), kept).everywhere()
        #: whether results do not keep all bits of a float32
        self.cuts = (keep - 23).compare("!=", 0)
        whole = self.space.compare("<", 2).but_not(self.cuts)
        self.usual = self.half.compare("==", 0).both(whole.either(self.fits))
        self.reach = (self.code.word(usual.LARGE + (1 << 23) - 1) - start.up(23)).everywhere()
        self.base = base.everywhere()
        floor = floor.larger(BOTTOM)
        self.fraction, self.floor = fraction.everywhere(), floor.everywhere()
        self.floors = self.code.halfword(floor).everywhere(2 * WIDTH)

    # ----------------------------------------------------------------------------------------------- the fast path

    def _plain_sum(self, first: Lanes, wide: Any) -> None:
        self._if(wide, lambda: self._wide_sum(first), lambda: self._sum(first))

    def _sum(self, first: Lanes) -> None:
        peaks = self.peaks(first)
        exponents, addends, terms = [], [], []
        for bits, peak, own in zip(self.accumulators(), peaks, self._own_exponents(), strict=True):
            # A subnormal is below everything that is kept beside a product, and slow on the processor.
            held = (bits & INFINITY).compare(">", 0).choose(bits, 0).floats()
            e = peak.larger(self.least).larger(own.get())
            exponents.append(e)
            addends.append(self.top - e)
            terms.append((held * (self.scale - e).floats()).truncated())
        totals = self.halves(first, lambda x, y, _, row: ((x * y).bits() + addends[row]).floats().truncated(), terms)
        powers = [(e - self.unit).floats() for e in exponents]
        passes = [(e - peak).compare(">=", self.far) for e, peak in zip(exponents, peaks, strict=True)]
        self.code.branch(self.half, lambda: self._to_nearest(totals, powers, passes),
                         lambda: self._toward_zero(totals, powers, passes))  # fmt: skip

    def _own_exponents(self) -> list[Slot]:
        """The exponents of accumulators: a float16 subnormal has that of the smallest normal number."""
        found = [Slot(bits & INFINITY) for bits in self.accumulators()]

        def raised() -> None:
            for each in found:
                own = each.get()
                each.set(own.compare(">", 0).choose(own.larger((127 - 14) << 23), 0))

        self.code.branch(self.half, raised)
        return found

    def peaks(self, first: Lanes) -> list[Lanes]:
        """The largest exponent of each row's products, in float32's exponent field; 0 if all products are zero."""
        largest = self.largest(first)
        return self.spread(largest.compare("<", 0).choose(self.code.lanes(0, BYTE, 4 * WIDTH), largest + self.offset))

    def largest(self, first: Lanes) -> Lanes:
        """The largest exponent of each row's products, from the start of the window; negative if all are zero.

        Four bytes in each lane: a lane of x holds the exponent byte of its element four times, once for each row.
        """
        peaks = Slot(self.code.lanes(-128, BYTE, 4 * WIDTH))
        with self.code.loop(0, self.depth) as k:
            peaks.set((self.sides.bytes_x(first + k) + self.sides.bytes_y(first + k)).larger(peaks.get()))
        return peaks.get()

    def spread(self, fields: Lanes) -> list[Lanes]:
        """Bytes of four rows in each lane, moved to float32's exponent field."""
        words = fields.seen_as(WORDS)
        return [(words.up(23 - 8 * row) if row < 3 else words.down(1)) & (255 << 23) for row in range(ROWS)]

    def _toward_zero(self, totals: list[Total], powers: list[Lanes], passes: list[Lanes]) -> None:
        """totals * powers as float32 toward zero, into the accumulators, unless they pass."""

        def put(values: list[Lanes]) -> None:
            for running, value, power, passing in zip(self.running, values, powers, passes, strict=True):
                found = passing.choose(running.get(), (value * power).bits())
                running.set(found & self.mask)

        self._with_floats(totals, put)

    def _with_floats(self, totals: list[Total], put: Callable[[list[Lanes]], None], *, odd: bool = False) -> None:
        """Emit what `put` does with the totals as floats, rounded toward zero, or to `odd`."""

        def by_magnitude() -> None:
            """Also where `whole` is not the sum itself, which is rare."""
            put([total.to_odd() if odd else total.toward_zero() for total in totals])

        if not whole_vectors_of_words():
            by_magnitude()
            return

        def whole() -> None:
            put([converted_to_odd(each) if odd else each.converted_toward_zero() for each in wholes])

        def looked_at() -> None:
            overflows = reduce(or_, (total.overflows for total in totals)).compare("<", 0)
            self.code.branch(self.code.any_set(overflows), by_magnitude, whole)

        wholes = [total.whole for total in totals]
        self.code.branch(self.fits, whole, looked_at)

    def _to_nearest(self, totals: list[Total], powers: list[Lanes], passes: list[Lanes]) -> None:
        """totals * powers as float16 to nearest, into the accumulators, unless they pass."""

        def put(values: list[Lanes]) -> None:
            for running, value, power, passing in zip(self.running, values, powers, passes, strict=True):
                found = to_float16(value * power) + 0.0  # no sum is -0
                running.set(passing.choose(running.get(), found.bits()))

        self._with_floats(totals, put, odd=True)

    # ----------------------------------------------------------------------------------------------- the wide path

    def _wide_sum(self, first: Lanes) -> None:
        peaks = [Slot(self.floors) for _ in range(ROWS // 2)]
        with self.code.loop(0, self.depth) as k:
            for so_far, both in zip(peaks, self._exponents(first + k), strict=True):
                so_far.set(both.larger(so_far.get()))
        raised, terms, tiny = self.addends([row for two in peaks for row in _two_rows(two.get())])
        rows = zip(raised[::2], raised[1::2], strict=True)
        fields = [((low + 127 & 0xFFFF) | (high + 127).up(16)).seen_as(SHORTS) for low, high in rows]
        powers: list[Lanes] = []

        def aligned(x: Lanes, y: Lanes, at: Lanes, row: int) -> Lanes:
            """A product of significands times 2^(exponent + raised), toward zero. The first row makes all powers."""
            if row == 0:
                # 2^-100 brings every product below one, but not out of float32's normal range.
                both = [(own + more).larger(127 - 100) for own, more in zip(self._exponents(at), fields, strict=True)]
                powers[:] = [each for two in both for each in _two_fields(two)]
            return (x * y * powers[row].floats()).truncated()

        self.round_wide(self.halves(first, aligned, terms), raised, tiny)

    def round_wide(self, totals: list[Total], raised: list[Lanes], tiny: Lanes) -> None:
        """totals * 2^-raised as float32 toward zero, into the accumulators of each row, unless these are not finite.

        tiny: whether some may be subnormal.
        """

        def put(results: list[Lanes]) -> None:
            for running, result in zip(self.running, results, strict=True):
                bits = running.get()
                running.set((bits & INFINITY).compare("==", INFINITY).choose(bits, result))

        def emit(*, subnormal: bool) -> None:
            def moved(values: list[Lanes]) -> None:
                put([moved_down(x, up, subnormal=subnormal) for x, up in zip(values, raised, strict=True)])

            self._with_floats(totals, moved)

        self.code.branch(tiny, lambda: emit(subnormal=True), lambda: emit(subnormal=False))

    def _exponents(self, at: Lanes) -> list[Lanes]:
        """The exponents of the products for one k: those of two rows in the halves of words."""
        x = self.sides.shorts_x(at)
        return [x + self.sides.shorts_y(at, pair) for pair in range(ROWS // 2)]

    def addends(self, most: list[Lanes]) -> tuple[list[Lanes], list[Lanes], Lanes]:
        """F - E and the aligned accumulators of each row, for the largest exponents of the products.

        Also whether the last place of some sum is below all normal numbers. Elsewhere a subnormal accumulator vanishes.
        """
        code, raised, terms = self.code, [], []
        for bits, peak in zip(self.accumulators(), most, strict=True):
            field = bits.up(1).down(24)
            own = field.larger(1) - 127
            e = (bits & QUIET).compare("==", 0).choose(peak, peak.larger(own))
            raised.append(self.fraction - e)
            significand = ((bits & (SIGN | 0x7FFFFF)) | 0x3F800000).floats()
            power = (field + raised[-1]).larger(27).up(23).floats()  # below 2^-100, nothing of c stays either
            terms.append(Slot(field.compare("==", 0).choose(code.lanes(0), (significand * power).truncated())))
        lowest = reduce(lambda one, other: one.larger(other), raised)
        tiny = code.number(code.number_of_any(lowest.compare(">", 126)))

        def with_subnormals() -> None:
            for term, bits, up in zip(terms, self.accumulators(), raised, strict=True):
                subnormal = (bits & INFINITY).compare("==", 0)
                term.set(subnormal.choose(subnormal_term(bits, up), term.get()))

        code.branch(tiny, with_subnormals)
        return raised, [term.get() for term in terms], tiny

    # ------------------------------------------------------------------------------------------------ what they share

    def accumulators(self) -> list[Lanes]:
        """The accumulators of each row, as they are now."""
        return [each.get() for each in self.running]

    def halves(self, first: Lanes, term: Any, addends: list[Lanes]) -> list[Total]:
        """The sums of `term` over all k and the addends, for each row."""
        totals = [Slot(self.code.lanes(0)) for _ in range(ROWS)]
        rests = [Slot(self.code.lanes(0)) for _ in range(ROWS)]

        def add(into: list[Slot], start: Any, stop: Any) -> None:
            self.add(into, first, start, stop, term)

        def start() -> None:
            for total, addend in zip(totals, addends, strict=True):
                total.set(addend)

        self.code.branch(self.fits, start)
        many = self.space.compare(">", 1)
        half = self.depth.down(1)
        add(totals, 0, many.choose(half, self.depth))
        signs = [Slot(self.code.lanes(0)) for _ in range(ROWS)]

        def done() -> None:
            for total, sign in zip(totals, signs, strict=True):
                sign.set(total.get())

        def close() -> None:
            for total, sign, addend in zip(totals, signs, addends, strict=True):
                # The products do not overflow. Adding c may, but if both signs agree, that is the sign.
                part, whole = total.get(), total.get() + addend
                sign.set((part & addend) | ((part | addend) & whole))
                total.set(whole)

        def far() -> None:
            add(rests, half, self.depth)
            for total, rest, sign, addend in zip(totals, rests, signs, addends, strict=True):
                whole = total.get() + rest.get() + addend
                near = total.get().converted() + rest.get().converted() + addend.converted()
                sure = near.size().compare(">", float(1 << 30))
                sign.set(sure.choose(near.bits(), whole))
                total.set(whole)

        self.code.branch(self.fits, done, lambda: self.code.branch(many, far, close))
        return [Total(total.get(), sign.get()) for total, sign in zip(totals, signs, strict=True)]

    def add(self, into: Sequence[Slot], first: Lanes, start: Any, stop: Any, term: Any) -> None:
        """Add `term` over these k of a sum to each row."""
        with self.code.loop(start, stop) as k:
            at = first + k
            x = self.sides.x(at)
            for row, total in enumerate(into):
                total.set(total.get() + term(x, self.sides.y(at, row), at, row))

    def _join(self) -> None:
        """c plus the result of the chain: the format's ordinary addition, rounded to nearest even."""
        given = [Slot(each) for each in self.sides.given()]
        # The sum of two -0 is -0; a float32 chain never leaves one.
        self.code.branch(self.half, lambda: self._clean(given))
        for c, running in zip(given, self.running, strict=True):
            x = Slot(c.get().floats() + running.get().floats())

            def to_half(x: Slot = x) -> None:
                # float32 has more than twice the bits of float16, so rounding twice equals rounding once.
                x.set(to_float16(x.get()))

            self.code.branch(self.half, to_half)
            found = x.get()
            running.set(found.compare("==", found).choose(found.bits(), QUIET))


def _two_rows(shorts: Lanes) -> tuple[Lanes, Lanes]:
    """The lower and the upper halves of words, with their signs."""
    words = shorts.seen_as(WORDS)
    return words.up(16).signed_down(16), words.signed_down(16)


def _two_fields(shorts: Lanes) -> tuple[Lanes, Lanes]:
    """The lower and the upper halves of words, as float32's exponent fields."""
    words = shorts.seen_as(WORDS)
    return words.up(23), words.down(16).up(23)
