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
