"""Exercises of notebook 04 about mma.m8n8k4: quad pairs, and chips that only emulate it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Crafted, Function
from tcemu.course.record import Exercise, Given
from tcemu.instructions import parse, run

Array = npt.NDArray[Any]
_QUADS = parse("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32")
_QUADS_F16 = parse("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16")

# ---------------------------------------------------------------------------------------------- quad pairs


def _quads(instruction: Any) -> Callable[..., Array]:
    fragment = instruction.fragments["d"]

    def what(lane: Array, register: Array) -> Array:
        slot = register % fragment.layout.slots
        return np.stack(np.unravel_index(fragment.layout.gather[lane, slot], fragment.shape), axis=-1)

    return what


def _changed(**changes: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """The map of f32 accumulators with another formula for product, row or column."""

    def what(lane: Array, register: Array) -> Array:
        right = dict(zip(("product", "row", "column"), np.moveaxis(_quads(_QUADS)(lane, register), -1, 0), strict=True))
        return np.stack(
            np.broadcast_arrays(*(right | {name: way(lane, register) for name, way in changes.items()}).values()), -1
        )

    return what


def _ordinary(lane: Array, register: Array) -> Array:
    """The answer if m8n8k4 were a smaller m16n8k8: one product, two registers in a row."""
    return np.stack([register // 4, lane // 4, 2 * (lane % 4) + register % 2], -1)


_QUAD_MISTAKES = (
    ("This is the layout of f16 accumulators; those of f32 are spread differently.", _quads(_QUADS_F16)),
    ("This is the layout of the other shapes. m8n8k4 is four products, one for each quad pair.", _ordinary),
    (
        "Quad pair q is lanes 4 q to 4 q + 3 and 16 + 4 q to 16 + 4 q + 3, not eight consecutive lanes.",
        _changed(product=lambda lane, _: lane // 8),
    ),
    (
        "Lanes 16 to 31 hold rows 4 to 7: you left out + 4.",
        _changed(row=lambda lane, register: lane % 2 + (register & 2)),
    ),
    (
        "The column does not depend on bit 1 of the lane, but it should.",
        _changed(column=lambda _, register: (register & 4) + register % 2),
    ),
)


def _about_quads(case: tuple[int, ...], value: tuple[int, ...]) -> str:
    product, row, column = value
    return (
        f"Register d{case[1]} of lane {case[0]} does not hold the element of product {product} in row {row} and column "
        f"{column}."
    )


# ---------------------------------------------------------------------------------------------- native or emulated


def _one_sum(parts: Mapping[str, Array], target: str) -> float:
    """The first element of the first of the four products."""
    matrices = {"a": np.zeros((4, 8, 4), np.float16), "b": np.zeros((4, 4, 8), np.float16)}
    matrices["a"][0, 0], matrices["b"][0, :, 0] = parts["a"], parts["b"]
    held = [_QUADS.fragments[role].pack(each) for role, each in matrices.items()]
    d = run(_QUADS, *held, np.zeros((32, 8), np.uint32), target=target)
    return float(_QUADS.fragments["d"].unpack(d)[0, 0, 0])


def _tells_apart(parts: Mapping[str, Array], given: Given) -> str:
    if not all(np.isfinite(each).all() for each in parts.values()):
        return "There are infinities or NaNs in the input: give finite numbers, so that only the sum decides."
    native, emulated = (_one_sum(parts, target) for target in ("sm_70", "sm_90a"))
    products = np.sort(np.abs(parts["a"].astype(np.float64) * parts["b"].astype(np.float64)))[::-1]
    if products[2]:
        return "More than two products are not 0. With two you can say where the bits go that one of the chips loses."
    if native != emulated:
        return ""
    if not products[0]:
        return "All products are zero, so there is nothing to add."
    if not products[1]:
        return f"Both give {native!r}: there is only one product that is not zero, and products are exact on both."
    gap = np.log2(products[0]) - np.log2(products[products > 0][-1])
    if gap > 28:
        why = f"the smallest product lies {gap:.0f} bits below the largest: too small even to be rounded up"
    elif gap < 22:
        why = f"the smallest product lies only {gap:.0f} bits below the largest, so it fits into the sum on both"
    else:
        why = "what is cut off on sm_70 is less than half a unit in the last place, so rounding drops it too"
    return f"Both give {native!r}: {why}."


EXERCISES = [
    Exercise(
        "quad_pair_of_d",
        "Which element of which product?",
        "Write `quad_pair_of_d(lane, register)`, which returns the product (0 to 3), the row and the column of the "
        "element that register d0 to d7 of a lane holds after `mma.sync` m8n8k4 with f32 accumulators.",
        Function(
            {"lane": range(32), "register": range(8)},
            ("product", "row", "column"),
            _quads(_QUADS),
            _QUAD_MISTAKES,
            _about_quads,
            "every register of every lane",
        ),
        minutes=20,
        only=(),
        know="quad pairs, and how to read a layout line",
        section="9.7.14.5.1",
        hints=(
            "Print the layout of d. It has three groups on the left: product, row and column.",
            "A digit of size 2 is a bit. Write down which bit of the lane or of the register each digit is.",
            "The lane is (x q w b): b is bit 0, w is bit 1, q is bits 2 and 3, x is bit 4.",
        ),
        points=2,
    ),
    Exercise(
        "native_or_emulated",
        "Tell a native m8n8k4 from an emulated one",
        "On sm_70, m8n8k4 is a tensor-core operation; on sm_90 it is a routine of ordinary f32 operations. Write "
        "`native_or_emulated()`, which returns a row of A and a column of B, four f16 each, for which the two sums "
        "differ in f32 (C is 0). At most two of the four products are not 0.",
        Crafted(
            {"a": ((4,), np.float16), "b": ((4,), np.float16)},
            _tells_apart,
            "The two give different sums.",
            "the sums on sm_70 and sm_90a",
        ),
        minutes=15,
        know="show.arithmetic_table (notebook 04), and the fused sum of notebook 00",
        hints=(
            "sm_70 keeps 23 bits below the largest exponent and cuts off the rest; sm_90 rounds after each addition.",
            "One product should be large; another should end between 23 and 25 bits further right.",
            "2^24 + 1.5: the tensor core cuts 1.5 down to a multiple of 2. To what does f32 round the sum?",
        ),
        points=2,
    ),
]
