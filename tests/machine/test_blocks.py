"""Several blocks in flight see one global memory: flags, locks, a last block, a scan that looks back."""

import re

import numpy as np
import pytest

import tcemu
from tcemu.errors import Deadlock, LaunchError, UndefinedBehaviour
from tcemu.machine import events
from tcemu.machine.launch import launch

SEEDS = (0, 1)
each_seed = pytest.mark.parametrize("seed", SEEDS)


def first(warp):
    return warp.only(warp.laneid == 0)


def wait_for(warp, address, least):
    """One lane polls until the number at the address is large enough."""
    while int(warp.ld_global(address, order="acquire")[0, 0]) < least:
        pass


class InFlight:
    """How many blocks were in flight, and when each began."""

    def __init__(self):
        self.now, self.most, self.began = set(), 0, []

    def __call__(self, event):
        if isinstance(event, events.BlockStarted):
            self.now.add(event.block)
            self.began.append(event.block)
        if isinstance(event, events.BlockEnded):
            self.now.discard(event.block)
        self.most = max(self.most, len(self.now))


# ---------------------------------------------------------------------------------------------------- idioms


@each_seed
def test_a_block_waits_for_a_flag_of_a_later_one(seed):
    def kernel(warp, flag, out):
        with first(warp):
            if warp.ctaid[0] == 0:
                wait_for(warp, flag, 1)
                warp.st_global(out.at(1), warp.ld_global(out.at(0)) + np.uint32(1))
            else:
                warp.st_global(out.at(0), 41)
                warp.st_global(flag, 1, order="release")

    out = np.zeros(2, np.uint32)
    result = tcemu.launch(kernel, 2, args=(np.zeros(1, np.uint32), out), seed=seed)
    assert (out.tolist(), result.reports) == ([41, 42], [])


@each_seed
def test_a_lock(seed):
    """Each warp of each block adds to a counter that is not atomic; only the lock keeps the sums whole."""

    def kernel(warp, lock, count):
        with first(warp):
            for _ in range(3):
                while int(warp.atom_global("cas.b32", lock, 0, 1, order="acquire")[0, 0]):
                    warp.nanosleep(20)
                old = warp.ld_global(count, order="relaxed")
                warp.nanosleep(20)
                warp.st_global(count, old + np.uint32(1), order="relaxed")
                warp.st_global(lock, 0, order="release")

    count = np.zeros(1, np.uint32)
    tcemu.launch(kernel, 5, 64, (np.zeros(1, np.uint32), count), seed=seed)
    assert count[0] == 5 * 2 * 3


@each_seed
def test_the_last_block_reduces(seed):
    def kernel(warp, x, parts, ticket, out):
        block, count = warp.ctaid[0], warp.nctaid[0]
        total = warp.redux_sync("add.u32", warp.ld_global(x.at(32 * block + warp.laneid)))
        with first(warp):
            warp.st_global(parts.at(block), total)
            warp.fence()
            ticket_here = int(warp.atom_global("inc.u32", ticket, count - 1)[0, 0])
            if ticket_here == count - 1:
                warp.fence()
                warp.st_global(out, sum(warp.ld_global(parts.at(each)) for each in range(count)))

    x = np.random.default_rng(1).integers(0, 1000, 7 * 32, np.uint32)
    out, ticket = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    tcemu.launch(kernel, 7, args=(x, np.zeros(7, np.uint32), ticket, out), seed=seed)
    assert (int(out[0]), int(ticket[0])) == (int(x.sum()), 0)  # the counter is ready for the next launch


def look_back(warp, x, ticket, state, out):
    """A scan in one pass: each block publishes its sum, then adds up those before it (1: a sum, 2: a prefix)."""
    mine = warp.registers(1, fill=0)
    with first(warp):
        mine[:] = warp.atom_global("add.u32", ticket, 1)
    block = int(warp.shfl_sync("idx", mine, 0)[0, 0])
    values = warp.ld_global(x.at(32 * block + warp.laneid))[:, 0]
    for step in (1, 2, 4, 8, 16):
        values = values + np.where(warp.laneid >= step, warp.shfl_sync("up", values, step), 0).astype(np.uint32)
    total, before, at = int(values[31]), 0, block - 1
    with first(warp):
        warp.st_global(state.at(block), np.uint64(total << 8 | (1 if block else 2)), "b64", order="release")
        while at >= 0:
            found = int(warp.ld_global(state.at(at), "b64", order="acquire")[0, 0])
            before += found >> 8
            at = {0: at, 1: at - 1, 2: -1}[found & 3]
        warp.st_global(state.at(block), np.uint64(before + total << 8 | 2), "b64", order="release")
    warp.st_global(out.at(32 * block + warp.laneid), values + np.uint32(before))


