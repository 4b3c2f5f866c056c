"""Whatever a learner passes to check gets a verdict that teaches, from plain arrays, and never an error of ours."""

import numpy as np
import pytest
from hypothesis import given, strategies
from hypothesis.extra import numpy as arrays
from quick import examples, some
from rows import rows

from tcemu.course import Exercise, Given, Verdict, exercises, judged, judges

OPCODE = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def exercise(judge, **more):
    """An exercise with nothing but a judge."""
    return Exercise("odd", "Odd", "Write `odd`.", judge, minutes=1, know="nothing", hints=("None.",), **more)


FUNCTION = exercise(judges.where_map(OPCODE, "a"))
ARRAY = exercise(judges.Values(lambda given: np.arange(6).reshape(2, 3), np.uint32))
FLOATS = exercise(judges.Values(lambda given: np.array([0.0, -0.0, np.nan, 1.5]), np.float32))
NUMBER = exercise(judges.Values(lambda given: 7, np.uint32))
CRAFTED = exercise(judges.Crafted({"A": ((2,), np.float16), "k": ((), np.int32)}, lambda arrays, given: "No."))
KERNEL = exercise(judges.Kernel(lambda given: {"x": np.zeros(32, np.uint32)}, "x", lambda given: np.ones(32), {}))
ALL = {"function": FUNCTION, "array": ARRAY, "floats": FLOATS, "number": NUMBER, "crafted": CRAFTED, "kernel": KERNEL}


class Agreeable:
    """Equal to everything, and true in every sense."""

    __hash__ = None

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __bool__(self):
        return True


