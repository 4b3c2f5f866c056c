"""How fast batches of instructions are beside tcemu.matmul in the same run: python benchmarks/batches.py [warps].

Each case runs so many warps (20,000 if not said otherwise) in one call of tcemu.run, registers in and registers out,
and one square product of the same instruction by tcemu.matmul; both take turns, the best of some rounds count. The goal
is half of matmul's rate. Beside it stands the bound that memory sets: the ratio of a batch that only moved its
registers, as fast as all cores copy an array. Sparse and block-scaled forms stand beside the dense product of the same
types; what a sparse one prunes counts, as in a GPU's figures. Then comes what one warp and one wgmma take from call to
answer (goals: 20 and 100 us).
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.turns import best
from tcemu.backend import on_all_cores
from tcemu.formats import Format
from tcemu.kernels.host.threads import cores
from tcemu.layouts import Descriptor
from tcemu.vectors.cases import cases

Array = npt.NDArray[Any]
Change = Callable[[Format, np.random.Generator, Array], Array]
MMA = "mma.sync.aligned."
CASES = {
    "f16": (MMA + "m16n8k16.row.col.f32.f16.f16.f32", "sm_90a"),
    "f16 into f16": (MMA + "m16n8k16.row.col.f16.f16.f16.f16", "sm_90a"),
    "bf16": (MMA + "m16n8k16.row.col.f32.bf16.bf16.f32", "sm_90a"),
    "tf32": (MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", "sm_90a"),
    "e4m3": (MMA + "m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    "f16, sm_80": (MMA + "m16n8k16.row.col.f32.f16.f16.f32", "sm_80"),
    "tf32, sm_80": (MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80"),
    "e4m3, sm_89": (MMA + "m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89"),
    "s8": (MMA + "m16n8k32.row.col.s32.s8.s8.s32", "sm_90a"),
    "f64": (MMA + "m8n8k4.row.col.f64.f64.f64.f64", "sm_90a"),
    "f64, m16n8k16": (MMA + "m16n8k16.row.col.f64.f64.f64.f64", "sm_90a"),
}
SP = "mma.sp::ordered_metadata.sync.aligned."
SMALL = MMA + "m16n8k32.row.col.kind::f8f6f4.f32.{0}.{0}.f32"
SCALED = "kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
NVFP4 = "kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
#: Forms that multiply no whole matrices, and the dense one beside which they stand.
OTHERS = {
    "f16 sparse": (SP + "m16n8k32.row.col.f32.f16.f16.f32", "sm_90a", *CASES["f16"]),
    "tf32 sparse": (SP + "m16n8k16.row.col.f32.tf32.tf32.f32", "sm_90a", *CASES["tf32"]),
    "e4m3 sparse": (SP + "m16n8k64.row.col.f32.e4m3.e4m3.f32", "sm_90a", *CASES["e4m3"]),
    "mxf8f6f4": (MMA + "m16n8k32.row.col." + SCALED, "sm_120a", SMALL.format("e4m3"), "sm_120a"),
    "mxf8f6f4 sparse": (SP + "m16n8k64.row.col." + SCALED, "sm_120a", SMALL.format("e4m3"), "sm_120a"),
    "nvfp4": (MMA + "m16n8k64.row.col." + NVFP4, "sm_120a", SMALL.format("e2m1"), "sm_120a"),
}
SIZE = 768
#: Bytes of the arrays that show how fast memory is.
COPIED = 1 << 26
WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"


def as_they_are(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
    """Numbers with a normal distribution stay as they are."""
    return patterns


def operands(instruction: str, target: str, lead: tuple[int, ...], change: Change = as_they_are) -> list[Array]:
    """Matrices A, B and C for so many warps (or none: square ones) in the types of an instruction.

    change: what makes another class of numbers from patterns of those with a normal distribution.
    """
    rng, found = np.random.default_rng(0), tcemu.parse(instruction, target)
    matrices = []
    for role in "abc":
        form = found.types[role]
        shape = (*lead, *found.fragments[role].shape) if lead else (SIZE, SIZE)
        if form.kind != "float":
            matrices.append(rng.integers(-100, 100, shape).astype(form.dtype))
            continue
        patterns = change(form, rng, form.encode(rng.standard_normal(shape)))
        matrices.append(form.matrix(patterns.astype(form.storage)))
    return matrices


def registers(instruction: str, target: str, warps: int, change: Change = as_they_are) -> list[Array]:
    """The registers of A, B and C for so many warps."""
    fragments, matrices = tcemu.parse(instruction, target).fragments, operands(instruction, target, (warps,), change)
    return [fragments[role].pack(matrix) for role, matrix in zip("abc", matrices, strict=True)]


def more(instruction: str, target: str, warps: int) -> list[Any]:
    """Metadata and scales for so many warps, if the instruction takes any."""
    found = tcemu.parse(instruction, target)
    needed = len(next(cases(found, "near", 1)).operands) > len("abc")
    return list(next(cases(found, "near", warps)).operands[len("abc") :]) if needed else []


def batch(instruction: str, target: str, warps: int, change: Change = as_they_are) -> Callable[[], object]:
    """One call of tcemu.run on so many warps."""
    given, others = registers(instruction, target, warps, change), more(instruction, target, warps)
    return lambda: tcemu.run(instruction, *given, *others, target=target)


def copying() -> float:
    """Bytes that all cores read and write in a second, from one array to another, both larger than a cache."""
    source, target = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
    part = COPIED // cores()

    def some(start: int) -> None:
        target[start : start + part] = source[start : start + part]

    return 2 * COPIED / best([lambda: on_all_cores(some, range(0, COPIED, part))])[0]


def moved(instruction: str, target: str) -> int:
    """Bytes of a warp's registers: operands and result."""
    fragments = tcemu.parse(instruction, target).fragments.values()
    return sum(each.lanes * each.registers * each.container.register_dtype.itemsize for each in fragments)


