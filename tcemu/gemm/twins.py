"""Runs the kernels' twins in CUDA C++ (cuda/) on this machine's GPU, or on the emulator; they give the same bits.

    d = twins.wgmma_tma(a, b, wgmma_tma.Plan("e4m3", stages=4))     # as wgmma_tma.multiply, answered by the GPU
    with twins.emulated():
        d = twins.wgmma_tma(a, b)                                   # the same CUDA C++ on the emulator

The instruction itself is not written by hand: `inline` makes its function from the table of instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import cuda, live, ptx
from tcemu.gemm import attention as fused
from tcemu.gemm import mma_pipeline as pipeline
from tcemu.gemm import mma_sparse as sparse
from tcemu.gemm import split_k as split
from tcemu.gemm import tcgen05_tma as blackwell
from tcemu.gemm import wgmma_cluster as clustered
from tcemu.gemm import wgmma_epilogue as epilogue
from tcemu.gemm import wgmma_sparse as halved
from tcemu.gemm import wgmma_stream as stream
from tcemu.gemm import wgmma_tma as hopper
from tcemu.gemm import wmma_global as plain
from tcemu.gemm.operands import check
from tcemu.instructions import Instruction, parse
from tcemu.instructions.operand import Operand
from tcemu.layouts.canonical import element_bits
from tcemu.machine.launch import Launch
from tcemu.vectors.operands import operands

__all__ = [
    "attention",
    "blackwell_source",
    "cluster_source",
    "compiled",
    "emulated",
    "inline",
    "instead",
    "mma_pipeline",
    "mma_sparse",
    "run",
    "sizes_of",
    "softmax_constants",
    "source",
    "split_k",
    "tcgen05_tma",
    "wgmma_cluster",
    "wgmma_epilogue",
    "wgmma_sparse",
    "wgmma_stream",
    "wgmma_tma",
    "wmma_global",
]

FOLDER = Path(__file__).parent / "cuda"
#: The C type of a register and its letter in inline assembly, by what it holds; all others are plain bits.
_TYPES = {"f32": ("float", "f"), "s32": ("int", "r")}
EMPTY: Mapping[str, str | int] = MappingProxyType({})

Array = npt.NDArray[Any]
#: From a twin's source and its macros to the module of its kernels.
Compile = Callable[[str, Mapping[str, str | int]], ptx.Module]
#: What runs a twin in place of the GPU.
_INSTEAD: ContextVar[Callable[..., None] | None] = ContextVar("instead", default=None)


def inline(instruction: Instruction, name: str, immediates: Sequence[int] = (), *, described: bool = False) -> str:
    """A CUDA C++ function `name` that executes an instruction; C and D are one operand, immediates part of the text.

    Its parameters are the other operands in PTX's order: arrays of registers by reference, descriptors, metadata,
    predicates. With `described`, A is a descriptor, as wgmma allows.
    """
    arguments, numbers = operands(instruction, described), iter(immediates)
    held = [operand for operand in arguments if operand.kind != "immediate" and operand.role != "c"]
    first = dict(zip((operand.role for operand in held), accumulate(map(_count, held), initial=0), strict=False))

    def text(operand: Operand) -> str:
        if operand.kind == "immediate":
            return str(next(numbers))
        at = first["d" if operand.role == "c" else operand.role]
        if operand.kind == "registers":
            return "{" + ", ".join(f"%{at + register}" for register in range(operand.registers)) + "}"
        return "p" if operand.kind == "predicate" else f"%{at}"

    body = f"{instruction} {', '.join(map(text, arguments))};"
    if "scale_d" in first:
        body = f"{{ .reg .pred p; setp.ne.b32 p, %{first['scale_d']}, 0; {body} }}"
    d, *others = (", ".join(_constraints(operand)) for operand in held)
    return (
        f"__device__ inline void {name}({', '.join(map(_parameter, held))}) {{\n"
        f'    asm volatile("{body}"\n        : {d}\n        : {", ".join(others)});\n}}\n'
    )


def _count(operand: Operand) -> int:
    """The number of C++ values that the operand takes."""
    return operand.registers if operand.kind == "registers" else 1


def _type(operand: Operand) -> tuple[str, str]:
    """The C type of one value, and its letter in inline assembly."""
    if operand.fragment is not None and operand.kind == "registers":
        return _TYPES.get(operand.fragment.container.form.name, ("u32", "r"))
    return ("u64", "l") if operand.kind == "descriptor" else ("u32", "r")


def _parameter(operand: Operand) -> str:
    held, _ = _type(operand)
    return f"{held} (&{operand.role})[{operand.registers}]" if operand.kind == "registers" else f"{held} {operand.role}"


def _constraints(operand: Operand) -> list[str]:
    _, letter = _type(operand)
    letter = f"+{letter}" if operand.written else letter
    if operand.kind != "registers":
        return [f'"{letter}"({operand.role})']
    return [f'"{letter}"({operand.role}[{register}])' for register in range(operand.registers)]


def source(name: str, function: str = "") -> str:
    """The CUDA C++ of a twin, with the function of its instruction; it includes common.h from FOLDER."""
    return f"using u32 = unsigned int;\nusing u64 = unsigned long long;\n\n{function}\n" + (
        FOLDER / f"{name}.cu"
    ).read_text(encoding="utf-8")


def hopper_source(plan: hopper.Plan, name: str = "wgmma_tma", *selector: int) -> tuple[str, dict[str, str | int]]:
    """The CUDA C++ of a kernel with wgmma for a plan, and the macros to compile it with."""
    function = inline(plan.mma, "wgmma", [*selector, *hopper.IMMEDIATES[plan.element]], described=True)
    return source(name, function), {
        "Accumulator": "int" if plan.element == "s8" else "float",
        "COLUMNS": plan.columns,
        "DEPTH": plan.depth,
        "CONSUMERS": plan.consumers,
        "STAGES": plan.stages,
        "IN_FLIGHT": plan.in_flight,
        "PROMOTE": int(plan.promote),
    }


def target_of(text: str) -> str:
    """The target that a twin's source is for.

    >>> from tcemu.gemm import twins
    >>> twins.target_of(twins.source("tcgen05_tma")), twins.target_of(twins.source("wgmma_tma"))
    ('sm_100a', 'sm_90a')
    """
    return "sm_100a" if "tcgen05." in text else "sm_90a"


def compiled(text: str, define: Mapping[str, str | int] = EMPTY) -> ptx.Module:
    """The module of a twin's source, by NVRTC, for sm_90a or, if it has tcgen05, for sm_100a.

    >>> twins.compiled(twins.source("wmma_global"))["kernel"]  # doctest: +SKIP
    <kernel kernel(const __half* a, const __half* b, float* c, int m, int n, int k) for sm_90a>
    """
    module: ptx.Module = cuda.compile(text, target_of(text), define=define, include=FOLDER)
    return module


def run(
    text: str,
    kernel: str,
    grid: tuple[int, ...],
    block: int,
    *arguments: Any,
    shared: int = 0,
    define: Mapping[str, str | int] = EMPTY,
) -> None:
    """Run a kernel of a twin's source on this machine's GPU or, inside `emulated`, on the emulator."""
    instead = _INSTEAD.get()
    if instead is not None:
        instead(text, define, kernel, grid, block, arguments, shared)
        return
    options = [f"-I{FOLDER}", *(f"-D{word}={value}" for word, value in define.items())]
    live.cuda(text, kernel, grid, block, *arguments, shared=shared, options=options)


@contextmanager
def instead(runner: Callable[..., None]) -> Iterator[None]:
    """Inside a with statement, `runner` receives what the twins would run on a GPU.

    Its arguments are the source, its macros, the kernel's name, grid, threads of a block, arguments, shared memory.
    """
    token = _INSTEAD.set(runner)
    try:
        yield
    finally:
        _INSTEAD.reset(token)


@contextmanager
def emulated(compile: Compile = compiled, **options: Any) -> Iterator[list[Launch]]:  # noqa: A002 - Python's word for it
    """Inside a with statement, the twins run on the emulator: NVRTC compiles them, or `compile` finds their PTX.

    The options are those of tcemu.launch; the launches are listed.

        with twins.emulated(sanitizer="collect") as launches:
            d = twins.mma_pipeline(a, b)
        launches[0].reports

    >>> from tcemu.gemm import twins
    >>> with twins.emulated(seed=1):
    ...     pass
    """
    launches: list[Launch] = []

    def on_the_emulator(
        text: str, define: Mapping[str, str | int], kernel: str, grid: Any, block: int, arguments: Any, shared: int
    ) -> None:
        launches.append(compile(text, define)[kernel](grid, block, *arguments, shared=shared, **options))

    with instead(on_the_emulator):
        yield launches


def sizes_of(a: Array, b: Array) -> tuple[np.int32, np.int32, np.int32]:
    """m, n and k, as kernels take them."""
    return np.int32(len(a)), np.int32(b.shape[1]), np.int32(len(b))


def wmma_global(a: Array, b: Array) -> Array:
    """As wmma_global.multiply."""
    block = plain.TILE * plain.WARPS
    check(a, b, m=block, n=block, k=plain.TILE)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = b.shape[1] // block, len(a) // block
    run(source("wmma_global"), "kernel", grid, 32 * plain.WARPS**2, a, b, d, *sizes_of(a, b))
    return d


def mma_pipeline(a: Array, b: Array, stages: int = 3) -> Array:
    """As mma_pipeline.multiply."""
    check(a, b, n=8, k=8)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = -(-b.shape[1] // pipeline.N), -(-len(a) // pipeline.M)
    shared = stages * pipeline.STAGE_BYTES
    text = source("mma_pipeline", inline(parse(pipeline.MMA), "mma"))
    run(text, "kernel", grid, 128, a, b, d, *sizes_of(a, b), shared=shared, define={"STAGES": stages})
    return d


def split_k(a: Array, b: Array, splits: int = 4) -> Array:
    """As split_k.multiply."""
    check(a, b, n=8, k=8)
    parts = np.zeros((splits, len(a), b.shape[1]), np.float32)
    d = np.zeros(parts.shape[1:], np.float32)
    grid = -(-b.shape[1] // pipeline.N), -(-len(a) // pipeline.M), splits
    text, define = source("mma_pipeline", inline(parse(pipeline.MMA), "mma")), {"STAGES": split.STAGES}
    shared = split.STAGES * pipeline.STAGE_BYTES
    run(text, "write_part", grid, 128, a, b, parts, *sizes_of(a, b), shared=shared, define=define)
    blocks = -(-d.size // split.ADDERS)
    run(text, "add_parts", (blocks,), split.ADDERS, parts, d, np.int32(d.size), np.int32(splits), define=define)
    return d


def mma_sparse(a: Array, b: Array) -> Array:
    """As mma_sparse.multiply."""
    check(a, b, n=8, k=4)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = -(-b.shape[1] // sparse.N), -(-len(a) // sparse.M)
    values, metadata = sparse.packed(a)
    text = source("mma_sparse", inline(sparse.MMA, "mma", [sparse.SELECTOR]))
    run(text, "kernel", grid, 128, values, metadata, b, d, *sizes_of(a, b), np.int32(values.shape[1]))
    return d


def wgmma_tma(a: Array, b: Array, plan: hopper.Plan = hopper.DEFAULT) -> Array:
    """As wgmma_tma.multiply."""
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    grid = -(-d.shape[1] // plan.columns), -(-d.shape[0] // plan.rows)
    (text, defined), threads = hopper_source(plan), hopper.WARPGROUP * plan.consumers + 32
    arguments = *boxes(a, b, plan), d, *sizes_of(a, b)
    run(text, "kernel", grid, threads, *arguments, shared=plan.shared + 1024, define=defined)
    return d


def tcgen05_tma(a: Array, b: Array, plan: blackwell.Plan = blackwell.DEFAULT, *, blocks: int = 0) -> Array:
    """As tcgen05_tma.multiply; it needs a GPU of sm_100a, and was tried on the emulator only."""
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    sides = (np.ascontiguousarray(a), blackwell.ROWS), (np.ascontiguousarray(b.T), plan.part)
    maps = [live.tensor_map(each, (plan.depth, rows), swizzle=blackwell.LINE) for each, rows in sides]
    (text, define), grid = blackwell_source(plan), (blackwell.grid_of(plan, d, blocks),)
    arguments, shared = (*maps, d, *sizes_of(a, b)), plan.shared + 1024
    run(text, "kernel", grid, blackwell.THREADS, *arguments, shared=shared, define=define)
    return d


def blackwell_source(plan: blackwell.Plan, name: str = "tcgen05_tma") -> tuple[str, dict[str, str | int]]:
    """The CUDA C++ of a kernel with tcgen05 for a plan, and the macros to compile it with."""
    # a file that includes tcgen05_tma.cu compiles its kernel too, for some kind, and does not launch it
    kind, d = blackwell.KINDS.get(plan.element, ("f8f6f4", "f32"))
    return source(name), {
        "Accumulator": "int" if d == "s32" else "float",
        "KIND": f'"{kind}"',
        "IDESC": plan.idesc,
        "COLUMNS": plan.columns,
        "STAGES": plan.stages,
        "ACCUMULATORS": plan.accumulators,
        "DEPTH": plan.depth,
        "GROUP": plan.group,
    }


def wgmma_epilogue(a: Array, b: Array, bias: Array, plan: hopper.Plan = hopper.DEFAULT) -> Array:
    """As wgmma_epilogue.multiply."""
    check(a, b, plan.element, n=8, k=8)
    d = np.zeros((len(a), b.shape[1]), np.float16)
    grid = -(-d.shape[1] // plan.columns), -(-d.shape[0] // plan.rows)
    text, defined = hopper_source(plan, "wgmma_epilogue")
    to = live.tensor_map(d, (epilogue.COLUMNS, epilogue.ROWS), swizzle=hopper.LINE)
    threads = hopper.WARPGROUP * plan.consumers + 32
    arguments = *boxes(a, b, plan), bias, to, *sizes_of(a, b)[1:]
    run(text, "with_epilogue", grid, threads, *arguments, shared=epilogue.shared(plan) + 1024, define=defined)
    return d


def wgmma_sparse(a: Array, b: Array, plan: halved.SparsePlan = halved.DEFAULT) -> Array:
    """As wgmma_sparse.multiply."""
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    grid = -(-d.shape[1] // plan.columns), -(-d.shape[0] // plan.rows)
    text, defined = hopper_source(plan, "wgmma_sparse", halved.SELECTOR)
    values, metadata = halved.packed(a, plan)
    box_a, box_b = boxes(values, b, plan)
    threads = hopper.WARPGROUP * plan.consumers + 32
    sizes = np.int32(len(a)), np.int32(b.shape[1]), np.int32(metadata.shape[1] // halved.INSTRUCTIONS)
    run(text, "kernel", grid, threads, box_a, metadata, box_b, d, *sizes, shared=plan.shared + 1024, define=defined)
    return d


def cluster_source(plan: clustered.ClusterPlan) -> tuple[str, dict[str, str | int]]:
    """The CUDA C++ of wgmma_cluster for a plan, and the macros to compile it with."""
    text, defined = hopper_source(plan, "wgmma_cluster")
    return text, {**defined, "BLOCKS": plan.blocks}


def wgmma_cluster(a: Array, b: Array, plan: clustered.ClusterPlan = clustered.DEFAULT) -> Array:
    """As wgmma_cluster.multiply."""
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    text, defined = cluster_source(plan)
    threads, grid = hopper.WARPGROUP * plan.consumers + 32, clustered.grid_of(plan, *d.shape)
    arguments = *boxes(a, b, plan, plan.part), d, *sizes_of(a, b)
    run(text, "in_clusters", grid, threads, *arguments, shared=plan.shared + 1024, define=defined)
    return d


def wgmma_stream(a: Array, b: Array, blocks: int = 4, plan: hopper.Plan = hopper.DEFAULT) -> Array:
    """As wgmma_stream.multiply."""
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    count, shape = stream.sizes(a, b, plan, blocks)
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    kept, flags = np.zeros(shape, d.dtype), np.zeros(count, np.uint32)
    text, defined = hopper_source(plan, "wgmma_stream")
    threads = hopper.WARPGROUP * plan.consumers + 32
    arguments = *boxes(a, b, plan), d, kept, flags, *sizes_of(a, b)
    run(text, "stream", (count,), threads, *arguments, shared=plan.shared + 1024, define=defined)
    return d


def attention_source() -> str:
    """The CUDA C++ of attention."""
    return source("attention", softmax_constants() + inline(parse(pipeline.MMA), "mma"))


def softmax_constants() -> str:
    """The constants of attention.py to the bit, as macros."""
    scale, *coefficients = (f"{float(each).hex()}f" for each in (fused.SCALE, *fused.POLYNOMIAL))
    return f"#define SCALE {scale}\n#define POLYNOMIAL {', '.join(coefficients)}\n"


def attention(q: Array, k: Array, v: Array) -> Array:
    """As attention.attend."""
    fused.check(q, k, v)
    out = np.zeros(q.shape, np.float32)
    blocks = -(-len(q) // fused.QUERIES)
    run(attention_source(), "kernel", (blocks,), 128, q, k, v, out, np.int32(len(q)), np.int32(len(k)))
    return out


def boxes(a: Array, b: Array, plan: hopper.Plan, rows: int = 0) -> list[live.Mapped]:
    """A and B of a kernel with TMA, through which it copies a stage's tiles, or `rows` rows of A's."""
    return [
        live.tensor_map(np.ascontiguousarray(matrix), (plan.depth, count), swizzle=hopper.LINE)
        for matrix, count in ((a, rows or plan.rows), (b.T, plan.columns))
    ]
