"""The zero-column mask of tcgen05.mma.ws: the manual's examples (PTX ISA 9.4, 9.7.17.4.3), which CuTe agrees with."""

import re
from itertools import product

import numpy as np
import pytest
from rows import rows

from tcemu.errors import ArithmeticUnknown, LayoutError
from tcemu.layouts.zero_column_mask import ZeroColumnMask

#: M; fields as the examples have them: start counts and first spans from sub-mask 3 to 0, "non-zero mask", "skip span",
#: "use span"; and the masks of 128 / M sub-masks, the lowest bit last, as far as the manual writes them.
EXAMPLES = [
    (128, "0 0 0 0", "0 0 0 0", 0, 4, 3, ["0000000000"]),
    (128, "0 0 0 0", "0 0 0 0", 1, 2, 3, ["11100001110000"]),
    (64, "0 0 0 0", "0 0 0 1", 1, 2, 3, ["11100001110000111", "00001110000111" + "0000"]),
    (32, "1 2 1 0", "0 0 1 1", 1, 2, 3, ["00001110000111", "0000111000011", "111000011100", "1110000111000"]),
]


def described(start, first, enabled, skip, use):
    """The 64 bits, put together from the manual's table."""
    low = sum(int(each) << 8 * number for number, each in enumerate(reversed(start.split())))
    high = sum(int(each) << 32 + number for number, each in enumerate(reversed(first.split())))
    return low | high | enabled << 39 | skip << 40 | use << 48


@rows("m start first enabled skip use wanted", EXAMPLES)
def test_the_manuals_examples(m, start, first, enabled, skip, use, wanted):
    mask = ZeroColumnMask.decode(described(start, first, enabled, skip, use))
    assert mask.encode() == described(start, first, enabled, skip, use)
    found = mask.columns(m, 128).reshape(128 // m, -1)
    for part, text in zip(found, wanted, strict=True):
        seen = "".join("01"[int(each)] for each in part[: len(text)])[::-1]
        assert seen == text


def test_bits_and_fields_are_one_to_one():
    rng = np.random.default_rng(1)
    for _ in range(200):
        bits = int(rng.integers(1 << 62)) & ~(7 << 36)
        assert ZeroColumnMask.decode(bits).encode() == bits


def test_spans_repeat_to_the_last_column():
    """Every span: where a column is, modulo the period, decides."""
    for zeros, used, start in product((1, 2, 5), (1, 3, 4), (0, 1)):
        mask = ZeroColumnMask(zeros, used, (0,) * 4, (min(start, used - 1),) * 4)
        column = np.arange(64) + min(start, used - 1)
        assert np.array_equal(mask.columns(128, 64), column % (zeros + used) >= used)


@pytest.mark.parametrize("bits", [1 << 36, 1 << 62, -1, 1 << 64, "x"])
def test_what_is_no_mask_is_refused(bits):
    with pytest.raises(LayoutError, match="zero-column mask"):
        ZeroColumnMask.decode(bits)


def test_a_count_beyond_the_first_span_is_refused():
    with pytest.raises(ArithmeticUnknown, match=re.escape("start count 0 is 4, and the first span has 4 columns")):
        ZeroColumnMask(3, 4, (0,) * 4, (4, 0, 0, 0)).columns(128, 64)
