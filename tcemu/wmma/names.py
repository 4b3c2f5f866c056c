"""The names of nvcuda::wmma, as in C++: uses, layouts and element types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tcemu.errors import FormatError, IllegalInstruction, OperandError, did_you_mean, listing, shown
from tcemu.formats import Format, lookup
from tcemu.formats.arrays import as_array


@dataclass(frozen=True)
class Tag:
    """A use, a layout or an operation; `word` is PTX's word for it."""

    name: str
    word: str

    def __repr__(self) -> str:
        return f"wmma::{self.name}"


matrix_a, matrix_b, accumulator = Tag("matrix_a", "a"), Tag("matrix_b", "b"), Tag("accumulator", "c")
#: The layout of A or B, which is part of the fragment's type.
row_major, col_major = Tag("row_major", "row"), Tag("col_major", "col")
#: layout_t: the layout of an accumulator in memory, passed to each load and store.
mem_row_major, mem_col_major = Tag("mem_row_major", "row"), Tag("mem_col_major", "col")

USES, LAYOUTS, MEMORY_LAYOUTS = (
    (matrix_a, matrix_b, accumulator),
    (row_major, col_major),
    (mem_row_major, mem_col_major),
)
BIT_OPERATIONS = (Tag("experimental::bmmaBitOpXOR", "xor"), Tag("experimental::bmmaBitOpAND", "and"))
ACCUMULATE_OPERATIONS = (Tag("experimental::bmmaAccumulateOpPOPC", "popc"),)


def tag(value: object, accepted: Iterable[Tag], what: str) -> Tag:
    """The tag that `value` is or names. Raises OperandError, which lists the accepted ones."""
    accepted = tuple(accepted)
    accepted_tag = named(value, accepted)
    if accepted_tag is not None:
        return accepted_tag
    got = repr(value) if isinstance(value, Tag) else shown(value)
    near = did_you_mean(value, [each.name for each in accepted]) if isinstance(value, str) else ""
    raise OperandError(f"{what} must be {listing(map(repr, accepted))}; got {got}.{near}")


def named(value: object, accepted: Iterable[Tag]) -> Tag | None:
    """The tag that `value` is or names, or None."""
    word = value.split("::")[-1] if isinstance(value, str) else None
    wanted = value if isinstance(value, Tag) else None
    return next((each for each in accepted if each == wanted or word == each.name.split("::")[-1]), None)


@dataclass(frozen=True)
class Type:
    """An element type: its C++ name, its number format, and what x holds.

    `values` is the format of an element of x if that is different (tf32 elements are floats in x); `packed` is the
    dtype of x if several elements share one of its elements (u4, s4 and b1).
    """

    name: str
    format: str
    values: str = ""
    packed: str = ""
    also: tuple[str, ...] = ()

    @property
    def form(self) -> Format:
        """The number format that is multiplied or summed."""
        return lookup(self.format)

    @property
    def dtype(self) -> np.dtype[Any]:
        """dtype of x."""
        return np.dtype(self.packed) if self.packed else self.form.dtype

    @property
    def pointee(self) -> str:
        """The C++ type that a pointer to such a matrix points to: "half", or "void" for packed elements."""
        return "void" if self.packed else "float" if self.values else self.name

    def number(self, value: Any, what: str) -> Any:
        """A number as an element of x, rounded to nearest as in C++. Raises OperandError for anything else."""
        try:
            number = as_array(value, "not a number", FormatError)
            if number.ndim:
                raise FormatError(f"one number, not an array of shape {number.shape}")
            if self.packed:
                return self._word(number)
            form = lookup(self.values or self.format)
            return form.matrix(np.asarray(form.encode(number))).reshape(())[()]
        except (FormatError, TypeError, ValueError) as error:
            why = str(error).removesuffix("; satfinite=True clamps")  # the codec can do that, C++ cannot
            raise OperandError(f"{what} needs a number of type {self.name}: {why}") from None

    def _word(self, number: npt.NDArray[Any]) -> Any:
        """A 32-bit word of packed elements."""
        limits = np.iinfo(self.packed)
        if number.dtype.kind not in "iub" or not limits.min <= int(number) <= limits.max:
            raise FormatError(
                f"elements are packed in {self.packed}, so it must be a whole number from {limits.min} to {limits.max}"
            )
        return self.dtype.type(int(number))

    def __repr__(self) -> str:
        return self.name


