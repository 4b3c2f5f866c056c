"""What the sanitizer keeps from one access, block or launch to the next does not leak from one into another."""

from contextlib import suppress
from pathlib import Path

import kernels_between  # noqa: F401 - they fill the table
import kernels_clusters  # noqa: F401
import kernels_fresh_hopper  # noqa: F401
import kernels_global_copies  # noqa: F401
import kernels_tensor_maps  # noqa: F401
import numpy as np
import pytest
from kernels_pairs import PAIRS
from quick import DAY, spread

import tcemu
from tcemu.errors import TcemuError
from tcemu.sanitizer.rules import EXAMPLES
from tcemu.sanitizer.rules.parts import MMA as WGMMA
from tcemu.sanitizer.rules.parts import ORDINARY, TILES
from tcemu.sanitizer.sanitizer import Sanitizer

BYTES = 1 << 16
LOAD_A = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16"
LOAD_B = "wmma.load.b.sync.aligned.row.m16n16k16.shared.f16"
LOAD_C = "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32"
WIDE_C = "wmma.load.c.sync.aligned.row.m32n8k16.shared.f32"
MMA = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32"


def reports(kernel, block, *more, grid=1, shared=0):
    x = np.zeros(64, np.uint32)
    return tcemu.launch(kernel, grid, block, (x, *more), shared=shared, sanitizer="collect").reports


