"""Launches of one stream: kernels that run one after the other or, where the later one allows it, overlap.

A launch with programmatic stream serialization may begin as soon as each block of the one before it has executed
griddepcontrol.launch_dependents or has exited. Until its own griddepcontrol.wait returns, it may not rely on anything
that the one before does (PTX ISA 9.1, 9.7.13.13; CUDA programming guide, Programmatic Dependent Launch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tcemu.errors import Interrupted, TcemuError
from tcemu.machine.arguments import buffer_name
from tcemu.machine.block import Shape
from tcemu.machine.events import Observer
from tcemu.machine.global_memory import GlobalMemory, is_buffer
from tcemu.machine.grid import Grid
from tcemu.machine.launch import Kernel, Launch, body_of, name_of
from tcemu.machine.sites import launched
from tcemu.machine.strategy import InOrder


@dataclass(frozen=True)
class Planned:
    """A launch that waits for its turn in a stream."""

    kernel: Kernel
    shape: Shape
    args: Sequence[Any]
    #: whether it may begin before the one before it has ended
    programmatic: bool = False


def run_stream(
    planned: Sequence[Planned],
    *,
    resident: int,
    operations: int | None = None,
    observers: Sequence[Observer] = (),
    strategy: InOrder | None = None,
) -> list[Launch]:
    """Run the launches of a stream; arrays that several of them get are one buffer for all of them.

    A TcemuError carries the results so far, in `launches`; the arrays are then unchanged.
    """
    buffers = [
        (f"{buffer_name(each.kernel, n)} of {name_of(each.kernel)}", argument)
        for each in planned
        for n, argument in enumerate(each.args)
        if is_buffer(argument)
    ]
    memory = GlobalMemory(buffers)
    pointers = iter(memory.pointers)
    results, grids = list[Launch](), list[Grid]()
    for each in planned:
        shape, name = each.shape, name_of(each.kernel)
        results.append(Launch(name, shape.grid, shape.block, shape.target, shape.seed, shape.policy))
        before = grids[-1] if grids else None
        grid = Grid(
            shape, memory, tuple(observers), resident, strategy, operations,
            kernel=name, before=before, programmatic=each.programmatic,
        )  # fmt: skip
        passed = [next(pointers) if is_buffer(argument) else argument for argument in each.args]
        grid.prepare(body_of(each.kernel, passed))
        grids.append(grid)
    try:
        with ExitStack() as stack:
            for each in planned:
                stack.enter_context(launched(each.kernel))
            try:
                grids[0].drive()
            finally:
                for grid, result in zip(grids, results, strict=True):
                    result.counts, result.blocks = Counter(grid.counts), grid.done
        memory.copy_back()
    except (TcemuError, Interrupted) as error:
        error.launch = results[0]
        raise
    return results
