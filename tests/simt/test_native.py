"""Native code equals the reference: the same registers, memory and counts, on straight code, accesses and branches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcemu import assembly, simt
from tcemu.errors import LaunchError
from tcemu.native import compiled
from tcemu.simt import engine, native
from tests.simt.texts import kernel, text_of

pytestmark = pytest.mark.skipif(not engine.native(), reason="needs llvmlite")

_OPERATIONS = (
    "add.u32 {d}, {a}, {b};", "sub.s32 {d}, {a}, {b};", "mul.lo.u32 {d}, {a}, {b};", "mul.hi.s32 {d}, {a}, {b};",
    "mad.lo.s32 {d}, {a}, {b}, {c};", "and.b32 {d}, {a}, {b};", "xor.b32 {d}, {a}, -7;", "shl.b32 {d}, {a}, 5;",
    "shr.s32 {d}, {a}, 3;", "setp.lt.s32 {p}, {a}, {b};", "setp.ne.u32 {p}, {a}, {b};", "selp.b32 {d}, {a}, {b}, {q};",
    "@{q} add.u32 {d}, {a}, 1;", "@!{q} mov.u32 {d}, {b};", "mov.b64 %rd2, {{{a}, {b}}};",
    "mov.b64 {{{d}, {c}}}, %rd2;",
    "mul.wide.u32 %rd2, {a}, {b};", "cvt.u32.u64 {d}, %rd2;", "and.pred {p}, {p}, {q};", "not.pred {p}, {q};",
    "cvt.u16.u32 %h1, {a};", "cvt.u32.u16 {d}, %h1;", "cvt.s32.s16 {d}, %h1;",
    "add.cc.u32 {d}, {a}, {b};", "addc.u32 {d}, {a}, {b};",
    "setp.gt.u32 {p}, {a}, {b};\n @{p} bra $L{n};\n {inner}\n$L{n}:",
    "and.b32 %r40, {a}, 124;\n add.u32 %r40, %r40, %r41;\n st.shared.u32 [%r40], {b};",
    "ld.shared.u32 {d}, [%r41+{n4}];",
    "st.shared.v2.u32 [%r42], {{{a}, {b}}};", "ld.shared.v2.u32 {{{d}, {c}}}, [%r42];", "ld.shared.s8 {d}, [%r42+3];",
    "st.local.u16 [%rd4+{n4}], %h1;", "ld.local.u32 {d}, [%rd4+{n4}];", "ld.shared.u16 %h1, [%r42+2];",
)  # fmt: skip


@st.composite
def bodies(draw):
    """A body that computes with %r1 to %r9, %p1 to %p4, shared and local memory, and stores what it has."""
    lines = []
    for number in range(draw(st.integers(1, 30))):
        form = draw(st.sampled_from(_OPERATIONS))
        registers = {name: f"%r{draw(st.integers(1, 9))}" for name in "abcd"}
        masks = {name: f"%p{draw(st.integers(1, 4))}" for name in "pq"}
        inner = f"add.u32 {registers['d']}, {registers['a']}, {registers['b']};"
        lines.append(form.format(**registers, **masks, n=number, n4=4 * (number % 8), inner=inner))
    return "\n".join(lines)


_BEFORE = """
    .shared .align 8 .b8 memory[512];
    .local .align 8 .b8 stack[64];
    mov.u64 %rd4, stack;  mov.u32 %r41, memory;
    shl.b32 %r42, %r0, 3;  add.u32 %r42, %r42, %r41;  add.u32 %r42, %r42, 128;
    mov.u64 %rd2, 0;  mov.u16 %h1, 3;
    st.shared.v2.u32 [%r42], {%r0, %r0};  st.shared.u32 [%r41], 1;
