"""Exercises of notebook 08 about metadata: its bits, its lanes, the sparsity selector, the order of the indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu import sparse
from tcemu.course.judges import Crafted, Function, Values
from tcemu.course.record import Exercise, Given
from tcemu.instructions import parse

Array = npt.NDArray[Any]
Wrong = Iterator[tuple[str, npt.ArrayLike]]

MMA_SP = parse("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
_PLAIN = parse("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
E = MMA_SP.fragments["e"]
_PLACES = MMA_SP.facts.pattern.table  # type: ignore[union-attr]
#: The six codes with ascending indices.
CODES = np.flatnonzero(_PLACES[:, 0] >= 0)


def halves(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers that f16 holds exactly, none of them zero."""
    return np.asarray(rng.integers(1, 2049, shape) * rng.choice([-1, 1], shape) / 512, np.float16)


# ---------------------------------------------------------------------------------------------- metadata of a row


def _places(rng: np.random.Generator) -> Mapping[str, Any]:
    """The indices of the stored elements of 8 chunks, ascending."""
    codes = rng.permutation(np.concatenate([CODES, rng.choice(CODES[1:], 2)]))
    return {"places": _PLACES[codes].astype(np.int64)}


def _word(codes: Array) -> np.uint32:
    """Eight groups of four bits, the first in the lowest bits."""
    return np.uint32(sum(int(code) << 4 * group for group, code in enumerate(codes)))


def _metadata_mistakes(given: Given) -> Wrong:
    first, second = given.places.T
    right = first | second << 2
    yield (
        "The index of the first stored element is in the low two bits; you have the two indices swapped.",
        (_word(first << 2 | second)),
    )
    yield "Chunk 0 is in the lowest four bits; you put it in the highest.", _word(right[::-1])
    yield (
        "Four bits for each chunk are two indices of two bits; you set a bit for each element that stays.",
        (_word(1 << first | 1 << second)),
    )
    yield (
        "You set a bit for each element that is pruned; metadata is two indices.",
        (_word(15 ^ (1 << first | 1 << second))),
    )
    yield "Both mistakes: indices swapped, and chunk 0 in the highest bits.", _word((first << 2 | second)[::-1])
    yield (
        "You counted bytes: four bits belong to a chunk, so eight chunks are 32 bits.",
        (np.uint32(sum(int(code) << 8 * group for group, code in enumerate(right)) & 0xFFFFFFFF)),
    )
    for name, codes in (("second", first), ("first", second << 2), ("first", second)):
        yield f"The {name} index of each chunk is missing: four bits hold two of them.", _word(codes)
    yield "The second index is shifted by one bit instead of two.", _word((first | second << 1) & 15)
    yield "This is the metadata of the first chunk only.", np.uint32(right[0])


# ---------------------------------------------------------------------------------------------- the lane


def _lane_and_group(row: Array, chunk: Array, selector: Array) -> Array:
    """By the layout, one call for each case."""
    where = [E.layout.holders(int(f), int(r), int(c))[0] for r, c, f in zip(row, chunk, selector, strict=True)]
    return np.array(where)


class _Chunk(NamedTuple):
    """The chunk that the metadata describes, and the selector that should find it."""

    row: Array
    chunk: Array
    selector: Array


def _placed(lane: Callable[[_Chunk], Array], group: Callable[[_Chunk], Array]) -> Callable[..., Array]:
    return lambda *case: np.stack([lane(_Chunk(*case)), group(_Chunk(*case))], -1)


