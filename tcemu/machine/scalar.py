"""f32 arithmetic as PTX's instructions do it outside the tensor core: rounded to nearest, every NaN 0x7fffffff.

The functions take and return float32 arrays of any shape, which broadcast; `registers.view(np.float32)` makes one. Each
is one instruction (PTX ISA 9.7.3), and its result is the same on every architecture, except that of `ex2`. Inside a
kernel, observers receive Computed, with the number of instructions that a warp needs for these values, 32 with each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from tcemu import alu
from tcemu.machine.core import RUNNING
from tcemu.machine.events import SELECTED_SOURCE
from tcemu.machine.registers import WARP

F32 = npt.NDArray[np.float32]

#: What a GPU returns for every NaN.
NAN = np.uint32(0x7FFFFFFF).view(np.float32)
#: Of an f64: the bits above those that a normal f32 does not have, those as a tie has them, at the top of a word, and
#: twice the least normal f32, less 1.
_ABOVE, _TIE = np.uint64(64 - 29), np.uint64(1 << 63)
_ONE, _SUBNORMAL = np.uint64(1), np.uint64(((1023 - 126) << 53) - 1)
#: The instructions report no errors, so numpy need not either.
_quiet = np.errstate(all="ignore")

_Parameters = ParamSpec("_Parameters")
_Made = TypeVar("_Made", bound=npt.NDArray[Any])


def _instruction(opcode: str) -> Callable[[Callable[_Parameters, _Made]], Callable[_Parameters, _Made]]:
    """A function that computes what an instruction does: the warp that calls it reports so."""

    def reporting(function: Callable[_Parameters, _Made]) -> Callable[_Parameters, _Made]:
        @wraps(function)
        def compute(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Made:
            result = function(*arguments, **named)
            warp = RUNNING.get()
            if warp is not None:
                warp.computed(opcode, -(-result.size // WARP))
            return result

        return compute

    return reporting


@_instruction("add.rn.f32")
@_quiet
def add(a: Any, b: Any) -> F32:
    """add.rn.f32."""
    return _answer(np.float32(a) + np.float32(b))


@_instruction("mul.rn.f32")
@_quiet
def mul(a: Any, b: Any) -> F32:
    """mul.rn.f32."""
    return _answer(np.float32(a) * np.float32(b))


@_instruction("div.rn.f32")
@_quiet
def div(a: Any, b: Any) -> F32:
    """div.rn.f32."""
    return _answer(np.float32(a) / np.float32(b))


@_instruction("max.f32")
def maximum(a: Any, b: Any) -> F32:
    """max.f32: a number wins over a NaN, and +0 over -0."""
    a, b = np.float32(a), np.float32(b)
    larger = np.fmax(a, b)
    if np.count_nonzero(larger) < larger.size:  # of two zeros, numpy returns any
        larger = np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), larger)
    return _answer(larger)


@_instruction("fma.rn.f32")
@_quiet
def fma(a: Any, b: Any, c: Any) -> F32:
    """fma.rn.f32: a * b + c, rounded once.

    The product is exact in f64. The sum is rounded there, and then to f32: that is wrong only where the first rounding
    gave a tie of the second one. Ties of normal numbers end in 1 and 28 zeros; those of subnormal ones differ.
    """
    product, addend = np.multiply(np.float32(a), np.float32(b), dtype=np.float64), np.float32(c)
    total = np.asarray(product + addend)
    bits = total.view(np.uint64)
    if np.count_nonzero(bits << _ABOVE == _TIE) or np.count_nonzero((bits << _ONE) - _ONE < _SUBNORMAL):
        total = _odd(total, product, addend)
    return _answer(total.astype(np.float32))


def _odd(total: Any, product: Any, addend: Any) -> npt.NDArray[np.float64]:
    """The sum, rounded to odd: if it is inexact and its last bit is 0, the neighbour on the side of the error.

    Rounding to f32 then sees on which side of a tie the exact sum lies.
    """
    back = total - product
    error = (product - (total - back)) + (addend - back)  # exact (Knuth's two-sum)
    even = (total.view(np.uint64) & _ONE) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.asarray(np.where(np.isfinite(total) & (error != 0) & even, np.nextafter(total, towards), total))


@_instruction("ex2.approx.ftz.f32")
@_quiet
def ex2(x: Any) -> F32:
    """ex2.approx.ftz.f32: about 2 ** x, with the bits of a Hopper GPU; of -infinity, 0."""
    numbers = np.asarray(x, np.float32)
    bits = np.ascontiguousarray(numbers).reshape(-1).view(np.uint32)
    row: Any = alu.find("ex2.approx.ftz.f32")
    result: F32 = row.meaning(alu.ARRAYS, bits).view(np.float32)
    return result.reshape(numbers.shape)


@_instruction("cvt.rn.f16x2.f32")
@_quiet
def cvt_f16x2(low: Any, high: Any) -> npt.NDArray[np.uint32]:
    """cvt.rn.f16x2.f32: two f16 numbers in one register, `low` in its lower half; overflow gives infinity."""
    low, high = np.float32(low), np.float32(high)
    shape = low.shape if low.shape == high.shape else np.broadcast_shapes(low.shape, high.shape)
    halves = np.empty((*shape, 2), np.float16)
    halves[..., 0], halves[..., 1] = low, high
    other = halves != halves  # noqa: PLR0124 - NaN is not itself
    if np.count_nonzero(other):
        halves.view(np.uint16)[other] = 0x7FFF
    return np.asarray(halves.view(np.uint32)[..., 0])


@_instruction("setp.lt.s32; selp.b32")
def select(holds: Any, a: Any, b: Any) -> F32:
    """selp.b32: `a` where the predicate holds, `b` elsewhere; a setp makes the predicate."""
    return np.where(holds, np.float32(a), np.float32(b))


@_instruction("shl.b32; add.s32")
def shift_add(a: Any, by: int, b: Any) -> F32:
    """shl.b32 and add.s32, one instruction of the chip: the bits of `a`, `by` places to the left, are added to `b`'s.

    Added to the exponent field, an integer n multiplies by 2^n.
    """
    shifted = np.asarray(a, np.float32).view(np.uint32) << np.uint32(by)
    return (shifted + np.asarray(b, np.float32).view(np.uint32)).view(np.float32)


@_instruction(SELECTED_SOURCE)
def select_source(holds: Any, a: Any, b: Any) -> npt.NDArray[np.int64]:
    """selp.b64: the address `a` where the predicate holds, `b` elsewhere, for a copy whose source depends on a test."""
    return np.asarray(np.where(holds, a, b), np.int64)


def _answer(result: Any) -> F32:
    """A new result with the GPU's NaN."""
    array = np.asarray(result, np.float32)
    other = array != array  # noqa: PLR0124 - NaN is not itself
    if np.count_nonzero(other):
        array[other] = NAN
    return array
