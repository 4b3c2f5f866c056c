"""A box and the machine outside give the verdicts that `check` gives."""

import json
import re

import numpy as np
import pytest
from boxed import HONEST, SEAT, marks, needs_box
from handed import notebook
from places import ROOT
from quick import spread, turn
from rows import rows

from tcemu.course import exercise, exercises, judged
from tcemu.course.judges import Kernel
from tcemu.course.solutions import solutions, wrong_answers
from tcemu.grade.box import Seat
from tcemu.grade.marking import marks_of
from tcemu.grade.marks import mark_of

NOTEBOOKS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))
#: Notebooks with every kind of judge: maps, values, kernels with barriers, copies and wgmma.
FEW = ("02_fragments", "05_moving_matrices", "12_gemm")
#: These, and a sixth of the others, every day another one.
BOXED = [path for path in NOTEBOOKS if path.stem in FEW or path in spread(NOTEBOOKS, 6, first=turn(6))]


def handed_in(path, code=None):
    """A notebook of solutions as a student hands it in, and its exercises; `code` replaces some solutions by name."""
    every = list(solutions(path))
    cells = [*every[0].setup]
    for each in every:
        cells += [(code or {}).get(each.name, each.code), each.asked]
    return notebook(*cells), {each.name: exercise(each.name) for each in every}


@needs_box
@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=() if path.stem in FEW[:1] else pytest.mark.slow) for path in BOXED
])  # fmt: skip
def test_every_solution_is_right_in_a_box(path):
    """The solutions earn all points here, as they do with `check` (tests/course/test_exercises.py)."""
    content, wanted = handed_in(path)
    found = marks_of(path.stem, content, wanted, "ada", SEAT)
    assert [(mark.exercise, mark.says) for mark in found if mark.state != "right"] == []
    assert [mark.points for mark in found] == [wanted[mark.exercise].points for mark in found]


def test_every_exercise_is_among_them():
    names = [each.name for path in NOTEBOOKS for each in solutions(path)]
    assert set(names) == set(exercises(ROOT))


#: Kernels with mistakes, each with words of what the sanitizer, the machine or the comparison says outside.
KERNELS = [
    ("without a barrier", ("warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))\n"
     "    warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))")),
    ("an address outside", "warp.st_global(out.at(warp.laneid + 1), 1)"),
    ("an illegal instruction", "warp.run('mma.sync.aligned.m16n8k15', 1)"),
    ("an operand of another shape", "warp.st_global(out.at(warp.laneid), np.zeros(3))"),
    ("an error of its own", "raise ValueError('no idea')"),
    ("a deadlock", "warp.bar_sync(1, 64)"),
    ("nothing", "return ..."),
    ("a generator", "yield"),
    ("unwritten registers", "c = warp.registers(1)\n    warp.st_global(out.at(warp.laneid), c + 1)"),
    ("a part of the lanes", ("with warp.only(warp.laneid < 7):\n        warp.st_global(out.at(warp.laneid), "
     "warp.ld_global(x.at(31 - warp.laneid)))")),
    ("early exit", ("with warp.only(warp.laneid < 7):\n        warp.exit()\n    warp.st_global(out.at(warp.laneid), "
     "warp.ld_global(x.at(31 - warp.laneid)))")),
    ("registers written in place", ("c = warp.registers(2, fill=3)\n    c[:, 1] = warp.laneid\n"
     "    c[warp.laneid > 5, 0] = 7\n    warp.st_global(out.at(warp.laneid), c[:, 0] + c[:, 1])")),
    ("other lanes' values", ("d = warp.shfl_sync('bfly', warp.ld_global(x.at(warp.laneid)), 31)\n"
     "    warp.st_global(out.at(warp.laneid), d)")),
    ("registers that are read last", "c = warp.registers(1, fill=3)\n    return c[0, 0] == 4"),
    ("votes and sums", ("p = warp.vote_sync('ballot', warp.laneid % 2 == 1)\n"
     "    s = warp.redux_sync('add.u32', warp.laneid)\n    warp.st_global(out.at(warp.laneid), s + p)")),
]  # fmt: skip


