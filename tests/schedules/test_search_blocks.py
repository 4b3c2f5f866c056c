"""The search between blocks and in clusters: protocols that fail in a rare order of blocks, and their mended twins."""

import re

import pytest
from kernels_rare_blocks import BETWEEN

import tcemu
from tcemu.errors import LaunchError

named = pytest.mark.parametrize("row", BETWEEN, ids=lambda row: row.name)
#: Runs after which the search leaves a mended twin alone.
MENDED = 20


def search(row, mended=False, **more):
    return tcemu.search_schedules(*row.arguments(mended), **row.options, check=row.check, seconds=1e6, **more)


def fails(row, mended=False, **more):
    kernel, grid, block, args = row.arguments(mended)
    try:
        tcemu.launch(kernel, grid, block, args, **row.options, **more)
        if row.check is not None:
            row.check(*args)
    except (LaunchError, AssertionError):
        return True
    return False


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
