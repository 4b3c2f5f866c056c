"""The twins in CUDA C++ of the kernels that people ship: they run as those of tcemu.gemm.twins do.

d = shipped.wgmma_persistent(a, b, "ping-pong")     # as wgmma_persistent.multiply, answered by the GPU
with twins.emulated():
d = shipped.wgmma_persistent(a, b)              # the same CUDA C++ on the emulator
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.gemm import wgmma_persistent as persistent
from tcemu.gemm.operands import check
from tcemu.gemm.twins import boxes, hopper_source, run, sizes_of
from tcemu.gemm.wgmma_tma import WARPGROUP
from tcemu.layouts.canonical import element_bits

Array = npt.NDArray[Any]


def persistent_source(plan: persistent.PersistentPlan) -> tuple[str, dict[str, str | int]]:
    """The CUDA C++ of wgmma_persistent for a plan, and the macros to compile it with."""
    text, defined = hopper_source(plan, "wgmma_persistent")
    few, many = persistent.REGISTERS[plan.warpgroups]
    return text, {**defined, "TEAMS": plan.teams, "GROUP": plan.group, "FEW": few, "MANY": many}


def wgmma_persistent(
    a: Array,
    b: Array,
    schedule: str | persistent.PersistentPlan = "cooperative",
    blocks: int = persistent.BLOCKS,
) -> Array:
    """As wgmma_persistent.multiply."""
    plan = persistent.plan_of(schedule)
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    text, defined = persistent_source(plan)
    grid, threads = persistent.grid_of(plan, *d.shape, blocks), WARPGROUP * (plan.warpgroups + 1)
    given = *boxes(a, b, plan), d, *sizes_of(a, b)
    run(text, "persistent", (grid,), threads, *given, shared=plan.shared + 1024, define=defined)
    return d
