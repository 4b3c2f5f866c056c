"""Lanes that part, wait for each other, and meet again."""

from __future__ import annotations

import numpy as np
import pytest

import tcemu
from tests.simt.texts import kernel

#: Which of the lanes count: half a warp goes round a loop as often as its number says.
_LOOP = """
    mov.u32 %r1, 0;
    setp.gt.u32 %p1, %r0, 15;
    @%p1 bra $after;
$loop:
    setp.ge.u32 %p2, %r1, %r0;
    @%p2 bra $after;
    add.u32 %r1, %r1, 1;
    bra $loop;
$after:
    st.global.u32 [%rd0], %r1;
"""


def test_each_lane_goes_round_a_loop_as_often_as_it_wants():
    out = np.zeros(32, np.uint32)
    kernel(_LOOP)(1, 32, out)
    assert out.tolist() == [*range(16), *[0] * 16]


def test_lanes_that_have_exited_store_nothing():
    out = np.zeros(32, np.uint32)
    kernel("setp.lt.u32 %p1, %r0, 5;\n @%p1 ret;\n mov.u32 %r1, 7;\n st.global.u32 [%rd0], %r1;")(1, 32, out)
    assert out.tolist() == [0] * 5 + [7] * 27


#: Each lane waits until the word says that it is its turn, adds its number, and passes the turn on.
_RING = """
$wait:
    ld.volatile.global.u32 %r1, [%rd1+128];
    setp.ne.u32 %p1, %r1, %r0;
    @%p1 bra $wait;
    add.u32 %r2, %r1, 1;
    st.global.u32 [%rd0], %r2;
    membar.gl;
    st.volatile.global.u32 [%rd1+128], %r2;
"""


@pytest.mark.parametrize("seed", [0, 3])
def test_a_ring_of_turns_goes_round(seed):
    out = np.zeros(33, np.uint32)
    kernel(_RING)(1, 32, out, seed=seed, sanitizer="off")
    assert out.tolist() == [*range(1, 33), 32]


#: A lock that each lane takes: who fails tries again, in the same loop or in one of its own.
_LOCK = """
$try:
    atom.global.cas.b32 %r1, [%rd1], 0, 1;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $try;
    ld.volatile.global.u32 %r2, [%rd1+4];
    add.u32 %r2, %r2, 1;
    st.volatile.global.u32 [%rd1+4], %r2;
    membar.gl;
    atom.global.exch.b32 %r3, [%rd1], 0;
"""


def test_lanes_take_a_lock_one_after_the_other():
    out = np.zeros(2, np.uint32)
    kernel(_LOCK)(2, 64, out, sanitizer="off")
    assert out.tolist() == [0, 128]


def test_a_barrier_waits_for_lanes_that_come_later():
    body = """
    .shared .align 4 .b32 s[64];
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, s;
    add.u32 %r2, %r2, %r1;
    st.shared.u32 [%r2], %r0;
    and.b32 %r3, %r0, 1;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra $there;
    bra $there;
$there:
    bar.sync 0;
    mov.u32 %r4, s;
    sub.u32 %r4, %r4, %r1;
    ld.shared.u32 %r5, [%r4+252];
    st.global.u32 [%rd0], %r5;
    """
    out = np.zeros(64, np.uint32)
    kernel(body)(1, 64, out)
    assert out.tolist() == list(range(63, -1, -1))


def test_a_shuffle_in_one_branch_takes_the_lanes_of_its_mask():
    body = """
    mov.u32 %r1, 99;
    setp.ge.u32 %p1, %r0, 16;
    @%p1 bra $after;
    shfl.sync.idx.b32 %r1, %r0, 3, 31, 0xffff;
$after:
    st.global.u32 [%rd0], %r1;
    """
    out = np.zeros(32, np.uint32)
    kernel(body)(1, 32, out)
    assert out.tolist() == [3] * 16 + [99] * 16


def test_lanes_with_masks_of_their_own_form_several_groups():
    body = """
    and.b32 %r2, %r0, 0x10;
    mov.u32 %r3, 0xffff;
    shl.b32 %r3, %r3, %r2;
    redux.sync.add.u32 %r1, %r0, %r3;
    st.global.u32 [%rd0], %r1;
    """
    out = np.zeros(32, np.uint32)
    kernel(body)(1, 32, out)
    assert out.tolist() == [sum(range(16))] * 16 + [sum(range(16, 32))] * 16


