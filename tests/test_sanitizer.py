"""The sanitizer: every rule on faulty kernels, silence on correct ones, under many orders of the warps."""

import kernels_correct  # noqa: F401 - they fill the tables
import kernels_correct_idioms  # noqa: F401
import kernels_faulty_copies  # noqa: F401
import kernels_faulty_memory  # noqa: F401
import kernels_faulty_order  # noqa: F401
import kernels_faulty_wgmma  # noqa: F401
import pytest
from kernels_table import CORRECT, FAULTY

POLICIES = ("late", "early", "random")
named = {"ids": lambda row: f"{row.rule}-{row.name}" if row.rule else row.name}


def check_reported(row, seeds):
    for seed in seeds:
        for policy in POLICIES:
            found = row.launch(seed=seed, policy=policy).reports
            assert found, f"nothing reported, seed {seed}, {policy}"
            told = f"seed {seed}, {policy}:\n{found[0]}"
            assert found[0].rule == row.rule, told
            assert found[0].site.line in row.lines, told


def check_silent(row, seeds):
    for seed in seeds:
        policy = POLICIES[seed % 3]
        found = row.launch(seed=seed, policy=policy).reports
        assert not found, f"seed {seed}, {policy}:\n{found[0]}"


@pytest.mark.parametrize("row", FAULTY, **named)
def test_faulty_kernels_are_reported(row):
    check_reported(row, range(2))


@pytest.mark.parametrize("row", CORRECT, **named)
def test_correct_kernels_are_not(row):
    check_silent(row, range(6))


@pytest.mark.slow
@pytest.mark.parametrize("row", FAULTY, **named)
def test_faulty_kernels_are_reported_under_every_seed(row):
    check_reported(row, range(2, 50))


@pytest.mark.slow
@pytest.mark.parametrize("row", CORRECT, **named)
def test_correct_kernels_are_not_under_a_thousand_seeds(row):
    check_silent(row, range(6, 1006))
