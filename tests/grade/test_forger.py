"""A forger with the course's source in hand stores what is right for his own numbers: it earns next to nothing.

Functions and kernels are judged on numbers that follow from the teacher's key, and a function whose values are few may
not be a table in the notebook's text.
"""

import ast
from itertools import product

import numpy as np
import pytest
from handed import notebook
from places import ROOT
from quick import spread, turn

from tcemu.course import exercise, judges
from tcemu.course.checking import judged
from tcemu.course.running import Cell
from tcemu.course.solutions import BEGIN, END, solutions
from tcemu.errors import CourseError
from tcemu.grade.box import Limits, Seat
from tcemu.grade.marking import marks_of
from tcemu.grade.tables import table
from tcemu.grade.unseen import judged_twice, key_of

NOTEBOOKS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))
TRUSTED = Seat(trusted=True, limits=Limits(cell=60, notebook=600))
#: Points that constants still earn: answers that are constants by nature, whose way nobody can see.
BY_NATURE = {"fused_sum_by_hand": 2, "whose_bits": 2, "parts_of_k": 2, "order_of_wgmma": 1}


#: A kernel that stores constants: the forger's, for all exercises.
STORES = """
R_{name} = {words}
def {name}(warp, *args):
    out = args[{out}].at(*[0] * len(args[{out}].shape))
    if warp.warpid == 0 and warp.ctaid == (0, 0, 0):
        for i in range(0, {count}, 32):
            with warp.only(warp.laneid + i < {count}):
                warp.st_global(out + 4 * (i + warp.laneid), R_{name}[i : i + 32])
"""


def source(value):
    """A value as Python's code."""
    array = np.asarray(value)
    if array.dtype == np.uint8:
        return f"np.frombuffer({array.tobytes()!r}, np.uint8).reshape({array.shape})"
    return f"np.frombuffer(bytes.fromhex({array.tobytes().hex()!r}), np.{array.dtype}).reshape({array.shape}).copy()"


