"""The cost of the machine compared with the arithmetic, and of the sanitizer: benchmarks/launch.py [sizes].

First, one wgmma through tcemu.run is compared with the arithmetic of its tile. Then the three kernels of tcemu.gemm run
on square matrices of each size (default 128 to 1024) with the sanitizer off and on, in turns; medians count. The cost
should grow with the work, so the nanoseconds per multiply-add should stay about the same. The sanitizer should cost at
most a factor of 3.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tcemu
from tcemu.arithmetic import compute
from tcemu.gemm import mma_pipeline, wgmma_tma, wmma_global
from tcemu.instructions.targets import target_named
from tcemu.layouts import Descriptor

ROUNDS = 5
KERNELS = {"wgmma, TMA": wgmma_tma, "mma.sync, cp.async": mma_pipeline, "wmma, global": wmma_global}
WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of each; they are called in turn, `rounds` times, after one call that does not count."""
    for work in works:
        work()
    times = [[seconds(work) for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def one_wgmma(rng: np.random.Generator) -> None:
    """Print what tcemu.run adds to the arithmetic of one m64n256k16."""
    instruction = tcemu.parse(WGMMA)
    shared = rng.standard_normal(64 * 64 + 256 * 64).astype(np.float16).view(np.uint8)
    a = Descriptor.for_tile("f16", 64, 64, swizzle=128)
    b = Descriptor.for_tile("f16", 256, 64, swizzle=128, start=8192)
    d = np.zeros((128, 128), np.uint32)
    operation = instruction.operation(target_named("sm_90a"))
    tiles = [rng.integers(0, 1 << 14, shape, dtype=np.uint16) for shape in ((1, 64, 16), (1, 16, 256))]
    c = np.zeros((1, 64, 256), np.uint32)
    whole, alone = in_turns(
        [
            lambda: tcemu.run(instruction, d, a, b, True, 1, 1, 0, 0, shared=shared),
            lambda: compute(operation, *tiles, c),
        ],
        200,
    )
    print(
        f"one wgmma m64n256k16: {1e6 * whole:.0f} us, of which {1e6 * alone:.0f} us are its arithmetic (goal: 300 more)"
    )


def kernel(name: str, module: Any, sizes: list[int], rng: np.random.Generator) -> None:
    """Time one kernel and print a line for each size."""
    print(f"\n{name:<20} {'size':>5} {'off':>9} {'ns per multiply-add':>20} {'sanitizer':>10}")
    for size in sizes:
        a, b = (rng.standard_normal((size, size)).astype(np.float16) for _ in range(2))
        off, on = in_turns(
            [lambda: module.multiply(a, b, sanitizer="off"), lambda: module.multiply(a, b, sanitizer="raise")],  # noqa: B023
            ROUNDS if size < 512 else 1,
        )
        print(f"{'':<20} {size:>5} {off:>7.2f} s {1e9 * off / size**3:>20.1f} {on / off:>9.1f}x")


def main(sizes: list[int]) -> None:
    """Run everything."""
    rng = np.random.default_rng(0)
    one_wgmma(rng)
    for name, module in KERNELS.items():
        kernel(name, module, sizes, rng)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [128, 256, 512, 1024])
