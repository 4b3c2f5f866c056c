"""tcemu.live.answer: what a GPU answers, asked now where there is one, and else as it was recorded.

A notebook's cell that is tagged `live-gpu` uses this, so it shows a GPU's bits to every reader and says where they come
from. The recorded answers of the course travel with the package (recorded.json), by instruction and operands.

Two environment variables: TCEMU_LIVE=recorded asks no GPU, so that saved notebooks are the same everywhere;
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

from tcemu.errors import GpuUnavailable
from tcemu.instructions import Instruction, parse
from tcemu.live.device import Device, device
from tcemu.live.run import run

Array = npt.NDArray[Any]
Record = dict[str, Any]

#: The recorded answers of the course.
STORE = "recorded.json"


@dataclass(frozen=True)
class Answer:
    """What a GPU answered, and which."""

    #: The destination registers; after a store the shared or global memory.
    registers: Array
    #: "live on NVIDIA H200 (sm_90a), driver 580.159.04, CUDA 13.0", or "recorded on NVIDIA H200 (sm_90a), 2026-11-21".
    source: str
    #: The target that answered: what tcemu.run is asked for the same.
    target: str
    #: Whether it was asked now.
    live: bool


def answer(
    instruction: str | Instruction,
    *operands: npt.ArrayLike,
    shared: npt.ArrayLike | None = None,
    memory: npt.ArrayLike | None = None,
) -> Answer:
    """What a GPU answers to one instruction; arguments as for tcemu.run. A store changes memory in place, too.

    Runs on the GPU of this machine. Where there is none, or it does not have the instruction, the answer that was
    recorded for the same instruction and operands; `source` says which it is, and of an instruction that the GPU does
    not have, why. Raises GpuUnavailable where there is neither, and what tcemu.run raises for wrong operands.
    """
    found = parse(instruction)
    memories = {name: given for name, given in (("shared", shared), ("memory", memory)) if given is not None}
    key = fingerprint(found, operands, memories)
    chip, why = _gpu()
    if chip is not None:
        try:
            return _live(chip, found, operands, memories, key)
        except GpuUnavailable as error:
            why = str(error)
    return _recorded(found, memories, key, chip, why)


def fingerprint(
    instruction: Instruction, operands: tuple[npt.ArrayLike, ...], memories: Mapping[str, npt.ArrayLike]
) -> str:
    """What an answer is looked up by: the opcode and a hash of dtypes, shapes and bytes of what it is given."""
    digest = hashlib.sha256()
    for name, given in [*((str(index), each) for index, each in enumerate(operands)), *sorted(memories.items())]:
        array = np.ascontiguousarray(given)
        array = array.astype(array.dtype.newbyteorder("<"))
        digest.update(f"{name} {array.dtype.str} {np.shape(given)} ".encode())
        digest.update(array.tobytes())
    return f"{instruction} {digest.hexdigest()[:32]}"


@cache
def _gpu() -> tuple[Device | None, str]:
    """The GPU, or None and why. Asked for once: without a GPU the second call costs nothing."""
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
        (registers,) = (np.array(given) for given in memories.values())
    if "TCEMU_LIVE_RECORD" in os.environ:
        record(Path(os.environ["TCEMU_LIVE_RECORD"]), key, chip, registers, stored)
    return Answer(registers, f"live on {chip}", chip.target, live=True)


def _recorded(instruction: Instruction, memories: Mapping[str, Any], key: str, chip: Device | None, why: str) -> Answer:
    records = _course()
    if key not in records:
        raise GpuUnavailable(
            f"nobody has recorded what a GPU answers to {instruction} with these operands, and none can be asked: {why}"
        )
    found = records[key]
    registers = _unpacked(found)
    if found["stored"]:
        for given in memories.values():
            np.asarray(given)[...] = registers
    lacks = f"; {chip.name} lacks it: {why}" if chip is not None else ""
    source = f"recorded on {found['gpu']} ({found['target']}), {found['date']}{lacks}"
    return Answer(registers, source, found["target"], live=False)


# ---------------------------------------------------------------------------------------------------- the store


@cache
def _course() -> dict[str, Record]:
    path = files("tcemu.live") / STORE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def record(path: Path, key: str, chip: Device, registers: Array, stored: bool) -> None:
    """Add an answer to a store."""
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


def _unpacked(found: Record) -> Array:
    data = zlib.decompress(base64.b64decode(found["answer"]))
    little = np.frombuffer(data, np.dtype(found["dtype"])).reshape(found["shape"])
    return little.astype(little.dtype.newbyteorder("="))
