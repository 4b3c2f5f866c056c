"""The sanitizer between blocks and in clusters: each mistake is reported under the default order, its twin is not."""

import kernels_between  # noqa: F401 - they fill the table
import kernels_blocks  # noqa: F401
import kernels_cluster_exit  # noqa: F401
import kernels_clusters  # noqa: F401
import kernels_global_copies  # noqa: F401
import pytest
from kernels_pairs import PAIRS
from quick import some

from tcemu.sanitizer import RULES

#: The default order, and others for the same kernel.
ORDERS = [{"seed": 0, "policy": "late"}, {"seed": 1, "policy": "early"}, {"seed": 5, "policy": "random"}]
#: Only some orders show these: the default one does.
BY_ORDER = {"a_bulk_copy_of_a_partial_tile", "a_chain_that_waits_for_blocks_that_cannot_start"}
named = pytest.mark.parametrize("each", PAIRS, ids=lambda each: each.name)


def test_the_table_is_of_different_kernels():
    assert len({each.name for each in PAIRS}) == len(PAIRS)
    assert {rule for each in PAIRS for rule in each.rules} <= set(RULES)


@named
def test_mistakes_are_reported(each):
    for order in ORDERS[:1] if each.name in BY_ORDER else some(ORDERS, 1):
        each.check_reported(**order)


@named
def test_what_is_mended_is_silent(each):
    for order in some(ORDERS, 2):
        each.check_silent(**order)