"""


def body_of(lines: str) -> str:
    """The whole body: registers with values of their own, the lines, and a store of each register."""
    zeros = "\n".join(f"    st.local.u32 [%rd4+{4 * at}], %r0;" for at in range(16))
    zeros += "\n" + "\n".join(f"    st.shared.u32 [%r41+{4 * at}], {at};" for at in range(32))
    start = "\n".join(f"    mad.lo.u32 %r{n}, %r0, {0x9E3779B1 * n & 0xFFFFFFFF}, {n * 77};" for n in range(1, 10))
    start += "\n" + "\n".join(f"    setp.gt.u32 %p{n}, %r0, {5 * n};" for n in range(1, 5))
    end = "\n".join(f"    st.global.u32 [%rd0+{128 * n}], %r{n};" for n in range(1, 10))
    for n in range(1, 5):
        end += f"\n    selp.u32 %r50, 1, 0, %p{n};\n    st.global.u32 [%rd0+{128 * (n + 9)}], %r50;"
    last = "    ld.shared.u32 %r49, [%r42];\n    st.global.u32 [%rd0], %r49;"
    return f"{_BEFORE}\n{zeros}\n{start}\n    bar.sync 0;\n{lines}\n{last}\n{end}"


def outcome(monkeypatch, which: str, text: str, threads: int) -> tuple[np.ndarray, object, list[str]]:
    """What a kernel leaves, what it executed, and what the sanitizer reports."""
    monkeypatch.setenv("TCEMU_KERNELS", which)
    out = np.zeros((14, 32), np.uint32)
    result = kernel(text)(1, threads, out, sanitizer="collect")
    return out, result.counts, [str(each) for each in result.reports]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(lines=bodies(), threads=st.sampled_from([32, 32, 19]))
def test_native_code_equals_the_reference(lines, threads):
    with pytest.MonkeyPatch.context() as patch:
        fast = outcome(patch, "", body_of(lines), threads)
        slow = outcome(patch, "reference", body_of(lines), threads)
    np.testing.assert_array_equal(fast[0], slow[0])
    assert fast[1] == slow[1]
    assert fast[2] == slow[2]


@pytest.mark.parametrize("kind", ["u8", "s16", "u32", "v2.u32", "v4.u32", "u64", "v2.u64", "v4.u8"])
@pytest.mark.parametrize("shape", ["row", "same", "halves", "apart", "some"])
def test_accesses_of_every_shape(monkeypatch, kind, shape):
    """Lanes that access neighbours, one place, two rows of half a warp, places anywhere, and only some lanes."""
    count, bits = int(kind[1]) if kind[0] == "v" else 1, int(kind.split(".")[-1][1:])
    size = count * bits // 8
    index = {
        "row": "mov.u32 %r1, %r0;", "same": "mov.u32 %r1, 5;", "halves": "shr.u32 %r1, %r0, 4;",
        "apart": "mul.lo.u32 %r1, %r0, 7;  and.b32 %r1, %r1, 31;", "some": "mov.u32 %r1, %r0;",
    }[shape]  # fmt: skip
    register = {8: "%h", 16: "%h", 32: "%r", 64: "%rd"}[bits]
    names = [f"{register}{10 + each}" for each in range(count)]
    given = names[0] if count == 1 else "{" + ", ".join(names) + "}"
    body = f"""
    {index}
    mul.wide.u32 %rd2, %r1, {size};
    add.s64 %rd2, %rd2, %rd1;
    mul.wide.u32 %rd3, %r0, {size};
    add.s64 %rd3, %rd3, %rd1;
    {"setp.lt.u32 %p1, %r0, 9;  @!%p1 bra $after;" if shape == "some" else ""}
    ld.global.{kind} {given}, [%rd2];
    st.global.{kind} [%rd3+{32 * size}], {given};
