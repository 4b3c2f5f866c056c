"""What people got wrong with tcgen05, and what the sanitizer knows: both tables, and that each line has its kernel.

The kernels themselves are in the corpus, which test_corpus.py runs in many orders.
"""

import kernels_tcgen05  # noqa: F401 - they fill the tables
import kernels_tcgen05_correct  # noqa: F401
import kernels_tcgen05_pairs  # noqa: F401
import kernels_tcgen05_refused  # noqa: F401
import kernels_tcgen05_scales  # noqa: F401
import numpy as np
import pytest
from kernels_table import CORRECT, FAULTY
from rows import rows

import tcemu
from tcemu.errors import IllegalInstruction, LaunchError, LayoutError
from tcemu.layouts import instruction_descriptor
from tcemu.machine.launch import launch
from tcemu.sanitizer import RULES

KERNELS = {each.name: each for each in FAULTY}
TWINS = {each.name: each for each in CORRECT}

#: Mistakes in the issues of well-known libraries: what was wrong, where, and the kernels that make it here. A number
#: without a kernel is caught before a kernel runs, or by nobody; the tests below say which.
MISTAKES = {
    1: ("cutlass 3435", "the_pair_is_freed_before_the_peer_has_allocated"),
    2: ("cutlass 3316", "columns_of_a_peer_that_may_not_run_yet"),
    3: ("cutlass 3652", "columns_are_freed_while_unused_lanes_load"),
    4: ("flash-attention 182", ("an_accumulator_is_released_before_the_wait "
        "a_stored_operand_is_multiplied_before_the_wait")),
    5: ("flashinfer 5334", "an_accumulator_is_released_before_the_wait"),
    6: ("cutlass 2974", "no_fence_before_the_arrival a_relaxed_wait_without_a_fence"),
    7: ("sglang 39124", "tiles_stored_without_a_proxy_fence"),
    8: ("tilelang 2287", "a_commit_of_another_group"),
    9: ("tilelang 2831", "four_allocations_of_608_columns"),
    10: ("Fuser 4152", "columns_for_three_accumulators fewer_columns_than_32"),
    11: ("triton 6205", ""),
    12: ("facebookexperimental/triton 2024", "scale_factors_land_on_the_accumulator scales_in_the_columns_of_d"),
    13: ("facebookexperimental/triton 1449", "the_slot_of_the_allocation_lies_in_a_tile"),
    14: ("triton 6061", "no_barrier_before_the_copy"),
    15: ("triton 9460", ("bytes_of_the_follower_at_its_own_mbarrier the_follower_copies "
         "m_is_doubled_twice m_is_that_of_one_block")),
    16: ("triton 10196", "the_mbarriers_expect_a_commit_of_each_block one_arrival_is_expected_of_two_blocks"),
    17: ("facebookexperimental/triton 3472", "the_next_sum_does_not_wait_for_the_readers"),
    18: ("facebookexperimental/triton 1630", "only_the_first_of_two_loads_is_awaited"),
    19: ("cutlass 2674", "no_tile_of_k"),
    20: ("DeepGEMM 341", "the_lane_is_missing_in_the_address"),
    21: ("cuda-oxide 1194, modular 5707", ""),
    22: ("triton 9760", ""),
    23: ("tilelang 2880", "rows_of_m_64_in_adjacent_lanes"),
    24: ("tilelang 2379", ""),
    25: ("tilelang 2644", "each_block_expects_the_bytes_of_the_cluster the_mask_of_the_commit_is_dropped"),
    26: ("btx 89", ""),
}  # fmt: skip

#: What a sanitizer for tcgen05 must know, and the kernels of the corpus that break it.
WANTED = {
    "a block allocates again after it has given up the permit": "an_allocation_after_the_permit_is_gone",
    "a warp outside its lanes": "the_lane_is_missing_in_the_address every_warp_stores_to_lane_0",
    "columns that are not allocated": "the_second_accumulator_has_no_columns a_load_after_the_columns_are_freed",
    "what is freed was not allocated so": "half_of_an_allocation_is_freed",
    "a number of columns that cannot be": "columns_for_three_accumulators fewer_columns_than_32",
    "outside Tensor Memory": "columns_beyond_the_last",
    "a lane where the operand cannot begin": "an_accumulator_of_128_rows_begins_at_lane_32",
    "sparsity of the descriptor against the opcode": "a_sparse_descriptor_for_a_dense_opcode",
    "sparsity that the instruction does not have": "a_sparse_product_of_256_columns_with_ws",
    "D used before the commit's phase": "sums_loaded_after_a_barrier_only the_follower_stores_before_the_commit",
    "no wait for ld or st": "an_accumulator_is_released_before_the_wait stored_scales_are_used_before_the_wait",
    "no fence before or after threads synchronise": "no_fence_before_the_arrival no_fence_after_the_mbarrier",
    "no proxy fence": "tiles_stored_without_a_proxy_fence",
    "operands overwritten early": "a_tile_is_refilled_before_the_phase the_next_scales_overtake_the_product",
    "columns not freed, or twice": "the_block_exits_with_its_columns columns_are_freed_twice",
    "columns of a peer freed early": "the_follower_frees_what_the_leader_multiplies",
    "more than 512 columns": "four_allocations_of_608_columns",
    "two .cta_group in a kernel": "a_commit_of_another_group",
    "a commit in another thread": "another_lane_commits another_warp_commits",
    "an issue by 32 lanes": "every_lane_multiplies every_lane_copies",
    "the arrivals of commits, counted wrong":
        "the_mbarriers_expect_a_commit_of_each_block one_arrival_is_expected_of_two_blocks",
    "the follower issues, or there is no peer": "the_follower_copies a_pair_without_a_cluster",
    "M, N and reserved bits of the instruction descriptor": "n_counts_bytes m_is_doubled_twice",
    "a descriptor of wgmma": "a_descriptor_of_wgmma",
    "operands in the same columns": "a_lies_in_the_columns_of_d scales_in_the_columns_of_d",
    "an undefined accumulator": "the_first_product_adds no_tile_of_k",
    "scales and metadata that nothing wrote": "scales_of_b_are_never_copied metadata_that_nobody_wrote",
    "a collector that was not filled": "a_is_used_that_nothing_filled the_collector_is_given_up_in_between",
    "warps that nothing orders": "the_next_sum_does_not_wait_for_the_readers",
    "order across warps, or of another shape": "two_warps_add_in_turn a_product_of_another_shape_adds",
}  # fmt: skip

