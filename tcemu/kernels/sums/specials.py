"""What infinities and NaNs make of the sums of a block; the other paths leave them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.batch.abi import FORMAT, Fields
from tcemu.kernels.emit.code import Variable, vector_code
from tcemu.kernels.emit.lanes import SIGN, WORDS, Lanes
from tcemu.kernels.sums import INFINITY, QUIET
from tcemu.kernels.sums.pack import Elements

if TYPE_CHECKING:
    from tcemu.kernels.sums.block import Chain


def look(chain: Chain, first: Lanes, marks: list[Variable]) -> None:
    """Set `marks` to the patterns of sums that infinities and NaNs decide, and to 0 elsewhere; see `pack_special`."""
    sums = []
    for bits in chain.accumulators():
        infinite = (bits & INFINITY).compare("==", INFINITY)
        sums.append(Variable(infinite.choose(bits, 0).floats()))
    pruned = Variable(chain.code.long(0))
    with chain.code.loop(0, chain.depth) as k:
        absent = chain.operands.special_x(first + k).compare("==", 2.0)
        pruned.set(pruned.get() | chain.code.number(chain.code.number_of_any(absent)))

    def add(stored_only: bool) -> None:
        with chain.code.loop(0, chain.depth) as k:
            x = chain.operands.special_x(first + k)
            for row, so_far in enumerate(sums):
                total = x.exactly_times_plus(chain.operands.special_y(first + k, row), so_far.get())
                if stored_only:
                    total = x.compare("!=", 2.0, unordered=True).choose(total, so_far.get())
                so_far.set(total)

    chain.code.branch(pruned.get(), lambda: add(stored_only=True), lambda: add(stored_only=False))
    for mark, total in zip(marks, sums, strict=True):
        x = total.get()
        infinite = x.size().compare(">", 100.0).choose(x.bits(), 0)
        mark.set(x.compare("==", x).choose(infinite, chain.code.lanes(QUIET)))


def put_right(chain: Chain, marks: list[Variable]) -> None:
    """Replace the accumulators of sums that `look` has found to be infinite or NaN."""
    for mark, running in zip(marks, chain.running, strict=True):
        special = mark.get()
        running.set(special.compare("==", 0).choose(running.get(), special))


class _PackSpecial(Elements):
    """The loop that marks infinities and NaN."""

    def emit(self, count: Any, form: Any, value: Any) -> None:
        """The loop."""
        code = self.code
        infinities = Fields(code, form, FORMAT).infinities.compare("!=", 0)
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

    return types.none(types.uint64, form, types.int64, types.uint64), codegen
