"""Loads go ahead of products as a compiler moves them, and no further."""

import numpy as np
import pytest

import tcemu
from tcemu.timing import Timeline
from tcemu.timing.costs import costs
from tcemu.timing.operations import Op, Token
from tcemu.timing.order import SCOREBOARDS, issue_order

LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
SITE = None


def op(kind, *reads, **more):
    return Op(kind, kind, SITE, reads=reads, **more)


def test_loads_pass_products_and_arithmetic():
    ops = [op("shared"), op("mma", 0), op("arithmetic", 1), op("shared"), op("mma", 3), op("shared"), op("mma", 5)]
    assert issue_order(ops) == [0, 3, 5, 1, 2, 4, 6]


def test_a_load_follows_what_makes_its_address():
    ops = [op("mma"), op("shared"), op("arithmetic", 1), op("mma"), op("shared", 2), op("mma", 4), op("shared", 4)]
    assert issue_order(ops) == [1, 0, 2, 4, 6, 3, 5]


@pytest.mark.parametrize(
    "fixed",
    [
        op("plain"),
        op("copy"),
        op("wgmma"),
        op("shared", writes=True),
        op("global", writes=True),
        op("global"),
        op("shared", gives=[Token("barrier", 0, 0)]),
    ],
    ids=["barrier or fence", "copy", "wgmma", "store", "store to global memory", "load from global memory", "arrival"],
)
def test_nothing_passes_what_orders(fixed):
    ops = [op("mma"), fixed, op("mma"), op("shared"), op("mma", 3)]
    assert issue_order(ops) == [0, 1, 3, 2, 4]


def test_as_many_loads_are_ahead_as_there_are_scoreboards():
    ops = [each for n in range(8) for each in (op("shared"), op("mma", 2 * n))]
    assert SCOREBOARDS == 6
    assert issue_order(ops) == [0, 2, 4, 6, 8, 10, 1, 12, 3, 14, 5, 7, 9, 11, 13, 15]


def test_products_wait_for_the_first_load_alone():
    def kernel(warp):
        a = warp.registers(4, fill=0)
        for _ in range(4):
            held = warp.run(LOAD, 16 * warp.laneid)
            warp.run(MMA, a, held[:, :2], warp.registers(4, fill=0))

    timeline = Timeline()
    tcemu.launch(kernel, 1, 32, (), shared=1024, observers=[timeline], sanitizer="off")
    starts = [span.start for span in timeline.spans if span.unit == "tensor core"]
    latency = costs("sm_90a").find(LOAD, "latency", {"wavefronts": 4, "apart": 16}).median
    assert starts[0] > latency
    assert np.all(np.diff(starts) < latency / 2)  # in the kernel's order, each would wait for a load of its own
