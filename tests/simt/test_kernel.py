"""Kernels as a user calls them: arguments, variables, names, counts, schedules."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcemu
from tcemu import assembly, simt
from tcemu.errors import LaunchError, UnknownName
from tests.simt.texts import kernel, text_of

_ALL = """
    .param .u64 out, .param .u8 a, .param .s16 b, .param .u32 c, .param .f32 d, .param .f64 e, .param .b64 f,
    .param .align 8 .b8 g[16]
"""
_STORE_ALL = """
    setp.ne.u32 %p1, %r0, 0;  @%p1 ret;
    ld.param.u8 %h1, [a];  cvt.u64.u16 %rd2, %h1;  st.global.u64 [%rd1], %rd2;
    ld.param.s16 %h1, [b];  cvt.s64.s16 %rd2, %h1;  st.global.u64 [%rd1+8], %rd2;
    ld.param.u32 %r1, [c];  cvt.u64.u32 %rd2, %r1;  st.global.u64 [%rd1+16], %rd2;
    ld.param.f32 %f1, [d];  st.global.f32 [%rd1+24], %f1;
    ld.param.f64 %fd1, [e];  st.global.f64 [%rd1+32], %fd1;
    ld.param.u64 %rd2, [f];  st.global.u64 [%rd1+40], %rd2;
    ld.param.v2.u32 {%r1, %r2}, [g+8];  st.global.v2.u32 [%rd1+48], {%r1, %r2};
"""


def test_numbers_are_converted_to_the_types_of_the_parameters():
    out = np.zeros(7, np.int64)
    kernel(_STORE_ALL, _ALL)(1, 32, out, True, -5, np.uint8(7), 1.5, 2, -1, np.arange(4, dtype=np.int32).tobytes())
    assert out.tolist() == [1, -5, 7, 0x3FC00000, 0x4000000000000000, -1, 3 << 32 | 2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((np.zeros(1),), "k takes 8 arguments (argument 0, argument 1,"),
        (([1], 0, 0, 0, 0, 0, 0, b""), "argument 0 takes a number, an array or bytes; got [1]"),
        ((0, np.zeros(4), 0, 0, 0, 0, 0, b""), "argument 1 is a number of 1 byte (.u8), no pointer; got an array"),
        ((0, 256, 0, 0, 0, 0, 0, b""), "argument 1 has 8 bits; 256 does not fit"),
        ((0, 1.5, 0, 0, 0, 0, 0, b""), "argument 1 is an integer (.u8); got 1.5"),
        ((0, 0, 0, 0, 0, 0, 0, bytes(12)), "argument 7 has 16 bytes; the argument has 12"),
    ],
)
def test_wrong_arguments(arguments, says):
    with pytest.raises(LaunchError, match=re.escape(says)):
        kernel(_STORE_ALL, _ALL)(1, 32, *arguments)


def test_a_struct_makes_its_own_bytes():
    class Pair:
        """A pointer, and a number behind it."""

        def __init__(self, array, number):
            self.buffers, self.number = (array,), number

        def pack(self, pointers):
            return int(next(pointers)).to_bytes(8, "little") + self.number.to_bytes(8, "little")

    body = "ld.param.u64 %rd2, [pair];  ld.param.u32 %r1, [pair+8];  mul.wide.u32 %rd3, %r0, 4;"
    body += "  add.s64 %rd2, %rd2, %rd3;  st.global.u32 [%rd2], %r1;"
    array = np.zeros(32, np.uint32)
    kernel(body, ".param .u64 out, .param .align 8 .b8 pair[16]")(1, 32, np.zeros(32, np.uint32), Pair(array, 9))
    assert array.tolist() == [9] * 32


_COUNTER = """
.global .align 4 .u32 counter = 3;
.const .align 4 .u32 table[4] = {10, 20, 30};
.global .align 8 .u64 where = table;
"""


def test_variables_keep_their_content_between_launches():
    body = """
    atom.global.add.u32 %r1, [counter], 1;
    ld.global.u64 %rd2, [where];  ld.global.u32 %r2, [%rd2+4];
    ld.const.u32 %r3, [table+8];  add.u32 %r2, %r2, %r3;
    add.u32 %r1, %r1, %r2;  st.global.u32 [%rd0], %r1;
    """
    counting = kernel(body, before=_COUNTER)
    out = np.zeros(32, np.uint32)
    for first in (3, 35):
        counting(1, 32, out)
        assert sorted(out.tolist()) == [50 + first + lane for lane in range(32)]


def test_a_tensor_map_as_a_parameter_and_by_its_address():
    body = """
    .shared .align 128 .b8 tile[512];
    .shared .align 8 .b8 full[8];
    mov.u32 %r1, tile;  mov.u32 %r2, full;  mov.u32 %r3, 0;
    setp.ne.u32 %p1, %r0, 0;
    mov.u64 %rd2, map;  cvta.param.u64 %rd3, %rd2;
    {by_address}
    @%p1 bra $wait;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [%r2], 512;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd3, {%r3, %r3}], [%r2];
