"""tcemu verify: new random inputs of every class, on the GPU and in the emulator, until the time is up.

Several processes share the instructions, each with its own GPU context and emulator, because the emulator is the slower
side. The seed alone determines the inputs, so a difference can be reproduced.
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

#: Warps of a case: enough to hide the cost of a call, few enough to keep each turn short.
WARPS = 512
#: Seconds between two reports of a process, and that processes may take to start and to stop.
_REPORT, _PATIENCE = 0.5, 300.0


@dataclass(frozen=True)
class Where:
    """What determines a case."""

    opcode: str
    kind: str
    series: str
    warps: int
    key: str

    def case(self) -> Case:
        """The case, made again."""
        candidates = cases(parse(self.opcode), self.kind, self.warps, self.series)
        return next(case for case in candidates if case.key == self.key)


@dataclass
class Outcome:
    """The result of a run."""

    seconds: float = 0.0
    #: Output elements and cases by family, and the instructions that were compared.
    elements: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    instructions: set[str] = field(default_factory=set)
    #: Instructions that the GPU has but whose arithmetic is unknown.
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
        unknown = f"; {self.unknown} instructions with unknown arithmetic were left out" if self.unknown else ""
        return (
            f"{self.total:,} output elements of {len(self.instructions):,} instructions in {self.seconds:.0f} s, "
            f"{verdict} ({families}){unknown}"
        )


@dataclass(frozen=True)
class Share:
    """The share of one process."""

    number: int
    opcodes: tuple[str, ...]
    target: str
    seed: str
    warps: int
    answer: Callable[..., Any]


def computable(instructions: list[Instruction], target: str) -> list[Instruction]:
    """The instructions that the emulator can execute."""
    computable_here = []
    for instruction in instructions:
        here = instruction.on(target_named(target))
        try:
            if "a" in here.types and "c" in here.types:
                here.arithmetic(target_named(target))
        except ArithmeticUnknown:
            continue
        computable_here.append(instruction)
    return computable_here


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
    """Compare until a difference is found, or until `seconds` after the first answer.

    Calls `progress` with the counts from time to time. `answer` is compared with the emulator; it must be a function of
    a module, so that other processes find it. Raises TcemuError if a process fails.
    """
    known = computable(instructions, device.target)
    if not known:
        raise TcemuError("there is nothing to verify: this GPU has no such instruction that the emulator knows")
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
    """Receive reports until the time is up or something is wrong."""
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
    """Let all processes end; discard their last reports, because a full queue would keep them from ending."""
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
    """The work of one process: its instructions in turn, with each class in turn, until `stop` is set."""
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
    """A difference that did not occur a second time."""
    arithmetic = arithmetic_of(case.instruction, device.target)
    unit = "warps; the difference did not occur again"
    gone = Comparison(case.key, device.name, device.target, case.warps, unit, 0, None, arithmetic)
    return Failing(case, gone, alone=False)
