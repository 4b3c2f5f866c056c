"""Questions of the notebooks do not answer themselves: nothing that a reader sees before gives the answer away.

What counts is a number to type: of a choice, every answer is on the page. A number is its value, however it is written:
−32 and -32, 16384 and 16,384, 2²⁴ and 2^24 and 2**24 and 16777216. Small whole numbers stand everywhere, so only other
numbers that are already on the page count as hints.
"""

import html
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import nbformat
import pytest
from places import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
#: The answers of a question, as a page without a kernel folds them.
_ANSWERS = re.compile(r"<summary[^>]*>Answer</summary>(.*?)</details>", re.DOTALL)
_FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
#: Numbers that are on the page although they are answers, and why that gives nothing away.
ALLOWED = {
    "01_numbers c08": "which of the numbers become 448 is the question",
    "05_moving_matrices c29": "16 is also a bank's number in a picture",
    "05_moving_matrices c43": "the kernel beside it has 16 and 32 for other things",
    "09_block_scaling c32": "16 is also a size of the matrices",
    "11_wgmma_async c21": "512 is all of them, one end of the range",
}


class Question(NamedTuple):
    """A question of a notebook: where, what is asked, the answers, and what stands before it."""

    where: str
    asked: str
    answers: list[str]
    before: str


def plain(page: str) -> str:
    return html.unescape(_TAG.sub("", page))


def questions(notebook: Any, name: str) -> Iterator[Question]:
    """Each question, with the visible part of the two cells before it: the last text and the last code."""
    seen: list[str] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            seen.append(_FOLDED.sub("", cell.source))
            continue
        if not re.search(r"^predict\(", cell.source, re.MULTILINE):
            told = [output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
            seen.append("\n".join([cell.source, *told]))
            continue
        data = cell.outputs[0].data
        folded = _ANSWERS.search(data["text/html"])
        assert folded, f"{name} {cell.id}: no answer is folded"
        paragraphs = re.findall(r"<p>(.*?)</p>", folded[1].partition("<figure")[0], re.DOTALL)
        told = [each for each in map(plain, paragraphs) if not each.endswith(".")]  # a sentence is what is revealed
        answers = [each.rpartition(": ")[2] for each in told]
        yield Question(f"{name} {cell.id}", data["text/plain"], answers, "\n".join(seen[-2:]))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def asked(request: pytest.FixtureRequest) -> list[Question]:
    path = request.param
    return list(questions(nbformat.read(path, as_version=4), path.stem))


#: Exponents as raised digits, and as they are.
_RAISED, _LOWERED = "⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789"
#: A number: a sign that is no minus between two others, digits, and the exponent if it is a power.
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>(?<![)\]])(?<![\d)\]] )[-−])?(?P<base>0x[0-9a-f]+|\d+(?:\.\d+)?)"
    rf"(?:(?P<raised>[⁻⁺]?[{_RAISED[2:]}]+)|\s?(?:\^|\*\*)\s?\(?(?P<power>[-−]?\d+)\)?)?"
    rf"(?![\w{_RAISED}]|\.\d)"
)


def numbers(text: str) -> set[Fraction]:
    """The numbers that a text has, by value; a pattern such as 0x7e is the number 126."""
    joined = re.sub(r"(?<=\d)[,\u202f\u00a0](?=\d{3})", "", text)
    found = set()
    for each in _NUMBER.finditer(joined):
        base = each["base"]
        size = Fraction(int(base, 16) if base.startswith("0x") else base)
        written = (each["raised"] or "").translate(str.maketrans(_RAISED, _LOWERED)) or each["power"] or "1"
        power = int(written.replace("−", "-"))
        if (size or power > 0) and abs(power) <= 1100:
            found.add((-1 if each["sign"] else 1) * size**power)
    return found


def says(text: str, number: str) -> bool:
    """Whether a text has one of the numbers of an answer, in whatever form."""
    return not numbers(number).isdisjoint(numbers(text))