def marked(mark):
    """The line of this file that ends with a mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"# <- {mark}")]
    return line


def callers_of_read(found):
    """The lines of the callers of the read of the only report; its write is in no helper."""
    (report,) = found
    assert report.rule == "global-race"
    return [site.line for site in (*report.callers, *report.earlier.callers)]


# ------------------------------------------------------------------------------------------ weak loads


def read(warp, x, first=0):
    warp.ld_global(x.at(first + warp.threads % 32))


def reads_before_and_after_a_barrier(warp, x, reader):
    if warp.warpid == reader:
        read(warp, x)
    warp.bar_sync()
    if warp.warpid == reader:
        read(warp, x)  # <- the second read
    else:
        warp.st_global(x.at(warp.threads % 32), 1)


#: One of them runs first.
readers = pytest.mark.parametrize("reader", [0, 1])


@readers
def test_a_load_in_a_helper_has_the_caller_of_this_call(reader):
    assert callers_of_read(reports(reads_before_and_after_a_barrier, 64, reader)) == [marked("the second read")]


def reads_in_two_warps(warp, x):
    if warp.warpid == 0:
        read(warp, x, 32)
    elif warp.warpid == 1:
        read(warp, x)  # <- the read of warp 1
    else:
        warp.st_global(x.at(warp.threads % 32), 1)


def test_each_warp_has_its_own_caller():
    assert callers_of_read(reports(reads_in_two_warps, 96)) == [marked("the read of warp 1")]


def reads_of_two_warps(warp, x):
    if warp.warpid < 2:
        warp.ld_global(x.at(warp.threads))
    else:
        warp.st_global(x.at(32 + warp.threads % 32), 1)


def test_each_warp_has_its_own_reads():
    (report,) = reports(reads_of_two_warps, 96)
    assert sorted([report.by.warp, int(str(report.earlier.by.warp).split()[0])]) == [1, 2]


def reads_in_two_blocks(warp, x):
    if warp.ctaid[0] == 0:
        read(warp, x, 32)
    elif warp.ctaid[0] == 1:
        read(warp, x)  # <- the read of block 1
    else:
        warp.st_global(x.at(warp.threads), 1)


def test_each_block_has_its_own_caller():
    assert callers_of_read(reports(reads_in_two_blocks, 32, grid=3)) == [marked("the read of block 1")]


def reads_or_writes(warp, x):
    if warp.warpid == 0:
        warp.ld_global(x.at(warp.threads))
    else:
        warp.st_global(x.at(warp.threads % 32), 1)


def calls_what_reads_or_writes(warp, x):
    reads_or_writes(warp, x)  # <- the call


def test_a_line_has_callers_only_in_the_launch_that_calls_it():
    for _ in range(2):
        assert callers_of_read(reports(reads_or_writes, 64)) == []
        assert set(callers_of_read(reports(calls_what_reads_or_writes, 64))) == {marked("the call")}


def reads_again_what_was_written(warp, x):
    for turn in range(2):
        if warp.warpid == 0:
            warp.ld_global(x.at(warp.threads))
        if turn == 0:
            warp.bar_sync()
        if warp.warpid == 1:
            warp.st_global(x.at(warp.threads % 32), 1)
        if turn == 0:
            warp.bar_sync()


def test_a_line_that_read_before_a_write_is_compared_with_the_next_write():
    """Its first read is listed, and the write closes the list."""
    (report,) = reports(reads_again_what_was_written, 64)
    assert (report.rule, report.count) == ("global-race", 1)


def reads_with_other_lanes(warp, x, reader):
    if warp.warpid == reader:
        for lanes in (warp.threads % 32 < 8, warp.threads % 32 >= 24):
            with warp.only(lanes):
                warp.ld_global(x.at(warp.threads % 32))
    else:
        with warp.only(warp.threads % 32 == 24):
            warp.st_global(x.at(24), 1)


@readers
def test_a_line_that_other_lanes_execute_has_their_marks(reader):
    """As many lanes execute it the first time."""
    (report,) = reports(reads_with_other_lanes, 64, reader)
    assert "lane 24 read" in report.message or (report.lanes == (24,) and "lane 24 wrote" in report.message)


def reads_two_spaces(warp, x, reader):
    lane = warp.threads % 32
    if warp.warpid == reader:
        for here in (lane < 16, lane >= 16):
            warp.run("ld.b32", np.where(here, x.at(lane), warp.generic(4 * lane)))
    else:
        with warp.only(lane == 24):
            warp.st_global(x.at(24), 1)


@readers
def test_generic_loads_have_the_marks_of_the_lanes_that_load_from_global_memory(reader):
    (report,) = [each for each in reports(reads_two_spaces, 64, reader, shared=128) if each.rule == "global-race"]
    assert "lane 24 read" in report.message or (report.lanes == (24,) and "lane 24 wrote" in report.message)


# ------------------------------------------------------------------------------------------ fragments


def mma(warp, a, b, c):
    return warp.run(MMA, a, b, c)


def fragments(warp):
    return warp.run(LOAD_A, 0, 16), warp.run(LOAD_B, 0, 16), warp.run(LOAD_C, 0, 16)


def the_accumulator_is_an_array_first(warp, x):
    a, b, _ = fragments(warp)
    wide = warp.run(WIDE_C, 0, 8)
    for c in (np.zeros((32, 8), np.uint32), wide):
        mma(warp, a, b, c)


def the_sides_are_exchanged_at_the_end(warp, x):
    a, b, c = fragments(warp)
    for left, right in ((a, b), (a, b), (b, a)):
        mma(warp, left, right, c)


def the_same_ones_for_other_operands(warp, x):
    a, b, _ = fragments(warp)
    array = np.zeros((32, 8), np.uint32)
    mma(warp, a, b, array)
    mma(warp, array, a, b)


def both_fit(warp, x):
    a, b, c = fragments(warp)
    for _ in range(3):
        c = mma(warp, a, b, c)


@pytest.mark.parametrize(
    "wrong",
    [the_accumulator_is_an_array_first, the_sides_are_exchanged_at_the_end, the_same_ones_for_other_operands],
)
def test_fragments_that_do_not_fit_are_reported_after_others_that_did(wrong):
    for kernel, expected in ((both_fit, []), (wrong, ["wmma-mixed"]), (both_fit, []), (wrong, ["wmma-mixed"])):
        found = reports(kernel, 32, shared=2048)
        assert sorted({each.rule for each in found} - {"uninitialised-shared"}) == expected


# ------------------------------------------------------------------------------------------ sections


def heard(watch, kernel, arguments, options):
    """How often an observer has made each report after a launch."""
    with suppress(TcemuError):
        tcemu.launch(kernel, args=arguments, sanitizer="off", observers=[watch], **options)
    return [report.count for report in watch.reports]


def check_twice(kernel, arguments, options):
    """How often an observer reports: in later launches, it knows which sections need what, and makes only those."""
    watch = Sanitizer("collect")
    counts = heard(watch, kernel, arguments(), options)
    for times in (2, 3):
        assert heard(watch, kernel, arguments(), options) == [times * count for count in counts]
    return counts


@pytest.mark.parametrize("rule", EXAMPLES)
def test_sections_that_are_made_later_find_the_same(rule):
    assert check_twice(EXAMPLES[rule].kernel, lambda: (np.zeros(BYTES, np.uint8),), EXAMPLES[rule].launch)


@pytest.mark.parametrize("each", spread(PAIRS, 3, DAY), ids=lambda each: each.name)
def test_they_find_the_same_mistakes_of_others(each):
    check_twice(each.kernel, lambda: (False, *each.arrays()), each.options)


def a_warpgroup_exits_before_the_other_multiplies(warp):
    if warp.warpid < 4:
        return
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(WGMMA, d, *TILES, *ORDINARY)


def test_a_section_that_is_made_after_the_first_exit_hears_the_next_one():
    """The mma_async is in no group when its warps exit."""
    options = {"block": 256, "shared": 4096, "target": "sm_90a"}
    assert check_twice(a_warpgroup_exits_before_the_other_multiplies, tuple, options)
