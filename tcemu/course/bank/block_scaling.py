"""Exercises of notebook 09: the lanes and bytes of scales, and a block-scaled product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu import microscaling
from tcemu.course.judges import Function, Kernel, Values
from tcemu.course.record import Exercise, Given
from tcemu.formats import lookup
from tcemu.instructions import parse, run

Array = npt.NDArray[Any]
Wrong = Iterator[tuple[str, npt.ArrayLike]]

_TARGET = "sm_120a"
_MX8 = parse("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0")
_SCALE_A = _MX8.fragments["scale_a"]
_UE8M0 = lookup("ue8m0")

# ---------------------------------------------------------------------------------------------- the lane of a scale


class _Scale(NamedTuple):
    """A row of A, and the thread-id."""

    row: Array
    thread: Array


def _lane(way: Callable[[_Scale], Array]) -> Callable[..., Array]:
    return lambda *case: way(_Scale(*case))[..., None]


def _lane_of_scale(row: Array, thread_id: Array) -> Array:
    """By the layout, one call for each case."""
    layout = _SCALE_A.layout
    return np.array([[layout.holders(int(t), int(r), 0)[0][0]] for r, t in zip(row, thread_id, strict=True)])


_LANE_MISTAKES = (
    (
        "thread_id is the upper bit of lane % 4 and row // 8 the lower one; you have them swapped.",
        _lane(lambda at: 4 * (at.row % 8) + at.thread + 2 * (at.row // 8)),
    ),
    ("Rows 8 to 15 are in the odd lanes: you left out row // 8.", _lane(lambda at: 4 * (at.row % 8) + 2 * at.thread)),
    ("The lane does not depend on thread_id, but it should.", _lane(lambda at: 4 * (at.row % 8) + at.row // 8)),
    ("This is the rule of B, 4 · column + thread-id: A has 16 rows.", _lane(lambda at: 4 * at.row + at.thread)),
    ("This is B's rule with row % 8: rows 8 to 15 need lanes of their own.",
     _lane(lambda at: 4 * (at.row % 8) + at.thread)),
    ("The rows are not in order: g and g + 8 are neighbours.", _lane(lambda at: 2 * at.row + at.thread)),
    ("thread_id does not choose a half of the warp.", _lane(lambda at: at.row + 16 * at.thread)),
)  # fmt: skip


def _about_lane(case: tuple[int, ...], value: tuple[int, ...]) -> str:
    (row, thread), (lane,) = case, value
    says = f"The scale of row {row} with thread-id {thread} is not in lane {lane}"
    if not 0 <= lane < 32:
        return f"{says}: there are 32 lanes."
    held = _SCALE_A.layout.position(lane, 0)
    return f"{says}, which has that of row {held[1]} with thread-id {held[0]}."


# ---------------------------------------------------------------------------------------------- registers of scales


def _scales(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"scales": rng.permutation(np.arange(96, 160)).reshape(16, 4).astype(np.uint8)}


def _registers(scales: Array, thread: int = 0) -> Array:
    """Registers with scales (16, 4) of A in all four bytes of the lanes of one thread-id."""
    held = np.zeros(_SCALE_A.shape, np.uint8)
    held[thread] = scales
    return np.asarray(_SCALE_A.write(held.reshape(1, -1)).reshape(32))


def _word(scales: Array) -> Array:
    """Four bytes of each row as a number, the first the lowest."""
    return np.ascontiguousarray(scales).view("<u4").reshape(-1).astype(np.uint32)


def _register_mistakes(given: Given) -> Wrong:
    scales = given.scales
    lane = np.arange(32)
    yield "The bytes are in reverse order: the first step is in the lowest byte.", _registers(scales[:, ::-1])
    yield "Rows g and g + 8 are swapped: the lower rows have the odd lanes.", _registers(np.roll(scales, 8, axis=0))
    yield "These are the lanes of thread-id 1.", _registers(scales, 1)
    rows = np.zeros(32, np.uint32)
    rows[:16] = _word(scales)
    yield "Row r is not in lane r: rows g and g + 8 are in lanes 4 g and 4 g + 1.", rows
    rows = np.zeros(32, np.uint32)
    rows[::2] = _word(scales)
    yield "Row r is not in lane 2 r: rows g and g + 8 are in lanes 4 g and 4 g + 1.", rows
    spread = np.where(lane % 2 == 0, _word(scales)[lane // 4], _word(scales)[lane // 4 + 8])
    yield "Lanes of thread-id 1 have scales, too; they are to be 0 here.", spread
    rows = np.where(lane % 4 == 0, _word(scales)[lane // 4], 0).astype(np.uint32)
    yield "Rows 8 to 15 are missing: they are in lanes 4 g + 1.", rows
    exchanged = np.zeros(32, np.uint32)
    exchanged[0::4], exchanged[2::4] = _word(scales)[:8], _word(scales)[8:]
    yield "Rows 8 to 15 are in lanes 4 g + 1, not 4 g + 2, which belong to thread-id 1.", exchanged


# ---------------------------------------------------------------------------------------------- ids of a step


def _ids(
    byte: Callable[[Array], Array] = lambda step: step % 4,
    thread_a: Callable[[Array], Array] = lambda step: step // 4 % 2,
    thread_b: Callable[[Array], Array] = lambda step: step // 4,
    register: Callable[[Array], Array] = lambda step: step // 8,
) -> Callable[..., Array]:
    """(register of A, byte-id, thread-id of A, thread-id of B) of a step."""
    return lambda step: np.stack([register(step), byte(step), thread_a(step), thread_b(step)], -1)


_ID_MISTAKES = (
    (
        "You swapped byte-id and thread-id: four neighbouring steps share a lane, so the byte changes first.",
        _ids(lambda s: s // 4, lambda s: s % 4 % 2, lambda s: s % 4),
    ),
    ("A has only two thread-ids: steps 8 to 15 are in another register.", _ids(thread_a=lambda s: s // 4)),
    ("The register of A does not depend on the step, but it should.", _ids(register=lambda s: 0 * s)),
    ("B has four thread-ids, so that one register is enough for its 16 steps.", _ids(thread_b=lambda s: s // 4 % 2)),
    ("The thread-id of A changes with every step: four neighbours share a lane.", _ids(thread_a=lambda s: s % 2)),
    ("The bytes are counted from the highest: byte 0 is the lowest.", _ids(lambda s: 3 - s % 4)),
    ("The byte-id counts bytes and not bits.", _ids(lambda s: 8 * (s % 4))),
)


# ---------------------------------------------------------------------------------------------- a kernel


def _operands(rng: np.random.Generator) -> Mapping[str, Any]:
    """Elements and scales of A (16, 128) and B (128, 8), as patterns."""
    A, B = rng.normal(size=(16, 128)), rng.normal(size=(128, 8))
    A *= np.repeat(2.0 ** rng.integers(-3, 4, (16, 4)), 32, axis=1)
    B *= np.repeat(2.0 ** rng.integers(-3, 4, (4, 8)), 32, axis=0)
    (a, x), (b, y) = microscaling.quantise(A, "mxfp8_e4m3"), microscaling.quantise(B, "mxfp8_e4m3", axis=-2)
    return {"A": a.view(np.uint8), "X": x.view(np.uint8), "B": b.view(np.uint8), "Y": y.view(np.uint8)}


def _arguments(given: Given) -> Mapping[str, Any]:
    """B and its scales lie in memory by columns, and d is filled with what no sum gives."""
    b, y = (np.ascontiguousarray(each.T) for each in (given.B, given.Y))
    return {"a": given.A, "x": given.X, "b": b, "y": y, "d": np.full((16, 8), -1e9, np.float32)}


def _product(
    given: Given,
    x: Callable[[Array], Array] = lambda x: x,
    y: Callable[[Array], Array] = lambda y: y,
    bytes_: Sequence[int] = (0, 1, 2, 3),
    steps: Sequence[int] = (0, 1, 2, 3),
    chained: bool = True,
) -> Array:
    """D, or what becomes of it with scales in other places, other bytes or other steps."""
    total = np.zeros((32, 4), np.uint32)
    held_x, held_y = x(given.X), y(given.Y)
    for step in steps:
        k = slice(32 * step, 32 * step + 32)
        left, right = _MX8.fragments["a"].pack(given.A[:, k]), _MX8.fragments["b"].pack(given.B[k])
        registers = [microscaling.scale_registers(held_x[:, [bytes_[step]]], _MX8, "a"),
                     microscaling.scale_registers(held_y[[bytes_[step]]], _MX8, "b")]  # fmt: skip
        start = total if chained else np.zeros_like(total)
        total = run(_MX8, left, right, start, registers[0], (0, 0), registers[1], (0, 0), target=_TARGET)
    return np.asarray(_MX8.fragments["d"].unpack(total))


def _kernel_mistakes(given: Given) -> Wrong:
    yield "Each step starts from zero: pass the D of one step as the C of the next.", _product(given, chained=False)
    yield "All steps use the scales of the first one: the byte-id is the step.", _product(given, bytes_=(0, 0, 0, 0))
    yield (
        "The byte-ids run backwards: the scale of the first step is in the lowest byte.",
        (_product(given, bytes_=(3, 2, 1, 0))),
    )
    yield (
        "The scales of rows g and g + 8 are swapped: the lower rows have the odd lanes.",
        (_product(given, lambda x: np.roll(x, 8, axis=0))),
    )
    yield (
        "Rows 8 to 15 have the scales of rows 0 to 7: odd lanes load the scales of row g + 8.",
        (_product(given, lambda x: np.concatenate([x[:8]] * 2))),
    )
    one = np.uint8(_UE8M0.bias)
    yield "The scales of A are missing.", _product(given, lambda x: np.full_like(x, one))
    yield "The scales of B are missing.", _product(given, y=lambda y: np.full_like(y, one))
    yield (
        "A's lane rule is used for B: the scale of a column is in lane 4 · column + thread-id.",
        (_product(given, y=lambda y: y[:, [0, 0, 1, 1, 2, 2, 3, 3]])),
    )
    yield "Only the first 32 columns of A are multiplied.", _product(given, steps=(0,))
    untouched = _product(given)
    untouched[8:] = -1e9
    yield "Rows 8 to 15 are never stored: d2 and d3 are 8 rows below d0 and d1.", untouched


EXERCISES = [
    Exercise(
        "lane_of_scale",
        "Which lane holds the scale?",
        "Write `lane_of_scale(row, thread_id)`, which returns the lane that holds the scale of a row of A, 0 to 15, "
        "for `mma` with `.block_scale` and thread-id 0 or 1.",
        Function(
            {"row": range(16), "thread_id": range(2)},
            ("lane",),
            _lane_of_scale,
            _LANE_MISTAKES,
            _about_lane,
            "every row with both thread-ids",
        ),
        minutes=5,
        only=(),
        know="the layout of scales in notebook 09",
        section="9.7.14.3",
        hints=(
            "Rows g and g + 8 share a group of four lanes, as in the fragment of A.",
            "In the group, thread_id chooses the first or the last two lanes. Which of the two has the lower row?",
        ),
    ),
    Exercise(
        "registers_of_scales",
        "Four scales into each register",
        "Write `registers_of_scales(scales)`, which returns the register `scale-a-data` of every lane, uint32 (32,). "
        "`scales` are the patterns of A's scales for four steps along K, uint8 (16, 4): `scales[row][step]`. The "
        "instruction will select step s with byte-id s and thread-id 0. All other lanes have 0.",
        Values(
            lambda given: _registers(given.scales),
            np.uint32,
            _register_mistakes,
            lambda index: f"The register of lane {index[0]}",
            "The array of registers",
            axes=("lane",),
            how="the register of every lane",
        ),
        minutes=10,
        only=(),
        know="which lane and byte hold a scale of A",
        section="9.7.14.3",
        hints=(
            "The scales of row g are in lane 4 g, those of row g + 8 in lane 4 g + 1.",
            "Byte s is scales[row][s] << 8 s. Convert to uint32 first: a uint8 cannot be shifted that far.",
        ),
        draw=_scales,
    ),
    Exercise(
        "ids_of_a_step",
        "Sixteen steps along K",
        "K is 512: 16 steps of `mma` m16n8k32 in kind mxf8f6f4. The scales of A are in two registers of each lane: in "
        "register r, lane 4 g + 2 t + h has the scales of row g + 8 h for steps 8 r + 4 t to 8 r + 4 t + 3, from the "
        "lowest byte up. One register has the scales of B: lane 4 column + t has those of its column for steps 4 t to "
        "4 t + 3. Write `ids_of_a_step(step)`, which returns for step 0 to 15 the register of A, the byte-id (the same "
        "for A and B), the thread-id of A and the thread-id of B.",
        Function(
            {"step": range(16)},
            ("register of A", "byte-id", "thread-id of A", "thread-id of B"),
            _ids(),
            _ID_MISTAKES,
            how="every step",
        ),
        minutes=15,
        only=(),
        know="byte-id and thread-id",
        section="9.7.14.3",
        hints=(
            "Four neighbouring steps are four bytes of one register in one lane.",
            "For B, what is left of the step is the thread-id. For A, it is first the thread-id, then the register.",
        ),
    ),
    Exercise(
        "scaled_product",
        "A block-scaled product of 16 × 8 × 128",
        "Write the kernel `scaled_product(warp, a, x, b, y, d)`, which one warp executes on sm_120a: D = A B in MXFP8, "
        "in four steps of m16n8k32 of kind mxf8f6f4 with e4m3 and ascending k. `a` points to the elements of A, uint8 "
        "(16, 128), row-major, `b` to those of B, column-major, uint8 (8, 128). `x`, uint8 (16, 4), has the scales "
        "of A: `x[row][step]`; `y`, uint8 (8, 4), those of B: `y[column][step]`. `d` is float32 (16, 8). Load each "
        "scale register once.",
        Kernel(
            _arguments,
            "d",
            _product,
            {"block": 32, "target": _TARGET},
            _kernel_mistakes,
            needed=("mma.sync",),
            how="every bit of D, and the sanitizer's reports",
        ),
        minutes=45,
        know="kernels of notebook 04, and the lanes of scales",
        section="9.7.14.3, 9.7.14.5.14",
        hints=(
            "The maps are those of 8-bit operands: register i of A is 8 rows down if i is odd, 16 along k from 2 on.",
            "warp.ld_global loads 32 bits: four elements, or the four scales of a row. Every lane loads one of each.",
            "With thread-id 0, lane 4 g + h has the scales of row g + 8 h. Let h be the lowest bit of every lane.",
            "The step is the byte-id: (step, 0) after each scale register.",
        ),
        points=3,
        draw=_operands,
    ),
]
