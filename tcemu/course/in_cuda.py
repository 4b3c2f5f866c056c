"""Rows of exercises that are answered in CUDA C++ alone, and matrices that several of them multiply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Kernel
from tcemu.course.record import Exercise, Given

Array = npt.NDArray[Any]


def in_cuda_alone(
    name: str,
    title: str,
    task: str,
    signature: str,
    out: Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]],
    right: Callable[[Given], Array],
    draw: Callable[[np.random.Generator], Mapping[str, Any]],
    *hints: str,
    mistakes: Callable[[Given], Iterable[tuple[str, Array]]],
    block: int = 32,
    know: str,
    minutes: int = 15,
    section: str = "",
    **judged: Any,
) -> Exercise:
    """A kernel in CUDA C++: its parameters are what is drawn, in order, and then the array that it fills."""
    ((filled, (shape, dtype)),) = out.items()
    return Exercise(
        name,
        title,
        f"{task} Write the kernel `{name}` in CUDA C++, in the cell below: `{signature}`. It is launched as one "
        f"block of {block} threads. Run the cell, and then the check.",
        Kernel(
            lambda given: {**given, filled: np.zeros(shape, dtype)}, filled, right, {"block": block}, mistakes,
            languages=("CUDA C++",), kernel=name, **judged,
        ),
        minutes=minutes,
        know=f"CUDA C++; {know}",
        section=section,
        hints=hints,
        draw=draw,
        points=3,
    )  # fmt: skip


def halves(rng: np.random.Generator, *shape: int) -> Array:
    """Eighths from -8 to 8, in f16: their products and sums are exact in f32."""
    return (rng.integers(-64, 65, shape) / 8).astype(np.float16)


def product(given: Given) -> Array:
    """A times B transposed, in f32."""
    return np.asarray(given.a.astype(np.float32) @ given.b.astype(np.float32).T)


def unswizzled(matrix: Array) -> Array:
    """What is read with the 128-byte swizzle of rows of 64 elements that were stored without it."""
    units, row = matrix.reshape(len(matrix), 8, 8), np.arange(len(matrix))[:, None]
    return np.asarray(units[row, np.arange(8) ^ row % 8].reshape(matrix.shape))
