"""The search between blocks and in clusters: protocols that fail in a rare order of blocks, and their mended twins."""

import re

import pytest
from kernels_rare_blocks import BETWEEN
from searching import MENDED, fails, search

named = pytest.mark.parametrize("row", BETWEEN, ids=lambda row: row.name)


def test_there_are_enough_of_them():
    assert len({row.name for row in BETWEEN}) == len(BETWEEN) >= 6


@named
def test_the_default_order_is_clean(row):
    assert not fails(row)
    assert not fails(row, mended=True)


@named
def test_the_default_search_finds_them(row):
    found = search(row)
    assert found.failures, str(found)
    schedule = re.fullmatch('schedule="(.*)"', found.failures[0].replay).group(1)
    assert fails(row, schedule=schedule), f"{schedule} does not repeat it"
    assert not fails(row, mended=True, schedule=schedule)


@named
def test_mended_twins_are_silent(row):
    found = search(row, mended=True, runs=MENDED)
    assert not found.failures, str(found)
