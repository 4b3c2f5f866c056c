"""Cycles of main loops: what tcemu.timing.Timeline predicts and what a GPU takes: python -m
benchmarks.timeline [--measure] [--report].

The main loops of kernels of tcemu.gemm, one block on one SM, with data in the L2, in settings that differ in tile,
stages, swizzle, groups in flight, warps and types. With --measure, their twins in CUDA C++ run on this machine's GPU,
timed with clock64, and the medians are written to benchmarks/timeline.json; without, the ones in that file are compared
with the prediction: the ratio for each setting, and Kendall's tau over all of them.

The loop begins when all warps have passed the barrier before it (for cp.async: at the start of the kernel) and ends
when the last warp has its last product (for mma.sync: has issued it).
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tcemu import sparse
from tcemu.formats import lookup
from tcemu.gemm import mma_pipeline, mma_sparse, twins, wgmma_sparse, wgmma_tma
from tcemu.instructions import parse
from tcemu.timing import Timeline

HERE = Path(__file__).parent
MEASURED = HERE / "timeline.json"
#: Steps along K, rounds in a launch, and launches.
STEPS, ROUNDS, LAUNCHES = 32, 6, 5


@dataclass(frozen=True)
class Pipeline:
    """A setting of mma_pipeline."""

    stages: int
    swizzled: bool = True

    def __str__(self) -> str:
        return f"mma.sync 64x64, 4 warps, {self.stages} stages{'' if self.swizzled else ', no swizzle'}"

    def predict(self) -> Timeline:
        """The emulator's run."""
        timeline, (a, b) = Timeline(), self.matrices()
        with self.placed():
            mma_pipeline.multiply(a, b, self.stages, observers=[timeline], sanitizer="off")
        return timeline

    def matrices(self) -> tuple[Any, Any]:
        """A and B for one tile."""
        depth = mma_pipeline.K * STEPS
        return np.ones((mma_pipeline.M, depth), np.float16), np.ones((depth, mma_pipeline.N), np.float16)

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """Without a swizzle, the emulator's kernel puts units in their natural order, as its twin does."""
        if self.swizzled:
            yield
            return
        with (
            patch.object(mma_pipeline, "place_a", lambda row, unit: row * 64 + unit * 16),
            patch.object(mma_pipeline, "place_b", lambda row, unit: row * 128 + unit * 16),
        ):
            yield

    def measure(self) -> float:
        """Cycles on the GPU."""
        a, b = self.matrices()
        d = np.zeros((len(a), b.shape[1]), np.float32)
        text = twins.source("mma_pipeline", twins.inline(parse(mma_pipeline.MMA), "mma"))
        define = {"STAGES": self.stages, "SWIZZLED": int(self.swizzled), "PIPELINE": 1}
        shared = self.stages * mma_pipeline.STAGE_BYTES
        return timed(text, 128, (a, b, d, *map(np.int32, (len(a), b.shape[1], len(b)))), shared, define)


@dataclass(frozen=True)
class Hopper:
    """A setting of wgmma_tma."""

    plan: wgmma_tma.Plan

    def __str__(self) -> str:
        plan = self.plan
        promoted = ", promoted" if plan.promote else f", {plan.in_flight} in flight"
        tile = f"{plan.rows}x{plan.columns}"
        return f"wgmma {plan.element} {tile}, {4 * plan.consumers + 1} warps, {plan.stages} stages{promoted}"

    def matrices(self) -> tuple[Any, Any]:
        """A and B for one tile."""
        dtype, depth = lookup(self.plan.element).dtype, self.plan.depth * STEPS
        return np.ones((self.plan.rows, depth), dtype), np.ones((depth, self.plan.columns), dtype)

    def predict(self) -> Timeline:
        """The emulator's run."""
        timeline, (a, b) = Timeline(), self.matrices()
        wgmma_tma.multiply(a, b, self.plan, observers=[timeline], sanitizer="off")
        return timeline

    def measure(self) -> float:
        """Cycles on the GPU."""
        a, b = self.matrices()
        d = np.zeros((len(a), b.shape[1]), np.int32 if self.plan.element == "s8" else np.float32)
        text, define = twins.hopper_source(self.plan)
        threads = wgmma_tma.WARPGROUP * self.plan.consumers + 32
        given = *twins.boxes(a, b, self.plan), d, *map(np.int32, (len(a), b.shape[1], len(b)))
        return timed(text, threads, given, self.plan.shared + 1024, define)


