"""Explorers of sums: what each architecture aligns, cuts off and rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.errors import OperandError, briefly, counted
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, matmul, parse
from tcemu.show.explorers.explorer import Explorer, Range, controls
from tcemu.show.picture import Picture


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
    mma = parse(instruction)
    (m, n, depth), types = mma.shape, mma.types
    b, c = np.ones((depth, n), types["b"].dtype), np.zeros((m, n), types["c"].dtype)

    def draw(k: int, halvings: int) -> Picture:
        a = np.zeros((m, depth), types["a"].dtype)
        for place, term in {**terms, k: 2.0**-halvings}.items():
            a[0, place] = term
        return show.one_output(mma, [a, b, c], targets=targets)

    wrong = [place for place in terms if place not in range(depth)]
    if wrong:
        raise OperandError(f"{mma} has no product at k = {briefly(wrong[0])}; k goes from 0 to {depth - 1}")
    return Explorer(draw, controls({"k": k, "halvings": halvings}, k=depth - 1, halvings=40))


def promoted_sum(
    instruction: str | Instruction, a: npt.ArrayLike, b: npt.ArrayLike, promotions: int = 31, step: int = 128
) -> Explorer:
    """The error of D[0][0] on sm_90a as k grows, with and without promotion; a slider for the number of promotions.

    `a` (M, K) and `b` (K, N) are whole matrices, and the error is shown after each `step` of k. At a promotion, the
    accumulator is added to a float32 sum by an ordinary addition, and starts again from zero. The promotions are evenly
    spread over the steps. Raises what tcemu.matmul raises.
    """
    mma = parse(instruction, "sm_90a")
    left, right = as_array(a, "A")[: mma.shape.m], as_array(b, "B")[:, : mma.shape.n]
    ks = list(range(step, left.shape[1] + 1, step))
    exact = np.cumsum(left[0].astype(np.float64) * right[:, 0].astype(np.float64))[step - 1 :: step]

    def errors(promotions: int) -> list[float]:
        total, inner, after = np.float32(0), None, []
        for number, k in enumerate(ks, 1):
            inner = matmul(left[:, k - step : k], right[k - step : k], inner, instruction=mma, target="sm_90a")
            after.append(float(total + inner[0, 0]) / float(exact[number - 1]) - 1)
            if number * (promotions + 1) // len(ks) > (number - 1) * (promotions + 1) // len(ks):
                total, inner = np.float32(total + inner[0, 0]), None
        return after

    alone = errors(0)

    def draw(promotions: int) -> Picture:
        times = "once" if promotions == 1 else counted(promotions, "time")
        lines = {"never promoted": alone, f"promoted {times}": errors(promotions)}
        return show.running_error(ks, lines, f"Error of D[0][0] of {mma.family} {mma.shape} along k")

    return Explorer(draw, {"promotions": Range("promotions", len(ks) - 1, promotions)})
