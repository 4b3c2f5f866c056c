"""Calls of a compiled function by its address, so that its callers do not compile it again.

numba compiles a copy of each function that a function calls along with it. A large function with several callers is
compiled once if they call it by its address, and the compiler cannot inline it there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LONG = ir.IntType(64)


@intrinsic
def call(typingctx, address, numbers):  # type: ignore[no-untyped-def]
    """Call the function at an address with a tuple of 64-bit numbers; see `address_of`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        given = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(ir.VoidType(), [_LONG] * len(given))
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(address, numbers), codegen


@intrinsic
def number(typingctx, numbers, place):  # type: ignore[no-untyped-def]
    """The 64-bit number at a place of the numbers at an address."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        at = builder.add(args[0], builder.mul(args[1], ir.Constant(_LONG, 8)))
        return builder.load(builder.inttoptr(at, _LONG.as_pointer()))

    return types.int64(types.uint64, types.int64), codegen


@intrinsic
def put(typingctx, numbers, place, value):  # type: ignore[no-untyped-def]
    """Store a 64-bit number at a place of the numbers at an address."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        at = builder.add(args[0], builder.mul(args[1], ir.Constant(_LONG, 8)))
        builder.store(args[2], builder.inttoptr(at, _LONG.as_pointer()))
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64), codegen


@cache
def address_of(function: Any, *kinds: Any) -> int:
    """The address of a compiled function of 64-bit numbers, of these types, that returns nothing."""
    function.compile(types.void(*kinds).args)
    found = function.overloads[kinds]
    return int(found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name))
