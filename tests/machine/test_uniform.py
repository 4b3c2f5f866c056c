"""Operands of which an instruction takes one value, given as registers with one for each lane."""

from __future__ import annotations

import numpy as np
import pytest

import tcemu
from tcemu.errors import OperandError
from tcemu.machine.tensor_map import TensorMap

LANES = np.arange(32, dtype=np.int64)
SHFL, MATCH = "shfl.sync.idx.b32", "match.any.sync.b32"


def one(kernel, **options):
    return tcemu.launch(kernel, sanitizer="off", **options)


def test_registers_whose_active_lanes_agree_are_one_value():
    def kernel(warp):
        only = np.where(LANES < 8, 1, 99).astype(np.uint32)
        with warp.only(LANES < 8):
            warp.run("barrier.arrive", only, np.where(LANES < 8, 32, 3))
        with warp.only(LANES >= 8):
            warp.run("barrier.arrive", np.full((32, 1), 1, np.uint32), 32)
        warp.run("barrier.sync", np.full(32, 2), np.full(32, 32))
        assert warp.run("bar.red.popc.u32", np.zeros(32, np.uint32), LANES < 5) == 5  # without a number of threads
        assert warp.run("vote.sync.ballot.b32", LANES < 5, np.full(32, 0xFFFFFFFF, np.uint32)) == 31
        assert warp.run("vote.sync.ballot.b32", LANES < 5, -1) == 31

    assert one(kernel).counts["barrier.sync"] == 1


def test_lanes_that_disagree_are_told_so():
    with pytest.raises(OperandError, match=r"takes one value for barrier, so .* lane 0 gives 0, lane 1 gives 1"):
        one(lambda warp: warp.run("bar.sync", LANES.astype(np.uint32)))
    with pytest.raises(OperandError, match=r"takes one value for threads"):
        one(lambda warp: warp.run("barrier.sync", 0, 32 + 32 * (LANES // 16)))


def test_sets_of_lanes_with_a_membermask_each():
    """What atomics aggregated over a warp do: the mask that match.any gives is the mask of the next shuffle."""

    def kernel(warp, out):
        keys = (LANES * 7 % 5).astype(np.uint32)
        masks = warp.run(MATCH, keys, 0xFFFFFFFF)
        assert masks.tolist() == [sum(1 << other for other in LANES if keys[other] == key) for key in keys]
        leader = np.array([(int(mask) & -int(mask)).bit_length() - 1 for mask in masks])
        total = warp.run("redux.sync.add.u32", LANES.astype(np.uint32), masks)
        first = warp.run(SHFL, LANES.astype(np.uint32), leader, 31, masks)
        votes = warp.run("vote.sync.ballot.b32", LANES % 2 == 0, masks)
        same, all_same = warp.run("match.all.sync.b32", keys, masks, both=True)
        for lane in LANES:
            group = LANES[keys == keys[lane]]
            assert total[lane, 0] == group.sum()
            assert first[lane] == group[0]
            assert votes[lane] == sum(1 << other for other in group if other % 2 == 0)
            assert (same[lane], all_same[lane]) == (masks[lane], True)
        warp.run("bar.warp.sync", masks)

    one(kernel, args=(np.zeros(1, np.uint32),))


def test_a_mask_may_name_lanes_that_have_exited():
    def kernel(warp):
        with warp.only(LANES >= 16):
            warp.exit()
        assert warp.run("vote.sync.any.pred", LANES == 3, 0xFFFFFFFF)

    one(kernel)
    assert one(lambda warp: warp.run("redux.sync.add.u32", 1, 0xFFFFFFFF), block=48).counts["redux.sync.add.u32"] == 2


def test_a_mask_may_not_name_lanes_elsewhere():
    def kernel(warp):
        with warp.only(LANES < 16):
            warp.run("vote.sync.any.pred", LANES == 3, np.full(32, 0xFFFFFFFF, np.uint32))

    with pytest.raises(tcemu.errors.Disagreement, match="must name the lanes that execute it, 0x0000ffff"):
        one(kernel)


def test_each_lane_copies_its_own_box():
    """Four lanes issue a tensor copy each, at their own coordinates."""
    load = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"

    def kernel(warp, x, out):
        source = TensorMap.of(x, (4, 4))
        with warp.only(LANES == 0):
            warp.mbarrier_init(1024, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(1024, 256)
        warp.bar_warp_sync()
        with warp.only(LANES < 4):
            warp.run(load, 64 * 2 * LANES, source, (4 * LANES, np.full(32, 4)), 1024)
        warp.mbarrier_wait(1024, 0)
        warp.st_global(out.at(LANES), warp.ld_shared(128 * (LANES // 8) + 4 * (LANES % 8)))

    x, out = np.arange(256, dtype=np.float32).reshape(16, 16), np.zeros(32, np.float32)
    one(kernel, args=(x, out), shared=1032)
    assert np.array_equal(out.reshape(4, 8), np.stack([x[4:6, 4 * n : 4 * n + 4].reshape(-1) for n in range(4)]))


def test_the_records_say_which():
    roles = {operand.role for operand in tcemu.parse("barrier.red.popc.u32").sources if operand.uniform}
    assert roles == {"barrier", "threads"}
    assert not any(operand.uniform for operand in tcemu.parse("st.shared.b32").operands)
