"""Exercises of notebook 13: chained products, softmax by parts, an exponential, attention with a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Kernel, Values
from tcemu.course.record import Exercise, Given
from tcemu.gemm import attention, scalar
from tcemu.gemm.mma_pipeline import MMA
from tcemu.instructions.matmul import matmul

Array = npt.NDArray[Any]


# ---------------------------------------------------------------------------------------------- chained products


def _pair(first: Any, second: Any) -> Array:
    return np.stack(np.broadcast_arrays(first, second), axis=-1)


_SUMS_OF_A = Function(
    {"step": range(4), "register": range(4)},
    ("accumulator", "first element"),
    lambda step, register: _pair(2 * step + register // 2, 2 * (register % 2)),
    (
        ("Registers 1 and 2 are swapped: in A, the row's half changes faster than the column's.",
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
    yield "Registers 1 and 2 are swapped: register 1 is row + 8, register 2 column + 8.", whole[:, [0, 2, 1, 3]]
    yield "The two accumulators are swapped.", whole[:, [2, 3, 0, 1]]
    yield (
        "The two halves of each register are swapped: the lower column is in the low half.",
        (whole >> 16 | whole << 16),
    )
    yield (
        "The numbers are truncated. cvt.rn rounds to nearest.",
        _packed(*(_cut(pair) for pair in (left[:, :2], left[:, 2:], right[:, :2], right[:, 2:]))),
    )
    upper = [accumulator.view(np.uint32) for accumulator in (left, right)]
    yield (
        "You kept the upper half of each f32. That is a bf16, not an f16: convert, then pack.",
        np.hstack([each[:, ::2] >> 16 | each[:, 1::2] & np.uint32(0xFFFF0000) for each in upper]),
    )
    yield (
        "You paired elements of different rows: elements 0 and 1 are neighbours, 2 and 3 are 8 rows below.",
        _packed(left[:, ::2], left[:, 1::2], right[:, ::2], right[:, 1::2]),
    )
    yield (
        "You paired the same element of both accumulators. A register's halves are neighbours in a row.",
        _packed(*(_pair(left[:, i], right[:, i]) for i in range(4))),
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
    return np.asarray(outputs, np.float32) / np.float32(sums)


def _scales(given: Given) -> tuple[Any, Any]:
    top = max(given.m1, given.m2)
    return np.exp2(given.m1 - top), np.exp2(given.m2 - top)


def _merged_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    one, two = _scales(given)
    yield "Nothing is scaled: the two parts refer to different largest scores.", _whole(given, 1, 1)
    yield (
        "The outputs are scaled, but the sums are not. Both refer to the part's largest score.",
        (_whole(given, one, two, of_sums=False)),
    )
    yield (
        "The sums are scaled, but the outputs are not. Both refer to the part's largest score.",
        (_whole(given, one, two, of_outputs=False)),
    )
    yield "The factors are swapped: the part with the smaller m gets smaller.", _whole(given, two, one)
    yield (
        "The powers are of 2, not of e.",
        _whole(given, np.exp(given.m1 - max(given.m1, given.m2)), np.exp(given.m2 - max(given.m1, given.m2))),
    )
    yield (
        "This is the mean of the two parts' results: you divided too early.",
        (np.asarray((given.o1 / given.l1 + given.o2 / given.l2) / 2, np.float32)),
    )
    yield "The result is not divided by the sum.", np.asarray(given.o1 * one + given.o2 * two, np.float32)


# ---------------------------------------------------------------------------------------------- the exponential


def _powers(rng: np.random.Generator) -> Mapping[str, Any]:
    coefficients = np.array([np.log(2) ** n / factorial(n) for n in range(4, -1, -1)], np.float32)
    return {"x": rng.uniform(-20, 0, 64).astype(np.float32), "coefficients": coefficients}


def _scaled(power: Array, n: Array) -> Array:
    """Power times 2^n: n added to the exponent field."""
    return (power.view(np.int32) + (n.astype(np.int32) << 23)).view(np.float32)


def _horner(x: Array, coefficients: Array) -> Array:
    power = np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        power = scalar.fma(power, x, coefficient)
    return power


def _power(given: Given) -> Array:
    n = np.rint(given.x)
    return _scaled(_horner(given.x - n, given.coefficients), n)


def _power_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    x, coefficients = given.x, given.coefficients
    n = np.rint(x)
    twice = np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        twice = scalar.add(scalar.mul(twice, x - n), coefficient)
    yield "Each step is rounded twice, after the product and after the sum. fma rounds once.", _scaled(twice, n)
    for name, whole in (("down", np.floor(x)), ("towards zero", np.trunc(x))):
        yield (
            f"The integer is rounded {name}, so the rest is too large. Round to nearest.",
            (_scaled(_horner(x - whole, coefficients), whole)),
        )
    yield (
        "The coefficients are in reverse order: the highest power comes first.",
        (_scaled(_horner(x - n, coefficients[::-1]), n)),
    )
    yield "The polynomial gets all of x. It is only good from -0.5 to 0.5.", _horner(x, coefficients)
    yield "The integer part is missing.", _horner(x - n, coefficients)
    yield "This is numpy's exp2. The bits must be those of the polynomial.", np.exp2(x)


# ---------------------------------------------------------------------------------------------- a window

#: The queries of windowed_attention are the positions from here on.
_FIRST = 64


def _window(rng: np.random.Generator) -> Mapping[str, Any]:
    matrices = {name: rng.normal(size=(rows, 64)).astype(np.float16) for name, rows in (("q", 64), ("k", 128))}
    return {**matrices, "v": rng.normal(size=(128, 64)).astype(np.float16), "window": int(rng.integers(20, 45))}


def _attended(given: Given, visible: Array, hidden: float = -np.inf, offset_of_none: float = 0) -> Array:
    """Attention of 64 queries to the keys that are `visible` (64, keys), in tiles of 64, as matrices.

    The others have the score `hidden`. A row that has seen no key yet has the offset of the score `offset_of_none`.
    """
    largest, total = np.full((64, 1), -np.inf, np.float32), np.zeros((64, 1), np.float32)
    o = np.zeros((64, 64), np.float32)
    for first in range(0, len(given.k), 64):
        tile = slice(first, first + 64)
        s = matmul(given.q, np.ascontiguousarray(given.k[tile].T), instruction=MMA)
        s = np.where(visible[:, tile], s, np.float32(hidden))
        before, largest = largest, np.maximum(largest, s.max(axis=1, keepdims=True))
        # a row that has seen no key yet: any finite offset, since its sums are scaled to nothing later
        offset = scalar.mul(np.where(np.isfinite(largest), largest, np.float32(0)), -attention.SCALE)
        factor = attention.exp2(scalar.fma(before, attention.SCALE, offset))
        p = attention.exp2(scalar.fma(s, attention.SCALE, offset))
        total = scalar.fma(total, factor, _of_rows(p))
        with np.errstate(over="ignore", invalid="ignore"):  # with scores that are wrong, it may be infinite
            p16 = p.astype(np.float16)
        o = matmul(p16, given.v[tile], scalar.mul(o, factor), instruction=MMA)
    return scalar.div(o, total)


def _of_rows(p: Array) -> Array:
    """The sum of each row of a tile: in each lane from left to right, then over the four lanes."""
    lanes = np.zeros((64, 4), np.float32)
    for pairs in p.reshape(64, 8, 4, 2).swapaxes(0, 1):
        lanes = scalar.add(scalar.add(lanes, pairs[:, :, 0]), pairs[:, :, 1])
    return scalar.add(scalar.add(lanes[:, :1], lanes[:, 1:2]), scalar.add(lanes[:, 2:3], lanes[:, 3:]))


def _age(first: int = _FIRST) -> Array:
    """How many positions a key lies before a query."""
    return first + np.arange(64)[:, None] - np.arange(128)


def _windowed(given: Given) -> Array:
    return _attended(given, (_age() >= 0) & (_age() < given.window))


def _windowed_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    age, window = _age(), given.window
    yield "The window has one key too many: the query's own key counts.", _attended(given, (age >= 0) & (age <= window))
    yield (
        "The window has one key too few: the query's own key counts, and no more.",
        (_attended(given, (age >= 0) & (age < window - 1))),
    )
    yield "A query does not see its own key.", _attended(given, (age > 0) & (age < window))
    yield "There is no window: each query sees all keys up to its own.", _attended(given, age >= 0)
    yield "Later keys are visible: only the window's other end is masked.", _attended(given, age < window)
    yield "Nothing is masked.", _attended(given, np.ones((64, 128), bool))
    seen = (age >= 0) & (age < window)
    for hidden in (-1e30, -1e20, -1e15, float(np.finfo(np.float32).min)):
        yield (
            (
                "The hidden scores are finite, and so large that rounding leaves a large number of their difference "
                "from the largest one. In a row that sees no key of the first tile, 2 to that power overflows. Use "
                "−inf."
            ),
            _attended(given, seen, hidden),
        )
    for number, name in enumerate(("first", "second")):
        unmasked = np.arange(128) // 64 == number
        yield f"The {name} tile of keys is not masked.", _attended(given, seen | unmasked)
    yield "The hidden scores are 0, and 2⁰ is 1: they count like others. Use −inf.", _attended(given, seen, 0)
    half = np.arange(64).reshape(4, 2, 8)[:, ::-1].reshape(-1)
    yield "You took elements 0 and 1 for rows g + 8, and 2 and 3 for rows g.", _attended(given, seen[half])
    pairs = np.arange(64)[:, None] // 8 % 2
    columns = np.arange(128)[None] % 2
    of_row = np.arange(64)[:, None] - 8 * pairs + 8 * columns  # elements 0 and 1 as the rows g and g + 8
    yield (
        "Elements 0 and 1 of an accumulator are in one row, and elements 2 and 3 eight rows below.",
        (_attended(given, (of_row + 64 - np.arange(128) >= 0) & (of_row + 64 - np.arange(128) < window))),
    )
    from_0 = _age(0)
    yield "The queries are the positions from 64 on, not from 0.", _attended(given, (from_0 >= 0) & (from_0 < window))


EXERCISES = [
    Exercise(
        "sums_of_a",
        "The sums that become operand A",
        "A warp holds its scores of a tile in eight accumulators of m16n8k16, for keys 0–7, 8–15, ... 56–63. The "
        "product with V takes four steps of 16 keys. Write `sums_of_a(step, register)`: it returns the accumulator (0 "
        "to 7) from which A's 32-bit register (0 to 3) of this step is made, and the first of the two elements (0 to "
        "3) in it.",
        _SUMS_OF_A,
        minutes=5,
        only=(),
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
        "`merged(m1, l1, o1, m2, l2, o2)`, which returns the finished output of the row, a float32 array.",
        Values(
            lambda given: _whole(given, *_scales(given)), np.float32, _merged_mistakes,
            lambda index: f"Element {index[0]} of the output", how="every bit of the output",
        ),
        minutes=10,
        only=(),
        know="softmax tile by tile, notebook 13",
        hints=(
            "Relative to which score can both parts be added?",
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
        only=(),
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
    Exercise(
        "power_of_two",
        "2 ^ x to the last bit",
        "Write `power_of_two(x, coefficients)`, for float32 numbers from −20 to 0. Round x to the nearest integer n; "
        "compute the polynomial of x − n with Horner's rule, where each step is one `fma.rn.f32` (the "
        "`coefficients` come with the highest power first); and add n to the exponent field. Return float32.",
        Values(
            _power, np.float32, _power_mistakes, lambda index: f"The power of x[{index[0]}]",
            how="every bit of 64 powers",
        ),
        minutes=20,
        only=("tcemu.gemm.scalar",),
        know="an exponential to the last bit, notebook 13; the fields of f32, notebook 01",
        section="9.7.3.21",
        hints=(
            "tcemu.gemm.scalar.fma(a, b, c) is fma.rn.f32 on arrays.",
            "The exponent field starts at bit 23. Adding n there, as an integer, multiplies by 2 ^ n.",
        ),
        points=2,
        draw=_powers,
    ),
    Exercise(
        "windowed_attention",
        "Attention with a sliding window",
        "Write the kernel `windowed_attention(warp, q, k, v, window, out)`: attention of 64 queries (q 64 × 64, f16) "
        "to 128 keys (k and v 128 × 64, f16); out is 64 × 64, f32. Query i is at position 64 + i. It sees `window` "
        "keys: its own and those just before it. One block of 128 threads, shared memory as for `attention.kernel`, "
        "two tiles of keys, in order. Use the functions of `tcemu.gemm.attention`; the bits are those of its "
        "softmax.",
        Kernel(
            lambda given: {**given, "out": np.zeros((64, 64), np.float32)},
            "out",
            _windowed,
            {"block": 128, "shared": attention.SHARED},
            _windowed_mistakes,
            needed=("mma.sync", "ldmatrix"),
            schedules=((0, "late"), (1, "random")),
        ),
        minutes=45,
        only=("tcemu.gemm.attention", "tcemu.gemm.scalar"),
        know="the causal kernel and the pitfalls of notebook 13",
        section="9.7.14.5.8",
        hints=(
            "Start from the causal kernel of the notebook. Query i is at position 64 + i, and there is one block.",
            "Some rows see no key of the first tile. What it adds counts for nothing later; see the first pitfall.",
            "A key is visible if its age, query − key, is at least 0 and less than the window.",
        ),
        points=6,
        draw=_window,
    ),
]  # fmt: skip
