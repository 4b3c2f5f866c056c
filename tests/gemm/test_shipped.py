"""Kernels that people ship: the bits of a formulation in numpy and tcemu.matmul, in every order, without a report."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tcemu
from tcemu.errors import OperandError
from tcemu.gemm import wgmma_persistent
from tcemu.gemm.wgmma_persistent import PersistentPlan

POLICIES = ("late", "early", "random")


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def padded(matrix, *units):
    """With zeros up to whole units."""
    return np.pad(matrix, [(0, -size % unit) for size, unit in zip(matrix.shape, units, strict=True)])


def same(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert np.array_equal(found.view(f"u{found.itemsize}"), wanted.view(f"u{wanted.itemsize}"))


def silent(launch):
    assert (launch.parted, launch.reports, launch.error) == ([], [], None)


# ---------------------------------------------------------------------------------------------------- persistent

PLANS = {name: replace(plan, columns=64, stages=3) for name, plan in wgmma_persistent.SCHEDULES.items()}


@pytest.mark.parametrize("name", PLANS)
def test_a_persistent_kernel(row, name):
    """Several tiles for each block, with edges in every direction; K may be shorter than the stages, or longer."""
    plan = PLANS[name]
    for number, depth in enumerate((40, 200, 328)):
        a, b = normal(1, 300, depth), normal(2, depth, 150)
        wanted = tcemu.matmul(padded(a, 64, 16), padded(b, 16, 64), instruction=plan.mma)[:300, :150]
        with row(f"K = {depth}"):
            found, launch = wgmma_persistent.multiply(a, b, plan, 3, policy=POLICIES[number], seed=number)
            same(found, wanted)
            silent(launch)
            assert launch.blocks == 3


def test_blocks_more_than_tiles_are_not_launched():
    found, launch = wgmma_persistent.multiply(normal(1, 64, 16), normal(2, 16, 64), "ping-pong", sanitizer="off")
    assert (found.shape, launch.blocks) == ((64, 64), 1)


def test_three_teams():
    plan = PersistentPlan("e4m3", columns=32, consumers=1, teams=3, stages=2)
    a, b = (normal(seed, 320, 320).astype("float8_e4m3fn") for seed in (1, 2))
    found, launch = wgmma_persistent.multiply(a, b, plan, 4, policy="random")
    same(found, tcemu.matmul(a, b, instruction=plan.mma))
    silent(launch)


def test_a_team_that_does_not_wait_for_its_turn(monkeypatch):
    """Its wait for a stage ends two turns early: the parity is the same."""
    monkeypatch.setattr(wgmma_persistent, "await_turn", lambda *_: None)
    a, b = normal(1, 256, 256), normal(2, 256, 64)
    _, launch = wgmma_persistent.multiply(a, b, PLANS["ping-pong"], 1, policy="late", sanitizer="collect")
    assert "tma-unwaited" in {report.rule for report in launch.reports}


@pytest.mark.parametrize(("down", "across", "group"), [(5, 3, 2), (4, 4, 8), (1, 7, 3), (6, 1, 4)])
def test_each_tile_has_one_place(down, across, group):
    places = [wgmma_persistent.place(tile, down, across, group) for tile in range(down * across)]
    assert sorted(places) == [(y, x) for y in range(down) for x in range(across)]
    bands = [y // group for y, _ in places]
    assert bands == sorted(bands)  # a group of rows is finished before the next one begins


@pytest.mark.parametrize(
    ("schedule", "blocks", "message"),
    [
        ("pingpong", 1, "the schedule must be 'cooperative' or 'ping-pong', or a PersistentPlan; got 'pingpong'"),
        (PersistentPlan(teams=2), 1, "2 teams of 2 consumer warpgroups: this kernel has 2 or 3 warpgroups that"),
        (PersistentPlan(group=0), 1, "group and blocks must be at least 1; got 0 and 1"),
        ("cooperative", 0, "group and blocks must be at least 1; got 8 and 0"),
    ],
)
def test_persistent_kernels_that_cannot_be(schedule, blocks, message):
    with pytest.raises(OperandError, match=re.escape(message)):
        wgmma_persistent.multiply(normal(1, 64, 64), normal(2, 64, 64), schedule, blocks)
