"""The rounding of the processor itself: binary64 in all four roundings, as fast as to nearest."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.binary64 import DOWN, NEAREST, TOWARD_ZERO, UP

_WORD, _LONG = ir.IntType(32), ir.IntType(64)
#: LLVM's numbers of the roundings.
_TOLD = {TOWARD_ZERO: 0, NEAREST: 1, UP: 2, DOWN: 3}


@intrinsic
def round_as(typingctx, mode):  # type: ignore[no-untyped-def]
    """Let the processor round floats so, in this thread; `mode` as in `binary64`.

    Between this and `round_to_nearest`, only computations belong whose operands are loaded from memory: LLVM does not
    know that they depend on it.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        told: Any = ir.Constant(_WORD, _TOLD[NEAREST])
        for number, name in _TOLD.items():
            chosen = builder.icmp_signed("==", args[0], ir.Constant(_LONG, number))
            told = builder.select(chosen, ir.Constant(_WORD, name), told)
        _set(builder, told)
        return context.get_dummy_value()

    return types.none(types.int64), codegen


@intrinsic
def round_to_nearest(typingctx):  # type: ignore[no-untyped-def]
    """Let the processor round as programs expect it."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _set(builder, ir.Constant(_WORD, _TOLD[NEAREST]))
        return context.get_dummy_value()

    return types.none(), codegen


def _set(builder: Any, told: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_WORD])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.set.rounding"), [told])
