"""How long a user waits for the import, the first instruction, and one warp: python benchmarks/startup.py.

Each measurement is a process of its own; they take turns, and medians count. Each is compared with a numpy
counterpart in the same run: numpy's import, or a small numpy product. The goals: tcemu imports in 0.3 s and without
numba; the first run takes 1.5 s with warm caches and 15 s with empty ones; one warp takes 60 microseconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 5
_IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
_FIRST = """
import time
t = time.perf_counter()
import numpy as np, tcemu
a, b, c = np.zeros((32, 4), np.uint32), np.zeros((32, 2), np.uint32), np.zeros((32, 4), np.uint32)
tcemu.run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c)
print(time.perf_counter() - t)
"""
_WARP = """
import statistics, time
import numpy as np, tcemu
rng = np.random.default_rng(1)
mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
shapes = {"a": ((16, 16), "f2"), "b": ((16, 8), "f2"), "c": ((16, 8), "f4")}
matrices = {role: rng.normal(size=size).astype(dtype) for role, (size, dtype) in shapes.items()}
a, b, c = (mma.fragments[role].pack(matrix) for role, matrix in matrices.items())
A, B = (matrices[role].astype(np.float32) for role in "ab")
def each(call, times=2000):
    for _ in range(times):
        call()
    rounds = []
    for _ in range(7):
        t = time.perf_counter()
        for _ in range(times):
            call()
        rounds.append((time.perf_counter() - t) / times)
    return statistics.median(rounds)
print(each(lambda: tcemu.run(mma.opcode, a, b, c)), each(lambda: A @ B))
"""


def seconds(code: str, **environment: str) -> list[float]:
    """The numbers that a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TCEMU_QUIET": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    """Measure and print."""
    seconds(_FIRST)  # fills the caches
    rounds: dict[str, list[float]] = {"import numpy": [], "import tcemu": [], "first run": []}
    for _ in range(ROUNDS):
        rounds["import numpy"] += seconds(_IMPORT.format("numpy"))
        rounds["import tcemu"] += seconds(_IMPORT.format("tcemu"))
        rounds["first run"] += seconds(_FIRST)
    medians = {name: statistics.median(times) for name, times in rounds.items()}
    numpy = medians["import numpy"]
    for name, time in medians.items():
        print(f"{name + ', warm caches':32} {time:8.3f} s   {time / numpy:6.1f} times numpy's import")
    with tempfile.TemporaryDirectory() as empty:
        (cold,) = seconds(_FIRST, NUMBA_CACHE_DIR=empty)
    print(f"{'first run, empty caches':32} {cold:8.3f} s   {cold / medians['first run']:6.1f} times the warm one")
    warp, product = seconds(_WARP)
    print(f"{'one warp, m16n8k16':32} {warp * 1e6:8.1f} us  {warp / product:6.1f} times numpy's product of the tile")


if __name__ == "__main__":
    main()
