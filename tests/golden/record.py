"""Record golden files on the GPU of this machine: python tests/golden/record.py FOLDER [--fuzz SECONDS]

Needs CuPy. For every legal mma.sync of the GPU and every class of inputs it keeps the hash of all output registers, and
the registers of one warp. With --fuzz it then compares fresh random inputs with the emulator for that long.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.inputs import CLASSES, classes, digest, operands

import tcemu
from tcemu.instructions import FAMILIES, Instruction, target_named

Array = npt.NDArray[Any]
WARPS = 256
_REGISTER = {"f64": "f64", "f32": "f32"}


def kernel(name: str, instruction: Instruction, ptx_name: str) -> str:
    """A PTX entry in which every warp loads its registers of A, B and C, executes once, and stores D."""
    declare, load, store = [], [], []
    for index, role in enumerate("abcd"):
        fragment = instruction.fragments[role]
        size, kind = fragment.container.register_bits // 8, _REGISTER.get(fragment.format.name, "b32")
        declare.append(f".reg .{kind} %{role}<{fragment.registers}>;")
        load.append(
            f"ld.param.u64 %p{index}, [p{role}]; mad.wide.u32 %p{index}, %t2, {size * fragment.registers}, %p{index};"
        )
        for r in range(fragment.registers):
            where = f"[%p{index}+{size * r}]"
            if role == "d":
                store.append(f"st.global.{kind} {where}, %d{r};")
            else:
                load.append(f"ld.global.{kind} %{role}{r}, {where};")
    vectors = ", ".join(
        "{" + ", ".join(f"%{role}{r}" for r in range(instruction.fragments[role].registers)) + "}" for role in "dabc"
    )
    return "\n".join(
        [
            f".visible .entry {name}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {{",
            ".reg .b32 %t<3>; .reg .b64 %p<4>;",
            *declare,
            "mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mad.lo.u32 %t2, %t1, 32, %t0;",
            *load,
            f"{ptx_name} {vectors};",
            *store,
            "ret; }",
        ]
    )


class Gpu:
    """Every instruction of `instructions`, loaded as one module."""

    def __init__(self, instructions: list[Instruction], target: str, version: str) -> None:
        import cupy

        self.cupy = cupy
        self.names = {instruction.opcode: f"k{index}" for index, instruction in enumerate(instructions)}
        text = [f".version {version}\n.target {target}\n.address_size 64"]
        text += [kernel(self.names[i.opcode], i, i.opcode) for i in instructions]
        with tempfile.NamedTemporaryFile("w", suffix=".ptx", delete=False) as file:
            file.write("\n".join(text))
        self.module = cupy.RawModule(path=file.name)

    def run(self, instruction: Instruction, *registers: Array) -> Array:
        """D registers of many warps."""
        fragment = instruction.fragments["d"]
        given = [self.cupy.asarray(np.ascontiguousarray(array)) for array in registers]
        out = self.cupy.empty(
            (len(registers[0]), fragment.lanes, fragment.registers), fragment.container.register_dtype
        )
        self.module.get_function(self.names[instruction.opcode])((len(registers[0]),), (32,), (*given, out))
        return self.cupy.asnumpy(out)


def differences(instruction: Instruction, kind: str, given: tuple[Array, ...], answer: Array, target: str) -> int:
    """How many registers differ from the emulator's; the first is printed."""
    mine = tcemu.run(instruction, *given, target=target)
    where = np.argwhere(mine != answer)
    if len(where):
        w, lane, r = (int(x) for x in where[0])
        print(
            f"DIFFERS {instruction} {kind}: warp {w} lane {lane} register {r}: GPU {answer[w, lane, r]:#x}, "
            f"emulator {mine[w, lane, r]:#x}; {len(where)} in all"
        )
    return len(where)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fuzz", type=float, default=0.0)
    arguments = parser.parse_args()
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    target = f"sm_{properties['major']}{properties['minor']}" + ("a" if properties["major"] >= 9 else "")
    version = "8.7"
    instructions = [
        i for f in FAMILIES for _, i in f.variants if i.gate.admits(target_named(target)) and i.gate.admits_ptx(version)
    ]
    gpu = Gpu(instructions, target, version)
    hashes, samples, wrong = {}, {}, 0
    for instruction in instructions:
        for kind in classes(instruction):
            given = operands(instruction, kind, WARPS)
            answer = gpu.run(instruction, *given)
            hashes[f"{instruction}|{kind}"] = digest(answer)
            samples[f"{instruction}|{kind}"] = answer[0]
            wrong += differences(instruction, kind, given, answer, target)
    provenance = {
        "gpu": properties["name"].decode(),
        "target": target,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "ptx": version,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "warps": WARPS,
        "command": "python tests/golden/record.py FOLDER",
        "inputs": "tests/golden/inputs.py",
    }
    arguments.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"provenance": provenance, "sha256": hashes}, indent=1)
    (arguments.folder / f"{target}-mma.json").write_text(text + "\n")
    np.savez_compressed(arguments.folder / f"{target}-mma.npz", **samples)
    print(f"{len(hashes)} recorded on {provenance['gpu']}, {wrong} registers differ from the emulator")
    fuzz(gpu, instructions, target, arguments.fuzz)


def fuzz(gpu: Gpu, instructions: list[Instruction], target: str, seconds: float) -> None:
    """Fresh inputs, all instructions in turn, until the time is over."""
    stop, outputs, wrong, turn = time.monotonic() + seconds, 0, 0, 0
    start = int(time.time())
    while time.monotonic() < stop:
        for instruction in instructions:
            kind = CLASSES[turn % len(CLASSES)] if instruction.types["a"].kind == "float" else "bits"
            given = operands(instruction, kind, 2048, f"fuzz {start} {turn}")
            answer = gpu.run(instruction, *given)
            outputs += len(answer) * 32 * instruction.fragments["d"].layout.slots
            wrong += differences(instruction, kind, given, answer, target)
            if time.monotonic() > stop:
                break
        turn += 1
    if seconds:
        print(f"{outputs:,} outputs with fresh inputs in {turn} turns: {wrong} registers differ")


if __name__ == "__main__":
    main()
