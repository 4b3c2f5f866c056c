"""Exercises of notebook 09: which scale a block gets, in the MX formats and in NVFP4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import microscaling
from tcemu.course.judges import Crafted, Values
from tcemu.course.record import Exercise, Given
from tcemu.formats import lookup

Array = npt.NDArray[Any]
Wrong = Iterator[tuple[str, npt.ArrayLike]]

_E4M3, _E2M1, _UE4M3, _UE8M0 = (lookup(name) for name in ("e4m3", "e2m1", "ue4m3", "ue8m0"))

# ---------------------------------------------------------------------------------------------- the smallest scale


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
    yield (
        "The largest e4m3 is 448, not 256: a block may have a smaller scale than its next power of two gives.",
        (_power(ceiling - 8)),
    )
    for top in (240, 480, 464):
        yield f"You divided by {top}; the largest e4m3 is 448.", _power(np.ceil(np.log2(largest / top)).astype(int))
    yield (
        "This is the exponent without the bias: the pattern is the exponent + 127.",
        ((right.astype(int) - 127).astype(np.uint8)),
    )
    yield (
        "This is the reciprocal: the scale is what the elements are divided by.",
        ((2 * 127 - right.astype(int)).astype(np.uint8)),
    )
    yield "You used one scale for all blocks: each block has its own.", np.full_like(right, right.max())
    yield (
        "This is one step above the MX rule's scale, which is too much where the mantissa is at most 1.75.",
        (_power(floor - 7)),
    )
    signed = np.maximum(given.blocks.astype(np.float64).max(axis=1), 1e-30)
    yield (
        "You took the largest value and not the largest magnitude.",
        (_power(np.ceil(np.log2(signed / _E4M3.largest)).astype(int))),
    )
    yield (
        "You rounded to the nearest power of two, so some elements saturate.",
        (_power(np.rint(np.log2(largest / _E4M3.largest)).astype(int))),
    )
    yield (
        "You rounded down: with this scale a quotient is larger than 448.",
        (_power(np.floor(np.log2(largest / _E4M3.largest)).astype(int))),
    )
    yield (
        "This is twice the smallest scale: floor + 1 is too much for an exact power of two.",
        (_power(np.floor(np.log2(largest / _E4M3.largest)).astype(int) + 1)),
    )


# ---------------------------------------------------------------------------------------------- NVFP4


def _rows_of_16(rng: np.random.Generator) -> Mapping[str, Any]:
    """Blocks in which some elements differ if they are divided by the scale before it is rounded."""
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
    yield (
        "You divided by the scale before it was rounded. The hardware multiplies by the rounded one.",
        (_nvfp4(blocks, exact=True)),
    )
    yield (
        "This is a power of two, the rule of the MX formats; NVFP4 uses largest magnitude / 6.",
        (_nvfp4(blocks, lambda largest: 2.0 ** (np.floor(np.log2(largest)) - 2))),
    )
    yield (
        "You divided by 448, the largest scale; divide by 6, the largest element.",
        (_nvfp4(blocks, lambda largest: largest / 448)),
    )
    yield (
        "All blocks share the scale of the largest number, but each block has its own.",
        (_nvfp4(blocks, lambda largest: np.full_like(largest, largest.max() / 6))),
    )
    for rounding in ("rz", "rp"):
        low = _UE4M3.encode(np.abs(wide).max(axis=1) / 6, satfinite=True, rounding=rounding)
        way = {"rz": "down", "rp": "up"}[rounding]
        yield f"You rounded the scales {way}; they are rounded to the nearest.", (
            _E2M1.encode(wide / _UE4M3.decode(low)[:, None], satfinite=True), low,
        )  # fmt: skip
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
        return f"MXFP4 holds the row exactly, but NVFP4 is off by only {nv:.2%}; it should be off by at least 3 %.{why}"
    return ""


EXERCISES = [
    Exercise(
        "scales_without_overflow",
        "A scale with which nothing saturates",
        "Write `scales_without_overflow(blocks)`. `blocks` is float32 (8, 32), a block in each row. Return, for each "
        "block, the pattern of the smallest ue8m0 scale with which no quotient is larger in magnitude than 448, the "
        "largest e4m3: an array uint8 (8,).",
        Values(
            _no_overflow,
            np.uint8,
            _scale_mistakes,
            lambda index: f"The scale of block {index[0]}",
            "The array of scales",
            axes=("block",),
        ),
        minutes=10,
        only=(),
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
        "quantise_to_nvfp4",
        "NVFP4 by hand",
        "Write `quantise_to_nvfp4(blocks)`. `blocks` is float32 (4, 16), a block in each row. Return the patterns of "
        "the elements in e2m1, uint8 (4, 16), and of the scales in ue4m3, uint8 (4,). There is no tensor scale. "
        "Use `formats.lookup(...).encode` and `.decode`, but not `tcemu.microscaling`.",
        Crafted(
            {"elements": ((4, 16), np.uint8), "scales": ((4,), np.uint8)},
            _as_nvfp4,
            "Elements and scales are those of NVFP4.",
            "every pattern of elements and scales",
        ),
        minutes=20,
        only=("tcemu.formats.lookup", "tcemu.formats.Format.decode", "tcemu.formats.Format.encode"),
        know="the rule for the scale of NVFP4",
        section="9.7.14.3",
        hints=(
            "The scale of a block is its largest magnitude / 6, rounded to ue4m3: encode it.",
            "Divide the elements by the rounded scale: decode its pattern.",
            "e2m1's encode rounds to nearest even; satfinite=True turns slightly larger numbers into 6.",
        ),
        points=2,
        draw=_rows_of_16,
    ),
    Exercise(
        "where_mxfp4_wins",
        "A row on which MXFP4 beats NVFP4",
        "NVFP4 has smaller blocks and finer scales, but it is not always better. Write `where_mxfp4_wins()`, "
        "which returns a row of 32 numbers, float32, that MXFP4 holds exactly, while NVFP4 (without a scale for the "
        "tensor) has an error of 3 % or more of the norm of the row.",
        Crafted(
            {"row": ((32,), np.float32)},
            _mxfp4_is_exact,
            "MXFP4 is exact, and NVFP4 is off by 3 % or more.",
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
]
