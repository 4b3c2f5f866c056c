"""Exercises of notebook 13: chained products, softmax by parts, an exponential, attention with a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Values
from tcemu.course.record import Exercise, Given
from tcemu.gemm import scalar

Array = npt.NDArray[Any]


# ---------------------------------------------------------------------------------------------- chained products


def _pair(first: Any, second: Any) -> Array:
    return np.stack(np.broadcast_arrays(first, second), axis=-1)


_SUMS_OF_A = Function(
    {"step": range(4), "register": range(4)},
    ("accumulator", "first element"),
    lambda step, register: _pair(2 * step + register // 2, 2 * (register % 2)),
    (
        ("Registers 1 and 2 are exchanged: in A, the row's half changes faster than the column's.",
         lambda step, register: _pair(2 * step + register % 2, 2 * (register // 2))),
        ("A step takes 16 keys, which are two accumulators.",
         lambda step, register: _pair(step + register // 2, 2 * (register % 2))),
        ("A register holds two elements, so the second pair starts at element 2.",
         lambda step, register: _pair(2 * step + register // 2, register % 2)),
        ("The halves of the tile are far apart here: the accumulators of one step are neighbours.",
         lambda step, register: _pair(step + 4 * (register // 2), 2 * (register % 2))),
        ("All four registers come from one accumulator, which has only eight columns.",
         lambda step, register: _pair(2 * step, register)),
    ),
    how="four steps with four registers each",
)  # fmt: skip


def _sums(rng: np.random.Generator) -> Mapping[str, Any]:
    return {name: np.exp2(rng.uniform(-8, 0, (32, 4))).astype(np.float32) for name in ("left", "right")}


def _packed(*pairs: Array) -> Array:
    return np.stack([scalar.cvt_f16x2(pair[:, 0], pair[:, 1]) for pair in pairs], axis=1)


def _operand(given: Given) -> Array:
    left, right = given.left, given.right
    return _packed(left[:, :2], left[:, 2:], right[:, :2], right[:, 2:])


def _cut(values: Array) -> Array:
    """f32 numbers from 2^-14 to 1 without the 13 bits that f16 has no room for."""
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _operand_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    left, right, whole = given.left, given.right, _operand(given)
    yield "Registers 1 and 2 are exchanged: register 1 is row + 8, register 2 column + 8.", whole[:, [0, 2, 1, 3]]
    yield "The two accumulators are exchanged.", whole[:, [2, 3, 0, 1]]
    yield "The two halves of each register are exchanged: the lower column is in the low half.", (
        whole >> 16 | whole << 16
    )
    yield "The numbers are cut off. cvt.rn rounds to nearest.", _packed(
        *(_cut(pair) for pair in (left[:, :2], left[:, 2:], right[:, :2], right[:, 2:]))
    )
    yield "You paired elements of different rows: elements 0 and 1 are neighbours, 2 and 3 are 8 rows below.", _packed(
        left[:, ::2], left[:, 1::2], right[:, ::2], right[:, 1::2]
    )
    yield "You paired the same element of both accumulators. A register's halves are neighbours in a row.", _packed(
        *(_pair(left[:, i], right[:, i]) for i in range(4))
    )


# ---------------------------------------------------------------------------------------------- softmax


def _parts(rng: np.random.Generator) -> Mapping[str, Any]:
    """Two parts of a row: whole scores, and sums with few bits, so that all scaling and adding is exact."""
    low, high = (int(each) for each in rng.choice(np.arange(-6, 7), 2, replace=False))
    sums = [np.float32(each) for each in rng.integers(8, 64, 2) / 8]
    outputs = [(rng.integers(-256, 257, 8) / 16).astype(np.float32) for _ in range(2)]
    return {
        "m1": np.float32(low), "l1": sums[0], "o1": outputs[0],
        "m2": np.float32(high), "l2": sums[1], "o2": outputs[1],
    }  # fmt: skip


def _whole(given: Given, scale1: Any, scale2: Any, of_sums: bool = True, of_outputs: bool = True) -> Array:
    """The two parts, each with its factor."""
    one = np.float32(1)
    sums = given.l1 * (scale1 if of_sums else one) + given.l2 * (scale2 if of_sums else one)
    outputs = given.o1 * (scale1 if of_outputs else one) + given.o2 * (scale2 if of_outputs else one)
    return np.float32(outputs) / np.float32(sums)


def _scales(given: Given) -> tuple[Any, Any]:
    top = max(given.m1, given.m2)
    return np.exp2(given.m1 - top), np.exp2(given.m2 - top)


def _merged_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    one, two = _scales(given)
    yield "Nothing is scaled: the two parts refer to different largest scores.", _whole(given, 1, 1)
    yield "The outputs are scaled and the sums are not. Both refer to the part's largest score.", (
        _whole(given, one, two, of_sums=False)
    )
    yield "The sums are scaled and the outputs are not. Both refer to the part's largest score.", (
        _whole(given, one, two, of_outputs=False)
    )
    yield "The factors are exchanged: the part with the smaller m gets smaller.", _whole(given, two, one)
    yield "The powers are of 2, not of e.", _whole(
        given, np.exp(given.m1 - max(given.m1, given.m2)), np.exp(given.m2 - max(given.m1, given.m2))
    )
    yield "This is the mean of the two parts' results: you divided too early.", np.float32(
        (given.o1 / given.l1 + given.o2 / given.l2) / 2
    )
    yield "The result is not divided by the sum.", np.float32(given.o1 * one + given.o2 * two)


EXERCISES = [
    Exercise(
        "sums_of_a",
        "The sums that become operand A",
        "A warp's scores of a tile are eight accumulators of m16n8k16, for the keys 0–7, 8–15, ... 56–63. The product "
        "with V takes four steps of 16 keys. Write `sums_of_a(step, register)`: from which accumulator (0 to 7) A's "
        "32-bit register (0 to 3) of this step is made, and the first of the two elements (0 to 3) in it.",
        _SUMS_OF_A,
        minutes=5,
        know="layout lines, notebook 02, and the two maps of notebook 13",
        section="9.7.14.5.8",
        hints=(
            "A's slot is (c h p), D's is (h p). A 32-bit register of A is one value of c and h.",
            "c says which of the two accumulators of the step, h which pair in it.",
        ),
    ),
    Exercise(
        "merged",
        "Two parts of the keys",
        "Two blocks have seen different keys of the same query. Each has a largest score m, a sum of powers "
        "l = Σ 2^(s − m), and an output o = Σ 2^(s − m) · v that is not divided yet. Write "
        "`merged(m1, l1, o1, m2, l2, o2)`, which returns the finished output of the row, an array of float32.",
        Values(
            lambda given: _whole(given, *_scales(given)), np.float32, _merged_mistakes,
            lambda index: f"Element {index[0]} of the output", how="every bit of the output",
        ),
        minutes=10,
        know="softmax tile by tile, notebook 13",
        hints=(
            "With respect to which score can both parts be added?",
            "Multiply l and o of each part by 2 to the power of its own m minus the larger m.",
        ),
        draw=_parts,
    ),
    Exercise(
        "packed_sums",
        "Operand A from two sums",
        "`left` and `right` are the accumulators of two neighbouring m16n8k16 products, (32, 4) float32 each: keys 0–7 "
        "and 8–15. Write `packed_sums(left, right)`, which returns the four registers of operand A of the next "
        "product, (32, 4) uint32, rounded to f16 as `cvt.rn.f16x2.f32` rounds.",
        Values(
            _operand, np.uint32, _operand_mistakes, lambda index: f"Lane {index[0]}, register a{index[1]},",
            axes=("lane", "register"), how="every register of every lane",
        ),
        minutes=15,
        know="sums_of_a, or the two maps of notebook 13",
        section="9.7.14.5.8",
        hints=(
            "No element changes its lane, so each lane can be treated alone.",
            "astype(np.float16) rounds to nearest, and view(np.uint16) shows the bits.",
            "The element with the lower column is in the low half of the register.",
        ),
        points=2,
        draw=_sums,
    ),
]  # fmt: skip
