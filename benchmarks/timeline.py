"""Cycles of main loops: what tcemu.timing.Timeline predicts and what a GPU takes: python -m
benchmarks.timeline [--measure] [--report].

The main loops of kernels of tcemu.gemm, one block on one SM, with data in the L2, in settings that differ in tile,
stages, swizzle, groups in flight, warps and types. With --measure, their twins in CUDA C++ run on this machine's GPU,
timed with clock64, and the medians of settings that benchmarks/timeline.json lacks are added to it; without, the ones
in that file are compared with the prediction: the ratio for each setting, and Kendall's tau over all of them.

The loop begins when all warps have passed the barrier before it (for cp.async: at the start of the kernel) and ends
when the last warp has its last product (for mma.sync: has issued it).
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.main_loops import ARITHMETIC, BLIND, LAUNCHES, ROUNDS, SETTINGS, STEPS, UNSEEN, Setting, main_loop

HERE = Path(__file__).parent
MEASURED = HERE / "timeline.json"
#: The parts of the report.
PARTS: dict[str, list[Setting]] = {
    "Settings that the assumptions were fitted to": SETTINGS,
    "Other settings": UNSEEN,
    "Settings predicted before they were measured": BLIND,
    "Arithmetic between the products": ARITHMETIC,
}


def predicted(setting: Setting) -> float:
    """The main loop's cycles in the emulator's timeline."""
    return main_loop(setting.predict())


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
    runs = [(str(setting), setting.predict()) for setting in settings if str(setting) in held]
    return [Row(name, main_loop(run), held[name], run.busy) for name, run in runs]


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
each, without each launch's first.

What the model leaves out:

- the compiler. Ordinary instructions (addresses, loop counters, predicates) are not in a kernel of the machine; a few
  fixed numbers stand for them (`ASSUMED` in `tcemu/timing/prices.py`). The same source with a harmless change took up
  to a tenth more or less. What it puts between the test of a stage's mbarrier and the stage's first product is 12
  instructions if N is 96 or 128, 21 if it is 48, 27 if it is 32 or 64, and with `wgmma.sp` 17 or, for N = 64, 32 (nvcc
  13.0). Of the three loops beyond 15 %, one is that of N = 48 and two are those of `wgmma.sp` with N = 64;
- the caches and other SMs: all copies and loads come from the L2, at the bandwidth that one SM has alone. Of `wgmma.sp`
  64x128, the loops of f16 with 4 stages and of s8 with 3 have equally many instructions wherever they were compared,
  and move the same bytes, but take 746 and 579 cycles a step. Whether the number of stages or metadata in the L1 makes
  the difference has not been measured;
- what a kernel of the machine computes with numpy (attention's softmax): only one instruction for each register that
  it writes is counted, and none for arrays that are not registers;
- registers: their banks; and how many there are decides only, by an estimate, how many blocks an SM holds;
- everything before and after the loop is predicted too, but was not compared.

The assumptions were fitted to the first list alone. How warpgroups share the tensor cores, and the issue slots of their
descriptors, was corrected after both had been seen; the number of slots was fitted to the first list. An H100 took the
same cycles as the H200, within 1 %, for the 44 settings that were tried on both.
"""
REPORT = HERE / "timeline.md"


def main() -> None:
    """Measure or compare."""
    if "--measure" in sys.argv[1:]:
        measure()
    held, provenance = measured(), runs()[0]["provenance"]
    parts = {title: compared(settings, held) for title, settings in PARTS.items()}
    if "--report" in sys.argv[1:]:
        REPORT.write_text(report(parts, provenance), encoding="utf-8")
    print(f"main loops of {STEPS} steps: predicted, measured on an {provenance['gpu']}, ratio")
    for title, rows in parts.items():
        print(title)
        for row in rows:
            print(f"{row.setting:58} {row.predicted:9,.0f} {row.measured:9,.0f} {row.ratio:6.2f}")
        print(summary(rows))
    print("all:", summary([row for rows in parts.values() for row in rows]))


if __name__ == "__main__":
    main()
