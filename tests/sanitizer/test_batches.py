"""Native loads and stores in batches: the sanitizer reports what it reports of single ones."""

from __future__ import annotations

from contextlib import suppress

import kernels_between  # noqa: F401 - they fill the tables
import kernels_blocks  # noqa: F401
import kernels_clusters  # noqa: F401
import kernels_correct  # noqa: F401
import kernels_faulty_memory  # noqa: F401
import kernels_faulty_order  # noqa: F401
import kernels_global_copies  # noqa: F401
import kernels_global_proxy  # noqa: F401
import kernels_lanes  # noqa: F401
import kernels_wild_stored
import kernels_wild_table
import numpy as np
import pytest
from batching import Batching
from hypothesis import given
from hypothesis import strategies as st
from kernels_table import BYTES, CORRECT, FAULTY
from quick import DAY, examples, some, spread

from tcemu.errors import TcemuError
from tcemu.machine.events import Accesses, AccessTable
from tcemu.machine.launch import launch
from tcemu.sanitizer import sanitizer
from tcemu.sanitizer.batches import Batches

pytest.importorskip("numba")


def run(row, **options):
    watch = Batching()
    more = {"block": 128, "shared": 8192, **row.options, **options}
    with suppress(TcemuError):
        launch(row.kernel, args=(np.zeros(BYTES, np.uint8),), observers=(watch,), **more)
    return watch


@pytest.mark.parametrize("row", some(spread(FAULTY, 2, DAY), 60), ids=lambda row: f"{row.rule}-{row.name}")
def test_faulty_kernels(row):
    for seed in (0, 3):
        watch = run(row, seed=seed)
        assert watch.check(), "nothing reported"


@pytest.mark.parametrize("row", some(CORRECT, 20), ids=lambda row: row.name)
def test_correct_kernels(row):
    assert run(row).check() == [str(each) for each in row.launch().reports]


TILES = [row for row in kernels_wild_table.FAULTY if row.kernel.__module__ == kernels_wild_stored.__name__]


@pytest.mark.parametrize("row", TILES, ids=lambda row: row.name)
def test_tiles_that_the_threads_store(row):
    """Where their bytes come from is known of batches too."""
    watch = Batching()
    launch(row.kernel, args=row.arrays(), observers=(watch,), **row.options)
    assert watch.check(), "nothing reported"


# ------------------------------------------------------------------------------------------------ random accesses