class Raising:
    """Raises whatever anybody does with it."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("repr")

    def __array__(self, *given, **more):
        raise SystemExit(3)

    def __eq__(self, other):
        raise RuntimeError("eq")

    __hash__ = None


class EndlessTuple(tuple):
    """A tuple that never ends, and that claims to equal everything."""

    __slots__ = ()
    __hash__ = None

    def __iter__(self):
        while True:
            yield 0

    def __eq__(self, other):
        return True


class Sneaky(int):
    """An int that claims to be another."""

    def __int__(self):
        return 7

    __index__ = __int__

    def __eq__(self, other):
        return True

    __hash__ = None


class Agreeing(np.ndarray):
    """An array that agrees with everything."""

    def __eq__(self, other):
        return np.ones(self.shape, bool)

    __hash__ = None


def endless():
    while True:
        yield 0


def recursing(*values):
    return recursing(*values)


def leaving(*values):
    raise SystemExit(0)


async def waiting(*values):
    return 0, 0


ODD = {
    "an object that equals everything": Agreeable(),
    "an object that raises": Raising(),
    "a generator": endless(),
    "an endless tuple": EndlessTuple((1, 2)),
    "an int that lies": Sneaky(3),
    "an array that agrees": np.zeros((2, 3), np.uint32).view(Agreeing),
    "objects in an array": np.array([Agreeable()] * 6, object).reshape(2, 3),
    "a huge int": 10**5000,
    "a negative": -1,
    "text": "0x7",
    "bytes": b"7",
    "nothing much": "",
    "a dict": {"A": 1, "k": Raising()},
    "a set": {1, 2},
    "ragged": [[1], [2, 3]],
    "complex": 7j,
    "infinity": float("inf"),
    "a NaN": float("nan"),
    "dates": np.array(["2026-01-01"], "M8[D]"),
    "records": np.zeros(2, [("a", int)]),
    "a type": int,
    "a module": np,
    "a function that recurses": recursing,
    "a function that exits": leaving,
    "a function that waits": waiting,
    "a function of nothing": lambda: 0,
    "a lambda that returns an oddity": lambda *values: Raising(),
    "a lambda that returns an endless tuple": lambda *values: EndlessTuple((1, 2)),
    "a lambda that returns a generator": lambda *values: endless(),
    "a lambda that returns lists of oddities": lambda *values: [Agreeable(), Agreeable()],
    "a lambda that returns lies": lambda *values: (Sneaky(1), Sneaky(2)),
    "a lambda that returns huge numbers": lambda *values: ((-1) ** values[0] * 10**30, -(10**30)) if values else 0,
    "a lambda that returns an array": lambda *values: np.array([1, 2, 3]),
    "an exception": ValueError("?"),
}  # fmt: skip


@rows("name, odd", ODD.items(), lambda name, odd: name)
def test_an_odd_answer_is_refused_with_words(name, odd):
    for wanted in ALL.values():
        verdict = judged(wanted, odd)
        assert isinstance(verdict, Verdict)
        assert verdict.state in ("wrong", "open")
        assert verdict.says
        assert len(str(verdict)) < 3000
        assert verdict._repr_mimebundle_()["text/html"]


@pytest.mark.slow
@rows("wanted", some(exercises().values(), 30), lambda wanted: wanted.name)
def test_every_exercise_of_the_course_refuses_odd_answers(wanted):
    for name, odd in ODD.items():
        verdict = judged(wanted, odd)
        assert verdict.state in ("wrong", "open"), name
        assert verdict.says, name
        assert verdict.finding.share < 1


@examples(200)
@given(
    strategies.recursive(
        strategies.none() | strategies.integers() | strategies.floats() | strategies.text(max_size=3)
        | strategies.booleans() | arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(max_dims=3, max_side=3)),
        lambda inner: strategies.lists(inner, max_size=3) | strategies.tuples(inner, inner)
        | strategies.dictionaries(strategies.text(max_size=2), inner, max_size=2),
        max_leaves=6,
    )
)  # fmt: skip
def test_any_data_gets_a_verdict(answer):
    for wanted in (ARRAY, FLOATS, NUMBER, CRAFTED, FUNCTION):
        assert judged(wanted, answer).says
    assert judged(FUNCTION, lambda row, column: answer).says


@examples(100)
@given(arrays.arrays(arrays.integer_dtypes() | arrays.unsigned_integer_dtypes(), (2, 3)))
def test_whole_numbers_count_in_any_dtype_that_holds_them(values):
    verdict = judged(ARRAY, values)
    assert bool(verdict) == (values.tolist() == [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("dtype", ["u1", "i2", ">u4", ">i8", "f8"])
def test_the_right_numbers_count_in_other_dtypes(dtype):
    assert judged(ARRAY, np.arange(6).reshape(2, 3).astype(dtype))


def test_bits_count_and_not_values():
    right = np.array([0.0, -0.0, np.nan, 1.5], np.float32)
    assert judged(FLOATS, right)
    for at, other in ((0, -0.0), (1, 0.0), (3, -1.5)):
        wrong = right.copy()
        wrong[at] = other
        assert not judged(FLOATS, wrong)
    payload = right.view(np.uint32)
    payload[2] ^= 1
    assert not judged(FLOATS, payload.view(np.float32))


def test_a_float_array_is_no_array_of_bits():
    verdict = judged(ARRAY, np.ones((2, 3), np.float32))
    assert "Use .view(uint32) to keep the bits, not astype" in verdict.says


def test_what_prints_prints_a_little(capsys):
    def odd(row, column):
        print("row", row, "column", column)
        return 0, 0

    assert judged(FUNCTION, odd).state == "wrong"
    told = capsys.readouterr().out
    assert told.startswith("row 0 column 0\nrow 0 column 1\n")
    assert "more characters printed" in told
    assert len(told) < 2200


def test_an_answer_cannot_change_what_is_right():
    """A function gets copies of arrays: changing them changes nothing else."""
    judge = judges.Values(lambda given: given.A.sum(), np.int64)
    vary = exercise(judge, draw=lambda rng: {"A": rng.integers(1, 9, 4)})

    def odd(A):
        A[:] = 0
        return 0

    assert not judged(vary, odd)
    assert judged(vary, lambda A: A.sum())


def test_evidence_is_plain_arrays():
    """An answer that another process judges contains no objects of the learner's."""

    def odd(row, column):
        return Sneaky(1), np.int8(2)

    for wanted, answer in ((FUNCTION, odd), (ARRAY, np.zeros((2, 3), np.uint32).view(Agreeing)), (NUMBER, Sneaky(3))):
        for held in wanted.judge.collect(answer, Given()).values():
            assert type(held) is np.ndarray
            assert held.dtype.kind in "iufbU"
            assert held.flags.owndata or type(held.base) is np.ndarray
    assert wanted.judge.collect(Sneaky(3), Given())["values"] == 3


def test_dots_anywhere_are_no_answer():
    for dots in (..., (1, ...), [..., 2], [[..., 1, 2], [3, 4, 5]], lambda *values: ..., lambda *values: (..., 1)):
        assert judged(FUNCTION if callable(dots) else ARRAY, dots).state == "open"


def test_a_dict_without_a_key_says_which():
    pair = exercise(judges.Values(lambda given: [80, 2], np.int64, names=("target", "splits")))
    verdict = judged(pair, {"target": 80})
    assert (verdict.state, verdict.says) == (
        "wrong", "The answer has no 'splits'. It is a dict with the keys target and splits.",
    )  # fmt: skip
    assert judged(pair, {"splits": 2, "target": 80}).state == "right"
    assert judged(pair, {}).state == "open"


def test_a_long_array_is_named_and_not_printed():
    two = exercise(judges.Values(lambda given: 0, np.int64), draw=lambda rng: {"A": np.zeros((4, 4)), "k": 3})

    def odd(A, k):
        return k // 0

    assert judged(two, odd).says.startswith("odd(A, 3) raises ZeroDivisionError")


def test_a_name_that_a_cell_defines_is_asked_for():
    two = exercise(judges.Values(lambda given: 0, np.int64), draw=lambda rng: {"k": 3})

    def forgotten(k):
        return helper(k)  # noqa: F821 - that is the mistake

    assert judged(two, forgotten).says.endswith("If a cell above defines the name, run it first.")
