"""What no text declares: the heap of malloc, the barrier of a grid, reserved shared memory; and tables of functions."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tcemu.errors import LaunchError, UndefinedBehaviour
from tests.simt.texts import kernel

_HEAP = """
.extern .func (.param .b64 r) malloc(.param .b64 size);
.extern .func free(.param .b64 at);
"""
_TAKE = """
    { .param .b64 size;  .param .b64 got;
      st.param.b64 [size], SIZE;  call (got), malloc, (size);  ld.param.b64 %rd2, [got]; }
"""
_FREE = "{ .param .b64 at;  st.param.b64 [at], %rd2;  call free, (at); }"


def test_malloc_gives_each_thread_memory_of_its_own():
    out = np.zeros(64, np.uint32)
    body = f"""
    mov.u32 %r1, %ctaid.x;  mad.lo.u32 %r2, %r1, 32, %r0;  mad.wide.u32 %rd0, %r2, 4, %rd1;
    {_TAKE.replace("SIZE", "20")}
    st.u32 [%rd2+16], %r2;  bar.sync 0;  ld.u32 %r3, [%rd2+16];  st.global.u32 [%rd0], %r3;
    {_FREE}
    {_TAKE.replace("SIZE", "20")}
    st.u32 [%rd2], %r2;
    """
    result = kernel(body, before=_HEAP)(2, 32, out, seeds=3)
    assert out.tolist() == list(range(64))
    assert not result.parted  # though the places of the threads' bytes differ
    assert not result.reports


def test_malloc_returns_0_when_the_heap_is_too_small():
    out = np.ones(32, np.uint32)
    kernel(f"{_TAKE.replace('SIZE', str(9 << 20))} st.global.u32 [%rd0], %rd2;", before=_HEAP)(1, 32, out)
    assert not out.any()


def test_free_of_what_malloc_has_not_returned():
    said = r"free: malloc has not returned 0x\w+, or it is free already: lane 3 of warp 0 of block 0 at"
    body = f"setp.ne.u32 %p1, %r0, 3; @%p1 ret; {_TAKE.replace('SIZE', '8')} {_FREE} {_FREE}"
    with pytest.raises(LaunchError, match=said):
        kernel(body, before=_HEAP)(1, 32, np.zeros(32, np.uint32))


def test_memory_of_malloc_ends_with_the_launch():
    out = np.zeros(64, np.uint64)
    wide = "mul.wide.u32 %rd4, %r0, 8;  add.s64 %rd3, %rd1, %rd4;"
    taking = kernel(f"{wide} {_TAKE.replace('SIZE', '8')} st.u64 [%rd2], %rd2;  st.u64 [%rd3], %rd2;", before=_HEAP)
    taking(1, 32, out)
    using = f"{wide} ld.u64 %rd2, [%rd3];  ld.u64 %rd2, [%rd2];  st.u64 [%rd3], %rd2;"
    unreached = f"setp.ne.u32 %p1, %r0, %r0;  @%p1 bra $take;  {using} ret;  $take: {_TAKE.replace('SIZE', '8')}"
    with pytest.raises(UndefinedBehaviour, match="memory from malloc and new lasts for one launch"):
        kernel(unreached, before=_HEAP)(1, 32, out)


def test_the_workspace_of_a_grid_is_a_barrier():
    """As cooperative_groups::this_grid().sync() uses it."""
    out, before = np.zeros(96, np.uint32), ".global .u32 seen[3];"
    body = """
    mov.u32 %r1, %ctaid.x;  mov.u32 %r2, %envreg1;  mov.u32 %r3, %envreg2;  mov.b64 %rd2, {%r3, %r2};
    mad.lo.u32 %r4, %r1, 32, %r0;  mad.wide.u32 %rd0, %r4, 4, %rd1;
    mov.u64 %rd3, seen;  mad.wide.u32 %rd4, %r1, 4, %rd3;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra $wait;
    add.u32 %r5, %r1, 7;  st.global.u32 [%rd4], %r5;
    setp.eq.u32 %p2, %r1, 0;  selp.b32 %r6, 0x7ffffffe, 1, %p2;
    atom.add.release.gpu.u32 %r7, [%rd2+4], %r6;
$again:
    ld.acquire.gpu.u32 %r8, [%rd2+4];  xor.b32 %r9, %r8, %r7;  setp.ge.s32 %p3, %r9, 0;
    @%p3 bra $again;
$wait:
    bar.sync 0;
    xor.b32 %r10, %r1, 3;  rem.u32 %r10, %r10, 3;  mad.wide.u32 %rd5, %r10, 4, %rd3;
    ld.global.u32 %r11, [%rd5];  st.global.u32 [%rd0], %r11;
    """
    barrier = kernel(body, before=before)
    for _ in range(2):  # the second launch finds what the first has left
        out[:] = 0
        barrier(3, 32, out)
        assert out.reshape(3, 32)[:, 0].tolist() == [7 + (block ^ 3) % 3 for block in range(3)]


def test_shared_memory_is_reserved_beside_the_kernels_own():
    out, before = np.zeros(32, np.uint32), ".shared .align 4 .b8 own[128];"
    names = ("begin", "end", "cap", "1")
    reads = "".join(f"mov.u32 %r{at}, %reserved_smem_offset_{name};" for at, name in enumerate(names, 1))
    body = f"""{reads}
    mov.u32 %r5, own;  mad.lo.u32 %r6, %r0, 4, %r5;  mad.lo.u32 %r7, %r0, 4, %r1;
    st.shared.u32 [%r6], 5;  st.shared.u32 [%r7], %r0;  ld.shared.u32 %r8, [%r6];  ld.shared.u32 %r9, [%r7];
    sub.u32 %r10, %r2, %r1;  sub.u32 %r10, %r10, %r3;  sub.u32 %r11, %r4, %r1;
    add.u32 %r8, %r8, %r9;  add.u32 %r8, %r8, %r10;  add.u32 %r8, %r8, %r11;  st.global.u32 [%rd0], %r8;
    """
    kernel(body, before=before)(1, 32, out)
    assert out.tolist() == list(range(5, 37))


def test_a_table_of_functions():
    function = ".func (.param .b32 r) {}(.param .b32 n) {{ .reg .b32 %r<3>; ld.param.u32 %r1, [n]; {} %r2, %r1, 3;"
    function += " st.param.b32 [r], %r2; ret; }}\n"
    before = function.format("sum", "add.u32") + function.format("times", "mul.lo.u32")
    before += ".global .align 8 .u64 table[2] = {sum, times};\n"
    body = """
    and.b32 %r1, %r0, 1;  mov.u64 %rd2, table;  mad.wide.u32 %rd3, %r1, 8, %rd2;  ld.global.u64 %rd4, [%rd3];
    {
        .param .b32 given;  .param .b32 got;  st.param.b32 [given], %r0;
$proto: .callprototype (.param .b32 _) _ (.param .b32 _);
        call (got), %rd4, (given), $proto;
        ld.param.b32 %r2, [got];
    }
    st.global.u32 [%rd0], %r2;
    """
    out = np.zeros(32, np.uint32)
    kernel(body, before=before)(1, 32, out)
    assert out.tolist() == [3 * lane if lane % 2 else lane + 3 for lane in range(32)]


def test_a_call_of_a_number_that_is_no_function():
    proto = "$proto: .callprototype _ (.param .b32 _);"
    body = f"mov.u64 %rd4, 64; {{ .param .b32 given; {proto} call %rd4, (given), $proto; }}"
    with pytest.raises(LaunchError, match=re.escape("call: 0x40 is the address of no function")):
        kernel(body)(1, 32, np.zeros(32, np.uint32))