def test_a_mask_that_names_an_absent_lane_is_an_error():
    body = "setp.ge.u32 %p1, %r0, 16;  @%p1 bra $after;  shfl.sync.idx.b32 %r1, %r0, 3, 31, -1;\n$after:\n bar.sync 0;"
    with pytest.raises(tcemu.TcemuError, match=r"lanes 16 to 31 in its membermask 0xffffffff, but they reach bar.sync"):
        kernel(body)(1, 32, np.zeros(32, np.uint32))


def test_an_indirect_branch_goes_to_the_label_of_each_lane():
    body = """
    and.b32 %r1, %r0, 3;
$table: .branchtargets $a, $b, $c, $d;
    brx.idx %r1, $table;
$a: mov.u32 %r2, 10;
    bra $end;
$b: mov.u32 %r2, 11;
    bra $end;
$c: mov.u32 %r2, 12;
    bra $end;
$d: mov.u32 %r2, 13;
$end:
    st.global.u32 [%rd0], %r2;
    """
    out = np.zeros(32, np.uint32)
    kernel(body)(1, 32, out)
    assert out.tolist() == [10, 11, 12, 13] * 8


def test_a_loop_that_never_ends_stops_at_the_limit_of_operations():
    with pytest.raises(tcemu.errors.Unending, match="never end"):
        kernel("$loop:\n bra $loop;")(1, 32, np.zeros(32, np.uint32), operations=1000)


_HALVES = """
    setp.ge.u32 %p1, %r0, 16;
    mov.u32 %r1, 0;
    @%p1 bra $high;
    {low}
    bra $end;
$high:
    {high}
$end:
    st.global.u32 [%rd0], %r1;
"""


def halves(low: str, high: str) -> str:
    """A body whose lower and upper lanes do different things, and then store %r1."""
    return _HALVES.format(low=low, high=high)


@pytest.mark.parametrize("barrier", ["barrier.sync 0;", "bar.sync 0;"])
def test_a_barrier_in_both_branches_counts_the_lanes_of_both(barrier):
    """The other warp waits as a whole, until both halves have come."""
    store = "st.volatile.shared.u32 [%r9], %r0;"
    body = ".shared .align 4 .b8 seen[256];\n mov.u32 %r8, seen;  shl.b32 %r9, %r0, 2;  add.u32 %r9, %r9, %r8;"
    body += "\n setp.gt.u32 %p2, %r0, 31;  @%p2 bra $whole;"
    low, high = "ld.volatile.shared.u32 %r1, [%r8+252];", "add.u32 %r1, %r1, 9;"
    body += halves(f"{store}  {barrier}  {low}", f"{store}  {barrier}  {high}")
    body += f"ret;\n$whole:\n {store}  {barrier}  ld.volatile.shared.u32 %r1, [%r8+80];  st.global.u32 [%rd0], %r1;"
    out = np.zeros(64, np.uint32)
    result = kernel(body)(1, 64, out, sanitizer="collect")
    assert out.tolist() == [63] * 16 + [9] * 16 + [20] * 32
    assert {each.rule for each in result.reports} == ({"aligned-divergent"} if barrier[:4] == "bar." else set())


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_lanes_that_come_to_one_barrier_one_after_the_other_all_go_on(warps):
    """A lane that polls lets the others go first: they wait at the barrier, and it comes there before other warps."""
    body = """
    .shared .align 4 .b32 s[1];
    and.b32 %r3, %r0, 31;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra $there;
    ld.relaxed.cta.shared.u32 %r4, [s];
    add.u32 %r4, %r4, 1;
$there:
    barrier.sync 0;
    add.u32 %r5, %r0, 1;
    st.global.u32 [%rd0], %r5;
    """
    out = np.zeros(32 * warps, np.uint32)
    kernel(body)(1, 32 * warps, out, sanitizer="off")
    assert out.tolist() == list(range(1, 32 * warps + 1))


def test_lanes_that_wait_at_two_barriers_are_an_error():
    with pytest.raises(tcemu.errors.LaunchError, match="arrives at barrier 2 while other lanes of the warp wait at"):
        kernel(halves("barrier.sync 1;", "barrier.sync 2;"))(1, 32, np.zeros(32, np.uint32), sanitizer="off")


