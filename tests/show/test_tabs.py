"""Programs in tabs: one text at a time, by radio buttons; twins of the kernels of tcemu.gemm, function by function."""

import re

import pytest

import tcemu
from tcemu.errors import OperandError
from tcemu.gemm.side_by_side import NAMES, side_by_side
from tcemu.show import tabs

TEXTS = {"Python": "x = a < b  # <b>\n", "CUDA C++": "bool x = a < b;\n"}


def test_one_button_for_each_language_and_one_is_chosen():
    page = tabs("compare", TEXTS).html
    assert re.findall(r'<label for="\w+-(\d)">([^<]+)</label>', page) == [("0", "Python"), ("1", "CUDA C++")]
    assert page.count(" checked>") == 1
    names = set(re.findall(r'name="(\w+)"', page))
    assert len(names) == 1  # one group: arrow keys move within it
    for number in range(2):
        assert f"-{number}:checked~.p{number}{{display:block}}" in page
    assert page.count('tabindex="0"') == 2  # a long text scrolls by keyboard
    assert len(re.findall(r'<(?:input|pre) [^>]* data-lm-suppress-shortcuts="true"', page)) == 4, "x cuts no cell"


def test_texts_are_escaped_and_coloured():
    page = tabs("compare", TEXTS).html
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert '<span class="kt">bool</span>' in page


def test_different_tabs_have_different_names():
    one, other = (re.search(r'id="(\w+)"', tabs(title, TEXTS).html)[1] for title in ("one", "other"))
    assert one != other


def test_without_html_the_texts_follow_each_other():
    assert str(tabs("f", TEXTS)) == "f in Python:\n\nx = a < b  # <b>\n\nf in CUDA C++:\n\nbool x = a < b;"


@pytest.mark.parametrize("texts", [{}, {"Rust": "let x = 1;"}], ids=str)
def test_other_languages_are_refused(texts):
    with pytest.raises(OperandError, match=r"the languages of tabs are Python, CUDA C\+\+, PTX"):
        tabs("f", texts)


@pytest.mark.parametrize("name", NAMES)
def test_every_twin_is_shown_beside_its_kernel(name):
    """Each tab has whole functions: braces and parentheses are balanced, and names come in the same order."""
    shown = side_by_side(name)
    assert shown.languages == ("Python", "CUDA C++")
    assert all(text.count(left) == text.count(right) for text in shown.texts.values() for left, right in ("{}", "()"))
    python = re.findall(r"^def (\w+)", shown.texts["Python"], re.MULTILINE)
    cuda = shown.texts["CUDA C++"]
    places = [re.search(rf"\b{function}\((?![^;{{]*;)", cuda).start() for function in python]
    assert places == sorted(places)


def test_functions_are_chosen_by_name():
    shown = side_by_side("wgmma_tma", "consume", "multiply_stage")
    assert [text.index("consume") < text.index("multiply_stage(") for text in shown.texts.values()] == [True, True]
    assert side_by_side("wgmma_tma", "wait_for_all").languages == ("CUDA C++",)
    with pytest.raises(OperandError, match="wgmma_tma has no function nothing; these are in both: multiply_stage"):
        side_by_side("wgmma_tma", "nothing")
    with pytest.raises(OperandError, match="none of the kernels with a twin: attention"):
        tcemu.gemm.side_by_side("tcemu")
