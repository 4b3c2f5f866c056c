"""Questions of the notebooks do not answer themselves: nothing that a reader sees before gives the answer away.

What counts is a number to type: of a choice, every answer is on the page. Small numbers stand everywhere, so only from
10 on does a number that is already on the page count as a hint.
"""

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import nbformat
import pytest
from places import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
#: The answers of a question, as a page without a kernel folds them.
_ANSWERS = re.compile(r"<details><summary>Answer</summary>(.*?)</details>", re.DOTALL)
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
        answers = [plain(each).rpartition(": ")[2] for each in paragraphs]
        yield Question(f"{name} {cell.id}", data["text/plain"], answers, "\n".join(seen[-2:]))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def asked(request: pytest.FixtureRequest) -> list[Question]:
    path = request.param
    return list(questions(nbformat.read(path, as_version=4), path.stem))


def says(text: str, number: str) -> bool:
    """Whether a text has a number, also as 16,384 or 16 384."""
    joined = re.sub(r"(?<=\d)[,\u202f\u00a0](?=\d{3})", "", text)
    return re.search(rf"(?<![\w.]){re.escape(number)}(?![\w]|\.\d)", joined) is not None


def hint(number: str) -> bool:
    """Whether a number is unusual enough to be recognised."""
    return bool(re.fullmatch(r"0x[0-9a-f]+|\d{2,}(\.\d+)?", number))


def test_a_number_on_the_page_is_recognised() -> None:
    assert says("There are 24 tiles.", "24")
    assert says("It takes 65,536 steps", "65536")
    assert not says("0x3c00 and 124 and 2.24", "24")
    assert [hint(each) for each in ("8", "24", "0x7e", "“all”")] == [False, True, True, False]


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
