"""Tables that say how a kernel picks words: one by one, or by a network of permutations of whole vectors.

    [count, first, steps, 0, ...]   a vector: `count` words are picked; if there are no steps, their numbers follow
    (16 indices) ...                the steps: each permutes 16 words of two vectors into one
    (low, high) ...                 the words at which the two vectors of each step begin; the `first` steps take words,
                                    the others what the steps before have made

Indices lie on whole vectors, because a processor loads those in half the time.

A gather costs some twenty cycles for sixteen words, a step two or three. A network merges the vectors of words in
pairs, then the pairs, and so on; each step keeps the words of some of the picked vectors together:

    words       A0 B0 C0 D0   A1 B1 C1 D1   A2 B2 C2 D2   A3 B3 C3 D3        four vectors, each with a word of A to D
    pairs       A0 A1 B0 B1   C0 C1 D0 D1   A2 A3 B2 B3   C2 C3 D2 D3
    all         A0 A1 A2 A3   B0 B1 B2 B3   C0 C1 C2 C3   D0 D1 D2 D3        what is picked
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.simd import WIDTH, whole_vectors_of_words

Array = npt.NDArray[Any]
#: Words of the header: a whole vector.
HEADER = WIDTH
#: A network of more vectors than this is not worth its table.
_MOST = 16


def picks(words: Array) -> Array:
    """The table that picks these words."""
    steps = _network(words.reshape(-1, WIDTH)) if whole_vectors_of_words() and words.size % WIDTH == 0 else None
    if not steps:
        return np.concatenate([_header(words.size, 0, 0), words])
    first = sum(step.low >= 0 for step in steps)
    starts = [WIDTH * ~at if at < 0 else at for step in steps for at in (step.low, step.high)]
    lanes = [lane for step in steps for lane in step.lanes]
    return np.concatenate([_header(words.size, first, len(steps)), lanes, starts])


def _header(*numbers: int) -> Array:
    return np.pad(np.array(numbers), (0, HEADER - len(numbers)))


class _Step(NamedTuple):
    """A permutation of two vectors: the words at which they begin, or ~the numbers of the steps that have made them."""

    low: int
    high: int
    lanes: list[int]


class _Vector(NamedTuple):
    """A vector on its way: how a step names it, and the word in each lane."""

    name: int
    words: list[int]


def _network(picked: Array) -> list[_Step] | None:
    """The steps that make the vectors `picked`.

    None if they do not take every word of some whole vectors once, and equally many of a few of these vectors each.
    """
    sources = np.unique(picked // WIDTH)
    whole = np.unique(picked).size == len(sources) * WIDTH == picked.size
    if not whole or len(sources) > _MOST:
        return None
    taken = (picked[:, :, None] // WIDTH == sources).sum(axis=1)
    # Vectors that give to the same ones are merged; in this order they stand side by side.
    order = sorted(range(len(sources)), key=lambda source: (taken[:, source].argmax(), source))
    together = WIDTH // int(taken.max())
    if together == 1 or together & (together - 1) or len(sources) % together:
        return None
    alike = taken[:, order].reshape(len(picked), -1, together)
    if (alike != alike[..., :1]).any():
        return None
    starts = [int(sources[source]) * WIDTH for source in order]
    groups = [[_Vector(start, list(range(start, start + WIDTH)))] for start in starts]
    steps: list[_Step] = []
    for _ in range(together.bit_length() - 1):
        groups = [_merged(*pair, picked, steps) for pair in zip(groups[::2], groups[1::2], strict=True)]
    made = [vector.words for group in groups for vector in group]
    return steps if np.array_equal(made, picked) else None


def _merged(one: list[_Vector], other: list[_Vector], picked: Array, steps: list[_Step]) -> list[_Vector]:
    """The vectors of two groups merged, in the order of the picked vectors whose words they have."""
    have = {word for vector in one + other for word in vector.words}
    wanted = [word for word in picked.ravel().tolist() if word in have]
    merged = []
    for start in range(0, len(wanted), WIDTH):
        words = wanted[start : start + WIDTH]
        low, high = _holder(one, words), _holder(other, words)
        lane = {word: place for place, word in enumerate(low.words + high.words)}
        merged.append(_Vector(~len(steps), words))
        steps.append(_Step(low.name, high.name, [lane[word] for word in words]))
    return merged


def _holder(group: list[_Vector], words: list[int]) -> _Vector:
    """The first vector of a group that has some of the words; in a network there is only one."""
    return next(vector for vector in group if not set(words).isdisjoint(vector.words))
