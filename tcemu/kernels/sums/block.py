"""Chains of fused sums for a block of outputs: four rows of sixteen lanes, in explicit vectors.

    sixteen lanes                       elements of x for one k, side by side
    four rows                           elements of y for the same k, each taken by all lanes
    c[row][lane]                        the accumulators, float32 patterns; they stay in registers over the chain

`tcemu.kernels.sums` explains how a sum is computed. The depth, the rule and the path are numbers, so that one compiled
function serves every instruction. Emitted, because LLVM does not make these vectors of loops: four times as fast.

Simple sums have half the overhead of those of `fast`:

    rule             results are float32; the products of a sum fit in 32 bits, and so does the sum if results are cut
    accumulators     zero, or normal: not below the smallest E of products, and far from overflow

Two cases need no path of their own there. If an accumulator is far above all products, their power of two stops where
they all vanish, and those of the accumulator's 24 bits that results keep pass through the sum without loss. If all
products are zero, E is the smallest E of products, and no accumulator has a bit below 2^(E - F), with F fraction bits,
that results keep: at the start by the condition above, and later because each sum leaves a multiple of 2^(E - F).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any

from tcemu.kernels.batch.abi import Fields
from tcemu.kernels.emit.code import Code, Variable
from tcemu.kernels.emit.lanes import (
    BYTE,
    SIGN,
    WIDTH,
    WORDS,
    Lanes,
    whole_vectors_of_words,
)
from tcemu.kernels.sums import (
    BOTTOM,
    CENTRE,
    INFINITY,
    QUIET,
    ROWS,
    fast,
    specials,
)
from tcemu.kernels.sums import scaled as scaled_sums
from tcemu.kernels.sums import wide as wide_sums
from tcemu.kernels.sums.rounding import (
    SignedSum,
    clean,
    converted_to_odd,
    subnormal_term,
    to_float16,
)


class Chain:
    """The chain of a block, while it is emitted: what all blocks share first, then the code for one."""

    def __init__(self, code: Code, rule: Fields, base: Lanes) -> None:
        self.code = code
        # Stores could change these numbers, as far as the compiler knows: a block does not load them again.
        self.depth, self.sums = rule.depth, rule.sums
        self.half, self.join, self.space = rule.half, rule.join, rule.space
        self.fits = self.space.compare("==", 0)
        fraction, floor, keep = (self.code.short(each) for each in (rule.fraction, rule.floor, rule.keep))
        self._constants(fraction, floor, keep, self.code.short(base))

    def emit(
        self, operands: Any, scales: Sequence[Any] = (), *,
        wide: Any = False, special: Any = False, scaled: Any = False, short: Any = False,
    ) -> None:  # fmt: skip
        """One block: all sums, one after the other. A flag may be known when this is emitted.

        sides: where everything is, see `Packed`. scales: addresses of those of x and of y. short: 0, or
        what `blocks` takes to look for short sums.
        """
        self.operands = operands
        self.running = self._begin()
        self.scales = [Variable(self.code.lanes(0)) for _ in range(ROWS)]
        self._if(scaled, lambda: scaled_sums.add_scales(self, *scales))

        def any_sums() -> None:
            self._clean(self.running)
            self._add_sums(wide, special, scaled)
            self.code.branch(self.half, lambda: None, lambda: self._clean(self.running))

        def simple_sums() -> None:
            yes, no = (partial(add_simple_sums, self, fits=fits) for fits in (True, False))
            self.code.branch(self.fits, yes, no)

        if wide is special is scaled is False:
            self.code.branch(is_simple(self), simple_sums, any_sums)
        else:
            left = Variable(self.code.long(1))
            self._if(short, lambda: left.set(scaled_sums.add_short(self, short - 1)))
            self.code.branch(left.get(), any_sums)
        self.code.branch(self.join, self._join)
        self._if(scaled, lambda: scaled_sums.put_nan(self))
        operands.put(self.accumulators())

    def _begin(self) -> list[Variable]:
        """The accumulators as they are at first, or zeros if the chain is added to them."""
        variables = [Variable(each) for each in self.operands.initial()]

        def start_from_zero() -> None:
            for running in variables:
                running.set(self.code.lanes(0))

        self.code.branch(self.join, start_from_zero)
        return variables

    def _clean(self, numbers: list[Variable]) -> None:
        for each in numbers:
            each.set(clean(each.get()))

    def _add_sums(self, wide: Any, special: Any, scaled: Any) -> None:
        with self.code.loop(0, self.sums) as i:
            first = i * self.depth
            marks = [Variable(self.code.lanes(0)) for _ in range(ROWS)]
            self._if(special, lambda: specials.look(self, first, marks))
            self._if(scaled, lambda: scaled_sums.add_sum(self, first), lambda: self._plain_sum(first, wide))
            self._if(special, lambda: specials.put_right(self, marks))

    def _plain_sum(self, first: Lanes, wide: Any) -> None:
        self._if(wide, lambda: wide_sums.add_sum(self, first), lambda: fast.add_sum(self, first))

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
        self.may_be_simple = self.half.compare("==", 0).both(whole.either(self.fits))
        self.reach = (self.code.word(_LARGE + (1 << 23) - 1) - start.up(23)).everywhere()
        self.base = base.everywhere()
        floor = floor.larger(BOTTOM)
        self.fraction, self.floor = fraction.everywhere(), floor.everywhere()
        self.floors = self.code.halfword(floor).everywhere(2 * WIDTH)

    def peaks(self, first: Lanes) -> list[Lanes]:
        """The largest exponent of each row's products, in float32's exponent field; 0 if all products are zero."""
        largest = self.largest(first)
        return self.spread(largest.compare("<", 0).choose(self.code.lanes(0, BYTE, 4 * WIDTH), largest + self.offset))

    def largest(self, first: Lanes) -> Lanes:
        """The largest exponent of each row's products, from the start of the window; negative if all are zero.

        Four bytes in each lane: a lane of x holds the exponent byte of its element four times, once for each row.
        """
        peaks = Variable(self.code.lanes(-128, BYTE, 4 * WIDTH))
        with self.code.loop(0, self.depth) as k:
            peaks.set((self.operands.bytes_x(first + k) + self.operands.bytes_y(first + k)).larger(peaks.get()))
        return peaks.get()

    def spread(self, fields: Lanes) -> list[Lanes]:
        """Bytes of four rows in each lane, moved to float32's exponent field."""
        words = fields.seen_as(WORDS)
        return [(words.up(23 - 8 * row) if row < 3 else words.down(1)) & (255 << 23) for row in range(ROWS)]

    def with_floats(self, totals: list[SignedSum], put: Callable[[list[Lanes]], None], *, odd: bool = False) -> None:
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
            terms.append(Variable(field.compare("==", 0).choose(code.lanes(0), (significand * power).truncated())))
        lowest = reduce(lambda one, other: one.larger(other), raised)
        tiny = code.number(code.number_of_any(lowest.compare(">", 126)))

        def with_subnormals() -> None:
            for term, bits, up in zip(terms, self.accumulators(), raised, strict=True):
                subnormal = (bits & INFINITY).compare("==", 0)
                term.set(subnormal.choose(subnormal_term(bits, up), term.get()))

        code.branch(tiny, with_subnormals)
        return raised, [term.get() for term in terms], tiny

    def accumulators(self) -> list[Lanes]:
        """The accumulators of each row, as they are now."""
        return [each.get() for each in self.running]

    def halves(self, first: Lanes, term: Any, addends: list[Lanes]) -> list[SignedSum]:
        """The sums of `term` over all k and the addends, for each row."""
        totals = [Variable(self.code.lanes(0)) for _ in range(ROWS)]
        rests = [Variable(self.code.lanes(0)) for _ in range(ROWS)]

        def add(into: list[Variable], start: Any, stop: Any) -> None:
            self.add(into, first, start, stop, term)

        def start() -> None:
            for total, addend in zip(totals, addends, strict=True):
                total.set(addend)

        self.code.branch(self.fits, start)
        many = self.space.compare(">", 1)
        half = self.depth.down(1)
        add(totals, 0, many.choose(half, self.depth))
        signs = [Variable(self.code.lanes(0)) for _ in range(ROWS)]

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
        return [SignedSum(total.get(), sign.get()) for total, sign in zip(totals, signs, strict=True)]

    def add(self, into: Sequence[Variable], first: Lanes, start: Any, stop: Any, term: Any) -> None:
        """Add `term` over these k of a sum to each row."""
        with self.code.loop(start, stop) as k:
            at = first + k
            x = self.operands.x(at)
            for row, total in enumerate(into):
                total.set(total.get() + term(x, self.operands.y(at, row), at, row))

    def _join(self) -> None:
        """c plus the result of the chain: the format's ordinary addition, rounded to nearest even."""
        initial = [Variable(each) for each in self.operands.initial()]
        # The sum of two -0 is -0; a float32 chain never leaves one.
        self.code.branch(self.half, lambda: self._clean(initial))
        for c, running in zip(initial, self.running, strict=True):
            x = Variable(c.get().floats() + running.get().floats())

            def to_half(x: Variable = x) -> None:
                # float32 has more than twice the bits of float16, so rounding twice equals rounding once.
                x.set(to_float16(x.get()))

            self.code.branch(self.half, to_half)
            sums = x.get()
            running.set(sums.compare("==", sums).choose(sums.bits(), QUIET))


