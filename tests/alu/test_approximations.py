"""Approximations, against an H100: blocks of adjacent operands here, and every operand in the slow test.

tests/golden/sm_90a-approximations.npz has sums of an H100's answers to the 2^17 operands that begin with each of
`firsts`, and for operands of 64 bits, whose low word is ignored, to the 2^20 high words that begin with each of
`high_firsts`.
"""

from functools import cache

import lanes
import numba
import numpy as np
import pytest
import quick
import recorded
from places import GOLDEN

from tcemu import alu
from tcemu.alu.row import bits

with np.load(GOLDEN / "sm_90a-approximations.npz") as _file:
    FILE = dict(_file)
HIGH = FILE["high_names"].tolist()
#: All sums of answers to every operand of 32 bits.
EVERY = {
    **{row.name: row.every for row in recorded.recorded() if row.every and row.kinds[0] % 100 == 32},
    **dict(zip(HIGH, FILE["high_every"], strict=True)),
}
APPROXIMATIONS = [name for name in EVERY if ".approx" in name]
OTHERS = [name for name in EVERY if ".approx" not in name and alu.find(name)]


def blocks(names, firsts, sums):
    """Some blocks of each row: name, first operand, sum."""
    for number, name in enumerate(FILE[names].tolist()):
        every = zip(FILE[firsts].tolist(), FILE[sums][number], strict=True)
        yield name, quick.some(quick.spread(every, 4, 5 * number), 2)


def answers(name, operands):
    """Those of the reference, as 64-bit numbers."""
    return alu.find(name).meaning(alu.ARRAYS, operands).astype(np.uint64)


def test_blocks_of_adjacent_operands(row):
    for name, some in blocks("names", "firsts", "blocks"):
        with row(name):
            for first, expected in some:
                found = answers(name, np.arange(first, first + (1 << 17), dtype=np.uint32))
                assert recorded.sum_of(found, first) == expected, hex(first)


def test_blocks_of_adjacent_high_words(row):
    for name, some in blocks("high_names", "high_firsts", "high_blocks"):
        with row(name):
            for first, expected in some[:1]:
                high = np.arange(1 << 20, dtype=np.uint64) + (first >> 32)
                low = np.arange(1 << 20, dtype=np.uint64) * 977
                assert recorded.sum_of(answers(name, high << 32 | low), first >> 32) == expected, hex(first)


def test_random_operands_meet_every_coefficient(row):
    for entry in recorded.recorded():
        if ".approx" in entry.name or ".full" in entry.name:
            with row(entry.name):
                found = recorded.answers(entry.name, recorded.random_operands(entry, 1 << 14))
                assert recorded.sum_of(found) == entry.first


# ------------------------------------------------------------------------------------------------ every operand


@cache
def _sum_of():
    """`recorded.sum_of`, compiled."""

    @numba.njit("u8(u8)")
    def mix(z):
        z += numba.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> numba.uint64(30)) * numba.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> numba.uint64(27)) * numba.uint64(0x94D049BB133111EB)
        return z ^ z >> numba.uint64(31)

    @numba.njit
    def sum_of(answers, first):
        total = numba.uint64(0)
        for number in range(len(answers)):
            total += mix(numba.uint64(answers[number]) ^ mix(numba.uint64(first + number)))
        return total

    return sum_of


def sum_of_every(name):
    """The sum of the native code's answers to every operand of 32 bits, or to every high word."""
    code, total, count = lanes.Lanes([name], level=3), 0, 1 << 17
    wide = bits(alu.find(name).operands[0]) == 64
    for first in range(0, 1 << 32, count):
        operands = np.arange(first, first + count, dtype=np.uint64)
        given = operands << 32 if wide else operands.astype(np.uint32)
        total += int(_sum_of()(code.run(name, given)[0], first))
    return total % (1 << 64)


@pytest.mark.slow
@pytest.mark.skipif(not quick.THOROUGH, reason="half a minute for each")
@pytest.mark.parametrize("name", [*APPROXIMATIONS, *OTHERS[quick.turn(20) :: 20]])
def test_every_operand(name):
    assert sum_of_every(name) == EVERY[name]
