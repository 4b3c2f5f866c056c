"""Cycles of main loops, predicted by tcemu.timing.Timeline and measured on a GPU: python -m benchmarks.timeline.

The main loops of kernels of tcemu.gemm, one block on one SM, with data in the L2, in settings that differ in tile,
stages, swizzle, groups in flight, warps and types. With --measure, their twins in CUDA C++ run on this machine's GPU,
timed with clock64, and the medians of settings that benchmarks/timeline.json lacks are added to it; without, the ones
in that file are compared with the prediction: the ratio for each setting, and Kendall's tau over all of them.

The loop begins when all warps have passed the barrier before it (for cp.async: at the start of the kernel) and ends
when the last warp has its last product (for mma.sync: has issued it). Whole kernels are timed from their first
instruction to their last.
"""

from __future__ import annotations

import datetime
import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.main_loops import (
    ARITHMETIC,
    BETWEEN,
    BLIND,
    KERNELS,
    LAUNCHES,
    ROUNDS,
    SETTINGS,
    STEPS,
    UNSEEN,
    Setting,
    cycles_of,
)

HERE = Path(__file__).parent
MEASURED = HERE / "timeline.json"
#: The parts of the report.
PARTS: dict[str, list[Setting]] = {
    "Settings that the assumptions were fitted to": SETTINGS,
    "Other settings": UNSEEN,
    "Settings predicted before they were measured": BLIND,
    "Arithmetic between the products": ARITHMETIC,
    "Whole kernels": KERNELS,
    "Blocks that wait for each other": BETWEEN,
}


def predicted(setting: Setting) -> float:
    """The main loop's cycles in the emulator's timeline."""
    return cycles_of(setting, setting.predict())


def tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-a: the share of pairs in the same order, less the share in opposite order."""
    x, y = np.array(first), np.array(second)
    pairs = np.triu_indices(len(x), 1)
    return float(np.mean(np.sign(x[pairs[0]] - x[pairs[1]]) * np.sign(y[pairs[0]] - y[pairs[1]])))


def runs() -> list[dict[str, Any]]:
    """What has been measured: each run's provenance and cycles."""
    found: list[dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))["runs"]
    return found


def measured() -> dict[str, float]:
    """The cycles of each setting that has been measured, by its name."""
    return {name: cycles for run in runs() for name, cycles in run["cycles"].items()}


def measure() -> None:
    """Measure the settings that the file lacks, and add them to it as a run."""
    from tcemu import live

    chip, held = live.device(), measured()
    found: dict[str, float] = {}
    for setting in (each for part in PARTS.values() for each in part if str(each) not in held):
        found[str(setting)] = setting.measure()
        print(f"{setting}: {found[str(setting)]:,.0f}", flush=True)
    provenance = {
        "gpu": chip.name,
        "driver": chip.driver,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": "benchmarks/timeline.py --measure",
        "steps": STEPS,
        "rounds": ROUNDS,
        "launches": LAUNCHES,
    }
    whole = {"runs": [*runs(), {"provenance": provenance, "cycles": found}]}
    MEASURED.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """A setting's cycles: predicted and measured, and the share of the time that the tensor cores were busy."""

    setting: str
    predicted: float
    measured: float
    busy: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


def compared(settings: Sequence[Setting], held: Mapping[str, float]) -> list[Row]:
    """The rows of all settings that have been measured."""
    runs = [(setting, setting.predict()) for setting in settings if str(setting) in held]
    return [Row(str(each), cycles_of(each, run), held[str(each)], run.busy) for each, run in runs]


def summary(rows: Sequence[Row]) -> str:
    """How well both agree."""
    ratios = np.array([row.ratio for row in rows])
    within = int(np.sum(np.abs(ratios - 1) <= 0.15))
    ordered = tau([row.predicted for row in rows], [row.measured for row in rows])
    return (
        f"{within} of {len(rows)} within 15 %; the ratio is {ratios.min():.2f} to {ratios.max():.2f}, its median "
        f"{np.median(ratios):.2f}; Kendall's tau {ordered:.3f}"
    )


