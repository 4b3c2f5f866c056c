"""Notebooks that want marks without an answer, or harm: each gets what was honestly earned, and ends in time."""

import time

from boxed import CHECK, HONEST, SEAT, marks, needs_box
from rows import rows

from tcemu.course import exercise
from tcemu.grade.box import Limits, Seat
from tcemu.grade.marking import marks_of

pytestmark = needs_box

SETUP = "from tcemu.course import check, given"
#: A class that is equal to everything.
EQUAL = """
class Equal(tuple):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = tuple.__hash__
def where_of_b(row, column):
    return Equal((0, 0))
"""
#: What a student patches in the box; none of it is asked outside.
PATCHES = """
import builtins, sys, numpy, tcemu, tcemu.sanitizer.sanitizer, tcemu.launcher, tcemu.course
builtins.all = builtins.any = lambda *_: True
builtins.sorted = lambda *_, **__: []
numpy.array_equal = numpy.all = lambda *_, **__: True
tcemu.launch = tcemu.launcher.launch = lambda *_, **__: None
tcemu.sanitizer.sanitizer.Sanitizer.__call__ = lambda *_: None
class Right:
    state, right, share, says = "right", True, 1.0, "Right."
    __bool__ = lambda self: True
"""
#: Forged messages on every pipe that can be found: "the cell has run", "the function returned".
FORGED = """
import json, os, struct
def message(value):
    header = json.dumps([value, []]).encode()
    return struct.pack("<II", len(header), 0) + header
for number in range(3, 20):
    for value in ({forged}):
        try: os.write(number, message(value))
        except OSError: pass
"""
WRONG = "def where_of_b(row, column):\n    return 0, 0"


@rows(
    "what, sources, state",
    [
        ("an answer equal to everything", [SETUP, EQUAL, CHECK], "wrong"),
        ("patched builtins, numpy and tcemu", [SETUP, PATCHES, WRONG, CHECK], "wrong"),
        ("a check of its own", ["check = lambda *_: print('right')", WRONG, "check(where_of_b)"], "wrong"),
        ("no check at all", [HONEST], "right"),
        ("a check that is called with a verdict", [SETUP, PATCHES, "where_of_b = Right()", CHECK], "wrong"),
        ("the judge, asked in the box",
         [SETUP, "from tcemu.course.bank import exercise\nwhere_of_b = exercise('where_of_b').judge.right", CHECK],
         "failed"),
        ("a module in the place of tcemu",
         ["import sys, types\nsys.modules['tcemu'] = types.ModuleType('tcemu')", HONEST], "right"),
        ("an import hook", ["import sys\nsys.meta_path.insert(0, None)", HONEST], "right"),
        ("forged ends of cells", [SETUP, FORGED.format(forged="['list', 'ran', ''],"), WRONG, CHECK], None),
        ("forged results", [SETUP, FORGED.format(forged="['list', 'returned', ['list'], None], {'a': 1}, [],"), WRONG,
                            CHECK], None),
        ("garbage on the pipes", [SETUP, ("import os\nfor n in range(3, 20):\n    try: os.write(n, bytes(range(256)))\n"
                                         "    except OSError: pass"), HONEST, CHECK], None),
        ("results written for the grader", [("import os\nfor name in ('results.json', '/tmp/grades.csv'):\n"
                                            "    open(name, 'w').write('{\"score\": 100}')"), WRONG], "wrong"),
        ("the parent killed", ["import os\nos.kill(os.getppid(), 9)", HONEST], "right"),
        ("every process signalled", ["import os\nos.kill(-1, 9)", HONEST], "right"),
        ("an end without a word", [SETUP, "import os\nos._exit(0)", HONEST, CHECK], "right"),
        ("an end in the answer", [SETUP, "import os\ndef where_of_b(row, column):\n    os._exit(3)", CHECK], "failed"),
        ("a crash in C", ["import ctypes\nctypes.string_at(0)", HONEST], "right"),
        ("a crash of the stack", ["import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", HONEST], "right"),
        ("much printed", ["for _ in range(20):\n    print('x' * 1_000_000)", HONEST], "right"),
        ("an exit in the answer", [SETUP, "def where_of_b(row, column):\n    raise SystemExit", CHECK], "wrong"),
        ("KeyboardInterrupt", [SETUP, "def where_of_b(row, column):\n    raise KeyboardInterrupt", CHECK], "wrong"),
        ("a generator", [SETUP, "def where_of_b(row, column):\n    yield 0, 0", CHECK], "wrong"),
        ("an endless integer", [SETUP, "def where_of_b(row, column):\n    return 1 << 10**7, 0", CHECK], "wrong"),
        ("a huge answer", [SETUP, "import numpy\ndef where_of_b(row, column): return numpy.zeros(10**8)", CHECK], None),
        ("nested lists", [SETUP, ("def where_of_b(row, column):\n    deep = []\n    for _ in range(99): deep = [deep]\n"
                                 "    return deep"), CHECK], "wrong"),
        ("an object that lies", [SETUP, ("class Liar:\n    __class__ = tuple\n    def __repr__(self): 1 / 0\n"
                                        "    def __getattr__(self, name): return lambda *_: (0, 0)\n"
                                        "def where_of_b(row, column):\n    return Liar()"), CHECK], "wrong"),
        ("threads that go on", [("import threading\ndef on():\n    while True: pass\n"
                                "threading.Thread(target=on, daemon=True).start()"), HONEST], "right"),
        ("the answers of another variant", [SETUP, WRONG, CHECK, HONEST, CHECK], "right"),
    ],
    lambda what, sources, state: what,
)  # fmt: skip
def test_what_hostile_notebooks_get(what, sources, state):
    mark = marks(*sources)["where_of_b"]
    if state is None:  # whatever comes of it, nothing is earned without the right answer
        assert mark.state != "right" or HONEST in sources
    else:
        assert mark.state == state, mark.says
    assert mark.points == mark.of if mark.state == "right" else mark.points < 0.1 * mark.of