$wait:
    bar.warp.sync -1;
$try:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra $try;
    shl.b32 %r4, %r0, 2;  add.u32 %r4, %r4, %r1;  ld.shared.u32 %r5, [%r4];
    st.global.u32 [%rd0], %r5;
    """
    x = np.arange(512, dtype=np.float32).reshape(16, 32)
    for parameter, by_address in ((".align 64 .b8 map[128]", ""), (".u64 map", "ld.param.u64 %rd3, [map];")):
        out = np.zeros(32, np.float32)
        loads = kernel(body.replace("{by_address}", by_address), f".param .u64 out, .param {parameter}")
        loads(1, 32, out, tcemu.tensor_map(x, (16, 8)))
        assert out.tolist() == [*range(16), *range(32, 48)]


def test_reports_name_arguments_and_variables():
    body = ".shared .align 4 .b8 tile[256];\n mov.u32 %r1, tile;  st.shared.u32 [%r1], %r0;"
    result = kernel(body)(1, 64, np.zeros(64, np.uint32), sanitizer="collect")
    report = next(each for each in result.reports if each.rule == "shared-race")
    assert report.what == "bytes 0 to 3 of shared memory (bytes 0 to 3 of tile)"
    assert report.site.file == "test.ptx"


def test_ordinary_instructions_are_counted_with_the_others():
    counts = kernel("bar.sync 0;\n add.u32 %r1, %r0, 1;\n add.u32 %r1, %r1, 1;")(2, 64, np.zeros(64, np.uint32)).counts
    assert counts["add.u32"] == 8
    assert counts["bar.sync"] == 4
    assert counts["ret"] == 4


def test_a_schedule_may_switch_between_a_load_and_a_store():
    """Two warps increment one word: under some seed, an increment is lost."""
    body = "ld.global.u32 %r1, [%rd1];  add.u32 %r1, %r1, 1;  st.global.u32 [%rd1], %r1;"
    body = "and.b32 %r2, %r0, 31;  setp.ne.u32 %p1, %r2, 0;  @%p1 ret;\n" + body
    out = np.zeros(1, np.uint32)
    result = kernel(body)(1, 64, out, seeds=10, sanitizer="off")
    assert {int(value) for parted in result.parted for value in parted.values} == {1, 2}


def test_a_kernel_by_its_names():
    text = text_of("").replace("k(", "_Z4gemmILi64EEvPfi(")
    module = assembly.parse(text, "names.ptx")
    for name in ("_Z4gemmILi64EEvPfi", "gemm<64>", "gemm<64>(float*, int)"):
        assert simt.Kernel(module, name).name == "gemm<64>"
    with pytest.raises(UnknownName, match=r"no kernel gem in names.ptx; it has gemm<64>"):
        simt.Kernel(module, "gem")


def test_the_launch_has_the_kernel_s_name_and_target():
    result = kernel("", target="sm_80")(1, 32, np.zeros(32, np.uint32))
    assert (result.kernel, result.target) == ("k", "sm_80")


def test_clusters_that_the_kernel_asks_for():
    text = text_of("mov.u32 %r1, %cluster_nctarank;  st.global.u32 [%rd0], %r1;")
    text = text.replace(")\n{", ")\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{")
    out = np.zeros(32, np.uint32)
    simt.Kernel(assembly.parse(text), "k")(2, 32, out, sanitizer="off")
    assert out.tolist() == [2] * 32


def test_special_registers_and_dynamic_shared_memory():
    body = """
    mov.u32 %r1, %dynamic_smem_size;  mov.u32 %r2, %total_smem_size;  mov.u32 %r3, %lanemask_lt;  mov.u32 %r4, %nwarpid;
    mov.u32 %r5, mine;  st.shared.u32 [%r5+12], 1;  mov.u64 %rd2, %clock64;  mov.u64 %rd3, %clock64;
    setp.lt.u64 %p1, %rd2, %rd3;  selp.u32 %r6, 1, 0, %p1;
    st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};  st.global.u32 [%rd1+16], %r6;
    """
    before = ".extern .shared .align 16 .b8 mine[];\n.shared .align 4 .b8 fixed[20];"
    body = "mov.u32 %r7, fixed;  setp.ne.u32 %p1, %r0, 31;  @%p1 ret;\n" + body
    out = np.zeros(5, np.uint32)
    kernel(body, before=before)(1, 32, out, shared=16)
    assert out.tolist() == [16, 128, 0x7FFFFFFF, 1, 1]
    with pytest.raises(tcemu.errors.LaunchError, match="which has 32 bytes"):
        kernel(body, before=before)(1, 32, out, shared=0, sanitizer="off")
