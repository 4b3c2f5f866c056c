"""Judges of fragments and sums name mistakes that are made here by hand, from the PTX manual's formulas and numpy."""

import re

import numpy as np
import pytest

import tcemu
from tcemu.course import Given, exercise, judges
from tcemu.gemm.wgmma_tma import Plan

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
NOTHING = Given()
RNG = np.random.default_rng(7)
A = RNG.normal(size=(16, 16)).astype(np.float16)


def mistake(judge, answer):
    finding = judge.mark(judge.collect(answer, NOTHING), NOTHING)
    assert not finding.right
    return finding.mistake


# Fragments ------------------------------------------------------------------------------------------------------------


def registers(place):
    """Registers of A in which element e of register r of a lane is A[place(lane, r, e)]."""
    out = np.zeros((32, 4), np.uint32)
    bits = A.view(np.uint16).astype(np.uint32)
    for lane, register, element in np.ndindex(32, 4, 2):
        out[lane, register] |= bits[place(lane, register, element)] << 16 * element
    return out


#: The map of A in the manual (9.7.14.5.8), with one thing wrong in each.
PLACES = {
    "In the register, you swapped column // 8 and row // 8.":
        lambda lane, r, e: (lane // 4 + 8 * (r // 2), lane % 4 * 2 + 8 * (r % 2) + e),
    "The row does not depend on register % 2, but it should. The column is right.":
        lambda lane, r, e: (lane // 4, lane % 4 * 2 + 8 * (r // 2) + e),
    "The two halves of each register are swapped: the first element is in the low half.":
        lambda lane, r, e: (lane // 4 + 8 * (r % 2), lane % 4 * 2 + 8 * (r // 2) + 1 - e),
    "In the lane, you swapped row % 8 and column // 2 % 4.":
        lambda lane, r, e: (lane % 8 + 8 * (r % 2), lane // 8 * 2 + 8 * (r // 2) + e),
    "The registers are in reverse order.":
        lambda lane, r, e: (lane // 4 + 8 * ((3 - r) % 2), lane % 4 * 2 + 8 * ((3 - r) // 2) + e),
    "You swapped row and column: this is the transposed map.":
        lambda lane, r, e: (lane % 4 * 2 + 8 * (r // 2) + e, lane // 4 + 8 * (r % 2)),
    "The row is right. The column does not depend on element, but it should.":
        lambda lane, r, e: (lane // 4 + 8 * (r % 2), lane % 4 * 2 + 8 * (r // 2)),
}  # fmt: skip


@pytest.mark.parametrize("says", PLACES)
def test_registers_that_are_filled_wrongly_are_named(says):
    assert mistake(judges.registers_of(MMA, "a", lambda given: A), registers(PLACES[says])) == says


def test_registers_that_are_filled_rightly_pass():
    right = registers(lambda lane, r, e: (lane // 4 + 8 * (r % 2), lane % 4 * 2 + 8 * (r // 2) + e))
    judge = judges.registers_of(MMA, "a", lambda given: A)
    assert judge.mark(judge.collect(right, NOTHING), NOTHING).right


@pytest.mark.parametrize(
    ("says", "what"),
    [
        ("The row does not depend on register % 2, but it should. The column is right.",
         lambda lane, r: (lane // 4, lane % 4 * 2 + 8 * (r // 2))),
        ("The row is right. In the column, lane % 4 has the factor 1, which is wrong.",
         lambda lane, r: (lane // 4 + 8 * (r % 2), lane % 4 + 8 * (r // 2))),
        ("The row is right. In the column, you take register % 2; another part of register belongs there.",
         lambda lane, r: (lane // 4 + 8 * (r % 2), lane % 4 * 2 + 8 * (r % 2))),
        ("You swapped row and column: this is the transposed map.",
         lambda lane, r: (lane % 4 * 2 + 8 * (r // 2), lane // 4 + 8 * (r % 2))),
        ("You swapped register // 2 and register % 2.",
         lambda lane, r: (lane // 4 + 8 * (r // 2), lane % 4 * 2 + 8 * (r % 2))),
    ],
)  # fmt: skip
def test_the_inverse_map_is_diagnosed_too(says, what):
    assert mistake(judges.what_map(MMA, "a"), what) == says


# Sums -----------------------------------------------------------------------------------------------------------------

#: Two steps along K.
LEFT, RIGHT = RNG.normal(size=(16, 32)).astype(np.float16), RNG.normal(size=(32, 8)).astype(np.float16)
C = RNG.normal(size=(16, 8)).astype(np.float32)
LEFT32, RIGHT32 = LEFT.astype(np.float32), RIGHT.astype(np.float32)


def step(first, c):
    return tcemu.matmul(LEFT[:, first : first + 16], RIGHT[first : first + 16], c, instruction=MMA)


def in_order():
    total = C
    for k in range(32):
        total = total + LEFT32[:, [k]] * RIGHT32[[k]]
    return total


SUMS = {
    "You left C out.": lambda: step(16, step(0, np.zeros_like(C))),
    "Only the last step along K is in the sum: the result of a step should be the C of the next.": lambda: step(16, C),
    "Only the first step along K is in the sum.": lambda: step(0, C),
    "This is a float32 loop, which rounds after every addition, in order, starting with C.": in_order,
    "This is the exact sum, rounded once: a tensor core truncates before it adds.":
        lambda: (LEFT.astype(float) @ RIGHT.astype(float) + C).astype(np.float32),
    "This is what sm_80 and sm_89 compute.":
        lambda: tcemu.matmul(LEFT, RIGHT, C, instruction=MMA, target="sm_80"),
    "B is read in the wrong order: rows for columns.":
        lambda: tcemu.matmul(LEFT, np.ascontiguousarray(RIGHT.T).reshape(32, 8), C, instruction=MMA),
    "The values are in column-major order: those of the transposed matrix, in the right shape.":
        lambda: np.ascontiguousarray(step(16, step(0, C)).T).reshape(16, 8),
}  # fmt: skip


@pytest.mark.parametrize("says", SUMS)
def test_sums_in_other_ways_are_named(says):
    judge = judges.fused_sum(MMA, lambda given: (LEFT, RIGHT, C))
    assert mistake(judge, SUMS[says]()) == says


@pytest.mark.parametrize("says", [says for says in SUMS if "K" in says or "C out" in says])
def test_kernels_that_forget_something_are_named(says):
    """The same mistakes in a kernel's output."""

    def kernel(warp, out):
        if warp.warpid == 0:
            lane = np.arange(32)
            for row in range(0, 16, 4):
                warp.st_global(out.at(row + lane // 8, lane % 8), wrong[row + lane // 8, lane % 8])

    wrong = SUMS[says]()
    judge = judges.Kernel(
        lambda given: {"out": np.zeros((16, 8), np.float32)}, "out",
        lambda given: tcemu.matmul(LEFT, RIGHT, C, instruction=MMA), {},
        judges.sums(MMA, lambda given: (LEFT, RIGHT, C)), schedules=((0, "late"),),
    )  # fmt: skip
    assert mistake(judge, kernel) == says


S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"


def test_signs_of_whole_numbers_are_named():
    a, b = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 32), (32, 8)))
    judge = judges.fused_sum(S8, lambda given: (a, b, np.zeros((16, 8), np.int32)))
    got = a.astype(np.int32) @ b.astype(np.uint8).astype(np.int32)
    assert mistake(judge, got) == "You read B with the wrong sign: signed as unsigned, or the other way round."


def test_an_answer_with_several_explanations_gets_all_or_none():
    """Two mistakes may give the same; if many do, none of them is known. Neither is one that explains little."""

    def named(*gives, got=(1, 2, 3, 4)):
        mistakes = [(f"{number}.", np.uint32(each)) for number, each in enumerate(gives)]
        judge = judges.Values(lambda given: [0, 0, 0, 0], np.uint32, lambda given: mistakes)
        return mistake(judge, got)

    assert named((1, 2, 3, 4), (9, 9, 9, 9)) == "0."
    assert named((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 5)) == "0. Or: 1."
    assert "0." not in named(*[(1, 2, 3, 4)] * 4)
    assert "0." not in named((1, 2, 3, 5))
    most = [*range(1, 20), 99]
    judge = judges.Values(lambda given: [0] * 20, np.uint32, lambda given: [("Almost.", np.arange(1, 21))])
    assert mistake(judge, most) == "Almost. That explains 95% of what is wrong."


def test_patterns_are_judged_as_bits():
    judge = judges.fused_sum(MMA, lambda given: (LEFT, RIGHT, C), lambda D: D[0, 0], patterns=True)
    right = step(16, step(0, C))[0, 0]
    assert judge.mark(judge.collect(int(right.view(np.uint32)), NOTHING), NOTHING).right
    assert not judge.mark(judge.collect(int(right.view(np.uint32)) ^ 1, NOTHING), NOTHING).right


def test_the_picture_of_a_function_counts_as_its_arguments_do():
    judge = judges.Function({"n": range(2, 4), "step": range(5, 8)}, ("rest",), lambda n, step: step % n)
    (drawn,) = judge.mark(judge.collect(lambda n, step: 0, NOTHING), NOTHING).pictures
    assert drawn.description == "Wrong: n 2, step 5: 0; n 2, step 7: 0; n 3, step 5: 0; n 3, step 7: 0."
    assert ">n 2<" in drawn.svg


@pytest.mark.slow
def test_the_plan_to_beat_keeps_the_tensor_cores_as_busy_as_its_task_says():
    wanted = exercise("better_plan")
    said = wanted.judge.mark(wanted.judge.collect(Plan(columns=64, stages=2, in_flight=1), NOTHING), NOTHING).says
    assert re.search(r"busy for (\d+)%", said)[1] == re.search(r"busy for (\d+) % of the cycles", wanted.task)[1]
