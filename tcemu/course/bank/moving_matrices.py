"""Exercises of notebook 05: transposes, stmatrix and movmatrix, and shared memory without bank conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Crafted, Function, Kernel
from tcemu.course.judges.costs import NarrowStores
from tcemu.course.judges.placement import Placement
from tcemu.course.record import Exercise, Given
from tcemu.instructions import parse, run
from tcemu.sanitizer.rules import RULES
from tcemu.timing.wavefronts import wavefronts

Array = npt.NDArray[Any]
Wrong = Iterable[tuple[str, npt.ArrayLike]]
_MMA = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
_X1 = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
_X1_TRANS = "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16"

# ---------------------------------------------------------------------------------------------- bytes and .trans


def _bytes(opcode: str) -> Callable[..., Array]:
    """(row, column) of each byte after an ldmatrix of a matrix of 8 rows of 16 bytes, all of them different."""
    rows = np.arange(128, dtype=np.uint8)
    held = run(opcode, 16 * (np.arange(32) % 8), shared=rows).view(np.uint8)

    def what(lane: Array, byte: Array) -> Array:
        return np.stack(np.divmod(held[lane, byte].astype(np.int64), 16), -1)

    return what


_NOT_BYTES = "This would be the transpose of 8-bit elements. .trans moves 16-bit elements: two bytes stay side by side."
_TRANS_MISTAKES: tuple[tuple[str, Callable[..., Array]], ...] = (
    (_NOT_BYTES, lambda lane, byte: np.stack([4 * (lane % 4) + byte, lane // 4], -1) % np.array([8, 16])),
    (_NOT_BYTES, lambda lane, byte: np.stack([4 * (lane % 4) + byte, lane // 4], -1)),
    ("This is what ldmatrix gives without .trans.", _bytes(_X1)),
    (
        "The two bytes of a 16-bit element are swapped.",
        lambda lane, byte: np.stack([2 * (lane % 4) + byte // 2, 2 * (lane // 4) + 1 - byte % 2], -1),
    ),
    (
        "You took two neighbouring bytes from different rows: bytes 0 and 1 are one 16-bit element.",
        lambda lane, byte: np.stack([2 * (lane % 4) + byte % 2, 2 * (lane // 4) + byte // 2], -1),
    ),
)

# ---------------------------------------------------------------------------------------------- padding, swizzle


def _padding(parts: Mapping[str, Array], given: Given) -> str:
    stride, row = parts["padded_row"].item(), int(given.row_bytes)
    if stride < row:
        return f"A row has {row} bytes, so rows {stride} bytes apart overlap."
    if stride % 16:
        return f"Row 1 would start at {stride}, which is not a multiple of 16: ldmatrix faults."
    count = int(wavefronts(stride * (np.arange(32) % 8), _X1).count)
    if count > 1:
        return f"With {stride} bytes from row to row, 8 rows take {count} wavefronts: some of them share their banks."
    least = next(each for each in range(row, stride + 16, 16) if _free(each))
    if least < stride:
        return f"{stride} bytes have no conflict, but they waste memory: a smaller distance has none either."
    return ""


def _free(stride: int) -> bool:
    return int(wavefronts(stride * (np.arange(32) % 8), _X1).count) == 1


# ---------------------------------------------------------------------------------------------- kernels


def _bits(rng: np.random.Generator, *shape: int) -> Array:
    """f16 with positive values that all differ from 0, so that nothing that is missing goes unnoticed."""
    return (rng.integers(1, 2048, shape) / 64).astype(np.float16)


def _transposed_mistakes(given: Given) -> Wrong:
    x = given.X
    blocks = x.reshape(2, 8, 2, 8)
    yield (
        "Each 8 × 8 matrix is transposed, but the two off the diagonal must change places as well.",
        (blocks.transpose(0, 3, 2, 1).reshape(16, 16)),
    )
    yield (
        "The 8 × 8 matrices change places, but none of them is transposed.",
        (blocks.transpose(2, 1, 0, 3).reshape(16, 16)),
    )
    yield "This is X itself.", x
    pairs = x.T.reshape(16, 8, 2)[..., ::-1].reshape(16, 16)
    yield "The two halves of each register are swapped.", pairs


def _tile_fragments(given: Given) -> Array:
    """(4, 32, 4): registers a0 to a3 of every lane, for four steps along k."""
    return np.stack([_MMA.fragments["a"].pack(given.A[:, k : k + 16]) for k in range(0, 64, 16)])


def _tile_mistakes(given: Given) -> Wrong:
    right = _tile_fragments(given)
    yield (
        "a1 and a2 are swapped: lanes 8 to 15 give the rows 8 to 15, and lanes 16 to 31 the units to the right.",
        (right[:, :, [0, 2, 1, 3]]),
    )
    yield "All four steps load the same 16 columns.", right[[0, 0, 0, 0]]
    shifted = np.roll(right, 1, axis=0)
    yield "The steps are in another order.", shifted


def _results(given: Given) -> Array:
    """(16, 32) f16: four accumulators side by side."""
    tiles = [_MMA.fragments["d"].unpack(each.view(np.uint32)) for each in given.C]
    return np.hstack(tiles).astype(np.float16)


def _result_mistakes(given: Given) -> Wrong:
    right = _results(given)
    blocks = right.reshape(2, 8, 2, 2, 8)
    yield (
        "Matrices 1 and 2 of each stmatrix are swapped: one is 8 rows down, the other 8 columns to the right.",
        (blocks.transpose(3, 1, 2, 0, 4).reshape(16, 32)),
    )
    yield (
        "The two halves of each register are swapped: the lower column is in the low half.",
        (right.reshape(16, 16, 2)[..., ::-1].reshape(16, 32)),
    )
    yield "Each 8 × 8 matrix is transposed: leave out .trans.", blocks.transpose(0, 4, 2, 3, 1).reshape(16, 32)
    yield "You kept the upper half of each f32. That is a bf16, not an f16.", (
        np.hstack([_MMA.fragments["d"].unpack(each.view(np.uint32)) for each in given.C]).view(np.uint16)[:, 1::2]
        .view(np.float16)
    )  # fmt: skip
    swapped = right.copy()
    swapped[:8], swapped[8:] = right[8:], right[:8]
    yield "Rows 0 to 7 and rows 8 to 15 are swapped: c0 and c1 are 8 rows above c2 and c3.", swapped


_BROKEN = """
```python
def mended_tile(warp, a, d):
    stride = 136  # 128 bytes and some padding
    for piece in range(4):
        unit = warp.laneid + 32 * piece  # 16 rows of 8 units of 16 bytes
        row, column = unit // 8, unit % 8
        warp.st_shared(stride * row + 16 * column, warp.ld_global(a.at(row, 8 * column), "v4.b32"), "v4.b32")
    for step in range(4):
        rows = stride * (warp.laneid % 16) + 16 * (2 * step + warp.laneid // 16)
        held = warp.run("ldmatrix.sync.aligned.m8n8.x4.shared.b16", rows)
        warp.st_global(d.at(step, warp.laneid, 0), held, "v4.b32")
```
"""


def _loaded(x: Array, trans: str) -> Array:
    """What ldmatrix loads from 8 rows of 16 bytes."""
    load = f"ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16"
    return np.asarray(run(load, 16 * (np.arange(32) % 8), shared=x.view(np.uint8)))[:, 0]


EXERCISES = [
    Exercise(
        "padded_row",
        "How much padding?",
        'The rows of a tile have `given("padded_row").row_bytes` bytes. Give `padded_row`, the smallest distance in '
        "bytes from one row to the next for which ldmatrix reads any 8 consecutive rows without a bank conflict.",
        Crafted(
            {"padded_row": ((), np.int64)},
            _padding,
            "No conflict, and no byte more than needed.",
            "the wavefronts of ldmatrix",
        ),
        minutes=5,
        know="32 banks of 4 bytes, and that ldmatrix reads 8 rows of 16 bytes at a time",
        section="9.7.14.5.15",
        hints=(
            "Eight rows of 16 bytes are 128 bytes: each bank once, if they all fall into different units of a line.",
            "Row r starts at r times the distance. Only the remainder modulo 128 matters.",
            "The distance is a multiple of 16, because a row's address is. Try them one by one with tcemu.wavefronts.",
        ),
        draw=lambda rng: {"row_bytes": int(rng.choice([64, 128, 192, 256, 384]))},
    ),
    Exercise(
        "bytes_after_trans",
        "What .trans does to bytes",
        "Eight rows of 16 bytes are loaded by `ldmatrix` m8n8.x1.trans.b16, but they hold 8-bit elements: 8 rows, 16 "
        "columns. Write `bytes_after_trans(lane, byte)`, which returns the row and the column of the element that "
        "byte 0 to 3 of the lane's register holds.",
        Function(
            {"lane": range(32), "byte": range(4)},
            ("row", "column"),
            _bytes(_X1_TRANS),
            _TRANS_MISTAKES,
            how="every byte of every lane",
        ),
        minutes=10,
        only=(),
        know="what .trans transposes",
        section="9.7.14.5.15",
        hints=(
            "The instruction knows only 16-bit elements: row r has eight of them. Find those first.",
            "Half j of the register of lane 4 g + t is the 16-bit element in row 2 t + j and column g.",
            "A 16-bit element in column g consists of the bytes 2 g and 2 g + 1 of its row, in this order.",
        ),
    ),
    Exercise(
        "place_of_unit",
        "A swizzle for short rows",
        "A tile has 32 rows of 32 bytes: 2 units of 16 bytes. Write `place_of_unit(row, unit)`, the address at which a "
        "unit is stored, so that every unit has its own place within the tile's 1024 bytes, `ldmatrix` reads one unit "
        "of 8 rows (0 to 7, 8 to 15, ...) without conflicts, and so do 16-byte stores of whole rows.",
        Placement(rows=32, units=2, size=1024),
        minutes=15,
        only=(),
        know="the XOR swizzles of longer rows, from the notebook",
        section="9.7.14.5.15",
        hints=(
            "Four rows share a line of 128 bytes. Which of the rows 0 to 7 start in the same bank?",
            "XOR the unit with 0 or 1. Rows that start in the same bank need different numbers.",
            "Draw it: show.shared_rows takes an array (rows, units) of your addresses.",
        ),
        points=2,
        best={"wavefronts": 16},
    ),
    Exercise(
        "transpose_16",
        "A transpose without shared memory",
        "Write a kernel `transpose_16(warp, x, y)` for one warp: `y` gets the transpose of `x`, both f16 (16, 16). "
        "Load x as four 8 × 8 matrices, a register for each, transpose them with `movmatrix`, and store whole "
        "registers of 32 bits. Shared memory is not allowed.",
        Kernel(
            lambda given: {"x": given.X, "y": np.zeros((16, 16), np.float16)},
            "y",
            lambda given: given.X.T,
            {"shared": 512},
            _transposed_mistakes,
            needed=("movmatrix",),
            forbidden=("ld.shared", "st.shared", "ldmatrix", "stmatrix", "shfl"),
        ),
        minutes=20,
        know="movmatrix, warp.ld_global and warp.st_global",
        section="9.7.14.5.17",
        hints=(
            "Lane 4 g + t holds two neighbours of row g: 32 bits at x.at(row, column), as in the fragment of A.",
            "movmatrix transposes one 8 × 8 matrix. A transpose of 16 × 16 also moves two of the four.",
            "What was loaded from the upper right is stored in the lower left.",
        ),
        points=2,
        draw=lambda rng: {"X": _bits(rng, 16, 16)},
    ),
    Exercise(
        "mended_tile",
        "Repair a tile",
        "This kernel copies a tile of A (16, 64) to shared memory, loads the fragments of four steps along k and "
        "stores them in `d` (4, 32, 4). It was written in a hurry: first it faults; once that is fixed, "
        f"it races; and once it is right, it is slow.\n{_BROKEN}\nWrite `mended_tile(warp, a, d)` with at most 32 "
        "wavefronts of shared memory in all. There are 2560 bytes of shared memory.",
        Kernel(
            lambda given: {"a": given.A, "d": np.zeros((4, 32, 4), np.uint32)},
            "d",
            _tile_fragments,
            {"shared": 2560},
            _tile_mistakes,
            needed=("ldmatrix",),
            counts=("wavefronts",),
            limits={"wavefronts": 32},
            partial=False,
        ),
        minutes=20,
        know="alignment, padding and bar.warp.sync",
        section="9.7.14.5.15",
        hints=(
            "Run the kernel with tcemu.launch(..., shared=2560, sanitizer='collect') and read the first report.",
            "ldmatrix reads what other lanes have stored. What must be between the stores and the loads?",
            "If the rows are 128 bytes apart, eight rows share four banks. What about 16 bytes more, or a swizzle?",
        ),
        points=2,
        draw=lambda rng: {"A": _bits(rng, 16, 64)},
        best={"wavefronts": 32},
    ),
    Exercise(
        "stmatrix_epilogue",
        "An epilogue with stmatrix",
        "A warp has four accumulators of m16n8k16 side by side, a result of 16 × 32. Write a kernel "
        "`stmatrix_epilogue(warp, c, out)`: load them from `c`, f32 (4, 32, 4), where c[n][lane] are the registers "
        "of accumulator n, round them to f16, store them to shared memory with two `stmatrix` .x4, and then copy the "
        "rows to `out`, f16 (16, 32), with stores of 16 bytes (`v4.b32`). There are 2048 bytes of shared memory, and "
        "at most 24 wavefronts are allowed.",
        Kernel(
            lambda given: {"c": given.C, "out": np.zeros((16, 32), np.float16)},
            "out",
            _results,
            {"shared": 2048},
            _result_mistakes,
            needed=("stmatrix",),
            observers=lambda: (NarrowStores(),),
            scores=lambda _, watching: {"stores of fewer than 16 bytes": watching[0].total},
            counts=("wavefronts",),
            limits={"wavefronts": 24, "stores of fewer than 16 bytes": 0},
        ),
        minutes=35,
        know="d_as_a or the layout of D, place_of_unit, and stmatrix from the notebook",
        section="9.7.14.5.16",
        hints=(
            "c0 and c1 become one f16x2 register, c2 and c3 another: the 8 × 8 matrices of rows 0 to 7 and 8 to 15.",
            "Addresses are as for ldmatrix: lanes 8 m to 8 m + 7 give the rows of matrix m.",
            "Rows of 64 bytes conflict. Pad them to 80 bytes or, better, use a swizzle. And put a barrier in between.",
        ),
        points=3,
        draw=lambda rng: {"C": (rng.integers(-2048, 2049, (4, 32, 4)) / 512 + 2**-13).astype(np.float32)},
        best={"wavefronts": 16},
    ),
    Exercise(
        "repair_ldmatrix",
        "Loaded too early",
        "One warp stores an 8 × 8 matrix of 16-bit elements in shared memory, two elements from each lane, and loads "
        "it back transposed with `ldmatrix`. Repair `repair_ldmatrix`: delete the line `return ...`, check, read what "
        "the sanitizer reports, and fix the kernel until nothing is reported and the output is right.",
        Kernel(
            lambda given: {"x": given.x, "out": np.zeros(32, np.uint32)},
            "out",
            lambda given: _loaded(given.x, ".trans"),
            {"block": 32, "shared": 128},
            lambda given: [
                ("Nothing is transposed: .trans is missing.", _loaded(given.x, "")),
            ],
            partial=False,
        ),
        minutes=6,
        know="ldmatrix, from notebook 05",
        section=RULES["ldmatrix-unsynced"].section,
        hints=(
            "ldmatrix of a lane reads rows that other lanes have stored. What orders the two?",
            "Only the warp's own lanes are concerned, so bar.warp.sync is enough: warp.bar_warp_sync().",
        ),
        draw=lambda rng: {"x": rng.integers(0, 2**32, 32, np.uint32)},
    ),
]
