"""Submissions that resemble each other, and answers that are right for a different student."""

import json

import numpy as np
import pytest
from handed import STEM, notebook
from honest import disguised, works
from places import ROOT

from tcemu.course import exercise, judged
from tcemu.grade.output.similarity import groups, shapes
from tcemu.grade.output.variants import elsewhere, literals
from tcemu.grade.records import Grade, Mark, Submission
from tcemu.grade.syntax import CELL, CELLS, parsed

CODE = """
def where_of_b(row, column):
    # mine
    group, rest = divmod(column, 8)
    lane = 4 * rest + row % 8 // 2
    register = row // 8
    return lane, register

def summed(values, width):
    total = 0
    for start in range(0, len(values), width):
        part = [value * value for value in values[start:start + width] if value > 0]
        total += max(part, default=0) - min(part, default=0)
    return {"total": total, "width": width, "mean": total / max(len(values), 1)}

def packed(words):
    result = []
    while words:
        low, high, *words = words
        result.append((high << 16 | low) & 0xffffffff)
    return result
"""
RENAMED = CODE.replace("# mine", "# all my own work").replace("total", "s").replace("values", "xs").replace(
    "result", "out").replace("    ", "  ")  # fmt: skip
OTHER = """
def where_of_b(row, column):
    return column * 4 + (row & 7) // 2, int(row >= 8)

def summed(values, width):
    chunks = np.array_split(np.asarray(values), width)
    return sum(float(np.ptp(chunk)) for chunk in chunks)

def packed(words):
    pairs = zip(words[::2], words[1::2], strict=True)
    return np.fromiter((low + high * 65536 for low, high in pairs), np.uint32)
"""


def handed(student, *sources, stem=STEM):
    return Submission(student, student, {stem: notebook(*sources)})


def released():
    held = json.loads((ROOT / "exercises" / f"{STEM}.ipynb").read_text())
    return ["".join(cell["source"]) for cell in held["cells"] if cell["cell_type"] == "code"]


def test_renaming_and_layout_hide_nothing_and_other_code_is_not_alike():
    (found,) = groups([handed("ada", CODE), handed("bob", OTHER), handed("eve", RENAMED)])
    assert (found.students, found.notebook, found.part) == (("ada", "eve"), STEM, 1.0)


def test_a_copied_part_is_found():
    (found,) = groups([handed("ada", CODE, OTHER), handed("eve", RENAMED)])
    assert found.students == ("ada", "eve")
    assert 0.6 <= found.part <= 1.0


def test_the_released_notebook_and_short_answers_make_nobody_alike():
    short = "def where_of_b(row, column):\n    return 4 * column + row % 8 // 2, row // 8\n"
    assert groups([handed(name, *released()) for name in ("ada", "bob")]) == []
    assert groups([handed(name, short, *released()) for name in ("ada", "bob")]) == []


def test_what_half_of_the_class_wrote_is_no_copy_but_the_same_notebook_is_a_group():
    honest = [handed(f"s{n:02}", OTHER, *[f"x{n} = {'f(' * n}1{')' * n}"]) for n in range(1, 30)]
    assert groups(honest) == []
    (found,) = groups([*honest, *(handed(name, CODE) for name in ("ada", "bob", "cid", "dee", "eve", "fay"))])
    assert found.students == ("ada", "bob", "cid", "dee", "eve", "fay")


@pytest.mark.parametrize(("number", "ring"), [(2, 2), (5, 5), (12, 5), (18, 3), (18, 8), (30, 12), (60, 6)])
def test_a_ring_of_any_size_is_one_group_of_copies_that_differ(number, ring):
    first, *others = works(number - ring + 1, seed=3)
    copies = [disguised(first, seed) for seed in range(ring)]
    assert len({tuple(cells) for cells in copies}) == ring
    found = groups([handed(f"s{place:02}", *cells) for place, cells in enumerate([*copies, *others])])
    members = {f"s{place:02}" for place in range(ring)}
    assert [set(group.students) for group in found if members & {*group.students}] == [members]


