"""The sanitizer's reports: their text, the modes, how often they appear; and the table of rules."""

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
import kernels_tcgen05  # noqa: F401
import kernels_tcgen05_refused  # noqa: F401
import kernels_tcgen05_scales  # noqa: F401
import numpy as np
import pytest
from kernels_table import CORRECT, FAULTY, fill, finish, mma, ready
from quick import spread, turn

import tcemu
from tcemu.errors import LaunchError, OperandError, UndefinedBehaviour
from tcemu.machine.allocation import Shared
from tcemu.machine.tensor_map import TensorMap
from tcemu.sanitizer import MODES, RULES, Sanitizer, SanitizerWarning
from tcemu.sanitizer.rules import EXAMPLES
from tcemu.sanitizer.rules.parts import barrier


def row(name):
    """The faulty kernel of this name."""
    (found,) = (each for each in FAULTY if each.name == name)
    return found


# ------------------------------------------------------------------------------------------------ the tables


def test_every_rule_has_two_faulty_kernels_at_least():
    count = Counter(each.rule for each in FAULTY)
    assert set(count) == set(EXAMPLES)
    assert min(count.values()) >= 2
    assert len(CORRECT) >= 20


def test_the_table_of_rules_is_complete():
    for name, rule in RULES.items():
        assert rule.id == name
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z]+)*", name)
        assert re.fullmatch(r"\d+(\.\d+)*", rule.section), name
        for text in (rule.rule, rule.fix):
            assert text.endswith("."), name
            assert "  " not in text, name
        assert not rule.title.endswith("."), name
    hints = {name for name, rule in RULES.items() if rule.severity == "hint"}
    assert hints == {"wgmma-fence-unneeded", "mbarrier-init-fence"}


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


@pytest.mark.slow
def test_raise_raises_what_collect_collects_first():
    for each in spread(FAULTY, 3, turn(3)):
        if each.launch().errors:
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
    with pytest.raises(OperandError, match="a sanitizer's mode must be 'raise', 'warn', 'collect' or 'off'"):
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
    assert lines[0] == "error wgmma-wait-weak: wgmma.wait_group leaves the group pending"
    where = r"in two_accumulators_and_the_younger_is_read \(block 0, warp [0-3], lanes 0 to 31, 4 times\)"
    assert re.search(where, lines[1])
    assert "the kernel reads registers 0 to 3 of the accumulator of wgmma.mma_async" in lines[2]
    assert "wgmma.wait_group 1 at " in lines[2]
    assert lines[2].endswith("wgmma.wait_group 0 would cover it")
    assert "(PTX ISA 9.1, 9.7.15.7.3 " in text
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
    assert "expects 1024 bytes, but its copies deliver 512" in report.message
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
    """Earlier contents: each of the two lines, in turn, at one time of the warp."""

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


# ------------------------------------------------------------------------------------------------ the way there


def message(name):
    """The message of the first report of a kernel."""
    return row(name).launch().reports[0].message


def test_a_report_says_what_happened_on_the_way():
    told = message("a_group_that_was_never_committed")
    assert "it is in no group, because no cp.async.commit_group followed it" in told
    assert "cp.async.wait_group 0 would cover it" in message("a_wait_that_leaves_the_group")
    assert "its warpgroup has not committed its group" in message("refilled_under_a_group_that_was_not_committed")
    assert "is .relaxed, so it releases nothing" in message("a_relaxed_arrival_publishes_nothing")
    assert "is .relaxed, so it acquires nothing" in message("a_relaxed_wait_learns_nothing")
    assert "no cp.async.bulk.commit_group followed it" in message("a_store_that_was_never_committed")


def test_the_fix_knows_the_instruction():
    def kernel(warp, g):
        warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)
        warp.cp_async_wait_all()
        warp.ld_shared(16 * (63 - warp.threads), "v4.b32")

    result = tcemu.launch(kernel, 1, 64, (np.zeros(1024, np.uint8),), shared=1024, sanitizer="collect")
    assert result.reports[0].rule == "shared-race"
    assert "mbarrier" not in result.reports[0].fix
    assert "cp.async.wait_group in the threads that copy, then bar.sync" in result.reports[0].fix


def test_a_report_names_the_functions_that_led_there():
    def load(warp):
        return warp.ld_shared(4 * (63 - warp.threads))

    def middle(warp):
        return load(warp)

    def kernel(warp):
        warp.st_shared(4 * warp.threads, 1)
        middle(warp)

    report = tcemu.launch(kernel, 1, 64, shared=256, sanitizer="collect").reports[0]
    first = load.__code__.co_firstlineno
    assert [site.line - first for site in (report.site, *report.callers)] == [1, 4, 8]
    assert [site.function.rsplit(".", 1)[-1] for site in report.callers] == ["middle", "kernel"]
    assert str(report).splitlines()[2].endswith("in " + report.callers[0].function)


