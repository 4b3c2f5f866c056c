"""The learner's board: cycles of every rung, shares of the peak, and what was recorded on a GPU."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from tcemu.course.ladder import kept
from tcemu.course.ladder.judge import share_of_peak
from tcemu.course.ladder.table import LANGUAGES, RUNGS, Rung
from tcemu.show.folded import KEEPS_KEYS
from tcemu.show.palette import variables

_CYCLES = (
    "Cycles are counted on the timeline for two SMs, for a product of its own size on each rung; the share refers to "
    "the tensor cores' peak, so that rungs can be compared. Two SMs have the timeline's L2 to themselves: up to rung "
    "6, it prices loads from global memory too low. There, a kernel in Python often waits too early for a register, "
    "and one in CUDA C++ where NVRTC's PTX reads it. The GPU's column decides."
)
_RECORDED = Path(__file__).parent / "recorded.csv"


@dataclass(frozen=True)
class Recorded:
    """What was recorded: a row for each rung and size, with versions, card and clocks.

    >>> from tcemu.course.ladder.picture import recorded
    >>> {"rung", "tflops", "card", "date"} <= set(recorded().rows[0])
    True
    """

    rows: tuple[Mapping[str, str], ...]

    @property
    def size(self) -> str:
        """The largest product that all rungs have."""
        sizes = {row["n"] for row in self.rows if row["rung"] == "persistent"}
        return max(sizes, key=int, default="")

    def tflops(self, name: str) -> float:
        """Of a rung, or of "cublas", for that product; 0 if nothing was recorded."""
        rates = [float(row["tflops"]) for row in self.rows if (row["rung"], row["n"]) == (name, self.size)]
        return rates[0] if rates else 0.0

    def __str__(self) -> str:
        row = next((each for each in self.rows if each["n"] == self.size), None)
        if row is None:
            return "Nothing was recorded."
        same = [each for each in self.rows if each["n"] == self.size]
        others = [f"{each['rung']}: {each['how']}." for each in same if each["how"] != row["how"]]
        libraries = " and ".join(dict.fromkeys(each["compiler"] for each in self.rows))
        return (
            f"TFLOP/s were recorded on an {row['card']} ({row['clock']}; driver {row['driver']}; {libraries}) "
            f"on {row['date']} for m = n = k = {self.size}: {row['how']}. {' '.join(others)}"
        ).rstrip()


@cache
def recorded() -> Recorded:
    """The table in recorded.csv, which tools/record_ladder.py writes."""
    if not _RECORDED.is_file():
        return Recorded(())
    with _RECORDED.open(encoding="utf-8", newline="") as file:
        return Recorded(tuple(csv.DictReader(file)))


@dataclass(frozen=True)
class Board:
    """One line for each rung; `cycles` are the learner's by "wmma.py".

    >>> from tcemu.course.ladder.picture import Board
    >>> print(str(Board({"wmma.py": 10700})).splitlines()[3][:48])  # rung 2
     2 wmma              10,700 Python         19.1%
    """

    cycles: Mapping[str, int]

    def __str__(self) -> str:
        head = f"{'rung':<20} {'your cycles':<18} {'of peak':>8}   {'given kernel':<18} {'of peak':>8}{self._head()}"
        lines = [self._line(rung) for rung in RUNGS]
        return "\n".join(["Your GEMM", head, *lines, *self._notes()])

    def __repr__(self) -> str:
        return str(self)

    def _head(self) -> str:
        return f"{'GPU, TFLOP/s':>14} {'of cuBLAS':>10}" if recorded().rows else ""

    def _line(self, rung: Rung) -> str:
        own, given = self._own(rung), self._given(rung)
        cells = f"{rung.number:>2} {rung.name:<17}"
        for count, language in (own, given):
            cycles = f"{count:,} {LANGUAGES[language]}" if count else "not yet"
            cells += f" {cycles:<18} {f'{share_of_peak(rung.track, count):.1%}' if count else '':>8}  "
        if recorded().rows:
            cells += f"{recorded().tflops(rung.name):>14.1f}{self._of_cublas(rung):>11.1%}"
        return cells.rstrip()

    def _own(self, rung: Rung) -> tuple[int, str]:
        """The learner's fewest cycles, and in which language."""
        names = {each: f"{rung.name}.{each}" for each in LANGUAGES}
        known = [(self.cycles[name], each) for each, name in names.items() if name in self.cycles]
        return min(known, default=(0, "py"))

    def _given(self, rung: Rung) -> tuple[int, str]:
        """The given kernel's, in the learner's language."""
        language = self._own(rung)[1]
        return rung.given[language], language

    @staticmethod
    def _of_cublas(rung: Rung) -> float:
        best = recorded().tflops("cublas")
        return recorded().tflops(rung.name) / best if best else 0.0

    def _notes(self) -> list[str]:
        notes = [_CYCLES]
        if recorded().rows:
            notes.append(f"cuBLAS: {recorded().tflops('cublas'):.1f} TFLOP/s. {recorded()}")
        return notes

    # ------------------------------------------------------------------------------------------ HTML

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/html": self.html, "text/plain": str(self)}

    @property
    def html(self) -> str:
        """A table whose cells hold bars; each bar's number stands beside it."""
        name = "tb" + sha256(str(self).encode()).hexdigest()[:10]
        columns = ["rung", "your cycles", "share of the peak", "given kernel's cycles", "share of the peak"]
        columns += ["TFLOP/s on a GPU", "share of cuBLAS"] if recorded().rows else []
        head = "".join(f'<th scope="col">{escape(each)}</th>' for each in columns)
        body = "".join(f"<tr>{self._row(rung)}</tr>" for rung in RUNGS)
        notes = "".join(f"<p>{escape(each)}</p>" for each in self._notes())
        return (
            f'<div id="{name}" class="tcemu-board"><style>{variables(name)}{_style(name)}</style>'
            f'<div class="scroll" tabindex="0" role="group" aria-label="Your GEMM: the board"{KEEPS_KEYS}><table>'
            f"<caption>Your GEMM</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
            f"{notes}</div>"
        )

    def _row(self, rung: Rung) -> str:
        cells = f'<th scope="row">{rung.number} {escape(rung.name)}</th>'
        for kind, (count, language) in (("own", self._own(rung)), ("given", self._given(rung))):
            cycles = f"{count:,} {LANGUAGES[language]}" if count else "not yet"
            cells += f"<td>{cycles}</td><td>{_bar(share_of_peak(rung.track, count), kind) if count else ''}</td>"
        if recorded().rows:
            cells += f"<td>{recorded().tflops(rung.name):.1f}</td><td>{_bar(self._of_cublas(rung), 'given')}</td>"
        return cells