@pytest.mark.slow
def test_people_who_worked_alone_are_left_alone():
    """Obvious answers, repairs that everybody finds, and long answers of common parts: a few pairs in ten classes."""
    named = 0
    for seed in range(10):
        found = groups([handed(f"s{place:02}", *cells) for place, cells in enumerate(works(18, seed))])
        named += sum(len(group.students) for group in found)
    assert named <= 0.05 * 10 * 18


SAME = [
    ("x = f(a) * 8 + b", "y = c + g(d) * (7 + 1)"),
    ("x = f(a) * 8 + b", "y = c + (g(d) << 3)"),
    ("x = f(a) // 4 % 8 - b", "y = -c + (g(d) >> 2 & 7)"),
    ("if f(a) < 3 * g(b):\n    pass", "if 3 * g(d) > f(c):\n    print"),
    ("x = f(a, b=1, c=2)", "y = g(d, c=3 - 1, b=1)"),
    ("def f(a, b):\n    return g(a) | b << 16", "def h(a: int, b) -> int:\n    'b, a'\n    return (b << 16) | g(a)"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_operands_constants_and_notation_hide_nothing(one, other):
    assert shapes([one]) == shapes([other]) != frozenset()


DIFFERENT = [("x = f(a) - 8 * b", "x = 8 * b - f(a)"), ("x = f(a) * 8 + b", "x = f(a) * 4 + b"),
             ("x = f(a) % 8 + b", "x = f(a) // 8 + b"), ("x = f(a) < 3 * b", "x = f(a) > 3 * b")]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_computes_something_else_has_another_shape(one, other):
    assert shapes([one]) != shapes([other])


UNFIT = ["def broken(:", "\0", "(" * 5000, "-" * 20_000 + "1", "+".join(["1"] * 16_000), "f'" + "{1}" * 200_000 + "'"]


@pytest.mark.parametrize("source", UNFIT)
def test_code_that_cannot_be_parsed_or_takes_minutes_is_left_out(source):
    assert parsed([source]) == []
    assert groups([handed("ada", source), handed("bob", source)]) == []
    assert literals([source]) == {}


def test_a_notebook_of_many_long_cells_is_parsed_in_part():
    cells = [f"x{number} = '{'y' * (CELL - 20)}'" for number in range(10)]
    assert 0 < len(parsed(cells)) < 10
    assert len(parsed(["1"] * (CELLS + 1))) == CELLS


# ---------------------------------------------------------------------------------------------- variants


def right_for(row, student):
    """The right answer for a student, as a learner would write it."""
    return np.asarray(row.judge.right(row.given(student))).tolist()


def test_an_answer_to_somebody_else_s_numbers_is_named():
    row = exercise("fused_sum_by_hand")
    answer = right_for(row, "ada")
    assert judged(row, answer, "ada")
    students = ["ada", "hal", "cid", "eve"]
    stem = "06_exact_arithmetic"
    states = {name: "right" if name == "ada" else "wrong" for name in students}
    grades = [Grade(name, "0", (Mark(row.name, stem, states[name], 0.0, 1),)) for name in students]
    sources = {"ada": f"check({row.name}={answer})", "hal": f"check({row.name}=-12345)",
               "cid": f"check({row.name}=made())", "eve": f"{row.name} = np.float32({answer})"}  # fmt: skip
    found = elsewhere(grades, [handed(name, source, stem=stem) for name, source in sources.items()])
    assert [(each.student, each.exercise, each.right_for) for each in found] == [("eve", row.name, ("ada",))]


def test_literals_are_read_and_never_run():
    cells = ["a = __import__('os').system('true')", "b = [1, -2.5, 'x']", "check(c=0x10)", "b = (3,)", "d = {1: 2}"]
    assert literals(cells) == {"a": "true", "b": (3,), "c": 16, "d": {1: 2}}
