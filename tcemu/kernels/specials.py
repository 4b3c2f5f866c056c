"""What infinities and NaNs make of the sums of a block; `tcemu.kernels.blocks` computes the sums without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcemu.kernels.lanes import Lanes
from tcemu.kernels.simd import Slot
from tcemu.kernels.sums import INFINITY, QUIET

if TYPE_CHECKING:
    from tcemu.kernels.blocks import Chain


def look(chain: Chain, first: Lanes, marks: list[Slot]) -> None:
    """Set `marks` to the patterns of sums that infinities and NaNs decide, and to 0 elsewhere; see `pack_special`."""
    sums = []
    for bits in chain.accumulators():
        infinite = (bits & INFINITY).compare("==", INFINITY)
        sums.append(Slot(infinite.choose(bits, 0).floats()))
    pruned = Slot(chain.code.long(0))
    with chain.code.loop(0, chain.depth) as k:
        absent = chain.sides.special_x(first + k).compare("==", 2.0)
        pruned.set(pruned.get() | chain.code.number(chain.code.number_of_any(absent)))

    def add(stored_only: bool) -> None:
        with chain.code.loop(0, chain.depth) as k:
            x = chain.sides.special_x(first + k)
            for row, so_far in enumerate(sums):
                found = x.exactly_times_plus(chain.sides.special_y(first + k, row), so_far.get())
                if stored_only:
                    found = x.compare("!=", 2.0, unordered=True).choose(found, so_far.get())
                so_far.set(found)

    chain.code.branch(pruned.get(), lambda: add(stored_only=True), lambda: add(stored_only=False))
    for mark, total in zip(marks, sums, strict=True):
        x = total.get()
        infinite = x.size().compare(">", 100.0).choose(x.bits(), 0)
        mark.set(x.compare("==", x).choose(infinite, chain.code.lanes(QUIET)))


def put_right(chain: Chain, marks: list[Slot]) -> None:
    """Replace the accumulators of sums that `look` has found to be infinite or NaN."""
    for mark, running in zip(marks, chain.running, strict=True):
        found = mark.get()
        running.set(found.compare("==", 0).choose(running.get(), found))
