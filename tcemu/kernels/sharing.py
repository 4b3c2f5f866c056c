"""Threads that share the tiles of a batch: each takes some, computes them, and takes more until none are left.

A thread that joins late, or not at all, delays nothing: the others take its tiles. The caller waits for tiles and not
for threads, in the kernel: to wake a thread takes longer than to compute hundreds of tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.calls import number
from tcemu.kernels.compiling import merged
from tcemu.kernels.threads import cores, join

#: More tiles are shared; and a thread takes so many times as many as the kernel computes together.
SHARED, PART = 1024, 32
_LONG = ir.IntType(64)
#: The places of the numbers that threads share, each in a line of a cache of its own: the first tile that nobody has
#: taken, how many are done, and the first that was left out, or one after the last.
TAKEN, DONE, LEFT, SHARES = 0, 8, 16, 24


def share_tiles(count: int, compute: Callable[[npt.NDArray[np.int64], bool], None]) -> int:
    """Let all cores compute so many tiles, or one core a few; returns the first tile that was left out, or `count`.

    compute: a function of the numbers that threads share, and whether to wait for all tiles.
    """
    numbers, caller = np.zeros(SHARES, np.int64), get_ident()
    numbers[LEFT] = count

    def work() -> None:
        compute(numbers, get_ident() == caller)

    if count > SHARED:
        join(work, cores())
    else:
        work()
    return int(numbers[LEFT])


def _at(builder: Any, numbers: Any, place: int) -> Any:
    address = builder.add(numbers, ir.Constant(_LONG, 8 * place))
    return builder.inttoptr(address, _LONG.as_pointer())


@intrinsic
def take(typingctx, numbers, size):  # type: ignore[no-untyped-def]
    """Take so many tiles; returns the first. numbers: the address of those that `share_tiles` gives."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("add", _at(builder, args[0], TAKEN), args[1], "monotonic")

    return types.int64(types.uint64, types.int64), codegen


@intrinsic
def leave(typingctx, numbers, tile):  # type: ignore[no-untyped-def]
    """Note that a tile and all after it may not be computed."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.atomic_rmw("min", _at(builder, args[0], LEFT), args[1], "seq_cst")
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen


@intrinsic
def finish_some(typingctx, numbers, count):  # type: ignore[no-untyped-def]
    """Note that so many tiles are done, or left out."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.atomic_rmw("add", _at(builder, args[0], DONE), args[1], "seq_cst")
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen


@intrinsic
def _wait(typingctx, numbers, count):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        look, end = builder.append_basic_block("look"), builder.append_basic_block("end")
        builder.branch(look)
        builder.position_at_end(look)
        done = builder.load_atomic(_at(builder, args[0], DONE), "seq_cst", 8)
        builder.cbranch(builder.icmp_signed("<", done, args[1]), look, end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen


@merged
def wait_for_all(numbers, count):  # type: ignore[no-untyped-def]
    """Wait until all tiles are done; returns the first that was left out, or `count`."""
    _wait(numbers, count)
    return number(numbers, np.int64(LEFT))