def rates(warps: int) -> None:
    """Print the table of rates."""
    bandwidth = copying()
    print(f"{'':16}{'GMAC/s':>9}{'matmul':>9}{'ratio':>8}{'bound':>8}   {warps} warps, goal 0.5")
    forms = {name: 2 * own for name, own in CASES.items()} | OTHERS
    rows = {name: (batch(*own[:2], warps), *own) for name, own in forms.items()}
    for name, (work, instruction, target, dense, on) in rows.items():
        a, b, _ = operands(dense, on, ())
        times = best([work, partial(tcemu.matmul, a, b, instruction=dense, target=on)])
        shape = tcemu.parse(instruction, target).shape
        products = shape.m * shape.n * shape.k
        rate, whole = warps * products / times[0], SIZE**3 / times[1]
        bound = products * bandwidth / moved(instruction, target) / whole
        print(f"{name:16}{rate / 1e9:9.2f}{whole / 1e9:9.2f}{rate / whole:8.2f}{bound:8.2f}", flush=True)


def growth() -> None:
    """Print how the cost of a warp falls with their number."""
    instruction, target = CASES["f16"]
    counts = (1, 4, 16, 64, 256, 1024, 16384, 100_000)
    times = best([batch(instruction, target, warps) for warps in counts], 4)
    print("\nwarps       " + "".join(f"{count:>9}" for count in counts))
    print("us a warp   " + "".join(f"{1e6 * t / n:9.2f}" for n, t in zip(counts, times, strict=True)))


def latency() -> None:
    """Print what one warp and one wgmma take."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal(64 * 64 + 256 * 64).astype(np.float16).view(np.uint8)
    a = Descriptor.for_tile("f16", 64, 64, swizzle=128)
    b = Descriptor.for_tile("f16", 256, 64, swizzle=128, start=8192)
    d = np.zeros((128, 128), np.uint32)
    warp, wgmma = best(
        [batch(*CASES["f16"], 1), lambda: tcemu.run(WGMMA, d, a, b, True, 1, 1, 0, 0, shared=shared)], 300
    )
    print(f"\none warp {1e6 * warp:.0f} us (goal 20), one wgmma m64n256k16 {1e6 * wgmma:.0f} us (goal 100)")


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("warps", type=int, nargs="?", default=20_000, help="warps of each case; 20,000 if not given")
    count = options.parse_args().warps
    rates(count)
    growth()
    latency()
