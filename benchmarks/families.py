"""The cost of registers, layouts and memory, compared with the arithmetic: python benchmarks/families.py [warps].

Each family runs the given number of warps (default 100,000) in one call of tcemu.run. A product is compared with the
arithmetic of the same tiles alone, from matrices to matrices, in the same kernel and in the same chunks; a load or
store with a plain numpy gather (or scatter) of the same bytes. They take turns, and medians count. No ratio should be
above 3.
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import tcemu
from tcemu.arithmetic import compute, compute_scaled
from tcemu.instructions import parse
from tcemu.instructions.multiply import CHUNK
from tcemu.instructions.targets import target_named

Array = npt.NDArray[Any]
ROUNDS = 5
RTX = "sm_120a"
SP = "mma.sp::ordered_metadata.sync.aligned."
SCALED = "kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
NVFP4 = "kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
PRODUCTS = {
    "mma f16 k16": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_90a"),
    "mma f16 into f16": ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "sm_90a"),
    "mma tf32 k8": ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "sm_90a"),
    "mma e4m3 k32": ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    "mma s8 k32": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "sm_90a"),
    "mma b1 k256": ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "sm_90a"),
    "mma f64 k4": ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_90a"),
    "wmma f16": ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "sm_90a"),
    "wmma tf32": ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", "sm_90a"),
    "wmma s8": ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32", "sm_90a"),
    "wmma b1": ("wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", "sm_90a"),
    "mma.sp f16 k16": (SP + "m16n8k16.row.col.f32.f16.f16.f32", "sm_90a"),
    "mma.sp f16 k32": (SP + "m16n8k32.row.col.f32.f16.f16.f32", "sm_90a"),
    "mma.sp tf32 k16": (SP + "m16n8k16.row.col.f32.tf32.tf32.f32", "sm_90a"),
    "mma.sp e4m3 k64": (SP + "m16n8k64.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    "mma.sp s8 k64": (SP + "m16n8k64.row.col.s32.s8.s8.s32", "sm_90a"),
    "mma.sp s4 k128": (SP + "m16n8k128.row.col.s32.s4.s4.s32", "sm_90a"),
    "mxf8f6f4 k32": ("mma.sync.aligned.m16n8k32.row.col." + SCALED, RTX),
    "mxf4nvf4 k64": ("mma.sync.aligned.m16n8k64.row.col." + NVFP4, RTX),
    "mxf8f6f4 sparse k64": (SP + "m16n8k64.row.col." + SCALED, RTX),
    "mxf4nvf4 sparse k128": (SP + "m16n8k128.row.col." + NVFP4, RTX),
}  # fmt: skip
#: Loads and stores, by name.
MOVES = {
    "ldmatrix x4": "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "ldmatrix x4 .trans": "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
    "ldmatrix x1": "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
    "stmatrix x4": "stmatrix.sync.aligned.m8n8.x4.shared.b16",
    "wmma.load a f16": "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16",
    "wmma.load b f16": "wmma.load.b.sync.aligned.row.m16n16k16.shared.f16",
    "wmma.load c f32": "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32",
    "wmma.store d f32": "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32",
}


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def registers(fragment: Any, rng: np.random.Generator, warps: int) -> Array:
    """Registers whose elements are near 1, or any bits for integers."""
    shape = (warps, *fragment.shape)
    if fragment.format.kind == "float":
        one = int(fragment.format.encode(1.0))
        low = (1 << fragment.format.mantissa + fragment.format.padding) - 1
        patterns = (one | rng.integers(0, low + 1, shape)).astype(fragment.format.storage)
        return fragment.container.pack(patterns.reshape(warps, -1)[:, fragment.layout.gather])
    kind = fragment.container.register_dtype
    return rng.integers(0, 1 << 31, (warps, fragment.lanes, fragment.registers)).astype(kind)


def product(opcode: str, target: str, warps: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """The whole instruction, and only its arithmetic."""
    rng = np.random.default_rng(0)
    found = parse(opcode, target)
    operation, fragments = found.operation(target_named(target)), found.fragments
    given = [registers(fragments[role], rng, warps) for role in "abc"]
    more: list[Any] = []
    if "e" in fragments:
        pattern = found.facts.pattern
        nibbles = rng.choice(sorted(pattern.places), (warps, 32, 8)).astype(np.uint32)
        more += [np.bitwise_or.reduce(nibbles << (4 * np.arange(8, dtype=np.uint32)), axis=-1), 0]
    scales = []
    if "scale_a" in fragments:
        one = int(tcemu.formats.lookup(found.words["stype"]).encode(1.0))
        more += [np.full((warps, 32), one * 0x01010101, np.uint32), (0, 0)] * 2
        s = found.facts.scales
        scales = [np.full((CHUNK, *shape), one, np.uint8) for shape in ((found.shape.m, s), (s, found.shape.n))]
    depth = operation.depth // 32 if operation.packed else operation.depth
    a, b = (
        rng.integers(0, 1 << 30, (CHUNK, found.shape.m, depth)),
        rng.integers(0, 1 << 30, (CHUNK, depth, found.shape.n)),
    )
    if operation.packed:
        a, b = a.astype(np.uint32), b.astype(np.uint32)
        c = fragments["c"].unpack_patterns(given[2][:CHUNK])
    else:
        first = [each[:CHUNK] for each in given]
        a, b, c = (fragments[role].unpack_patterns(each) for role, each in zip("abc", first, strict=True))
        b = np.ascontiguousarray(b[:, :depth])
        a, b, c = (each.reshape(-1, *each.shape[-2:]) for each in (a, b, c))

    def alone() -> None:
        for start in range(0, warps, CHUNK):
            n = min(CHUNK, warps - start) * (len(a) // CHUNK if len(a) > CHUNK else 1)
            if scales:
                compute_scaled(operation, a[:n], b[:n], c[:n], scales[0][:n], scales[1][:n])
            else:
                compute(operation, a[:n], b[:n], c[:n])

    return lambda: tcemu.run(opcode, *given, *more, target=target), alone


def move(opcode: str, warps: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """The whole load or store, and a gather or scatter of the same bytes."""
    rng = np.random.default_rng(0)
    found = parse(opcode, "sm_90a")
    fragment = next(iter(found.fragments.values()))
    size = 1 << 16
    shared = rng.integers(0, 256, size, np.uint8)
    stores = found.family in ("stmatrix", "wmma.store")
    held = [registers(fragment, rng, warps)] if stores else []
    if found.family in ("ldmatrix", "stmatrix"):
        rows = int(np.prod(fragment.shape[:-1]))
        # disjoint rows within a warp
        at = (rng.integers(0, size // 1024, (warps, 1)) * 1024 + rng.permutation(32)[None] * 16).astype(np.uint32)
        index = at[:, :rows, None] + np.arange(16)
        operands: list[Any] = [at, *held]
    else:
        m, n = fragment.shape
        bits = fragment.container.width // 8
        at = (rng.integers(0, size // 8192, warps) * 1024).astype(np.uint32)
        index = at[:, None, None] + np.arange(m)[:, None] * (n * bits) + np.arange(n * bits)
        operands = [at, *held]
    index = index.astype(np.intp)
    data = rng.integers(0, 256, index.shape, np.uint8)

    def plain() -> None:
        if stores:
            shared[index] = data
        else:
            shared[index]

    return lambda: tcemu.run(opcode, *operands, shared=shared), plain


def ratio(name: str, whole: Callable[[], object], alone: Callable[[], object]) -> float:
    """Time both in turn, print a row of the table and return the ratio of their medians."""
    whole(), alone()
    rounds = [(seconds(whole), seconds(alone)) for _ in range(ROUNDS)]
    x, y = (statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"{name:24}{x * 1e3:9.0f}{y * 1e3:14.0f}{x / y:8.2f}", flush=True)
    return x / y


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("warps", type=int, nargs="?", default=100_000, help="warps of each; 100,000 if not given")
    warps = options.parse_args().warps
    ratios = []
    print(f"{warps} warps in one call, medians of {ROUNDS} rounds\n{'':24}{'ms':>9}{'arithmetic':>14}{'ratio':>8}")
    ratios += [ratio(name, *product(opcode, target, warps)) for name, (opcode, target) in PRODUCTS.items()]
    print(f"{'':24}{'ms':>9}{'numpy':>14}{'ratio':>8}")
    ratios += [ratio(name, *move(opcode, warps)) for name, opcode in MOVES.items()]
    print(f"largest ratio: {max(ratios):.2f}")