LOOPS = {
    "in a cell": ["while True: pass"],
    "in a destructor": ["class Loop:\n    def __del__(self):\n        while True: pass\nloop = Loop()\ndel loop"],
    "in C": ["import re\nre.match('(a*)*b', 'a' * 60)"],
    "deaf to signals": [("import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
                        "while True: pass")],
}  # fmt: skip
SHORT = Seat(limits=Limits(cell=2, notebook=20, memory=1 << 30))


@rows("where", LOOPS)
def test_an_endless_loop_costs_its_cell_alone(where):
    begun = time.monotonic()
    held = marks(*LOOPS[where], HONEST, seat=SHORT)["where_of_b"]
    assert held.state == "right", held.says
    assert time.monotonic() - begun < 20


def test_an_endless_answer_costs_its_exercise_alone():
    loop = "def where_of_bytes(row, column):\n    while True: pass\ncheck(where_of_bytes)"
    found = marks(SETUP, HONEST, loop, CHECK, names=("where_of_b", "where_of_bytes"), seat=SHORT)
    assert [(mark.state, mark.says) for mark in found.values()] == [
        ("right", "Right in 128 cases."), ("failed", "It did not end within 2 seconds."),
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
    """A kernel that sends operations of its own making, with registers and lanes that there are not."""
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


COPIED = "numbers = given('pack_s4').numbers\npack_s4 = sum((int(n) & 15) << 4 * at for at, n in enumerate(numbers))"


def test_an_answer_to_another_variant_is_wrong():
    """`given` asks outside whose numbers they are, and the answer is compared with those."""
    name, check = "pack_s4", "check(pack_s4=pack_s4)"
    (own,) = marks(SETUP, COPIED, check, names=(name,)).values()
    numbers = exercise(name).given("bob").numbers
    copied = f"pack_s4 = {sum((int(number) & 15) << 4 * at for at, number in enumerate(numbers))}"
    (mark,) = marks(SETUP, copied, check, names=(name,)).values()
    assert (own.state, mark.state) == ("right", "wrong"), own.says
