"""The sanitizer: every rule on faulty kernels, silence on correct ones, under many orders of the warps."""

import kernels_correct  # noqa: F401 - they fill the tables
import kernels_faulty_copies  # noqa: F401
import kernels_faulty_memory  # noqa: F401
import kernels_faulty_wgmma  # noqa: F401
import pytest
from kernels_table import CORRECT, FAULTY

POLICIES = ("late", "early", "random")
named = {"ids": lambda row: f"{row.rule}-{row.name}" if row.rule else row.name}


def check_reported(row, seed, policy):
    found = row.launch(seed=seed, policy=policy).reports
    assert found, f"nothing reported, seed {seed}, {policy}"
    assert found[0].rule == row.rule, f"seed {seed}, {policy}:\n{found[0]}"
    assert found[0].site.line in row.lines, f"seed {seed}, {policy}:\n{found[0]}"


@pytest.mark.parametrize("row", FAULTY, **named)
def test_faulty_kernels_are_reported(row):
    for seed in range(4):
        for policy in POLICIES:
            check_reported(row, seed, policy)


@pytest.mark.parametrize("row", CORRECT, **named)
def test_correct_kernels_are_not(row):
    for seed in range(4):
        for policy in POLICIES:
            assert not row.launch(seed=seed, policy=policy).reports
