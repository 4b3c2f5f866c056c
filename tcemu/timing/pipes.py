"""What ordinary instructions cost: the pipes of a sub-partition, and stretches of instructions.

A sub-partition issues an instruction of a warp in a clock. How long that keeps its pipe busy follows from the table
"Throughput of Native Arithmetic Instructions" of the CUDA C++ Programming Guide, for compute capability 9.0: results in
a clock and SM, so an instruction of 32 lanes takes a sub-partition 128 / results clocks. Each pipe names an instruction
that was measured, whose latency counts for all of the pipe. An instruction that was measured itself has its own costs,
which differ from the guide's here and there: fma.rn.f16x2 took an H200 1.1 clocks (with a latency of 8, it takes eight
chains or more), fma.rn.f64 1.4 and div.rn.f32 58.

A kernel in PTX is not what an SM executes. ptxas interleaves independent instructions, so that a stretch between two
operations takes as long as the busiest pipe, its instructions' issue, or its longest chain, whichever is the longest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tcemu.machine.events import Stretch


class Pipe(NamedTuple):
    """Instructions of a sub-partition that follow each other."""

    name: str
    #: Clocks for which an instruction of a warp keeps it busy: 128 / results in a clock and SM.
    interval: float
    #: An instruction that the table of costs has; the latency is its.
    like: str
    #: What matches its opcodes.
    opcodes: re.Pattern[str]


def _pipe(name: str, results: int, like: str, opcodes: str) -> Pipe:
    return Pipe(name, 128 / results, like, re.compile(opcodes))


# fmt: off
#: The first one whose pattern matches an opcode; the guide's row is above it.
PIPES = (
    # two results in a register: measured, the guide has no row for them
    _pipe("special", 8, "ex2.approx.f16x2", r"(ex2|tanh)\.approx\..*f16x2$"),
    # reciprocal, its square root, base-2 logarithm and exponential, sine, cosine
    _pipe("special", 16, "ex2.approx.ftz.f32", r"(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\.approx"),
    # population count, leading zeros, bit reverse; conversions to integers, and inferred: those of 64-bit types
    _pipe("special", 16, "popc.b32", r"popc|clz|bfind|brev|cvt\.\w+\.[su]\d+\.b?f\d+|cvt\..*f64"),
    # 64-bit floating-point add, multiply, multiply-add
    _pipe("f64", 64, "fma.rn.f64", r"(add|sub|mul|fma|mad|min|max|setp)\..*f64$"),
    # 16-bit floating-point add, multiply, multiply-add: 256 results, two in a register
    _pipe("fma", 128, "fma.rn.f16x2", r"(add|sub|mul|fma)\..*f16x2$"),
    _pipe("fma", 128, "fma.rn.f16", r"(add|sub|mul|fma)\..*f16$"),
    # 32-bit floating-point add, multiply, multiply-add
    _pipe("fma", 128, "fma.rn.f32", r"(add|sub|mul|fma|mad)\..*f32$"),
    # 32-bit integer multiply, multiply-add
    _pipe("fma", 64, "mad.lo.s32", r"(mul|mad|mul24|mad24|dp2a|dp4a)\."),
    # several instructions; inferred from the one that was measured
    _pipe("alu", 8, "div.rn.f32", r"div|rem|sqrt|rcp|rsqrt"),
    # integer add, shift, logic; compare, minimum, maximum; all other conversions
    _pipe("alu", 64, "prmt.b32", r""),
)
# fmt: on


def pipe_of(opcode: str) -> Pipe:
    """The pipe of an ordinary instruction.

    >>> from tcemu.timing.pipes import pipe_of
    >>> pipe_of("ex2.approx.ftz.f32").interval, pipe_of("fma.rn.f32").interval, pipe_of("add.s32").interval
    (8.0, 1.0, 2.0)
    """
    return next(pipe for pipe in PIPES if pipe.opcodes.match(opcode))


class Rate(NamedTuple):
    """The cost of consecutive ordinary instructions for a warp and for its sub-partition."""

    interval: float
    latency: float
    #: The pipe, and the clocks for which it is busy with one of them, whichever warp it is from.
    unit: str
    pipe: float
    #: Issue slots.
    slots: float = 1


class Work(NamedTuple):
    """Ordinary instructions of one warp: issue slots, clocks of each pipe, and until the next operation can issue."""

    slots: float
    pipes: Mapping[str, float]
    until: float


def work_of(stretch: Stretch, rate_of: Callable[[str], Rate]) -> Work:
    """What a stretch costs."""
    pipes: dict[str, float] = defaultdict(float)
    ready: list[float] = []
    slots = 0.0
    for opcode, reads in stretch.instructions:
        rate = rate_of(opcode)
        pipes[rate.unit] += rate.pipe
        slots += rate.slots
        ready.append(max((ready[each] for each in reads), default=0.0) + rate.latency)
    return Work(slots, pipes, max([slots, *pipes.values(), *ready]))