def forged(name, student):
    """Code that answers with what is right for this student, or None where the judge cannot be asked for it."""
    each = exercise(name)
    judge, given = each.judge, each.given(student)
    if isinstance(judge, judges.Kernel):
        right = np.asarray(judge.right(given))
        held = np.asarray(right, judge.args(given)[judge.out].dtype).reshape(-1)
        words = np.frombuffer(held.tobytes().ljust(-(-held.nbytes // 128) * 128, b"\0"), np.uint32)
        return STORES.format(name=name, words=source(words), out=list(judge.args(given)).index(judge.out),
                             count=held.nbytes // 4)  # fmt: skip
    if isinstance(judge, judges.Function):
        cases = list(product(*judge.over.values()))
        rows = np.asarray(judge.right(*np.array(cases, np.int64).T)).reshape(len(cases), -1).tolist()
        answers = dict(zip(cases, [row[0] if len(row) == 1 else tuple(row) for row in rows], strict=True))
        return f"T_{name} = {answers}\n{name} = lambda *case: T_{name}.get(case, 0)"
    if isinstance(judge, judges.Descriptors):
        answers = {tuple(case.values()): judge.right(**case).encode() for case in judge.cases}
        return f"T_{name} = {answers}\n{name} = lambda *case: T_{name}.get(case, 0)"
    if isinstance(judge, judges.Values):
        right = np.asarray(judge.right(given), judge.dtype)
        if each.calls:
            return f"R_{name} = {source(right)}\n{name} = lambda *given: R_{name}"
        return f"{name} = {right.tolist()}" if right.ndim else f"{name} = {right.item()!r}"
    return None


def attack(path, student="eve"):
    """The marks of a notebook of forged answers, and the exercises that a judge says are right for the student."""
    names = [each.name for each in solutions(path)]
    cells, answered = ["import numpy as np\nfrom tcemu.course import check"], []
    for name in names:
        code = forged(name, student)
        if code is not None:
            cells += [code, f"check({name}={name})"]
            answered.append(name)
    wanted = {name: exercise(name) for name in names}
    return marks_of(path.stem, notebook(*cells), wanted, student, TRUSTED, "the key"), answered


@pytest.mark.slow
@pytest.mark.parametrize("path", spread(NOTEBOOKS, 3, first=turn(3)), ids=lambda path: path.stem)
def test_constants_and_tables_earn_nothing(path):
    found, answered = attack(path)
    assert answered
    earned = {mark.exercise: mark.points for mark in found if mark.points}
    assert {name: points for name, points in earned.items() if points > BY_NATURE.get(name, 0)} == {}


def test_the_forgery_is_right_for_the_forgers_own_numbers():
    """Or the test above would show nothing."""
    for name in ("repair_swap", "e2m1_in_bytes", "where_of_b", "encode_descriptor"):
        namespace = {"np": np}
        exec(forged(name, "eve"), namespace)  # noqa: S102 - ours
        assert judged(exercise(name), namespace[name], "eve").state == "right"
        few = name == "where_of_b"  # whose table only the notebook's text gives away
        assert judged_twice(exercise(name), namespace[name], "eve", "key").state == ("right" if few else "wrong")


def test_a_table_of_a_few_hundred_results_is_found_in_the_text():
    cells = [Cell("1", "import numpy as np"), Cell("2", forged("where_of_b", "eve"))]
    verdict = judged_twice(exercise("where_of_b"), lambda r, c: (4 * c + r // 2 % 4, r // 8), "eve", cells=cells)
    assert (verdict.state, verdict.points) == ("wrong", 0)
    assert "written in the notebook as a table" in verdict.says


@pytest.mark.parametrize(("what", "cells"), [
    ("numbers in a list elsewhere", ["rows = [" + "1, " * 128 + "]", "where_of_b = lambda r, c: rows[8 * r + c]"]),
    ("words of a text", ["rows = '" + "1 " * 128 + "'.split()", "where_of_b = lambda r, c: int(rows[8 * r + c])"]),
    ("a long number", [f"where_of_b = lambda r, c: {1 << 999} >> 8 * r + c & 1"]),
    ("bytes", [f"where_of_b = lambda r, c: {bytes(range(99))!r}[r]"]),
    ("letters", ["import zlib\nrows = '" + "eJwBAAD" * 9 + "'", "where_of_b = lambda r, c: rows[r]"]),
    ("branches", ["def where_of_b(r, c):\n" + "    if (r, c) == (1, 2): return 3, 1\n" * 99]),
])  # fmt: skip
def test_tables_come_in_many_forms(what, cells):
    assert table([Cell(str(number), text) for number, text in enumerate(cells)], "where_of_b", 128)


def test_solutions_are_no_tables():
    for path in NOTEBOOKS:
        for each in solutions(path):
            cases = getattr(exercise(each.name).judge, "cases_in_all", 0)
            cells = [Cell(str(number), text) for number, text in enumerate((*each.setup, each.code))]
            assert not cases or not table(cells, each.name, cases), each.name


def test_honest_functions_are_right_for_unseen_numbers():
    for name, answer in (
        ("dot_from_popc", lambda k, ones: k - 2 * ones),
        ("nearest_tf32", lambda patterns: patterns + np.uint32(0x1000) & np.uint32(0xFFFFE000)),
    ):
        assert judged_twice(exercise(name), answer, "ada", "key").state == "right"


def test_what_is_right_for_few_numbers_only_is_told_so_and_no_more():
    def dot_from_popc(k, ones):
        return k - 2 * ones if k in (128, 200, 256) else 0

    verdict = judged_twice(exercise("dot_from_popc"), dot_from_popc, "ada", "key")
    assert (verdict.state, verdict.points, verdict.mistake, verdict.finding.pictures) == ("wrong", 0, "", ())
    assert verdict.says == (
        "Right for the numbers of its own variant, but not for others: the grader also draws numbers that nobody has "
        "seen."
    )


@pytest.mark.parametrize(("rows", "earns"), [(5, True), (2, False)])
def test_of_a_part_the_least_counts_and_less_than_half_of_it_counts_as_nothing(rows, earns):
    """Seven of eight rows are right for the learner's own numbers, the first for others."""
    own = exercise("quantise_rows").given("ada").numbers

    def quantise_rows(numbers):
        right = np.rint(numbers / (np.abs(numbers).max(axis=1, keepdims=True) / np.float32(127))).astype(np.int8)
        right[7 if np.array_equal(numbers, own) else rows :] = 0
        return right

    first = judged(exercise("quantise_rows"), quantise_rows, "ada").points
    counts = judged_twice(exercise("quantise_rows"), quantise_rows, "ada", "key").points
    assert first > 0.6
    assert 0.5 * first < counts < first if earns else counts == 0


def test_unseen_numbers_depend_on_key_student_and_bytes():
    seen = []

    def nearest_tf32(patterns):
        seen.append(patterns.tobytes())
        return patterns + np.uint32(0x1000) & np.uint32(0xFFFFE000)

    def numbers(*about):
        seen.clear()
        judged_twice(exercise("nearest_tf32"), nearest_tf32, *about)
        return tuple(seen)

    first = numbers("ada", "key", b"bytes")
    assert len(set(first)) == 3, "the learner's own, and two more"
    assert first == numbers("ada", "key", b"bytes")
    others = {numbers("ada", "other", b"bytes"), numbers("ada", "key", b"others"), numbers("eve", "key", b"bytes")}
    assert len({first[1:], *(each[1:] for each in others)}) == 4


# ---------------------------------------------------------------------------------------------- no idea, no points


def untouched(each):
    """A solution's cell as a learner leaves it who only deletes what returns early."""
    before, _, rest = each.code.partition(BEGIN)
    return before + rest.partition(END)[2]


@pytest.mark.slow
def test_a_repair_that_repairs_nothing_earns_nothing():
    tried = 0
    for path in NOTEBOOKS:
        for each in solutions(path):
            code = untouched(each)
            try:
                ast.parse(code)
            except SyntaxError:
                continue  # nothing is left
            if "return" in each.code and each.name.startswith("repair_"):
                tried += 1
                assert each.verdict(code, "ada").points == 0, each.name
    assert tried >= 20


@pytest.mark.parametrize("name", [
    "fill_for_descriptor", "quantise_rows", "e4m3_patterns", "prune_a_row", "registers_of_scales", "e2m1_in_bytes",
    "without_zero_point", "nearest_tf32",
])  # fmt: skip
def test_zeros_and_what_was_given_earn_nothing(name):
    each = exercise(name)
    right = np.asarray(each.judge.right(each.given("ada")), each.judge.dtype)
    for answer in (np.zeros_like(right), *each.given("ada").values()):
        if np.shape(answer) == right.shape:
            assert judged(each, lambda *given, answer=answer: answer.astype(right.dtype), "ada").points < 0.01, name


def test_a_part_that_takes_work_still_earns_its_share():
    def quantise_rows(numbers):
        right = np.rint(numbers / (np.abs(numbers).max(axis=1, keepdims=True) / np.float32(127))).astype(np.int8)
        right[6:] = 0
        return right

    assert 0.5 < judged(exercise("quantise_rows"), quantise_rows, "ada").finding.share < 0.8


def test_an_array_is_no_function():
    each = exercise("fragment_by_hand")
    right = each.judge.right(each.given("ada"))
    verdict = judged(each, right, "ada")
    assert (verdict.state, verdict.points) == ("wrong", 0)
    assert verdict.says.startswith("These values are right, but the answer must be a function")


# ---------------------------------------------------------------------------------------------- the key


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path):
    key = key_of(tmp_path / "grades")
    path = tmp_path / "grades" / "course.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert key_of(tmp_path / "grades") == key
    assert key_of(tmp_path / "others") != key
    path.write_text("short")
    with pytest.raises(CourseError, match="is not a key of a course: it has 5 characters, not 64"):
        key_of(tmp_path / "grades")
