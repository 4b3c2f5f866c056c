"""Measure what benchmarks/README.md says about speed and write it there: python benchmarks/speed.py [--print].

    matmul      tcemu.matmul, a square product of 1024, beside numpy's float32 `@` of that size
    batch       20,000 warps in one call of tcemu.run, registers in and registers out, beside tcemu.matmul

All cases take turns, and the best of some rounds counts. After numpy there is a pause, because the threads of its BLAS
keep spinning. With --print, this folder's README stays as it is.
"""

from __future__ import annotations

import os
import platform
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.batches import CASES, OTHERS, batch
from benchmarks.matmul import operands
from benchmarks.turns import ROUNDS, best, rest

SIZE, WARPS = 1024, 20_000
README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- speed: begin -->\n", "<!-- speed: end -->\n"
NUMPY = "numpy"
Case = tuple[str, str]


def processor() -> str:
    """The processor's name, as the system knows it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    names = [line.split(":")[1] for line in lines if line.startswith("model name")]
    return " ".join((names[0] if names else platform.processor() or platform.machine()).split())


def product(instruction: str, target: str) -> Callable[[], object]:
    """A whole product by tcemu.matmul."""
    a, b = operands(instruction, target, SIZE)
    return lambda: tcemu.matmul(a, b, instruction=instruction, target=target)


def shortest() -> dict[tuple[str, ...], float]:
    """The shortest time of numpy's product, of each product by tcemu.matmul, and of each batch."""
    x, y = np.random.default_rng(0).standard_normal((2, SIZE, SIZE)).astype(np.float32)
    works: dict[tuple[str, ...], Callable[[], object]] = {(NUMPY,): lambda: x @ y, ("rest",): rest}
    for name, own in CASES.items():
        works["matmul", *own] = product(*own)
        works["batch", name] = batch(*own, WARPS)
    for name, (instruction, target, dense, on) in OTHERS.items():
        works.setdefault(("matmul", dense, on), product(dense, on))
        works["batch", name] = batch(instruction, target, WARPS)
    return dict(zip(works, best(list(works.values())), strict=True))


def table() -> str:
    """The rows in Markdown."""
    times = shortest()
    lines = [
        "| | `tcemu.matmul`, GMAC/s | of numpy's float32 `@` | 20,000 warps in `tcemu.run` | of `tcemu.matmul` |",
        "|---|---:|---:|---:|---:|",
    ]
    rows = {name: (*own, *own) for name, own in CASES.items()} | OTHERS
    for name, (instruction, target, *dense) in rows.items():
        shape, whole = tcemu.parse(instruction, target).shape, times["matmul", *dense]
        rate, one = SIZE**3 / whole, WARPS * shape.m * shape.n * shape.k / times["batch", name]
        own = f"{rate / 1e9:.1f} | 1/{whole / times[NUMPY,]:.1f}" if name in CASES else "|"
        lines.append(f"| {name} | {own} | {one / 1e9:.1f} | {one / rate:.2f} |")
    return "\n".join(lines) + "\n"


def section(load: float) -> str:
    """What stands between the marks; `load`: what else the machine had to do before."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    beside = f" Other programs ran at the same time (a load of {load:.0f})." if load > cores / 4 else ""
    told = f"{processor()}, {cores} cores, numpy {np.__version__}; the best of {ROUNDS} rounds of one run.{beside}"
    return f"{told}\n\n{table()}"


def main() -> None:
    """Print the section, and put it into this folder's README."""
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("--print", action="store_true", help="leave this folder's README as it is")
    told = options.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    found = section(load)
    print(found)
    if not told.print:
        before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        README.write_text(before + BEGIN + found + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
