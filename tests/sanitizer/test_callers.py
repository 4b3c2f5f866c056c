"""Reports of lines in helpers name the lines that call them, also if the warp no longer runs when they are made."""

from pathlib import Path

import numpy as np
import pytest
from kernels_pairs import leader

import tcemu
from tcemu.errors import Deadlock

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
    lines = Path(__file__).read_text().splitlines()
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
    lines = Path(__file__).read_text().splitlines()
    line = 1 + next(number for number, text in enumerate(lines) if text.endswith("# <- cleared"))
    told = f"the last value there is from st.release.gpu.global.b32 of warp 0 of block 0 at {__file__}:{line}"
    assert [report.rule for report in found] == ["flag-never-set"]
    assert told in found[0].message
