"""The main loops whose cycles benchmarks/timeline.py predicts and measures: the settings, and how a GPU times them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tcemu
from tcemu import sparse
from tcemu.formats import lookup
from tcemu.gemm import (
    attention,
    attention_wgmma,
    grouped_fp8,
    mma_pipeline,
    mma_sparse,
    paged_decode,
    scalar,
    shipped,
    twins,
    w4a16,
    wgmma_persistent,
    wgmma_sparse,
    wgmma_tma,
)
from tcemu.instructions import parse
from tcemu.machine.warp import Warp
from tcemu.timing import Timeline
from tcemu.timing.simulation import Multiprocessor

HERE = Path(__file__).parent
#: Steps along K unless a setting says otherwise, rounds in a launch, and launches.
STEPS, ROUNDS, LAUNCHES = 32, 6, 5


@dataclass(frozen=True)
class Pipeline:
    """A setting of mma_pipeline."""

    stages: int
    swizzled: bool = True
    steps: int = STEPS

    def __str__(self) -> str:
        swizzle = "" if self.swizzled else ", no swizzle"
        return f"mma.sync 64x64, 4 warps, {self.stages} stages{swizzle}{_length(self.steps)}"

    def predict(self) -> Timeline:
        """The emulator's run."""
        timeline, (a, b) = Timeline(), self.matrices()
        with self.placed():
            mma_pipeline.multiply(a, b, self.stages, observers=[timeline], sanitizer="off")
        return timeline

    def matrices(self) -> tuple[Any, Any]:
        """A and B for one tile."""
        depth = mma_pipeline.K * self.steps
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
    steps: int = STEPS

    def __str__(self) -> str:
        plan = self.plan
        promoted = ", promoted" if plan.promote else f", {plan.in_flight} in flight"
        tile = f"{plan.rows}x{plan.columns}"
        warps = f"{4 * plan.consumers + 1} warps"
        return f"wgmma {plan.element} {tile}, {warps}, {plan.stages} stages{promoted}{_length(self.steps)}"

    def matrices(self) -> tuple[Any, Any]:
        """A and B for one tile."""
        dtype, depth = lookup(self.plan.element).dtype, self.plan.depth * self.steps
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
    steps: int = STEPS

    def __str__(self) -> str:
        plan = self.plan
        if plan is None:
            return f"mma.sp 64x64, 4 warps, 1 stage{_length(self.steps)}"
        tile, warps = f"{plan.rows}x{plan.columns}", 4 * plan.consumers + 1
        stages = f"{plan.stages} stages, {plan.in_flight} in flight"
        return f"wgmma.sp {plan.element} {tile}, {warps} warps, {stages}, metadata 2 steps ahead{_length(self.steps)}"

    def matrices(self) -> tuple[Any, Any]:
        """A, half of it zero, and B for one tile."""
        plan = self.plan
        rows, columns = (plan.rows, plan.columns) if plan else (mma_sparse.M, mma_sparse.N)
        depth = self.steps * (2 * plan.depth if plan else mma_sparse.K)
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
            given = *mma_sparse.packed(a), b, d, *sizes, np.int32(len(b)), np.int32(self.steps)
            return timed(text, 128, given, 0, {"MMA_SPARSE": 1})
        text, define = twins.hopper_source(plan, "wgmma_sparse", wgmma_sparse.SELECTOR)
        values, metadata = wgmma_sparse.packed(a, plan)
        box_a, box_b = twins.boxes(values, b, plan)
        threads = wgmma_tma.WARPGROUP * plan.consumers + 32
        given = box_a, metadata, box_b, d, *sizes, np.int32(self.steps)
        return timed(text, threads, given, plan.shared + 1024, {**define, "WGMMA_SPARSE": 1})


@dataclass(frozen=True)
class Attention:
    """attention, over so many tiles of 64 keys."""

    tiles: int

    def __str__(self) -> str:
        return f"attention, 64 queries, {64 * self.tiles} keys"

    def matrices(self) -> tuple[Any, Any, Any]:
        """Q, K and V."""
        keys = np.ones((64 * self.tiles, attention.DIM), np.float16)
        return np.ones((attention.QUERIES, attention.DIM), np.float16), keys, keys.copy()

    def predict(self) -> Timeline:
        """The emulator's run."""
        timeline = Timeline()
        attention.attend(*self.matrices(), observers=[timeline], sanitizer="off")
        return timeline

    def measure(self) -> float:
        """Cycles on the GPU."""
        q, k, v = self.matrices()
        given = q, k, v, np.zeros(q.shape, np.float32), np.int32(len(q)), np.int32(len(k))
        return timed(twins.attention_source(), 128, given, 0, {"ATTENTION": 1})


