"""Explorers of sums: what each architecture aligns, cuts off and rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.errors import ArithmeticUnknown, OperandError, briefly, counted
from tcemu.formats.arrays import as_array
from tcemu.instructions import TARGETS, Instruction, matmul, parse
from tcemu.show.alignment import fused_model
from tcemu.show.explorers.explorer import Choice, Explorer, Range, ranges
from tcemu.show.picture import Picture


def sum_on_two_targets(
    instruction: str | Instruction,
    matrices: Sequence[npt.ArrayLike],
    first: str = "sm_80",
    second: str = "sm_90a",
    **start: int,
) -> Explorer:
    """One output's fused sums on two targets, with what each cuts off: lists of the targets, sliders for the output.

    `matrices` are A, B and C; `start` may give row and column. Raises OperandError as show.fused_sums_of does, and for
    a target that does not compute the instruction as fused sums.
    """
    found = parse(instruction)
    places = ranges({"row": found.shape.m - 1, "column": found.shape.n - 1}, start)

    def draw(first: str, second: str, row: int, column: int) -> Picture:
        return show.fused_sums_of(found, matrices, row, column, [first, second])

    return Explorer(draw, _two_targets(found, first, second) | places)


def one_among_powers(
    instruction: str | Instruction = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    first: str = "sm_80",
    second: str = "sm_90a",
    power: int = 25,
) -> Explorer:
    """2^power + 1 - 2^power, added up on two targets: the largest power that leaves the 1 tells how many bits are kept.

    The three terms are the products of the first three k of an otherwise empty A and B. Raises OperandError for a power
    whose factors A and B cannot hold, and for targets as sum_on_two_targets does.
    """
    found = parse(instruction)
    m, n, k = found.shape

    def draw(power: int, first: str, second: str) -> Picture:
        numbers = {"a": np.zeros((m, k)), "b": np.zeros((k, n)), "c": np.zeros((m, n))}
        high, low = 2.0 ** -(-power // 2), 2.0 ** (power // 2)
        numbers["a"][0, :3], numbers["b"][:3, 0] = (high, 1, -high), (low, 1, low)
        matrices = [found.types[role].encode(matrix) for role, matrix in numbers.items()]
        return show.fused_sums_of(found, matrices, 0, 0, [first, second])

    most = sum(int(math.log2(found.types[role].largest)) for role in "ab")
    return Explorer(draw, {"power": Range("power of two", most, power), **_two_targets(found, first, second)})


def _two_targets(instruction: Instruction, first: str, second: str) -> dict[str, Range | Choice]:
    """Lists of the targets that compute an instruction as fused sums: one for each chip, and those that are chosen."""
    having = {name: target for name, target in TARGETS.items() if instruction.gate.admits(target)}
    names = {*{target.number: name for name, target in reversed(having.items())}.values(), first, second}
    options = tuple(name for name in having if name in names and _fused(instruction, name))
    return {"first": Choice("first target", options, first), "second": Choice("second target", options, second)}


def _fused(instruction: Instruction, target: str) -> bool:
    try:
        return fused_model(instruction, target) is not None
    except ArithmeticUnknown:
        return False


def term_of_a_sum(
    instruction: str | Instruction,
    terms: Mapping[int, float],
    k: int = 1,
    halvings: int = 25,
    targets: Sequence[str] = ("sm_80", "sm_90a"),
) -> Explorer:
    """A sum of `terms`, by their k, and of one more, 2^-halvings, on several targets; sliders for its k and its size.

    The terms are elements of row 0 of A, and all elements of B are 1. Where there is a term already, the new one takes
    its place. Raises IllegalInstruction, and OperandError for a k that the instruction does not have.
    """
    found = parse(instruction)
    (m, n, depth), types = found.shape, found.types
    b, c = np.ones((depth, n), types["b"].dtype), np.zeros((m, n), types["c"].dtype)

    def draw(k: int, halvings: int) -> Picture:
        a = np.zeros((m, depth), types["a"].dtype)
        for place, term in {**terms, k: 2.0**-halvings}.items():
            a[0, place] = term
        return show.one_output(found, [a, b, c], targets=targets)

    wrong = [place for place in terms if place not in range(depth)]
    if wrong:
        raise OperandError(f"{found} has no product at k = {briefly(wrong[0])}; k goes from 0 to {depth - 1}")
    return Explorer(draw, {"k": Range("k", depth - 1, k), "halvings": Range("halvings", 40, halvings)})


def promoted_sum(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    promotions: int = 31,
    step: int = 128,
    target: str = "sm_90a",
) -> Explorer:
    """The error of D[0][0] as k grows, with and without promotion; a slider for the number of promotions.

    `a` (M, K) and `b` (K, N) are whole matrices, and the error is shown after each `step` of k. At a promotion, the
    accumulator is added to a float32 sum by an ordinary addition, and starts again from zero. The promotions are evenly
    spread over the steps. Raises what tcemu.matmul raises.
    """
    found = parse(instruction, target)
    left, right = as_array(a, "A")[: found.shape.m], as_array(b, "B")[:, : found.shape.n]
    ks = list(range(step, left.shape[1] + 1, step))
    exact = np.cumsum(left[0].astype(np.float64) * right[:, 0].astype(np.float64))[step - 1 :: step]

    def errors(promotions: int) -> list[float]:
        total, inner, after = np.float32(0), None, []
        for number, k in enumerate(ks, 1):
            inner = matmul(left[:, k - step : k], right[k - step : k], inner, instruction=found, target=target)
            after.append(float(total + inner[0, 0]) / float(exact[number - 1]) - 1)
            if number * (promotions + 1) // len(ks) > (number - 1) * (promotions + 1) // len(ks):
                total, inner = np.float32(total + inner[0, 0]), None
        return after

    alone = errors(0)

    def draw(promotions: int) -> Picture:
        times = "once" if promotions == 1 else counted(promotions, "time")
        lines = {"never promoted": alone, f"promoted {times}": errors(promotions)}
        return show.running_error(ks, lines, f"Error of D[0][0] of {found.family} {found.shape} along k")

    return Explorer(draw, {"promotions": Range("promotions", len(ks) - 1, promotions)})