def test_an_elected_producer_and_consumers_in_one_warp():
    """Lane 0 fills a buffer, and arrives at the mbarrier for which the other lanes of its warp wait."""
    body = """
    .shared .align 8 .b8 full[8];
    .shared .align 4 .b8 value[4];
    mov.u32 %r8, full;  mov.u32 %r9, value;
    setp.ne.u32 %p1, %r0, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [%r8], 1;
    bar.warp.sync 0xffffffff;
    @!%p1 bra $producer;
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;
    @!%p2 bra $wait;
    ld.shared.u32 %r1, [%r9];
    st.global.u32 [%rd0], %r1;
    ret;
$producer:
    st.shared.u32 [%r9], 42;
    nanosleep.u32 100;
    mbarrier.arrive.shared::cta.b64 %rd2, [%r8];
    """
    out = np.zeros(32, np.uint32)
    result = kernel(body)(1, 32, out, sanitizer="collect")
    assert out.tolist() == [0] + [42] * 31
    assert not result.reports


def test_lanes_that_wait_for_a_lock_do_not_keep_the_others_from_giving_it_back():
    """Those that are done wait at bar.warp.sync for those that still try."""
    out = np.zeros(2, np.uint32)
    kernel(_LOCK + "bar.warp.sync 0xffffffff;\n")(1, 64, out, sanitizer="off")
    assert out.tolist() == [0, 64]


def test_a_deadlock_lists_the_groups_with_their_lines():
    body = ".shared .align 8 .b8 full[8];\n mov.u32 %r8, full;  setp.eq.u32 %p3, %r0, 0;"
    body += "  @%p3 mbarrier.init.shared::cta.b64 [%r8], 1;  bar.warp.sync -1;"
    tries = "\n$try: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;  @!%p2 bra $try;"
    with pytest.raises(tcemu.errors.Deadlock) as caught:
        kernel(body + halves("barrier.sync 0;", tries))(1, 32, np.zeros(32, np.uint32), sanitizer="off")
    told = str(caught.value).splitlines()
    assert told[0] == "block (0, 0, 0) cannot continue:"
    assert "warp 0, lanes 0 to 15, wait since test.ptx:" in told[1]
    assert "for barrier 0, where no warp has" in told[1]
    assert "warp 0, lanes 16 to 31, wait since test.ptx:" in told[2]
    assert "for the mbarrier at 0" in told[2]


def test_lanes_that_wait_for_lanes_are_in_a_deadlock_too():
    body = ".shared .align 8 .b8 full[8];\n mov.u32 %r8, full;  setp.eq.u32 %p3, %r0, 0;"
    body += "  @%p3 mbarrier.init.shared::cta.b64 [%r8], 1;  bar.warp.sync -1;"
    text, out = body + halves("bar.warp.sync -1;", "barrier.sync 0;"), np.zeros(32, np.uint32)
    with pytest.raises(tcemu.errors.Deadlock, match=r"for the other lanes of its warp at bar.warp.sync"):
        kernel(text)(1, 32, out, sanitizer="off")
    (report,) = kernel(text)(1, 32, out, sanitizer="collect").reports
    assert "waiting for the other lanes of its warp at bar.warp.sync" in report.message
    assert "loop that no lane executes" not in str(report)  # which is a mistake of kernels in Python


def test_a_spinning_warp_lets_the_others_run():
    """Warp 0 waits, with weak loads in a loop, for what warp 1 stores."""
    body = """
    setp.gt.u32 %p1, %r0, 31;
    @%p1 bra $writer;
$loop:
    ld.global.u32 %r1, [%rd1+256];
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra $loop;
    st.global.u32 [%rd0], %r1;
    ret;
$writer:
    st.global.u32 [%rd1+256], 5;
    """
    out = np.zeros(65, np.uint32)
    kernel(body)(1, 64, out, sanitizer="off")
    assert out.tolist() == [5] * 32 + [0] * 32 + [5]


_SKIPPED = """
    setp.ge.u32 %p1, %r0, 8;
    @%p1 bra $after;
    {instruction};
$after:
    st.global.u32 [%rd0], %r0;
"""


@pytest.mark.parametrize(
    ("instruction", "rule"),
    [("bar.sync 0", "aligned-divergent"), ("bar.warp.sync -1", "absent-lanes"), ("bar.warp.sync 0xff", "")],
)
def test_lanes_that_go_past_an_instruction_are_missed_there(instruction, rule):
    """Though they exit soon after: a GPU lets them wait behind the branch for those that wait for them."""
    result = kernel(_SKIPPED.format(instruction=instruction))(1, 32, np.zeros(32, np.uint32), sanitizer="collect")
    assert {each.rule for each in result.reports if each.severity == "error"} == {rule} - {""}