#: What the first report advises where the rule's own fix would not teach enough.
ADVICE = {
    "four_allocations_of_608_columns": "Allocate at most the 512 columns of an SM at a time",
    "an_accumulator_of_128_rows_begins_at_lane_32": "Put a lane into bits 31:16 of the address",
    "scales_of_b_are_never_copied": "Write the scale factors of B first: with tcgen05.cp",
    "metadata_that_nobody_wrote": "Write the metadata first",
    "rows_of_m_64_in_adjacent_lanes": "of M = 64, lanes 0 to 15 of each quarter",
    "columns_of_a_peer_that_may_not_run_yet": "meet at barrier.cluster (arrive and wait) before tcgen05.alloc.",
    "the_pair_is_freed_before_the_peer_has_allocated": "before tcgen05.dealloc, after both have allocated",
    "the_leader_multiplies_before_the_follower_has_columns": "before tcgen05.mma, after both have allocated",
}

SMALLEST = {each.kernel.__name__ for each in tcemu.sanitizer.rules.EXAMPLES.values()}


@rows("number", MISTAKES)
def test_each_mistake_has_its_kernel_and_its_twin(number):
    for name in MISTAKES[number][1].split():
        assert name in KERNELS
        assert f"{name}_mended" in TWINS or name in SMALLEST


@rows("what", WANTED)
def test_each_rule_has_its_kernels(what):
    for name in WANTED[what].split():
        assert KERNELS[name].rule in RULES


def test_every_rule_of_tcgen05_is_wanted():
    named = {KERNELS[name].rule for names in WANTED.values() for name in names.split()}
    assert {rule for rule in RULES if rule.startswith("tcgen05")} <= named


@rows("name", ADVICE)
def test_the_first_report_says_how_to_mend_it(name):
    assert ADVICE[name] in KERNELS[name].launch().reports[0].fix


# ------------------------------------------------------------------------------------------------ before a kernel runs


@pytest.mark.parametrize("target", ["sm_120", "sm_120a", "sm_121a", "sm_90a", "sm_100"])
def test_chips_without_tensor_memory_refuse_it_by_name(target):
    """21: the consumer chips of the same generation have no tcgen05; sm_100 without the a or f has not, either."""
    with pytest.raises(IllegalInstruction, match=f"does not exist on {target}: it needs sm_100"):
        tcemu.parse("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", target)


def test_integers_are_refused_on_sm_103():
    """22: kind::i8 is gone there."""
    with pytest.raises(IllegalInstruction, match=r"does not exist on sm_103a: it needs sm_100a or sm_110a"):
        tcemu.parse("tcgen05.mma.cta_group::1.kind::i8", "sm_103a")


def test_a_scale_id_that_does_not_fit_is_refused():
    """25: with four scale IDs, the fifth step of k must move on by a column. Four bits are not there to hold a 4."""
    with pytest.raises(LayoutError, match="sfa_id"):
        instruction_descriptor(128, 8, kind="mxf8f6f4", a="e4m3", b="e4m3", sfa_id=4)


def test_what_the_hardware_refuses_ends_its_own_launch():
    """26: the next launch is not blamed."""

    def wrong(warp):
        warp.tcgen05_alloc(0, 33)

    with pytest.raises(LaunchError, match=r"got 33.* at .*test_tcgen05_mistakes"):
        launch(wrong, 1, 32, shared=64, target="sm_100a")
    launch(lambda warp, out: warp.st_global(out + 4 * warp.laneid, 1), 1, 32, (np.zeros(32, np.uint32),))


# 11: Triton aligns operands to four columns. The manual asks it of none of them, so nobody here refuses two of them
# that begin at column 2; `tcemu record --tcgen05` asks a B200.
# 24: tiles of the wrong base are those of test_tcgen05_tiles.py, because the sanitizer must know their matrix.
# 25: a scale ID that has wrapped is a legal one, of other scales: only the result shows it.
