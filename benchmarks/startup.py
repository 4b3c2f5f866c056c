"""How long a user waits for the import, the first answer, the compiler and one warp: python benchmarks/startup.py.

Each measurement is a process of its own; they take turns, and the fastest of each kind counts, because a busy machine
only ever adds. Each is compared with numpy's import in the same run, with the bound beside it. Times are processor time
of the process: what one core has to do. The clock's are beside them. One warp is compared with numpy's product.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter

ROUNDS = 9
#: What stands around the statements of a measurement.
_TIMED = """
import time
start, begun = time.process_time(), time.perf_counter()
{}
print(time.process_time() - start, time.perf_counter() - begun)
"""
_ONE = """
import numpy as np, tcemu
a, b, c = (np.arange(32 * n, dtype=np.uint32).reshape(32, n) for n in (4, 2, 4))
tcemu.run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c)
"""
_MANY = _ONE.replace("for n in (4, 2, 4)", "+ np.zeros((300, 1, 1), np.uint32) for n in (4, 2, 4)")
#: A warp again and again, and numpy's float32 product of its tile.
_AGAIN = """
import os, time
import numpy as np, tcemu
os.environ["TCEMU_KERNELS"] = "numba"
rng = np.random.default_rng(1)
mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
shapes = {"a": ((16, 16), "f2"), "b": ((16, 8), "f2"), "c": ((16, 8), "f4")}
matrices = {role: rng.normal(size=size).astype(dtype) for role, (size, dtype) in shapes.items()}
a, b, c = (mma.fragments[role].pack(matrix) for role, matrix in matrices.items())
A, B = (matrices[role].astype(np.float32) for role in "ab")
def each(call, times=2000):
    call()
    rounds = []
    for _ in range(7):
        t = time.process_time()
        for _ in range(times):
            call()
        rounds.append((time.process_time() - t) / times)
    return min(rounds)
print(each(lambda: tcemu.run(mma.opcode, a, b, c)), each(lambda: A @ B))
"""
#: A name, what a process does, and how many times numpy's import it may take.
WARM = (
    ("import numpy", "import numpy", None),
    ("import tcemu", "import numpy, tcemu", 1.6),
    ("import tcemu and tcemu.run", "import tcemu; tcemu.run", None),
    ("first answer, one warp", _ONE, 4.0),
    ("import numba", "import numba", None),
    ("first answer, 300 warps, by numba", _MANY, None),
)
#: The first answers of a processor on which nothing was compiled, and the seconds that each may take on one core.
COLD = (("first answer, one warp", _ONE, 8.0), ("first answer, 300 warps, by numba", _MANY, None))


def seconds(code: str, **environment: str) -> tuple[float, float]:
    """Seconds of a processor, and of the clock, that statements take in a fresh process."""
    return printed(_TIMED.format(code), **environment)


def printed(code: str, **environment: str) -> tuple[float, float]:
    """The two numbers that a fresh process prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "TCEMU_QUIET": "1", "TCEMU_KERNELS": "", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = map(float, done.stdout.split())
    return first, second


def main() -> None:
    """Measure and print."""
    for _, code, _ in WARM:  # fills the caches
        seconds(code)
    rounds = [[seconds(code) for _, code, _ in WARM] for _ in range(ROUNDS)]
    fastest = [[min(each[kind] for each in times) for kind in (0, 1)] for times in zip(*rounds, strict=True)]
    numpy = fastest[0][0]
    print(f"{'with warm caches':36} {'processor':>12} {'clock':>10}   times numpy's import")
    for (name, _, bound), (busy, clock) in zip(WARM, fastest, strict=True):
        beside = f"   (at most {bound})" if bound else ""
        print(f"{name:36} {busy:10.3f} s {clock:8.3f} s {busy / numpy:8.1f}{beside}")
    print("with nothing compiled")
    for name, code, bound in COLD:
        with tempfile.TemporaryDirectory() as empty:
            busy, clock = seconds(code, NUMBA_CACHE_DIR=empty)
        beside = f"   (at most {bound:.0f} s on one core)" if bound else ""
        print(f"{name:36} {busy:10.3f} s {clock:8.3f} s {busy / numpy:8.1f}{beside}")
    warp, product = printed(_AGAIN)
    print(f"{'one warp again, m16n8k16':36} {warp * 1e6:9.1f} us {'':10} {warp / product:7.1f} times numpy's product")


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()
    main()
