"""The speed of whole matrix products, compared with numpy's float32 `@` in the same run: benchmarks/matmul.py [size].

All cases take turns, so that other load on the machine affects all of them; medians count. After numpy's own product
there is a pause, because OpenBLAS threads keep spinning for a while and would take a core from the next case.

What the processor allows: a float product in numpy is one fused multiply-add on a vector. A fused sum needs four
operations for every product: multiply, move into place (an integer addition), convert with truncation, and add. In
addition, the search for the largest exponent takes two operations on vectors of bytes, which hold four times as many
lanes, and the addend and the rounding take about 12 operations for each sum, or 15 if it may need more than 31 bits
(float16 results take about 20, accumulators near the ends of their range 25).
The line "four operations" runs only those four, with everything in the first-level cache: this scheme cannot be faster
on this machine, and the last column is the fraction of that limit. Only sums of elements of few bits that lose nothing
(`tcemu.kernels.sums.short`) are faster: those of e4m3 into f32 on sm_90, which are one multiply-add for each product.
They lose nothing because the numbers here have a standard deviation of one; twice that, and few sums are so short.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, int32, njit

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.sizes import multiple_of
from benchmarks.turns import ROUNDS, rest, times
from tcemu.backend import on_all_cores
from tcemu.kernels.host.threads import cores

Array = npt.NDArray[Any]
#: What is timed besides the products: numpy's, a pause, and the bound; how often that repeats its own products.
NUMPY, REST, LIMIT, REPEATED = "numpy float32 @", "rest", "four operations", 200
MMA = "mma.sync.aligned."
CASES = {
    "f16 into f32": (MMA + "m16n8k16.row.col.f32.f16.f16.f32", "sm_90a"),
    "f16 into f16": (MMA + "m16n8k16.row.col.f16.f16.f16.f16", "sm_90a"),
    "bf16": (MMA + "m16n8k16.row.col.f32.bf16.bf16.f32", "sm_90a"),
    "tf32": (MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", "sm_90a"),
    "e4m3 into f32": (MMA + "m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    "e5m2 into f16": (MMA + "m16n8k32.row.col.f16.e5m2.e5m2.f16", "sm_90a"),
    "s8": (MMA + "m16n8k32.row.col.s32.s8.s8.s32", "sm_90a"),
    "s8 .satfinite": (MMA + "m16n8k32.row.col.satfinite.s32.s8.s8.s32", "sm_90a"),
    "f64": (MMA + "m8n8k4.row.col.f64.f64.f64.f64", "sm_90a"),
    "f16, sm_80": (MMA + "m16n8k16.row.col.f32.f16.f16.f32", "sm_80"),
    "tf32, sm_80": (MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80"),
    "e4m3, sm_89": (MMA + "m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89"),
    "e4m3, sm_120": (MMA + "m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_120a"),
}
#: A product that is large enough for numba to be loaded.
FIRST = """
import time; start = time.perf_counter()
import numpy as np, tcemu
tcemu.matmul(*np.ones((2, 256, 256), np.float16), instruction="{}")
print(time.perf_counter() - start)
"""


@njit(nogil=True, error_model="numpy")
def four_operations(a: Array, b: Array, addend: Array, out: Array, rounds: int) -> None:
    """Sixteen products an element, `rounds` times: multiply, add to the exponent, truncate, add."""
    for _ in range(rounds):
        for m in range(a.shape[0]):
            for j in range(256):
                total, s = int32(0), addend[j]
                for k in range(16):
                    moved = np.int32(np.float32(a[m, k] * b[256 * k + j]).view(np.int32) + s)
                    total = int32(total + int32(np.int32(moved).view(np.float32)))
                out[j] = float32(total)


def at_the_limit() -> tuple[Callable[[], object], int]:
    """`four_operations` on all cores, and how many products that computes."""
    rng = np.random.default_rng(0)
    a, b = rng.random((64, 16), np.float32), rng.random(16 * 256, np.float32)
    outs = [(np.full(256, 20 << 23, np.int32), np.empty(256, np.float32)) for _ in range(cores())]

    def some(number: int) -> None:
        four_operations(a, b, *outs[number], REPEATED)

    return partial(on_all_cores, some, range(len(outs))), len(outs) * REPEATED * a.size * 256


def operands(instruction: str, target: str, size: int) -> tuple[Array, Array]:
    """Normally distributed matrices, or any integers, in the dtypes of an instruction."""
    rng = np.random.default_rng(1)
    types = tcemu.parse(instruction, target).types
    pair = []
    for role in "ab":
        if types[role].kind == "float":
            pair.append(rng.standard_normal((size, size)).astype(types[role].dtype))
        else:
            pair.append(rng.integers(-128, 128, (size, size)).astype(types[role].dtype))
    return pair[0], pair[1]


def throughput(size: int) -> None:
    """Print the table of all cases."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, size, size)).astype(np.float32)
    limit, products = at_the_limit()
    works: dict[str, Callable[[], object]] = {NUMPY: lambda: x @ y, REST: rest, LIMIT: limit}
    for name, (instruction, target) in CASES.items():
        a, b = operands(instruction, target, size)
        works[name] = partial(tcemu.matmul, a, b, instruction=instruction, target=target)
    medians = dict(zip(works, map(statistics.median, times(list(works.values()))), strict=True))
    numpy, most = medians[NUMPY], products / medians[LIMIT]
    print(f"{size} x {size} x {size}, {cores()} cores, medians of {ROUNDS} rounds")
    print(f"{'':18}{'ms':>9}{'GMAC/s':>9}{'of numpy':>10}{'of limit':>10}")
    for name, median in medians.items():
        if name not in (REST, LIMIT):
            rate = size**3 / median
            share = f"1/{median / numpy:.1f}"
            print(f"{name:18}{median * 1e3:9.1f}{rate / 1e9:9.1f}{share:>10}{rate / most:10.2f}")
    print(f"{LIMIT:18}{'':9}{most / 1e9:9.1f}{'1/' + format(size**3 / numpy / most, '.1f'):>10}{1:10.2f}")
    kernel = os.environ.get("OPENBLAS_CORETYPE")
    if kernel:
        print(f"numpy's OpenBLAS uses its {kernel} kernels (OPENBLAS_CORETYPE)")


def first_use() -> None:
    """Print how long the first product of a new process takes, imports included."""
    with tempfile.TemporaryDirectory() as cache:
        for name in ("nothing compiled yet", "compiled before"):
            done = subprocess.run(
                [sys.executable, "-c", FIRST.format(CASES["f16 into f32"][0])],
                env={**os.environ, "NUMBA_CACHE_DIR": cache, "TCEMU_QUIET": "1"},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            print(f"first product of a process, {name}: {float(done.stdout):.2f} s")


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument(
        "size", type=multiple_of(32), nargs="?", default=1024, help="a multiple of 32; 1024 if not given"
    )
    throughput(options.parse_args().size)
    first_use()
