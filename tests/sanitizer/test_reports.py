"""What the sanitizer says, in which mode, and how often; the table of rules."""

import re
import warnings
from collections import Counter

import kernels_correct  # noqa: F401 - they fill the tables
import kernels_correct_idioms  # noqa: F401
import kernels_ends  # noqa: F401
import kernels_faulty_copies  # noqa: F401
import kernels_faulty_memory  # noqa: F401
import kernels_faulty_order  # noqa: F401
import kernels_faulty_wgmma  # noqa: F401
import kernels_global_proxy  # noqa: F401
import kernels_lanes  # noqa: F401
import kernels_mbarriers  # noqa: F401
import numpy as np
import pytest
from kernels_table import CORRECT, FAULTY, fill, finish, mma, ready

import tcemu
from tcemu.errors import OperandError, UndefinedBehaviour
from tcemu.sanitizer import MODES, RULES, Sanitizer, SanitizerWarning


def row(name):
    """The faulty kernel of this name."""
    (found,) = (each for each in FAULTY if each.name == name)
    return found


# ------------------------------------------------------------------------------------------------ the tables


def test_every_rule_has_two_faulty_kernels_at_least():
    count = Counter(each.rule for each in FAULTY)
    assert set(count) == set(RULES)
    assert min(count.values()) >= 2
    assert len(CORRECT) >= 20


def test_the_table_of_rules_is_complete():
    for name, rule in RULES.items():
        assert rule.id == name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert re.fullmatch(r"\d+(\.\d+)*", rule.section), name
        for text in (rule.rule, rule.fix):
            assert text.endswith("."), name
            assert "  " not in text, name
        assert not rule.title.endswith("."), name
    hints = [name for name, rule in RULES.items() if rule.severity == "hint"]
    assert hints == ["wgmma-fence-unneeded", "mbarrier-init-fence"]


def test_a_rule_that_is_not_in_the_table_cannot_be_reported():
    from tcemu.sanitizer.report import Report

    with pytest.raises(KeyError):
        str(Report("no-such-rule", "", row("no_fence_at_all").launch().reports[0].by))


# ------------------------------------------------------------------------------------------------ modes


def test_raise_ends_the_launch_at_the_first_error():
    with pytest.raises(UndefinedBehaviour) as caught:
        row("stores_a_barrier_and_wgmma").launch("raise")
    assert caught.value.report.rule == "proxy-fence-missing"
    assert str(caught.value) == str(caught.value.report)


def test_raise_raises_what_collect_collects_first():
    for each in FAULTY:
        if RULES[each.rule].severity == "error":
            with pytest.raises(UndefinedBehaviour) as caught:
                each.launch("raise")
            assert caught.value.report.rule == each.rule, each.name


def test_raise_is_what_launch_does():
    def kernel(warp, g):
        warp.st_global(g, warp.ld_shared(4 * warp.laneid))

    with pytest.raises(UndefinedBehaviour, match="uninitialised-shared"):
        tcemu.launch(kernel, args=(np.zeros(1024, np.uint8),), shared=1024)


def test_warn_warns_at_the_line_of_the_kernel():
    faulty = row("one_warp_writes_and_the_other_reads")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        faulty.launch("warn")
    (warning,) = caught
    assert warning.category is SanitizerWarning
    assert warning.lineno in faulty.lines
    assert warning.filename == faulty.kernel.__code__.co_filename


def test_collect_collects_and_off_does_not():
    for mode, count in (("collect", 1), ("off", 0)):
        assert len(row("accumulator_read_without_a_wait").launch(mode).reports) == count


def test_hints_are_collected_only():
    for mode in ("raise", "warn", "collect"):
        sanitizer = row("two_fences_in_a_row").launch(mode)
        assert [report.severity for report in sanitizer.reports] == ["hint"]
        assert not sanitizer.errors


def test_modes_are_four():
    assert MODES == ("raise", "warn", "collect", "off")
    with pytest.raises(OperandError, match="a sanitizer's mode is 'raise', 'warn', 'collect' or 'off'; got 'Raise'"):
        Sanitizer("Raise")


# ------------------------------------------------------------------------------------------------ what is said


def test_a_report_names_both_accesses():
    faulty = row("one_warp_writes_and_the_other_reads")
    (report,) = faulty.launch().reports
    first = faulty.kernel.__code__.co_firstlineno
    assert (report.rule, report.severity, report.block, report.warp) == ("shared-race", "error", 0, 1)
    assert (report.site.file, report.site.function) == (faulty.kernel.__code__.co_filename, faulty.name)
    assert report.site.line in faulty.lines
    assert report.what == "bytes 0 to 127 of shared memory"
    assert (report.earlier.by.warp, report.earlier.site.line) == (0, first + 3)
    assert report.earlier.what == "st.shared.b32"
    assert report.fix == RULES["shared-race"].fix


