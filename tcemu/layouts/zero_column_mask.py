"""The zero-column mask of tcgen05.mma.ws: which columns of B count as zeros (PTX ISA 9.1, 9.7.16.4.3).

    bits      field
    31:0      start counts of the sub-masks 0 to 3: how many columns of the pattern come before the first
    35:32     first spans: whether a sub-mask begins with zeros (1) or with columns of B (0)
    39        1: there is a mask; 0: all columns of B count
    47:40     length of a span of zeros, minus 1
    55:48     length of a span of columns of B, minus 1
    61:56     by how many columns B is shifted

There are 128 / M sub-masks, for as many parts of N. The manual's table has the two spans the other way round; its own
examples and CuTe have them as here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import ArithmeticUnknown, LayoutError, whole

SECTION = "9.7.16.4.3"
_RESERVED = 7 << 36 | 3 << 62


@dataclass(frozen=True)
class ZeroColumnMask:
    """A mask: by sub-mask the start counts and first spans, and the lengths of the spans.

    >>> from tcemu.layouts.zero_column_mask import ZeroColumnMask
    >>> mask = ZeroColumnMask(zeros=3, used=4, first=(1, 0, 0, 0), start=(0, 0, 0, 0))
    >>> "".join("01"[int(each)] for each in mask.columns(64, 64)[:14])  # columns 0 to 13: three zeros, four of B
    '11100001110000'
    """

    zeros: int = 1
    used: int = 1
    first: tuple[int, ...] = (0, 0, 0, 0)
    start: tuple[int, ...] = (0, 0, 0, 0)
    shift: int = 0
    enabled: bool = True

    @staticmethod
    def decode(bits: int) -> ZeroColumnMask:
        """The mask that 64 bits describe. Raises LayoutError for reserved bits."""
        value = whole(bits, "a zero-column mask", LayoutError)
        if not 0 <= value < 1 << 64 or value & _RESERVED:
            raise LayoutError(
                f"a zero-column mask has 64 bits, of which 38:36 and 63:62 must be 0; got {value:#x} "
                f"(PTX ISA {SECTION})"
            )
        numbers = range(4)
        return ZeroColumnMask(
            (value >> 40 & 255) + 1, (value >> 48 & 255) + 1, tuple([value >> 32 + each & 1 for each in numbers]),
            tuple([value >> 8 * each & 255 for each in numbers]), value >> 56 & 63, bool(value >> 39 & 1),
        )  # fmt: skip

    def encode(self) -> int:
        """The 64 bits."""
        low = sum(self.start[each] << 8 * each | self.first[each] << 32 + each for each in range(4))
        return low | self.enabled << 39 | self.zeros - 1 << 40 | self.used - 1 << 48 | self.shift << 56

    def columns(self, m: int, n: int) -> npt.NDArray[Any]:
        """Whether each of N columns counts as zeros, for a product of M rows. Raises ArithmeticUnknown.

        What a start count means that is not within the first span has not been published.
        """
        if not self.enabled:
            return np.zeros(n, bool)
        zero, part, period = np.zeros(n, bool), n // (128 // m), self.zeros + self.used
        for number in range(128 // m):
            begins = bool(self.first[number])
            span, start = self.zeros if begins else self.used, self.start[number]
            if start >= span:
                raise ArithmeticUnknown(
                    f"zero-column mask: start count {number} is {start}, and the first span has {span} columns; what a "
                    f"count beyond it means has not been published (PTX ISA {SECTION})"
                )
            place = (np.arange(part, dtype=np.int64) + start) % period
            zero[number * part : (number + 1) * part] = (place < span) == begins
        return zero
