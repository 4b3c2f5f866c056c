"""Lanes that exit one by one, and what the rest of their warp and of their block does then (PTX ISA 9.1, 9.7.12.7)."""

import numpy as np
import pytest

import tcemu
from tcemu.errors import Deadlock, LaunchError, UndefinedBehaviour
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.registers import POISON

LANES = np.arange(32)
SEEDS = (0, 1, 2)
every_seed = pytest.mark.parametrize("seed", SEEDS)


def one(body, *args, block=32, **options):
    """What `body` answered in each warp, by number."""
    answers = {}

    def kernel(warp, *given):
        answers[warp.warpid] = body(warp, *given)

    launch(kernel, 1, block, args, shared=4096, **options)
    return answers


def test_lanes_that_have_exited_take_part_in_nothing():
    heard = []

    def body(warp):
        with warp.only(LANES >= 20):
            warp.exit()
            assert not warp.active.any()
        assert warp.active.tolist() == [lane < 20 for lane in range(32)]
        with warp.only(True):
            warp.st_shared(4 * LANES, LANES + 1)
        with warp.only(LANES % 2 == 0):
            warp.exit()
        assert warp.activemask() == 0x000AAAAA
        assert warp.vote_sync("ballot", True) == 0x000AAAAA
        assert warp.redux_sync("add.u32", np.ones(32, int)).bits[1, 0] == 10
        found = warp.ld_shared(4 * LANES)
        with warp.only(warp.elect_sync()):
            assert np.flatnonzero(warp.active).tolist() == [1]
        return found.bits[:, 0].tolist(), found.unwritten()

    (loaded, unwritten) = one(body, observers=(heard.append,))[0]
    assert loaded == [lane + 1 if lane < 20 and lane % 2 else POISON for lane in range(32)]
    assert unwritten == ()  # lanes that are gone are nobody's concern
    gone = [(event.by.active, event.whole) for event in heard if isinstance(event, events.Exited)]
    assert gone == [(0xFFF00000, False), (0x00055555, False), (0x000AAAAA, True)]


def test_lanes_exit_one_by_one():
    heard = []

    def body(warp):
        for lane in range(32):
            with warp.only(lane == LANES):
                warp.st_shared(4 * lane, 7)
                warp.exit()
                warp.st_shared(4 * lane, 9)
        warp.st_shared(0, 9)
        assert warp.run("vote.sync.ballot.b32", True) == 0
        assert warp.ld_shared(0).unwritten() == ()
        warp.exit()
        return warp.core.block.shared.bytes[:128].view(np.uint32).tolist()

    assert one(body, observers=(heard.append,))[0] == [7] * 32
    gone = [event for event in heard if isinstance(event, events.Exited)]
    assert [event.by.active for event in gone] == [1 << lane for lane in range(32)]
    assert [event.whole for event in gone] == [False] * 31 + [True]


@every_seed
def test_the_last_lane_ends_the_warp_for_barriers(seed):
    """A barrier of all does not wait for a warp without lanes; one with a lane counts as a whole."""

    def body(warp):
        if warp.warpid == 1:
            with warp.only(LANES < 31):
                warp.exit()
            warp.bar_sync()
            warp.exit()
            warp.bar_sync(1)  # nobody is there to execute it
        else:
            warp.bar_sync()
            warp.bar_sync(2)
        return warp.core.bits

    assert one(body, block=96, seed=seed) == {0: 0xFFFFFFFF, 1: 0, 2: 0xFFFFFFFF}


@every_seed
def test_a_barrier_that_waits_goes_on_when_a_warp_exits(seed):
    heard = []

    def body(warp):
        if warp.warpid == 2:
            for _ in range(5):
                warp.st_shared(0, 1)
            warp.exit()
            return
        warp.bar_sync()

    one(body, block=96, seed=seed, observers=(heard.append,))
    (complete,) = [event for event in heard if isinstance(event, events.BarrierCompleted)]
    assert ({by.warp for by in complete.arrived}, complete.exited) == ({0, 1}, 32)


def test_a_barrier_with_a_count_waits_for_a_warp_that_has_exited():
    def body(warp):
        if warp.warpid == 1:
            warp.exit()
        warp.bar_sync(1, 64)

    with pytest.raises(Deadlock, match=r"where 32 of 64 threads have arrived \(warp 0\)\n  warp 1 reached the end"):
        one(body, block=64)


def test_a_warpgroup_waits_for_a_warp_that_has_exited():
    def body(warp):
        if warp.warpid == 3:
            warp.exit()
        warp.wgmma_fence()

    with pytest.raises(Deadlock, match="for warp 3 of warpgroup 0 to reach wgmma"):
        one(body, block=128)


def test_mbarriers_count_the_lanes_that_are_left():
    def body(warp):
        with warp.only(LANES == 0):
            warp.mbarrier_init(0, 16)
        warp.bar_warp_sync()
        with warp.only(LANES < 16):
            warp.exit()
        warp.mbarrier_arrive(0)
        assert warp.mbarrier_test_wait(0, 0)
        return warp.mbarrier_try_wait(0, 0).tolist()

    assert one(body)[0] == [lane >= 16 for lane in range(32)]


