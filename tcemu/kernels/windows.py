"""What formats say about where their elements are in words, and where their windows begin; see `tcemu.kernels.sums`."""

from __future__ import annotations

from collections.abc import Sequence

from tcemu.kernels.sums import SMALL

#: Fraction bits of a small format, at most, and where the window of large ones begins if their numbers are near 1.
_FEW, _START = 3, -40


def above(form: Sequence[int]) -> int:
    """The bits above the sign of a format's element that is lowest in its word."""
    return 31 - sum(form[i] for i in (0, 1, 3))


def start_of_window(form: Sequence[int]) -> int:
    """Where the window of a format's numbers begins, if those of a large one are near 1."""
    return 1 - form[2] - form[1] * form[6] if form[0] <= SMALL else _START


def of_few_bits(form: Sequence[int]) -> bool:
    """Whether it is a small format with few bits."""
    return form[0] <= SMALL and form[1] <= _FEW