@dataclass(frozen=True)
class Sparse:
    """A setting of mma_sparse, or with a plan of wgmma_sparse."""

    plan: wgmma_sparse.SparsePlan | None = None

    def __str__(self) -> str:
        plan = self.plan
        if plan is None:
            return "mma.sp 64x64, 4 warps, 1 stage"
        tile, warps = f"{plan.rows}x{plan.columns}", 4 * plan.consumers + 1
        return f"wgmma.sp {plan.element} {tile}, {warps} warps, {plan.stages} stages"

    def matrices(self) -> tuple[Any, Any]:
        """A, half of it zero, and B for one tile."""
        plan = self.plan
        rows, columns = (plan.rows, plan.columns) if plan else (mma_sparse.M, mma_sparse.N)
        depth = STEPS * (2 * plan.depth if plan else mma_sparse.K)
        dtype = lookup(plan.element if plan else "f16").dtype
        a = sparse.prune(np.ones((rows, depth), dtype), plan.mma if plan else mma_sparse.MMA)
        return a, np.ones((depth, columns), dtype)

    def predict(self) -> Timeline:
        """The emulator's run."""
        timeline, (a, b) = Timeline(), self.matrices()
        if self.plan is None:
            mma_sparse.multiply(a, b, observers=[timeline], sanitizer="off")
        else:
            wgmma_sparse.multiply(a, b, self.plan, observers=[timeline], sanitizer="off")
        return timeline

    def measure(self) -> float:
        """Cycles on the GPU."""
        (a, b), plan = self.matrices(), self.plan
        d = np.zeros((len(a), b.shape[1]), np.int32 if plan and plan.element == "s8" else np.float32)
        sizes = [np.int32(each) for each in (len(a), b.shape[1])]
        if plan is None:
            text = twins.source("mma_sparse", twins.inline(mma_sparse.MMA, "mma", [mma_sparse.SELECTOR]))
            given = *mma_sparse.packed(a), b, d, *sizes, np.int32(len(b)), np.int32(STEPS)
            return timed(text, 128, given, 0, {"MMA_SPARSE": 1})
        text, define = twins.hopper_source(plan, "wgmma_sparse", wgmma_sparse.SELECTOR)
        values, metadata = wgmma_sparse.packed(a, plan)
        box_a, box_b = twins.boxes(values, b, plan)
        threads = wgmma_tma.WARPGROUP * plan.consumers + 32
        given = box_a, metadata, box_b, d, *sizes, np.int32(STEPS)
        return timed(text, threads, given, plan.shared + 1024, {**define, "WGMMA_SPARSE": 1})


Setting = Pipeline | Hopper | Sparse


def hoppers(element: str, columns: int, consumers: int, stages: Sequence[int], **more: Any) -> list[Setting]:
    """Settings that differ in their stages."""
    return [Hopper(wgmma_tma.Plan(element, columns, consumers, number, **more)) for number in stages]


SETTINGS: list[Setting] = [
    *[Pipeline(stages, swizzled) for swizzled in (True, False) for stages in mma_pipeline.STAGES],
    *hoppers("f16", 32, 1, (2, 6)),
    *hoppers("f16", 64, 1, (2, 3, 4, 6)),
    *hoppers("f16", 128, 1, (2, 3, 4, 6)),
    *hoppers("f16", 192, 1, (4,)),
    *hoppers("f16", 256, 1, (2, 3, 4)),
    *hoppers("f16", 64, 2, (4,)),
    *hoppers("f16", 128, 2, (2, 3, 4)),
    *hoppers("f16", 256, 2, (2, 3)),
    *hoppers("f16", 64, 3, (4,)),
    *hoppers("f16", 64, 1, (2, 4), in_flight=0),
    *hoppers("f16", 128, 1, (2, 4), in_flight=0),
    *hoppers("f16", 256, 1, (4,), in_flight=0),
    *hoppers("f16", 128, 2, (4,), in_flight=0),
    *hoppers("f16", 64, 1, (4,), in_flight=2),
    *hoppers("f16", 128, 1, (4,), in_flight=2),
    *hoppers("bf16", 128, 2, (4,)),
    *hoppers("tf32", 128, 1, (4,)),
    *hoppers("e4m3", 128, 1, (4,)),
    *hoppers("e4m3", 256, 2, (3,)),
    *hoppers("e4m3", 64, 1, (4,), promote=True),
    *hoppers("e4m3", 128, 1, (4,), promote=True),
    *hoppers("s8", 128, 1, (4,)),
]


