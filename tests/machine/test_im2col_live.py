"""Copies of im2col mode on this machine's GPU and in the emulator: pytest --live tests/machine/test_im2col_live.py.

Without --live, or without a GPU of sm_90a, these skip; test_im2col.py replays what an H100 answered.
"""

import hopper
import numpy as np
import pytest
from im2col_copies import (
    CORNER_BITS,
    Taken,
    at_random,
    image,
    limits,
    stopping,
    stopping_stores,
    stored_at_random,
    stores,
)

pytestmark = pytest.mark.live_gpu


@pytest.fixture(autouse=True)
def _gpu(request):
    hopper.need(request, "tests/machine/im2col.cu is")


def agree(copy: Taken) -> None:
    *found, counted = copy.asked()
    for what, ours, theirs in zip(("global", "shared"), copy.emulated(), found, strict=True):
        wrong = np.flatnonzero(ours != theirs)
        first = [(int(i), hex(theirs[i]), hex(ours[i])) for i in wrong[:8]]
        assert not wrong.size, f"{copy}: {wrong.size} bytes of {what} memory differ (at, GPU, emulator): {first}"
    assert copy.way != "load" or counted, f"{copy}: {copy.map.bytes} bytes were not all"


def test_every_rank_element_and_swizzle_at_random():
    for copy in at_random(4):
        agree(copy)


def test_stores_and_reductions_at_random():
    for copy in stored_at_random(stores(), seed=3):
        agree(copy)


def test_the_largest_corners_offsets_and_copies():
    for copy in limits():
        agree(copy)


@pytest.mark.parametrize("rank", CORNER_BITS)
def test_a_multicast_brings_the_same_pixels_to_each_block(rank):
    copy = Taken(image(rank), (0, *(-1,) * (rank - 2), 0), (1,) * (rank - 2))
    _, found, counted = copy.asked(blocks=2)
    _, expected = copy.emulated()
    assert counted
    assert np.array_equal(found, [expected, expected])


@pytest.mark.parametrize("rank", CORNER_BITS)
def test_a_prefetch_changes_nothing(rank):
    agree(Taken(image(rank), (0, *(-1,) * (rank - 2), 0), (1,) * (rank - 2), way="prefetch"))


STOPPING = [*stopping(), *stopping_stores()]


@pytest.mark.parametrize("copy", STOPPING, ids=[f"{number} {copy.way}" for number, copy in enumerate(STOPPING)])
def test_what_stops_a_gpu(copy):
    """A copy that starts outside the bounding box, or whose map has the other mode."""
    assert copy.gpu_answer() == copy.answer()
