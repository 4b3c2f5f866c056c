"""Record golden files on the GPU of this machine: python tests/golden/record.py FOLDER [--fuzz SECONDS]

Needs CuPy. For every legal warp-level instruction of the GPU and every class of inputs it keeps the hash of the answer
(output registers, or the memory after a store), and of products the registers of one warp. Every answer is compared
with the emulator's. With --fuzz it then compares fresh random inputs for that long.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import ptx
from golden.inputs import BYTES, CLASSES, classes, digest, memory_case, metadata, operands, selectors

import tcemu
from tcemu.instructions import FAMILIES, Instruction, target_named

Array = npt.NDArray[Any]
WARPS = 256
VERSION = "8.7"
PRODUCTS, ACCESSES = ("mma", "mma.sp", "wmma.mma"), ("wmma.load", "wmma.store")


@dataclass(frozen=True)
class Case:
    """One kernel on one class of inputs: its key in the golden file, and what it is given."""

    key: str
    instruction: Instruction
    selector: int
    operands: tuple[Any, ...]
    memory: Array | None = None

    @property
    def stores(self) -> bool:
        """Whether the answer is memory."""
        return self.instruction.family in ("stmatrix", "wmma.store")

    def emulate(self, target: str) -> Array:
        """What tcemu answers."""
        memory = None if self.memory is None else self.memory.copy()
        name = "memory" if self.instruction.family in ACCESSES else "shared"
        given = {} if memory is None or self.instruction.family == "movmatrix" else {name: memory}
        answer = tcemu.run(self.instruction, *self.operands, target=target, **given)
        return memory if self.stores else answer


def cases(instruction: Instruction, kind: str, warps: int, series: str) -> Iterator[Case]:
    """The cases of a class of inputs: one for each selector."""
    if instruction.family not in PRODUCTS:
        given, memory = memory_case(instruction, warps, series)
        yield Case(f"{instruction}|{kind}", instruction, 0, given, memory)
        return
    for selector in selectors(instruction):
        registers = operands(instruction, kind, warps, f"{series} {selector}" if selector else series)
        if "e" in instruction.fragments:
            held = metadata(instruction, f"{series} {selector}|{instruction}|{kind}", warps)
            yield Case(f"{instruction}|{kind}|{selector}", instruction, selector, (*registers, held, selector))
        else:
            yield Case(f"{instruction}|{kind}", instruction, 0, registers)


def kernels(instruction: Instruction, name: str) -> list[str]:
    """The PTX of an instruction: one entry for each selector."""
    if instruction.family in PRODUCTS:
        return [ptx.product(f"{name}_{selector}", instruction, selector) for selector in selectors(instruction)]
    make = ptx.access if instruction.family in ACCESSES else ptx.move
    return [make(f"{name}_0", instruction, BYTES)]


def module(instructions: list[Instruction], target: str) -> tuple[str, dict[str, str]]:
    """One PTX module with all of them, and the name of each."""
    names = {instruction.opcode: f"k{index}" for index, instruction in enumerate(instructions)}
    text = [f".version {VERSION}\n.target {target}\n.address_size 64"]
    for instruction in instructions:
        text += kernels(instruction, names[instruction.opcode])
    return "\n".join(text), names


def recordable(target: str) -> list[Instruction]:
    """Every instruction of the target; loads and stores in global memory only, or shared for the matrix moves."""
    found = []
    for family in FAMILIES:
        for _, instruction in family.variants:
            there = instruction.gate.admits(target_named(target)) and instruction.gate.admits_ptx(VERSION)
            if there and instruction.words.get("ss", "global") in ("global", "shared"):
                needless = instruction.family in ACCESSES and instruction.words.get("ss") != "global"
                found += [] if needless else [instruction]
    return [i for i in found if i.family in (*PRODUCTS, *ACCESSES, "movmatrix") or i.words.get("ss") == "shared"]


class Gpu:
    """Every instruction, loaded as one module."""

    def __init__(self, instructions: list[Instruction], target: str) -> None:
        import cupy

        self.cupy = cupy
        text, self.names = module(instructions, target)
        with tempfile.NamedTemporaryFile("w", suffix=".ptx", delete=False) as file:
            file.write(text)
        self.module = cupy.RawModule(path=file.name)

    def run(self, case: Case) -> Array:
        """The GPU's answer."""
        cp, instruction = self.cupy, case.instruction
        send = lambda array: cp.asarray(np.ascontiguousarray(array))  # noqa: E731
        call = self.module.get_function(f"{self.names[instruction.opcode]}_{case.selector}")
        if instruction.family in PRODUCTS:
            a, b, c, *rest = case.operands
            fragment = instruction.fragments["d"]
            out = cp.empty((len(a), fragment.lanes, fragment.registers), fragment.container.register_dtype)
            held = send(rest[0]) if rest else cp.zeros(1, cp.uint32)
            call((len(a),), (32,), (send(a), send(b), send(c), out, held))
            return cp.asnumpy(out)
        warps = len(case.memory)
        (role, fragment), *_ = reversed(instruction.fragments.items())
        fragment = instruction.fragments.get("d", fragment)
        memory = send(case.memory)
        out = cp.zeros((warps, fragment.lanes, fragment.registers), fragment.container.register_dtype)
        wide = [send(x.astype(np.uint32) if x.ndim < 3 else x) for x in case.operands]
        held = next((send(x) for x in case.operands if x.ndim == 3), cp.zeros(1, cp.uint32))
        last = (wide[-1],) if instruction.family in ACCESSES else ()
        call((warps,), (32,), (wide[0], held, out, memory, *last))
        return cp.asnumpy(memory if case.stores else out)