def hint(number: str) -> bool:
    """Whether an answer is one number, and so unusual that it is recognised: "24" and "0x7e, which is 448"."""
    found = numbers(number.partition(", which")[0])
    return "“" not in number and len(found) == 1 and any(not 0 <= each < 10 or each.denominator > 1 for each in found)


def test_a_number_on_the_page_is_recognised() -> None:
    assert says("There are 24 tiles.", "24")
    assert says("It takes 65,536 steps", "65536")
    assert not says("0x3c00 and 124 and 2.24", "24")
    assert [hint(each) for each in ("8", "24", "0x7e", "“all”", "−1", "1.4", "0, 20", "“−32”")] == [
        False, True, True, False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("it becomes -32 then", "−32"), ("it becomes −32", "-32"), ("x = (-32)", "−32"), ("cut below 2⁻²⁴", "2^-24"),
        ("2**-24 is small", "2⁻²⁴"), ("2 ** (-24)", "2⁻²⁴"), ("2^24 + 1", "16777216"), ("16,777,216", "2²⁴"),
        ("−2³¹ is the least", "-2147483648"), ("0x7E".lower(), "126"),
    ],
)  # fmt: skip
def test_a_number_is_recognised_however_it_is_written(text: str, number: str) -> None:
    assert says(text, number)


@pytest.mark.parametrize(
    ("text", "number"),
    [("64 - 32 rows", "−32"), ("a[i]-32", "−32"), ("it is 32", "−32"), ("2²⁴", "2"), ("2⁻²⁴", "24"), ("2^24", "24")],
)
def test_other_numbers_are_not_taken_for_it(text: str, number: str) -> None:
    assert not says(text, number)


def test_no_question_says_its_answer(asked: list[Question]) -> None:
    for question in asked:
        known = [number for number in question.answers if hint(number) and says(question.asked, number)]
        assert not known or question.where in ALLOWED, f"{question.where}: {question.asked} gives {known} away"


def test_nothing_right_before_a_question_says_its_answer(asked: list[Question]) -> None:
    for question in asked:
        known = [number for number in question.answers if hint(number) and says(question.before, number)]
        assert not known or question.where in ALLOWED, f"{question.where}: {known} can be read before it is asked"


def test_what_is_allowed_still_needs_to_be() -> None:
    """The list only shrinks: an entry whose question no longer gives anything away has to go."""
    offending = {
        question.where
        for path in NOTEBOOKS
        for question in questions(nbformat.read(path, as_version=4), path.stem)
        if any(hint(number) and says(question.asked + "\n" + question.before, number) for number in question.answers)
    }
    assert ALLOWED.keys() - offending == set()


def test_no_question_says_how_to_write_its_answer(asked: list[Question]) -> None:
    for question in asked:
        assert "You may write" not in question.asked, f"{question.where}: offer choices, or let the reader write it"


def test_that_nothing_differs_is_the_answer_once() -> None:
    """Who has seen that "how many differ?" is always answered by 0 stops thinking."""
    found = [
        question.where
        for path in NOTEBOOKS
        for question in questions(nbformat.read(path, as_version=4), path.stem)
        if "0" in question.answers and re.search(r"differ|change|wrong", question.asked)
    ]
    assert len(found) <= 1, found


#: What a fold right after a question may be called; any other title might say the answer.
TITLES = {
    *("Why?", "Why these?", "Why does it matter?", "What follows?", "Does it matter?", "And on a GPU?"),
    *("The rule", "Which one to remember", "What is missing?", "Why this order?"),
}


def test_no_title_of_an_explanation_says_the_answer() -> None:
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        for question, after in pairwise(cells):
            if re.search(r"^(predict|which_rule)\(", question.source, re.MULTILINE) and after.cell_type == "markdown":
                titles = re.findall(r"<summary>(.*?)</summary>", after.source)
                assert set(titles[:1]) <= TITLES, f"{path.stem}: {titles[0]}"