# --------------------------------------------------------------------------------------------------- simple sums

#: Exponent field of accumulators that are too large: below it, no chain of up to 2^16 sums in the window overflows.
_LARGE = 230 << 23


def is_simple(chain: Chain) -> Lanes:
    """Whether the rule and all accumulators of a block are of this kind."""
    code = chain.code
    sizes = [bits & ~SIGN for bits in chain.accumulators()]
    # A zero is, unsigned, as far above everything as what is too small.
    apart = reduce(lambda one, other: one.larger(other, unsigned=True), (size - chain.least for size in sizes))
    outside = Variable(code.number(code.number_of_any(apart.compare(">", chain.reach, unsigned=True))))

    def look_again() -> None:
        far = [(size - chain.least).compare(">", chain.reach, unsigned=True) for size in sizes]
        far = [each.both(size.compare("!=", 0)) for each, size in zip(far, sizes, strict=True)]
        outside.set(code.number(code.number_of_any(reduce(Lanes.either, far))))

    code.branch(outside.get(), look_again)
    return outside.get().compare("==", 0).both(chain.may_be_simple)


def add_simple_sums(chain: Chain, *, fits: bool) -> None:
    """All sums of the chain of a block, one after the other. fits: whether each fits in 32 bits with C."""
    with chain.code.loop(0, chain.sums) as i:
        _simple_sum(chain, i * chain.depth, fits)