def test_a_report_reads_well():
    faulty = row("two_accumulators_and_the_younger_is_read")
    (report,) = faulty.launch().reports
    text = str(report)
    lines = text.splitlines()
    assert lines[0] == "error wgmma-wait-weak: wgmma.wait_group leaves the group under way"
    where = r"in two_accumulators_and_the_younger_is_read \(block 0, warp [0-3], lanes 0 to 31, 4 times\)"
    assert re.search(where, lines[1])
    assert "the kernel reads registers 0 to 3 of the accumulator of wgmma.mma_async" in lines[2]
    assert "wgmma.wait_group 1 at " in lines[2]
    assert lines[2].endswith("wgmma.wait_group 0 would cover it")
    assert "(PTX ISA 9.7.15.7.3)" in text
    assert lines[-1].startswith("  fix: Give wgmma.wait_group a smaller N")
    assert repr(report).startswith("<error wgmma-wait-weak at ")


def test_lanes_and_bytes_of_a_race_inside_a_warp():
    def kernel(warp, g):
        warp.st_shared(4 * warp.laneid, 1)
        with warp.only(warp.laneid == 7):
            warp.ld_shared(4 * 9)

    launched = tcemu.launch(kernel, args=(np.zeros(4, np.uint8),), shared=1024, sanitizer="collect")
    (report,) = launched.reports
    assert (report.rule, report.lanes, report.what) == ("lane-race", (7,), "bytes 36 to 39 of shared memory")
    assert "of warp 0, lane 9 wrote them" in report.message


def test_the_same_pair_of_lines_is_counted():
    def kernel(warp, g):
        for step in range(5):
            warp.st_shared(4 * warp.laneid, step)
            warp.bar_sync()

    launched = tcemu.launch(kernel, 3, 64, (np.zeros(4, np.uint8),), shared=1024, sanitizer="collect")
    assert {report.rule for report in launched.reports} == {"shared-race"}
    assert len(launched.reports) == 1
    assert launched.reports[0].count == 3 * 5


def test_a_report_of_an_mbarrier_names_it():
    (report, *_) = row("too_many_bytes_expected").launch().reports
    assert report.what == "the mbarrier at 1024"
    assert "expects 1024 bytes, but its copies bring 512" in report.message
    assert report.earlier.what.startswith("cp.async.bulk")


def test_a_needed_fence_is_no_hint_though_another_warp_does_not_need_it():
    """The first fence of a line orders something: the line is needed, whatever its later turns do."""

    def kernel(warp, g):
        ready(warp)
        d = warp.registers(4, fill=0)
        for _ in range(3):
            warp.wgmma_fence()
            mma(warp, d)
        finish(warp)

    launched = tcemu.launch(kernel, 1, 128, (np.zeros(4, np.uint8),), shared=4096, sanitizer="collect")
    assert not launched.reports


def test_one_mistake_is_one_report():
    for name in ("the_reader_comes_first", "the_reader_of_cp_async_comes_first", "a_warp_leaves_before_the_barrier"):
        for seed in range(5):
            assert [report.rule for report in row(name).launch(seed=seed).reports] == [row(name).rule], name


def test_a_barrier_that_counts_exited_threads_orders_what_they_did():
    def kernel(warp, g):
        if warp.warpid == 1:
            warp.st_shared(4 * warp.laneid, 1)
            return
        warp.bar_sync()
        warp.ld_shared(4 * warp.laneid)

    launched = tcemu.launch(kernel, 1, 64, (np.zeros(4, np.uint8),), shared=4096, sanitizer="collect")
    assert [report.rule for report in launched.reports] == ["exited-threads"]


def test_two_launches_do_not_share_what_they_know():
    def kernel(warp, g):
        if g.nbytes > 4:
            fill(warp)
        else:
            warp.ld_shared(16 * warp.threads, "v4.b32")

    sanitizer = Sanitizer("collect")
    for size in (8, 4):
        tcemu.launch(kernel, 1, 128, (np.zeros(size, np.uint8),), shared=4096, sanitizer="off", observers=(sanitizer,))
    assert [report.rule for report in sanitizer.reports] == ["uninitialised-shared"]


def test_two_stores_in_turns_are_followed_back_once():
    """What stood there before: each of the two lines, in turns, at one time of the warp."""

    def kernel(warp, g):
        if warp.warpid == 1:
            for _ in range(3):
                warp.st_shared(4 * warp.laneid, 1)
                warp.st_shared(4 * warp.laneid, 2)
        else:
            warp.ld_shared(4 * warp.laneid)

    for seed in range(5):
        launched = tcemu.launch(kernel, 1, 64, (np.zeros(4, np.uint8),), shared=1024, sanitizer="collect", seed=seed)
        assert {report.rule for report in launched.reports} == {"shared-race"}
