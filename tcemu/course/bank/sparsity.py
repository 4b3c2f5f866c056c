"""Exercises of notebook 08: pruning, metadata, the sparsity selector, and a sparse product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu import sparse
from tcemu.course.judges import Crafted, Function, Kernel, Values
from tcemu.course.record import Evidence, Exercise, Given
from tcemu.instructions import parse, run

Array = npt.NDArray[Any]
Wrong = Iterator[tuple[str, npt.ArrayLike]]

_MMA_SP = parse("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
_PLAIN = parse("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
_E = _MMA_SP.fragments["e"]
_PLACES = _MMA_SP.facts.pattern.table  # type: ignore[union-attr]
#: The six codes with ascending indices.
_CODES = np.flatnonzero(_PLACES[:, 0] >= 0)


def _halves(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers that f16 holds exactly, none of them zero."""
    return np.asarray(rng.integers(1, 2049, shape) * rng.choice([-1, 1], shape) / 512, np.float16)


# ---------------------------------------------------------------------------------------------- pruning


def _row(rng: np.random.Generator) -> Mapping[str, Any]:
    """Magnitudes among which there are ties, and large negative numbers."""
    row = rng.choice([-3.0, -2.0, -1.0, -0.5, 0.25, 1.0, 2.0, 2.5], (8, 4))
    row[3], row[6] = (-2, 1, 2, 2), (-3, 1, 0.5, 0.25)
    return {"row": row.reshape(32).astype(np.float32)}


