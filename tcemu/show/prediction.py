"""Predict, then reveal: the reader answers first, and only then sees what is right and how the answers differ.

    from tcemu.show import predict

    predict("How many lanes hold A[3, 2]?", len(mma.fragments["a"].holders(3, 2)))                      a number
    predict("Which lane holds D[15, 7]?", 31, among=range(32))                                          a lane
    predict("Which elements of D change?", changed, choices={"one": 1, "a row": 8, "all": 128})         one of several
    predict("Write 448 in e4m3.", 0x7E, bits="e4m3")                                                    bits, in hex
    predict("In which row is register d0?", rows, over={"lane": range(32)})                             a formula
    predict("How many are exact?", {"tensor core": 73, "loop": 61})                                     several parts

The answer is computed where the question is asked, so it can be compared with every run of the notebook. A page with a
kernel shows it only to a reader who has predicted; one without a kernel, to a reader who unfolds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from tcemu.arguments import explained
from tcemu.errors import OperandError, TcemuError, briefly, counted, is_whole, listing, ranges
from tcemu.formats import Format, lookup
from tcemu.show.bits import number_bits
from tcemu.show.folded import folded
from tcemu.show.kinds import Bits, Choice, Formula, Kind, Number
from tcemu.show.prose import html, inline, paragraphs, tick
from tcemu.show.view import Control, view, widget_bundle

#: What readers predicted, by question, so that it is still there when the cell runs again.
_PREDICTED: dict[str, dict[str, str]] = {}


class Prediction:
    """A question that reveals its answer once the reader has predicted it. Made by tcemu.show.predict.

    >>> question = tcemu.show.predict("How many lanes does a warp have?", 32)
    >>> question.say(16), question.predicted
    ('The answer is 32. You said 16, which is 16 too small.', {'': '16'})
    """

    def __init__(self, question: str, parts: Mapping[str, Kind], reveal: Sequence[object]) -> None:
        self._question, self._parts, self._reveal = question, dict(parts), reveal
        #: What is in the controls, by part: what the verdict is about.
        self._texts = dict.fromkeys(self._parts, "") | self.predicted
        self._view: Any = None

    # ------------------------------------------------------------------------------------------ what is predicted

    @property
    def predicted(self) -> dict[str, str]:
        """What the reader predicted, by part; empty before the first prediction."""
        return dict(_PREDICTED.get(self._question, {}))

    def say(self, *answers: object) -> str:
        """Predict: one answer for each part. Returns how it compares, and reveals the answer in the page.

        Raises OperandError for something that is not an answer, such as letters instead of a number.

            >>> from tcemu import show
            >>> show.predict("How many registers has A of m16n8k16?", 4).say(4)
            'Right, 4.'
        """
        if len(answers) != len(self._parts):
            raise OperandError(f"{self._question} asks for {counted(len(self._parts), 'answer')}; got {len(answers)}")
        self._texts = dict(zip(self._parts, map(str, answers), strict=True))
        verdicts = self._compare()
        _PREDICTED[self._question] = dict(self._texts)
        text = "\n".join(verdict for verdict, _ in verdicts)
        marked = "".join(f"<p>{tick(right)}{inline(verdict)}</p>" for verdict, right in verdicts)
        self._tell(text, marked + self._pictures())
        return text

    def _compare(self) -> list[tuple[str, bool]]:
        """The verdict on the answer for each part, and whether it is right."""
        verdicts = []
        for name, part in self._parts.items():
            front = f"{name}: " if name else ""
            if not self._texts[name].strip():
                raise OperandError(f"{front}predict first: type or choose an answer")
            wrong = part.differs(self._texts[name])
            verdict = f"The answer is {part.answer}. You said {wrong}." if wrong else f"Right, {part.answer}."
            verdicts.append((front + verdict, not wrong))
        return verdicts

    # ------------------------------------------------------------------------------------------ in a notebook

    def _asked(self, values: Mapping[str, str]) -> None:
        """Compare what the reader sends from the page; an error appears there too."""
        names = list(self._parts)
        self._texts |= {names[int(name)]: text for name, text in values.items()}
        try:
            self.say(*self._texts.values())
        except TcemuError as error:
            self._tell(str(error), paragraphs(str(error)), button="Compare")

    def _tell(self, said: str, html: str, button: str = "Compare again") -> None:
        """Show a verdict or an error in the page, under what it is about."""
        if self._view is not None:
            with self._view.hold_sync():
                self._view.controls = self._controls()
                self._view.html = f'<div class="tcemu-answer">{html}</div>'
                self._view.said, self._view.button = said, button

    def _controls(self) -> list[Control]:
        places = [
            {"name": str(number), "label": name or "Your prediction", "value": self._texts[name]}
            for number, name in enumerate(self._parts)
        ]
        return [part.control() | place for part, place in zip(self._parts.values(), places, strict=True)]

    def page(self) -> dict[str, Any]:
        """What a page without a kernel needs to ask the question, compare the answers and then show what is right.

        >>> from tcemu import show
        >>> show.predict("How many lanes does a warp have?", 32).page()["parts"][0]["answer"]
        '32'
        """
        parts = [part.facts() | {"answer": part.answer, "name": name} for name, part in self._parts.items()]
        marks = [tick(right) for right in (False, True)]
        asked = {"kind": "prediction", "head": self._question, "controls": self._controls()}
        return asked | {"parts": parts, "marks": marks, "reveal": self._pictures()}

    def _shown(self) -> Any:
        """The widget, made when the question is first shown, with the reader's earlier predictions."""
        if self._view is None:
            self._view = view(self._controls(), self._asked, button="Compare", head=self._question)
            if set(self.predicted) == set(self._parts):
                self._asked({})
        return self._view

    def _pictures(self, *, stored: bool = False) -> str:
        return "".join(html(each, stored=stored) for each in self._reveal)

    def _answers(self) -> str:
        return "\n".join(f"{name}: {part.answer}" if name else part.answer for name, part in self._parts.items())

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The question with its controls for a page with a kernel; without one, the answer is folded away."""
        answer = paragraphs(self._answers()) + self._pictures(stored=True)
        hidden = folded("Answer", answer)
        page = f'<div class="tcemu-prediction"><p><strong>Predict.</strong> {inline(self._question)}</p>{hidden}</div>'
        return widget_bundle(self._shown()) | {"text/html": page, "text/plain": str(self)}

    def __str__(self) -> str:
        return f"Predict. {self._question}"

    def __repr__(self) -> str:
        return f"<Prediction {self._question!r}: .say(...) compares your answer>"


@explained
def predict(
    question: str,
    answer: Any,
    *,
    choices: Mapping[str, Any] | Iterable[str] = (),
    bits: Format | str | int | None = None,
    over: Mapping[str, Sequence[int]] | None = None,
    among: Sequence[int] | Mapping[str, Sequence[int]] = (),
    reveal: object = (),
) -> Prediction:
    """Ask `question`; compare what the reader predicts with `answer`, and then show `reveal`.

    `answer` is a number. With `choices` it is one of them, or what one of them means: {"a row": 8, "all": 128}. With
    `bits`, a format or a width, it is a pattern, asked for in hex. With `over`, the values of variables, it is a
    formula, or its values in all cases. `among` lists the numbers that are possible, such as range(32) for a lane. A
    question of several parts has a dict of answers; `among` may then be a dict, too. `reveal` is a picture or anything
    else that a notebook can show, or a list of these; a pattern's default is the picture of its bits.

    Raises OperandError for an answer that is not of its kind, FormatError for an unknown format.

    >>> tcemu.show.predict("Which lane holds A[3][5]?", 14, among=range(32)).say(13)
    'The answer is 14. You said 13, which is 1 too small.'
    >>> tcemu.show.predict("What is 0.5 in f16?", 0x3800, bits="f16").say("0x3c00")
    'The answer is 0x3800, which is 0.5. You said 0x3c00, which is 1: bit 10 differs.'
    """
    answers = answer if isinstance(answer, Mapping) else {"": answer}
    if not isinstance(question, str) or not question.strip():
        raise OperandError(f"a question must be a string; got {briefly(question)}")
    possible = _possible(among, answers)
    parts = {
        str(name): _kind(right, choices, bits, over, possible.get(name, ()), f"{name} {question}")
        for name, right in answers.items()
    }
    if not parts:
        raise OperandError(f"{question} has no answer")
    shown_then = list(reveal) if isinstance(reveal, list | tuple) else [reveal]
    for part in parts.values():
        if isinstance(part, Bits) and part.form and not shown_then:
            shown_then = [number_bits(part.form, part.right)]
    return Prediction(question, parts, shown_then)


def _possible(
    among: Sequence[int] | Mapping[str, Sequence[int]], answers: Mapping[str, Any]
) -> Mapping[str, Sequence[int]]:
    """The numbers that are possible in each part; parts without a limit may be left out."""
    if not isinstance(among, Mapping):
        return dict.fromkeys(answers, among)
    if strange := [name for name in among if name not in answers]:
        has = listing(map(repr, answers), "and")
        raise OperandError(f"`among` names {listing(map(repr, strange), 'and')}, but the answer has {has}")
    return among


def _kind(
    right: Any,
    choices: Mapping[str, Any] | Iterable[str],
    bits: Format | str | int | None,
    over: Mapping[str, Sequence[int]] | None,
    among: Sequence[int],
    asked: str,
) -> Kind:
    if choices:
        return _chosen(right, choices)
    if bits is not None:
        if not isinstance(bits, Format | str) and not (is_whole(bits) and 1 <= bits <= 64):
            raise OperandError(f"bits must be a format, its name, or a number of bits up to 64; got {briefly(bits)}")
        read = lookup(bits) if isinstance(bits, str) else bits
        form, width = (read, read.container) if isinstance(read, Format) else (None, int(read))
        if not 0 <= int(right) < 1 << width:
            raise OperandError(f"the answer {briefly(right)} does not fit into {counted(width, 'bit')}")
        return Bits(int(right), width, form)
    if over:
        return _formula(right, over)
    number = right.item() if getattr(right, "size", 0) == 1 else right
    if not isinstance(number, Real):
        raise OperandError(f"an answer must be a number, unless choices, bits or over are given; got {briefly(right)}")
    if len(among) and number not in among:
        raise OperandError(f"the answer {briefly(number)} is not among {ranges(among)}")
    words = frozenset(re.findall("[a-z]+", asked.lower()))
    return Number(int(number) if isinstance(number, int) else float(number), among, words)


def _formula(right: Any, over: Mapping[str, Sequence[int]]) -> Formula:
    formula = Formula(right if isinstance(right, str) else tuple(right), over)
    if isinstance(right, str):
        formula.differs(right)  # refuses what cannot be evaluated
    elif len(formula.right) != len(formula.cases()):
        cases = counted(len(formula.cases()), "case")
        raise OperandError(f"`over` has {cases}, the answer {counted(len(formula.right), 'value')}")
    return formula


def _chosen(right: Any, choices: Mapping[str, Any] | Iterable[str]) -> Choice:
    """The choice that is right: the answer itself, or the one that means it."""
    options = tuple(choices)
    meant = [name for name, meaning in choices.items() if meaning == right] if isinstance(choices, Mapping) else [right]
    if len(meant) != 1 or meant[0] not in options:
        raise OperandError(f"the answer {briefly(right)} is not one of the choices, {listing(map(repr, options))}")
    return Choice(meant[0], options)