def report(parts: Mapping[str, Sequence[Row]], provenance: Mapping[str, Any]) -> str:
    """The report, as it is in the repository."""
    lines = [HEAD.format(**provenance)]
    for title, rows in parts.items():
        lines += [f"## {title}", "", f"{summary(rows)}.", "", "| setting | predicted | measured | ratio |"]
        lines += ["| --- | ---: | ---: | ---: |"]
        lines += [f"| {row.setting} | {row.predicted:,.0f} | {row.measured:,.0f} | {row.ratio:.2f} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


HEAD = """\
# Main loops: what a timeline predicts and what a GPU takes

Written by `python -m benchmarks.timeline --report`. Cycles of {steps} steps along K, one block on one SM, data in the
L2; measured on an {gpu} (driver {driver}, {date}) with clock64, the median of {launches} launches with {rounds} rounds
each, without each launch's first. The loops of `wgmma.sp`, those of 64 steps beside them, and the whole kernels were
measured on an H100 80GB HBM3 (same driver, 2026-11-28); of a whole kernel, the last of 6 launches counts.

What the model leaves out:

- the compiler. Ordinary instructions (addresses, loop counters, predicates) are not in a kernel of the machine; a few
  fixed numbers stand for them (`ASSUMED` in `tcemu/timing/prices.py`). The same source with a harmless change took up
  to a tenth more or less. Where a loop of `wgmma` waits for its own instructions, not for data or the tensor core, one
  of them matters: for N = 32, 64 and 72 with one warpgroup, nvcc 13.0 reads %tid again in each step, between the test
  of the mbarrier and the first product, and a step takes 296 to 308 cycles; for N = 16, 40, 48 and 96 it does not, and
  a step takes 229 to 261. The assumed costs fit the loops that read %tid again. Of the loops beyond 15 %, five do not:
  N = 16, 40 and 48, and bf16 with N = 32 and three warpgroups;
- the compiler's other moves. The timeline moves loads from shared memory into registers ahead of products and
  arithmetic, as far as six scoreboards and the last synchronization allow. Everything else issues in the kernel's
  order, but nvcc also interleaves independent chains of products;
- ptxas's order, which may undo what a kernel's author wanted. In attention_wgmma, it moved the wait for the second
  product ahead of the softmax, which then overlapped nothing: 70,832 cycles for 2048 keys, the sum of both. A wait for
  an mbarrier between them, which is a branch, keeps them apart (with ex2.approx too: 46,134). In grouped_fp8, it
  multiplied the scales before it issued the products, which then waited for the loads (30,966 cycles for K = 4096; a
  step ahead: 26,787);
- waits after a group. Loops that wait for each group at once (0 in flight, promoted) mostly take up to 16 % more than
  predicted: the model lacks the time from the last product to the first one of the next stage;
- `wgmma.sp` with one warpgroup, which takes up to 1.6 times as long as predicted. No group in flight and no metadata
  that is loaded ahead brings it to the prediction; with two warpgroups and 128x128 it is within 8 %;
- why the choice of a copy's source costs so much. `inside ? matrix + ... : matrix` takes half the time of
  mma_pipeline's loop: on an H200 with 3 and 4 stages, a step took 535 and 613 cycles, 352 and 364 with copies from one
  place, and 300 without copies. ptxas reads the pointer again from constant memory for each copy, and waits for
  registers of the copy before. The assumed cost (`source`) is that of mma_pipeline; paged_decode, which chooses
  nothing, was not fitted;
- how stores share an SM's way of data, in detail. On an H200, four tiles of ping-pong with K = 512 took 17,561 cycles
  with products alone, 18,813 with copies too, 24,496 with products and stores, and 28,025 with all three: a step of
  products took 512 cycles beside copies, 860 beside stores, 1,075 beside both. Stores to the same sectors again cost
  the same, so it is not the L2. The model has one way for all: while a store is on it, everything takes longer in the
  proportion of what is needed together (`tcemu/timing/data_path.py`). Stores of 16 bytes a lane hold copies up more
  than that: a box of 32 KiB took 295 cycles alone, 508 beside stores of 8 bytes, and up to 1,267 beside those of 16;
- the first time through a kernel, except that an SM's first copy by each tensor map waits for the map (240 cycles, and
  130 for the first copy of all; `prefetch.tensormap` hides it on a GPU, not in the model), and `setmaxnreg` takes 400.
  Instructions are not what is missing: from the second launch on, straight code up to 24 KiB cost an H200 nothing
  the first time, and attention_wgmma took the same for each tile in the first round of a launch as in the third;
- a softmax as ptxas orders it: in attention_wgmma the first tile's takes 1,380 to 1,460 cycles, 1,130 predicted;
- the caches and other SMs: all copies and loads come from the L2, at the bandwidth that one SM has alone. On a GPU,
  loads may come from the L1, which gets the part of its 256 KiB that shared memory does not take; how much that is
  depends on how many blocks could fit. The 64 KiB of metadata of a 64x64 loop of `wgmma.sp` stayed there from round to
  round if a block had 113 to 163 KiB of shared memory (454 cycles a step), and otherwise not (664). So loops with loads
  are timed with an L1 that holds none of their data;
- of a kernel in PTX, what ptxas makes of it: ordinary instructions take the time of their pipe if they compute data,
  and interleave fully between two operations; those that compute addresses and conditions are part of the fixed
  numbers;
- arithmetic that a kernel does with numpy rather than `tcemu.gemm.scalar`: only an instruction for each register that
  it writes is counted. What goes through `tcemu.gemm.scalar` has measured costs, in the kernel's order, which is about
  the parallelism that nvcc finds with 127 registers. With 64 or less, it finds half of it: a softmax that was compiled
  for blocks of any size, and so used 55, took 1294 cycles a tile instead of 734;
- differences between GPUs in the cost of a fence. In loops of their own, `fence.proxy.async` took 573 cycles on an H100
  and 169 on an H200, `membar.gl` 684 and 280: about 400 more on the H100 in both cases, with one block or 132, and
  whether or not the process had host or managed memory. On the H100, eight warps raised `membar.gl` to 919, and stores
  or atomics to device memory that were pending added a tenth at most to `fence.proxy.async`. Restricted to
  `.shared::cta` or `.global`, that took 33 and 36 cycles on both GPUs. Why the H100 takes 400 cycles more is not known.
  The table of costs is the H200's;
- the L2's own limits: at the barrier of a grid, many blocks that add to one counter and poll it get in each other's
  way;
- registers: their banks; and how many there are decides only, by an estimate, how many blocks an SM holds;
- everything before and after the loop is predicted too, but was not compared.

The assumptions were fitted to the first list alone, but for the cost of a copy, which was then split into two with
mma_pipeline's copies measured in parts, and the cost of stores, which was measured by itself. How warpgroups share the
tensor cores, and the issue slots of their descriptors, was corrected after the first two had been seen; the number of
slots was fitted to the first list. When the third list was measured, 31 of its 40 predictions were within 15 %, from
0.77 to 1.28. Then the loops with loads were timed with an empty L1, and measured costs replaced three assumptions:
those of a load from the L2, of shuffles, and of the arithmetic of promotion. An H100 took the same cycles as the H200,
within 1 %, for the 44 settings that were tried on both.

The fourth list is not a blind test either. Its softmax was timed again, because the first version turned out to be
another program: all lanes had the same scores, so nvcc removed the shuffles, and it used 55 registers. The model's 2^x
had lacked an instruction. The rule that loads move ahead was added after attention with 256 and 1024 keys had been
measured, and `copy addresses` was fitted to the first list again. Attention's other sizes were measured before that,
but nothing was fitted to them.

Nor are the whole kernels: that stores are slow and copies cheap was found in their times, of wgmma_persistent and
paged_decode, before both were measured by themselves.
"""
REPORT = HERE / "timeline.md"


def main() -> None:
    """Measure or compare."""
    parser = ArgumentParser(
        prog="python -m benchmarks.timeline", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="time the settings that the file lacks on this GPU")
    parser.add_argument("--report", action="store_true", help="write benchmarks/timeline.md")
    options = parser.parse_args()
    if options.measure:
        measure()
    held, provenance = measured(), runs()[0]["provenance"]
    parts = {title: rows for title, settings in PARTS.items() if (rows := compared(settings, held))}
    if options.report:
        REPORT.write_text(report(parts, provenance), encoding="utf-8")
    print(f"main loops of {STEPS} steps: predicted, measured on an {provenance['gpu']}, ratio")
    for title, rows in parts.items():
        print(title)
        for row in rows:
            print(f"{row.setting:58} {row.predicted:9,.0f} {row.measured:9,.0f} {row.ratio:6.2f}")
        print(summary(rows))


if __name__ == "__main__":
    main()
