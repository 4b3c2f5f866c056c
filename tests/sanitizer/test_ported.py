"""The sanitizer on public kernels: it is silent, the results are right, and common mistakes break the right rule."""

import kernels_ported_block  # noqa: F401 - they fill the table
import kernels_ported_cluster  # noqa: F401
import kernels_ported_grid  # noqa: F401
import kernels_ported_grid_barriers  # noqa: F401
import kernels_ported_hopper  # noqa: F401
import kernels_ported_pushes  # noqa: F401
import kernels_ported_ranks  # noqa: F401
import kernels_ported_sort  # noqa: F401
import kernels_ported_wmma  # noqa: F401
import numpy as np
import pytest
from kernels_ported_table import PORTED
from kernels_wild_table import leader
from quick import some, spread

from tcemu import launch
from tcemu.sanitizer import RULES

#: The default order, and others for the same kernel.
ORDERS = [{"seed": 0, "policy": "late"}, {"seed": 1, "policy": "early"}, {"seed": 5, "policy": "random"}]
#: Mistakes that only some orders show, with one that does; `tcemu sanitize` finds them all.
BY_ORDER = {"one mbarrier for both": ORDERS[0], "no room asked for": ORDERS[1]}


def faults():
    return [pytest.param(each, fault, id=f"{each.name}-{fault}") for each in PORTED for fault in each.faults]


def test_the_table_is_of_different_kernels():
    assert len({each.name for each in PORTED}) == len(PORTED) >= 20
    for each in PORTED:
        for fault, rules in each.faults.items():
            assert each.lines(fault), f"{each.name} has no line for {fault}"
            assert {rules} if isinstance(rules, str) else set(rules) <= set(RULES)


@pytest.mark.parametrize("each", PORTED, ids=lambda each: each.name)
def test_ported_kernels_are_silent_and_right(each):
    for order in spread(ORDERS, 3):
        each.check_silent(**order)


@pytest.mark.parametrize(("each", "fault"), some(faults(), 40))
def test_mistakes_in_them_are_reported(each, fault):
    for order in [BY_ORDER[fault]] if fault in BY_ORDER else spread(ORDERS, 3):
        each.check_reported(fault, **order)


# ------------------------------------------------------------------------------------------------ laws


def cleared(warp, order, flag, out):
    """Block 0 sets a flag; block 1 polls it with loads of this order, and clears it with a plain store."""
    with leader(warp):
        if warp.ctaid[0] == 0:
            warp.st_global(flag, 1, order="relaxed.gpu")
            return
        while not warp.ld_global(flag, order=order)[0, 0]:
            warp.nanosleep(20)
        warp.st_global(flag, 0)


def test_a_plain_store_follows_the_strong_write_that_its_thread_has_seen():
    """Causality order (PTX ISA 8.9.5): a write comes before what follows a strong read that has seen it."""
    arrays = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    for order in ORDERS:
        assert not launch(cleared, 2, 32, ("relaxed.gpu", *arrays), **order).reports


def test_a_plain_load_of_a_flag_is_told_to_be_strong():
    arrays = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    first = launch(cleared, 2, 32, ("", *arrays), sanitizer="collect").reports[0]
    assert first.rule == "global-race"
    assert "load with ld.acquire.gpu, and store with st.release.gpu" in first.fix


def test_bytes_of_the_next_phase_are_told_to_wait():
    """Two reductions on one mbarrier: the second one's bytes arrive while the first phase still waits for its own."""
    (each,) = (each for each in PORTED if each.name == "a_row_is_reduced_by_a_cluster")
    first = each.launch("one mbarrier for both")[0][0]
    assert "expects 32 bytes, but its copies deliver" in first.message
    assert "its thread must first wait until this phase is complete" in str(first)