def _right_lane(at: _Chunk) -> Array:
    return np.asarray(4 * (at.row % 8) + 2 * at.selector + at.chunk // 4)


def _right_group(at: _Chunk) -> Array:
    return np.asarray(4 * (at.row // 8) + at.chunk % 4)


_LANE_MISTAKES = (
    (
        "The selector is the upper bit of lane % 4 and the half of the chunks the lower one; you have them swapped.",
        _placed(lambda at: 4 * (at.row % 8) + at.selector + 2 * (at.chunk // 4), _right_group),
    ),
    (
        "This is the rule of 8-bit elements, where a lane has chunks of one row, and not of rows g and g + 8.",
        _placed(lambda at: 4 * (at.row % 8) + 2 * at.selector + at.row // 8, lambda at: at.chunk),
    ),
    (
        "This is the rule of m16n8k16, where one lane of four has all four chunks of two rows.",
        _placed(lambda at: 4 * (at.row % 8) + at.selector, _right_group),
    ),
    (
        "You counted bits: a group is four bits, so there are eight groups.",
        _placed(_right_lane, lambda at: 4 * _right_group(at)),
    ),
    (
        "The group does not depend on row // 8, but it should: the lower rows are in the upper half of the register.",
        _placed(_right_lane, lambda at: at.chunk % 4),
    ),
    (
        "The lane does not depend on the selector, but it should.",
        _placed(lambda at: 4 * (at.row % 8) + at.chunk // 4, _right_group),
    ),
    (
        "In the group, the chunk is the lower part and row // 8 the upper one; you have them swapped.",
        _placed(_right_lane, lambda at: 2 * (at.chunk % 4) + at.row // 8),
    ),
    (
        "Neighbouring chunks are in one lane; you gave them to the two lanes in turn.",
        _placed(
            lambda at: 4 * (at.row % 8) + 2 * at.selector + at.chunk % 2,
            lambda at: 4 * (at.row // 8) + at.chunk // 2,
        ),
    ),
)


def _about_lane(case: tuple[int, ...], value: tuple[int, ...]) -> str:
    row, chunk, selector = case
    lane, group = value
    says = f"The metadata of row {row}, chunk {chunk} with selector {selector} is not in lane {lane}, group {group}"
    if not (0 <= lane < 32 and 0 <= group < 8):
        return f"{says}: there are 32 lanes with eight groups of four bits each."
    held = E.layout.position(lane, group)
    return f"{says}, which has row {held[1]}, chunk {held[2]} with selector {held[0]}."


# ---------------------------------------------------------------------------------------------- decompressing


def _compressed(rng: np.random.Generator) -> Mapping[str, Any]:
    """Stored values, and metadata for selector 0; the lanes of selector 1 have other metadata."""
    codes = rng.choice(CODES, E.shape).astype(np.uint8)
    return {"stored": halves(rng, 16, 16), "metadata": E.write(codes.reshape(1, -1)).reshape(32)}


def _dense(values: Array, codes: Array, exchanged: bool = False) -> Array:
    """The dense matrix (16, 32) by four bits for each of the (16, 8) chunks."""
    places = _PLACES[codes].astype(np.int64)[..., :: -1 if exchanged else 1]
    dense = np.zeros((16, 8, 4), np.float16)
    np.put_along_axis(dense, places, values.reshape(16, 8, 2), axis=-1)
    return dense.reshape(16, 32)


def _decompress_mistakes(given: Given) -> Wrong:
    both = E.read(given.metadata.reshape(1, 32)).reshape(E.shape)
    codes, values = both[0], given.stored
    yield (
        "You read the lanes of selector 1: selector 0 uses lanes 0 and 1 of each group of four.",
        (_dense(values, both[1])),
    )
    yield (
        "The two elements of each chunk are swapped: the low two bits are the index of the first one.",
        (_dense(values, codes, exchanged=True)),
    )
    yield "Rows g and g + 8 are swapped: row g is in the low 16 bits.", _dense(values, np.roll(codes, 8, axis=0))
    yield (
        "Chunks 0 to 3 and 4 to 7 are swapped: the first four are in the lower lane.",
        (_dense(values, np.roll(codes, 4, axis=1))),
    )
    yield (
        "Chunks 4 to 7 have the metadata of chunks 0 to 3: they are in the next lane.",
        (_dense(values, np.concatenate([codes[:, :4]] * 2, axis=1))),
    )
    yield (
        "Rows 8 to 15 have the metadata of rows 0 to 7: theirs is in the upper 16 bits.",
        (_dense(values, np.concatenate([codes[:8]] * 2, axis=0))),
    )
    yield (
        "Within each lane the chunks are in reverse order: the lowest four bits are the first chunk.",
        (_dense(values, codes.reshape(16, 2, 4)[..., ::-1].reshape(16, 8))),
    )
    row, chunk = np.indices((16, 8))
    yield (
        "This is the rule of 8-bit elements, where a lane has chunks of one row. Here it has four of two rows.",
        (_dense(values, given.metadata[4 * (row % 8) + row // 8] >> 4 * chunk & 15)),
    )
    yield (
        "The stored elements are in the first two places of each chunk; the metadata says where they belong.",
        (np.pad(values.reshape(16, 8, 2), [(0, 0), (0, 0), (0, 2)]).reshape(16, 32)),
    )
    in_lanes = np.array([[given.metadata[row] >> 4 * chunk & 15 for chunk in range(8)] for row in range(16)])
    if (_PLACES[in_lanes] >= 0).all():
        yield (
            "You took the register of lane r for the metadata of row r. Look at the layout of e.",
            (_dense(values, in_lanes)),
        )
    padded = np.zeros((16, 32), np.float16)
    padded[:, :16] = values
    yield "You left the stored values together: they go to the places that the metadata names.", padded


# ---------------------------------------------------------------------------------------------- the order


def _unordered(rng: np.random.Generator) -> Mapping[str, Any]:
    """Values and metadata for the plain form: in some chunks the second index is the smaller one."""
    codes = rng.choice(CODES, E.shape).astype(np.uint8)
    codes[1] = 0
    backwards = rng.random((16, 8)) < 0.4
    backwards[:2, :2] = (True, False), (False, True)
    codes[0] = np.where(backwards, _exchanged(codes[0]), codes[0])
    return {"stored": halves(rng, 16, 16), "metadata": E.write(codes.reshape(1, -1)).reshape(32)}


def _exchanged(codes: Array) -> Array:
    """The two indices of each code swapped."""
    return (codes & 3) << 2 | codes >> 2


def _same_matrix(parts: Mapping[str, Array], given: Given) -> str:
    """Whether the ordered form multiplies by the same matrix, or what is wrong."""
    values, metadata = parts["stored"], parts["metadata"]
    codes = E.read(metadata.reshape(1, 32)).reshape(E.shape)[0]
    before = E.read(given.metadata.reshape(1, 32)).reshape(E.shape)[0]
    backwards = _PLACES[before, 0] < 0
    if (_PLACES[codes, 0] < 0).any():
        row, chunk = np.argwhere(_PLACES[codes, 0] < 0)[0]
        lane, group = E.layout.holders(0, int(row), int(chunk))[0]
        says = f"Bits {4 * group + 3}:{4 * group} of lane {lane} (row {row}, chunk {chunk}) are "
        says += f"{int(codes[row, chunk]):#06b}, which does not ascend."
        if np.array_equal(codes, _exchanged(before)):
            says += " You swapped the indices of every chunk, even of those that were in order."
        elif np.array_equal(metadata, given.metadata):
            says += " The metadata is as it was given."
        return says
    wanted = sparse.decompress(given.stored, given.metadata, _PLAIN)
    if np.array_equal(sparse.decompress(values, metadata, MMA_SP).view(np.uint16), wanted.view(np.uint16)):
        return ""
    ascending = np.where(backwards, _exchanged(before), before)
    if np.array_equal(codes, ascending):
        return _about_stored(values, given.stored, backwards)
    row, chunk = np.argwhere(codes != ascending)[0]
    return f"The metadata of row {row}, chunk {chunk} names different elements than before."


def _about_stored(values: Array, given: Array, backwards: Array) -> str:
    """What is wrong with the stored values (16, 16), if those of the `backwards` chunks are to be swapped."""
    pairs = given.reshape(16, 8, 2)
    exchanged, there = pairs[..., ::-1], backwards[..., None]
    for says, mistake in (
        ("The metadata ascends, but the values are as before: where you swap indices, swap values too.", pairs),
        ("You swapped the values of every chunk: only those whose indices descend are to be swapped.", exchanged),
        ("You swapped the values of the chunks that were in order.", np.where(there, pairs, exchanged)),
    ):
        if np.array_equal(values.reshape(16, 8, 2), mistake):
            return says
    row, chunk = np.argwhere((values.reshape(16, 8, 2) != np.where(there, exchanged, pairs)).any(-1))[0]
    return f"The metadata is right, but the stored values of row {row}, chunk {chunk} are not."


EXERCISES = [
    Exercise(
        "metadata_of_a_row",
        "Pack the metadata of a row",
        "Write `metadata_of_a_row(places)`, which returns the metadata of a row of 8 chunks as one number of 32 bits. "
        "`places` is an array (8, 2): the indices, 0 to 3 and ascending, of the two elements that stay in each chunk. "
        "Chunk 0 is in bits 3:0, chunk 1 in bits 7:4.",
        Values(
            lambda given: _word(given.places[:, 0] | given.places[:, 1] << 2),
            np.uint32,
            _metadata_mistakes,
            what="The metadata",
        ),
        minutes=10,
        only=(),
        know="what the four bits of a chunk mean",
        section="9.7.14.6.1",
        hints=(
            "One chunk first: the index of the first stored element is in the low two bits, the other one above it.",
            "Chunk c is shifted by 4 c bits. Combine the chunks with |, or add them up.",
        ),
        draw=_places,
    ),
    Exercise(
        "lane_of_metadata",
        "Which lane has the metadata?",
        "Write `lane_of_metadata(row, chunk, selector)`, which returns the lane that has the metadata of a chunk, and "
        "the group of four bits in its register (0 is bits 3:0, 7 is bits 31:28), for `mma.sp` m16n8k32 with f16. Row "
        "is 0 to 15, chunk 0 to 7, selector 0 or 1.",
        Function(
            {"row": range(16), "chunk": range(8), "selector": range(2)},
            ("lane", "group"),
            _lane_and_group,
            _LANE_MISTAKES,
            _about_lane,
            "every chunk with both selectors",
            device="lane_of_metadata",
        ),
        minutes=15,
        only=(),
        know="the layout line of the metadata",
        section="9.7.14.6.3",
        hints=(
            'Print the layout of mma_sp.fragments["e"], and read it from the right: (g f s) is the lane.',
            "g is row % 8, and s is which half of the eight chunks.",
            "In (g f s), g counts fours, f twos and s ones. The group is row // 8 and what is left of the chunk.",
        ),
    ),
    Exercise(
        "decompress_a_tile",
        "Decompress a tile",
        "Write `decompress_a_tile(stored, metadata)`, which returns the dense A of `mma.sp` m16n8k32 with f16: float16 "
        "(16, 32). `stored` are the stored elements, float16 (16, 16), in rows; `metadata` are the registers of the 32 "
        "lanes, uint32 (32,). The selector is 0. Elements that are not stored are 0. Do not use `tcemu.sparse`.",
        Values(
            lambda given: sparse.decompress(given.stored, given.metadata, MMA_SP),
            np.float16,
            _decompress_mistakes,
            what="The dense A",
            axes=("row", "column"),
        ),
        minutes=25,
        only=(),
        know="the layout of the metadata, and its four bits",
        section="9.7.14.6.1, 9.7.14.6.3",
        hints=(
            "For each row and chunk, find the lane and the group; the four bits are register >> 4 · group & 15.",
            "The stored elements of chunk c of a row are stored[row, 2 c] and stored[row, 2 c + 1].",
            "The first of them goes to column 4 c + the low two bits, the second to column 4 c + the high two.",
        ),
        points=2,
        draw=_compressed,
    ),
    Exercise(
        "ordered_metadata",
        "Put the indices in order",
        "A tool has packed a matrix for the plain f16 `mma.sp` m16n8k32: in some chunks the first stored element "
        "has the larger index, so `mma.sp::ordered_metadata` refuses it. Write `ordered_metadata(stored, metadata)`, "
        "which returns values and metadata of the same matrix with all indices ascending. `stored` is float16 "
        "(16, 16), `metadata` uint32 (32,) for selector 0; the lanes of selector 1 are 0.",
        Crafted(
            {"stored": ((16, 16), np.float16), "metadata": ((32,), np.uint32)},
            _same_matrix,
            "The ordered form accepts it, and it is the same matrix.",
            "the dense matrix, bit for bit",
        ),
        minutes=30,
        only=(),
        know="the order of the indices, and which lane has them",
        section="9.7.14.6.1",
        hints=(
            "Go through rows and chunks. Lane, group and the four bits are those of the exercise before.",
            "If the low two bits are larger than the high two, swap them, and swap the two stored values.",
            "Swap a code by moving its low two bits up and its high two bits down. Clear the old four bits first.",
        ),
        points=2,
        draw=_unordered,
    ),
]
