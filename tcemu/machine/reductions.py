"""What atom, red and bulk reductions compute: an operation on the numbers of one type. The table lists the legal ones.

Additions of floats round to nearest even. It is inferred that a NaN sum is the canonical NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing
from tcemu.instructions import Instruction
from tcemu.instructions.elements import Elements, elements_of

Array = npt.NDArray[Any]
#: Combines what memory holds (n,) with an operand (n,): numbers, or the bytes of numbers.
Combine = Callable[[Array, Array], Array]

#: Formats of elements: their numpy dtypes, or the name in ml_dtypes.
_ELEMENTS: Mapping[str, str] = MappingProxyType(
    {f"{kind}{bits}": f"<{'i' if kind == 's' else 'u'}{bits // 8}" for kind in "bus" for bits in (16, 32, 64)}
    | {"f16": "<f2", "f32": "<f4", "f64": "<f8", "bf16": "bfloat16"}
)
#: Parts of an f32.
_SIGN, _EXPONENT = np.uint32(1 << 31), np.uint32(0xFF << 23)
#: The NaN that an addition returns.
_CANONICAL = {"f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF}


def _add_floats(one: Array, other: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(one + other)


#: On integers; on floats, those of _FLOATS first.
_COMBINE: dict[str, Combine] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "inc": lambda old, most: np.where(old >= most, 0, old + 1),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - 1),
    "min": np.fmin,
    "max": np.fmax,
}
_FLOATS: dict[str, Combine] = {"add": _add_floats}

#: The elements of tensor maps that each operation combines (PTX ISA 9.1, 9.7.9.27.1.3). Known from silicon: for .and,
#: .or and .xor the manual says .b32 and .b64, but an H100 stops at s64 and at floats. It adds tf32 and f64, which the
#: manual does not have (tests/golden/sm_90a-im2col-copies.json).
_BOXES: Mapping[str, str] = MappingProxyType(
    {"add": "u32 s32 u64 f32 f16 bf16", "inc": "u32", "dec": "u32"}
    | dict.fromkeys(("min", "max"), "u32 s32 u64 s64 f16 bf16")
    | dict.fromkeys(("and", "or", "xor"), "u32 s32 u64")
)


@dataclass(frozen=True)
class Reduction:
    """One operation on one type: ``add.noftz.f16x2``. `bytes` are those of one lane's operand."""

    spelling: str
    combine: Combine
    element: str
    bytes: int

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an element."""
        if self.element == "bf16":
            import ml_dtypes  # noqa: F401 - numpy knows the name from then on

        return np.dtype(_ELEMENTS[self.element])

    def __call__(self, old: Array, new: Array, *, flush: bool = False) -> Array:
        """The new bytes of memory (n,), from the old bytes and the operand's (n,); `flush` makes subnormals zeros."""
        old, new = (np.ascontiguousarray(each).view(self.dtype) for each in (old, new))
        return self.numbers(old, new, flush=flush).view(np.uint8)

    def numbers(self, old: Array, new: Array, *, flush: bool = False) -> Array:
        """The same for numbers of its dtype, of any shape."""
        if flush:
            old, new = _flushed(old), _flushed(new)
        result = np.asarray(self.combine(old, new))
        if result.dtype != self.dtype:
            result = result.astype(self.dtype)
        if flush:
            result = _flushed(result)
        if self.element in _CANONICAL:
            other = result != result  # noqa: PLR0124 - NaN is not itself
            if np.count_nonzero(other):  # which takes a quarter of other.any()
                result.view(f"<u{result.itemsize}")[other] = _CANONICAL[self.element]
        return result


def _flushed(numbers: Array) -> Array:
    """Subnormal f32 as zeros of their sign."""
    bits = numbers.view(np.uint32)
    small = bits & _EXPONENT == 0
    return np.where(small, bits & _SIGN, bits).view(np.float32) if np.count_nonzero(small) else numbers


def reduction_of(operation: str, kind: str) -> Reduction:
    """What `operation` computes on the numbers of a type: ("add", "f16x2")."""
    element, _, pair = kind.partition("x")
    size = int(element.lstrip("bfsu")) // 8 * (2 if pair else 1)
    combine = _FLOATS.get(operation, _COMBINE[operation]) if "f" in element else _COMBINE[operation]
    return Reduction(f"{operation}.{kind}", combine, element, size)


def step_of(instruction: Instruction, *, flush: bool) -> Callable[[Array, Array], Array]:
    """A function that computes new bytes (n,) from the old ones and an operand's; `flush` makes subnormal f32 zeros."""
    row = reduction_of(instruction.words["op"], instruction.words["type"])
    return partial(row, flush=flush and row.element == "f32")


class Step(NamedTuple):
    """One atomic operation: `new` computes new numbers from the old ones (n, count) and those of lanes."""

    dtype: np.dtype[Any]
    new: Callable[..., Array]
    #: the same as a numpy function of integers, which can accumulate a queue of lanes in one call
    chain: np.ufunc | None = None


def atomic_step(instruction: Instruction, *, flush: bool) -> Step:
    """The step of atom or red; `flush` makes subnormal f32 zeros."""
    operation, kind = instruction.words["op"], instruction.words["type"]
    if operation in _EXCHANGES:
        return Step(unsigned(elements_of(instruction)), _EXCHANGES[operation])
    row = reduction_of(operation, kind)
    chain = row.combine if isinstance(row.combine, np.ufunc) and "f" not in row.element else None
    return Step(row.dtype, partial(row.numbers, flush=flush and row.element == "f32"), chain)


def unsigned(moved: Elements) -> np.dtype[Any]:
    """The dtype of an element as plain bits; for 128 bits, that of its halves."""
    return np.dtype(f"<u{moved.element.itemsize}")


def _compare_and_swap(old: Array, b: Array, c: Array) -> Array:
    same = old == b
    return np.where(same if same.shape[1] == 1 else same.all(axis=1, keepdims=True), c, old)


_EXCHANGES: dict[str, Callable[..., Array]] = {"exch": lambda _, b: b, "cas": _compare_and_swap}


def box_reduction(instruction: Instruction, element: str) -> Combine:
    """What cp.reduce.async.bulk.tensor does with the elements of a tensor map, on bytes (n,).

    Raises OperandError for elements that the operation does not combine.
    """
    operation = instruction.words["op"]
    kinds = _BOXES[operation].split()
    if element not in kinds:
        raise OperandError(
            f"{instruction}: .{operation} combines elements of {listing(kinds)}; those of the tensor map are "
            f"{element}. Make a map with another element type (PTX ISA {instruction.section})"
        )
    return partial(reduction_of(operation, element), flush=element == "f32")
