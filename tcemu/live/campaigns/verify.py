"""tcemu verify: fresh random inputs of every class, on the GPU and in the emulator, until the time is up.

Several processes share the instructions, each with a GPU context and an emulator of its own, because the emulator is
the slower side. Inputs follow from the seed alone, so a difference can be looked at again.
"""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from tcemu.errors import ArithmeticUnknown, TcemuError
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.parse import parse
from tcemu.instructions.targets import target_named
from tcemu.live.campaigns.minimise import Failing, minimise
from tcemu.live.process.device import Device
from tcemu.live.runner.compare import Comparison, arithmetic_of
from tcemu.live.runner.run import run
from tcemu.vectors import Case, cases, classes, emulator

#: Warps of a case: many hide the calls, few keep the turns short.
WARPS = 512
#: Seconds between two reports of a process, and how long processes may take to start and to stop.
_REPORT, _PATIENCE = 0.5, 300.0


@dataclass(frozen=True)
class Where:
    """What a case is made from."""

    opcode: str
    kind: str
    series: str
    warps: int
    key: str

    def case(self) -> Case:
        """The case, made again."""
        found = cases(parse(self.opcode), self.kind, self.warps, self.series)
        return next(case for case in found if case.key == self.key)


@dataclass
class Outcome:
    """What a run found."""

    seconds: float = 0.0
    #: Output elements and cases by family; the instructions that were compared.
    elements: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    instructions: set[str] = field(default_factory=set)
    #: Instructions that the GPU has, but of which nobody knows what they compute.
    unknown: int = 0
    failing: Failing | None = None
    where: Where | None = None

    @property
    def total(self) -> int:
        """Output elements of all families."""
        return self.elements.total()

    def __str__(self) -> str:
        families = ", ".join(f"{name} {number:,}" for name, number in self.elements.items())
        verdict = "0 differences" if self.failing is None else "a difference"
        unknown = f"; {self.unknown} instructions of unknown arithmetic were left out" if self.unknown else ""
        return (
            f"{self.total:,} output elements of {len(self.instructions):,} instructions in {self.seconds:.0f} s, "
            f"{verdict} ({families}){unknown}"
        )


@dataclass(frozen=True)
class Share:
    """What one process does."""

    number: int
    opcodes: tuple[str, ...]
    target: str
    seed: str
    warps: int
    answer: Callable[..., Any]


def computable(instructions: list[Instruction], target: str) -> list[Instruction]:
    """Those that the emulator can answer."""
    found = []
    for instruction in instructions:
        here = instruction.on(target_named(target))
        try:
            if "a" in here.types and "c" in here.types:
                here.arithmetic(target_named(target))
        except ArithmeticUnknown:
            continue
        found.append(instruction)
    return found


def verify(
    device: Device,
    instructions: list[Instruction],
    seconds: float,
    processes: int,
    seed: str,
    progress: Callable[[Outcome], object] = lambda _outcome: None,
    answer: Callable[..., Any] = run,
    warps: int = WARPS,
) -> Outcome:
    """Compare until `seconds` after the first answer are over, or a difference is found.

    Calls `progress` with the counts now and then. `answer` is what is compared with the emulator: a function of a
    module, so that other processes find it. Raises TcemuError if a process fails.
    """
    known = computable(instructions, device.target)
    if not known:
        raise TcemuError("there is nothing to verify: no instruction that this GPU has and the emulator knows")
    outcome = Outcome(unknown=len(instructions) - len(known))
    context = multiprocessing.get_context("spawn")
    stop, messages = context.Event(), context.Queue()
    opcodes = [instruction.opcode for instruction in known]
    shares = [
        Share(number, tuple(opcodes[number::processes]), device.target, seed, warps, answer)
        for number in range(min(processes, len(opcodes)))
    ]
    workers = [context.Process(target=work, args=(share, stop, messages), daemon=False) for share in shares]
    for worker in workers:
        worker.start()
    try:
        _listen(outcome, seconds, workers, messages, progress)
    finally:
        stop.set()
        _join(workers, messages)
    if outcome.where is not None:
        model = emulator(device.target)
        case = outcome.where.case()
        outcome.failing = minimise(
            case, lambda some: some.answer(answer), lambda some: some.answer(model), device.name, device.target
        ) or _vanished(case, device)
    return outcome


