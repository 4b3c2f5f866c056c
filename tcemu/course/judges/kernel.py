"""Judges a kernel by its output, by what the sanitizer reports, and by what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, Unanswered, answered, described
from tcemu.course.judges.values import Mistakes, Values, none
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import LaunchError
from tcemu.launcher import launch
from tcemu.machine.launch import Launch

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Kernel:
    """Judges a kernel: it is launched on the given numbers, under several schedules, with the sanitizer listening.

    `options` are the keywords of tcemu.launch; `args` makes its arguments, and `out` names which of them the kernel
    fills. `right` returns what they hold then. `mistakes` are other contents by the name of the mistake. `forbidden`
    opcodes may not be used, `needed` must be; `limits` bounds scores, which `scores` computes from the result.

    >>> from tcemu.course import Given, judges
    >>> def doubled(warp, x):
    ...     warp.st_global(x.at(warp.threads), 2 * warp.ld_global(x.at(warp.threads)))
    >>> x = np.arange(64, dtype=np.uint32)
    >>> judge = judges.Kernel(lambda given: {"x": x}, "x", lambda given: 2 * x, {"block": 64})
    >>> judge.mark(judge.collect(doubled, Given()), Given()).says
    'Right, and the sanitizer reports nothing.'
    >>> list(judge.mistakes(Given()))  # none are known
    []
    """

    args: Callable[[Given], Mapping[str, Any]]
    out: str
    right: Callable[[Given], Array]
    options: Mapping[str, Any]
    mistakes: Mistakes = none
    needed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    observers: Callable[[], Sequence[Any]] = tuple
    scores: Callable[[Launch, Sequence[Any]], Mapping[str, int]] | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    #: (seed, policy) of each launch; the first gives the scores.
    schedules: tuple[tuple[int, Any], ...] = ((0, "late"), (0, "early"), (1, "random"))
    how: str = "every bit of the output, and the sanitizer's reports"

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Launch the kernel under every schedule; the reports come as text."""
        kernel = answered(answer)
        if not callable(kernel):
            raise AnswerError("The answer is a kernel: a function of the warp and the arguments.")
        outputs, reports, scores = [], [], {}
        opcodes: set[str] = set()
        for number, (seed, policy) in enumerate(self.schedules):
            args = {name: np.copy(value) if isinstance(value, np.ndarray) else value
                    for name, value in self.args(given).items()}  # fmt: skip
            watching = list(self.observers()) if number == 0 else []
            try:
                result = launch(
                    kernel, args=tuple(args.values()), seed=seed, policy=policy, sanitizer="collect",
                    observers=watching, **self.options,
                )  # fmt: skip
            except LaunchError as error:
                raise AnswerError(f"The kernel does not finish: {error}") from error
            except Exception as error:
                raise AnswerError(f"The kernel raises {described(error)}") from error
            if not result.counts and not result.reports:
                raise Unanswered("The kernel executes no instruction. Replace the three dots with your code.")
            outputs.append(np.copy(args[self.out]))
            opcodes |= set(result.counts)
            reports += [str(report) for report in result.reports if report.severity == "error"]
            if result.error is not None:
                reports.append(f"The kernel does not finish: {result.error}")
            if number == 0 and self.scores is not None and not reports:
                scores = {name: int(value) for name, value in self.scores(result, watching).items()}
            if reports:
                break
        missing = [word for word in self.needed if not any(opcode.startswith(word) for opcode in opcodes)]
        refused = [word for word in self.forbidden if any(opcode.startswith(word) for opcode in opcodes)]
        return {
            "out": np.stack(outputs), "reports": np.array(reports, np.str_), "missing": np.array(missing, np.str_),
            "refused": np.array(refused, np.str_), "scored": np.array(list(scores), np.str_),
            "scores": np.array(list(scores.values()), np.int64),
        }  # fmt: skip

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare the output, then the reports, the opcodes and the limits."""
        right = np.asarray(self.right(given))
        scores = dict(zip(evidence["scored"].tolist(), evidence["scores"].tolist(), strict=True))
        for got, (seed, policy) in zip(evidence["out"], self.schedules, strict=False):
            compared = Values(lambda _: right, right.dtype, self.mistakes, what=self.out)
            finding = compared.mark({"values": got}, given)
            if not finding.right and not evidence["reports"].size:
                when = f" (policy {policy!r}, seed {seed})" if (seed, policy) != self.schedules[0] else ""
                return Finding(False, finding.says + when, finding.mistake, finding.share, finding.pictures)
        if evidence["reports"].size:
            report = str(evidence["reports"][0])
            fixed = report.rpartition("\n  fix: ")[2] if "\n  fix: " in report else ""
            return Finding(False, f"The sanitizer reports\n{report}", fixed, 0.5 if fixed else 0.0)
        for word in evidence["missing"]:
            return Finding(False, f"The output is right, but the kernel does not use {word}.", share=0.5)
        for word in evidence["refused"]:
            return Finding(False, f"The output is right, but the kernel uses {word}.", share=0.5)
        for name, most in self.limits.items():
            if scores.get(name, 0) > most:
                says = f"The output is right, but it takes {scores[name]:,} {name}; at most {most:,} are allowed."
                return Finding(False, says, share=0.5, scores=scores)
        told = ", ".join(f"{value:,} {name}" for name, value in scores.items())
        says = "Right, and the sanitizer reports nothing." + (f" It takes {told}." if told else "")
        return Finding(True, says, share=1.0, scores=scores)
