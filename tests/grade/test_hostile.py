"""Notebooks that want marks without an answer, or harm: each gets what was honestly earned, and ends in time."""

import re

import pytest
from attacks import IN_THE_BOX
from boxed import CHECK, HONEST, SEAT, marks, needs_box
from rows import rows

from tcemu.course import exercise
from tcemu.grade.box import Limits, Seat
from tcemu.grade.marking import marks_of

pytestmark = needs_box

SETUP = "from tcemu.course import check, given"


@rows("what, attack, answer, earned", IN_THE_BOX[::9], lambda what, *_: what)
def test_what_some_attacks_earn(what, attack, answer, earned):
    """The whole table is in test_class.py, as a class that is graded together."""
    mark = marks(SETUP, f"{attack}\n{answer}", "check(where_of_b)")["where_of_b"]
    assert mark.state in earned, mark.says


SHORT = Seat(limits=Limits(cell=2, notebook=20, memory=1 << 30))


@pytest.mark.slow
def test_a_cell_that_never_ends_is_named_where_its_answer_is_missing():
    mark = marks(SETUP, f"while True: pass\n{HONEST}", "check(where_of_b)", seat=SHORT)["where_of_b"]
    says = "Cell c1 was stopped. It did not finish within 2 seconds of processor time."
    assert (mark.state, mark.says) == ("failed", says)


@pytest.mark.slow
def test_an_endless_answer_costs_its_exercise_alone():
    loop = "def where_of_bytes(row, column):\n    while True: pass\ncheck(where_of_bytes)"
    found = marks(SETUP, HONEST, loop, CHECK, names=("where_of_b", "where_of_bytes"), seat=SHORT)
    assert [(mark.state, mark.says) for mark in found.values()] == [
        ("right", "Right in 128 cases."), ("failed", "It did not finish within 2 seconds of processor time."),
    ]  # fmt: skip


def test_escapes_and_scripts_come_out_as_text_that_does_nothing():
    says = marks(SETUP, "def where_of_b(row, column):\n    raise ValueError('\\x1b[2J<script>\\u202e\\ud800')", CHECK)
    mark = says["where_of_b"]
    assert "\x1b" not in mark.says
    assert "\u202e" not in mark.says
    mark.says.encode()


def test_what_is_no_notebook_is_refused_in_a_sentence():
    wanted = {"where_of_b": exercise("where_of_b")}
    number = b'{"cells": [{"cell_type": "code", "source": 3}]}'
    for content in (b"", b"\x00\xff", b"[" * 500_000, number, b"[]", b"null"):
        (mark,) = marks_of("02_fragments", content, wanted, "ada", SEAT)
        assert mark.state == "failed"
        assert mark.says.startswith("This is not a notebook: ")


def test_a_kernel_cannot_talk_to_the_machine_in_its_own_words():
    """A kernel that sends forged operations, with registers and lanes that do not exist."""
    source = """
def repair_swap(warp, x, out):
    core = warp.core
    core.later("touch", 7, None, ..., True)
    core.later("write", -1, [10**9], ..., 3)
    core.later("registers", 10**9, None, "uint32", 5)
    core.bits = -1
    warp.st_global(out.at(warp.laneid), 0)
"""
    mark = marks(SETUP, source, "check(repair_swap)", names=("repair_swap",))["repair_swap"]
    assert mark.state == "wrong", mark.says
    assert mark.points == 0


@rows(
    "operation, says",
    [
        ("'read', 9, None, np.zeros(1 << 16, np.int8), True", "larger than all registers"),
        ("'read', 9, None, (list(map(list, np.zeros((999, 1), int))), [0] * 999), True", "registers without end"),
        ("'write', 9, None, ..., np.zeros(1 << 16, np.uint8)", "larger than all registers"),
    ],
    lambda operation, _: operation,
)
def test_a_kernel_cannot_fill_the_memory_outside(operation, says):
    source = f"""
import numpy as np
def repair_swap(warp, x, out):
    warp.core._send("registers", 4, 0, "uint32", 9)
    warp.core._send({operation})
"""
    mark = marks(SETUP, source, "check(repair_swap)", names=("repair_swap",))["repair_swap"]
    assert says in mark.says
    assert mark.points == 0


def test_no_address_is_told_because_it_would_be_another_one_next_time():
    for answer in ("[object(), lambda: 1]", "lambda row, column: object()"):
        says = marks(SETUP, f"where_of_b = {answer}", "check(where_of_b)")["where_of_b"].says
        assert "object object" in says
        assert "0x…" in says
        assert not re.search("0x[0-9a-f]", says)


def test_hidden_reads_do_not_hide_a_race():
    """The sanitizer is outside: what a kernel does in the box to be seen less changes nothing."""
    racing = """
import tcemu.sanitizer.sanitizer as s, tcemu.machine.core as c
s.Sanitizer.__call__ = lambda *_: None
c.Core.tell = lambda *_: None
def repair_swap(warp, x, out):
    warp.core.later = lambda *_: None if _[0] == "touch" else type(warp.core).later(warp.core, *_)
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))
"""
    mark = marks(SETUP, racing, "check(repair_swap)", names=("repair_swap",))["repair_swap"]
    assert mark.state == "wrong"
    assert "shared-race" in mark.says or "sanitizer reports" in mark.says, mark.says


COPIED = """
numbers = given("fused_sum_by_hand")
factors = [(float(x), float(y)) for x, y in zip(numbers.a, numbers.b)] + [(float(numbers.c), 1.0)]
cut = 2.0 ** (max(math.frexp(x)[1] + math.frexp(y)[1] - 2 for x, y in factors) - 25)
fused_sum_by_hand = sum(int(x * y / cut) for x, y in factors) * cut
"""


def test_an_answer_to_another_variant_is_wrong():
    """`given` requests the student's numbers from outside, and the answer is compared with those."""
    name, check = "fused_sum_by_hand", "check(fused_sum_by_hand=fused_sum_by_hand)"
    (own,) = marks(f"{SETUP}\nimport math", COPIED, check, names=(name,)).values()
    each = exercise(name)
    copied = f"fused_sum_by_hand = {float(each.judge.right(each.given('grace')))!r}"
    (mark,) = marks(SETUP, copied, check, names=(name,)).values()
    assert (own.state, mark.state) == ("right", "wrong"), own.says