def _listen(
    outcome: Outcome, seconds: float, workers: list[Any], messages: Any, progress: Callable[[Outcome], object]
) -> None:
    """Take reports until the time is up or something is wrong."""
    asked, start = time.monotonic(), 0.0
    while outcome.where is None and (not start or time.monotonic() - start < seconds):
        try:
            kind, value = messages.get(timeout=0.5)
        except queue.Empty:
            dead = [worker for worker in workers if worker.exitcode not in (None, 0)]
            if dead:
                raise TcemuError(f"a process of tcemu verify ended with exit code {dead[0].exitcode}") from None
            if time.monotonic() - asked > seconds + _PATIENCE:
                raise TcemuError("the processes of tcemu verify do not answer") from None
            continue
        start = start or time.monotonic()
        _TAKE[kind](outcome, value)
        outcome.seconds = time.monotonic() - start
        progress(outcome)


def _counted(outcome: Outcome, report: tuple[Counter[str], Counter[str], set[str]]) -> None:
    elements, number, instructions = report
    outcome.elements += elements
    outcome.cases += number
    outcome.instructions |= instructions


def _differs(outcome: Outcome, where: Where) -> None:
    outcome.where = where


def _broke(outcome: Outcome, message: str) -> None:
    raise TcemuError(message)


_TAKE: dict[str, Callable[[Outcome, Any], None]] = {"counted": _counted, "differs": _differs, "broke": _broke}


def _join(workers: list[Any], messages: Any) -> None:
    """Let all processes end; drop what they still report, since a full queue would keep them from ending."""
    end = time.monotonic() + 30
    while any(worker.is_alive() for worker in workers) and time.monotonic() < end:
        try:
            messages.get(timeout=0.1)
        except queue.Empty:
            continue
    for worker in workers:
        if worker.is_alive():
            worker.terminate()
        worker.join()


def work(share: Share, stop: Any, messages: Any) -> None:
    """One process: its instructions in turn, the classes in turn, until `stop` is set."""
    try:
        _work(share, stop, messages)
    except TcemuError as error:
        messages.put(("broke", str(error)))
    except KeyboardInterrupt:
        pass


def _work(share: Share, stop: Any, messages: Any) -> None:
    model = emulator(share.target)
    elements, number, instructions, sent = Counter[str](), Counter[str](), set[str](), time.monotonic()
    for turn in count():
        for opcode in share.opcodes:
            instruction = parse(opcode, share.target)
            kinds = classes(instruction)
            kind = kinds[turn % len(kinds)]
            series = f"{share.seed} {turn}"
            for case in cases(instruction, kind, share.warps, series):
                if stop.is_set():
                    return
                if not np.array_equal(case.answer(share.answer), case.answer(model)):
                    messages.put(("differs", Where(opcode, kind, series, share.warps, case.key)))
                    return
                elements[instruction.family] += case.outputs
                number[instruction.family] += 1
                instructions.add(opcode)
            if time.monotonic() - sent > _REPORT:
                messages.put(("counted", (elements, number, instructions)))
                elements, number, instructions, sent = Counter(), Counter(), set(), time.monotonic()


def _vanished(case: Case, device: Device) -> Failing:
    """A difference that did not come again the second time."""
    arithmetic = arithmetic_of(case.instruction, device.target)
    unit = "warps; the difference did not come again"
    gone = Comparison(case.key, device.name, device.target, case.warps, unit, 0, None, arithmetic)
    return Failing(case, gone, alone=False)