def _simple_sum(chain: Chain, first: Lanes, fits: bool) -> None:
    running, peaks = chain.running, chain.spread(chain.largest(first).larger(0) + chain.offset)
    exponents, addends, terms = [], [], []
    for bits, peak in zip(chain.accumulators(), peaks, strict=True):
        e = peak.larger(bits & INFINITY)
        exponents.append(e)
        # All products vanish at 2^1, so it need not be less, where a zero that is packed as NaN would stay: see CENTRE.
        addends.append((chain.top - e).larger(1 << 23))
        terms.append((bits.floats() * (chain.scale - e).floats()).truncated())
    totals = [Variable(term if fits else chain.code.lanes(0)) for term in terms]
    chain.add(totals, first, 0, chain.depth, lambda x, y, _, row: ((x * y).bits() + addends[row]).floats().truncated())
    powers = [(e - chain.unit).floats() for e in exponents]
    parts = [total.get() for total in totals]
    if fits:
        _put(running, [_toward_zero(part) for part in parts], powers)
        chain.code.branch(chain.cuts, lambda: _cut(chain, running))
        return
    wholes = [part + term for part, term in zip(parts, terms, strict=True)]
    # Negative where both signs agree, but not with that of the sum.
    wrapped = [(part ^ whole) & (term ^ whole) for part, term, whole in zip(parts, terms, wholes, strict=True)]

    def by_magnitude() -> None:
        totals = [SignedSum(whole, whole ^ wrong) for whole, wrong in zip(wholes, wrapped, strict=True)]
        _put(running, [total.toward_zero() for total in totals], powers)

    chain.code.branch(
        chain.code.any_set(reduce(or_, wrapped).compare("<", 0)),
        by_magnitude,
        lambda: _put(running, [_toward_zero(whole) for whole in wholes], powers),
    )


def _cut(chain: Chain, running: list[Variable]) -> None:
    for each in running:
        each.set(each.get() & chain.mask)


def _toward_zero(sums: Lanes) -> Lanes:
    if whole_vectors_of_words():
        return sums.converted_toward_zero()
    return SignedSum(sums, sums).toward_zero()


def _put(running: list[Variable], values: list[Lanes], powers: list[Lanes]) -> None:
    for each, value, power in zip(running, values, powers, strict=True):
        each.set((value * power).bits())
