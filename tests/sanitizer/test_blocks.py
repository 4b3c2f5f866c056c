"""The sanitizer between blocks and in clusters: each mistake is reported under each order, its twin is not.

A run asks one order of each pair, another one from pair to pair and every day.
"""

import re

import kernels_between  # noqa: F401 - they fill the table
import kernels_blocks  # noqa: F401
import kernels_cluster_exit  # noqa: F401
import kernels_clusters  # noqa: F401
import kernels_fresh_block  # noqa: F401
import kernels_fresh_grid  # noqa: F401
import kernels_fresh_hopper  # noqa: F401
import kernels_global_copies  # noqa: F401
import kernels_mutated  # noqa: F401
import kernels_strong  # noqa: F401
import kernels_tensor_maps
import kernels_tracked_barriers  # noqa: F401
import kernels_tracked_block  # noqa: F401
import kernels_tracked_cluster  # noqa: F401
import kernels_tracked_grid  # noqa: F401
import kernels_tracked_ranks  # noqa: F401
import numpy as np
import pytest
from kernels_pairs import PAIRS, leader
from quick import DAY, spread, turn

import tcemu
from tcemu.sanitizer import RULES

#: The default order, and others for the same kernel.
ORDERS = [{"seed": 0, "policy": "late"}, {"seed": 1, "policy": "early"}, {"seed": 5, "policy": "random"}]
#: Only some orders show these: the default one does.
BY_ORDER = {
    "a_bulk_copy_of_a_partial_tile",
    "a_chain_that_waits_for_blocks_that_cannot_start",
    "the_last_block_of_three_releases_what_it_has_not_acquired",
    "a_signal_cleared_before_all_have_seen_it",
    "a_barrier_of_the_grid_used_twice",
    "flags_reset_by_their_owner_at_the_start",
    "a_look_back_at_volatile_sums",
}
#: The default order does not show these, and the default search finds them.
BY_SEARCH = {
    "a_counter_cleared_under_a_late_poll",
    "a_relaxed_message_to_the_peer",
    "a_ring_of_flags_in_shared_memory",
    "a_ring_with_one_slot_too_few",
    "a_sequence_lock_around_plain_data",
    "a_volatile_message_to_the_next_warp",
    "a_workspace_for_the_next_tile",
    "an_epoch_of_one_bit",
    "stream_k_peers_added_in_any_order",
    "the_last_head_is_lost",
    "the_value_of_the_last_call_opens_this_one",
    "two_locks_in_opposite_orders",
}
#: These try a few times, and what they get by then depends on the order.
BY_TIME = {"a_task_behind_a_relaxed_count"}
named = pytest.mark.parametrize("each", PAIRS, ids=lambda each: each.name)


def today(each):
    """The orders of a pair that this run asks."""
    return spread(ORDERS, 3, first=PAIRS.index(each) + DAY)


def test_the_table_is_of_different_kernels():
    assert len({each.name for each in PAIRS}) == len(PAIRS)
    assert {rule for each in PAIRS for rule in each.rules} <= set(RULES)


#: A search takes a second: every day others of these.
MISTAKES = [each for each in PAIRS if each.name not in BY_SEARCH or each.name in spread(sorted(BY_SEARCH), 3, turn(3))]


@pytest.mark.parametrize("each", MISTAKES, ids=lambda each: each.name)
def test_mistakes_are_reported(each):
    if each.name in BY_SEARCH:
        each.check_found()
        return
    for order in ORDERS[:1] if each.name in BY_ORDER else today(each):
        each.check_reported(**order)


@named
def test_what_is_mended_is_silent_and_does_not_depend_on_the_order(each):
    left = {each.check_silent(**order) for order in [ORDERS[0], *today(each)]}
    assert len(left) == 1 or each.name in BY_TIME


def cutlass(warp, x, described):
    """CUTLASS's tma_desc_wait_group between a load, which is in no group, and the next map."""
    kernels_tensor_maps.begin(warp, x, described)
    with leader(warp):
        kernels_tensor_maps.load(warp, described, kernels_tensor_maps.FULL)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0, read=True)
        warp.run("tensormap.replace.tile.global_dim.global.b1024.b32", described, 0, 16)
        warp.mbarrier_wait(kernels_tensor_maps.FULL, 0)


def test_a_group_that_is_no_promise_is_a_hint():
    arrays = np.zeros(64, np.uint32), np.zeros(32, np.uint32)
    (report,) = tcemu.launch(cutlass, 1, 32, arrays, shared=1024, sanitizer="collect").reports
    assert (report.rule, report.severity) == ("global-race", "hint")
    assert "writes bytes of the tensor map at" in report.message
    assert "as in CUTLASS; but this copy is in no group" in report.message


def polled(warp, data, flag, store, load):
    """Block 1 waits for the flag of block 0, and loads the data."""
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.laneid), 5, order="relaxed")
        warp.bar_warp_sync()
        with leader(warp):
            warp.st_global(flag, 1, order=store)
    else:
        with leader(warp):
            while not warp.ld_global(flag, order=load)[0, 0]:
                warp.nanosleep(20)
        warp.bar_warp_sync()
        warp.ld_global(data.at(warp.laneid), order="relaxed")


def test_a_flag_that_is_not_released_is_an_error_and_one_that_is_not_acquired_a_hint():
    for store, load, told in (
        ("relaxed", "relaxed", ("error", "no release and no fence is between the two stores")),
        ("release", "relaxed", ("hint", "no acquire and no fence is between the two loads")),
        ("release", "acquire", None),
    ):
        arrays = np.zeros(32, np.uint32), np.zeros(1, np.uint32)
        result = tcemu.launch(polled, 2, 32, (*arrays, store, load), policy="early", seed=1, sanitizer="collect")
        found = [(each.severity, each.message.partition(": ")[2]) for each in result.reports]
        assert found == [told] * bool(told)


def prepares(warp, x, waits):
    """The reader of a stage prepares it for the next copy, also in the last turn, which has none."""
    with leader(warp):
        warp.mbarrier_init(128, 1)
        warp.fence_mbarrier_init()
        warp.mbarrier_arrive_expect_tx(128, 64)
        warp.cp_async_bulk_shared_global(0, x, 64, 128)
    warp.bar_warp_sync()
    warp.mbarrier_wait(128, 0)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(128, 64)
    if waits:
        warp.mbarrier_wait(128, 1)


def test_bytes_that_nobody_waits_for_are_a_warning():
    for waits, severity in ((False, "warning"), (True, "error")):
        given = np.zeros(16, np.uint32), waits
        (report,) = tcemu.launch(prepares, 1, 32, given, shared=136, sanitizer="collect").reports
        assert (report.rule, report.severity) == ("expect-tx", severity)
        assert ("No thread waits for this phase" in str(report)) == (not waits)


@pytest.mark.parametrize("name", ["a_fence_for_the_block_alone", "membar_cta_behind_the_loop"])
def test_a_fence_that_does_not_reach_the_other_block_is_named(name):
    (each,) = (pair for pair in PAIRS if pair.name == name)
    message = each.reports(False)[0].message
    assert re.search(r"; the fence of block \d at .* has the scope \.cta, which does not reach so far", message)