def test_the_same_values_are_a_hint_and_different_ones_are_not():
    def kernel(warp, value):
        warp.st_shared(4 * warp.laneid, value * warp.warpid + 7)
        warp.bar_sync()

    for value, severity in ((0, "hint"), (1, "error")):
        (report,) = tcemu.launch(kernel, 1, 64, (value,), shared=256, sanitizer="collect").reports
        assert (report.rule, report.severity) == ("shared-race", severity)
    assert "both write the same values" not in report.message


def test_a_refill_without_a_fence_is_a_hint_with_its_reason():
    (report,) = row_of_correct("a_stage_is_read_and_filled_again").launch().reports
    assert (report.rule, report.severity) == ("proxy-fence-missing", "hint")
    assert "Opinions differ" in report.message


def row_of_correct(name):
    """The correct kernel of this name."""
    (found,) = (each for each in CORRECT if each.name == name)
    return found


def test_a_padded_stride_of_wmma_runs_with_a_hint():
    def kernel(warp, a, out):
        x = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a, 40)
        warp.st_global(out.at(warp.laneid), x[:, 0])

    a = np.arange(16 * 40, dtype=np.float16)
    result = tcemu.launch(kernel, args=(a, np.zeros(32, np.uint32)), target="sm_80", sanitizer="collect")
    assert [(each.rule, each.severity) for each in result.reports] == [("misaligned", "hint")]


def test_a_pointer_of_wmma_at_16_bytes_runs_with_a_hint():
    """An H200 gave the right product for tiles of b that are 8 columns of f16 wide and lie side by side."""

    def kernel(warp, out):
        warp.st_shared(4 * warp.laneid, warp.laneid)
        warp.bar_warp_sync()
        x = warp.run("wmma.load.b.sync.aligned.row.m32n8k16.shared.f16", 16, 8)
        warp.st_global(out.at(warp.laneid), x[:, 0])

    options = {"target": "sm_80", "sanitizer": "collect", "shared": 512}
    out = np.zeros(32, np.uint32)
    (report,) = (each for each in tcemu.launch(kernel, 1, 32, (out,), **options).reports if each.rule == "misaligned")
    assert report.severity == "hint"
    assert "has a pointer, 16, that is not a multiple of 32" in report.message


def test_collect_reports_what_ends_the_launch():
    """No exception replaces a report."""
    for name in ("a_ballot_that_names_too_many", "the_warps_wait_for_different_groups", "used_after_its_end"):
        assert row(name).launch().reports, name


def misused(warp):
    warp.bar_sync(77)


def broken(warp):
    raise ValueError("the kernel's own")


def racing_before(what):
    """A kernel with a shared-race, and with an error of warp 1, which comes second, after it."""

    def kernel(warp, *args):
        warp.st_shared(4 * warp.threads, 1)
        warp.ld_shared(4 * (63 - warp.threads))
        if warp.warpid:
            what(warp, *args)

    return kernel


def test_collect_keeps_what_came_before_an_error():
    def writes_and_then(warp, out):
        warp.st_global(out.at(warp.threads), 7)
        misused(warp)

    out = np.zeros(64, np.uint32)
    for more in ({}, {"seeds": 2}, {"policy": ("late", "early")}):
        result = tcemu.launch(
            racing_before(writes_and_then), block=64, args=(out,), shared=256, sanitizer="collect", **more
        )
        assert [report.rule for report in result.reports] == ["shared-race"], more
        assert isinstance(result.error, OperandError), more
        assert "1 report, ended early" in repr(result)
        assert not out.any(), "the arrays do not change"


def test_an_error_that_is_raised_has_the_reports():
    more = {"block": 64, "shared": 256}
    told = "Before this, the sanitizer reported 1 broken rule; the first: error shared-race"
    with pytest.raises(ValueError, match="the kernel's own") as own:
        tcemu.launch(racing_before(broken), sanitizer="collect", **more)
    assert own.value.__notes__[0].startswith(told)
    with pytest.warns(SanitizerWarning), pytest.raises(OperandError) as caught:
        tcemu.launch(racing_before(misused), sanitizer="warn", **more)
    assert caught.value.__notes__[0].startswith(told)
    assert [report.rule for report in caught.value.launch.reports] == ["shared-race"]
    with pytest.raises(OperandError) as alone:
        tcemu.launch(misused, sanitizer="collect")
    assert alone.value.launch.reports == []
    assert not hasattr(alone.value, "__notes__")


