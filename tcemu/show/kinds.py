"""The kinds of answers that a question takes: a number, one of several choices, a pattern of bits, a formula."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

from tcemu.errors import OperandError, counted, listing, ranges, shown
from tcemu.formats import Format
from tcemu.show.formulas import evaluate
from tcemu.show.view import Control
from tcemu.show.words import neat as written

#: More numbers than this are listed by their ends and the step between them.
_FEW = 6


class Kind(Protocol):
    """One part of a question: what a reader gives, and what is right."""

    @property
    def answer(self) -> str:
        """The right answer, as text."""
        ...

    def control(self) -> Control:
        """What view.js needs to ask for it, without name, label and value."""
        ...

    def facts(self) -> dict[str, Any]:
        """What a page without a kernel needs to compare an answer."""
        ...

    def differs(self, text: str) -> str:
        """How `text` differs from the answer, in words; empty if it is right. Raises OperandError if it is invalid."""
        ...


@dataclass(frozen=True)
class Number:
    """A number, which may be among few."""

    right: float
    among: Sequence[int] = ()
    #: Words of the question, which may stand before a number: d3, lane 5.
    words: frozenset[str] = frozenset()

    @property
    def answer(self) -> str:
        """The right answer, as text."""
        return written(self.right)

    def control(self) -> Control:
        """What view.js needs to ask for it."""
        return {"kind": "text", "hint": f"a number: {self._listed()}" if self.among else "a number"}

    def facts(self) -> dict[str, Any]:
        """What a page without a kernel needs to compare an answer."""
        among = self.among
        runs = [[each.start, each.stop, each.step] for each in [among] if isinstance(each, range)]
        listed = {"runs": runs, "among": [] if runs else list(among), "possible": self._listed()}
        return {"kind": "number", "right": _exact(self.right), "words": sorted(self.words), **listed}

    def differs(self, text: str) -> str:
        """How `text` differs from the answer, in words."""
        number = evaluate(self._bare(text))
        if self.among and number not in self.among:
            raise OperandError(f"{text} is not among {self._listed()}")
        if number == self.right or (math.isnan(number) and math.isnan(self.right)):
            return ""
        if written(number).removeprefix("≈ ") == self.answer.removeprefix("≈ "):
            return ""  # the answer, rounded as it is shown
        if not (math.isfinite(number) and math.isfinite(self.right)):
            return f"{text}"
        gap = written(abs(number - self.right))
        return f"{text}, which is {gap} too {'large' if number > self.right else 'small'}"

    def _listed(self) -> str:
        """What the number is among; `24 to 256 in steps of 8` if it is a long range with steps."""
        among = self.among
        if isinstance(among, range) and among.step > 1 and len(among) > _FEW:
            return f"{among[0]} to {among[-1]} in steps of {among.step}"
        return ranges(among)

    def _bare(self, text: str) -> str:
        """The number alone, of an answer such as d3."""
        named = re.fullmatch(r"\s*([a-z]+)\s*(\d+)\s*", text, re.IGNORECASE)
        return named[2] if named and named[1].lower() in self.words else text


@dataclass(frozen=True)
class Choice:
    """One of several choices."""

    right: str
    options: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The right answer, as text."""
        return f"“{self.right}”"

    def control(self) -> Control:
        """What view.js needs to ask for it."""
        return {"kind": "radio", "options": list(self.options)}

    def facts(self) -> dict[str, Any]:
        """What a page without a kernel needs to compare an answer."""
        return {"kind": "choice", "right": self.right}

    def differs(self, text: str) -> str:
        """How `text` differs from the answer, in words."""
        if text not in self.options:
            raise OperandError(f"{shown(text)} is not offered; choose {listing(map(repr, self.options))}")
        return "" if text == self.right else f"“{text}”"


