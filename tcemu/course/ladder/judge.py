"""Judges a rung: bits, the sanitizer's reports, the instructions that were issued, and cycles."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import matmul
from tcemu.course.allowed import refused_beside
from tcemu.course.judges.kernel import ORDERS
from tcemu.course.ladder.meetings import Multiply, which
from tcemu.course.ladder.programs import Program, Read, language_of_text, read
from tcemu.course.ladder.table import GIVEN, LANGUAGES, Rung, Sizes
from tcemu.errors import CourseError, TcemuError, counted
from tcemu.machine.launch import Launch
from tcemu.show.prose import tick
from tcemu.timing import Timeline
from tcemu.timing.costs import costs
from tcemu.tracebacks import described

Array = npt.NDArray[Any]

#: Warnings and hints that count as errors. Two blocks that write the same values compute the same tile.
HEEDED = ("warning exited-threads", "global-race", "mbarrier-init-fence")
#: The folder of ladder.h, of which the name is enough in a report.
_FOLDER = f"{GIVEN.relative_to(GIVEN.parents[3]).as_posix()}/"
#: SMs on which cycles are counted.
SMS = 2
_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"


@dataclass(frozen=True)
class Climbed:
    """What a check says about a kernel; it is true if the rung is reached.

    >>> from tcemu.course.ladder import check
    >>> bool(check("wmma", "LAUNCH = 32, 32, 128, 0"))
    False
    """

    rung: Rung
    language: str
    right: bool
    says: str
    cycles: int = 0
    aside: str = ""

    def __bool__(self) -> bool:
        return self.right

    @property
    def share(self) -> float:
        """The share of the tensor cores' peak, from 0 to 1; 0 if nothing was counted."""
        return share_of_peak(self.rung.track, self.cycles)

    def __str__(self) -> str:
        head = f"{self.rung.name} in {LANGUAGES[self.language]}: {'reached' if self else 'not yet'}. {self.says}"
        hint = "" if self else f'Stuck? ladder.hint("{self.rung.name}"), or ladder.change("{self.rung.name}").'
        return "\n".join(line for line in (head, hint, self.aside) if line)

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        first, report = (*self.says.split("\n", 1), "")[:2]
        what = "Reached." if self else "Not yet."
        parts = [f'<p role="status">{tick(bool(self))}<strong>{what}</strong> {escape(first)}</p>']
        parts += [f'<pre style="white-space:pre-wrap">{escape(report)}</pre>'] if report else []
        parts += [f"<p>{escape(self.aside)}</p>"] if self.aside else []
        parts += [] if self else [self.rung.folded_hints]
        if not self:
            parts.append(
                f"<p>Stuck? <code>ladder.change(&quot;{self.rung.name}&quot;)</code> shows the given answer.</p>"
            )
        return {"text/html": f'<div class="tcemu-check">{"".join(parts)}</div>', "text/plain": str(self)}


def peak() -> float:
    """Multiply-adds a clock of one SM's tensor cores, of f16: the measured rate of the largest wgmma.

    >>> from tcemu.course.ladder.judge import peak
    >>> peak()
    2048.0
    """
    return 64 * 256 * 16 / costs("sm_90a").find(_WGMMA, "interval", {"a": "shared"}).median


def share_of_peak(track: Sizes, cycles: float) -> float:
    """The share of the peak that a product of these sizes reaches in so many cycles of both SMs.

    >>> from tcemu.course.ladder.judge import share_of_peak
    >>> share_of_peak((512, 256, 512), 32768)
    0.5
    """
    m, n, k = track
    return m * n * k / (cycles * SMS * peak()) if cycles else 0.0


