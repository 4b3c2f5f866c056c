"""Functions of a module, recursion, and the library's printf and assert."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tcemu import assembly, ptx, simt
from tcemu.errors import LaunchError
from tests.simt.texts import kernel, text_of

#: fib(n), by recursion.
_FIB = """
.func (.param .b32 result) fib(.param .b32 n)
{
    .reg .pred %p<2>;  .reg .b32 %r<8>;
    ld.param.u32 %r1, [n];
    setp.lt.u32 %p1, %r1, 2;
    @%p1 bra $small;
    {
        .param .b32 given;  .param .b32 got;
        sub.u32 %r2, %r1, 1;
        st.param.b32 [given], %r2;
        call (got), fib, (given);
        ld.param.b32 %r3, [got];
    }
    {
        .param .b32 given;  .param .b32 got;
        sub.u32 %r4, %r1, 2;
        st.param.b32 [given], %r4;
        call (got), fib, (given);
        ld.param.b32 %r5, [got];
    }
    add.u32 %r1, %r3, %r5;
$small:
    st.param.b32 [result], %r1;
    ret;
}
"""
_CALL = """
    and.b32 %r1, %r0, 7;
    {
        .param .b32 given;  .param .b32 got;
        st.param.b32 [given], %r1;
        call (got), fib, (given);
        ld.param.b32 %r2, [got];
    }
    st.global.u32 [%rd0], %r2;
"""


def test_lanes_recurse_to_depths_of_their_own():
    out = np.zeros(32, np.uint32)
    kernel(_CALL, before=_FIB)(1, 32, out)
    assert out.tolist() == [0, 1, 1, 2, 3, 5, 8, 13] * 4


@pytest.mark.slow
def test_a_recursion_without_end_is_an_error():
    endless = _FIB.replace("@%p1 bra $small;", "")
    with pytest.raises(LaunchError, match="a recursion may never end"):
        kernel(_CALL, before=endless)(1, 32, np.zeros(32, np.uint32))


def test_a_function_by_its_address():
    before = """
.func (.param .b32 result) twice(.param .b32 n) { .reg .b32 %r<3>; ld.param.u32 %r1, [n]; add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2; ret; }
.func (.param .b32 result) same(.param .b32 n) { .reg .b32 %r<3>; ld.param.u32 %r1, [n];
    st.param.b32 [result], %r1; ret; }
"""
    body = """
    mov.u64 %rd2, twice;
    mov.u64 %rd3, same;
    setp.lt.u32 %p1, %r0, 16;
    selp.b64 %rd4, %rd2, %rd3, %p1;
    {
        .param .b32 given;  .param .b32 got;
        st.param.b32 [given], %r0;
$proto: .callprototype (.param .b32 _) _ (.param .b32 _);
        call (got), %rd4, (given), $proto;
        ld.param.b32 %r2, [got];
    }
    st.global.u32 [%rd0], %r2;
    """
    out = np.zeros(32, np.uint32)
    kernel(body, before=before)(1, 32, out)
    assert out.tolist() == [*range(0, 32, 2), *range(16, 32)]


_PRINT = """
    .local .align 8 .b8 values[32];
    setp.gt.u32 %p1, %r0, 1;
    @%p1 ret;
    mov.u64 %rd2, values;
    st.local.u32 [%rd2], %r0;
    mov.f64 %fd1, 0d3FF8000000000000;
    st.local.f64 [%rd2+8], %fd1;
    st.local.u32 [%rd2+16], -3;
    cvta.local.u64 %rd3, %rd2;
    mov.u64 %rd4, format;
    cvta.global.u64 %rd5, %rd4;
    {
        .param .b64 form;  .param .b64 list;  .param .b32 count;
        st.param.b64 [form], %rd5;
        st.param.b64 [list], %rd3;
        call (count), vprintf, (form, list);
    }