@pytest.mark.parametrize("resident", [1, 132])
@each_seed
def test_a_scan_that_looks_back(seed, resident):
    """A block waits only for blocks that have started, because it takes its number then: one place is enough."""
    x = np.random.default_rng(2).integers(0, 1000, 9 * 32, np.uint32)
    out = np.zeros_like(x)
    more = np.zeros(1, np.uint32), np.zeros(9, np.uint64), out
    tcemu.launch(look_back, 9, args=(x, *more), seed=seed, resident=resident)
    assert np.array_equal(out, np.cumsum(x, dtype=np.uint32))


def meet(warp, count):
    """All blocks of the grid wait for each other, twice."""
    for phase in (1, 2):
        warp.bar_sync()
        with warp.only(warp.threads == 0):
            warp.red_global("add.u32", count, 1, order="release")
            wait_for(warp, count, phase * warp.nctaid[0])
        warp.bar_sync()


@each_seed
def test_all_blocks_of_a_grid_meet(seed):
    count, seen = np.zeros(1, np.uint32), InFlight()
    tcemu.launch(meet, 8, 64, (count,), seed=seed, observers=[seen])
    assert (count[0], seen.most) == (16, 8)


# ---------------------------------------------------------------------------------------------------- deadlocks


@pytest.mark.slow
@each_seed
def test_blocks_that_wait_for_one_that_cannot_start(seed):
    says = "2 blocks cannot start before one of these ends: 2 blocks fit at a time (resident=2)"
    with pytest.raises(Deadlock, match=re.escape(says)) as caught:
        launch(meet, 4, 64, (np.zeros(1, np.uint32),), seed=seed, resident=2)
    assert str(caught.value).startswith("2 blocks, (")
    with pytest.raises(UndefinedBehaviour, match=re.escape(says)):
        tcemu.launch(meet, 4, 64, (np.zeros(1, np.uint32),), seed=seed, resident=2)


@each_seed
def test_a_flag_that_nobody_sets(seed):
    """Other blocks could have set it, so all of them have run before the launch counts as stuck."""

    def kernel(warp, flag):
        if warp.ctaid[0] == 0:
            with first(warp):
                wait_for(warp, flag, 1)

    seen = InFlight()
    with pytest.raises(Deadlock) as caught:
        launch(kernel, 40, args=(np.zeros(1, np.uint32),), seed=seed, observers=[seen])
    assert sorted(seen.began) == list(range(40))
    assert "cannot start" not in str(caught.value)
    assert str(caught.value).startswith("block (0, 0, 0) cannot continue:\n  warp 0 waits since")


def test_who_waits_for_its_own_block_starts_no_other():
    def kernel(warp):
        if warp.warpid == 0:
            warp.bar_sync(1, 64)

    seen = InFlight()
    with pytest.raises(Deadlock):
        launch(kernel, 5, 64, observers=[seen])
    assert seen.began == [0]


# ---------------------------------------------------------------------------------------------------- how many


def test_blocks_that_do_not_wait_run_one_after_the_other_under_seed_0():
    seen = InFlight()
    launch(lambda warp: [warp.bar_sync() for _ in range(400)], 6, 64, observers=[seen])
    assert (seen.most, seen.began) == (1, list(range(6)))


@pytest.mark.parametrize("resident", [1, 2, 3, 50])
def test_never_more_than_are_resident(resident):
    for seed in SEEDS:
        seen = InFlight()
        launch(lambda warp: warp.bar_sync(), 9, 64, seed=seed, resident=resident, observers=[seen])
        assert seen.most <= resident
        assert sorted(seen.began) == list(range(9))
        assert not seen.now


@pytest.mark.parametrize("given", [0, -1, True, 2.0, "all", None])
def test_resident_is_a_number(given):
    with pytest.raises(LaunchError, match="resident must be the number of blocks in flight, at least 1; got"):
        tcemu.launch(lambda warp: None, resident=given)


# ---------------------------------------------------------------------------------------------------- state


def test_a_chapter_keeps_something_for_each_block():
    """For example a new memory, made when an instruction of the chapter first needs it, one for each block."""
    made = []

    class TensorMemory:
        def __init__(self, block):
            made.append(block.number)
            self.columns = {}

    def kernel(warp):
        if warp.ctaid[0] < 2:
            memory = warp.core.block.state(TensorMemory)
            memory.columns[warp.warpid] = warp.ctaid[0]
            warp.bar_sync()
            assert warp.core.block.state(TensorMemory).columns == dict.fromkeys(range(2), warp.ctaid[0])

    launch(kernel, 3, 64)
    assert made == [0, 1]