def test_collect_reports_sizes_and_ranks_that_do_not_exist():
    def odd(warp, x):
        with warp.only(warp.laneid == 0):
            warp.cp_async_bulk_global_shared(x, 0, 24)

    cases = [(odd, "misaligned", {}), (lambda warp, _: warp.mapa(0, 2), "out-of-range", {"cluster": 2, "grid": 2})]
    for kernel, rule, more in cases:
        result = tcemu.launch(kernel, args=(np.zeros(8, np.uint32),), shared=64, sanitizer="collect", **more)
        assert [report.rule for report in result.reports] == [rule]
        assert isinstance(result.error, LaunchError)


# ------------------------------------------------------------------------------------------------ names


def test_a_report_names_arrays_and_mbarriers():
    shared = Shared(A=((2, 64, 64), np.float16, 128), full=(2, np.uint64))

    def kernel(warp, a, full):
        with warp.only(warp.threads == 0):
            warp.mbarrier_init(full.at(1), 1)
            warp.st_shared(0, 1, order="volatile")
        while not (warp.ld_shared(0 * warp.laneid, order="volatile") == 1).all():
            warp.nanosleep(20)  # so that it is there, but nothing orders it
        with warp.only(warp.threads == 32):
            warp.mbarrier_arrive(full.at(1))
        row, chunk = 5, 1  # the swizzle puts chunk 1 of row 5 where chunk 4 would be
        with warp.only(warp.laneid == 0):
            warp.st_shared(a.at(1, row, 0) + 16 * (chunk ^ row), warp.warpid, "v4.b32")

    result = tcemu.launch(kernel, block=64, args=(shared.A, shared.full), shared=shared, sanitizer="collect")
    told = {report.rule: report.what for report in result.reports}
    assert told["mbarrier-init"] == "the mbarrier at 16392 (full[1])"
    assert told["shared-race"].endswith("of shared memory (stage 1 of A, row 5, columns 8 to 15)")


# ---------------------------------------------------------------------------------------------------- setmaxnreg


def moves(*each):
    """The reports about a warpgroup that executes setmaxnreg repeatedly, and the error that ended it."""

    def kernel(warp):
        for action, count in each:
            warp.setmaxnreg(action, count)

    found = tcemu.launch(kernel, block=128, sanitizer="collect")
    return found.reports, found.error


def test_a_count_that_contradicts_setmaxnreg_changes_nothing():
    reports, error = moves(("dec", 40), ("inc", 24), ("dec", 32), ("dec", 96))
    assert error is None
    assert [(each.rule, each.count) for each in reports] == [("setmaxnreg-count", 8)]
    assert "setmaxnreg.inc to 24 registers per thread in warp 0, which has 40" in reports[0].message


def test_a_first_inc_may_name_fewer_than_there_are():
    """A kernel may be compiled for fewer registers than the launch has room for."""
    assert moves(("inc", 104), ("dec", 96)) == ([], None)


@pytest.mark.parametrize("count", [25, 16, 264, 1.5, True])
def test_a_number_of_registers_that_no_thread_can_have(count):
    reports, error = moves(("dec", count))
    assert [each.rule for each in reports] == ["setmaxnreg-count"]
    assert f"takes a multiple of 8 from 24 to 256, the registers of a thread; got {count}" in reports[0].message
    assert reports[0].fix == "Name a multiple of 8 from 24 to 256."
    assert isinstance(error, OperandError)
    assert f"{reports[0].site}" in str(error)


def test_a_method_that_is_named_but_not_called_comes_first_in_the_fix():
    def kernel(warp):
        warp.st_shared(4 * warp.threads, warp.threads)
        warp.bar_sync  # noqa: B018 - the mistake
        warp.laneid  # noqa: B018 - a value, not a method
        warp.ld_shared(4 * (63 - warp.threads))

    (report,) = tcemu.launch(kernel, block=64, shared=256, sanitizer="collect").reports
    line = kernel.__code__.co_firstlineno + 2
    assert report.fix.startswith(f"Line {line} does nothing: warp.bar_sync is named, not called; add parentheses.")
    assert report.fix.endswith(report.about.fix)


def half(warp):
    """Half a warp shuffles and names all of it; then the kernel ends."""
    with warp.only(warp.laneid < 16):
        warp.run("shfl.sync.bfly.b32", warp.laneid, 1, 0x1F, 0xFFFFFFFF)


def test_a_shuffle_that_waits_for_others_to_exit_is_a_hint():
    (report,) = tcemu.launch(half, sanitizer="collect").reports
    assert (report.rule, report.severity, report.lanes) == ("absent-lanes", "hint", tuple(range(16)))
    assert report.message == (
        "shfl.sync.bfly.b32 names lanes 16 to 31 in its membermask 0xffffffff, which never execute it: the others wait "
        "until they exit"
    )


