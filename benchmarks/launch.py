"""The cost of the machine compared with the arithmetic, and of the sanitizer: benchmarks/launch.py [sizes].

1. Issuing one operation, with the sanitizer off and on, in microseconds and in units of one numpy addition of 32 lanes.
2. One wgmma through tcemu.run, and the same product from matrices.
3. The three kernels of tcemu.gemm on square matrices of each size (default 128 to 512), with the sanitizer off and on,
   in units of tcemu.matmul's time for the same product. The cost should grow with the work, so the nanoseconds per
   multiply-add should stay about the same. Goals at 512 for the kernel with wgmma: 20 times matmul, and 30 with the
   sanitizer.

Everything takes turns, and the least processor time counts: the load of other programs only adds to it. Processor time
is that of all threads together: tcemu.matmul uses all cores, the machine one.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.sizes import multiple_of
from benchmarks.turns import best
from tcemu.arithmetic import compute
from tcemu.gemm import mma_pipeline, wgmma_tma, wmma_global
from tcemu.instructions import Instruction
from tcemu.instructions.targets import target_named
from tcemu.layouts import Descriptor
from tcemu.machine.global_memory import Pointer
from tcemu.machine.warp import Warp

ROUNDS = 5
#: Operations of each kind in one launch.
TIMES = 500
KERNELS: dict[str, tuple[Any, str | Instruction]] = {
    "wgmma, TMA": (wgmma_tma, wgmma_tma.DEFAULT.mma),
    "mma.sync, cp.async": (mma_pipeline, mma_pipeline.MMA),
    "wmma, global": (wmma_global, wmma_global.MMA),
}
WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"
SMALL = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"


def in_turns(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """The least processor time of each work, of all threads together."""
    return best(works, rounds, time.process_time)


# ------------------------------------------------------------------------------------------------ one operation


def each_operation(warp: Warp, g: Pointer) -> dict[str, Callable[[], object]]:
    """What a kernel of four warps may do again and again."""
    values, others = warp.registers(1, fill=1), warp.registers(1, fill=2)
    addresses, places = 4 * warp.threads, g.at(4 * warp.threads)
    sixteen = 16 * warp.threads
    d = warp.registers(4, fill=0)
    a = Descriptor.for_tile("f16", 64, 16, swizzle=0)
    b = Descriptor.for_tile("f16", 8, 16, swizzle=0, start=2048)
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(8192, 1)
        warp.mbarrier_arrive(8192)
    warp.st_shared(sixteen, 0, "v4.b32")
    warp.st_shared(sixteen + 2048, 0, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    warp.wgmma_fence()

    def copy() -> None:
        warp.cp_async(sixteen + 4096, g + sixteen, 16)
        warp.cp_async_wait_all()

    def multiply() -> None:
        warp.run(SMALL, d, a, b, 1, 1, 1, 0, 0)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)

    return {
        "bar.warp.sync": warp.bar_warp_sync,
        "a sum of registers": lambda: values + others,
        "ld.shared": lambda: warp.ld_shared(addresses),
        "st.shared": lambda: warp.st_shared(addresses, values),
        "ld.global": lambda: warp.ld_global(places),
        "shfl.sync": lambda: warp.shfl_sync("bfly", values, 1),
        "mbarrier.try_wait": lambda: warp.mbarrier_try_wait(8192, 0),
        "cp.async, wait": copy,
        "wgmma, commit, wait": multiply,
    }


def operations() -> None:
    """Print what each operation of one warp costs."""
    spent: dict[tuple[str, str], list[float]] = {}
    lanes = np.arange(32)
    unit = in_turns([lambda: [lanes + lanes for _ in range(TIMES)]], 20)[0] / TIMES

    def kernel(warp: Warp, g: Pointer, mode: str) -> None:
        for name, work in each_operation(warp, g).items():
            warp.bar_sync()
            start = time.process_time()
            for _ in range(TIMES):
                work()
            warp.bar_sync()
            if warp.warpid == 0:
                spent.setdefault((name, mode), []).append((time.process_time() - start) / TIMES / 4)

    memory = np.zeros(1 << 13, np.uint8)
    for _ in range(ROUNDS):
        for mode in ("off", "collect"):
            tcemu.launch(kernel, 1, 128, (memory, mode), shared=1 << 14, sanitizer=mode)
    print(f"one addition of 32 lanes in numpy: {1e6 * unit:.2f} us")
    print(f"{'one operation of one warp':<28} {'off':>8} {'additions':>10} {'on':>9} {'on / off':>9}")
    for name in dict.fromkeys(name for name, _ in spent):
        off, on = (min(spent[name, mode]) for mode in ("off", "collect"))
        print(f"{name:<28} {1e6 * off:>5.1f} us {off / unit:>10.0f} {1e6 * on:>6.1f} us {on / off:>8.1f}x")


# ------------------------------------------------------------------------------------------------ kernels


def one_wgmma(rng: np.random.Generator) -> None:
    """Print how long one m64n256k16 takes from registers and shared memory, and from matrices."""
    instruction = tcemu.parse(WGMMA)
    shared = rng.standard_normal(64 * 64 + 256 * 64).astype(np.float16).view(np.uint8)
    a = Descriptor.for_tile("f16", 64, 64, swizzle=128)
    b = Descriptor.for_tile("f16", 256, 64, swizzle=128, start=8192)
    d = np.zeros((128, 128), np.uint32)
    operation = instruction.operation(target_named("sm_90a"))
    left, right = (rng.integers(0, 1 << 14, shape, dtype=np.uint16) for shape in ((1, 64, 16), (1, 16, 256)))
    c = np.zeros((1, 64, 256), np.uint32)
    by_run, of_matrices = in_turns(
        [
            lambda: tcemu.run(instruction, d, a, b, True, 1, 1, 0, 0, shared=shared),
            lambda: compute(operation, left, right, c),
        ],
        200,
    )
    print(
        f"one wgmma m64n256k16: {1e6 * by_run:.0f} us (goal: at most 100); "
        f"the same product from matrices: {1e6 * of_matrices:.0f} us"
    )


def kernel(name: str, module: Any, mma: str | Instruction, sizes: list[int], rng: np.random.Generator) -> None:
    """Time one kernel and print a line for each size."""
    print(f"\n{name:<20} {'size':>5} {'off':>9} {'ns per multiply-add':>20} {'off / matmul':>13} {'on / matmul':>12}")
    for size in sizes:
        a, b = (rng.standard_normal((size, size)).astype(np.float16) for _ in range(2))
        works = [
            lambda: tcemu.matmul(a, b, instruction=mma),  # noqa: B023
            lambda: module.multiply(a, b, sanitizer="off"),  # noqa: B023
            lambda: module.multiply(a, b, sanitizer="raise"),  # noqa: B023
        ]
        product, off, on = in_turns(works, ROUNDS)
        print(
            f"{'':<20} {size:>5} {off:>7.2f} s {1e9 * off / size**3:>20.1f} {off / product:>12.1f}x "
            f"{on / product:>11.1f}x"
        )


def main(sizes: list[int]) -> None:
    """Run everything."""
    rng = np.random.default_rng(0)
    operations()
    print()
    one_wgmma(rng)
    for name, (module, mma) in KERNELS.items():
        kernel(name, module, mma, sizes, rng)


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument(
        "sizes", type=multiple_of(128), nargs="*", default=[128, 256, 512], help="multiples of 128; 128 256 512 if none"
    )
    main(options.parse_args().sizes)
