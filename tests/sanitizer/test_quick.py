"""The quick ways of an access to shared memory leave and report what the long way does."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import DAY, examples, spread
from rows import rows

import tcemu
from tcemu.machine.events import By, Site
from tcemu.native.batches import _learn
from tcemu.sanitizer.clocks import Clocks
from tcemu.sanitizer.quick import Quick
from tcemu.sanitizer.records import Kind, Records

WAYS = ("reads", "writes", "reads_async", "writes_async")
BYTES, TILE = 2048, 128
PLACES = st.sampled_from([0, 128, 256, 512])
ORDERS = "volatile", "relaxed.cta", "release.cta"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x2.shared.b16"


def copied_out(warp, g, at, number):
    """A bulk copy of a tile out of shared memory, with a wait, with one that covers only its reads, or with none."""
    with warp.only(warp.laneid == 0):
        warp.cp_async_bulk_global_shared(g + at, at, TILE)
        warp.cp_async_bulk_commit_group()
        if number:
            warp.cp_async_bulk_wait_group(0, read=number == 1)


#: What a warp does: at a place of shared memory, with a number.
DOES = {
    "store": lambda warp, g, at, number: warp.st_shared(at + 4 * warp.laneid, warp.laneid),
    "load": lambda warp, g, at, number: warp.ld_shared(at + 4 * (warp.laneid ^ number)),
    "load of all lanes": lambda warp, g, at, number: warp.ld_shared(at),
    "ldmatrix": lambda warp, g, at, number: warp.run(LDMATRIX, at + 16 * (warp.laneid % 16)),
    "strong store": lambda warp, g, at, number: warp.st_shared(at + 4 * warp.laneid, 1, order=ORDERS[number % 3]),
    "strong load": lambda warp, g, at, number: warp.ld_shared(at + 4 * warp.laneid, order=ORDERS[number % 2]),
    "add": lambda warp, g, at, number: warp.red_shared("add.u32", at + 4 * warp.laneid, number),
    "add to half the words": lambda warp, g, at, number: warp.red_shared("add.u32", at + 4 * (warp.laneid // 2), 1),
    "exchange": lambda warp, g, at, number: warp.atom_shared("exch.b32", at + 4 * (warp.laneid ^ number), number),
    "cp.async": lambda warp, g, at, number: warp.cp_async(at + 4 * warp.laneid, g + 4 * warp.laneid, 4),
    "commit": lambda warp, g, at, number: warp.cp_async_commit_group(),
    "wait": lambda warp, g, at, number: warp.cp_async_wait_group(number % 2),
    "warp": lambda warp, g, at, number: warp.bar_warp_sync(),
    "fence": lambda warp, g, at, number: warp.fence_proxy_async(),
    "store of a tile": copied_out,
}


class Filling:
    """The bulk copies into shared memory of one warp, whose mbarrier lies behind the tiles."""

    def __init__(self, warp):
        self.warp, self.mbarrier, self.phases, self.waits = warp, BYTES + 8 * warp.warpid, 0, False

    def wait(self):
        """Wait for the latest copy, unless that has been done."""
        if self.waits:
            self.warp.mbarrier_wait(self.mbarrier, self.phases - 1 & 1)
        self.waits = False

    def copy(self, g, at, number):
        """Copy a tile, and wait for it at once or later."""
        self.wait()
        with self.warp.only(self.warp.laneid == 0):
            self.warp.mbarrier_arrive_expect_tx(self.mbarrier, TILE)
            self.warp.cp_async_bulk_shared_global(at, g + at, TILE, self.mbarrier)
        self.phases, self.waits = self.phases + 1, True
        if number:
            self.wait()


NAMES = [*DOES, "fill of a tile"]
#: Those that all lanes must execute, or that choose a lane themselves.
WHOLE = {"ldmatrix", "commit", "wait", "warp", "store of a tile", "fill of a tile"}
#: Steps that one of two warps takes, some of its lanes or all, and barriers of both.
STEPS = st.lists(
    st.one_of(
        st.just("barrier"),
        st.tuples(st.sampled_from(NAMES), st.integers(0, 1), PLACES, st.integers(0, 3), st.booleans()),
    ),
    max_size=24,
)


#: What comes between two accesses, the second by warp 0 or 1.
BETWEEN = {
    "then": [],
    "and a barrier, then": ["barrier"],
    "and bar.warp.sync, then": [("warp", warp, 0, 0, False) for warp in (0, 1)],
}


def run(steps, filled):
    """The reports of a kernel that takes these steps, after all tiles have been `filled` or not."""

    def kernel(warp, g):
        filling = Filling(warp)
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(filling.mbarrier, 1)
            warp.fence_mbarrier_init()
        for at in range(256 * warp.warpid, BYTES, 512) if filled else ():
            warp.st_shared(at + 4 * warp.laneid, 0)
            warp.st_shared(at + 128 + 4 * warp.laneid, 0)
        warp.bar_sync()
        for step in steps:
            if step == "barrier":
                warp.bar_sync()
                continue
            name, which, at, number, some = step
            if which != warp.warpid:
                continue
            with warp.only(warp.laneid < (7 if some and name not in WHOLE else 32)):
                if name == "fill of a tile":
                    filling.copy(g, at, number)
                else:
                    DOES[name](warp, g, at, number)
        filling.wait()

    given = np.zeros(BYTES, np.uint8)
    found = tcemu.launch(
        kernel, block=64, args=(given,), shared=BYTES + 16, sanitizer="collect", target="sm_90a"
    ).reports
    return sorted((each.rule, each.message, each.severity, each.count) for each in found)


def run_without(steps, filled):
    """The same without the quick ways."""
    with pytest.MonkeyPatch.context() as patch:
        for way in WAYS:
            patch.setattr(Quick, way, lambda self, *given: False)
        patch.setattr(Records, "settled", lambda self, *given: False)
        return run(steps, filled)


@examples(150)
@given(STEPS, st.booleans())
def test_loads_stores_and_copies(steps, filled):
    assert run(steps, filled) == run_without(steps, filled)


@rows("first, between, which", spread(product(NAMES, BETWEEN, (0, 1)), 3, DAY))
def test_each_access_after_each(first, between, which):
    """One tile for each second access; the first one has accessed all of them."""
    tiles = [TILE * number for number in range(len(NAMES))]
    steps = [(first, 0, at, 1, False) for at in tiles] + BETWEEN[between]
    steps += [(second, which, at, 0, False) for second, at in zip(NAMES, tiles, strict=True)]
    assert run(steps, filled=False) == run_without(steps, filled=False)


@pytest.mark.parametrize("lanewise", [False, True])
def test_a_record_has_ended_if_every_lane_knows_it(lanewise):
    """`learn`, `unknown` of few marks and of many, and the kernel's twin of `learn`: at, below and above the clock."""
    clocks = Clocks(32)
    records = Records(clocks)
    by = By(0, 0, 0, Site("", 0, ""))
    record = records.ordinary(by, "st", Kind.ORDINARY, True) if lanewise else records.agent(by, "", Kind.BULK, 40, 5)
    column, clock = int(records.column[record]), int(records.clock[record])
    marks = 32 * record + np.arange(32)
    for lane, more in product((0, 7, 31), (-1, 0, 1)):
        row = np.full(128, clock + 1)
        row[column + lane * lanewise] = clock + more
        ended = more > 0
        known, twin = np.zeros(256, bool), np.zeros(256, bool)
        assert records.learn(record, row, known) == known[record] == ended
        assert _learn(record, twin, records.column, records.clock, records.lanewise, row) == twin[record] == ended
        for some in (marks, np.concatenate([marks] * 3)):
            unknown = records.unknown(some, row)
            expected = (some & 31 == lane) & (not ended) if lanewise else np.full(len(some), not ended)
            assert np.array_equal(unknown, expected)
