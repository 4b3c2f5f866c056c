"""What an answer may call of tcemu is decided outside the box: there is nothing else that it could call."""

import numpy as np
import pytest
from bans import BANNED, FAIR, IMPORT, ROUND
from boxed import SEAT, needs_box
from handed import notebook
from quick import spread, turn
from rows import rows

from tcemu.cells import Cells
from tcemu.course import exercise
from tcemu.course.checking import verdicts_of
from tcemu.errors import CourseError
from tcemu.grade.box import Seat
from tcemu.grade.facts import Steps
from tcemu.grade.marking import marks_of

TRUSTED = Seat(trusted=True)


def marks(names, cells, seat=TRUSTED):
    wanted = {name: exercise(name) for name in names}
    return {mark.exercise: mark for mark in marks_of("00", notebook(IMPORT, *cells), wanted, "ada", seat, "key")}


@pytest.mark.slow
def test_answers_by_what_they_may_not_call_earn_nothing_whoever_watches():
    """The second is not checked: what one answer may call is not lent to another."""
    cells = [ROUND[1][1], *BANNED.values(), *(f"check({name})" for name in BANNED if name != "e4m3_patterns")]
    found = marks(BANNED, cells)
    assert {name: (mark.state, mark.points) for name, mark in found.items()} == dict.fromkeys(BANNED, ("wrong", 0))
    assert all(mark.says.startswith("This needs more of tcemu than the answer may call.") for mark in found.values())


@pytest.mark.slow
@needs_box
@rows("what, code", spread(ROUND, 2, first=turn(4)), lambda what, _: what)
def test_no_way_round_the_watcher_is_worth_anything(what, code):
    (mark,) = marks(["whole_product"], [code, BANNED["whole_product"], "check(whole_product)"], SEAT).values()
    assert (mark.state, mark.points) == ("wrong", 0), what


@pytest.mark.slow
@rows("what, name, cells", spread(FAIR, 4, first=turn(4)), lambda what, *_: what)
def test_answers_by_what_they_may_call_are_right_in_both(what, name, cells):
    cells = [*cells, f"check({name})"]
    with verdicts_of("ada") as said:
        here = Cells(print)
        for number, source in enumerate([IMPORT, *cells]):
            here.run(source, f"{what} {number}")
    (mark,) = marks([name], cells).values()
    assert [each.state for each in said] == [mark.state] == ["right"]


LOOKUP = ("call", ("name", "tcemu.formats.table.lookup"), ("e4m3",), ())
PARSE = ("call", ("name", "tcemu.instructions.parse"), ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",), ())
A = ("item", ("attribute", PARSE, "fragments"), "a")
#: Steps that a box may not take, even where an answer may call Format.decode.
FORGED = [
    ("name", "os.system"), ("name", "tcemu.course.exercise"), ("name", ""), ("name", 1), (), 7, [], ("call",),
    ("attribute", ("name", "tcemu.formats"), "__loader__"), ("attribute", LOOKUP, "__class__"),
    ("attribute", ("name", "tcemu.formats"), "np"), ("attribute", ("attribute", A, "layout"), "pattern"),
    ("call", ("attribute", LOOKUP, "encode"), ([1.0],), ()), ("call", ("attribute", A, "holders"), (0, 0), ()),
    ("call", ("attribute", A, "pack"), (np.zeros((16, 16), np.float16),), ()),
    ("item", ("call", ("attribute", LOOKUP, "codes"), (), ()), 3), ("record", "Plan", ()), ("record", "Popen", ()),
    ("call", ("name", "tcemu.instructions.matmul"), (), ()), ("call", LOOKUP, (), ()),
    ("call", ("attribute", LOOKUP, "decode"), (np.zeros(1 << 22, np.uint8),), ()),
    ("call", ("attribute", ("name", "tcemu.formats"), "Format"), (), ()),
]  # fmt: skip


def test_a_box_cannot_take_other_steps(row):
    for number, how in enumerate(FORGED):
        with row(f"{number}: {str(how)[-60:]}"):
            try:
                told = Steps(("tcemu.formats.Format.decode",)).look(how)
            except CourseError:
                told = None
            assert told is None


def test_what_describes_is_told_and_an_error_is_the_packages_own():
    steps = Steps(("tcemu.parse",))
    assert steps.look(("attribute", A, "shape")) == ("plain", (16, 16))
    assert steps.look(("attribute", PARSE, "shape")) == ("named", {"m": 16, "n": 8, "k": 16})
    assert steps.look(("attribute", PARSE, "fragments")) == ("names", ["d", "a", "b", "c"])
    assert steps.look(("attribute", LOOKUP, "dtype")) == ("dtype", "float8_e4m3fn")
    refused, says = steps.look(("call", ("name", "tcemu.instructions.parse"), ("mma.nonsense",), ()))
    assert (refused, says[:12]) == ("refused", "mma.nonsense")