@dataclass(frozen=True)
class Bits:
    """A pattern of bits, of a format or of a width."""

    right: int
    width: int
    form: Format | None

    @property
    def answer(self) -> str:
        """The right answer, as text."""
        return self._hex(self.right)

    def _hex(self, pattern: int) -> str:
        meaning = f", which is {written(self.form.decode(pattern).item())}" if self.form else ""
        return f"{pattern:#0{2 + -(-self.width // 4)}x}{meaning}"

    def control(self) -> Control:
        """What view.js needs to ask for it."""
        return {"kind": "text", "hint": f"{counted(self.width, 'bit')}, as hex (0x…) or binary (0b…)"}

    def facts(self) -> dict[str, Any]:
        """What a page without a kernel needs to compare an answer."""
        # of a wider format there are too many patterns, and a pattern goes without its meaning
        meanings = [self._hex(each) for each in range(1 << self.width)] if self.form and self.width <= 8 else []
        return {"kind": "bits", "right": str(self.right), "width": self.width, "meanings": meanings}

    def differs(self, text: str) -> str:
        """How `text` differs from the answer, in words."""
        digits = text.replace("_", "").replace(" ", "").lower()
        try:
            binary = digits.startswith("0b") or (len(digits) == self.width > 2 and set(digits) <= {"0", "1"})
            pattern = int(digits, 2 if binary else 16)
        except ValueError:
            raise OperandError(f"{shown(text)} is not a pattern, such as 0x3d or 0b00111101") from None
        if not 0 <= pattern < 1 << self.width:
            raise OperandError(f"{shown(text)} does not fit into {counted(self.width, 'bit')}")
        wrong = [bit for bit in range(self.width) if (pattern ^ self.right) >> bit & 1]
        bits = f"bit{'s' * (len(wrong) > 1)} {ranges(wrong)}"
        return f"{self._hex(pattern)}: {bits} differ{'s' * (len(wrong) == 1)}" if wrong else ""


@dataclass(frozen=True)
class Formula:
    """A formula with variables, compared by its values for all cases."""

    #: A formula, or its values for all cases.
    right: str | tuple[float, ...]
    over: Mapping[str, Sequence[int]]

    @property
    def answer(self) -> str:
        """The right answer, as text."""
        if isinstance(self.right, str):
            return self.right
        few = ", ".join(map(written, self.right[:10]))
        variables = [f"{name} = {', '.join(map(str, values[:2]))}, …" for name, values in self.over.items()]
        return f"{few}{', …' if len(self.right) > 10 else ''} for {listing(variables, 'and')}"

    def control(self) -> Control:
        """What view.js needs to ask for it."""
        return {"kind": "text", "hint": f"a formula with {listing(self.over, 'and')}, in Python"}

    def cases(self) -> list[dict[str, float]]:
        """The values of the variables, one case after the other."""
        return [dict(zip(self.over, case, strict=True)) for case in product(*self.over.values())]

    def facts(self) -> dict[str, Any]:
        """What a page without a kernel needs to compare an answer."""
        return {"kind": "formula", "cases": self.cases(), "right": [_exact(each) for each in self._wanted()]}

    def _wanted(self) -> Sequence[float]:
        return [evaluate(self.right, case) for case in self.cases()] if isinstance(self.right, str) else self.right

    def differs(self, text: str) -> str:
        """How `text` differs from the answer, in words."""
        cases, wanted = self.cases(), self._wanted()
        got = [evaluate(text, case) for case in cases]
        wrong = [number for number in range(len(cases)) if got[number] != wanted[number]]
        if not wrong:
            return ""
        first = wrong[0]
        where = ", ".join(f"{name} = {at}" for name, at in cases[first].items())
        gives = f"for {where} it gives {written(got[first])}, not {written(wanted[first])}"
        return f"{text}: {gives}; {len(wrong)} of {counted(len(cases), 'value')} differ"


def _exact(number: Any) -> str:
    """A number as Python writes it: one of numpy, too."""
    return repr(number.item() if hasattr(number, "item") else number)