@dataclass(frozen=True)
class Softmax:
    """attention's softmax of so many tiles, one after the other, by this number of warps, without any product."""

    warps: int
    tiles: int = 16

    def __str__(self) -> str:
        return f"softmax of {self.tiles} tiles of 16x64, {self.warps} warps"

    def predict(self) -> Timeline:
        """The emulator's run."""
        timeline = Timeline()
        tcemu.launch(self.kernel, 1, 32 * self.warps, (), observers=[timeline], sanitizer="off")
        return timeline

    def kernel(self, warp: Warp) -> None:
        """Each warp has scores of its own in registers."""
        s = [np.zeros((32, 4), np.float32)] * 8
        largest, total = np.full((32, 2), -np.inf, np.float32), np.zeros((32, 2), np.float32)
        for _ in range(self.tiles):
            s = [scalar.add(each, np.float32(0.25)) for each in s]
            _, largest, total, _ = attention.softmax(warp, s, largest, total)

    def measure(self) -> float:
        """Cycles on the GPU."""
        given = np.zeros(32 * self.warps, np.float32), np.float32(0.25), np.int32(self.tiles)
        define = {"SOFTMAX": 1, "THREADS": 32 * self.warps}
        return timed(twins.attention_source(), 32 * self.warps, given, 0, define)


@dataclass(frozen=True)
class Meeting:
    """Blocks on different SMs that meet at a counter in global memory: one round of the barrier of a grid."""

    blocks: int
    rounds: int = 16

    def __str__(self) -> str:
        return f"barrier of a grid of {self.blocks} blocks, a round"

    def predict(self) -> Timeline:
        """The emulator's run, of one round."""
        timeline = Timeline()
        counter = np.zeros(1, np.uint32)
        tcemu.launch(self.kernel, self.blocks, 64, (counter,), observers=[timeline], sanitizer="off")
        return timeline

    def kernel(self, warp: Warp, counter: Any) -> None:
        """As in timeline.cu."""
        if warp.warpid == 0:
            with warp.only(warp.laneid == 0):
                warp.red_global("add.u32", counter.at(0), 1, order="release")
            while int(warp.ld_global(counter.at(0), order="acquire")[0, 0]) < self.blocks:
                pass
        warp.bar_sync()

    def measure(self) -> float:
        """Cycles on the GPU: the median over blocks and rounds, without the first four."""
        from tcemu import live

        source, found = (HERE / "timeline.cu").read_text(encoding="utf-8"), []
        for _ in range(LAUNCHES):
            counter, cycles = np.zeros(1, np.uint32), np.zeros((self.blocks, self.rounds), np.int64)
            given = counter, cycles, np.int32(self.rounds)
            live.cuda(source, "meet", self.blocks, 64, *given, options=["-DMEETING=1"])
            found.append(cycles[:, 4:])
        return float(np.median(found))


