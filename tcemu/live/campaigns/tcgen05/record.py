"""Recording the answers: FOLDER/TARGET-tcgen05.npz has Tensor Memory after each question, and .json says what it is.

A question that the card refuses (an instruction descriptor without rows, for example) has the card's words instead. A
recording that was stopped continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import GpuError, TcemuError
from tcemu.live.campaigns.record import provenance
from tcemu.live.campaigns.tcgen05.kernel import code, emulated, job
from tcemu.live.campaigns.tcgen05.questions import Question, questions
from tcemu.live.process.device import Device
from tcemu.live.process.job import Job, Result

Array = npt.NDArray[Any]


@dataclass
class Answers:
    """The answers of one card: arrays and refusals by question, and how they compare with the machine's."""

    path: Path
    provenance: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    #: answered in this run; of those, questions whose words differ from the machine's, and that it does not answer
    new: int = 0
    differing: list[str] = field(default_factory=list)
    unknown: int = 0

    def write(self) -> None:
        """Write both files. Raises TcemuError."""
        hashes = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in self.arrays.items()}
        contents = {"provenance": self.provenance, "sha256": hashes, "refused": self.refused}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
            with self.path.with_suffix(".npz").open("wb") as file:
                np.savez_compressed(file, **self.arrays)  # type: ignore[arg-type]
        except OSError as error:
            raise TcemuError(f"cannot record in {self.path.parent}: {error.strerror}") from None


def record(
    folder: Path, device: Device, command: str, ask: Callable[[Job], Result], progress: Callable[[str], object]
) -> Answers:
    """Ask all questions that `folder` has no answer to yet; calls `progress` with the name of each."""
    answers = _opened(folder, device, command)
    try:
        for question in questions(device.target):
            progress(question.name)
            if question.name not in answers.arrays and question.name not in answers.refused:
                _ask(answers, question, device.target, ask)
    finally:
        answers.write()
    return answers


def _opened(folder: Path, device: Device, command: str) -> Answers:
    answers = Answers(folder / f"{device.target}-tcgen05.json", provenance(device, command))
    if not answers.path.exists():
        return answers
    try:
        contents = json.loads(answers.path.read_text(encoding="utf-8"))
        answers.refused, before = dict(contents["refused"]), contents["provenance"]
        with np.load(answers.path.with_suffix(".npz")) as held:
            answers.arrays = dict(held)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TcemuError(f"{answers.path} is not a recording ({error}); remove it, or give another folder") from None
    if (before.get("gpu"), before.get("driver")) != (device.name, answers.provenance["driver"]):
        raise TcemuError(f"{answers.path} was recorded elsewhere, on {before.get('gpu')}: give another folder")
    return answers


def _ask(answers: Answers, question: Question, target: str, ask: Callable[[Job], Result]) -> None:
    answers.new += 1
    try:
        arrays = ask(job(question, target)).arrays
    except GpuError as error:
        answers.refused[question.name] = str(error)
        return
    answer = arrays["reduced"][0] if question.by == "warps" else arrays["out"]
    answers.arrays[question.name] = answer
    try:
        expected = emulated(question, target)
    except TcemuError:
        answers.unknown += 1
        return
    if not np.array_equal(answer[: len(expected)], expected) and question.by != "nobody":
        answers.differing.append(question.name)


def prepared(folder: Path, target: str) -> tuple[list[Question], dict[str, str]]:
    """Everything short of asking: the kernel of each question is written to a file; and why the machine has no answer.

    Raises TcemuError if the folder cannot be written.
    """
    asked, why = questions(target), dict[str, str]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, question in enumerate(asked):
            text = f"// {question.name}\n{code(question, target)}"
            (folder / f"{target}-{number:03}.ptx").write_text(text, encoding="utf-8")
    except OSError as error:
        raise TcemuError(f"cannot write to {folder}: {error.strerror}") from None
    for question in asked:
        try:
            emulated(question, target)
        except TcemuError as error:
            why[question.name] = str(error)
    return asked, why
