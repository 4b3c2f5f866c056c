"""The sanitizer on other people's kernels: silence on idioms of well-known libraries, the right rule for their bugs."""

import kernels_tracked_correct  # noqa: F401 - they fill the tables
import kernels_wild_correct  # noqa: F401
import kernels_wild_correct_flags  # noqa: F401
import kernels_wild_correct_hopper  # noqa: F401
import kernels_wild_correct_mma  # noqa: F401
import kernels_wild_correct_orders  # noqa: F401
import kernels_wild_correct_tma  # noqa: F401
import kernels_wild_correct_wgmma  # noqa: F401
import kernels_wild_faulty  # noqa: F401
import kernels_wild_faulty_flags  # noqa: F401
import kernels_wild_faulty_hopper  # noqa: F401
import kernels_wild_faulty_mma  # noqa: F401
import kernels_wild_faulty_stores  # noqa: F401
import kernels_wild_faulty_wgmma  # noqa: F401
import kernels_wild_reports  # noqa: F401
import kernels_wild_stored  # noqa: F401
import pytest
from kernels_wild_table import CORRECT, FAULTY, POLICIES
from quick import some, spread

from tcemu.sanitizer import RULES

#: One for each policy, of 21 that were tried with each kernel under each.
SEEDS = range(0, 21, 10)


def once(table):
    """Each kernel under one seed and one policy, another for each."""
    return [pytest.param(row, n % 21, POLICIES[n % 3], id=row.name) for n, row in enumerate(table)]


def test_the_tables_are_of_different_kernels():
    names = [row.name for row in (*CORRECT, *FAULTY)]
    assert len(set(names)) == len(names)
    assert len(CORRECT) >= 40
    assert len(FAULTY) >= 50
    assert {rule for row in FAULTY for rule in row.rules} <= set(RULES)


@pytest.mark.parametrize(("row", "seed", "policy"), some(once(CORRECT), 32))
def test_correct_kernels_are_silent_and_right(row, seed, policy):
    row.check_silent(seed=seed, policy=policy)


@pytest.mark.parametrize(("row", "seed", "policy"), once(FAULTY))
def test_faulty_kernels_are_reported(row, seed, policy):
    row.check_reported(seed=seed, policy=policy)


@pytest.mark.slow
@pytest.mark.parametrize("row", spread(CORRECT, 3), ids=lambda row: row.name)
def test_correct_kernels_are_silent_under_every_policy(row):
    for seed, policy in zip(SEEDS, POLICIES, strict=True):
        row.check_silent(seed=seed, policy=policy)


@pytest.mark.slow
@pytest.mark.parametrize("row", spread(FAULTY, 3), ids=lambda row: row.name)
def test_faulty_kernels_are_reported_under_every_policy(row):
    for seed, policy in zip(SEEDS, POLICIES, strict=True):
        row.check_reported(seed=seed, policy=policy)