def test_lanes_that_leave_the_kernel_before_a_barrier_are_not_missed():
    """Return where there is nothing to do: since Volta, a barrier counts the threads that are left."""
    body = "setp.ge.u32 %p1, %r0, 8;  @%p1 bra $end;  bar.sync 0;  st.global.u32 [%rd0], %r0;\n$end:"
    (hint,) = kernel(body)(1, 32, np.zeros(32, np.uint32), sanitizer="collect").reports
    assert (hint.rule, hint.severity) == ("exited-threads", "hint")
    assert "but 24 of them have exited: lanes 8 to 31 of warp 0; since Volta, the barrier goes on" in hint.message


@pytest.mark.parametrize(
    "instruction",
    [
        "vote.sync.ballot.b32 %r1, %p1, {mask}",
        "match.any.sync.b32 %r1, %r0, {mask}",
        "redux.sync.add.u32 %r1, %r0, {mask}",
        "bar.warp.sync {mask}",
    ],
)
def test_lanes_that_leave_the_kernel_although_a_membermask_names_them(instruction):
    body = f"setp.ge.u32 %p1, %r0, 8;  @%p1 bra $end;  {instruction};  st.global.u32 [%rd0], %r0;\n$end:"
    for mask, count in (("0xffffffff", 1), ("0xff", 0)):
        result = kernel(body.format(mask=mask))(1, 32, np.zeros(32, np.uint32), sanitizer="collect")
        assert [(each.rule, each.severity) for each in result.reports] == [("absent-lanes", "hint")] * count
    named = "names lanes 8 to 31 in its membermask 0xffffffff, which never execute it: the others wait"
    hint = kernel(body.format(mask="-1"))(1, 32, np.zeros(32, np.uint32), sanitizer="collect").reports[0]
    assert named in hint.message


def test_a_loop_that_some_lanes_leave_before_a_barrier_in_it():
    """Those that are behind the loop do not come back to the barrier; those in its next turn do."""
    body = """
    and.b32 %r1, %r0, 3;
    mov.u32 %r2, 0;
$loop:
    setp.ge.u32 %p1, %r2, {turns};
    @%p1 bra $after;
    bar.sync 0;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra $next;
    st.global.u32 [%rd0], %r2;
$next:
    add.u32 %r2, %r2, 1;
    bra $loop;
$after:
    st.global.u32 [%rd0], %r0;
    """
    for turns, rules in (("%r1", {"aligned-divergent"}), ("4", set())):
        result = kernel(body.format(turns=turns))(1, 32, np.zeros(32, np.uint32), sanitizer="collect")
        assert {each.rule for each in result.reports if each.severity == "error"} == rules


def test_lanes_that_go_past_a_call_are_missed_in_the_function():
    before = ".func f() { .reg .b32 %r<9>;  mov.u32 %r1, 1;  bar.sync 0;  ret; }"
    body = "setp.ge.u32 %p1, %r0, 8;  @%p1 bra $after;  call f;\n$after:\n st.global.u32 [%rd0], %r0;"
    result = kernel(body, before=before)(1, 32, np.zeros(32, np.uint32), sanitizer="collect")
    assert {each.rule for each in result.reports if each.severity == "error"} == {"aligned-divergent"}


@pytest.mark.parametrize(
    "body",
    [
        "$loop:\n bra.uni $loop;",
        "mov.u32 %r1, 0;\n$loop:\n add.u32 %r1, %r1, 1;\n setp.eq.u32 %p1, %r1, 7;\n @%p1 bra $loop;\n bra $loop;",
    ],
)
def test_a_loop_without_a_way_out_ends_the_launch(body):
    """NVRTC makes the first of `while (*flag == 0) {}`: it reads the flag once."""
    out = np.zeros(32, np.uint32)
    with pytest.raises(tcemu.errors.Unending, match=r"never ends, at test.ptx:\d+: nothing leads out of it"):
        kernel(f"setp.lt.u32 %p2, %r0, 4;\n @%p2 ret;\n {body}")(1, 32, out)


def test_a_loop_that_takes_too_long_is_named():
    body = """
$loop:
    add.u32 %r1, %r1, 1;
    or.b32 %r1, %r1, 0x40000000;
    setp.ne.u32 %p1, %r0, %r1;
    @%p1 bra $loop;
    """
    with pytest.raises(tcemu.errors.Unending, match=r"warp 0 came to test.ptx:\d+"):
        kernel(body)(1, 32, np.zeros(32, np.uint32), operations=10_000)
