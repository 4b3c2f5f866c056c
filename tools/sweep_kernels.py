"""Run every kernel of tcemu.gemm under many seeds and all policies: python tools/sweep_kernels.py [SEEDS [PROCESSES]].

Each run must give the bits that the first one gave, whatever the order of the warps, and no report of the sanitizer.
Prints a line for each kernel, and exits with 1 if one of them fails.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from tcemu import sparse
from tcemu.gemm import (
    attention,
    mma_pipeline,
    mma_sparse,
    split_k,
    wgmma_cluster,
    wgmma_epilogue,
    wgmma_sparse,
    wgmma_stream,
    wgmma_tma,
    wmma_global,
)
from tcemu.kernels.host.threads import cores

POLICIES = ("late", "early", "random")
#: Seeds that one task of a process runs.
TASK = 25


def _half(*shape: int) -> np.ndarray[Any, Any]:
    """Random f16, the same in every process."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float16)


def _hopper(**options: Any) -> Any:
    return wgmma_tma.multiply(_half(64, 320), _half(320, 64), wgmma_tma.Plan(columns=32, stages=3), **options)


def _consumers(**options: Any) -> Any:
    plan = wgmma_tma.Plan(columns=16, consumers=2, stages=2, in_flight=0)
    return wgmma_tma.multiply(_half(128, 320), _half(320, 16), plan, **options)


def _epilogue(**options: Any) -> Any:
    plan = wgmma_tma.Plan(columns=64)
    return wgmma_epilogue.multiply(_half(64, 256), _half(256, 64), np.ones(64, np.float32), plan, **options)


def _sparse(**options: Any) -> Any:
    plan = wgmma_sparse.SparsePlan(columns=32)
    return wgmma_sparse.multiply(sparse.prune(_half(64, 512), "2:4"), _half(512, 32), plan, **options)


def _cluster(**options: Any) -> Any:
    plan = wgmma_cluster.ClusterPlan(columns=16, stages=2)
    return wgmma_cluster.multiply(_half(64, 320), _half(320, 32), plan, **options)


def _stream(**options: Any) -> Any:
    return wgmma_stream.multiply(_half(128, 192), _half(192, 32), 3, wgmma_tma.Plan(columns=32), **options)


#: Small products in which every stage is used more than once.
KERNELS: dict[str, Callable[..., Any]] = {
    "wmma_global": lambda **options: wmma_global.multiply(_half(32, 64), _half(64, 32), **options),
    "mma_pipeline": lambda **options: mma_pipeline.multiply(_half(64, 160), _half(160, 64), 3, **options),
    "mma_pipeline, 2 stages": lambda **options: mma_pipeline.multiply(_half(64, 128), _half(128, 64), 2, **options),
    "mma_sparse": lambda **options: mma_sparse.multiply(sparse.prune(_half(32, 64), "2:4"), _half(64, 32), **options),
    "split_k": lambda **options: split_k.multiply(_half(32, 128), _half(128, 32), 2, **options),
    "wgmma_tma": _hopper,
    "wgmma_tma, 2 consumers": _consumers,
    "wgmma_epilogue": _epilogue,
    "wgmma_sparse": _sparse,
    "wgmma_cluster": _cluster,
    "wgmma_stream": _stream,
    "attention": lambda **options: attention.attend(_half(64, 64), _half(128, 64), _half(128, 64), **options),
}


def _runs(name: str, first: int) -> list[str]:
    """What goes wrong under TASK seeds from `first`; each seed runs under one of the policies in turn."""
    expected, _ = KERNELS[name](sanitizer="off")
    found = []
    for seed in range(first, first + TASK):
        schedule = {"seed": seed, "policy": POLICIES[seed % len(POLICIES)]}
        d, launches = KERNELS[name](sanitizer="collect", **schedule)
        several = launches if isinstance(launches, tuple) else (launches,)
        reports = [str(report) for launch in several for report in launch.reports]
        if reports or d.tobytes() != expected.tobytes():
            found.append(f"{schedule}: {reports[0] if reports else 'other bits'}")
    return found


def main(seeds: int, processes: int) -> int:
    """Print a line for each kernel; the number of kernels that fail."""
    failed = 0
    with ProcessPoolExecutor(processes) as pool:
        for name in KERNELS:
            starts = range(1, seeds + 1, TASK)
            wrong = [each for part in pool.map(_runs, [name] * len(starts), starts) for each in part]
            said = f"{len(wrong)} fail: {wrong[0]}" if wrong else "clean"
            print(f"{name:24} {len(starts) * TASK:,} seeds: {said}", flush=True)
            failed += bool(wrong)
    return failed


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("seeds", type=int, nargs="?", default=1000, help="seeds of each kernel; 1000 if not given")
    options.add_argument("processes", type=int, nargs="?", default=cores(), help="one for each core if not given")
    given = options.parse_args()
    sys.exit(main(given.seeds, given.processes) > 0)
