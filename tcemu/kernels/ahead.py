"""Fetches the words of the next tiles while the processor computes products, which take a while and need no memory.

Each block of products fetches a few lines: a processor that is asked for more lines than it can note at a time waits.
"""

from __future__ import annotations

from typing import Any

from numba import int64, types, uint64
from numba.extending import intrinsic

from tcemu.kernels.calls import put
from tcemu.kernels.compiling import merged
from tcemu.kernels.lanes import LONG, Lanes
from tcemu.kernels.simd import Code, vector_code

#: Bytes of a line of the processor's caches.
LINE = 64
#: What is fetched: the words of x, y, c and metadata, and those of the results.
STREAMS = 5
#: Lines that are fetched without a loop.
RUN = 4
#: The 64-bit numbers that say it: the most runs of lines that belong to a block, and for each an address and lines.
NOTES = 1 + 2 * STREAMS


@merged
def expect(ahead, t, count, given, steps, to_d, step_d, blocks):  # type: ignore[no-untyped-def]
    """Note at an address what `fetch` takes for the tiles from tile t on; returns the address.

    given and steps: see `addresses`; to_d and step_d: the same of the results. blocks: of a tile.
    """
    most = _note(ahead, STREAMS - 1, to_d + uint64(t * step_d), step_d, blocks)
    for i in range(STREAMS - 1):
        most = max(most, _note(ahead, i, given[i] + uint64(t * steps[i]), steps[i], blocks))
    put(ahead, int64(0), (most + RUN - 1) // RUN if t < count else 0)
    return ahead


@merged
def _note(ahead, i, words, step, blocks):  # type: ignore[no-untyped-def]
    """Note an address, and how many lines from there on belong to each block; returns how many."""
    put(ahead, int64(2 * i + 1), int64(words))
    lines = (step + blocks * LINE - 1) // (blocks * LINE)
    put(ahead, int64(2 * i + 2), lines)
    return lines


def fetch_lines(code: Code, ahead: Any, block: Lanes) -> None:
    """Emit `fetch`. A branch that depends on an argument alone would make LLVM copy the loops around it."""
    runs = code.load(ahead, 0, LONG, unit=8)

    def fetched() -> None:
        numbers = [[code.load(ahead, 2 * i + place, LONG, unit=8) for place in (1, 2)] for i in range(STREAMS)]
        # One loop for all: some lines of the shorter ones are fetched twice, which costs less than more loops.
        with code.loop(0, runs) as run:
            for words, lines in numbers:
                begin = words + (block * lines + run * RUN) * LINE

                def some(begin: Lanes = begin) -> None:
                    for i in range(RUN):
                        code.prefetch(begin.value, code.long(i), unit=LINE)

                code.branch(lines, some)

    code.branch(runs, fetched)


@intrinsic
def fetch(typingctx, ahead, block):  # type: ignore[no-untyped-def]
    """Let the processor fetch, while it goes on, what a block of products has to fetch, if anything; see `expect`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        fetch_lines(code, args[0], code.number(args[1]))
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen
