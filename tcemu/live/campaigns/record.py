"""tcemu record: golden files of a GPU's answers, hashes of many cases and samples of a few.

FOLDER/TARGET-FAMILY.json has the provenance and the SHA-256 of every answer; FOLDER/TARGET-FAMILY.npz has the registers
of the first warp of every case, for the families in SAMPLED. A recording that was stopped continues where it stopped.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from tcemu.errors import ArithmeticUnknown, TcemuError, listing
from tcemu.instructions.instruction import Instruction
from tcemu.live.process.device import Device
from tcemu.live.runner.run import run
from tcemu.vectors import Case, cases, classes, digest, emulator
from tcemu.vectors.patterns import Array

#: Warps of a case.
WARPS = 256
#: Families whose first warps are stored whole, so that a difference can be shown with its values.
SAMPLED = frozenset({"mma"})
#: Families with thousands of forms: each form is recorded with one class of inputs, which its name determines.
DRAWN = frozenset({"wgmma"})
#: The most seconds of work that are lost if a recording is killed.
_EVERY = 5.0
#: The provenance that must be unchanged for a recording to continue.
_SAME = ("gpu", "target", "driver", "warps")


@dataclass
class Recorded:
    """A family's golden file while it is being written."""

    path: Path
    provenance: dict[str, Any]
    sha256: dict[str, str] = field(default_factory=dict)
    samples: dict[str, Array] = field(default_factory=dict)
    #: Cases recorded in this run, their words in which the emulator differs, and cases that it cannot compute.
    new: int = 0
    differing: int = 0
    unknown: int = 0

    def write(self) -> None:
        """Write both files, each completely or not at all."""
        text = json.dumps({"provenance": self.provenance, "sha256": self.sha256}, indent=1) + "\n"
        _replace(self.path, lambda path: path.write_text(text, encoding="utf-8"))
        if self.samples:
            _replace(self.path.with_suffix(".npz"), self._write_samples)

    def _write_samples(self, path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, **self.samples)  # type: ignore[arg-type]


def record(
    folder: Path,
    device: Device,
    instructions: Iterable[Instruction],
    command: str,
    answer: Callable[..., Any] = run,
    progress: Callable[[Case], object] = lambda _case: None,
) -> list[Recorded]:
    """Record the cases of all `instructions` that are not in `folder` yet; calls `progress` with each case.

    Raises TcemuError if the folder cannot be written, or has files of another GPU.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TcemuError(f"cannot record in {folder}: {error.strerror}") from None
    return [
        _record_family(_opened(folder, device, name, command), list(members), answer, progress)
        for name, members in groupby(instructions, key=lambda instruction: instruction.family)
    ]


def provenance(device: Device, command: str) -> dict[str, Any]:
    """The provenance in a golden file."""
    return {
        "gpu": device.name,
        "target": device.target,
        "driver": f"{device.driver or 'unknown'}, CUDA {device.cuda // 1000}.{device.cuda % 1000 // 10}",
        "ptx": "of each instruction, the oldest that has it and the target",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "warps": WARPS,
        "command": command,
        "inputs": "tcemu/vectors",
    }


def every_case(instructions: Iterable[Instruction]) -> Iterator[tuple[Instruction, str]]:
    """Every instruction with the classes of inputs that are recorded."""
    for instruction in instructions:
        kinds = classes(instruction)
        if instruction.family in DRAWN:
            kinds = (kinds[crc32(instruction.opcode.encode()) % len(kinds)],)
        yield from ((instruction, kind) for kind in kinds)


def _opened(folder: Path, device: Device, family: str, command: str) -> Recorded:
    """The family's file, with its existing contents."""
    now = provenance(device, command)
    file = Recorded(folder / f"{device.target}-{family}.json", now)
    if not file.path.exists():
        return file
    try:
        before = json.loads(file.path.read_text(encoding="utf-8"))
        file.sha256, file.provenance = dict(before["sha256"]), dict(before["provenance"])
        if file.path.with_suffix(".npz").exists():
            with np.load(file.path.with_suffix(".npz")) as held:
                file.samples = dict(held)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TcemuError(f"{file.path} is not a golden file ({error}); remove it, or give another folder") from None
    other = [f"{name} {file.provenance.get(name)!r}" for name in _SAME if file.provenance.get(name) != now[name]]
    if other:
        raise TcemuError(f"{file.path} was recorded elsewhere, with {listing(other, 'and')}: give another folder")
    return file


def _record_family(
    file: Recorded, instructions: list[Instruction], answer: Callable[..., Any], progress: Callable[[Case], object]
) -> Recorded:
    model, saved = emulator(file.provenance["target"]), time.monotonic()
    try:
        for instruction, kind in every_case(instructions):
            for case in cases(instruction, kind, WARPS):
                progress(case)
                if case.key not in file.sha256:
                    _record_case(file, case, answer, model)
            if time.monotonic() - saved > _EVERY:
                file.write()
                saved = time.monotonic()
    finally:
        if file.new:
            file.write()
    return file


def _record_case(file: Recorded, case: Case, answer: Callable[..., Any], model: Callable[..., Any]) -> None:
    result = case.answer(answer)
    file.sha256[case.key] = digest(result)
    file.new += 1
    if case.instruction.family in SAMPLED:
        file.samples[case.key] = result[0]
    try:
        file.differing += int((case.answer(model) != result).sum())
    except ArithmeticUnknown:
        file.unknown += 1


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    beside = path.with_name(f".{path.name}.new")
    try:
        write(beside)
        beside.replace(path)
    except OSError as error:
        raise TcemuError(f"cannot write {path}: {error.strerror}") from None