def differences(case: Case, answer: Array, target: str) -> int:
    """How many words of the answer differ from the emulator's; the first is printed."""
    mine = case.emulate(target)
    where = np.argwhere(mine != answer)
    if len(where):
        at = tuple(int(x) for x in where[0])
        print(f"DIFFERS {case.key}: at {at}: GPU {answer[at]:#x}, emulator {mine[at]:#x}; {len(where)} in all")
    return len(where)


def record(gpu: Gpu, instructions: list[Instruction], target: str, folder: Path, provenance: dict[str, Any]) -> None:
    """Write the golden files of every family."""
    folder.mkdir(parents=True, exist_ok=True)
    for family in dict.fromkeys(instruction.family for instruction in instructions):
        hashes, samples, wrong = {}, {}, 0
        for instruction in (i for i in instructions if i.family == family):
            for kind in classes(instruction) if family in PRODUCTS else ("bits",):
                for case in cases(instruction, kind, WARPS, "golden"):
                    answer = gpu.run(case)
                    hashes[case.key] = digest(answer)
                    if family == "mma":
                        samples[case.key] = answer[0]
                    wrong += differences(case, answer, target)
        text = json.dumps({"provenance": provenance, "sha256": hashes}, indent=1)
        (folder / f"{target}-{family}.json").write_text(text + "\n")
        if samples:
            np.savez_compressed(folder / f"{target}-{family}.npz", **samples)
        print(f"{family}: {len(hashes)} recorded on {provenance['gpu']}, {wrong} words differ from the emulator")


def fuzz(gpu: Gpu, instructions: list[Instruction], target: str, seconds: float) -> None:
    """Fresh inputs, all instructions in turn, until the time is over."""
    stop, outputs, wrong, turn = time.monotonic() + seconds, 0, 0, 0
    start = int(time.time())
    while time.monotonic() < stop:
        for instruction in instructions:
            kind = CLASSES[turn % len(CLASSES)] if classes(instruction) == CLASSES else "bits"
            for case in cases(instruction, kind, 1024, f"fuzz {start} {turn}"):
                answer = gpu.run(case)
                outputs += answer.size
                wrong += differences(case, answer, target)
            if time.monotonic() > stop:
                break
        turn += 1
    if seconds:
        print(f"{outputs:,} output registers with fresh inputs in {turn} turns: {wrong} differ")


def main() -> None:
    """Record, compare, fuzz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fuzz", type=float, default=0.0)
    arguments = parser.parse_args()
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    target = f"sm_{properties['major']}{properties['minor']}" + ("a" if properties["major"] >= 9 else "")
    instructions = recordable(target)
    gpu = Gpu(instructions, target)
    provenance = {
        "gpu": properties["name"].decode(),
        "target": target,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "ptx": VERSION,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "warps": WARPS,
        "command": "python tests/golden/record.py FOLDER",
        "inputs": "tests/golden/inputs.py",
    }
    record(gpu, instructions, target, arguments.folder, provenance)
    fuzz(gpu, instructions, target, arguments.fuzz)


if __name__ == "__main__":
    main()
