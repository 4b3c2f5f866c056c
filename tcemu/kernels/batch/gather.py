"""Gathers words by tables that say where they are, one by one or by a network of permutations of whole vectors.

    [count, together, units, half,      a vector: `count` words are picked; if `together` is 0, their numbers follow;
     twice, ...]                        with `twice`, the network picks half of them, and each is put down twice
    (16 indices)                        which words of two vectors are taken as one, if `half` is not 0
    (16 indices) (16 indices) ...       for each stage of the network: they permute two vectors into two others
    (start) ... (place) ...             the words at which the vectors begin that the network takes, and the places of
                                        those that it makes

Indices lie on whole vectors, because a processor loads those in half the time. All pairs of a stage share their
indices, so that these stay in the processor's registers.

A gather costs some twenty cycles for sixteen words, a permutation one or two. A network merges the vectors of words in
pairs, then the pairs, and so on; each permutation keeps the words of some of the picked vectors together:

    words       A0 B0 C0 D0   A1 B1 C1 D1   A2 B2 C2 D2   A3 B3 C3 D3        four vectors, each with a word of A to D
    pairs       A0 A1 B0 B1   C0 C1 D0 D1   A2 A3 B2 B3   C2 C3 D2 D3
    all         A0 A1 A2 A3   B0 B1 B2 B3   C0 C1 C2 C3   D0 D1 D2 D3        what is picked

`together` vectors are merged, in registers, and `units` times so many are picked. Fragments with duplicates have two
vectors of words for each that is picked from; half of these words are left out. Without AVX-512 there are no networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.emit.code import Code, Strided, Variable, address_of, vector_code
from tcemu.kernels.emit.lanes import WIDTH, WORD, WORDS, Lanes, whole_vectors_of_words
from tcemu.kernels.host.compiling import njit
from tcemu.kernels.host.memory import reach

Array = npt.NDArray[Any]
#: Words of the header: a whole vector.
HEADER = WIDTH
#: Vectors that are merged at once.
MERGED = (2, 4, 8, 16)


def gather_table(words: Array) -> Array:
    """The table that picks these words."""
    twice = words.size % (2 * WIDTH) == 0 and np.array_equal(words[::2], words[1::2])
    once = words[::2] if twice else words
    network = _network(once.reshape(-1, WIDTH)) if whole_vectors_of_words() and once.size % WIDTH == 0 else None
    if not network:
        return np.concatenate([_header(words.size, 0, 0), words])
    units = len(network.starts) // network.together
    header = _header(words.size, network.together, units, int(network.half.any()), int(twice))
    return np.concatenate([header, network.half, network.stages, network.starts, network.targets])


def is_network(table: Array) -> bool:
    """Whether a table picks by a network."""
    return bool(table[1])


def _header(*numbers: int) -> Array:
    return np.pad(np.array(numbers), (0, HEADER - len(numbers)))


class _Network(NamedTuple):
    """Vectors that are merged at once, where each begins, the words taken, the stages' indices, and where each goes."""

    together: int
    starts: list[int]
    half: Array
    stages: Array
    targets: Array


def words_read(words: Array) -> int:
    """How many words there must be where these are picked: some after the last, if vectors are halves of two."""
    used = np.unique(words)
    halves = not whole_vectors(used) and half_of(used) is not None
    return 2 * used.size if halves else reach(words)


def whole_vectors(used: Array) -> bool:
    """Whether sorted words are all of some vectors from the first one on."""
    return used.size % WIDTH == 0 and np.array_equal(used, np.arange(used.size))


def half_of(words: Array) -> Array | None:
    """The words of two vectors that make one, if sorted words are the same half of every two vectors, else None."""
    if words.size % WIDTH:
        return None
    vectors = words.reshape(-1, WIDTH)
    first: Array = vectors[0]
    alike = (vectors == first + 2 * WIDTH * np.arange(len(vectors))[:, None]).all()
    return first if alike and first[0] >= 0 and first[-1] < 2 * WIDTH else None


def _network(picked: Array) -> _Network | None:
    """The network that makes the vectors `picked`."""
    used = np.unique(picked)
    half = None if whole_vectors(used) else half_of(used)
    if half is None:
        return _of_whole(picked)
    network = _of_whole(np.searchsorted(used, picked))
    return network and network._replace(starts=[2 * start for start in network.starts], half=half)