def _bar(share: float, kind: str) -> str:
    """A bar, and its number."""
    width = f"{100 * min(share, 1):.1f}%"
    return f'<span class="bar {kind}" aria-hidden="true"><i style="width:{width}"></i></span> {share:.1%}'


def _style(name: str) -> str:
    own = f"#{name}"
    return (
        f"{own}{{color:var(--tc-ink)}}{own} .scroll{{overflow-x:auto}}{own} caption{{text-align:left;font-weight:600}}"
        f"{own} th,{own} td{{text-align:left;white-space:nowrap;padding:.2em .7em}}"
        f"{own} thead th{{white-space:normal}}"
        f"{own} .bar{{display:inline-block;width:7em;height:.8em;border:1px solid var(--tc-ink);vertical-align:middle;"
        "background:var(--tc-paper)}"
        f"{own} .bar i{{display:block;height:100%;background:var(--tc-blue)}}"
        f"{own} .given i{{background:repeating-linear-gradient(45deg,var(--tc-orange) 0 3px,var(--tc-paper) 3px 6px)}}"
    )


def board() -> Board:
    """Your board: each rung's cycles and share of the peak, yours beside the given kernel's, and TFLOP/s recorded.

    >>> from tcemu.course import ladder
    >>> ladder.board().cycles
    {}
    """
    return Board(kept.cycles())
