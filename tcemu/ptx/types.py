"""THE TABLE of C's types: what numpy dtype an element has, and what a kernel's parameter accepts.

Types are written as a demangled name writes them: "unsigned int", "float const*", "__nv_bfloat16".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["Scalar", "element", "pointee", "scalar", "shortened", "vector"]


@dataclass(frozen=True)
class Scalar:
    """A type whose values are numbers; `raw` ones may be given as unsigned integers, which are their bits."""

    dtype: np.dtype[Any]
    raw: bool = False

    @property
    def integer(self) -> bool:
        """Whether its values are whole numbers."""
        return self.dtype.kind in "iu"


def _row(dtype: Any, names: str, *, raw: bool = False) -> dict[str, Scalar]:
    return dict.fromkeys(names.split(", "), Scalar(np.dtype(dtype), raw))


#: By C's names. `long` has 64 bits; `narrowed` is for what was compiled on Windows.
SCALARS: Mapping[str, Scalar] = {
    **_row(np.bool_, "bool"),
    **_row(np.int8, "char, signed char, int8_t"),
    **_row(np.uint8, "unsigned char, uint8_t, uchar, std::byte, char8_t"),
    **_row(np.int16, "short, signed short, int16_t, short int"),
    **_row(np.uint16, "unsigned short, uint16_t, ushort, char16_t, unsigned short int"),
    **_row(np.int32, "int, signed int, int32_t, signed"),
    **_row(np.uint32, "unsigned int, uint32_t, unsigned, uint, char32_t, u32"),
    **_row(np.int64, "long, long long, int64_t, signed long, long int, long long int, ptrdiff_t, ssize_t"),
    **_row(np.uint64, "unsigned long, unsigned long long, uint64_t, size_t, ulong, unsigned long int, uintptr_t, u64"),
    **_row(np.float32, "float"),
    **_row(np.float64, "double, long double"),  # a GPU has no longer one
    **_row(np.float16, "__half, half, cutlass::half_t", raw=True),
    **_row(ml_dtypes.bfloat16, "__nv_bfloat16, nv_bfloat16, cutlass::bfloat16_t", raw=True),
    **_row(ml_dtypes.float8_e4m3fn, "__nv_fp8_e4m3, cutlass::float_e4m3_t", raw=True),
    **_row(ml_dtypes.float8_e5m2, "__nv_fp8_e5m2, cutlass::float_e5m2_t", raw=True),
    **_row(ml_dtypes.float8_e8m0fnu, "__nv_fp8_e8m0, cutlass::float_ue8m0_t", raw=True),
}
#: C's types with several elements, by name: what each element is. char4 and the like are made below.
_VECTORS: dict[str, tuple[str, int]] = {
    "__half2": ("__half", 2), "half2": ("__half", 2), "__nv_bfloat162": ("__nv_bfloat16", 2),
    "nv_bfloat162": ("__nv_bfloat16", 2), "__nv_fp8x2_e4m3": ("__nv_fp8_e4m3", 2),
    "__nv_fp8x4_e4m3": ("__nv_fp8_e4m3", 4), "__nv_fp8x2_e5m2": ("__nv_fp8_e5m2", 2),
    "__nv_fp8x4_e5m2": ("__nv_fp8_e5m2", 4), "dim3": ("unsigned int", 3),
}  # fmt: skip
_VECTOR_OF = {
    "char": "signed char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short", "int": "int",
    "uint": "unsigned int", "long": "long", "ulong": "unsigned long", "longlong": "long long",
    "ulonglong": "unsigned long long", "float": "float", "double": "double",
}  # fmt: skip
_VECTORS |= {f"{name}{n}": (of, n) for name, of in _VECTOR_OF.items() for n in (1, 2, 3, 4)}
_LONG = re.compile(r"(?<!long )\b(?:unsigned |signed )?long\b(?! long| double)(?: int\b)?")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|struct|enum)\b")


def shortened(written: str) -> str:
    """A type without qualifiers and superfluous spaces: ``float const* __restrict__`` is ``float*``."""
    plain = re.sub(r"\s+", " ", _QUALIFIERS.sub("", written)).strip()
    return re.sub(r"\s*([*&,<>])\s*", r"\1", plain)


def pointee(written: str) -> str:
    """What a pointer, reference or array parameter points to; empty if it is none of these."""
    plain = re.sub(r"\s*\(\*\)\s*\[.*", "*", shortened(written))  # float(*)[4] points to floats, too
    return (
        plain[:-1] if plain.endswith(("*", "&")) else plain[: plain.index("[")].strip() if plain.endswith("]") else ""
    )


def narrowed(written: str) -> str:
    """A type of CUDA C++ that was compiled on Windows, where `long` has 32 bits: ``long*`` is ``int32_t*``."""
    vectors = re.sub(r"\b(u?)long([1-4])\b", r"\1int\2", written)
    return _LONG.sub(lambda long: "u" * long[0].startswith("unsigned") + "int32_t", vectors)


def scalar(written: str) -> Scalar | None:
    """The row of a type whose values are numbers, or None."""
    return SCALARS.get(shortened(written))


def vector(written: str) -> tuple[Scalar, int] | None:
    """Of a type such as float4, what an element is, and how many there are; or None."""
    name_and_count = _VECTORS.get(shortened(written))
    return (SCALARS[name_and_count[0]], name_and_count[1]) if name_and_count else None


def element(written: str) -> Scalar | None:
    """What an element of a type is that memory consists of: float is that of float and of float4; None if unknown."""
    known = vector(written)
    return known[0] if known else scalar(written)
