"""Judges a kernel by its output, by what the sanitizer reports, and by what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, Unanswered, answered, raised, watched
from tcemu.course.cuda_answers import GARBAGE, OPERATIONS, compiled, is_cuda
from tcemu.course.judges.costs import METERS
from tcemu.course.judges.values import Mistakes, Values, bits, none
from tcemu.course.record import BROKEN, Evidence, Finding, Given
from tcemu.errors import LaunchError, counted
from tcemu.launcher import launch
from tcemu.machine.events import Issued
from tcemu.machine.launch import Launch
from tcemu.sanitizer import RULES
from tcemu.simt.together import unset_registers

Array = npt.NDArray[Any]

_MBARRIER = (
    "A phase of an mbarrier never completes: too few threads arrive, bytes are missing, or a thread waits for the "
    "wrong phase because the parity is not flipped."
)
#: What an empty kernel in CUDA C++ executes.
_ENDS = {"ret", "exit"}
_UNSET = (
    "The output depends on registers that the kernel never sets: a variable, or an accumulator, has no first value."
)
#: How to find the lines that cost most.
_LINES = (
    " Which lines take them? counters = tcemu.timing.Counters(), then tcemu.launch(..., observers=[counters]), then "
    "print(counters)."
)


@dataclass
class _Run:
    """The results of the launches."""

    outputs: list[Array] = field(default_factory=list)
    opcodes: set[str] = field(default_factory=set)
    #: What was issued, and by which warp of which block.
    issued: set[tuple[str, int, int]] = field(default_factory=set)
    #: Reports and their rules; the error that ended a launch has no rule.
    reports: list[tuple[str, str]] = field(default_factory=list)
    scores: dict[str, int] = field(default_factory=dict)

    def __call__(self, event: Any) -> None:
        """Receive an event."""
        if isinstance(event, Issued):
            self.issued.add((event.opcode, event.by.block, event.by.warp))


#: The orders in which a kernel runs: (seed, policy).
ORDERS: tuple[tuple[int, Any], ...] = ((0, "late"), (0, "early"), (1, "random"))


@dataclass(frozen=True)
class Kernel:
    """Judges a kernel: it is launched on the given numbers, under several schedules, with the sanitizer listening.

    `options` are the keywords of tcemu.launch; `args` makes its arguments, and `out` names which of them the kernel
    fills. `right` returns what they hold then. `mistakes` are other contents by the name of the mistake. `forbidden`
    opcodes may not be used, `needed` must be. `counts` names what is counted ("wavefronts", "instructions"), and
    `scores` computes other figures from the launch and `observers`; `limits` bounds either. `warps` is how many warps
    have to issue an opcode, `heeded` are hints and warnings of the sanitizer that count as errors. A word for opcodes
    is how they begin or, if it begins with a point, what they contain.

    >>> from tcemu.course import Given, judges
    >>> def doubled(warp, x):
    ...     warp.st_global(x.at(warp.threads), 2 * warp.ld_global(x.at(warp.threads)))
    >>> x = np.arange(64, dtype=np.uint32)
    >>> judge = judges.Kernel(lambda given: {"x": x}, "x", lambda given: 2 * x, {"block": 64}, counts=("instructions",))
    >>> judge.mark(judge.collect(doubled, Given()), Given()).says
    'Right, and the sanitizer reports nothing. It takes 4 instructions.'
    >>> list(judge.mistakes(Given()))  # none are known
    []
    >>> judge.unseen(np.random.default_rng(0)).schedules
    ((0, 'late'),)
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
    counts: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    #: (seed, policy) of each launch; the first gives the scores.
    schedules: tuple[tuple[int, Any], ...] = ORDERS
    how: str = "every bit of the output, and the sanitizer's reports"
    warps: Mapping[str, int] = field(default_factory=dict)
    heeded: tuple[str, ...] = ("warning exited-threads", "mbarrier-init-fence", "tcgen05-fence", "tcgen05-lanes")
    #: Whether a kernel that is partly right earns something; a repair is right or it is not.
    partial: bool = True
    #: The languages in which the kernel may be written: "Python", "CUDA C++".
    languages: tuple[str, ...] = ("Python",)
    #: The kernel's name, where it may be written in CUDA C++: the text of an answer may have several.
    kernel: str = ""

    def unseen(self, rng: np.random.Generator) -> Kernel:
        """The same, for numbers that a grader draws: they show what is computed, and one schedule is enough for it."""
        return replace(self, schedules=self.schedules[:1])

    # ------------------------------------------------------------------------------------------ collect

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Launch the kernel under every schedule; the reports come as text."""
        kernel = self._in_its_language(answered(answer))
        run = _Run()
        for number, (seed, policy) in enumerate(self.schedules):
            self._launch(run, kernel, self._args(given), number == 0, seed=seed, policy=policy)
            if run.reports:
                break
        first = dict(zip(("seed", "policy"), self.schedules[0], strict=True))
        return {
            "unset": np.array(is_cuda(kernel) and self._reads_unset(run, kernel, given, first)),
            "out": np.stack(run.outputs), "reports": _texts(text for _, text in run.reports),
            "rules": _texts(rule for rule, _ in run.reports), "scored": _texts(run.scores),
            "scores": np.array(list(run.scores.values()), np.int64),
            "missing": _texts(word for word in self.needed if not _used(word, run.opcodes)),
            "idle": _texts(self._idle(run)),
            "refused": _texts(word for word in self.forbidden if _used(word, run.opcodes)),
        }  # fmt: skip

    def _reads_unset(self, run: _Run, kernel: Any, given: Given, schedule: Mapping[str, Any]) -> bool:
        """Whether the output of a kernel in CUDA C++ depends on registers that nothing has set."""
        again = _Run()
        if not run.reports:
            self._launch(again, kernel, self._args(given), False, unset=0, **schedule)
        return not all((bits(one) == bits(two)).all() for one, two in zip(again.outputs, run.outputs, strict=False))

    def _idle(self, run: _Run) -> Iterator[str]:
        """Which opcodes too few warps issue."""
        for word, most in self.warps.items():
            warps = len({(block, warp) for opcode, block, warp in run.issued if _used(word, {opcode})})
            if warps < most:
                yield f"{word} is issued by {counted(warps, 'warp')}, and all {most} should take part."

    def _in_its_language(self, answer: Any) -> Any:
        """The kernel, if it is in one of the languages. Raises AnswerError."""
        cuda = is_cuda(answer)
        if not cuda and not callable(answer):
            raise AnswerError("The answer must be a kernel: a function of the warp and the arguments.")
        if cuda and "CUDA C++" not in self.languages:
            raise AnswerError("This kernel is to be written in Python: a function of the warp and the arguments.")
        if not cuda and "Python" not in self.languages:
            raise AnswerError(
                f"This kernel is to be written in CUDA C++: a cell that begins with %%cuda and has __global__ void "
                f"{self.kernel}. Run it, and check the name."
            )
        return compiled(answer, self.kernel) if cuda else answer

    def _args(self, given: Given) -> dict[str, Any]:
        made = self.args(given).items()
        return {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in made}

    def _launch(
        self, run: _Run, kernel: Any, args: dict[str, Any], scored: bool, unset: int = GARBAGE, **schedule: Any
    ) -> None:
        watching = list(self.observers()) if scored else []
        meters = {name: METERS[name]() for name in self.counts} if scored else {}
        observers = [*watching, *meters.values(), *([run] if self.warps else [])]
        asked = {"sanitizer": "collect", "observers": observers, **schedule, **self.options}
        try:
            if is_cuda(kernel):
                asked.pop("target", "")
                grid, block = asked.pop("grid", 1), asked.pop("block", 32)
                with unset_registers(unset):
                    result = kernel(grid, block, *args.values(), operations=OPERATIONS, **asked)
            else:
                result = launch(watched(kernel) if scored else kernel, args=tuple(args.values()), **asked)
        except KeyboardInterrupt:
            raise
        except LaunchError as error:
            raise AnswerError(f"The kernel does not finish: {error}") from error
        except BaseException as error:
            raise raised("The kernel", error) from error
        if not set(result.counts) - _ENDS and not result.reports:
            raise Unanswered("The kernel executes no instruction. Write your code in its body.")
        run.outputs.append(np.array(args[self.out]))
        run.opcodes |= set(result.counts)
        errors = [report for report in result.reports if report.severity == "error"]
        hints = [report for report in result.reports if report.severity != "error" and report.counts(self.heeded)]
        run.reports += [(report.rule, str(report)) for report in (*errors, *hints)]
        if result.error is not None:
            run.reports.append(("", f"The kernel does not finish: {result.error}"))
        if scored and not run.reports:
            run.scores |= {name: int(meter.total) for name, meter in meters.items()}
            more = self.scores(result, watching) if self.scores is not None else {}
            run.scores |= {name: int(value) for name, value in more.items()}

    # ------------------------------------------------------------------------------------------ mark

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare the output, then the reports, the opcodes and the limits."""
        finding = self._finding(evidence, given)
        return finding if finding.right or self.partial else replace(finding, share=0.0)

    def _finding(self, evidence: Evidence, given: Given) -> Finding:
        if evidence["reports"].size:
            return self._reported(evidence, self._output(evidence["out"][0], given).right)
        if evidence["unset"]:
            return Finding(False, _UNSET)
        for got, (seed, policy) in zip(evidence["out"], self.schedules, strict=True):
            finding = self._output(got, given)
            if not finding.right:
                when = f" (policy {policy!r}, seed {seed})" if (seed, policy) != self.schedules[0] else ""
                return Finding(False, finding.says + when, finding.mistake, finding.share, finding.pictures)
        scores = dict(zip(evidence["scored"].tolist(), evidence["scores"].tolist(), strict=True))
        if says := self._against_the_rules(evidence, scores):
            return Finding(False, f"The output is right, but {says}", share=0.5, scores=scores)
        costs = " and ".join(counted(value, name.removesuffix("s")) for name, value in scores.items() if value)
        says = "Right, and the sanitizer reports nothing." + (f" It takes {costs}." if costs else "")
        return Finding(True, says, share=1.0, scores=scores)

    def _output(self, got: Array, given: Given) -> Finding:
        """The output of one launch."""
        right = np.asarray(self.right(given))
        before = np.asarray(self.args(given)[self.out])

        def unwritten(got: Array, _: Given) -> str:
            held = np.asarray(got, before.dtype).reshape(before.shape)
            wrong = bits(held) != bits(np.asarray(right, held.dtype).reshape(before.shape))
            if not (bits(held)[wrong] == bits(before)[wrong]).all():
                return ""
            if wrong.all():
                return f"The kernel stores nothing in {self.out}: it holds what it held before."
            return "The wrong elements hold what they held before, as if the kernel had stored nothing there."

        compared = Values(
            lambda _: right, right.dtype, self.mistakes, what=self.out, observed=unwritten,
            idle=lambda given: [each for each in self.args(given).values() if isinstance(each, np.ndarray)],
        )  # fmt: skip
        return compared.mark({"values": np.asarray(got, right.dtype).reshape(right.shape)}, given)

    @staticmethod
    def _reported(evidence: Evidence, output_is_right: bool) -> Finding:
        """The first broken rule, by its name."""
        rule, report = str(evidence["rules"][0]), str(evidence["reports"][0])
        share = 0.5 if output_is_right else 0.0
        name = _MBARRIER if "for the mbarrier" in report else f"{BROKEN}{RULES[rule]}." if rule in RULES else ""
        return Finding(False, f"The sanitizer reports\n{report}" if rule in RULES else report, name, share)

    def _against_the_rules(self, evidence: Evidence, scores: Mapping[str, int]) -> str:
        for word in evidence["missing"]:
            return f"the kernel does not use {word}."
        for says in evidence["idle"]:
            return str(says)
        for word in evidence["refused"]:
            return f"the kernel uses {word}."
        for name, most in self.limits.items():
            if scores.get(name, 0) > most:
                lines = _LINES if name in METERS else ""
                return f"it takes {scores[name]:,} {name}; at most {most:,} are allowed.{lines}"
        return ""


def _texts(words: Any) -> Array:
    return np.array(list(words), np.str_)


def _used(word: str, opcodes: set[str]) -> bool:
    return any(word in opcode if word.startswith(".") else opcode.startswith(word) for opcode in opcodes)