def _of_whole(picked: Array) -> _Network | None:
    """The network that makes the vectors `picked` from whole vectors.

    None if it does not take every word of some whole vectors once, and equally many of a few of these vectors each, or
    if it does not permute all pairs of vectors alike.
    """
    sources = np.unique(picked // WIDTH)
    whole = np.unique(picked).size == len(sources) * WIDTH == picked.size
    if not whole:
        return None
    taken = np.zeros((len(picked), len(sources)), np.int64)
    np.add.at(taken, (np.arange(len(picked))[:, None], np.searchsorted(sources, picked // WIDTH)), 1)
    # Vectors that take from the same ones are made at once.
    targets = np.lexsort((np.arange(len(picked)), taken.argmax(axis=1)))
    picked, taken = picked[targets], taken[targets]
    # Vectors that give to the same ones are merged; in this order they stand side by side.
    order = sorted(range(len(sources)), key=lambda source: (taken[:, source].argmax(), source))
    together = WIDTH // int(taken.max())
    if together not in MERGED or len(sources) % together:
        return None
    shares = taken[:, order].reshape(len(picked), -1, together)
    if (shares != shares[..., :1]).any():
        return None
    starts = [int(sources[source]) * WIDTH for source in order]
    places = {word: place for place, word in enumerate(picked.ravel().tolist())}
    lanes: list[int] = []
    made = []
    for unit in range(0, len(starts), together):
        vectors = [list(range(start, start + WIDTH)) for start in starts[unit : unit + together]]
        for half in (1 << stage for stage in range(together.bit_length() - 1)):
            groups = [vectors[at : at + half] for at in range(0, together, half)]
            pairs = zip(groups[::2], groups[1::2], strict=True)
            vectors = [words for low, high in pairs for words in _merged(low, high, places, lanes)]
        made += vectors
    every = np.array(lanes).reshape(len(starts) // together, -1, together // 2, 2, WIDTH)
    stages = every[:1, :, :1]
    alike = np.array_equal(made, picked) and (every == stages).all()
    return _Network(together, starts, np.zeros(WIDTH, np.int64), stages.ravel(), targets) if alike else None


def _merged(
    low: list[list[int]], high: list[list[int]], places: Mapping[int, int], lanes: list[int]
) -> list[list[int]]:
    """The words of two groups of vectors, in the order in which they are picked; adds the indices that merge them.

    places: where each word is picked. Merged vector v is made from vector v // 2 of both groups; a word that is in
    neither has no index, and is left out.
    """
    wanted = sorted({word for words in low + high for word in words}, key=places.__getitem__)
    merged = []
    for v in range(2 * len(low)):
        words = wanted[v * WIDTH : (v + 1) * WIDTH]
        lane = {word: place for place, word in enumerate(low[v // 2] + high[v // 2])}
        lanes += [lane.get(word, 0) for word in words]
        merged.append([word for word in words if word in lane])
    return merged


@intrinsic
def _gather_words(typingctx, tiles, words, step, table, into, apart):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, words, step, table, into, apart = args
        code = vector_code(builder)
        words, into = Strided(words, code.number(step)), Strided(into, code.number(apart))
        _pick(code, code.number(tiles), words, table, into)
        return context.get_dummy_value()

    return types.none(types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64), codegen


@njit(cache=True, nogil=True, no_cpython_wrapper=True)
def gather_words(tiles, words, step, table, into, apart):  # type: ignore[no-untyped-def]
    """into[i] = the words that a table picks, for so many tiles.

    words, picks and into are addresses of 32-bit words. step and apart: the bytes from a tile's `words` and `into` to
    those of the next.
    """
    _gather_words(tiles, words, step, table, into, apart)


@cache
def gather_words_at() -> int:
    """The address of the compiled `gather_words`, which kernels call."""
    kinds = types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64
    return address_of(gather_words, *kinds)


def _pick(code: Code, tiles: Lanes, words: Strided, table: Any, into: Strided) -> None:
    """Gather words as a table says."""
    count, together, *more = (code.wide(code.load(table, i, WORD, unit=4)) for i in range(5))
    if not whole_vectors_of_words():
        _gather(code, tiles, words, table, count, into)
        return

    def network() -> None:
        for size in MERGED:
            fits = code.wide(together.compare("==", size))
            code.branch(fits, lambda size=size: _merge(code, tiles, size, more, words, table, into))  # type: ignore[misc]

    code.branch(together, network, lambda: _gather(code, tiles, words, table, count, into))


def _merge(
    code: Code, tiles: Lanes, together: int, numbers: list[Lanes], words: Strided, table: Any, into: Strided
) -> None:
    """Pick by a network that merges so many vectors at once: they stay in registers until that is done.

    numbers: the others of the table's header.
    """
    units, half, twice = numbers
    stages = together.bit_length() - 1
    taken, *indices = (code.load(table, HEADER // WIDTH + i, WORDS, unit=64) for i in range(1 + 2 * stages))
    starts = HEADER + (1 + 2 * stages) * WIDTH

    def loaded(source: Any, place: Lanes) -> Lanes:
        return halved(code, code.load(source, place, WORDS, unit=4), source, place + WIDTH, half, taken)

    with code.loop(0, units) as unit, code.loop(0, tiles) as t:
        source, target, first = words.of(t), into.of(t), unit * together + starts
        places = [code.wide(code.load(table, first + i, WORD, unit=4)) for i in range(together)]
        targets = [code.wide(code.load(table, first + (units * together + i), WORD, unit=4)) for i in range(together)]
        vectors = [loaded(source, place) for place in places]
        for stage in range(stages):
            apart, merged = 1 << stage, []
            for v in range(together):
                pair = v // (2 * apart) * 2 * apart + v % (2 * apart) // 2
                merged.append(code.picked(vectors[pair], vectors[pair + apart], indices[2 * stage + v % 2]))
            vectors = merged

        def once(targets: Any = targets, target: Any = target, vectors: list[Lanes] = vectors) -> None:
            for place, vector in zip(targets, vectors, strict=True):
                code.store(vector, target, place, unit=64)

        def two(targets: Any = targets, target: Any = target, vectors: list[Lanes] = vectors) -> None:
            for (place, vector), part in product(zip(targets, vectors, strict=True), range(2)):
                both = vector.shuffled([(part * WIDTH + lane) // 2 for lane in range(WIDTH)])
                code.store(both, target, place.up(1) + part, unit=64)

        code.branch(twice, two, once)


def halved(code: Code, words: Lanes, source: Any, place: Lanes, half: Lanes, taken: Lanes) -> Lanes:
    """Words, or if `half` is not 0, those that are taken of them and of the next vector, which is at a place."""
    picked = Variable(words)
    code.branch(half, lambda: picked.set(code.picked(words, code.load(source, place, WORDS, unit=4), taken)))
    return picked.get()


def _gather(code: Code, tiles: Lanes, words: Strided, table: Any, count: Lanes, into: Strided) -> None:
    """into[i] = words[picks[HEADER + i]]."""
    vectors = count.down(4)
    with code.loop(0, tiles) as t:
        source, target = words.of(t), into.of(t)
        with code.each(vectors) as v:
            picked = code.load(table, v.up(4) + HEADER, WORDS, unit=4)
            code.store(code.gather(source, picked), target, v, unit=64)
        with code.loop(vectors.up(4), count, unrolled=False) as i:
            at = code.wide(code.load(table, i + HEADER, WORD, unit=4))
            code.store(code.load(source, at, WORD, unit=4), target, i, unit=4)


# ------------------------------------------------------------------------------------- where elements are in registers

#: The number of values of four bits of metadata.
CODES = 16
_WORD, _NOTHING = 0xFFFFFFFF, np.empty(0, np.int64)


class Load(NamedTuple):
    """How an operand is loaded: the fields of OPERAND in `tcemu.kernels.batch.abi`."""

    table: Array
    source: Array
    bits: Array
    vectors: int
    mask: int
    flip: int

    @property
    def tables(self) -> tuple[Array, Array, Array]:
        """Those that the fields gather, source and bits are the addresses of."""
        return self.table, self.source, self.bits


@dataclass(frozen=True)
class Elements:
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
            return Load(gather_table(words), _NOTHING, _NOTHING, vectors // WIDTH, 0, 0)
        picked, source = np.unique(words.reshape(-1, WIDTH), axis=0, return_inverse=True)
        return Load(gather_table(picked.ravel()), source.ravel(), bits, vectors // WIDTH, self.mask, self.flip)


@dataclass(frozen=True)
class Results:
    """Where the results go: `elements` (words, per) are their numbers in C order, `width` bits each."""

    elements: Array
    width: int


@dataclass(frozen=True, eq=False)
class Pruned:
    """Which elements of a sparse A are stored: four bits of metadata for each chunk of a row say it.

    word and bit: where the bits of each chunk are in the words of metadata, (m, chunks). positions: for each legal
    value, those in the chunk, in the order in which the elements are stored. chunk: the elements of a chunk.
    """

    word: Array
    bit: Array
    positions: Mapping[int, Sequence[int]]
    chunk: int

    @property
    def stored(self) -> int:
        """Stored elements of a chunk."""
        return self.chunk // 2

    @property
    def illegal(self) -> int:
        """A word with a bit for each value that is not legal."""
        return sum(1 << code for code in range(CODES) if code not in self.positions)

    def codes_with(self, stored: int, position: int) -> int:
        """A word with a bit for each value that puts a stored element of the chunk at a place."""
        return sum(1 << code for code, positions in self.positions.items() if positions[stored] == position)
