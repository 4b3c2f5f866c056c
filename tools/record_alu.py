"""What a GPU answers for the ordinary instructions: asks what tests/golden/sm_90a-alu.npz asks, and a neighbour of it.

    python3 tools/record_alu.py OUT

Needs the extra `gpu` and an NVIDIA GPU. Writes two files that belong in tests/golden, with the same questions and this
GPU's answers: OUT/sm_90a-alu.npz, which tests/alu/recorded.py describes, and OUT/sm_90a-approximations.npz, which
tests/alu/test_approximations.py describes.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tcemu import alu  # noqa: E402
from tcemu.alu.row import bits  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"

#: Where the operands of a kernel come from: random numbers, combinations of special ones, adjacent 32-bit numbers, or
#: adjacent high words of 64 bits.
RANDOM, SPECIAL, ADJACENT, HIGH = range(4)
#: How many special operands of each kind are combined, if there are three or four.
FEWER = {3: 12, 4: 7}
#: How many rows a kernel has. One kernel for all of them would take an hour to compile.
TOGETHER = 120

SOURCE = """
typedef unsigned long long u64; typedef unsigned u32;
__device__ u64 mixed(u64 z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
__device__ u64 half(int kind, u32 h) {
    if (kind != 4 || h >> 30 == 0) return h & 0xffff;
    return (h >> 15 & 1) << 15 | (115 + (h >> 16 & 255) % 24) << 7 | (h & 0x7f);
}
__device__ u64 value(int kind, u64 h) {
    int width = kind % 100;
    u64 some = h >> 62, ones = width == 64 ? ~0ull : (1ull << width) - 1;
    switch (kind / 100) {
    case 1:
        if (some == 0) return h & 0xffffffff;
        return (h >> 31 & 1) << 31 | (115 + (h >> 32 & 255) % 24) << 23 | (h & 0x7fffff);
    case 2:
        if (some == 0) return mixed(h);
        return (h >> 61 & 1) << 63 | (1011 + (h >> 52 & 255) % 24) << 52 | (h & ~0ull >> 12);
    case 3: case 4: return half(kind / 100, (u32)h ^ (u32)(h >> 32));
    case 5: case 6: return half(kind / 100 - 2, (u32)h) | half(kind / 100 - 2, (u32)(h >> 32)) << 16;
    }
    if (some == 0) return mixed(h) & ones;
    if (some == 1) return ((h & 63) - 32) & ones;
    if (some == 2) return (mixed(h) & ones) >> (h >> 50 & 255) % width;
    return ((1ull << (width - 1)) + (h & 7) - 4) & ones;
}
struct Job { u64 *sums; const u64 *special[4]; u64 number, first, count; int kinds[4], mode, fewer, places; };
"""
ROW = """
__device__ __noinline__ u64 row{number}(u64 a, u64 b, u64 c, u64 d) {{
    u64 r, more;
    asm volatile("{{{text}}}" : "=l"(r), "=l"(more) : "l"(a), "l"(b), "l"(c), "l"(d));
    return (r & {mask:#x}ull) ^ more;
}}
"""
KERNEL = """
__device__ u64 answer(u64 number, const u64 *x) {
    switch (number) {
        CASES
    }
    return 0;
}
extern "C" __global__ void record(Job job) {
    __shared__ u64 total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    u64 sum = 0;
    for (u64 k = threadIdx.x; k < 1ull << job.places; k += blockDim.x) {
        u64 i = ((u64)blockIdx.x << job.places) + k, rest = i, x[4] = {job.first + i, 0, 0, 0};
        if (i >= job.count) break;
        for (int n = 0; n < 4; n++)
            if (job.mode == 0 && job.kinds[n]) x[n] = value(job.kinds[n], mixed((job.number << 40) + 4 * i + n));
            else if (job.mode == 1 && job.kinds[n]) { x[n] = job.special[n][rest % job.fewer]; rest /= job.fewer; }
        if (job.mode == 3) x[0] <<= 32;
        sum += mixed(answer(job.number, x) ^ mixed(job.mode >= 2 ? job.first + i : i));
    }
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) job.sums[blockIdx.x] = total;
}
"""


class Job(ctypes.Structure):
    """The kernel's structure of this name."""

    _fields_ = [
        ("sums", ctypes.c_uint64), ("special", ctypes.c_uint64 * 4), ("number", ctypes.c_uint64),
        ("first", ctypes.c_uint64), ("count", ctypes.c_uint64), ("kinds", ctypes.c_int * 4),
        ("mode", ctypes.c_int), ("fewer", ctypes.c_int), ("places", ctypes.c_int),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- the kernel


def _register(kind: str) -> tuple[str, str, str]:
    """The type of a register for values of a type, and how it is made of 64 bits, and 64 bits of it."""
    if kind == "pred":
        return ".pred", "setp.ne.u64 {}, {}, 0;", "selp.u64 {}, 1, 0, {};"
    width = bits(kind)
    return f".b{width}", f"cvt.u{width}.u64 {{}}, {{}};", f"cvt.u64.u{width} {{}}, {{}};"


def row(number: int, name: str) -> str:
    """CUDA C++ of a row of the file: its answer is the first result, with the second one or the carry further up."""
    opcode, comma, immediate = name.rstrip("|").partition(", ")
    found = alu.find(opcode, pair=name.endswith("|"))
    if found is None:
        raise ValueError(f"the table has no {name}")
    operands = found.operands[:3] if comma else found.operands
    if comma and len(found.operands) > 4:
        operands = (*operands, found.operands[4])
    lines, results, sources = [], [], []
    for place, kind in enumerate(found.results):
        results.append(f"r{place}")
        lines.append(f".reg {_register(kind)[0]} r{place};")
    for place, kind in enumerate(operands):
        register, taken, _ = _register(kind)
        sources.append(f"x{place}")
        lines += [f".reg {register} x{place};", taken.format(f"x{place}", f"%{place + 2}")]
    if comma:
        sources.insert(3, immediate)
    if found.carry_in:
        lines.append(f".reg .b32 c, t; cvt.u32.u64 c, %{len(operands) + 2}; add.cc.u32 t, c, 0xffffffff;")
    lines.append(f"{opcode} {'|'.join(results)}, {', '.join(sources)};")
    if found.carry_out:
        lines.append(".reg .b32 e; .reg .b64 f; addc.u32 e, 0, 0; cvt.u64.u32 f, e; shl.b64 %1, f, 63;")
    elif len(results) > 1:
        lines.append(f".reg .b64 f; {_register(found.results[1])[2].format('f', 'r1')} shl.b64 %1, f, 32;")
    else:
        lines.append("mov.b64 %1, 0;")
    lines.append(_register(found.results[0])[2].format("%0", "r0"))
    return ROW.format(number=number, text=" ".join(lines), mask=(1 << bits(found.results[0])) - 1)


def source(names: dict[int, str]) -> str:
    """CUDA C++ of the kernel that answers for rows, by their numbers."""
    cases = "".join(f"case {number}: return row{number}(x[0], x[1], x[2], x[3]);" for number in names)
    rows = [row(number, name) for number, name in names.items()]
    return "".join([SOURCE, *rows, KERNEL.replace("CASES", cases)])


# ---------------------------------------------------------------------------------------------------- all answers

#: Asks the kernel: a job without addresses, the special operands of each kind, the blocks; their sums.
Ask = Callable[[Job, Sequence[Any], int], Any]


def job(number: int, kinds: Sequence[int], mode: int, count: int, places: int, first: int = 0) -> Job:
    """A job without addresses."""
    given = [int(kind) for kind in kinds if kind]
    return Job(number=number, first=first, count=count, kinds=(ctypes.c_int * 4)(*given), mode=mode, places=places)


def special(number: int, kinds: Sequence[int], file: dict[str, Any], ask: Ask) -> int:
    """The sum of answers to combinations of special operands."""
    given = [file[f"special_{kind}"] for kind in kinds if kind]
    fewer = FEWER.get(len(given), min(map(len, given)))
    asked = job(number, kinds, SPECIAL, fewer ** len(given), 12)
    asked.fewer = fewer
    return int(ask(asked, given, 1)[0])


def recorded(file: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """The file of all rows with new answers."""
    answers: dict[str, list[int]] = {name: [] for name in ("special", "first", "random", "every")}
    for number, kinds in enumerate(file["kinds"].tolist()):  # numpy's int16 has no 1 << 16
        answers["special"].append(special(number, kinds, file, ask))
        sums = ask(job(number, kinds, RANDOM, 1 << 20, 14), [], 64)
        answers["first"].append(int(sums[0]))
        answers["random"].append(int(sums.sum(dtype=np.uint64)))
        few = kinds[0] % 100 if not kinds[1] and kinds[0] % 100 <= 32 else 0
        blocks = 1 << max(few - 23, 0)
        every = ask(job(number, kinds, ADJACENT, 1 << few, min(few, 23)), [], blocks) if few else np.zeros(1, np.uint64)
        answers["every"].append(int(every.sum(dtype=np.uint64)))
    return file | {name: np.array(each, np.uint64) for name, each in answers.items()}


def approximations(file: dict[str, Any], rows: dict[str, tuple[int, Any]], ask: Ask) -> dict[str, Any]:
    """The file of approximations with new answers."""

    def blocks(name: str, mode: int, places: int, firsts: Any) -> list[int]:
        number, kinds = rows[name]
        return [int(ask(job(number, kinds, mode, 1 << places, places, int(first)), [], 1)[0]) for first in firsts]

    high = file["high_names"].tolist()
    every = [ask(job(*rows[name], HIGH, 1 << 32, 23), [], 512).sum(dtype=np.uint64) for name in high]
    return file | {
        "blocks": np.array([blocks(each, ADJACENT, 17, file["firsts"]) for each in file["names"].tolist()], np.uint64),
        "high_blocks": np.array([blocks(each, HIGH, 20, file["high_firsts"] >> 32) for each in high], np.uint64),
        "high_every": np.array(every, np.uint64),
    }


# ---------------------------------------------------------------------------------------------------- the GPU


def on_gpu(names: list[str]) -> tuple[dict[str, str], Ask]:
    """What the GPU, its driver and the compiler are, and what asks it, in a kernel for every `TOGETHER` rows."""
    from cuda.bindings import driver

    from tools.record_cuda import begun, checked, compiled

    about = begun()

    def ptx(first: int) -> bytes:
        path = Path(folder) / f"{first}.cu"
        path.write_text(source(dict(enumerate(names[first : first + TOGETHER], first))), encoding="utf-8")
        return compiled(path).encode()

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        modules = [checked(driver.cuModuleLoadData(each)) for each in pool.map(ptx, range(0, len(names), TOGETHER))]
    functions = [checked(driver.cuModuleGetFunction(module, b"record")) for module in modules]
    sums, memory = checked(driver.cuMemAlloc(512 * 8)), checked(driver.cuMemAlloc(4 * 256 * 8))

    def ask(asked: Job, given: Sequence[Any], blocks: int) -> Any:
        asked.sums = int(sums)
        for place, values in enumerate(given):
            asked.special[place] = int(memory) + 2048 * place
            checked(driver.cuMemcpyHtoD(asked.special[place], values.ctypes.data, values.nbytes))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(asked))
        function = functions[asked.number // TOGETHER]
        checked(driver.cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0, 0, ctypes.addressof(pointers), 0))
        found = np.zeros(blocks, np.uint64)
        checked(driver.cuMemcpyDtoH(found.ctypes.data, sums, found.nbytes))
        return found

    return about, ask


def main() -> None:
    """Record both files."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    file, other = (dict(np.load(GOLDEN / f"sm_90a-{name}.npz")) for name in ("alu", "approximations"))
    names = file["names"].tolist()
    about, ask = on_gpu(names)
    rows = {name: (number, file["kinds"][number]) for number, name in enumerate(names)}
    np.savez_compressed(out / "sm_90a-approximations.npz", **approximations(other, rows, ask))
    np.savez_compressed(out / "sm_90a-alu.npz", **recorded(file, ask) | {"about": np.array(json.dumps(about))})


if __name__ == "__main__":
    main()