half = Type("half", "f16", also=("__half", "float16"))
bfloat16 = Type("__nv_bfloat16", "bf16", also=("bfloat16",))
FLOAT = Type("float", "f32", also=("float32",))
double = Type("double", "f64", also=("float64",))
INT = Type("int", "s32", also=("int32", "int32_t"))
signed_char = Type("signed char", "s8", also=("int8", "int8_t", "signed_char"))
unsigned_char = Type("unsigned char", "u8", also=("uint8", "uint8_t", "unsigned_char"))
tf32 = Type("wmma::precision::tf32", "tf32", values="f32", also=("precision::tf32",))
u4 = Type("wmma::experimental::precision::u4", "u4", packed="uint32", also=("experimental::precision::u4", "uint4"))
s4 = Type("wmma::experimental::precision::s4", "s4", packed="int32", also=("experimental::precision::s4", "int4"))
b1 = Type("wmma::experimental::precision::b1", "b1", packed="uint32", also=("experimental::precision::b1",))

TYPES = (half, bfloat16, FLOAT, double, INT, signed_char, unsigned_char, tf32, u4, s4, b1)
BY_FORMAT = {each.format: each for each in TYPES}
_BY_NAME = {name: each for each in TYPES for name in (each.name.removeprefix("wmma::"), each.format, *each.also)}


def type_of(kind: object) -> Type:
    """The element type that `value` is or names: a Type, a C++ name or a numpy dtype. Raises IllegalInstruction.

    Python's float and int mean C++'s 32-bit types.
    """
    if isinstance(kind, Type):
        return kind
    name = {float: "float", int: "int"}.get(kind) if isinstance(kind, type) else None
    if isinstance(kind, str):
        name = " ".join(kind.split()).removeprefix("nvcuda::").removeprefix("wmma::")
    elif name is None and isinstance(kind, type | np.dtype):
        name = _dtype_name(kind)
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name == "char":
        raise IllegalInstruction(
            "char is a third type in C++, besides signed char and unsigned char; wmma has only those two"
        )
    names = [each.name for each in TYPES]
    got = shown(kind) if name is None or isinstance(kind, str) else name
    near = did_you_mean(name or "", names) if isinstance(kind, str) else ""
    raise IllegalInstruction(f"no fragment has elements of type {got}.{near} The types are {listing(names, 'and')}")


def _dtype_name(dtype: Any) -> str:
    try:
        return str(np.dtype(dtype).name)
    except (TypeError, ValueError):
        return ""


class Namespace:
    """A C++ namespace: its members as attributes, and a hint for names that are elsewhere."""

    def __init__(self, name: str, hint: str, **members: Any) -> None:
        self._name, self._hint = name, hint
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        members = [each for each in self.__dict__ if not each.startswith("_")]
        raise AttributeError(f"{self._name} has no {name}: it has {listing(members, 'and')}. {self._hint}")

    def __repr__(self) -> str:
        return f"<namespace {self._name}>"


precision = Namespace("wmma::precision", "u4, s4 and b1 are in wmma::experimental::precision.", tf32=tf32)
experimental = Namespace(
    "wmma::experimental", "tf32 is in wmma::precision.",
    precision=Namespace("wmma::experimental::precision", "tf32 is in wmma::precision.", u4=u4, s4=s4, b1=b1),
    **{each.name.split("::")[-1]: each for each in (*BIT_OPERATIONS, *ACCUMULATE_OPERATIONS)},
)  # fmt: skip