def judged(rung: Rung, text: str, name: str = "my_gemm", seed: int | None = None, make: Read = read) -> Climbed:
    """The verdict on a program for a rung. `seed` draws the numbers; by default they are new ones."""
    language = language_of_text(text)
    try:
        program = make(text, name)
        says = _wrong(rung, program, np.random.default_rng(secrets.randbits(64) if seed is None else seed))
        timeline, says = (None, says) if says else _counted(rung, program)
    except CourseError as error:
        timeline, says = None, _sentence(str(error))
    if says or timeline is None:
        return Climbed(rung, language, False, says.replace(_FOLDER, ""))
    cycles = round(timeline.cycles)
    says = f"Every bit is right, and the sanitizer reports nothing. {_cycles(rung, cycles)}"
    if cycles > rung.goal[language]:
        says = f"{says}; the goal is at most {rung.goal[language]:,}.{_slowest(timeline)}"
        return Climbed(rung, language, False, says, cycles)
    return Climbed(rung, language, True, f"{says}.", cycles)


def _cycles(rung: Rung, cycles: int) -> str:
    sizes = " x ".join(map(str, rung.track))
    return f"{sizes} takes {cycles:,} cycles on two SMs, {share_of_peak(rung.track, cycles):.1%} of their peak"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def _wrong(rung: Rung, program: Program, rng: np.random.Generator) -> str:
    """The first thing that is wrong; empty if nothing is."""
    if says := program.misfit(rung):
        return _sentence(says)
    issued: set[str] = set()
    for sizes in rung.shapes:
        a, b = drawn(rng, sizes)
        right = expected(rung, a, b)
        for number, (seed, policy) in enumerate(ORDERS):
            d = np.full(right.shape, np.nan, np.float32)
            order: dict[str, Any] = {"seed": seed, "policy": policy, "watched": not number, "clusters": 2}
            result = _launched(rung, program, a, b, d, sanitizer="collect", **order)
            errors = [each for each in result.reports if each.counts(HEEDED)]
            if errors:
                told = min(errors, key=lambda report: report.rule == "deadlock")  # it follows from another mistake
                return f"The sanitizer reports\n{told}{program.boxed if told.rule == 'expect-tx' else ''}"
            if result.error is not None:
                return f"The kernel does not finish: {result.error}"
            if says := _difference(d, right, a, b, _asking(rung, program, seed=seed, policy=policy)):
                when = f" It is with policy {policy!r}, seed {seed}; in another order it was right." if number else ""
                return f"With m, n, k = {', '.join(map(str, sizes))}, {says}{when}"
            issued |= set(result.counts)
    if says := refused_beside((), program.entered, kernel=True):
        return says
    for word in rung.needed:
        if not any(word in opcode for opcode in issued):
            return f"Every bit is right, but this rung is about {word}, which the kernel does not issue."
    return ""


def _launched(rung: Rung, program: Program, a: Array, b: Array, d: Array, **options: Any) -> Launch:
    try:
        return program.run(rung, a, b, d, **options)
    except TcemuError as error:
        raise CourseError(f"the kernel does not finish: {error}") from error
    except Exception as error:
        raise CourseError(f"the kernel raises {described(error)}") from error


def drawn(rng: np.random.Generator, sizes: Sizes) -> tuple[Array, Array]:
    """A (m, k) and B (n, k): standard normal numbers of f16."""
    m, n, k = sizes
    return rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k)).astype(np.float16)