def test_an_empty_mbarrier_that_counts_too_few_arrivals():
    """The reports say what it counts, and how many threads arrive."""
    full, empty, consumers = 0, 64, 4

    def kernel(warp, g, steps):
        if warp.warpid == 0:
            with warp.only(warp.laneid == 0):
                for stage in range(2):
                    warp.mbarrier_init(full + 8 * stage, 1)
                    warp.mbarrier_init(empty + 8 * stage, 1)
                warp.fence_mbarrier_init()
        warp.bar_sync()
        with warp.only(warp.laneid == 0):
            for step in range(steps):
                stage, turn = step % 2 * 8, step // 2
                if warp.warpid == consumers:
                    warp.mbarrier_wait(empty + stage, (turn + 1) % 2)
                    warp.mbarrier_arrive_expect_tx(full + stage, 128)
                    warp.cp_async_bulk_shared_global(1024 + 16 * stage, g, 128, full + stage)
                else:
                    warp.mbarrier_wait(full + stage, turn % 2)
                    warp.mbarrier_arrive(empty + stage)

    launched = tcemu.launch(kernel, 1, 160, (np.zeros(128, np.uint8), 8), shared=4096, sanitizer="collect")
    first = launched.reports[0]
    assert first.rule == "mbarrier-arrivals"
    counts = (
        r"had seen phase \d.*: it takes 1 arrival in a phase \(mbarrier.init of warp 0 at .*\), and 4 threads arrive"
    )
    assert re.search(counts, first.message)
    assert first.remedy.startswith("If each of the 4 threads arrives in each phase, mbarrier.init must count 4.")


def test_another_warpgroup_learns_nothing_from_a_wait():
    """What a pending mma_async reads is overwritten by a warp outside its warpgroup: no wait is a cure for that."""

    def kernel(warp, g):
        ready(warp)
        if warp.warpgroup == 0:
            d, e = warp.registers(4, fill=0), warp.registers(4, fill=0)
            warp.wgmma_fence()
            mma(warp, d)
            warp.wgmma_commit_group()
            mma(warp, e)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(1)
            warp.nanosleep(1000)
            warp.wgmma_wait_group(0)
        elif warp.warpid == 4:
            warp.nanosleep(500)
            warp.st_shared(16 * warp.laneid, 1, "v4.b32")

    options = {"shared": 4096, "sanitizer": "collect", "target": "sm_90a"}
    reports = tcemu.launch(kernel, 1, 160, (np.zeros(4, np.uint8),), **options).reports
    assert reports[0].rule == "overwritten-early"
    assert "and no wait of warps 0 to 3 tells warp 4 anything without a barrier after it" in reports[0].message


def test_the_boxes_of_copies_are_said_if_the_kernel_expects_other_bytes():
    def kernel(warp, g):
        barrier(warp, 8192)
        tensor_map = TensorMap(int(g), "f16", (128, 8), (256,), (64, 8), swizzle=128)
        with warp.only(warp.laneid == 0):
            warp.mbarrier_arrive_expect_tx(8192, 2 * 64 * 16 * 2)
            for x in range(2):
                warp.cp_async_bulk_tensor_shared_global(1024 * x, tensor_map, (64 * x, 0), 8192)
            warp.mbarrier_wait(8192, 0)

    options = {"shared": 16384, "sanitizer": "collect", "target": "sm_90a"}
    reports = tcemu.launch(kernel, 1, 32, (np.zeros((8, 128), np.float16),), **options).reports
    first = reports[0]
    assert first.rule == "expect-tx"
    assert "expects 4096 bytes, but its copies deliver 2048" in first.message
    assert first.remedy.startswith(
        "Expect the sum of the bytes of all copies of the phase: 2 boxes of 64 × 8 f16, 1024 bytes each"
    )


def test_a_copy_that_has_just_begun_may_be_committed_yet():
    """Only of a copy that came before the other access is it known whether its thread has committed its group."""

    def kernel(warp, g, reader):
        warp.st_shared(4 * warp.threads, 0)
        warp.bar_sync()
        if warp.warpid == reader:
            warp.ld_shared(4 * warp.laneid)
        else:
            warp.cp_async(4 * warp.laneid, g + 4 * warp.laneid, 4)
            warp.cp_async_commit_group()
            warp.cp_async_wait_group(0)

    for reader in range(2):
        for seed in range(4):
            launched = tcemu.launch(
                kernel, 1, 64, (np.zeros(32, np.uint32), reader), shared=512, sanitizer="collect", seed=seed
            )
            assert launched.reports
            assert not any("no cp.async.commit_group followed" in each.message for each in launched.reports)
