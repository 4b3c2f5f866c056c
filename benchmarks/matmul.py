"""The speed of whole matrix products, compared with numpy's float32 `@` in the same run: benchmarks/matmul.py [size].

All cases take turns, so that other load on the machine affects all of them; medians count. After numpy's own product
there is a pause, because OpenBLAS threads keep spinning for a while and would take a core from the next case.

What the processor allows: a float product in numpy is one fused multiply-add on a vector. A fused sum needs four
operations for every product: multiply, move into place (an integer addition), convert with truncation, and add. In
addition, the search for the largest exponent takes two operations on vectors of bytes, which hold four times as many
lanes, and the addend and the rounding take about 12 operations for each sum, or 15 if it may need more than 31 bits
(float16 results, and accumulators near the ends of their range, take about 25).
The line "four operations" runs only those four, with everything in the first-level cache: this scheme cannot be faster
on this machine, and the last column is the fraction of that limit. Only sums of elements of few bits that lose nothing
(`tcemu.kernels.short_sums`) are faster: those of e4m3 into f32 on sm_90, which are one multiply-add for each product.
They lose nothing because the numbers here have a standard deviation of one; twice that, and few sums are so short.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, int32, njit

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.sizes import multiple_of

Array = npt.NDArray[Any]
ROUNDS = 7
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


def limit() -> float:
    """Products per second of `four_operations` on all cores."""
    rng = np.random.default_rng(0)
    a, b = rng.random((64, 16), np.float32), rng.random(16 * 256, np.float32)
    cores = os.cpu_count() or 1
    outs = [(np.full(256, 20 << 23, np.int32), np.empty(256, np.float32)) for _ in range(cores)]
    rounds = 200
    four_operations(a, b, *outs[0], 1)
    with ThreadPoolExecutor(cores) as pool:
        start = time.perf_counter()
        for done in [pool.submit(four_operations, a, b, addend, out, rounds) for addend, out in outs]:
            done.result()
        return cores * rounds * a.size * 256 / (time.perf_counter() - start)


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


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def throughput(size: int) -> None:
    """Print the table of all cases."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, size, size)).astype(np.float32)
    work: dict[str, Callable[[], object]] = {"numpy float32 @": lambda: x @ y}
    for name, (instruction, target) in CASES.items():
        a, b = operands(instruction, target, size)
        work[name] = partial(tcemu.matmul, a, b, instruction=instruction, target=target)
    times: dict[str, list[float]] = {name: [] for name in work}
    limits = []
    for one in work.values():
        one()
    for _ in range(ROUNDS):
        for name, one in work.items():
            times[name].append(seconds(one))
            if name == "numpy float32 @":
                time.sleep(0.5)
                limits.append(limit())
    medians = {name: statistics.median(each) for name, each in times.items()}
    numpy, most = medians["numpy float32 @"], statistics.median(limits)
    print(f"{size} x {size} x {size}, {os.cpu_count()} cores, medians of {ROUNDS} rounds")
    print(f"{'':18}{'ms':>9}{'GMAC/s':>9}{'of numpy':>10}{'of limit':>10}")
    for name, median in medians.items():
        rate = size**3 / median
        share = f"1/{median / numpy:.1f}"
        print(f"{name:18}{median * 1e3:9.1f}{rate / 1e9:9.1f}{share:>10}{rate / most:10.2f}")
    print(f"{'four operations':18}{'':9}{most / 1e9:9.1f}{'1/' + format(size**3 / numpy / most, '.1f'):>10}{1:10.2f}")
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