@pytest.mark.slow
@needs_box
@rows("what, body", KERNELS, lambda what, body: what)
def test_a_kernel_gets_the_same_verdict_as_with_check(what, body):
    source = f"import numpy as np\ndef repair_swap(warp, x, out):\n    {body}"
    namespace = {}
    exec(source, namespace)  # noqa: S102 - the kernels above
    here = mark_of("02_fragments", judged(exercise("repair_swap"), namespace["repair_swap"], "ada"))
    (mark,) = marks(source, "from tcemu.course import check\ncheck(repair_swap)", names=("repair_swap",)).values()
    assert (mark.state, mark.points, mark.mistake) == (here.state, here.points, here.mistake), (mark.says, here.says)
    assert _without_lines(mark.says) == _without_lines(here.says)


def _without_lines(says):
    """What is said, without the places of lines."""
    return re.sub(r" \(line [^)]*\)|\S*:\d+|<string>|02_fragments\S*|^ *\d* *\|.*$|>.*$", "", says, flags=re.MULTILINE)


@pytest.mark.slow
@needs_box
def test_wrong_answers_get_the_same_verdict_as_with_check():
    """Every wrong answer that is a value, in one box: the mistake has the same name; kernels are judged elsewhere."""
    values = {}
    for name, answers in wrong_answers(ROOT / "solutions").items():
        for each in () if isinstance(exercise(name).judge, Kernel) else answers:
            answer = each.of(exercise(name).given("ada"))
            if isinstance(answer, int | float | tuple | list | str | np.ndarray) and name not in values:
                values[name] = answer
    found = marks("import numpy as np", *(f"{name} = {_source(value)}" for name, value in values.items()), names=values)
    for name, mark in found.items():
        here = mark_of("02_fragments", judged(exercise(name), values[name], "ada"))
        assert (mark.state, mark.points, mark.mistake, mark.says) == (here.state, here.points, here.mistake, here.says)
    assert len(found) == len(values) > 5


def _source(value):
    """Python for a value."""
    return f"np.array({value.tolist()}, {value.dtype.name!r})" if isinstance(value, np.ndarray) else repr(value)


@needs_box
@pytest.mark.parametrize(("name", "called", "code"), [
    ("fragment_by_hand", "Fragment.pack", ("from tcemu.layouts.fragment import Fragment\n"
     "p = getattr(Fragment, 'pa' + 'ck')\nfragment_by_hand = lambda A: p(mma.fragments['a'], A)")),
    ("wgmma_gemm", "kernel", ("from functools import partial\nfrom tcemu.gemm import wgmma_tma\n"
     "plan = Plan(columns=64, stages=2)\n"
     "def wgmma_gemm(warp, *given):\n    partial(wgmma_tma.kernel, warp, plan)(*given)")),
])  # fmt: skip
def test_what_an_answer_may_not_call_it_may_not_call_in_a_box(name, called, code):
    (path,) = (path for path in NOTEBOOKS if name in {each.name for each in solutions(path)})
    content, wanted = handed_in(path, {name: code})
    (mark,) = marks_of(path.stem, content, {name: wanted[name]}, "ada", SEAT)
    assert (mark.state, mark.points) == ("wrong", 0)
    assert f"calls {called} of tcemu, which it may not" in mark.says


@needs_box
def test_the_last_warp_is_watched_to_its_end():
    name = "summed_by_warps"
    every = {each.name: each for path in NOTEBOOKS for each in solutions(path)}
    zeros = "np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)"
    calls = f"{every[name].code}\n    if warp.warpid == 3:\n        tcemu.matmul({zeros}, instruction=mma)"
    content = notebook(*every[name].setup, calls, every[name].asked)
    (mark,) = marks_of("06", content, {name: exercise(name)}, "ada", SEAT)
    assert (mark.state, mark.points) == ("wrong", 0)
    assert "calls matmul of tcemu, which it may not" in mark.says


def test_trusted_work_runs_without_a_box():
    (mark,) = marks(HONEST, seat=Seat(trusted=True)).values()
    assert mark.state == "right"


@needs_box
def test_of_several_checks_the_last_one_counts():
    answer = "def where_of_b(row, column):\n    return 4 * column + row // 2 % 4, row // {}\ncheck(where_of_b)"
    (mark,) = marks("from tcemu.course import check", answer.format(8), answer.format(4)).values()
    assert mark.state == "wrong"


@needs_box
def test_a_mark_is_the_same_every_time():
    source = "def where_of_b(row, column):\n    return hash(str(set('abc'))) % 32, row"
    one, other = (json.dumps([vars(mark) for mark in marks(source).values()]) for _ in range(2))
    assert one == other
