"""tcemu.live.answer: a GPU's answer, live if there is a GPU, otherwise recorded, otherwise emulated.

Notebook cells tagged `live-gpu` use this, so they show a GPU's bits to every reader and say where the bits come from.
The recorded answers of the course are part of the package (recorded.json), by instruction and operands. A reader
without a GPU who changes a number gets the emulator's answer, marked as such.

Two environment variables: with TCEMU_LIVE=recorded, no GPU is asked, so that saved notebooks are the same everywhere;
TCEMU_LIVE_RECORD=FILE adds every answer of a GPU to FILE.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import GpuUnavailable
from tcemu.instructions import TARGETS, Instruction, parse, target_named
from tcemu.instructions.run import run as emulate
from tcemu.live.process.device import Device, device
from tcemu.live.runner.run import given_memories, run

Array = npt.NDArray[Any]
Record = dict[str, Any]

#: The recorded answers of the course, and the target of the GPU that gave them.
STORE, RECORDED_ON = "recorded.json", "sm_90a"


@dataclass(frozen=True)
class Answer:
    """What a GPU answered, and which; or what the emulator answers in its place.

    >>> zeros = np.zeros((32, 4), np.uint32)
    >>> tcemu.live.Answer(zeros, "your NVIDIA H200", "sm_90a", live=True).emulated
    False
    """

    #: The destination registers, or the shared or global memory after a store.
    registers: Array
    #: "live on NVIDIA H200 (sm_90a), driver 580.159.04, CUDA 13.0", "recorded on NVIDIA H200 (sm_90a), 2026-11-21", or
    #: "emulated as on sm_90a: ..." and why.
    source: str
    #: The target that answered; tcemu.run with this `target` gives the same.
    target: str
    #: Whether a GPU computed it just now.
    live: bool
    #: Whether this is the emulator's answer, because neither a GPU nor a recording has one.
    emulated: bool = False


@explained
def answer(
    instruction: str | Instruction,
    *operands: npt.ArrayLike,
    shared: npt.ArrayLike | None = None,
    memory: npt.ArrayLike | None = None,
) -> Answer:
    """A GPU's answer to one instruction, with the arguments of tcemu.run. A store changes memory in place here too.

    Asks the GPU of this machine. If there is none, or it does not have the instruction, the answer is the one recorded
    for the same instruction and operands; if no recording has these inputs, it is the emulator's. `source` says which
    it is and why. Raises what tcemu.run raises for wrong operands, and GpuError if the launch fails.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> a, b, c = (np.zeros((32, mma.fragments[role].registers), np.uint32) for role in "abc")
    >>> tcemu.live.answer(mma, a, b, c).registers.shape  # `source` says whose answer it is
    (32, 4)
    """
    parsed = parse(instruction)
    memories = given_memories(shared, memory)
    key = fingerprint(parsed, operands, memories)
    chip, why = _gpu()
    if chip is not None:
        try:
            return _live(chip, parsed, operands, memories, key)
        except GpuUnavailable as error:
            why = str(error)
    records = _course()
    if key in records:
        return _recorded(records[key], memories, chip, why)
    return _emulated(parsed, operands, memories, chip, why)


def fingerprint(
    instruction: Instruction, operands: tuple[npt.ArrayLike, ...], memories: Mapping[str, npt.ArrayLike]
) -> str:
    """The key of an answer: the opcode, and a hash of the dtypes, shapes and bytes of the arguments."""
    digest = hashlib.sha256()
    for name, value in [*((str(index), each) for index, each in enumerate(operands)), *sorted(memories.items())]:
        array = np.ascontiguousarray(value)
        if array.dtype == np.intp:  # of Python's numbers: 32 bits on WebAssembly, 64 where it was recorded
            array = array.astype(np.int64)
        array = array.astype(array.dtype.newbyteorder("<"))
        digest.update(f"{name} {array.dtype.str} {np.shape(value)} ".encode())
        digest.update(array.tobytes())
    return f"{instruction} {digest.hexdigest()[:32]}"


@cache
def _gpu() -> tuple[Device | None, str]:
    """The GPU, or None and the reason. Looked up once: without a GPU, the second call costs nothing."""
    if os.environ.get("TCEMU_LIVE") == "recorded":
        return None, "the environment says TCEMU_LIVE=recorded"
    try:
        return device(), ""
    except GpuUnavailable as error:
        return None, str(error)


def _live(
    chip: Device,
    instruction: Instruction,
    operands: tuple[npt.ArrayLike, ...],
    memories: Mapping[str, Any],
    key: str,
) -> Answer:
    registers = run(instruction, *operands, **memories)
    stored = registers is None
    if stored:
        registers = _after_a_store(memories)
    if "TCEMU_LIVE_RECORD" in os.environ:
        record(Path(os.environ["TCEMU_LIVE_RECORD"]), key, chip, registers, stored)
    return Answer(registers, f"live on {chip}", chip.target, live=True)


def _recorded(record: Record, memories: Mapping[str, Any], chip: Device | None, why: str) -> Answer:
    registers = _unpacked(record)
    if record["stored"]:
        for memory in memories.values():
            np.asarray(memory)[...] = registers
    lacks = f"; {chip.name} lacks it: {why}" if chip is not None else ""
    source = f"recorded on {record['gpu']} ({record['target']}), {record['date']}{lacks}"
    return Answer(registers, source, record["target"], live=False)


def _emulated(
    instruction: Instruction,
    operands: tuple[npt.ArrayLike, ...],
    memories: Mapping[str, Any],
    chip: Device | None,
    why: str,
) -> Answer:
    admitted = (name for name in (RECORDED_ON, *TARGETS) if instruction.gate.admits(target_named(name)))
    target = next(admitted)
    registers = emulate(instruction, *operands, target=target, **memories)
    no_gpu = f"{chip.name} lacks the instruction" if chip is not None else "no GPU can be asked"
    source = f"emulated as on {target}: no recording has these inputs, and {no_gpu} ({why})"
    return Answer(
        _after_a_store(memories) if registers is None else registers, source, target, live=False, emulated=True
    )


def _after_a_store(memories: Mapping[str, Any]) -> Array:
    (bytes_,) = (np.array(memory) for memory in memories.values())
    return bytes_


# ---------------------------------------------------------------------------------------------------- the store


@cache
def _course() -> dict[str, Record]:
    path = files("tcemu.live") / STORE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def record(path: Path, key: str, chip: Device, registers: Array, stored: bool) -> None:
    """Add an answer to the store at `path`."""
    held: dict[str, Record] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    little = np.ascontiguousarray(registers).astype(registers.dtype.newbyteorder("<"))
    held[key] = {
        "gpu": chip.name,
        "target": chip.target,
        "driver": chip.driver,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "stored": stored,
        "dtype": little.dtype.str,
        "shape": list(registers.shape),
        "answer": base64.b64encode(zlib.compress(little.tobytes(), 9)).decode(),
    }
    path.write_text(json.dumps(dict(sorted(held.items())), indent=1) + "\n", encoding="utf-8")


def _unpacked(record: Record) -> Array:
    data = zlib.decompress(base64.b64decode(record["answer"]))
    little = np.frombuffer(data, np.dtype(record["dtype"])).reshape(record["shape"])
    return little.astype(little.dtype.newbyteorder("="))
