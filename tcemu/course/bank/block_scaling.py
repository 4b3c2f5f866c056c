"""Exercises of notebook 09: scales of blocks, their lanes and bytes, and products of small floats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu import microscaling
from tcemu.course.judges import Crafted, Function, Kernel, Values
from tcemu.course.record import Exercise, Given
from tcemu.formats import lookup
from tcemu.instructions import parse, run

Array = npt.NDArray[Any]
Wrong = Iterator[tuple[str, npt.ArrayLike]]

_TARGET = "sm_120a"
_MX8 = parse("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0")
_SCALE_A, _SCALE_B = (_MX8.fragments[f"scale_{role}"] for role in "ab")
_E4M3, _E2M1, _UE4M3, _UE8M0 = (lookup(name) for name in ("e4m3", "e2m1", "ue4m3", "ue8m0"))


# ---------------------------------------------------------------------------------------------- scales of blocks


def _blocks(rng: np.random.Generator) -> Mapping[str, Any]:
    """Blocks whose largest magnitudes are just below, at and above 448 times a power of two; some are negative."""
    largest = np.array([448, 449, 256, 300, 500, 511, 400, 470], np.float64)
    blocks = rng.uniform(-0.8, 0.8, (8, 32)) * largest[:, None]
    blocks[np.arange(8), rng.integers(0, 32, 8)] = largest * rng.choice([-1, 1], 8)
    blocks[1, 0], blocks[2, 1] = -449, -256
    blocks[1, 1:], blocks[2, 2:] = np.abs(blocks[1, 1:]).clip(0, 300), np.abs(blocks[2, 2:]).clip(0, 200)
    return {"blocks": rng.permutation(blocks * 2.0 ** rng.integers(-20, 12, (8, 1))).astype(np.float32)}


def _power(exponent: Array) -> Array:
    """Patterns of ue8m0."""
    return np.asarray(np.clip(exponent + _UE8M0.bias, 0, 254), np.uint8)


def _largest(given: Given) -> Array:
    return np.asarray(np.abs(given.blocks.astype(np.float64)).max(axis=1))


def _no_overflow(given: Given) -> Array:
    return _power(np.ceil(np.log2(_largest(given) / _E4M3.largest)).astype(int))


def _scale_mistakes(given: Given) -> Wrong:
    largest, right = _largest(given), _no_overflow(given)
    floor, ceiling = (way(np.log2(largest)).astype(int) for way in (np.floor, np.ceil))
    yield "This is the rule of the MX formats, with which the largest element may saturate.", _power(floor - 8)
    yield "The largest e4m3 is 448, not 256: a block may have a smaller scale than that of its next power of two.", (
        _power(ceiling - 8)
    )
    yield "This is the exponent without the bias: the pattern is the exponent + 127.", (
        (right.astype(int) - 127).astype(np.uint8)
    )
    yield "This is the reciprocal: the scale is what the elements are divided by.", (
        (2 * 127 - right.astype(int)).astype(np.uint8)
    )
    yield "One scale for all blocks: each block has its own.", np.full_like(right, right.max())
    yield "This is one step above the MX rule's scale, which is too much where the mantissa is at most 1.75.", (
        _power(floor - 7)
    )
    signed = np.maximum(given.blocks.astype(np.float64).max(axis=1), 1e-30)
    yield "You took the largest value and not the largest magnitude.", (
        _power(np.ceil(np.log2(signed / _E4M3.largest)).astype(int))
    )
    yield "This is rounded to the nearest power of two, so that some elements saturate.", (
        _power(np.rint(np.log2(largest / _E4M3.largest)).astype(int))
    )
    yield "You rounded down: with this scale a quotient is larger than 448.", (
        _power(np.floor(np.log2(largest / _E4M3.largest)).astype(int))
    )
    yield "This is twice the smallest scale: floor + 1 is too much for an exact power of two.", (
        _power(np.floor(np.log2(largest / _E4M3.largest)).astype(int) + 1)
    )


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
        "thread_id is the upper bit of lane % 4 and row // 8 the lower one; you have them exchanged.",
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
    yield "Rows g and g + 8 are exchanged: the lower rows have the odd lanes.", _registers(np.roll(scales, 8, axis=0))
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
        "You exchanged byte-id and thread-id: four neighbouring steps share a lane, so the byte changes first.",
        _ids(lambda s: s // 4, lambda s: s % 4 % 2, lambda s: s % 4),
    ),
    ("A has only two thread-ids: steps 8 to 15 are in another register.", _ids(thread_a=lambda s: s // 4)),
    ("The register of A does not depend on the step, but it should.", _ids(register=lambda s: 0 * s)),
    ("B has four thread-ids, so that one register is enough for its 16 steps.", _ids(thread_b=lambda s: s // 4 % 2)),
    ("The thread-id of A changes with every step: four neighbours share a lane.", _ids(thread_a=lambda s: s % 2)),
    ("The bytes are counted from the highest: byte 0 is the lowest.", _ids(lambda s: 3 - s % 4)),
    ("The byte-id counts bytes and not bits.", _ids(lambda s: 8 * (s % 4))),
)


# ---------------------------------------------------------------------------------------------- NVFP4


def _rows_of_16(rng: np.random.Generator) -> Mapping[str, Any]:
    """Blocks some of whose elements differ if they are divided by the scale before it is rounded."""
    while True:
        blocks = rng.normal(size=(4, 16)) * np.array([[0.1], [1], [7], [90]])
        blocks[np.arange(4), [3, 5, 7, 11]] = -np.abs(blocks).max(axis=1) * 1.3
        blocks = blocks.astype(np.float32)
        if np.count_nonzero(_nvfp4(blocks)[0] != _nvfp4(blocks, exact=True)[0]) >= 3:
            return {"blocks": blocks}


def _nvfp4(
    blocks: Array, scale: Callable[[Array], Array] = lambda largest: largest / 6, exact: bool = False
) -> tuple[Array, Array]:
    """Patterns of elements and scales by another rule for the scale, or with elements divided by the exact one."""
    wide = blocks.astype(np.float64)
    wanted = scale(np.abs(wide).max(axis=1))
    patterns = _UE4M3.encode(wanted, satfinite=True)
    divisor = wanted if exact else _UE4M3.decode(patterns)
    with np.errstate(divide="ignore"):  # a scale that is too small becomes 0
        return _E2M1.encode(wide / divisor[:, None], satfinite=True), patterns


def _nvfp4_mistakes(blocks: Array) -> Iterator[tuple[str, tuple[Array, Array]]]:
    wide = blocks.astype(np.float64)
    elements, scales = _nvfp4(blocks)
    yield "You divided by the scale before it was rounded. The hardware multiplies by the rounded one.", (
        _nvfp4(blocks, exact=True)
    )
    yield "This is a power of two, the rule of the MX formats; NVFP4 has largest magnitude / 6.", (
        _nvfp4(blocks, lambda largest: 2.0 ** (np.floor(np.log2(largest)) - 2))
    )
    yield "You divided by 448, the largest scale; 6, the largest element, is what the largest magnitude becomes.", (
        _nvfp4(blocks, lambda largest: largest / 448)
    )
    yield "You divided by 4, but the largest e2m1 is 6.", _nvfp4(blocks, lambda largest: largest / 4)
    yield "The signs of the elements are lost.", (elements & 7, scales)
    signed = _UE4M3.encode(wide.max(axis=1) / 6, satfinite=True)
    yield "You took the largest value and not the largest magnitude.", (
        _E2M1.encode(wide / _UE4M3.decode(signed)[:, None], satfinite=True), signed,
    )  # fmt: skip
    yield "You multiplied by the scale instead of dividing by it.", (
        _E2M1.encode(wide * _UE4M3.decode(scales)[:, None], satfinite=True), scales,
    )  # fmt: skip
    yield "The elements are shifted into bits 5 to 2: that is for a byte of kind mxf8f6f4, not for NVFP4.", (
        elements << 2, scales,
    )  # fmt: skip


def _as_nvfp4(parts: Mapping[str, Array], given: Given) -> str:
    """Whether these are the elements and scales of NVFP4, or what is wrong with them."""
    wanted = [each.view(np.uint8) for each in microscaling.quantise(given.blocks, "nvfp4")]
    right = {"elements": wanted[0], "scales": wanted[1].reshape(4)}
    if all(np.array_equal(parts[name], right[name]) for name in right):
        return ""
    for says, (elements, scales) in _nvfp4_mistakes(given.blocks):
        if np.array_equal(parts["elements"], elements) and np.array_equal(parts["scales"], scales):
            return says
    for name in ("scales", "elements"):
        wrong = np.argwhere(parts[name] != right[name])
        if len(wrong):
            at = ", ".join(map(str, wrong[0]))
            says = "a scale" if name == "scales" else "an element, although the scales are right"
            return f"{name}[{at}] is {int(parts[name][tuple(wrong[0])]):#04x}, which is wrong: {says}."
    return ""


# ---------------------------------------------------------------------------------------------- MXFP4 wins


def _error(row: Array, kind: str) -> float:
    """The norm of the error, relative to that of the row."""
    values = microscaling.dequantise(*microscaling.quantise(row, kind), kind)
    return float(np.linalg.norm(values - row) / np.linalg.norm(row))


def _mxfp4_is_exact(parts: Mapping[str, Array], given: Given) -> str:
    row = parts["row"].astype(np.float64)
    if not np.isfinite(row).all():
        return "There are infinities or NaNs in the row: give finite numbers."
    if not row.any():
        return "All numbers are zero, and both formats hold that exactly."
    mx, nv = _error(row, "mxfp4"), _error(row, "nvfp4")
    if mx:
        saturates = np.abs(row).max() / 2.0 ** (np.floor(np.log2(np.abs(row).max())) - 2) > 6
        why = " The largest magnitude saturates." if saturates else ""
        return f"MXFP4 is off by {mx:.2%}; it should hold the row exactly.{why} NVFP4 is off by {nv:.2%}."
    if nv < 0.03:
        sixth = np.abs(row).max() / 6
        rounded = float(_UE4M3.decode(_UE4M3.encode(sixth, satfinite=True)))
        why = " The largest magnitude / 6 is a ue4m3 itself." if rounded == sixth else ""
        return f"MXFP4 holds the row exactly, but NVFP4 is off by {nv:.2%} only; it should be 3 % at least.{why}"
    return ""


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
    yield "The byte-ids run backwards: the scale of the first step is in the lowest byte.", (
        _product(given, bytes_=(3, 2, 1, 0))
    )
    yield "The scales of rows g and g + 8 are exchanged: the lower rows have the odd lanes.", (
        _product(given, lambda x: np.roll(x, 8, axis=0))
    )
    yield "Rows 8 to 15 have the scales of rows 0 to 7: odd lanes load the scales of row g + 8.", (
        _product(given, lambda x: np.concatenate([x[:8]] * 2))
    )
    one = np.uint8(_UE8M0.bias)
    yield "The scales of A are missing.", _product(given, lambda x: np.full_like(x, one))
    yield "The scales of B are missing.", _product(given, y=lambda y: np.full_like(y, one))
    yield "A's lane rule is used for B: the scale of a column is in lane 4 · column + thread-id.", (
        _product(given, y=lambda y: y[:, [0, 0, 1, 1, 2, 2, 3, 3]])
    )
    yield "Only the first 32 of k are multiplied.", _product(given, steps=(0,))
    untouched = _product(given)
    untouched[8:] = -1e9
    yield "Rows 8 to 15 are never stored: d2 and d3 are 8 rows below d0 and d1.", untouched


EXERCISES = [
    Exercise(
        "scales_without_overflow",
        "A scale with which nothing saturates",
        "Write `scales_without_overflow(blocks)`. `blocks` is float32 (8, 32), a block in each row. Return, for each "
        "block, the pattern of the smallest ue8m0 scale with which no quotient is larger in magnitude than 448, the "
        "largest e4m3: an array uint8 (8,).",
        Values(_no_overflow, np.uint8, _scale_mistakes, lambda index: f"The scale of block {index[0]}",
               "The array of scales", axes=("block",)),
        minutes=10,
        know="ue8m0, and how the MX formats choose a scale",
        section="9.7.14.3",
        hints=(
            "The scale is at least largest magnitude / 448. Which power of two is the next one that is not smaller?",
            "np.log2 and np.ceil give its exponent. If the quotient is exactly a power of two, ceil leaves it alone.",
            "The pattern of 2 to the power of e is e + 127.",
        ),
        draw=_blocks,
    ),
    Exercise(
        "lane_of_scale",
        "Which lane holds the scale?",
        "Write `lane_of_scale(row, thread_id)`, which returns the lane that holds the scale of a row of A, 0 to 15, "
        "for `mma` with `.block_scale` and thread-id 0 or 1.",
        Function(
            {"row": range(16), "thread_id": range(2)}, ("lane",), _lane_of_scale, _LANE_MISTAKES, _about_lane,
            "every row with both thread-ids",
        ),
        minutes=5,
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
        "instruction will select step s with byte-id s and thread-id 0. All lanes that it does not ask have 0.",
        Values(lambda given: _registers(given.scales), np.uint32, _register_mistakes,
               lambda index: f"The register of lane {index[0]}", "The array of registers", axes=("lane",),
               how="the register of every lane"),
        minutes=10,
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
            {"step": range(16)}, ("register of A", "byte-id", "thread-id of A", "thread-id of B"), _ids(), _ID_MISTAKES,
            how="every step",
        ),
        minutes=15,
        know="byte-id and thread-id",
        section="9.7.14.3",
        hints=(
            "Four neighbouring steps are four bytes of one register in one lane.",
            "For B, what is left of the step is the thread-id. For A, it is first the thread-id, then the register.",
        ),
    ),
    Exercise(
        "quantise_to_nvfp4",
        "NVFP4 by hand",
        "Write `quantise_to_nvfp4(blocks)`. `blocks` is float32 (4, 16), a block in each row. Return the patterns of "
        "the elements in e2m1, uint8 (4, 16), and of the scales in ue4m3, uint8 (4,). There is no scale of the tensor. "
        "Use `formats.lookup(...).encode` and `.decode`, but not `tcemu.microscaling`.",
        Crafted(
            {"elements": ((4, 16), np.uint8), "scales": ((4,), np.uint8)}, _as_nvfp4,
            "Elements and scales are those of NVFP4.", "every pattern of elements and scales",
        ),
        minutes=20,
        know="the rule for the scale of NVFP4",
        section="9.7.14.3",
        hints=(
            "The scale of a block is its largest magnitude / 6, rounded to ue4m3: encode it.",
            "What the elements are divided by is the rounded scale: decode its pattern again.",
            "e2m1's encode rounds to nearest even; satfinite=True makes 6 of what is slightly larger.",
        ),
        points=2,
        draw=_rows_of_16,
    ),
    Exercise(
        "where_mxfp4_wins",
        "A row on which MXFP4 beats NVFP4",
        "NVFP4 has smaller blocks and finer scales, and still it is not always better. Write `where_mxfp4_wins()`, "
        "which returns a row of 32 numbers, float32, that MXFP4 holds exactly, while NVFP4 (without a scale of the "
        "tensor) has an error of 3 % or more of the norm of the row.",
        Crafted(
            {"row": ((32,), np.float32)}, _mxfp4_is_exact, "MXFP4 is exact, and NVFP4 is off by 3 % or more.",
            "the errors of both formats",
        ),
        minutes=15,
        know="both rules for a scale, and the values of e2m1",
        section="9.7.14.3",
        hints=(
            "MXFP4 is exact if all numbers are e2m1 values times the power of two that its rule chooses.",
            "NVFP4 maps the largest magnitude to about 6. Which other largest magnitude does the MX rule leave alone?",
            "If the largest magnitude is 4, a scale of NVFP4 is near 2/3. What becomes of 4 then?",
        ),
    ),
    Exercise(
        "scaled_product",
        "A block-scaled product of 16 × 8 × 128",
        "Write the kernel `scaled_product(warp, a, x, b, y, d)`, which one warp executes on sm_120a: D = A B in MXFP8, "
        "in four steps of m16n8k32 of kind mxf8f6f4 with e4m3 and ascending k. `a` points to the elements of A, uint8 "
        "(16, 128) in rows, `b` to those of B by columns, uint8 (8, 128). `x`, uint8 (16, 4), has the scales of A: "
        "`x[row][step]`; `y`, uint8 (8, 4), those of B: `y[column][step]`. `d` is float32 (16, 8). Load each scale "
        "register once.",
        Kernel(
            _arguments, "d", _product, {"block": 32, "target": _TARGET}, _kernel_mistakes, needed=("mma.sync",),
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
