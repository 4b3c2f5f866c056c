"""Patterns of structured sparsity: how a chunk of a row of A is pruned, and what four bits of metadata mean for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Sparsity:
    """How a chunk of a row is pruned, and what its four bits of metadata mean."""

    name: str
    #: Elements of a chunk.
    chunk: int
    #: The positions in the chunk of the stored elements, for each legal value of the four bits.
    positions: Mapping[int, tuple[int, ...]]

    @property
    def stored(self) -> int:
        """Stored elements of a chunk."""
        return self.chunk // 2

    @cached_property
    def rows(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The legal values of the four bits, each with its positions."""
        return tuple(self.positions.items())

    @cached_property
    def table(self) -> npt.NDArray[Any]:
        """(16, stored): the positions for every value of the four bits; -1 if the value is not legal."""
        table = np.full((16, self.stored), -1, np.int16)
        for code, positions in self.positions.items():
            table[code] = positions
        return table


#: Two indices of two bits, the first stored element's lowest; they differ, and ascend in ordered metadata.
_TWO = {low | high << 2: (low, high) for low in range(4) for high in range(4) if low != high}
_RISING = {code: positions for code, positions in _TWO.items() if positions[0] < positions[1]}


def _of_pairs(codes: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    return {
        code: tuple(2 * pair + element for pair in positions for element in (0, 1)) for code, positions in codes.items()
    }


_ONE_OF_TWO = {0b0100: (0,), 0b1110: (1,)}
#: By the kind that a row names, and the .sp qualifier.
SPARSITY = {
    (kind, order): Sparsity(name, chunk, positions)
    for order, two in (("sp", _TWO), ("sp::ordered_metadata", _RISING))
    for kind, name, chunk, positions in (
        ("2:4", "2:4", 4, two),
        ("1:2", "1:2", 2, _ONE_OF_TWO),
        ("4:8", "4:8 by pairs", 8, _of_pairs(two)),
    )
}
