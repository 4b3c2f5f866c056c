"""Cluster launch control: each block of a grid is done once, by itself or by a block that has cancelled it."""

import numpy as np
import pytest

import tcemu

SPACE = "async.shared::cta.mbarrier::complete_tx::bytes"
TRY, EVERYWHERE = (f"clusterlaunchcontrol.try_cancel.{SPACE}{more}.b128" for more in ("", ".multicast::cluster::all"))
IS_CANCELED = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128"
FIRST = "clusterlaunchcontrol.query_cancel.get_first_ctaid"
MBARRIER = 64


def ready(warp):
    with warp.only(warp.elect_sync()):
        warp.mbarrier_init(MBARRIER, 1)
    warp.fence_mbarrier_init()
    warp.bar_sync()


def ask(warp, phase, at=0, *, waits=True):
    """The response to one request; all lanes load it."""
    with warp.only(warp.elect_sync()):
        warp.fence_proxy_async()
        warp.mbarrier_arrive_expect_tx(MBARRIER, 16)
        warp.run(TRY, at, MBARRIER)
    if waits:
        warp.mbarrier_wait(MBARRIER, phase & 1)
    return warp.run("ld.shared.b128", at)


def steal(warp, out):
    """Counts its own block, and then every block that it cancels."""
    ready(warp)
    x, y, z = warp.ctaid
    phase = 0
    while True:
        with warp.only(warp.elect_sync()):
            warp.red_global("add.u32", out.at(z, y, x), 1)
        response = ask(warp, phase)
        if not warp.run(IS_CANCELED, response).all():
            return
        x, y, z = (int(warp.run(f"{FIRST}::{axis}.b32.b128", response)[0, 0]) for axis in "xyz")
        whole = warp.run(f"{FIRST}.v4.b32.b128", response)
        assert [int(whole[0, place]) for place in range(3)] == [x, y, z]
        phase += 1


def launch(kernel, out, grid, **options):
    return tcemu.launch(kernel, grid, 32, args=(out,), **{"shared": 128, "target": "sm_100a", **options})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("resident", [1, 3, 132])
def test_every_block_is_done_once(seed, resident):
    out = np.zeros((2, 3, 4), np.uint32)
    result = launch(steal, out, (4, 3, 2), seed=seed, resident=resident)
    assert (out == 1).all()
    assert 0 < result.blocks < 24, "some were cancelled, and did not run"
    assert not [each for each in result.reports if each.severity == "error"]


def test_the_blocks_of_a_cluster_are_cancelled_together():
    """The first ctaid names the cluster; with multicast, both blocks get the response."""

    def pairs(warp, out):
        ready(warp)
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        first, rank, phase = warp.ctaid[0] - warp.cluster_ctarank, warp.cluster_ctarank, 0
        while True:
            with warp.only(warp.elect_sync()):
                warp.red_global("add.u32", out.at(first + rank), 1)
                warp.mbarrier_arrive_expect_tx(MBARRIER, 16)
            warp.fence_proxy_async()
            warp.barrier_cluster_arrive()
            warp.barrier_cluster_wait()
            if rank == 0:
                with warp.only(warp.elect_sync()):
                    warp.run(EVERYWHERE, 0, MBARRIER)
            warp.mbarrier_wait(MBARRIER, phase & 1)
            response = warp.run("ld.shared.b128", 0)
            if not warp.run(IS_CANCELED, response).all():
                warp.barrier_cluster_arrive()
                warp.barrier_cluster_wait()
                return
            first, phase = int(warp.run(f"{FIRST}::x.b32.b128", response)[0, 0]), phase + 1
            assert first % 2 == 0

    for seed in range(3):
        out = np.zeros(12, np.uint32)
        result = launch(pairs, out, 12, cluster=2, seed=seed, sanitizer="off")
        assert (out == 1).all()
        assert result.blocks < 12


def test_a_request_fails_when_every_block_has_started():
    def only(warp, out):
        ready(warp)
        with warp.only(warp.elect_sync()):
            warp.st_global(out.at(warp.ctaid[0]), 1 + warp.run(IS_CANCELED, ask_in_a_lane(warp)))

    def ask_in_a_lane(warp):
        warp.mbarrier_arrive_expect_tx(MBARRIER, 16)
        warp.run(TRY, 0, MBARRIER)
        warp.mbarrier_wait(MBARRIER, 0)
        return warp.run("ld.shared.b128", 0)

    out = np.zeros(1, np.uint32)
    launch(only, out, 1)
    assert out.tolist() == [1]


def reports(kernel, grid=4):
    found = launch(kernel, np.zeros(8, np.uint32), grid, sanitizer="collect").reports
    return [each.rule for each in found if each.severity == "error"]


def test_what_is_undefined_is_reported():
    def unwaited(warp, out):
        ready(warp)
        warp.run(IS_CANCELED, ask(warp, 0, waits=False))
        warp.mbarrier_wait(MBARRIER, 0)

    def again(warp, out):
        ready(warp)
        for phase in range(6):
            warp.run(IS_CANCELED, ask(warp, phase))

    def first_of_a_failure(warp, out):
        ready(warp)
        warp.run(f"{FIRST}::x.b32.b128", ask(warp, 0))

    def nothing(warp, out):
        warp.run(IS_CANCELED, np.zeros((32, 2), np.uint64))

    assert "tma-unwaited" in reports(unwaited)
    assert reports(again) == ["cancel-after-failure"]
    assert reports(first_of_a_failure, grid=1) == ["cancel-response"]
    assert reports(nothing, grid=1) == ["cancel-response"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.run(TRY, 8, MBARRIER), "16"),
        (lambda w: w.run(TRY, 0, 512), "512"),
        (lambda w: w.run(IS_CANCELED, np.zeros(32, np.uint32)), "the response is a register of 128 bits, as ld.shared"),
        (lambda w: w.run(f"clusterlaunchcontrol.try_cancel.{SPACE[:5]}.mbarrier::complete_tx::bytes.b128", 0, 64),
         "the generic address 0x0 does not lie in shared memory"),
    ],
)  # fmt: skip
def test_errors_teach(call, message):
    def wrong(warp, out):
        ready(warp)
        call(warp)

    with pytest.raises(tcemu.TcemuError, match=message):
        launch(wrong, np.zeros(1, np.uint32), 1, sanitizer="off")


def test_it_came_with_blackwell():
    with pytest.raises(tcemu.IllegalInstruction, match="needs sm_100 or later"):
        tcemu.parse(TRY, target="sm_90a")
    with pytest.raises(tcemu.IllegalInstruction, match="Compile for sm_120a"):
        tcemu.parse(EVERYWHERE, target="sm_120")
