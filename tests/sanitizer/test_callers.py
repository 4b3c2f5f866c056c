"""Reports of lines in helpers name the lines that call them, also if the warp no longer runs when they are made."""

from pathlib import Path

import marks
import numpy as np
import pytest
from kernels_pairs import leader

import tcemu
from tcemu.errors import Deadlock
from tcemu.tracebacks import learners

FULL = 256


def wait(warp, parity):
    warp.mbarrier_wait(FULL, parity)


def arm(warp, size):
    warp.mbarrier_arrive_expect_tx(FULL, size)


def poll(warp, flag):
    while not warp.ld_global(flag, order="acquire")[0, 0]:
        warp.nanosleep(20)


def init(warp):
    with leader(warp):
        warp.mbarrier_init(FULL, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()


def nobody_arrives(warp, x):
    init(warp)
    wait(warp, 0)  # <- caller
    wait(warp, 1)


def nobody_sets_the_flag(warp, x):
    if warp.warpid:
        poll(warp, x)  # <- caller
        poll(warp, x.at(1))


def half_of_the_bytes(warp, x):
    init(warp)
    with leader(warp):
        arm(warp, 128)  # <- caller
        warp.cp_async_bulk_shared_global(0, x, 64, FULL)
    wait(warp, 0)


def an_empty_mbarrier_is_missing(warp, x):
    """Warp 0 arrives for phase 1 although nothing shows that warp 1 has seen phase 0."""
    init(warp)
    if warp.warpid:
        wait(warp, 0)  # <- caller
        wait(warp, 1)
    else:
        for parity in range(2):
            with leader(warp):
                warp.mbarrier_arrive(FULL)
            wait(warp, parity)


def launched(kernel):
    return tcemu.launch(kernel, 1, 64, (np.zeros(64, np.uint32),), shared=512, sanitizer="collect")


@pytest.mark.parametrize(
    ("kernel", "rule", "helper"),
    [
        (nobody_arrives, "deadlock", wait),
        (nobody_sets_the_flag, "flag-never-set", poll),
        (half_of_the_bytes, "expect-tx", arm),
        (an_empty_mbarrier_is_missing, "mbarrier-arrivals", wait),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_the_caller_is_named(kernel, rule, helper):
    report = launched(kernel).reports[0]
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert (report.rule, report.site.function) == (rule, helper.__name__)
    assert [(caller.function, lines[caller.line - 1].endswith("# <- caller")) for caller in report.callers] == [
        (kernel.__name__, True)
    ]


def test_an_error_names_it_too():
    with pytest.raises(Deadlock, match=r"since \S+, called at \S+, for the mbarrier at 256") as caught:
        tcemu.launch(nobody_arrives, 1, 32, (np.zeros(64, np.uint32),), shared=512, sanitizer="off")
    first = nobody_arrives.__code__.co_firstlineno
    assert f"test_callers.py:{first + 2}, for" in str(caught.value)


def race(warp, x):
    warp.st_shared(0, warp.warpid)  # <- race


def calls_the_race(warp, x):
    race(warp, x)  # <- its caller


def callers_in(kernel):
    (report, *_) = tcemu.launch(kernel, block=64, args=(np.zeros(4, np.uint8),), shared=16, sanitizer="collect").reports
    return [site.function for site in (report.site, *report.callers)]


def test_a_function_has_callers_where_it_is_not_the_launched_one():
    assert callers_in(race) == ["race"]
    assert callers_in(calls_the_race) == ["race", "calls_the_race"]
    assert callers_in(race) == ["race"]


def a_flag_cleared_too_early(warp, x):
    if warp.ctaid[0] == 0:
        with leader(warp):
            warp.st_global(x, 1, order="release")
            warp.st_global(x, 0, order="release")  # <- cleared
    else:
        poll(warp, x)


def test_a_flag_that_was_cleared_names_the_store():
    found = tcemu.launch(a_flag_cleared_too_early, 2, 32, (np.zeros(1, np.uint32),), sanitizer="collect").reports
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(number for number, text in enumerate(lines) if text.endswith("# <- cleared"))
    told = f"the last value there is from st.release.gpu.global.b32 of warp 0 of block 0 at {__file__}:{line}"
    assert [report.rule for report in found] == ["flag-never-set"]
    assert told in found[0].message


def many(warp, x, rows):
    return [
        warp.ld_global(x.at(row))  # <- in a list
        for row in rows
    ]


def through_a_list(warp, x):
    many(warp, x, [64])  # <- caller


def through_nested_lists(warp, x):
    [
        {
            column: warp.ld_global(x.at(row + column))  # <- in nested ones
            for column in range(1)
        }
        for row in [64]
    ]


def through_a_generator(warp, x):
    sum(warp.ld_global(x.at(row)) for row in [64])  # <- in a generator


@pytest.mark.parametrize(
    ("kernel", "function", "line", "callers"),
    [
        (through_a_list, "many", "in a list", ["through_a_list"]),
        (through_nested_lists, "through_nested_lists", "in nested ones", []),
        (through_a_generator, "through_a_generator", "in a generator", []),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_line_in_a_comprehension_is_in_the_function_that_was_written(kernel, function, line, callers):
    """Before Python 3.12, every comprehension is a function of its own; a generator still is."""
    report = launched(kernel).reports[0]
    assert report.site.function == function
    assert f"{report.site.file}:{report.site.line}" == marks.line(__file__, f"<- {line}")
    assert [site.function for site in report.callers] == callers


def test_the_traceback_of_a_comprehension_names_the_function_that_was_written():
    with pytest.raises(ZeroDivisionError) as caught:
        [1 // row for row in [0]]
    lines = list(learners(caught.value))
    assert [line.function for line in lines] == [
        "test_the_traceback_of_a_comprehension_names_the_function_that_was_written"
    ]
