"""Sets how the processor rounds, so that binary64 is as fast in the directed roundings as to nearest."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.binary64 import DOWN, NEAREST, TOWARD_ZERO, UP

_WORD, _LONG = ir.IntType(32), ir.IntType(64)
#: LLVM's number for each rounding.
_OF_LLVM = {TOWARD_ZERO: 0, NEAREST: 1, UP: 2, DOWN: 3}


@intrinsic
def round_as(typingctx, mode):  # type: ignore[no-untyped-def]
    """Set how the processor rounds floats in this thread; `mode` as in `binary64`.

    Until `round_to_nearest`, compute only with operands loaded from memory: LLVM does not know that results depend on
    the rounding, and may move other computations.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        found: Any = ir.Constant(_WORD, _OF_LLVM[NEAREST])
        for one, number in _OF_LLVM.items():
            chosen = builder.icmp_signed("==", args[0], ir.Constant(_LONG, one))
            found = builder.select(chosen, ir.Constant(_WORD, number), found)
        _set(builder, found)
        return context.get_dummy_value()

    return types.none(types.int64), codegen


@intrinsic
def round_to_nearest(typingctx):  # type: ignore[no-untyped-def]
    """Set the rounding to nearest, as programs expect it."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _set(builder, ir.Constant(_WORD, _OF_LLVM[NEAREST]))
        return context.get_dummy_value()

    return types.none(), codegen


def _set(builder: Any, number: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_WORD])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.set.rounding"), [number])