"""


def test_printf_prints_a_line_for_each_lane(capsys):
    form = b"%u: %5.2f, %d%%\n\0"
    before = f".global .align 1 .b8 format[{len(form)}] = {{{', '.join(map(str, form))}}};\n"
    before += ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
    printing = kernel(_PRINT, before=before)
    printing(1, 32, np.zeros(32, np.uint32))
    assert capsys.readouterr().out == "0:  1.50, -3%\n1:  1.50, -3%\n"
    lines: list[str] = []
    with simt.printing(lines.append):
        printing(1, 32, np.zeros(32, np.uint32))
    assert lines == ["0:  1.50, -3%\n", "1:  1.50, -3%\n"]


def test_a_failed_assert_says_where_and_who():
    strings = {"said": b"x >= 0\0", "file": b"cell.cu\0", "name": b"void scale(float *)\0"}
    before = "".join(
        f".global .align 1 .b8 {name}[{len(text)}] = {{{', '.join(map(str, text))}}};\n"
        for name, text in strings.items()
    )
    before += ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
    body = """
    setp.ne.u32 %p1, %r0, 2;
    @%p1 ret;
    mov.u64 %rd2, said;  mov.u64 %rd3, file;  mov.u64 %rd4, name;
    {
        .param .b64 a;  .param .b64 b;  .param .b32 c;  .param .b64 d;  .param .b64 e;
        st.param.b64 [a], %rd2;  st.param.b64 [b], %rd3;  st.param.b32 [c], 11;  st.param.b64 [d], %rd4;
        st.param.b64 [e], 1;
        call __assertfail, (a, b, c, d, e);
    }
    """
    told = "cell.cu:11: void scale(float *): block (0, 0, 0), thread (2, 0, 0): assertion `x >= 0` failed"
    with pytest.raises(simt.KernelAssertion, match=re.escape(told)):
        kernel(body, before=before)(1, 32, np.zeros(32, np.uint32))


def test_a_function_that_nobody_defines_is_named_with_its_line():
    before = ".extern .func cudaLaunchDevice(.param .b64 a);\n"
    body = "{ .param .b64 a;\n st.param.b64 [a], %rd1;\n call cudaLaunchDevice, (a);\n }"
    with pytest.raises(simt.Unsupported, match=r"k: line \d+ of test.ptx: call: the module only declares cudaLaunch"):
        kernel(body, before=before)


def test_other_kernels_of_a_module_stay_usable():
    text = text_of("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, {%r0}];", before=".global .texref t;")
    text += text_of("st.global.u32 [%rd0], %r0;").partition(".address_size 64")[2].replace(".entry k(", ".entry good(")
    module = assembly.parse(text, "two.ptx")
    line = 1 + next(at for at, each in enumerate(text.splitlines()) if "tex." in each)
    with pytest.raises(simt.Unsupported, match=rf"k: line {line} of two.ptx: tex.1d.v4.f32.s32: tcemu has no textures"):
        simt.Kernel(module, "k")
    out = np.zeros(32, np.uint32)
    simt.Kernel(module, "good")(1, 32, out)
    assert out.tolist() == list(range(32))


REGISTERS = """
.version 8.0
.target sm_90a
.address_size 64
.func (.reg .b32 r) add(.reg .b32 a, .reg .b32 b) { add.s32 r, a, b; ret; }
.func (.param .b32 r) mul(.param .b32 a, .param .b32 b)
{
    .reg .b32 %x, %y;
    ld.param.b32 %x, [a];
    ld.param.b32 %y, [b];
    mul.lo.s32 %x, %x, %y;
    st.param.b32 [r], %x;
    ret;
}
.func (.reg .pred p) odd(.reg .b32 a) { and.b32 a, a, 1; setp.ne.u32 p, a, 0; ret; }
.visible .entry kernel(.param .u64 out)
{
    .reg .b32 %r<9>;  .reg .b64 %l<6>;  .reg .pred %p<3>;
    P: .callprototype (.reg .b32 _) _ (.reg .b32 _, .reg .b32 _);
    ld.param.u64 %l1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %l2, %r1, 4;
    add.s64 %l3, %l1, %l2;
    mov.u32 %r3, 100;
    CALL
    st.global.u32 [%l3], %r3;
    ret;
}
"""
_TWO = "mov.u64 %l4, add; mov.u64 %l5, mul; setp.lt.u32 %p1, %r1, 9; selp.b64 %l4, %l4, %l5, %p1;"


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("call (%r3), add, (%r1, 3);", lambda x: x + 3),
        ("call (%r3), mul, (%r1, 3);", lambda x: x * 3),
        ("mov.u64 %l4, add; call (%r3), %l4, (%r1, %r1), P;", lambda x: 2 * x),
        (f"{_TWO} call (%r3), %l4, (%r1, 3), P;", lambda x: np.where(x < 9, x + 3, 3 * x)),
        ("call (%p2), odd, (%r1); @%p2 call (%r3), mul, (%r1, %r1);", lambda x: np.where(x % 2, x * x, 100)),
        ("call (_), add, (%r1, 3);", lambda x: 0 * x + 100),
    ],
)
@pytest.mark.parametrize("backend", ["", "reference"])
def test_arguments_in_registers(call, result, backend, monkeypatch):
    monkeypatch.setenv("TCEMU_KERNELS", backend)
    out = np.zeros(32, np.int32)
    ptx.load(REGISTERS.replace("CALL", call))["kernel"](1, 32, out)
    np.testing.assert_array_equal(out, result(np.arange(32)))
