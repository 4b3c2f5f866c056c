"""Boxes for tests: notebooks from cells, their marks, and what code in a box finds out."""

import pytest
from handed import notebook

from tcemu.course import exercise
from tcemu.grade.box import Box, Limits, Seat, check_box
from tcemu.grade.marking import marks_of
from tcemu.grade.outside import Remote
from tcemu.grade.room import BoxUnavailable

#: Short, but enough for a machine that is busy.
LIMITS = Limits(cell=8, notebook=40, memory=1 << 30)
SEAT = Seat(limits=LIMITS)
#: A right answer, and its check.
HONEST = "def where_of_b(row, column):\n    return 4 * column + row // 2 % 4, row // 8"
CHECK = "from tcemu.course import check, given\ncheck(where_of_b)"


def _why_not():
    try:
        check_box()
    except BoxUnavailable as error:
        return str(error)
    return ""


WHY_NOT = _why_not()
#: Marks tests that need a box.
needs_box = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there are boxes")


def marks(*sources, names=("where_of_b",), student="ada", seat=SEAT):
    """The marks of a notebook with these cells, by exercise."""
    wanted = {name: exercise(name) for name in names}
    return {mark.exercise: mark for mark in marks_of("02_fragments", notebook(*sources), wanted, student, seat)}


class Probe:
    """A box that runs code and returns the value of X."""

    def __init__(self, seat=SEAT):
        self.remote = Remote(self.ask, [])
        self.box = Box(seat, self.remote.special, self.remote.known)

    def ask(self, *command):
        self.box.allow(30)
        self.box.send(list(command))
        return self.box.receive()

    def finds(self, source):
        """The value of X after the code; the error in words if it raises one."""
        kind, error, _ = self.ask("cell", f"X = None\n{source}", "probe")
        assert kind == "ran"
        return error or self.ask("value", "X")[2]