$after:
    """
    found = []
    for which in ("", "reference"):
        monkeypatch.setenv("TCEMU_KERNELS", which)
        memory = np.zeros(64 * size, np.uint8)
        memory[: 32 * size] = np.random.default_rng(1).integers(0, 256, 32 * size)
        kernel(body)(1, 32, memory)
        found.append(memory)
    lanes = np.arange(32)
    lanes = {"same": 0 * lanes + 5, "halves": lanes // 16, "apart": lanes * 7 % 32}.get(shape, lanes)
    wanted = found[0][: 32 * size].reshape(32, size)[lanes]
    wanted = np.where((np.arange(32) < 9)[:, None] | (shape != "some"), wanted, 0)
    assert (found[0][32 * size :].reshape(32, size) == wanted).all()
    assert (found[0] == found[1]).all()


def test_generic_addresses_reach_every_memory(monkeypatch):
    """Lanes of one load read global, shared, local and parameter memory."""
    body = """
    .shared .align 4 .b8 mine[128];
    .local .align 4 .b8 own[16];
    mov.u32 %r1, mine;  shl.b32 %r2, %r0, 2;  add.u32 %r1, %r1, %r2;  st.shared.u32 [%r1], 100;
    mov.u64 %rd2, own;  add.u32 %r3, %r0, 200;  st.local.u32 [%rd2+4], %r3;
    cvta.local.u64 %rd3, %rd2;  add.s64 %rd3, %rd3, 4;
    cvt.u64.u32 %rd4, %r1;  cvta.shared.u64 %rd4, %rd4;
    mov.u64 %rd5, number;  cvta.param.u64 %rd5, %rd5;
    st.global.u32 [%rd0], 7;
    and.b32 %r4, %r0, 3;
    mov.u64 %rd6, %rd0;
    setp.eq.u32 %p1, %r4, 1;  @%p1 mov.u64 %rd6, %rd4;
    setp.eq.u32 %p1, %r4, 2;  @%p1 mov.u64 %rd6, %rd3;
    setp.eq.u32 %p1, %r4, 3;  @%p1 mov.u64 %rd6, %rd5;
    ld.u32 %r5, [%rd6];
    st.global.u32 [%rd0+128], %r5;
    isspacep.shared %p2, %rd6;  selp.u32 %r6, 1, 0, %p2;
    isspacep.local %p2, %rd6;  @%p2 mov.u32 %r6, 2;
    st.global.u32 [%rd0+256], %r6;
    """
    for which in ("", "reference"):
        monkeypatch.setenv("TCEMU_KERNELS", which)
        out = np.zeros((3, 32), np.uint32)
        kernel(body, ".param .u64 out, .param .u32 number")(1, 32, out, 33)
        lanes = np.arange(32)
        assert out[1].tolist() == np.choose(lanes % 4, [7 + 0 * lanes, 100 + 0 * lanes, 200 + lanes, 33]).tolist()
        assert out[2].tolist() == [0, 1, 2, 0] * 8


@pytest.mark.parametrize("which", ["", "reference"])
@pytest.mark.parametrize(
    ("access", "says"),
    [
        ("st.global.u32 [%rd0+128], %r0;", r"lies outside global memory: 0 bytes after the end of array X"),
        ("ld.global.u32 %r1, [%rd0+2];", r"is not a multiple of 4"),
        ("shl.b32 %r2, %r0, 2;  ld.shared.u32 %r1, [%r2+64];", r"lies outside shared memory"),
        ("ld.u32 %r1, [%rd0+128];", r"lies outside global memory: 0 bytes after the end of array X"),
        ("shl.b32 %r2, %r0, 2;  ld.local.u32 %r1, [%r2+4000];", r"lies outside local memory, which has 16 bytes"),
        ("mov.u64 %rd2, table;  ld.const.u32 %r1, [%rd2+16];", r"0 bytes after the end of variable table"),
        ("mov.u64 %rd2, out;  cvta.param.u64 %rd2, %rd2;  st.u32 [%rd2], %r0;", "is in param memory, which kernels"),
    ],
)  # fmt: skip
def test_a_wrong_address_is_reported_with_the_line(monkeypatch, which, access, says):
    monkeypatch.setenv("TCEMU_KERNELS", which)
    module = assembly.parse(text_of(access, before=".const .u32 table[4];"), "wrong.ptx")
    with pytest.raises(LaunchError, match=rf"{says}[\s\S]*wrong.ptx:\d+"):
        simt.Kernel(module, "k", names=["array X"])(1, 32, np.zeros(32, np.uint32), sanitizer="off")


def test_long_functions_are_hardly_optimised_and_compute_the_same(monkeypatch):
    """Both levels give the same bits, counts and reports; the longer text is built at level 0."""
    built, function = [], compiled.function

    def spied(key, text, name, symbols, level=0, passes=0):
        built.append(level)
        return function(key, text, name, symbols, level, passes)

    lines = "\n".join(each.format(a="%r1", b="%r2", c="%r3", d="%r4", p="%p1", q="%p2", n=n, n4=4, inner="")
                      for n, each in enumerate(_OPERATIONS))  # fmt: skip
    monkeypatch.setattr(compiled, "function", spied)
    found = []
    for longest, level in ((native._LONG, 1), (1000, 0)):
        built.clear()
        monkeypatch.setattr(native, "_LONG", longest)
        found.append(outcome(monkeypatch, "", body_of(lines), 19))
        assert level in built
        assert 1 - level not in built
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]