WORDS = 256
KINDS = {
    "st.shared": lambda warp, a, b, at: warp.st_shared(4 * at, warp.threads),
    "st.shared, the same": lambda warp, a, b, at: warp.st_shared(4 * at, 5),
    "st.shared.v2": lambda warp, a, b, at: warp.st_shared(4 * (at & ~1), np.ones((32, 2), np.uint32), "v2.b32"),
    "st.shared.u8": lambda warp, a, b, at: warp.st_shared(4 * at + 1, warp.laneid, "u8"),
    "ld.shared": lambda warp, a, b, at: warp.ld_shared(4 * at),
    "ld.shared.v4": lambda warp, a, b, at: warp.ld_shared(4 * (at & ~3), "v4.b32"),
    "ld.shared.u16": lambda warp, a, b, at: warp.ld_shared(4 * at, "u16"),
    "ld.global of a": lambda warp, a, b, at: warp.ld_global(a + 4 * at),
    "ld.global of b": lambda warp, a, b, at: warp.ld_global(b + 4 * (at & ~1), "v2.b32"),
    "ld.global.nc": lambda warp, a, b, at: warp.run("ld.global.nc.b32", b + 4 * at),
    "st.global to b": lambda warp, a, b, at: warp.st_global(b + 4 * at, warp.threads),
    "st.global to a": lambda warp, a, b, at: warp.st_global(a + 4 * (at & ~1), np.ones((32, 2), np.uint32), "v2.b32"),
    "st.global of bytes": lambda warp, a, b, at: warp.st_global(b + 4 * at, warp.laneid, "u8"),
    "red.global": lambda warp, a, b, at: warp.red_global("add.u32", b + 4 * at, 1),
    "red.shared": lambda warp, a, b, at: warp.red_shared("add.u32", 4 * at, 1),
    "st.shared.volatile": lambda warp, a, b, at: warp.st_shared(4 * at, 1, order="volatile"),
    "fence": lambda warp, a, b, at: warp.fence("acq_rel", "gpu"),
}
#: Where lanes go: side by side, in another order, all to one word, two to one word.
LANES = np.arange(32)
WAYS = {"forward": LANES, "backward": 31 - LANES, "one": 0 * LANES, "pairs": LANES // 2, "apart": 5 * LANES % 64}
STEP = st.tuples(
    st.sampled_from([*KINDS]), st.sampled_from([*WAYS]), st.sampled_from([0, 0, 8, 32, 64, 96]),
    st.sampled_from([32, 32, 32, 7, 1]),
)  # fmt: skip
STEPS = st.lists(
    st.one_of(
        st.just("barrier"), st.just("warp"), st.just("bulk"),
        st.tuples(st.integers(0, 1), st.integers(0, 1), st.lists(STEP, min_size=1, max_size=6)),
    ),
    min_size=3,
    max_size=12,
)  # fmt: skip


def random_kernel(steps, filled):
    """Two blocks of two warps that take these steps."""

    def kernel(warp, a, b):
        if filled:
            for first in range(0, 4 * WORDS, 256):
                warp.st_shared(first + 4 * warp.threads, 1)
            warp.bar_sync()
        for step in steps:
            if step == "barrier":
                warp.bar_sync()
            elif step == "warp":
                warp.bar_warp_sync()
            elif step == "bulk":
                with warp.only(warp.threads == 0):
                    warp.cp_async_bulk_global_shared(b + 128, 0, 64)
                    warp.cp_async_bulk_commit_group()
            elif step[:2] == (warp.ctaid[0], warp.warpid):
                for kind, way, first, count in step[2]:
                    with warp.only(warp.laneid < count):
                        KINDS[kind](warp, a, b, first + WAYS[way])

    return kernel


@pytest.mark.parametrize("cluster", [None, 2])
@pytest.mark.parametrize("most", [64, 3])
@examples(200, 4, deadline=None)
@given(STEPS, st.booleans(), st.integers(0, 2))
@pytest.mark.slow
def test_random_accesses(cluster, most, steps, filled, seed):
    watch = Batching(most=most)
    arrays = np.zeros(WORDS, np.uint32), np.zeros(WORDS, np.uint32)
    with suppress(TcemuError):
        launch(
            random_kernel(steps, filled), 2, 64, arrays, shared=4 * WORDS, cluster=cluster, observers=(watch,),
            seed=seed,
        )  # fmt: skip
    watch.check()


def test_the_batches_are_taken(monkeypatch):
    """The compiled kernel notes almost all accesses of a right kernel."""
    singly, init = [], Batches.__init__

    def begin(self, block, watch, single, *more):
        init(self, block, watch, lambda event: (singly.append(event), single(event)), *more)

    monkeypatch.setattr(Batches, "__init__", begin)

    def kernel(warp, a, b):
        for turn in range(8):
            for part in range(4):
                at = 32 * part + warp.threads % 32
                value = warp.ld_global(a + 4 * at)
                warp.st_shared(512 * warp.warpid + 4 * at, value)
            warp.bar_warp_sync()
            for part in range(4):
                value = warp.ld_shared(512 * warp.warpid + 4 * ((32 * part + warp.laneid + turn) % 128))
                warp.st_global(b + 4 * (128 * warp.warpid + 32 * part + warp.laneid), value)
            warp.bar_warp_sync()

    watch = Batching()
    launch(kernel, 1, 64, (np.zeros(WORDS, np.uint32), np.zeros(WORDS, np.uint32)), shared=1024, observers=(watch,))
    assert not watch.check()
    assert watch.noted == 2 * 8 * 16
    assert len(singly) <= 4  # the first store to an array of global memory, and new sizes of cells


@pytest.mark.parametrize("late", [False, True])
def test_more_sorts_than_one_batch_holds(late):
    """Lines of the kernel and masks make sorts; a race comes behind them all."""

    def kernel(warp, a, b):
        for lanes in range(1, 33):
            with warp.only(warp.laneid < lanes):
                for first in (0, 32):
                    at = 256 * warp.warpid + 4 * (first + warp.laneid)
                    warp.st_shared(at, lanes)
                    warp.st_global(b + at, warp.ld_global(a + at))
                    warp.st_global(b + 512 + at, warp.ld_shared(at))
                    warp.ld_shared(at, "u16")
                    warp.ld_shared(at, "u8")
                    warp.ld_global(b + at)
                    warp.ld_global(b + at, "u16")
                    warp.ld_global(b + at, "u8")
        if late:
            warp.ld_shared(256 + 4 * warp.laneid)

    watch = Batching(most=1000)
    arrays = np.zeros(WORDS, np.uint32), np.zeros(2 * WORDS, np.uint32)
    with suppress(TcemuError):
        launch(kernel, 1, 64, arrays, shared=512, observers=(watch,))
    assert [report.split(":")[0] for report in watch.check()] == ["error shared-race"] * late


def test_a_log_counts_by_its_bytes(monkeypatch):
    """One warp with many accesses waits for the kernels no longer than many warps with few."""
    asked = []
    monkeypatch.setattr(sanitizer, "backend", lambda products: asked.append(products) or "reference")
    monkeypatch.setattr(sanitizer, "computed", asked.append)
    watch = sanitizer.Sanitizer()
    for size in (264, 1 << 20):
        assert not watch.takes(Accesses(0, 0, AccessTable({}), np.zeros(size, np.uint8)))
    assert asked == [1, 1, 2049, 2049]


def test_a_read_that_is_reported_when_the_block_ends_names_its_callers():
    """Whichever warp ran last: two blocks read in turn."""
    steps = ["barrier", (1, 0, [("red.shared", "forward", 0, 32)]), (1, 1, [("red.shared", "forward", 8, 32)])]
    watch, arrays = Batching(), (np.zeros(WORDS, np.uint32), np.zeros(WORDS, np.uint32))
    launch(random_kernel(steps, False), 2, 64, arrays, shared=4 * WORDS, observers=(watch,), seed=0)
    (report,) = watch.check()
    assert "called at" in report
