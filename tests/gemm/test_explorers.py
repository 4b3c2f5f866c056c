"""The sliders of the kernels: each position is a launch with these settings."""

import re
from itertools import product

import numpy as np
import pytest

from tcemu.errors import OperandError
from tcemu.gemm import explorers, mma_pipeline, wgmma_tma
from tcemu.show import timeline
from tcemu.timing import Timeline

A = np.ones((64, 128), np.float16)
B = np.ones((128, 64), np.float16)


def test_stages_of_mma_are_those_of_a_launch() -> None:
    shown = explorers.schedule_of_mma(A, B, stages=2).at(stages="4").picture
    run = Timeline()
    mma_pipeline.multiply(A, B, 4, observers=[run])
    assert shown == timeline(run)


@pytest.mark.slow
def test_the_controls_of_wgmma_are_its_plan() -> None:
    shown = explorers.schedule_of_wgmma(A, B, columns=64).at(stages="2", columns="32", in_flight=0).picture
    run = Timeline()
    wgmma_tma.multiply(A, B, wgmma_tma.Plan(columns=32, stages=2, in_flight=0), observers=[run])
    assert shown == timeline(run)


@pytest.mark.slow
def test_a_control_only_chooses_among_runs_that_have_been_made(monkeypatch: pytest.MonkeyPatch) -> None:
    by_mma, by_wgmma = explorers.schedule_of_mma(A, B), explorers.schedule_of_wgmma(A, B, columns=64)
    for kernel in (mma_pipeline, wgmma_tma):
        monkeypatch.setattr(kernel, "multiply", None)
    for stages in mma_pipeline.STAGES:
        by_mma.set(stages=str(stages))
    for stages, columns in product("234", ("32", "64", "128", "256")):
        by_wgmma.set(stages=stages, columns=columns, in_flight=int(stages) - 1)


@pytest.mark.slow
def test_there_are_fewer_groups_in_flight_than_stages() -> None:
    explorer = explorers.schedule_of_wgmma(A, B, stages=4, in_flight=3, columns=64)
    assert explorer.at(stages="2").values["in_flight"] == 1
    with pytest.raises(OperandError, match="in_flight cannot be 2: it takes whole numbers from 0 to 1"):
        explorer.at(stages="2", in_flight=2)


@pytest.mark.parametrize("keys", [1, 2, 3, 8])
@pytest.mark.parametrize("place", [0, 4, 7])
def test_the_sum_of_a_softmax_does_not_depend_on_tiles_and_places(keys: int, place: int) -> None:
    explorer = explorers.online_softmax([1, 3, 0, 2, 5, -1, 2, 4]).at(tile=keys, place=place)
    # 2^-4 + 2^-2 + 2^-5 + 2^-3 + 1 + 2^-6 + 2^-3 + 2^-1
    assert explorer.picture.title.endswith("the sum at the end is 2.1094")
    assert explorer.picture.description.count("scores of the tile") == -(-8 // keys)


def test_older_sums_are_scaled_where_a_larger_score_comes() -> None:
    said = explorers.online_softmax([1, 3], keys=1).picture.description
    assert re.findall(r"factor for older sums ([^,]*), sum so far ([^;]*)[;.]", said) == [("0", "1"), ("0.25", "1.25")]


@pytest.mark.parametrize("scores", [[1], list(range(33)), [1, np.inf], [[1, 2]]])
def test_scores_that_cannot_be_drawn_are_refused(scores: list[float]) -> None:
    with pytest.raises(OperandError, match="scores must be 2 to 32 finite numbers"):
        explorers.online_softmax(scores)


def test_a_polynomial_of_degree_0_is_1_and_of_degree_8_is_exact_enough() -> None:
    explorer = explorers.error_of_a_polynomial(0)
    assert f"x 0.5: off by {(2**0.5 - 1) * 2**23:.3g}" in explorer.picture.description
    largest = re.search(r"largest error is (\d+) units", explorer.at(degree=8).picture.title)
    assert largest is not None
    assert int(largest[1]) <= 1