#: Settings that the assumptions of tcemu.timing.prices were not fitted to.
UNSEEN: list[Setting] = [
    *hoppers("f16", 96, 1, (3, 5)),
    *hoppers("f16", 160, 1, (4,)),
    *hoppers("f16", 224, 1, (3,)),
    *hoppers("f16", 128, 1, (5,)),
    *hoppers("f16", 128, 3, (3,)),
    *hoppers("f16", 96, 2, (4,)),
    *hoppers("f16", 32, 2, (4,)),
    *hoppers("f16", 256, 1, (5,), in_flight=2),
    *hoppers("bf16", 64, 1, (5,), in_flight=3),
    *hoppers("tf32", 64, 2, (3,)),
    *hoppers("e5m2", 128, 1, (2,), promote=True),
    *hoppers("s8", 256, 1, (4,)),
    *hoppers("f16", 48, 1, (4,)),
    *hoppers("f16", 80, 1, (3,)),
    *hoppers("f16", 112, 2, (3,)),
    *hoppers("f16", 144, 1, (3,)),
    *hoppers("f16", 176, 1, (5,)),
    *hoppers("f16", 208, 1, (2,)),
    *hoppers("f16", 240, 1, (4,)),
    *hoppers("f16", 64, 4, (3,)),
    *hoppers("f16", 128, 2, (5,), in_flight=2),
    *hoppers("bf16", 96, 1, (3,), in_flight=0),
    *hoppers("e4m3", 96, 2, (3,), promote=True),
    *hoppers("s8", 128, 2, (3,)),
    *hoppers("tf32", 256, 1, (3,)),
    *hoppers("e5m2", 192, 1, (4,)),
    Sparse(),
    Sparse(wgmma_sparse.SparsePlan("f16", 64, 1, 3)),
    Sparse(wgmma_sparse.SparsePlan("f16", 128, 1, 4)),
    Sparse(wgmma_sparse.SparsePlan("bf16", 128, 2, 2)),
    Sparse(wgmma_sparse.SparsePlan("e4m3", 256, 1, 2)),
    Sparse(wgmma_sparse.SparsePlan("s8", 128, 1, 3)),
    Sparse(wgmma_sparse.SparsePlan("tf32", 64, 2, 2)),
]


def timed(text: str, threads: int, given: Sequence[Any], shared: int, define: dict[str, Any]) -> float:
    """The median of the main loop's cycles over all rounds but each launch's first."""
    from tcemu import live

    source = text + (HERE / "timeline.cu").read_text(encoding="utf-8")
    options = [f"-I{twins.FOLDER}", *(f"-D{word}={value}" for word, value in {**define, "ROUNDS": ROUNDS}.items())]
    found = []
    for _ in range(LAUNCHES):
        clocks = np.zeros((ROUNDS, threads // 32, 2), np.int64)
        live.cuda(source, "timed", 1, threads, *given, clocks, shared=shared, options=options)
        found += list(clocks[1:, :, 1].max(axis=1) - clocks[1:, :, 0].min(axis=1))
    return float(np.median(found))


def predicted(setting: Setting) -> float:
    """The main loop's cycles in the emulator's timeline."""
    return main_loop(setting.predict())


def main_loop(timeline: Timeline) -> float:
    """From the first barrier of a kernel that sets up mbarriers, otherwise from the start, to the last product."""
    warps = [span for span in timeline.spans if span.unit == "warp"]
    fence = [span.end for span in warps if span.opcode.startswith("fence.mbarrier_init")]
    after = [span.end for span in warps if fence and span.opcode == "bar.sync" and span.start >= fence[0]]
    products = ("wgmma", "mma.")
    return max(span.end for span in warps if span.opcode.startswith(products)) - min(after, default=0.0)


def tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-a: the share of pairs in the same order, less the share in opposite order."""
    x, y = np.array(first), np.array(second)
    pairs = np.triu_indices(len(x), 1)
    return float(np.mean(np.sign(x[pairs[0]] - x[pairs[1]]) * np.sign(y[pairs[0]] - y[pairs[1]])))


def measure() -> None:
    """Measure all settings and write the file."""
    from tcemu import live

    chip = live.device()
    found: dict[str, float] = {}
    for setting in [*SETTINGS, *UNSEEN]:
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
    MEASURED.write_text(json.dumps({"provenance": provenance, "cycles": found}, indent=1) + "\n", encoding="utf-8")


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
    held = json.loads(MEASURED.read_text(encoding="utf-8"))
    parts = {
        "Settings that the assumptions were fitted to": compared(SETTINGS, held["cycles"]),
        "Other settings": compared(UNSEEN, held["cycles"]),
    }
    if "--report" in sys.argv[1:]:
        REPORT.write_text(report(parts, held["provenance"]), encoding="utf-8")
    print(f"main loops of {STEPS} steps: predicted, measured on an {held['provenance']['gpu']}, ratio")
    for title, rows in parts.items():
        print(title)
        for row in rows:
            print(f"{row.setting:58} {row.predicted:9,.0f} {row.measured:9,.0f} {row.ratio:6.2f}")
        print(summary(rows))
    print("all:", summary([row for rows in parts.values() for row in rows]))


if __name__ == "__main__":
    main()
