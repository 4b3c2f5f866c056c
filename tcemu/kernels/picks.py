"""Tables that say how a kernel picks words: one by one, or by a network of permutations of whole vectors.

    [count, together, units, 0, ...]    a vector: `count` words are picked; if `together` is 0, their numbers follow
    (16 indices) (16 indices) ...       for each stage of the network: they permute two vectors into two others
    (start) ...                         the words at which the vectors begin that the network takes

Indices lie on whole vectors, because a processor loads those in half the time. All pairs of a stage share their
indices, so that these stay in the processor's registers.

A gather costs some twenty cycles for sixteen words, a permutation one or two. A network merges the vectors of words in
pairs, then the pairs, and so on; each permutation keeps the words of some of the picked vectors together:

    words       A0 B0 C0 D0   A1 B1 C1 D1   A2 B2 C2 D2   A3 B3 C3 D3        four vectors, each with a word of A to D
    pairs       A0 A1 B0 B1   C0 C1 D0 D1   A2 A3 B2 B3   C2 C3 D2 D3
    all         A0 A1 A2 A3   B0 B1 B2 B3   C0 C1 C2 C3   D0 D1 D2 D3        what is picked

`together` vectors are merged, in registers, and `units` times so many are picked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.lanes import WIDTH, whole_vectors_of_words

Array = npt.NDArray[Any]
#: Words of the header: a whole vector.
HEADER = WIDTH
#: A network of more vectors than this is not worth its table.
_MOST = 16
#: Vectors that are merged at once.
TOGETHER = (2, 4, 8, 16)


def picks(words: Array) -> Array:
    """The table that picks these words."""
    found = _network(words.reshape(-1, WIDTH)) if whole_vectors_of_words() and words.size % WIDTH == 0 else None
    if not found:
        return np.concatenate([_header(words.size, 0, 0), words])
    units = len(found.starts) // found.together
    return np.concatenate([_header(words.size, found.together, units), found.stages, found.starts])


def _header(*numbers: int) -> Array:
    return np.pad(np.array(numbers), (0, HEADER - len(numbers)))


class _Network(NamedTuple):
    """Vectors that are merged at once, where each vector begins, and the indices of the stages."""

    together: int
    starts: list[int]
    stages: Array


def _network(picked: Array) -> _Network | None:
    """The network that makes the vectors `picked`.

    None if it does not take every word of some whole vectors once, and equally many of a few of these vectors each, or
    if it does not permute all pairs of vectors alike.
    """
    sources = np.unique(picked // WIDTH)
    whole = np.unique(picked).size == len(sources) * WIDTH == picked.size
    if not whole or len(sources) > _MOST:
        return None
    taken = (picked[:, :, None] // WIDTH == sources).sum(axis=1)
    # Vectors that give to the same ones are merged; in this order they stand side by side.
    order = sorted(range(len(sources)), key=lambda source: (taken[:, source].argmax(), source))
    together = WIDTH // int(taken.max())
    if together not in TOGETHER or len(sources) % together:
        return None
    alike = taken[:, order].reshape(len(picked), -1, together)
    if (alike != alike[..., :1]).any():
        return None
    starts = [int(sources[source]) * WIDTH for source in order]
    lanes: list[int] = []
    made = []
    for unit in range(0, len(starts), together):
        vectors = [list(range(start, start + WIDTH)) for start in starts[unit : unit + together]]
        for half in (1 << stage for stage in range(together.bit_length() - 1)):
            groups = [vectors[at : at + half] for at in range(0, together, half)]
            pairs = zip(groups[::2], groups[1::2], strict=True)
            vectors = [words for low, high in pairs for words in _merged(low, high, picked, lanes)]
        made += vectors
    every = np.array(lanes).reshape(len(starts) // together, -1, together // 2, 2, WIDTH)
    stages = every[:1, :, :1]
    alike = np.array_equal(made, picked) and (every == stages).all()
    return _Network(together, starts, stages.ravel()) if alike else None


def _merged(low: list[list[int]], high: list[list[int]], picked: Array, lanes: list[int]) -> list[list[int]]:
    """The words of two groups of vectors, in the order in which they are picked; adds the indices that merge them.

    Merged vector v is made from vector v // 2 of both groups; a word that is in neither has no index, and is left out.
    """
    have = {word for words in low + high for word in words}
    wanted = [word for word in picked.ravel().tolist() if word in have]
    merged = []
    for v in range(2 * len(low)):
        words = wanted[v * WIDTH : (v + 1) * WIDTH]
        lane = {word: place for place, word in enumerate(low[v // 2] + high[v // 2])}
        lanes += [lane.get(word, 0) for word in words]
        merged.append([word for word in words if word in lane])
    return merged