@dataclass(frozen=True)
class Whole:
    """A whole kernel of one block, from its first instruction to its last: a twin, timed as it is."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    given: Callable[[], tuple[Any, ...]]

    def __str__(self) -> str:
        return self.name

    def predict(self) -> Timeline:
        """The emulator's run."""
        timeline = Timeline()
        self.ours(*self.given(), observers=[timeline], sanitizer="off")
        return timeline

    def measure(self) -> float:
        """Cycles on the GPU, of the first kernel that the twin runs."""
        found: list[float] = []

        def time(text: str, define: Any, kernel: str, grid: Any, threads: int, given: Any, shared: int) -> None:
            from tcemu import live

            if found:
                return
            options = [f"-I{twins.FOLDER}", *(f"-D{word}={value}" for word, value in define.items())]
            for _ in range(LAUNCHES):  # the clocks of the last of ROUNDS launches come back; the others fill the L2
                clocks = np.zeros((threads // 32, 2), np.int64)
                more: dict[str, Any] = {"shared": shared, "options": options, "launches": ROUNDS}
                live.cuda(noted(text, kernel), kernel, grid, threads, *given, clocks, **more)
                found.append(float(clocks[:, 1].max() - clocks[:, 0].min()))

        with twins.instead(time):
            self.theirs(*self.given())
        return float(np.median(found))


def noted(text: str, kernel: str) -> str:
    """A twin's source with a parameter more of its kernel: each warp of block 0 notes when it begins and ends.

    The kernel is not put into a loop: after setmaxnreg, the branches of producers and consumers must not meet again, or
    ptxas gives all of them as many registers as the launch.
    """
    head = next(re.finditer(rf"\b{kernel}\(([^)]*)\) {{", text))
    start, end = text.rindex('extern "C"', 0, head.start()), text.index("\n}", head.end())
    body = text[head.end() : end].replace("return;", "{ note(clocks, 1); return; }")
    return (
        text[:start]
        + NOTE
        + text[start : head.start()]
        + f"{kernel}({head[1]}, long long* clocks) {{\n    note(clocks, 0);{body}\n    note(clocks, 1);{text[end:]}"
    )


NOTE = """__device__ void note(long long* clocks, int end) {
    bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0 && threadIdx.x % 32 == 0;
    if (first) clocks[threadIdx.x / 32 * 2 + end] = clock64();
}

"""


Setting = Pipeline | Hopper | Sparse | Attention | Softmax | Meeting | Whole


def _length(steps: int) -> str:
    return "" if steps == STEPS else f", {steps} steps"


def persistent(name: str, depth: int) -> tuple[Any, ...]:
    """Four tiles for one block."""
    plan = wgmma_persistent.SCHEDULES[name]
    a, b = np.ones((2 * plan.rows, depth), np.float16), np.ones((depth, 2 * plan.columns), np.float16)
    return a, b, name, 1


def heads(keys: int, causal: bool) -> tuple[Any, ...]:
    """128 queries of one head."""
    rng = np.random.default_rng(keys)
    q, k, v = (rng.standard_normal((1, rows, 128)).astype(np.float16) for rows in (128, keys, keys))
    return q, k, v, causal


def expert(depth: int) -> tuple[Any, ...]:
    """One group of 128 rows."""
    a, b = (np.ones(shape, lookup("e4m3").dtype) for shape in ((128, depth), (1, 128, depth)))
    return a, np.ones((128, depth // 128), np.float32), b, np.ones((1, 1, depth // 128), np.float32), [128]


def paged(keys: int) -> tuple[Any, ...]:
    """One sequence, whose eight heads share one head of K."""
    rng, pages = np.random.default_rng(keys), keys // 16
    q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in ((1, 8, 128), *2 * [(pages, 16, 1, 128)]))
    return q, k, v, rng.permutation(pages).astype(np.int32)[None], np.array([keys], np.int32)


def decode_parts(q: Any, k: Any, v: Any, table: Any, lengths: Any, **options: Any) -> None:
    """paged_decode's first kernel."""
    parts, sums, _ = paged_decode.buffers(q, paged_decode.WARPS)
    given, threads = (q, k, v, table, lengths, parts, sums), 32 * paged_decode.WARPS
    tcemu.launch(paged_decode.kernel, (k.shape[2], len(q), 1), threads, given, shared=paged_decode.SHARED, **options)


def four_bits(depth: int) -> tuple[Any, ...]:
    """One tile."""
    rng = np.random.default_rng(depth)
    weights = rng.integers(-8, 8, (depth, 64)).astype(np.int8)
    return np.ones((64, depth), np.float16), weights, np.ones((depth // 128, 64), np.float16)


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
    Sparse(wgmma_sparse.SparsePlan("bf16", 128, 2, 2, in_flight=0)),
    Sparse(wgmma_sparse.SparsePlan("e4m3", 256, 1, 2, in_flight=0)),
    Sparse(wgmma_sparse.SparsePlan("s8", 128, 1, 3)),
    Sparse(wgmma_sparse.SparsePlan("tf32", 64, 2, 2, in_flight=0)),
]


#: Settings that were chosen, and predicted, before they were measured, when both lists above were known.
BLIND: list[Setting] = [
    Pipeline(2, steps=96),
    Pipeline(4, steps=12),
    Pipeline(3, False, steps=64),
    *hoppers("f16", 16, 1, (4,)),
    *hoppers("f16", 24, 1, (3,)),
    *hoppers("f16", 40, 1, (4,)),
    *hoppers("f16", 56, 2, (4,)),
    *hoppers("f16", 72, 1, (6,)),
    *hoppers("f16", 104, 1, (4,), in_flight=0),
    *hoppers("bf16", 120, 1, (5,), in_flight=2),
    *hoppers("f16", 152, 2, (3,)),
    *hoppers("bf16", 168, 1, (2,)),
    *hoppers("f16", 200, 1, (4,), in_flight=3),
    *hoppers("bf16", 216, 2, (2,)),
    *hoppers("f16", 232, 1, (3,), in_flight=0),
    *hoppers("f16", 248, 1, (4,)),
    *hoppers("f16", 64, 4, (4,)),
    *hoppers("bf16", 32, 3, (5,)),
    *hoppers("f16", 48, 1, (2, 3, 6)),
    *hoppers("e4m3", 160, 2, (4,)),
    *hoppers("e4m3", 48, 1, (3,)),
    *hoppers("e5m2", 112, 1, (4,), promote=True),
    *hoppers("s8", 96, 2, (5,)),
    *hoppers("s8", 192, 1, (3,)),
    *hoppers("tf32", 96, 1, (5,)),
    *hoppers("tf32", 192, 2, (2,)),
    Hopper(wgmma_tma.Plan("f16", 128, 1, 4), steps=8),
    Hopper(wgmma_tma.Plan("f16", 256, 1, 4), steps=100),
    Sparse(steps=64),
    *(Sparse(wgmma_sparse.SparsePlan("f16", 128, 1, stages)) for stages in (2, 3)),
    Sparse(wgmma_sparse.SparsePlan("f16", 128, 1, 4, in_flight=0)),
    Sparse(wgmma_sparse.SparsePlan("f16", 96, 1, 3)),
    Sparse(wgmma_sparse.SparsePlan("f16", 256, 1, 2, in_flight=0)),
    Sparse(wgmma_sparse.SparsePlan("bf16", 64, 2, 3)),
    Sparse(wgmma_sparse.SparsePlan("e4m3", 128, 1, 4)),
    Sparse(wgmma_sparse.SparsePlan("s8", 64, 1, 4)),
    Sparse(wgmma_sparse.SparsePlan("s8", 128, 1, 4)),
    Sparse(wgmma_sparse.SparsePlan("tf32", 128, 1, 3)),
    Sparse(wgmma_sparse.SparsePlan("f16", 128, 2, 3)),
    *(Hopper(wgmma_tma.Plan("f16", 128, consumers, 4), steps=2 * STEPS) for consumers in (1, 2)),  # as much of K
]
#: Loops with arithmetic between the products, or of nothing else.
ARITHMETIC: list[Setting] = [*map(Softmax, (4, 8, 16)), Softmax(4, 64), *map(Attention, (1, 2, 4, 8, 16, 32))]
#: Whole kernels, one block each.
KERNELS: list[Setting] = [
    *(
        Whole(
            f"wgmma_persistent, {name}, 4 tiles of {plan.rows}x{plan.columns}, K = {depth}",
            wgmma_persistent.multiply,
            shipped.wgmma_persistent,
            partial(persistent, name, depth),
        )
        for name, plan in wgmma_persistent.SCHEDULES.items()
        for depth in (512, 2048)
    ),
    *(
        Whole(
            f"attention_wgmma, 128 queries, {keys} keys{', causal' if causal else ''}",
            attention_wgmma.attend,
            shipped.attention_wgmma,
            partial(heads, keys, causal),
        )
        for keys, causal in ((512, False), (2048, False), (2048, True))
    ),
]
KERNELS += [
    Whole(f"grouped_fp8, 128x128, K = {depth}", grouped_fp8.multiply, shipped.grouped_fp8, partial(expert, depth))
    for depth in (1024, 4096)
]
KERNELS += [
    Whole(f"w4a16, 64x64, K = {depth}", w4a16.multiply, shipped.w4a16, partial(four_bits, depth))
    for depth in (1024, 4096)
]
KERNELS += [
    Whole(f"paged_decode, 8 heads, {keys} keys, one block", decode_parts, shipped.paged_decode, partial(paged, keys))
    for keys in (512, 2048)
]
#: Blocks that wait for each other.
BETWEEN: list[Setting] = [*map(Meeting, (2, 4, 8, 16, 32, 66, 132))]


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


def cycles_of(setting: Setting, timeline: Timeline) -> float:
    """What `measure` measures, in the emulator's run: of a whole kernel everything, otherwise the main loop."""
    if isinstance(setting, Whole):
        return timeline.cycles
    with patch.object(Multiprocessor, "map_of", lambda *_: 0.0):  # what was timed are rounds after a launch's first
        return main_loop(timeline)


def main_loop(timeline: Timeline) -> float:
    """From the first barrier of a kernel that sets up mbarriers, otherwise from the start, to the last product.

    Without products, to the end.
    """
    warps = [span for span in timeline.spans if span.unit == "warp"]
    fence = [span.end for span in warps if span.opcode.startswith("fence.mbarrier_init")]
    after = [span.end for span in warps if fence and span.opcode == "bar.sync" and span.start >= fence[0]]
    products = [span.end for span in warps if span.opcode.startswith(("wgmma", "mma."))]
    return max(products, default=timeline.cycles) - min(after, default=0.0)
