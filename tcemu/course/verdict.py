"""What a check answers: as text in a terminal, as a page in a notebook, as a bool in a test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from tcemu.course.record import BROKEN, Exercise, Finding
from tcemu.errors import counted, listing
from tcemu.show.folded import folded
from tcemu.show.prose import tick

State = Literal["open", "wrong", "right"]
_HEADS: dict[State, str] = {"open": "Not answered yet", "wrong": "Not right yet", "right": "Right"}

#: What a grader makes of a part of an answer.
LEAST = (
    "The grader also tries other numbers, which nobody has seen: the least that it earns for any of them counts, and "
    "nothing if that is less than half of this."
)


@dataclass(frozen=True)
class Verdict:
    """A check's answer. It is true if the exercise is solved, so `assert check(answer)` works in a test.

    >>> from tcemu.course import check
    >>> verdict = check(where_of_a=...)
    >>> bool(verdict), verdict.state
    (False, 'open')
    >>> print(verdict)
    where_of_a: not answered yet. Replace the three dots with your answer.
    Stuck? hint("where_of_a") gives the first of 3 hints.
    """

    exercise: Exercise
    state: State
    finding: Finding
    #: The learner's best scores before this try.
    yours: Mapping[str, int] = field(default_factory=dict)
    #: What else the learner has to know, such as why nothing could be written down.
    aside: str = ""
    #: What is solved now, and what to do next.
    reached: str = ""
    #: What to open next: texts and addresses, relative to the current folder.
    links: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return self.state == "right"

    @property
    def says(self) -> str:
        """What is right, or the first thing that is wrong."""
        return self.finding.says

    @property
    def mistake(self) -> str:
        """The mistake by its name; empty if it is not known."""
        return self.finding.mistake

    @property
    def points(self) -> float:
        """Points earned, in proportion to how much is right."""
        return self.exercise.points * self.finding.share

    @property
    def worth(self) -> str:
        """What a part of an answer earns, and what a grader may make of it; empty if it is right or earns nothing."""
        if self or not round(self.points, 2):
            return ""
        so_far = f"So far it earns {round(self.points, 2):g} of {counted(self.exercise.points, 'point')}."
        return f"{so_far} {LEAST}" if self.exercise.unseen("") else so_far

    def __str__(self) -> str:
        head, rest = self._opening()
        lines = [f"{self.exercise.name}: {head[0].lower()}{head[1:]}{rest}"]
        lines += [self.mistake] if self._is_news(self.mistake) else []
        lines += self._scores()
        lines += [self.worth] if self.worth else []
        lines += [self.aside] if self.aside else []
        lines += [self.reached] if self.reached else []
        lines += [f"Next: {listing(f'{text} ({address})' for text, address in self.links)}."] if self.links else []
        if not self:
            lines.append(
                f'Stuck? hint("{self.exercise.name}") gives the first of {counted(len(self.exercise.hints), "hint")}.'
            )
        return "\n".join(lines)

    def _opening(self) -> tuple[str, str]:
        """The state, and what follows it; "Right" is not said twice."""
        head = _HEADS[self.state]
        return (head, self.says.removeprefix(head)) if self.says.startswith(head) else (f"{head}.", f" {self.says}")

    def _is_news(self, mistake: str) -> bool:
        """Whether a mistake has a name that a report has not given yet."""
        return bool(mistake) and mistake.removeprefix(BROKEN).rstrip(".") not in self.says

    def _scores(self) -> list[str]:
        return [f"{name}: {value:,}{self._compared(name)}" for name, value in self.finding.scores.items()]

    def _compared(self, name: str) -> str:
        """A score beside the learner's own and the best known one."""
        others = (("your best so far", self.yours), ("best known", self.exercise.best))
        compared = [f"{what}: {held[name]:,}" for what, held in others if name in held]
        return f" ({', '.join(compared)})" if compared else ""

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The verdict with its pictures, and the hints folded into each other, one step at a time."""
        head, rest = self._opening()
        sign = "" if self.state == "open" else tick(bool(self))
        parts = [f'<p role="status">{sign}<strong>{head}</strong>{_inline(rest)}</p>']
        parts += [f"<p>{_inline(self.mistake)}</p>"] if self._is_news(self.mistake) else []
        parts += [f"<p>{escape(line)}</p>" for line in (*self._scores(), self.worth, self.aside) if line]
        parts += [self._onward()] if self.reached else []
        parts += [picture.portable_html for picture in self.finding.pictures]
        parts += [] if self else [_folded(self.exercise.hints)]
        return {"text/html": f'<div class="tcemu-check">{"".join(parts)}</div>', "text/plain": str(self)}

    def _onward(self) -> str:
        """What is solved now, and links to what is next."""
        links = (f'<a href="{escape(address)}">{escape(text)}</a>' for text, address in self.links)
        return f"<p>{escape(self.reached)}{f' Next: {listing(links)}.' if self.links else ''}</p>"


def _folded(hints: tuple[str, ...]) -> str:
    """Hints, each inside the one before."""
    inner = ""
    for number, hint in reversed(list(enumerate(hints, 1))):
        inner = folded(f"Hint {number} of {len(hints)}", f"<p>{_inline(hint)}</p>{inner}")
    return inner


def _inline(text: str) -> str:
    """Text with `code`; several lines, such as a report, keep their form."""
    if "\n" in text:
        head, _, rest = text.partition("\n")
        return f'{_inline(head)}<pre style="white-space:pre-wrap;word-break:normal">{escape(rest)}</pre>'
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))
