"""What an H100 reaches on the rungs of the ladder, beside cuBLAS: writes OUT/recorded.csv.

    python3 tools/record_ladder.py OUT [--sizes 4096 8192] [--only persistent]

Needs an H100, nvcc on the path, numpy, and cuBLAS: the library of a toolkit, or of the wheels that PyTorch installs.
Each kernel is compiled with `nvcc -arch=sm_90a -O3`, its D compared with a sample of the sums in float64 and, in all
elements, with cuBLAS's D; then it is timed: the median of 11 samples, under load. Inputs are standard
normal. The file belongs in tcemu/course/ladder.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import datetime
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LADDER = ROOT / "tcemu" / "course" / "ladder"
RUNGS = (
    "naive", "wmma", "mma_sync", "ldmatrix", "cp_async", "swizzle", "wgmma_tma", "warp_specialised", "cluster",
    "persistent",
)  # fmt: skip
COLUMNS = (
    "rung", "m", "n", "k", "milliseconds", "tflops", "error", "from_cublas", "card", "driver", "clock", "compiler",
    "date", "how",
)  # fmt: skip
HOW = "median of 11 samples of about 50 ms after 0.5 s of warm-up; A and B standard normal f16, D f32"


def module() -> Any:
    """tcemu/course/ladder/gpu.py, without the package around it."""
    spec = importlib.util.spec_from_file_location("ladder_gpu", LADDER / "gpu.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(LADDER / "gpu.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules["ladder_gpu"] = found
    spec.loader.exec_module(found)
    return found


def cubin(rung: str) -> bytes:
    """The kernel, compiled by nvcc."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "kernel.cubin")
        source = LADDER / "rungs" / f"{rung}.cu"
        subprocess.run(["nvcc", "-arch=sm_90a", "-O3", "-cubin", "-o", str(out), str(source)], check=True)  # noqa: S603, S607
        return out.read_bytes()


def nvcc() -> str:
    """nvcc's version."""
    text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    return f"nvcc {text.split('release ')[1].split(',')[0]}"


class Cublas:
    """cublasGemmEx: f16 in, f32 out, sums in f32."""

    def __init__(self) -> None:
        homes = [*(Path(each, "nvidia") for each in sys.path if each), Path("/usr/local")]
        found = [path for home in homes for path in sorted(home.glob("*/lib*/libcublas.so.1*"))]
        self._library = ctypes.CDLL(str(found[0]) if found else "libcublas.so.13")
        self._handle, version = ctypes.c_void_p(), ctypes.c_int()
        self._ask("cublasCreate_v2", ctypes.byref(self._handle))
        self._ask("cublasGetVersion_v2", self._handle, ctypes.byref(version))
        self.version = f"cuBLAS {version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"

    def _ask(self, name: str, *given: Any) -> None:
        if status := getattr(self._library, name)(*given):
            raise RuntimeError(f"{name}: status {status}")

    def on(self, problem: Any) -> Callable[[], None]:
        """A function that launches the product once: column-major, D^T = B A^T."""
        (m, n, k), (a, b, d) = problem.sizes, problem.places
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        transposed, plain, half, single, compute, default = 1, 0, 2, 0, 68, -1

        def launch() -> None:
            self._ask(
                "cublasGemmEx", self._handle, transposed, plain, n, m, k, ctypes.byref(one), b, half, k, a, half, k,
                ctypes.byref(zero), d, single, n, compute, default,
            )  # fmt: skip

        return launch


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--only", nargs="+", default=RUNGS, choices=RUNGS)
    asked = parser.parse_args()
    gpu = module()
    driver, cublas, compiler, today = gpu.Driver(), Cublas(), nvcc(), datetime.datetime.now(datetime.UTC).date()
    asked.out.mkdir(parents=True, exist_ok=True)
    images = {rung: cubin(rung) for rung in asked.only}
    with (asked.out / "recorded.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for size in asked.sizes:
            problem = gpu.Problem.of(driver, size, size, size)
            shape = {"m": size, "n": size, "k": size, "date": today, "how": HOW}
            cublas_d = None
            for rung in ("cublas", *asked.only):
                try:
                    if rung == "cublas":
                        launch = cublas.on(problem)
                    else:
                        launch = gpu.Loaded(driver, images[rung]).on(problem, rung == "persistent")
                    found = gpu.measured(driver, problem, launch)
                except gpu.NoGpu as error:
                    print(rung, size, error, flush=True)
                    raise
                d = problem.d()
                cublas_d = d if cublas_d is None else cublas_d
                row = {
                    "rung": rung, "milliseconds": f"{found.milliseconds:.4f}", "tflops": f"{found.tflops:.1f}",
                    "error": f"{found.error:.2e}", "from_cublas": f"{np.abs(d - cublas_d).max():.2e}",
                    "card": found.card, "driver": found.driver, "clock": found.clock,
                    "compiler": cublas.version if rung == "cublas" else compiler,
                }  # fmt: skip
                writer.writerow({**row, **shape})
                file.flush()
                print(*row.values(), "" if found.right else "WRONG", flush=True)
            for place in problem.places:
                driver.cuMemFree_v2(place)


if __name__ == "__main__":
    main()
