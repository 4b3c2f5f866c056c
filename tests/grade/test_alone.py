"""What an exercise asks for without tcemu works where tcemu is not: in a second box, without the package's files.

There the student's process has nothing to call, whatever it has patched, and a table that tcemu computes is empty.
"""

import re
from dataclasses import replace

import pytest
from boxed import CHECK, HONEST, SEAT, Probe, marks, needs_box
from handed import notebook
from places import ROOT
from rows import rows

from tcemu.course import exercise, exercises
from tcemu.course.judges import Kernel
from tcemu.grade.box import Seat
from tcemu.grade.marking import marks_of
from tcemu.grade.unseen import works_alone, works_apart

IMPORT = """import sys, numpy as np, tcemu
from tcemu.course import check, given
mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
a, b = mma.fragments["a"], mma.fragments["b"]
"""
#: Takes the watcher's eyes in the box: whatever the answer enters is not noted.
BLIND = """import tcemu.entered, tcemu.grade.inside.session as s
tcemu.entered.Entered.called = lambda *_: None
tcemu.entered.Entered.call = lambda self, function, *case: function(*case)
s.Session.do_entered = lambda *_: ["entered", []]
"""
#: What is not an answer without tcemu ...
CHEATS = [
    "def fragment_by_hand(A):\n    return a.pack(A)\ncheck(fragment_by_hand)",
    """
held = {(r, c): b.layout.holders(r, c)[0] for r in range(16) for c in range(8)}
def where_of_b(row, column):
    lane, slot = held[row, column]
    return lane, slot // 2
check(where_of_b)
""",
]
#: ... and what is: with sizes from tcemu, a comparison that fails without it, and a table of one's own.
FAIR = [
    """
lanes, registers = a.lanes, a.registers
shape = a.shape
assert a.pack(np.zeros(a.shape, np.float16)).shape == (lanes, 4)
def where_of_a(row, column):
    return 4 * (row % 8) + column % 8 // 2, column // 8 * 2 + row // (shape[0] // 2) + registers - 4
check(where_of_a)
""",
    """
table = {}
def build(into):
    for r in range(16):
        for c in range(32):
            into[r, c] = 4 * (r % 8) + c // 4 % 4, 2 * (c // 16) + r // 8, c % 4
build(table)
""",
    "def where_of_bytes(row, column):\n    return table[row, column]\ncheck(where_of_bytes)",
    "def nearest_tf32(bits):\n    return bits + np.uint32(0x1000) & np.uint32(0xFFFFE000)\ncheck(nearest_tf32)",
]
ALL = ("where_of_b", "where_of_a", "where_of_bytes", "fragment_by_hand", "nearest_tf32")


@needs_box
@pytest.mark.slow
def test_what_forbids_tcemu_cannot_be_patched_away_nor_filled_beforehand():
    """One notebook: two answers that cheat, in a process without a watcher, and three that do not."""
    cells = [IMPORT + BLIND, *CHEATS, *FAIR]
    found = marks(*cells, names=ALL)
    assert {name: mark.state for name, mark in found.items()} == {
        "where_of_b": "wrong", "where_of_a": "right", "where_of_bytes": "right", "fragment_by_hand": "wrong",
        "nearest_tf32": "right",
    }  # fmt: skip
    for name in ("where_of_b", "fragment_by_hand"):
        assert found[name].points == 0
        assert found[name].says.startswith("This needs tcemu: the answer, and every table that it looks up")


def test_it_is_so_without_bubblewrap_too_where_only_the_imports_are_absent():
    table = "held = {(r, c): b.layout.holders(r, c)[0] for r in range(16) for c in range(8)}\n"
    answer = "def where_of_b(row, column):\n    return held[row, column][0], held[row, column][1] // 2"
    trusted = Seat(trusted=True)
    assert marks(IMPORT, table + answer, CHECK, seat=trusted)["where_of_b"].points == 0
    (mark,) = marks_of("02_fragments", notebook(IMPORT, HONEST, CHECK), {"where_of_b": exercise("where_of_b")}, "ada",
                       trusted, "key")  # fmt: skip
    assert mark.state == "right"


@needs_box
def test_nothing_of_the_package_is_in_the_box():
    probe = Probe(replace(SEAT, alone=True))
    with probe.box:
        _looks(probe)


