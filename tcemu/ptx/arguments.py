"""Arguments of a kernel, checked before the launch: their number, types, ranges and layout, parameter by parameter.

An error names the parameter as C declares it. What passes is what the machine takes: arrays, numbers, bytes.
"""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly, counted, is_whole
from tcemu.machine.mapped import Mapped
from tcemu.ptx.signature import Parameter, described
from tcemu.ptx.struct import Struct
from tcemu.ptx.types import Scalar, element, pointee, scalar, vector
from tcemu.simt.arguments import Behind

Array = npt.NDArray[Any]
_POINTER = 8
#: Integers of 16 bytes, which numpy does not have, and whether they have a sign.
_HUGE = {"__int128": True, "unsigned __int128": False}
#: The kinds and sizes of elements that can be addresses.
_ADDRESSES = ("u", 8), ("i", 8)


def checked(kernel: str, parameters: Sequence[Parameter], values: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments for the machine. Raises OperandError for the first that does not fit its parameter."""
    if len(values) != len(parameters):
        more = (
            "" if len(values) < len(parameters) else "; grid, block and the options of the launch are apart from them"
        )
        raise OperandError(
            f"{described(kernel, parameters)} takes {counted(len(parameters), 'argument')}; got {len(values)}{more}"
        )
    return tuple(_Argument(kernel, each, value).checked() for each, value in zip(parameters, values, strict=True))


class _Argument:
    """One argument and the parameter that it is for."""

    def __init__(self, kernel: str, parameter: Parameter, value: Any) -> None:
        self.parameter, self.value = parameter, as_array(value)
        self.name = f"{kernel}: {parameter}"

    def checked(self) -> Any:
        to = self.parameter
        if isinstance(self.value, Mapped):
            return self._map()
        if pointee(to.type):
            return self._pointer(pointee(to.type))
        if isinstance(self.value, np.ndarray) and self.value.ndim and not to.type and to.size == _POINTER:
            return self._buffer()
        if self.value is None and to.size == _POINTER:
            return 0
        if isinstance(self.value, Struct | bytes | np.void):
            return self._bytes(self.value)
        if (row := scalar(to.type)) is not None:
            return self._scalar(row)
        if (several := vector(to.type)) is not None:
            return self._vector(*several)
        return self._untyped()

    # ------------------------------------------------------------------------------------------ pointers

    def _map(self) -> Any:
        to = self.parameter
        if to.size == Mapped.size or (to.size == _POINTER and (pointee(to.type) or not to.type)):
            return self.value
        raise self._misfit("is not a CUtensorMap or a pointer to one", "got a tensor map")

    def _pointer(self, to: str) -> Any:
        value = self.value
        if value is None or (is_whole(value) and value == 0):
            return 0
        if isinstance(value, Struct):
            return Behind(value, value.size)
        if isinstance(value, list | tuple) and any(isinstance(each, np.ndarray | Struct) for each in value):
            elements = Struct("elements", {"elements": [self._element(to, each) for each in value]})
            return Behind(elements, elements.size)
        if not isinstance(value, np.ndarray):
            kind = "reference" if self.parameter.type.endswith("&") else "pointer"
            raise self._misfit(f"is a {kind}: pass {_an_array_for(value)} or None", f"got {briefly(value)}")
        if pointee(to) and (value.dtype.kind, value.dtype.itemsize) not in _ADDRESSES:
            raise self._misfit("points to pointers: pass a list of arrays, [a, b]", f"got an array of {value.dtype}")
        row = element(to)
        several = vector(to)
        if row is not None and not _same(row, value.dtype) and not _complex(several, value.dtype):
            wanted = f"{row.dtype.type.__module__.replace('numpy', 'np')}.{row.dtype.name}"
            same = value.dtype.isnative and value.dtype.itemsize == row.dtype.itemsize
            viewed = f".view({wanted}) is the same bytes, " if same else ""
            written = "" if self.parameter.type.startswith("const ") else ", which the kernel would write instead"
            raise self._misfit(
                f"points to elements of {to}, {wanted}",
                f"got an array of {value.dtype}. Make the array with that dtype: {viewed}.astype({wanted}) is a "
                f"copy{written}",
            )
        if several and value.dtype.kind != "c" and value.size % several[1]:
            got = f"got {value.size} numbers, not a multiple of {several[1]}"
            raise self._misfit(f"points to elements of {to}", got)
        return self._buffer()

    def _element(self, to: str, value: Any) -> Any:
        """An element of a list that a pointer points to: of float**, an array; of Params*, a struct."""
        if isinstance(value, Struct) == bool(pointee(to)):
            raise self._misfit(f"points to elements of {to}", f"got a list with {briefly(value)}")
        one = _Argument("", Parameter(self.parameter.index, to, self.parameter.name, _POINTER, "u64"), value)
        one.name = self.name
        return value if isinstance(value, Struct) else one.checked() if value is not None else None

    def _buffer(self) -> Array:
        value: Array = self.value
        if value.dtype.hasobject or not value.dtype.isnative:
            raise self._misfit("is a pointer to plain little-endian elements", f"got an array of {value.dtype}")
        if not value.size:
            empty = f"got one of shape {value.shape}; None is the null pointer"
            raise self._misfit("is a pointer to an array with elements", empty)
        if not value.flags.c_contiguous:
            raise self._misfit(
                "is a pointer to elements without gaps, in C order",
                f"got an array of shape {value.shape} with strides of {value.strides} bytes. Pass a copy, "
                "np.ascontiguousarray(...), or the whole array",
            )
        return value

    # ------------------------------------------------------------------------------------------ values

    def _scalar(self, row: Scalar) -> Any:
        value = self.value.item() if isinstance(self.value, np.ndarray) and self.value.ndim == 0 else self.value
        if row.integer or row.dtype.kind == "b":
            return self._whole(row, value)
        held = isinstance(value, np.generic) and value.dtype == row.dtype
        if not held and (not isinstance(value, int | float | np.number) or isinstance(value, np.complexfloating)):
            raise self._misfit("is a number", f"got {briefly(value)}")
        number = row.dtype.type(value) if held else self._rounded(row, float(value))
        return number.tobytes() if row.raw or self.parameter.size != row.dtype.itemsize else number

    def _rounded(self, row: Scalar, value: float) -> Any:
        with np.errstate(all="ignore"):
            number = np.array(value).astype(row.dtype)[()]
        if math.isfinite(value) and not math.isfinite(float(number)):
            raise self._misfit(f"is a number of {row.dtype}", f"{value!r} is too large for it")
        return number

    def _whole(self, row: Scalar, value: Any) -> Any:
        if isinstance(value, bool | np.bool_):
            value = int(value)
        if not is_whole(value):
            raise self._misfit("is a whole number", f"got {briefly(value)}")
        if row.dtype.kind == "b":
            return np.uint8(bool(value))
        bits = 8 * self.parameter.size  # of long, which has 32 on Windows
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if row.dtype.kind == "i" else (0, (1 << bits) - 1)
        if not low <= value <= high:
            raise self._misfit(f"is {low} to {high}", f"got {int(value)}")
        return np.dtype(f"{row.dtype.kind}{bits // 8}").type(value)

    def _vector(self, row: Scalar, count: int) -> bytes:
        value = np.asarray(self.value)
        if value.dtype.kind == "c" and not value.ndim:
            value = np.array([value.real, value.imag], value.real.dtype)
        if value.shape != (count,) or value.dtype.kind not in "iufbV":
            raise self._misfit(f"has {count} numbers: pass a tuple of them", f"got {briefly(self.value)}")
        one = Parameter(self.parameter.index, self.parameter.type, self.parameter.name, row.dtype.itemsize, "")
        numbers = [_Argument("", one, each) for each in value.tolist()]
        for each in numbers:
            each.name = self.name
        raw = b"".join(bytes(np.asarray(each._scalar(row)).tobytes()) for each in numbers)  # noqa: SLF001 - its own class
        return raw.ljust(self.parameter.size, b"\0")

    def _bytes(self, value: Any) -> Any:
        value = value.tobytes() if isinstance(value, np.void) else value
        size = value.size if isinstance(value, Struct) else len(value)
        if size != self.parameter.size:
            inside = isinstance(value, Struct) and any(isinstance(each, np.ndarray) for each in value.fields.values())
            hint = (
                "; an array in it is a pointer, a list of numpy's numbers an array inside the struct" if inside else ""
            )
            got = f"got {briefly(value)}, {size} bytes{hint}"
            raise self._misfit(f"has {counted(self.parameter.size, 'byte')}", got)
        return value

    def _untyped(self) -> Any:
        """A parameter of a type that only the kernel knows, as an enum: by PTX's type."""
        to, value = self.parameter, self.value
        if (signed := _HUGE.get(to.type)) is not None and is_whole(value):
            return self._huge(int(value), signed=signed)
        if to.ptx in ("f32", "f64"):
            return self._scalar(Scalar(np.dtype(f"f{to.size}")))
        if to.ptx == "b8" or to.size not in (1, 2, 4, 8):
            raw = "; .tobytes() passes these bytes" if getattr(value, "nbytes", 0) == to.size else ""
            raise self._misfit(
                f"is a struct of {to.size} bytes",
                f"got {briefly(value)}; tcemu.cuda.struct makes one, and tcemu.tensor_map a CUtensorMap{raw}",
            )
        if isinstance(value, np.generic) and value.dtype.itemsize == to.size:
            return value
        if isinstance(value, float) and to.size in (4, 8):
            opaque = f"has {to.size} bytes of a type that PTX does not say"
            raise self._misfit(opaque, f"write np.float{8 * to.size}({value})")
        return self._whole(Scalar(np.dtype("i8" if is_whole(value) and value < 0 else "u8")), value)

    def _huge(self, value: int, *, signed: bool) -> bytes:
        try:
            return value.to_bytes(16, "little", signed=signed)
        except OverflowError:
            raise self._misfit(f"is {'-2**127 to 2**127' if signed else '0 to 2**128'} - 1", f"got {value}") from None

    def _misfit(self, wanted: str, got: str) -> OperandError:
        return OperandError(f"{self.name}, {wanted}; {got}")


def as_array(value: Any) -> Any:
    """A numpy array of the same memory, of a tensor in the processor's memory; any other value as it is."""
    if isinstance(value, np.ndarray) or not hasattr(value, "data_ptr") or not hasattr(value, "__array__"):
        return value
    try:
        array = np.asarray(value)
    except (TypeError, RuntimeError, ValueError):  # on a GPU, or of a dtype that numpy lacks
        return value
    return array if array.ctypes.data == value.data_ptr() else value


def _an_array_for(value: Any) -> str:
    """What to pass instead of a value that is not an array."""
    if hasattr(value, "__cuda_array_interface__") or getattr(value, "is_cuda", False):
        return "a numpy array (such as cupy.asnumpy(...) or a tensor's .cpu(): nothing here is on a GPU)"
    if isinstance(value, str | bytes):
        return "a numpy array (np.frombuffer(b'...\\0', np.int8), as C's strings end with 0)"
    if isinstance(value, list | tuple):
        return "a numpy array (a = np.array([...]), which then holds what the kernel wrote)"
    shares = hasattr(value, "__array_interface__") or isinstance(value, bytearray | memoryview | array.array)
    return f"a numpy array ({'np.asarray(...) shares its memory' if shares else 'from np.array([...])'})"


def _complex(several: tuple[Scalar, int] | None, dtype: np.dtype[Any]) -> bool:
    """Whether elements are complex numbers where a pointer expects pairs: cuFloatComplex is float2."""
    if several is None or dtype.kind != "c":
        return False
    part, count = several
    return count == 2 and part.dtype.kind == "f" and dtype.itemsize == 2 * part.dtype.itemsize


def _same(row: Scalar, dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype are what a pointer to such elements expects; the sign of integers does not matter."""
    if dtype.names is not None or dtype == row.dtype:
        return True
    if dtype.itemsize != row.dtype.itemsize:
        return False
    return dtype.kind in "iub" and (row.integer or row.raw or row.dtype.kind == "b")