def expected(rung: Rung, a: Array, b: Array) -> Array:
    """D to the bit: what a loop over k with the rung's instruction gives, or with fused multiply-adds of f32."""
    if rung.fused_chain:
        c = np.zeros((len(a), len(b)), np.float32)
        for i in range(a.shape[1]):  # a product of f16 is exact in f64, and so is the sum of these small numbers
            c = (np.outer(a[:, i].astype(np.float64), b[:, i].astype(np.float64)) + c).astype(np.float32)
        return c
    rows, columns, depth = (-(-size // unit) * unit for size, unit in ((len(a), 64), (len(b), 256), (a.shape[1], 16)))
    padded = [np.zeros((count, depth), np.float16) for count in (rows, columns)]
    for whole, part in zip(padded, (a, b), strict=True):
        whole[: part.shape[0], : part.shape[1]] = part
    instruction = _WGMMA if "wgmma.mma_async" in rung.needed else _MMA
    return np.asarray(matmul(padded[0], padded[1].T, instruction=instruction))[: len(a), : len(b)]


def _asking(rung: Rung, program: Program, **order: Any) -> Multiply:
    """The kernel as a function of A and B."""

    def multiply(a: Array, b: Array) -> Array | None:
        d = np.zeros((len(a), len(b)), np.float32)
        try:
            result = _launched(rung, program, a, b, d, sanitizer="off", **order)
        except CourseError:
            return None
        return None if result.error else d

    return multiply


def _difference(d: Array, right: Array, a: Array, b: Array, multiply: Multiply) -> str:
    """What is wrong with D; empty if nothing is."""
    wrong = d.view(np.uint32) != right.view(np.uint32)
    if not wrong.any():
        return ""
    left_out = np.isnan(d)
    if left_out.all():
        return "the kernel stores nothing in D."
    row, column = (int(each) for each in np.argwhere(wrong)[0])
    where = f"D[{row}][{column}]"
    if left_out.any():
        row, column = (int(each) for each in np.argwhere(left_out)[0])
        number = counted(int(left_out.sum()), "element")
        return f"the kernel leaves {number} of D unwritten, the first D[{row}][{column}]."
    for what, other in _known(a, b):
        if np.allclose(d, other, rtol=1e-3, atol=1e-2):
            return what
    if np.allclose(d, right, rtol=1e-3, atol=1e-2):
        return (
            f"{counted(int(wrong.sum()), 'element')} of D differ in the last bits, the first {where}: the products are "
            "added in another order, or not by this rung's instruction."
        )
    return (
        f"{counted(int(wrong.sum()), 'element')} of {d.size:,} are wrong; {where} is {d[row, column]:.6g} "
        f"and should be {right[row, column]:.6g}. {which(multiply, *d.shape)}"
    ).rstrip()


def _known(a: Array, b: Array) -> Iterator[tuple[str, Array]]:
    """Mistakes by their names, and the D that each gives."""
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    k = a.shape[1]
    for step in (8, 16, 64):
        last = (k - 1) // step * step
        if last:
            yield (
                f"only the last {k - last} columns of A and B are in D: each step starts from zero.",
                (wide_a[:, last:] @ wide_b[:, last:].T),
            )
            yield f"the last {k - last} columns of A and B are missing in D.", wide_a[:, :last] @ wide_b[:, :last].T
        if step < k:
            yield f"only the first {step} columns of A and B are in D.", wide_a[:, :step] @ wide_b[:, :step].T
    if len(a) == len(b):
        yield "D is transposed.", wide_b @ wide_a.T


def timeline_of(rung: Rung, program: Program) -> Timeline:
    """The timeline of the rung's product. Raises CourseError."""
    return _observed(rung, program)[0]


def _observed(rung: Rung, program: Program) -> tuple[Timeline, Array, Array, Array]:
    """The timeline of the rung's product, with A, B and D. Raises CourseError."""
    a, b = drawn(np.random.default_rng(0), rung.track)
    d = np.full((len(a), len(b)), np.nan, np.float32)
    timeline = Timeline(sms=SMS)
    _launched(rung, program, a, b, d, sanitizer="off", observers=[timeline])
    return timeline, a, b, d


def _counted(rung: Rung, program: Program) -> tuple[Timeline, str]:
    """The timeline of the rung's product, with its cycles counted, and what is wrong with D. Raises CourseError."""
    try:
        timeline, a, b, d = _observed(rung, program)
        round(timeline.cycles)
    except TcemuError as error:
        raise CourseError(f"its cycles cannot be counted: {error}") from error
    says = _difference(d, expected(rung, a, b), a, b, _asking(rung, program))
    return timeline, f"With m, n, k = {', '.join(map(str, rung.track))}, {says}" if says else ""


def _slowest(timeline: Timeline) -> str:
    """The lines where the warps spent most of their time, and with what; empty if that is nowhere known."""
    sites = timeline.sites()
    whole = sum(sum(spent.values()) for spent in sites.values())
    lines = [
        f"  {sum(spent.values()) / whole:.0%} at {site.rpartition('/')[2]}: {max(spent, key=lambda each: spent[each])}"
        for site, spent in list(sites.items())[:3]
        if whole
    ]
    return "\n".join(["\nWhere its warps spend their time, and what they mostly wait for:", *lines]) if lines else ""
