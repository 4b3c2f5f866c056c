"""The small tools of the vector passes: patterns of host floats, and how wide a vector may be.

Every function inside the loops is inlined: LLVM does not vectorise a loop with a call that is not.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.compiling import njit

inlined = njit(cache=True, nogil=True, forceinline=True)


@intrinsic
def whole_vectors(typingctx):  # type: ignore[no-untyped-def]
    """Let the function around it use the widest vectors that the processor has.

    LLVM prefers 256 bits on most processors that have 512, to avoid a lower clock; here every cycle counts.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        # llvmlite has no attributes with values, but it prints any text in the set.
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


@inlined
def larger(x, y):  # type: ignore[no-untyped-def]
    """max in the type given: numba's widens to 64 bits, which halves the lanes."""
    return x if x > y else y  # noqa: FURB136


@inlined
def smaller(x, y):  # type: ignore[no-untyped-def]
    """min in the type given."""
    return x if x < y else y  # noqa: FURB136