def test_exits_inside_masks_that_are_inside_others():
    def body(warp):
        with warp.only(LANES < 16):
            with warp.only(LANES % 2 == 1):
                warp.exit()
                with warp.only(True):
                    assert not warp.active.any()
            assert np.flatnonzero(warp.active).tolist() == list(range(0, 16, 2))
        return np.flatnonzero(warp.active).tolist()

    assert one(body)[0] == [*range(0, 16, 2), *range(16, 32)]


def test_lanes_that_were_never_there_do_not_exit():
    heard = []
    launch(lambda warp: warp.exit(), 1, 45, observers=(heard.append,))
    assert [event.by.active for event in heard if isinstance(event, events.Exited)] == [0xFFFFFFFF, 0x1FFF]


def test_only_the_own_warp_exits():
    warps = []

    def kernel(warp):
        warps.append(warp)
        warp.bar_sync()
        warps[1 - warp.warpid].exit()

    with pytest.raises(LaunchError, match="is not the one that runs here"):
        launch(kernel, 1, 64)
    with pytest.raises(LaunchError, match="warp 0 of block 0 is no longer running"):
        warps[0].exit()


def test_the_line_of_an_exit():
    heard = []

    def kernel(warp):
        with warp.only(LANES < 3):
            warp.exit()

    launch(kernel, observers=(heard.append,))
    first = next(event for event in heard if isinstance(event, events.Exited))
    assert first.by.site.line == kernel.__code__.co_firstlineno + 2
    assert first.by.site.function.endswith("kernel")


# ------------------------------------------------------------------------------------------------ the sanitizer


def diverging(warp, out):
    """All lanes but one execute an .aligned instruction."""
    with warp.only(LANES != 7):
        warp.bar_sync()
    warp.st_global(out.at(warp.threads), 1)


def leaving(warp, out):
    """The same after that lane has exited, which is allowed."""
    warp.st_shared(4 * LANES, 0)
    with warp.only(LANES == 7):
        warp.exit()
    warp.bar_sync()
    warp.run("barrier.sync.aligned", 1)
    warp.run("ldmatrix.sync.aligned.m8n8.x1.shared.b16", np.zeros(32, int))
    warp.st_global(out.at(warp.threads), 1)


def test_aligned_means_all_lanes_that_are_left():
    out = np.zeros(32, np.int32)
    with pytest.raises(UndefinedBehaviour, match=r"executes bar\.sync without lane 7") as caught:
        tcemu.launch(diverging, 1, 32, (out,))
    assert caught.value.report.rule == "aligned-divergent"
    found = tcemu.launch(leaving, 1, 32, (out,), shared=128, sanitizer="collect")
    assert [report.rule for report in found.reports if report.severity == "error"] == []
    assert out.tolist() == [int(lane != 7) for lane in range(32)]


# ---------------------------------------------------------------------------------------------------- barriers

#: What an H100 did (barrier.sync without .aligned, driver 580.159): the first half of a warp waits for the second, even
#: at barrier.arrive; a half that exits is not waited for; halves at two barriers are an illegal instruction.
HALF = np.arange(32) < 16


def arrives(warp, name, *operands):
    warp.run(f"barrier.{name}", *operands)


def test_lanes_that_exit_are_no_longer_waited_for():
    def kernel(warp, out):
        if warp.warpid == 0:
            with warp.only(~HALF):
                warp.exit()
            arrives(warp, "sync", 1, 64)
        else:
            arrives(warp, "sync", 1, 64)
        warp.st_global(out.at(warp.threads), 1 + warp.threads)

    out = np.zeros(64, np.uint32)
    tcemu.launch(kernel, block=64, args=(out,))
    assert np.flatnonzero(out == 0).tolist() == list(range(16, 32))


def test_half_a_warp_waits_for_the_other_half():
    def kernel(warp):
        with warp.only(HALF):
            arrives(warp, "sync", 1, 32)

    with pytest.raises(LaunchError, match="barrier 1, where no warp has arrived; of warp 0, only lanes 0 to 15"):
        tcemu.launch(kernel, block=32, sanitizer="off")


def test_two_halves_that_arrive_are_one_warp():
    """After both halves of warp 0 have arrived, and not before, it counts as 32 threads."""

    def kernel(warp, out):
        if warp.warpid == 0:
            for half in (HALF, ~HALF):
                warp.st_global(out.at(0), warp.ld_global(out.at(0)) + 1)
                with warp.only(half):
                    arrives(warp, "arrive", 1, 64)
        else:
            arrives(warp, "sync", 1, 64)
            warp.st_global(out.at(1), warp.ld_global(out.at(0)))

    for policy in ("late", "early", "random"):
        for seed in range(4):
            out = np.zeros(2, np.uint32)
            tcemu.launch(kernel, block=64, args=(out,), policy=policy, seed=seed, sanitizer="off")
            assert out.tolist() == [2, 2]


def test_halves_at_two_barriers():
    def kernel(warp):
        with warp.only(HALF):
            arrives(warp, "arrive", 1, 64)
        with warp.only(~HALF):
            arrives(warp, "arrive", 2, 64)

    words = "arrives at barrier 2 while other lanes of the warp wait at barrier 1"
    with pytest.raises(LaunchError, match=words):
        tcemu.launch(kernel, block=64, sanitizer="off")
    found = tcemu.launch(kernel, block=64, sanitizer="collect")
    assert [each.rule for each in found.reports] == ["barriers-parted"]
    told = "lanes 16 to 31 arrive at barrier 2, but lanes 0 to 15 wait at barrier 1"
    assert told in found.reports[0].message
    assert words in str(found.error)