def _looks(probe):
    found = probe.finds(
        "import os, sys\n"
        "home = os.path.dirname(sys.modules['tcemu'].__file__)\n"
        "X = sorted(os.path.relpath(os.path.join(folder, name), home) for folder, _, names in os.walk(home) "
        "for name in names if name.endswith('.py'))"
    )
    assert found == sorted((
        "__init__.py", "cells.py", "entered.py", "errors.py", "manual.py", "tracebacks.py", "version.py",
        "grade/__init__.py", *(f"grade/inside/{name}.py" for name in (
            "__init__", "__main__", "absent", "alone", "course", "outcomes", "session", "warp", "wire")),
    ))  # fmt: skip
    assert probe.finds("from tcemu.layouts import Fragment\nfrom tcemu import run\nX = type(run).__name__") == "Absent"


def test_few_facts_are_told_and_no_large_ones():
    """Nine results of tcemu's, the first of them too large: where tcemu is not, six of the others are told."""
    sizes = "\n".join(f"n{each} = b.holders({each}, 0)[0][0] + {9000 if not each else 1}" for each in range(9))
    asked = """
def where_of_b(row, column):
    told = sum(f'n{each}' in globals() for each in range(9))
    if told == 9 or (told == 6 and 'n0' not in globals()):
        return 4 * column + row // 2 % 4, row // 8
    return 0, 0
"""
    assert marks(IMPORT, sizes, asked, CHECK, seat=Seat(trusted=True))["where_of_b"].state == "right"


def test_the_guide_names_what_each_kind_of_exercise_leaves_open():
    """Whoever adds an exercise that is not judged without tcemu says so to teachers."""
    text = (ROOT / "classroom" / "README.md").read_text(encoding="utf-8")
    lines = text.partition("What remains for somebody")[2].partition("| the mark |")[0].splitlines()
    named = [set(re.findall(r"`(\w+)`", line.split("|")[1])) for line in lines if line.startswith("| ")][2:]
    apart, watched, kernels, fixed = named
    others = {name: each for name, each in exercises().items() if not works_alone(each)}
    functions = {name: each for name, each in others.items() if not isinstance(each.judge, Kernel)}
    assert apart == {name for name, each in functions.items() if works_apart(each)}
    assert watched == {name for name, each in functions.items() if each.unseen("")} - apart
    assert fixed == {name for name, each in functions.items() if not each.unseen("")}
    assert all(exercises()[name].only is None for name in fixed)
    assert kernels == set()


#: A table that is filled where tcemu is, and the answer that looks it up.
FILL = """
try:
    T = {(r, c): b.layout.holders(r, c)[0] for r in range(16) for c in range(8)}
except BaseException:
    T = {}
"""
LOOK_UP = """
def where_of_b(row, column):
    lane, slot = T.get((row, column), (0, 0))
    return lane, slot // 2
check(where_of_b)
"""
SESSION = """
import gc
from tcemu.grade.inside.session import Session
S = [each for each in gc.get_objects() if type(each) is Session][0]
"""
#: Ways to bring the table into the second box, or tcemu.
SMUGGLED = [
    ("a file", ("import os, pickle\nif T: pickle.dump(T, open('/tmp/t', 'wb'))\n"
     "else: T = pickle.load(open('/tmp/t', 'rb'))")),
    ("forged facts", f"{SESSION}\nSession.do_facts = lambda *_: ['facts', [['T', T], [[], 1], 7, ['m', True]] * 1000]"),
    ("a question to the first box", (f"{SESSION}\nfor q in (('value', 'T'), ('fact', 'T'), ('fact', [])):\n"
     "    try: T = T or S.ask(*q)\n    except Exception: pass")),
    ("the package itself", ("for m in [m for m in sys.modules if m.startswith('tcemu.')]: del sys.modules[m]\n"
     f"sys.meta_path[:] = sys.meta_path[1:]\nimport tcemu.layouts\n{IMPORT}{FILL}")),
    ("a process that ends there", "if not T:\n    import ctypes\n    ctypes.string_at(0)"),
]  # fmt: skip


@pytest.mark.slow
@needs_box
@rows("what, code", SMUGGLED, lambda what, _: what)
def test_nothing_is_brought_into_the_box_without_tcemu(what, code):
    mark = marks(IMPORT + FILL, code, LOOK_UP)["where_of_b"]
    assert (mark.state, mark.points) == ("wrong", 0), what
