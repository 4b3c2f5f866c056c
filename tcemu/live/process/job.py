"""The jobs and answers of the process that holds the GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcemu.machine.tensor_map import TensorMap

Array = npt.NDArray[Any]

#: Seconds that a kernel may take.
TIME_LIMIT = 10.0


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel: an array that is copied there, back or both, or a scalar.

    With a tensor map, the kernel gets a pointer to the 128 bytes of the map in global memory, not to the array.
    """

    name: str
    direction: Literal["in", "out", "both", "scalar"]
    #: The array or numpy scalar; None for "out", where shape and dtype describe what comes back.
    value: Any = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    #: How cp.async.bulk.tensor sees the array; the map's address counts from the array's first byte.
    tensor_map: TensorMap | None = None


@dataclass(frozen=True)
class Job:
    """One launch, or several of the same kernel."""

    language: Literal["ptx", "c++"]
    code: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Argument, ...]
    #: Bytes of dynamic shared memory.
    shared: int = 0
    #: Options of the compiler besides the architecture.
    options: tuple[str, ...] = ()
    seconds: float = TIME_LIMIT
    #: How often the kernel runs, one launch after the other, on the same memory.
    launches: int = 1


@dataclass(frozen=True)
class Result:
    """Arrays that came back, by name, and what the kernel printed."""

    arrays: dict[str, Array] = field(default_factory=dict)
    printed: str = ""


@dataclass(frozen=True)
class Failure:
    """Why there is no result, in words. After a fatal one the process that holds the GPU ends."""

    kind: Literal["unavailable", "gpu", "compilation", "operand"]
    message: str
    fatal: bool = False


class Failed(Exception):  # noqa: N818 - it carries a Failure
    """A job, or the start of the process, failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def filled(name: str, array: Array) -> Argument:
    """An array that the kernel reads."""
    return Argument(name, "in", np.ascontiguousarray(array))


def wanted(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Argument:
    """An array that the kernel fills."""
    return Argument(name, "out", None, shape, np.dtype(dtype).str)
