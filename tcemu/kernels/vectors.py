"""The small tools of the vector passes: patterns of host floats, and how wide a vector may be.

Inside the loops every function is inlined: a call that is not keeps a loop from becoming vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.compiling import njit

inlined = njit(cache=True, nogil=True, forceinline=True)


@intrinsic
def whole_vectors(typingctx):  # type: ignore[no-untyped-def]
    """Let the function around it use the widest vectors that the processor has.

    LLVM prefers 256 bits on most processors that have 512, for fear of a lower clock; here every cycle counts.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        # llvmlite knows no attributes with values; a set of texts is what it prints.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), codegen


@inlined
def bits32(x):  # type: ignore[no-untyped-def]
    """The pattern of a float32, as int32."""
    return np.float32(x).view(np.int32)


@inlined
def from_bits32(bits):  # type: ignore[no-untyped-def]
    """The float32 of a pattern."""
    return np.int32(bits).view(np.float32)


@intrinsic
def down(typingctx, x, n):  # type: ignore[no-untyped-def]
    """x >> n of a uint32, for n < 32; numba's own shift goes through 64 bits, which halves the lanes."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.lshr(*args)

    return types.uint32(types.uint32, types.uint32), codegen


@intrinsic
def up(typingctx, x, n):  # type: ignore[no-untyped-def]
    """x << n of a uint32, for n < 32."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.shl(*args)

    return types.uint32(types.uint32, types.uint32), codegen


@inlined
def larger(x, y):  # type: ignore[no-untyped-def]
    """max in the type given: numba's widens to 64 bits, which halves the lanes."""
    return x if x > y else y  # noqa: FURB136


@inlined
def smaller(x, y):  # type: ignore[no-untyped-def]
    """min in the type given."""
    return x if x < y else y  # noqa: FURB136


# ------------------------------------------------------------------------------------------- sixteen rows to columns

_SIDE = 16


@intrinsic
def turn(typingctx, source, source_step, target, target_step):  # type: ignore[no-untyped-def]
    """Turn 16 x 16 words of 32 bits: word i of row j becomes word j of row i. Addresses, and bytes from row to row."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        source, source_step, target, target_step = args
        word, long = ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(word, _SIDE)

        def place(start: Any, step: Any, row: int) -> Any:
            address = builder.add(start, builder.mul(step, ir.Constant(long, row)))
            return builder.inttoptr(address, vector.as_pointer())

        rows = [builder.load(place(source, source_step, row)) for row in range(_SIDE)]
        for row in rows:
            row.align = 4
        half = 1
        while half < _SIDE:  # swap the blocks of `half` words that lie off the diagonal
            low = [lane if not lane & half else _SIDE + lane - half for lane in range(_SIDE)]
            high = [lane + half if not lane & half else _SIDE + lane for lane in range(_SIDE)]
            for row in range(_SIDE):
                if not row & half:
                    pair = rows[row], rows[row + half]
                    rows[row], rows[row + half] = (
                        builder.shuffle_vector(*pair, ir.Constant(vector, mask)) for mask in (low, high)
                    )
            half *= 2
        for row, value in enumerate(rows):
            builder.store(value, place(target, target_step, row)).align = 4
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, types.uint64, types.uint64), codegen