def _stays(row: Array, weight: Array, count: int = 2) -> Array:
    """The row with the elements of each chunk that weigh most, two by default; of equal ones the first."""
    order = np.argsort(-weight.reshape(-1, 4), axis=1, kind="stable")[:, :count]
    stays = np.zeros((len(row) // 4, 4), bool)
    np.put_along_axis(stays, order, values=True, axis=1)
    return np.where(stays.reshape(-1), row, np.float32(0))


class _Row(Values):
    """Judges a row in which the sign of a zero does not matter: a product with a mask leaves −0."""

    def collect(self, answer: Any, given: Given) -> Evidence:
        """The row, with +0 for each zero."""
        return {name: array + np.float32(0) for name, array in super().collect(answer, given).items()}


def _prune_mistakes(given: Given) -> Wrong:
    row, size = given.row, np.abs(given.row)
    yield "You compared the values and not their magnitudes: −3 is larger than 1.", _stays(row, row)
    yield "You kept the two smallest elements of each chunk.", _stays(row, -size)
    last = _stays(row.reshape(-1, 4)[:, ::-1].reshape(-1), size.reshape(-1, 4)[:, ::-1].reshape(-1))
    yield "Of two elements of equal magnitude the first one stays; you kept the last one.", (
        last.reshape(-1, 4)[:, ::-1].reshape(-1)
    )
    yield "You kept the largest half of the whole row. Each chunk of four keeps two.", (
        np.where(size >= np.sort(size)[-len(row) // 2], row, 0)
    )
    yield "You pruned pairs, as for 4-bit elements: 2:4 is about single elements.", sparse.prune(row, "4:8")
    yield "You kept one of every two elements: that is the pattern of tf32.", sparse.prune(row, "1:2")
    yield "These are the elements that have to go: you exchanged those that stay with the zeros.", (
        np.where(sparse.prune(row, "2:4") == 0, row, 0)
    )
    yield "You kept the first two elements of each chunk, whatever their size.", (
        np.where(np.arange(len(row)) % 4 < 2, row, np.float32(0))
    )
    yield "You kept one element of each chunk of four: 2:4 keeps two.", _stays(row, size, 1)


# ---------------------------------------------------------------------------------------------- metadata of a row


def _places(rng: np.random.Generator) -> Mapping[str, Any]:
    """The indices of the stored elements of 8 chunks, ascending."""
    codes = rng.permutation(np.concatenate([_CODES, rng.choice(_CODES[1:], 2)]))
    return {"places": _PLACES[codes].astype(np.int64)}


def _word(codes: Array) -> np.uint32:
    """Eight groups of four bits, the first in the lowest bits."""
    return np.uint32(sum(int(code) << 4 * group for group, code in enumerate(codes)))


def _metadata_mistakes(given: Given) -> Wrong:
    first, second = given.places.T
    right = first | second << 2
    yield "The index of the first stored element is in the low two bits; you have the two indices exchanged.", (
        _word(first << 2 | second)
    )
    yield "Chunk 0 is in the lowest four bits; you put it in the highest.", _word(right[::-1])
    yield "Four bits for each chunk are two indices of two bits; you set a bit for each element that stays.", (
        _word(1 << first | 1 << second)
    )
    yield "You set a bit for each element that is pruned; metadata is two indices.", (
        _word(15 ^ (1 << first | 1 << second))
    )
    yield "Both mistakes: indices exchanged, and chunk 0 in the highest bits.", _word((first << 2 | second)[::-1])
    yield "You counted bytes: four bits belong to a chunk, so eight chunks are 32 bits.", (
        np.uint32(sum(int(code) << 8 * group for group, code in enumerate(right)) & 0xFFFFFFFF)
    )
    yield "The second index is shifted by one bit instead of two.", _word((first | second << 1) & 15)
    yield "This is the metadata of the first chunk only.", np.uint32(right[0])


# ---------------------------------------------------------------------------------------------- the lane


def _lane_and_group(row: Array, chunk: Array, selector: Array) -> Array:
    """By the layout, one call for each case."""
    where = [_E.layout.holders(int(f), int(r), int(c))[0] for r, c, f in zip(row, chunk, selector, strict=True)]
    return np.array(where)


class _Chunk(NamedTuple):
    """Which chunk the metadata is about, and the selector that is to find it."""

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
        "The selector is the upper bit of lane % 4 and the half of the chunks the lower one; you have them exchanged.",
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
        "In the group, the chunk is the lower part and row // 8 the upper one; you have them exchanged.",
        _placed(_right_lane, lambda at: 2 * (at.chunk % 4) + at.row // 8),
    ),
    (
        "Neighbouring chunks are in one lane; you dealt them out to the two lanes in turn.",
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
    held = _E.layout.position(lane, group)
    return f"{says}, which has row {held[1]}, chunk {held[2]} with selector {held[0]}."


# ---------------------------------------------------------------------------------------------- decompressing


def _compressed(rng: np.random.Generator) -> Mapping[str, Any]:
    """Stored values, and metadata for selector 0; the lanes of selector 1 have other metadata."""
    codes = rng.choice(_CODES, _E.shape).astype(np.uint8)
    return {"stored": _halves(rng, 16, 16), "metadata": _E.write(codes.reshape(1, -1)).reshape(32)}


def _dense(values: Array, codes: Array, exchanged: bool = False) -> Array:
    """The dense matrix (16, 32) by four bits for each of the (16, 8) chunks."""
    places = _PLACES[codes].astype(np.int64)[..., :: -1 if exchanged else 1]
    dense = np.zeros((16, 8, 4), np.float16)
    np.put_along_axis(dense, places, values.reshape(16, 8, 2), axis=-1)
    return dense.reshape(16, 32)


def _decompress_mistakes(given: Given) -> Wrong:
    both = _E.read(given.metadata.reshape(1, 32)).reshape(_E.shape)
    codes, values = both[0], given.stored
    yield "You read the lanes of selector 1: selector 0 uses lanes 0 and 1 of each group of four.", (
        _dense(values, both[1])
    )
    yield "The two elements of each chunk are exchanged: the low two bits are the index of the first one.", (
        _dense(values, codes, exchanged=True)
    )
    yield "Rows g and g + 8 are exchanged: row g is in the low 16 bits.", _dense(values, np.roll(codes, 8, axis=0))
    yield "Chunks 0 to 3 and 4 to 7 are exchanged: the first four are in the lower lane.", (
        _dense(values, np.roll(codes, 4, axis=1))
    )
    yield "Chunks 4 to 7 have the metadata of chunks 0 to 3: they are in the next lane.", (
        _dense(values, np.concatenate([codes[:, :4]] * 2, axis=1))
    )
    yield "Rows 8 to 15 have the metadata of rows 0 to 7: theirs is in the upper 16 bits.", (
        _dense(values, np.concatenate([codes[:8]] * 2, axis=0))
    )
    yield "Within each lane the chunks are in reverse order: the lowest four bits are the first chunk.", (
        _dense(values, codes.reshape(16, 2, 4)[..., ::-1].reshape(16, 8))
    )
    row, chunk = np.indices((16, 8))
    yield "This is the rule of 8-bit elements, where a lane has chunks of one row. Here it has four of two rows.", (
        _dense(values, given.metadata[4 * (row % 8) + row // 8] >> 4 * chunk & 15)
    )
    yield "The stored elements are in the first two places of each chunk; the metadata says where they belong.", (
        np.pad(values.reshape(16, 8, 2), [(0, 0), (0, 0), (0, 2)]).reshape(16, 32)
    )
    in_lanes = np.array([[given.metadata[row] >> 4 * chunk & 15 for chunk in range(8)] for row in range(16)])
    if (_PLACES[in_lanes] >= 0).all():
        yield "You took the register of lane r for the metadata of row r. Look at the layout of e.", (
            _dense(values, in_lanes)
        )
    padded = np.zeros((16, 32), np.float16)
    padded[:, :16] = values
    yield "You left the stored values together: they go to the places that the metadata names.", padded


# ---------------------------------------------------------------------------------------------- the order


def _unordered(rng: np.random.Generator) -> Mapping[str, Any]:
    """Values and metadata for the plain form: in some chunks the second index is the smaller one."""
    codes = rng.choice(_CODES, _E.shape).astype(np.uint8)
    codes[1] = 0
    backwards = rng.random((16, 8)) < 0.4
    backwards[:2, :2] = (True, False), (False, True)
    codes[0] = np.where(backwards, _exchanged(codes[0]), codes[0])
    return {"stored": _halves(rng, 16, 16), "metadata": _E.write(codes.reshape(1, -1)).reshape(32)}


def _exchanged(codes: Array) -> Array:
    """The two indices of each code exchanged."""
    return (codes & 3) << 2 | codes >> 2


def _same_matrix(parts: Mapping[str, Array], given: Given) -> str:
    """Whether the ordered form multiplies by the same matrix, or what is wrong."""
    values, metadata = parts["stored"], parts["metadata"]
    codes = _E.read(metadata.reshape(1, 32)).reshape(_E.shape)[0]
    before = _E.read(given.metadata.reshape(1, 32)).reshape(_E.shape)[0]
    backwards = _PLACES[before, 0] < 0
    if (_PLACES[codes, 0] < 0).any():
        row, chunk = np.argwhere(_PLACES[codes, 0] < 0)[0]
        lane, group = _E.layout.holders(0, int(row), int(chunk))[0]
        says = f"Bits {4 * group + 3}:{4 * group} of lane {lane} (row {row}, chunk {chunk}) are "
        says += f"{int(codes[row, chunk]):#06b}, which does not ascend."
        if np.array_equal(codes, _exchanged(before)):
            says += " You exchanged the indices of every chunk, also of those that were in order."
        elif np.array_equal(metadata, given.metadata):
            says += " The metadata is as it was given."
        return says
    wanted = sparse.decompress(given.stored, given.metadata, _PLAIN)
    if np.array_equal(sparse.decompress(values, metadata, _MMA_SP).view(np.uint16), wanted.view(np.uint16)):
        return ""
    ascending = np.where(backwards, _exchanged(before), before)
    if np.array_equal(codes, ascending):
        return _about_stored(values, given.stored, backwards)
    row, chunk = np.argwhere(codes != ascending)[0]
    return f"The metadata of row {row}, chunk {chunk} names other elements than before."


def _about_stored(values: Array, given: Array, backwards: Array) -> str:
    """What is wrong with the stored values (16, 16), if those of the `backwards` chunks are to be exchanged."""
    pairs = given.reshape(16, 8, 2)
    exchanged, there = pairs[..., ::-1], backwards[..., None]
    for says, mistake in (
        ("The metadata ascends, but the values are as before: where you exchange indices, exchange values too.", pairs),
        ("You exchanged the values of every chunk: only those whose indices descend are to be exchanged.", exchanged),
        ("You exchanged the values of the chunks that were in order.", np.where(there, pairs, exchanged)),
    ):
        if np.array_equal(values.reshape(16, 8, 2), mistake):
            return says
    row, chunk = np.argwhere((values.reshape(16, 8, 2) != np.where(there, exchanged, pairs)).any(-1))[0]
    return f"The metadata is right, but the stored values of row {row}, chunk {chunk} are not."


# ---------------------------------------------------------------------------------------------- a kernel


def _layer(rng: np.random.Generator) -> Mapping[str, Any]:
    """A pruned A of 16 × 128, stored; its metadata by rows, a word for 32 columns; and B."""
    codes = rng.choice(_CODES, (16, 4, 8))
    words = np.zeros((16, 4), np.uint32)
    for group in range(8):
        words |= (codes[..., group] << 4 * group).astype(np.uint32)
    return {"stored": _halves(rng, 16, 64), "words": words, "B": _halves(rng, 128, 8)}


def _arguments(given: Given) -> Mapping[str, Any]:
    """B lies in memory by columns, and d is filled with what no sum gives."""
    b = np.ascontiguousarray(given.B.T)
    return {"stored": given.stored, "words": given.words, "b": b, "d": np.full((16, 8), -1e9, np.float32)}


def _registers_of_metadata(words: Array, step: int) -> Array:
    """Metadata for one step and selector 0, from words (16, 4)."""
    codes = np.zeros(_E.shape, np.uint8)
    codes[0] = words[:, [step]] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    return np.asarray(_E.write(codes.reshape(1, -1)).reshape(32))


def _product(
    given: Given,
    metadata: Callable[[Array, int], Array] = _registers_of_metadata,
    steps: tuple[int, ...] = (0, 1, 2, 3),
    a: tuple[int, ...] = (0, 1, 2, 3),
    b: tuple[int, ...] = (0, 1, 2, 3),
    chained: bool = True,
) -> Array:
    """D, or what becomes of it with other metadata, steps or registers."""
    total = np.zeros((32, 4), np.uint32)
    for step in steps:
        left = _MMA_SP.fragments["a"].pack(np.ascontiguousarray(given.stored[:, 16 * step : 16 * step + 16]))
        right = _MMA_SP.fragments["b"].pack(given.B[32 * step : 32 * step + 32])
        start = total if chained else np.zeros_like(total)
        total = run(_MMA_SP, left[:, a], right[:, b], start, metadata(given.words, step), 0)
    return np.asarray(_MMA_SP.fragments["d"].unpack(total))


def _kernel_mistakes(given: Given) -> Wrong:
    yield "Each step starts from zero: pass the D of one step as the C of the next.", _product(given, chained=False)
    yield "Only the first 32 of k are multiplied.", _product(given, steps=(0,))
    yield "All steps use the metadata of the first one.", (
        _product(given, lambda words, _: _registers_of_metadata(words, 0))
    )
    yield "The metadata of rows g and g + 8 is exchanged: row g is in the low 16 bits.", (
        _product(given, lambda words, step: _registers_of_metadata(np.roll(words, 8, axis=0), step))
    )
    yield "The metadata of chunks 0 to 3 and 4 to 7 is exchanged: the even lanes have the first four.", (
        _product(given, lambda words, step: _registers_of_metadata(words << 16 | words >> 16, step))
    )
    lane = np.arange(32)
    yield "Every lane passes the word of row lane // 4. It has four chunks of that row and four of the row 8 below.", (
        _product(given, lambda words, step: words[lane // 4, step])
    )
    yield "Every lane passes the word of row lane // 4 or lane // 4 + 8: that is the layout for 8-bit elements.", (
        _product(given, lambda words, step: words[lane // 4 + 8 * (lane % 2), step])
    )
    yield "Even and odd lanes pass the same metadata: odd lanes have chunks 4 to 7, the upper 16 bits of a word.", (
        _product(given, lambda words, step: _registers_of_metadata(words & 0xFFFF | words << 16, step))
    )
    yield "a1 and a2 are exchanged: a1 is 8 rows further down, and a2 is 8 stored columns further on.", (
        _product(given, a=(0, 2, 1, 3))
    )
    yield "The registers of B are in another order: b1 is 8 further along k, b2 16, b3 24.", (
        _product(given, b=(0, 2, 1, 3))
    )
    untouched = _product(given)
    untouched[8:] = -1e9
    yield "Rows 8 to 15 are never stored: d2 and d3 are 8 rows below d0 and d1.", untouched


EXERCISES = [
    Exercise(
        "prune_a_row",
        "Prune a row",
        "Write `prune_a_row(row)`, which returns the row with 2:4 sparsity. `row` is a float32 array whose length is a "
        "multiple of 4; of each chunk of four, the two elements of largest magnitude stay, and the others become 0. Of "
        "elements of equal magnitude, the first stays. Use numpy, not `tcemu.sparse`.",
        _Row(lambda given: sparse.prune(given.row, "2:4"), np.float32, _prune_mistakes, what="The row",
             axes=("column",)),
        minutes=5,
        know="the 2:4 pattern of notebook 08",
        section="9.7.14.6.1",
        hints=(
            "Reshape the row to (chunks, 4). Then every chunk is a row of its own.",
            "np.argsort orders each chunk by its magnitudes. With kind='stable', equal ones keep their order.",
            "Sort by the negative magnitude, take two places of each chunk, and set a mask with np.put_along_axis.",
        ),
        draw=_row,
    ),
    Exercise(
        "metadata_of_a_row",
        "Pack the metadata of a row",
        "Write `metadata_of_a_row(places)`, which returns the metadata of a row of 8 chunks as one number of 32 bits. "
        "`places` is an array (8, 2): the indices, 0 to 3 and ascending, of the two elements that stay in each chunk. "
        "Chunk 0 is in bits 3:0, chunk 1 in bits 7:4.",
        Values(lambda given: _word(given.places[:, 0] | given.places[:, 1] << 2), np.uint32, _metadata_mistakes,
               what="The metadata"),
        minutes=10,
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
            {"row": range(16), "chunk": range(8), "selector": range(2)}, ("lane", "group"), _lane_and_group,
            _LANE_MISTAKES, _about_lane, "every chunk with both selectors",
        ),
        minutes=15,
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
        "lanes, uint32 (32,). The selector is 0. Elements that are not stored are 0. Do without `tcemu.sparse`.",
        Values(lambda given: sparse.decompress(given.stored, given.metadata, _MMA_SP), np.float16, _decompress_mistakes,
               what="The dense A", axes=("row", "column")),
        minutes=25,
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
        "A tool has packed a matrix for the plain `mma.sp` m16n8k32 of f16: in some chunks the first stored element "
        "has the larger index, so `mma.sp::ordered_metadata` refuses it. Write `ordered_metadata(stored, metadata)`, "
        "which returns values and metadata of the same matrix with all indices ascending. `stored` is float16 "
        "(16, 16), `metadata` uint32 (32,) for selector 0; the lanes of selector 1 are 0.",
        Crafted(
            {"stored": ((16, 16), np.float16), "metadata": ((32,), np.uint32)}, _same_matrix,
            "The ordered form accepts it, and it is the same matrix.", "the dense matrix, bit for bit",
        ),
        minutes=30,
        know="the order of the indices, and which lane has them",
        section="9.7.14.6.1",
        hints=(
            "Go through rows and chunks. Lane, group and the four bits are those of the exercise before.",
            "If the low two bits are larger than the high two, exchange them, and exchange the two stored values.",
            "Exchange a code by moving its low two bits up and its high two bits down. Clear the old four bits first.",
        ),
        points=2,
        draw=_unordered,
    ),
    Exercise(
        "sparse_tile",
        "A sparse product of 16 × 8 × 128",
        "Write the kernel `sparse_tile(warp, stored, words, b, d)`, which one warp executes: D = A B with `mma.sp` "
        "m16n8k32 of f16, in four steps along k with ascending k. `stored` points to the stored A, float16 (16, 64) in "
        "rows; `b` to B by columns, float16 (8, 128); `d` to float32 (16, 8). `words` is the metadata by rows, uint32 "
        "(16, 4): `words[row][step]` has the 8 chunks of a row for one step, chunk 0 in its lowest four bits. The "
        "lanes have to put together what the instruction wants.",
        Kernel(
            _arguments, "d", _product, {"block": 32}, _kernel_mistakes,
            needed=("mma.sp",), how="every bit of D, and the sanitizer's reports",
        ),
        minutes=45,
        know="kernels of notebook 04, and the layout of the metadata",
        section="9.7.14.6.3",
        hints=(
            "A has the dense map of a 16 × 16 matrix, at stored columns 16 · step; B the dense map of 32 × 8.",
            "With selector 0, lane 4 g + s has chunks 4 s to 4 s + 3 of rows g and g + 8, row g in the low 16 bits.",
            "Load the words of both rows, shift each right by 16 s, keep 16 bits, and combine them.",
            "Metadata is one register: warp.run(mma_sp, a, b, c, e, 0), where e has a number for each lane.",
        ),
        points=3,
        draw=_layer,
    ),
]
