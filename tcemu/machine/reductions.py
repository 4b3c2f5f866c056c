"""THE TABLE of what atom, red and bulk reductions compute: an operation on the numbers of one type.

Additions of floats round to nearest even. That a sum which is no number has the canonical NaN is inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing, nearest, shown

Array = npt.NDArray[Any]
Combine = Callable[[Array, Array], Array]

#: Formats of elements: their numpy dtypes, or the name in ml_dtypes.
_ELEMENTS: Mapping[str, str] = MappingProxyType(
    {f"{kind}{bits}": f"<{'i' if kind == 's' else 'u'}{bits // 8}" for kind in "bus" for bits in (16, 32, 64)}
    | {"f16": "<f2", "f32": "<f4", "f64": "<f8", "bf16": "bfloat16"}
)
#: The NaN that an addition answers.
_NAN = {"<f4": 0x7FFFFFFF, "<f2": 0x7FFF, "bfloat16": 0x7FFF}


def _add(one: Array, other: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(one + other)


_COMBINE: dict[str, Combine] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda _, new: new,
    "add": _add,
    "inc": lambda old, most: np.where(old >= most, 0, old + 1),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - 1),
    "min": np.fmin,
    "max": np.fmax,
}


@dataclass(frozen=True)
class Reduction:
    """One operation on one type: ``add.noftz.f16x2``. `bytes` are those of one lane's operand."""

    spelling: str
    combine: Combine
    element: str
    bytes: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an element."""
        if self.element == "bf16":
            import ml_dtypes  # noqa: F401 - numpy knows the name from then on

        return np.dtype(_ELEMENTS[self.element])

    def __call__(self, old: Array, given: Array, *, flush: bool = False) -> Array:
        """New bytes of memory (n,), from what is there and what is given (n,); `flush` makes subnormals zeros."""
        kind = self.dtype
        numbers = [np.ascontiguousarray(each).view(kind) for each in (old, given)]
        if flush:
            numbers = [_flushed(each) for each in numbers]
        found = np.asarray(self.combine(*numbers)).astype(kind)
        if flush:
            found = _flushed(found)
        bits = found.view(np.uint8)
        if self.element in ("f16", "bf16", "f32"):
            patterns = found.view(f"<u{kind.itemsize}")
            patterns[found != found] = _NAN[_ELEMENTS[self.element]]  # noqa: PLR0124 - NaN is not itself
        return bits


def _flushed(numbers: Array) -> Array:
    """Subnormal f32 as zeros of their sign."""
    small = np.abs(numbers) < np.finfo(np.float32).tiny
    return np.where(small, np.copysign(np.float32(0), numbers), numbers).astype(numbers.dtype)


def _rows(operations: str, types: str) -> dict[str, Reduction]:
    """All operations on all types. Halves, alone or in pairs, are spelt with .noftz."""
    found = {}
    for operation in operations.split():
        for name in types.split():
            element, _, pair = name.partition("x")
            half = element in ("f16", "bf16")
            spelling = f"{operation}{'.noftz' if half and operation == 'add' else ''}.{name}"
            size = int(element.lstrip("bfsu")) // 8 * (2 if pair else 1)
            found[spelling] = Reduction(spelling, _COMBINE[operation], element, size)
    return found


#: What red executes, and atom (PTX ISA 9.7.13.5, 9.7.13.6), scalar types.
RED: Mapping[str, Reduction] = MappingProxyType(
    _rows("and or xor", "b32 b64")
    | _rows("add", "u32 s32 u64 f32 f64 f16 f16x2 bf16 bf16x2")
    | _rows("inc dec", "u32")
    | _rows("min max", "u32 s32 u64 s64")
)
ATOM: Mapping[str, Reduction] = MappingProxyType({**RED, **_rows("exch", "b32 b64")})
#: Compare and swap, which takes two operands, by the bytes of each.
CAS: Mapping[str, int] = MappingProxyType({"cas.b16": 2, "cas.b32": 4, "cas.b64": 8})
#: What bulk copies reduce with (PTX ISA 9.7.9.25.4.2).
BULK: Mapping[str, Reduction] = MappingProxyType(
    {name: row for name, row in RED.items() if "x2" not in name} | _rows("min max", "f16 bf16")
)


def reduction(what: str, given: object, table: Mapping[str, Reduction], section: str) -> Reduction:
    """The row that "add.u32" spells. Raises OperandError for one that `table` does not have."""
    found = table.get(given.strip(".")) if isinstance(given, str) else None
    if found is None:
        close = f"; nearest: {listing(nearest(given, table, cutoff=0)[:3])}" if isinstance(given, str) and given else ""
        operations = listing(dict.fromkeys(name.split(".")[0] for name in table))
        raise OperandError(
            f"{what} has the operations {operations}, with their type, as 'add.u32'; got {shown(given)}{close} (PTX "
            f"ISA {section})"
        )
    return found
