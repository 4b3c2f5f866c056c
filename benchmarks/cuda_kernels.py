"""CUDA C++ kernels with and without the sanitizer, and what a cell waits for: python benchmarks/cuda_kernels.py.

Products of 256 cubed by kernels that most people have written once, and by three of tcemu.gemm's twins; a sum of two
vectors, whose blocks do little. Processor time of this process; the compiler's, a child's, counts in the cells.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.turns import best
from tcemu import cuda
from tcemu.gemm import twins

SIDE, LENGTH, ROUNDS = 256, 1 << 17, 2
SOURCE = r"""
__global__ void naive(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
template <int T> __global__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float tile_a[T][T], tile_b[T][T];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += T) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
template __global__ void tiled<16>(const float*, const float*, float*, int);
template __global__ void tiled<32>(const float*, const float*, float*, int);
__global__ void add(const float* x, const float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
"""
#: A later cell of a notebook, or with `first` the first: from the source to what the kernel wrote.
CELL = """
import resource, sys, time
start = time.perf_counter()
import numpy as np
from tcemu import cuda
def cell(factor):
    text = "__global__ void scale(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
    x = np.ones(1024, np.float32)
    cuda.compile(text + f" if (i < n) x[i] *= {factor}.0f; }}")["scale"](8, 128, x, 1024)
    assert x[0] == factor
def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cell(2 + time.time_ns() % 100000)
first = time.perf_counter() - start, spent()
start, before = time.perf_counter(), spent()
cell(2 + time.time_ns() % 100000)
print(*first, time.perf_counter() - start, spent() - before)
"""


def works() -> dict[str, Callable[[str], object]]:
    """What is measured, by name: each takes the sanitizer's mode."""
    module, rng = cuda.compile(SOURCE), np.random.default_rng(1)
    a, b = (rng.standard_normal((SIDE, SIDE), np.float32) for _ in range(2))
    c, x, z = np.zeros((SIDE, SIDE), np.float32), np.ones(LENGTH, np.float32), np.zeros(LENGTH, np.float32)
    half = a.astype(np.float16), b.astype(np.float16)

    def product(name: str, tile: int) -> Callable[[str], object]:
        grid = SIDE // tile, SIDE // tile
        return lambda mode: module[name](grid, (tile, tile), a, b, c, SIDE, sanitizer=mode)

    def twin(kernel: Callable[..., object]) -> Callable[[str], object]:
        def run(mode: str) -> None:
            with twins.emulated(sanitizer=mode):
                kernel(*half)

        return run

    return {
        "naive": product("naive", 32),
        "shared memory, 16 x 16": product("tiled<16>", 16),
        "shared memory, 32 x 32": product("tiled<32>", 32),
        "wmma": twin(twins.wmma_global),
        "mma.sync pipeline": twin(twins.mma_pipeline),
        "wgmma, TMA": twin(twins.wgmma_tma),
        f"{LENGTH:,} sums": lambda mode: module["add"](LENGTH // 256, 256, x, x, z, LENGTH, sanitizer=mode),
    }


def main() -> None:
    """Measure and print."""
    print("| | s | with the sanitizer | times |\n|---|---:|---:|---:|")
    for name, work in works().items():
        off, on = best([lambda: work("off"), lambda: work("raise")], ROUNDS, time.process_time)  # noqa: B023
        print(f"| {name} | {off:.2f} | {on:.2f} | {on / off:.1f} |", flush=True)
    cells = [
        [float(each) for each in subprocess.run(
            [sys.executable, "-c", CELL], env=os.environ, capture_output=True, text=True, check=True
        ).stdout.split()]
        for _ in range(ROUNDS)
    ]  # fmt: skip
    names = "first cell, by the clock", "processor time", "later cell, by the clock", "processor time"
    for name, seconds in zip(names, map(min, zip(*cells, strict=True)), strict=True):
        print(f"{name}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
