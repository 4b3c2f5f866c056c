"""The sanitizer: every rule on faulty kernels, silence on correct ones, under many orders of the warps."""

import kernels_correct  # noqa: F401 - they fill the tables
import kernels_correct_idioms  # noqa: F401
import kernels_ends  # noqa: F401
import kernels_faulty_copies  # noqa: F401
import kernels_faulty_memory  # noqa: F401
import kernels_faulty_order  # noqa: F401
import kernels_faulty_wgmma  # noqa: F401
import kernels_global_proxy  # noqa: F401
import kernels_lanes  # noqa: F401
import kernels_mbarriers  # noqa: F401
import kernels_tcgen05  # noqa: F401
import kernels_tcgen05_correct  # noqa: F401
import kernels_tcgen05_pairs  # noqa: F401
import kernels_tcgen05_refused  # noqa: F401
import kernels_tcgen05_scales  # noqa: F401
import pytest
from kernels_table import CORRECT, FAULTY
from quick import spread, turn

POLICIES = ("late", "early", "random")
#: Seeds of a kernel, and of one that takes many steps, unless `pytest --seeds 1000` asks for more. What is reported
#: rests on clocks that know no order but the kernel's own, so that one seed shows nearly everything.
SEEDS, FEW_SEEDS = 20, 8
LONG = [
    "a_consumer_that_loads_with_ldmatrix",
    "a_fence_before_every_batch",
    "a_in_registers_and_one_thread_releases",
    "accumulator_scaled_between_groups",
    "attention",
    "cp_async_in_four_stages_with_one_barrier",
    "cp_async_in_two_stages",
    "double_buffered_tiles_with_one_barrier",
    "every_lane_copies_a_row",
    "looking_before_waiting",
    "one_buffer_in_a_loop",
    "one_tile_by_tma",
    "ordinary_stores_announced_by_an_mbarrier",
    "ordinary_stores_by_a_producer_warpgroup",
    "one_lane_of_the_producer_waits_too",
    "partial_sums_of_two_warpgroups",
    "several_tiles_for_each_block",
    "stores_fence_barrier_wgmma",
    "the_epilogue_uses_a_stage_again",
    "the_stage_before_is_released",
    "two_accumulators_the_older_is_read",
    "two_buffers_and_a_group_under_way",
    "two_buffers_leave_by_bulk_stores",
    "two_consumer_warpgroups_share_the_stages",
    "two_warpgroups_with_a_tile_each",
    "warpgroups_take_turns_at_the_tensor_cores",
]
named = {"ids": lambda row: f"{row.rule}-{row.name}" if row.rule else row.name}


def check_reported(row, seeds):
    for seed in seeds:
        for policy in POLICIES:
            found = row.launch(seed=seed, policy=policy).reports
            assert found, f"nothing reported, seed {seed}, {policy}"
            told = f"seed {seed}, {policy}:\n{found[0]}"
            assert found[0].rule == row.rule, told
            assert row.marks(found[0]), told


def check_silent(row, seeds):
    for seed in seeds:
        policy = POLICIES[seed % 3]
        found = row.launch(seed=seed, policy=policy).reports
        found = [report for report in found if report.severity != "hint"]
        assert not found, f"seed {seed}, {policy}:\n{found[0]}"


def test_long_kernels_are_kernels():
    assert set(LONG) <= {row.name for row in CORRECT}
    assert len(CORRECT) - len(LONG) >= 20


@pytest.mark.parametrize("row", FAULTY, **named)
def test_faulty_kernels_are_reported(row):
    check_reported(row, spread(range(2), 2, turn(2)))


@pytest.mark.parametrize("row", CORRECT, **named)
def test_correct_kernels_are_not(row):
    check_silent(row, spread(range(6), 2, turn(2)))


@pytest.fixture
def seeds(request):
    """How many seeds a kernel takes: its own number, unless --seeds says more."""
    return lambda number: range(2, max(number, request.config.getoption("--seeds")))


@pytest.mark.slow
@pytest.mark.parametrize("row", spread(FAULTY, 6, turn(6)), **named)
def test_faulty_kernels_are_reported_under_every_seed(row, seeds):
    check_reported(row, seeds(4))


@pytest.mark.slow
@pytest.mark.parametrize("row", spread(CORRECT, 4, turn(4)), **named)
def test_correct_kernels_are_not_under_many_seeds(row, seeds):
    check_silent(row, seeds(FEW_SEEDS if row.name in LONG else SEEDS))
