"""Where the elements of operands and results are in registers, and how kernels load them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.lanes import WIDTH
from tcemu.kernels.picks import picks

Array = npt.NDArray[Any]
#: The number of values of four bits of metadata.
CODES = 16
_WORD, _NOTHING = 0xFFFFFFFF, np.empty(0, np.int64)


class Load(NamedTuple):
    """How an operand is loaded: three tables and three numbers, see `tcemu.kernels.loading`."""

    picks: Array
    source: Array
    bits: Array
    vectors: int
    mask: int
    flip: int


@dataclass(frozen=True)
class Place:
    """Where the elements of a matrix are in registers: the word and first bit of each, in C order, and its mask."""

    word: Array
    bit: Array
    mask: int
    #: the bits of each element to flip
    flip: int = 0

    @property
    def whole(self) -> bool:
        """Whether each element is a word, as it is."""
        return self.mask & _WORD == _WORD and not self.flip and not self.bit.any()

    def load(self, elements: Array) -> Load:
        """How elements, a multiple of 16, are loaded; each vector of words is picked only once."""
        words, bits, vectors = self.word.ravel()[elements.ravel()], self.bit.ravel()[elements.ravel()], elements.size
        if self.whole:
            return Load(picks(words), _NOTHING, _NOTHING, vectors // WIDTH, 0, 0)
        picked, source = np.unique(words.reshape(-1, WIDTH), axis=0, return_inverse=True)
        return Load(picks(picked.ravel()), source.ravel(), bits, vectors // WIDTH, self.mask, self.flip)


@dataclass(frozen=True)
class Results:
    """Where the results go: `elements` (words, per) are their numbers in C order, `width` bits each."""

    elements: Array
    width: int


@dataclass(frozen=True, eq=False)
class Pruned:
    """Which elements of a sparse A are stored: four bits of metadata for each chunk of a row say it.

    word and bit: where the bits of each chunk are in the words of metadata, (m, chunks). places: for each legal value,
    the places in the chunk, in the order in which the elements are stored. chunk: the elements of a chunk.
    """

    word: Array
    bit: Array
    places: Mapping[int, Sequence[int]]
    chunk: int

    @property
    def stored(self) -> int:
        """Stored elements of a chunk."""
        return self.chunk // 2

    @property
    def illegal(self) -> int:
        """A word with a bit for each value that is not legal."""
        return sum(1 << code for code in range(CODES) if code not in self.places)

    def codes_with(self, stored: int, place: int) -> int:
        """A word with a bit for each value that puts a stored element of the chunk at a place."""
        return sum(1 << code for code, places in self.places.items() if places[stored] == place)
