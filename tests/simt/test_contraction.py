"""Which products and sums are fused: small kernels, and what ptxas 13.0 makes of them for sm_90 (nvdisasm)."""

import re

import numpy as np
import pytest

import tcemu
from tcemu import assembly, simt
from tcemu.simt.contraction import contract

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
#: The text, and the products (registers) that ptxas fuses.
CASES = {
    "mul m0,x0,x1; add m1,m0,x2; st m1": "m0",
    "mul m0,x0,x1; add m1,x2,m0; st m1": "m0",
    "mul m0,x0,x1; sub m1,m0,x2; st m1": "m0",
    "mul m0,x0,x1; sub m1,x2,m0; st m1": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; st m2": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m1,m0; st m2": "m1",
    "mul m0,x0,x1; mul m1,x2,x3; sub m2,m1,m0; st m2": "m1",
    "mul m0,x0,x1; add m1,m0,x2; add m2,m0,x3; st m1; st m2": "m0",
    "mul m0,x0,x1; add m1,m0,x2; st m1; st m0": "",
    "mul m0,x0,x1; mul m1,x2,x3; sub m2,m0,m1; add m3,x4,m2; sub m4,x4,m2; st m3; st m4": "m0",
    "mul.rn m0,x0,x1; add m1,m0,x2; st m1": "",
    "mul m0,x0,x1; add.rn m1,m0,x2; st m1": "",
    "mul.ftz m0,x0,x1; add.ftz m1,m0,x2; st m1": "m0",
    "mul.ftz m0,x0,x1; add m1,m0,x2; st m1": "",
    "mul m0,x0,x1; add.ftz m1,m0,x2; st m1": "",
    "mul m0,x0,x1; neg m1,m0; add m2,m1,x2; st m2": "m0",
    "mul m0,x0,x1; neg m1,m0; sub m2,x2,m1; st m2": "m0",
    "mul m0,x0,x1; mov m1,m0; add m2,x2,m1; st m2": "m0",
    "mul m0,x0,0f40490FDB; add m1,m0,x2; st m1": "m0",
    "mul m0,x0,x1; add m1,m0,0f3F800000; st m1": "m0",
    "mul m0,x0,x1; add.sat m1,m0,x2; st m1": "m0",
    "mul.sat m0,x0,x1; add m1,m0,x2; st m1": "",
    "mul m0,x0,x1; abs m1,m0; add m2,m1,x2; st m2": "",
    "setp p0,x3,x4; mov m1,x5; mul m0,x0,x1; @%p0 add m1,m0,x2; st m1": "m0",
    "setp p0,x3,x4; mov m0,x5; @%p0 mul m0,x0,x1; add m1,m0,x2; st m1": "",
    "setp p0,x3,x4; mul m0,x0,x1; mov m1,x5; @%p0 bra L; add m1,m0,x2; L: st m1": "",
    "setp p0,x3,x4; mul m0,x0,x1; add m1,m0,x2; mov m2,x5; @%p0 bra L; add m2,m0,x3; L: st m1; st m2": "",
    "mul m0,x0,x1; bar.sync 0; add m2,x2,m0; st m2": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; mul m3,x4,x5; add m4,m2,m3; st m4": "m0 m3",
    "mul m0,x0,x1; add m1,m0,m0; st m1": "",
    "mul m0,x0,x1; mul m1,m0,x2; add m2,m0,m1; st m2": "m1",
    "mul m0,x0,x1; fma m1,m0,x2,x3; add m2,m0,x4; st m1; st m2": "",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; st m2; st m1": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; st m2; st m0": "m1",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; add m3,m1,x4; st m2; st m3": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m3,m1,x4; add m2,m0,m1; st m2; st m3": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; sub m3,m0,m1; st m2; st m3": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m1,m0; add m3,m0,x5; st m2; st m3": "m1",
    "mul m0,x0,x1; neg m1,m0; add m2,x2,m1; add m3,m0,x3; st m2; st m3": "m0",
    "mul m0,x0,x1; add x0,x0,x3; add m2,x2,m0; st m2; st x0": "m0",
    "mul m0,x0,x1; max m1,m0,x3; add m2,x2,m0; st m2; st m1": "",
    "mul.ftz m0,x0,x1; add.ftz m1,m0,x2; add m2,m0,x3; st m1; st m2": "",
    "add m0,x0,x1; mul m1,m0,x2; add m2,m1,x3; st m2": "m1",
    "fma m0,x0,x1,0f00000000; add m1,m0,x2; st m1": "",
    "setp p0,x3,x4; mul m0,x0,x1; selp m1,m0,x2,p0; add m2,m1,x5; st m2": "",
    # quotients that are a product with a reciprocal
    "div.approx.ftz m0,x0,x1; mul.ftz m1,x2,x3; add.ftz m2,m0,m1; st m2": "m0",
    "mul.ftz m1,x2,x3; div.approx.ftz m0,x0,x1; add.ftz m2,m1,m0; st m2": "m1",
    "div.approx m0,x0,x1; div.approx m1,x2,x3; sub m2,m0,m1; st m2": "m0",
    "div.approx.ftz m0,x0,x1; add.ftz m1,m0,x2; st m1; st m0": "",
    "div.full m0,x0,x1; add m1,m0,x2; add m2,m0,x3; st m1; st m2": "m0",
    "div.rn m0,x0,x1; add m1,m0,x2; st m1": "",
    "setp p0,x3,x4; div.approx.ftz m0,0f40400000,x1; @%p0 bra L; add.ftz m2,m0,x3; st m2; L: st x3": "m0",
    "setp p0,x3,x4; div.approx m0,0f40400000,x1; @%p0 bra L; add m2,m0,x3; st m2; L: st x3": "",
    "setp p0,x3,x4; div.approx m0,x1,0f40400000; @%p0 bra L; add m2,m0,x3; st m2; L: st x3": "m0",
    # the one with fewer uses, where two meet
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; add m3,m0,x5; st m2; st m3": "m1",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m1,m0; add m3,m1,x5; st m2; st m3": "m0",
    "mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; add m3,m0,x5; add m4,m1,x5; st m2; st m3; st m4": "m0",
    # a product by a constant, also in other blocks
    "setp p0,x3,x4; mul m0,x0,0f40400000; add m1,m0,x2; mov m2,x5; @%p0 bra L; add m2,m0,x3; L: st m1; st m2": "m0",
    "setp p0,x3,x4; mul m0,0f40400000,x0; @%p0 bra L; neg m1,m0; add m2,m1,x3; st m2; L: st x3": "m0",
    "setp p0,x3,x4; mov m5,0f40400000; mul m0,x0,m5; @%p0 bra L; add m2,m0,x3; st m2; L: st x3": "m0",
    "setp p0,x3,x4; mul m0,x0,0f40400000; add x0,x0,x5; @%p0 bra L; add m3,x0,m0; st m3; L: st x0": "m0",
    "mov m1,x5; mul m0,x0,0f40400000; L: add m1,m1,m0; setp p0,m1,x4; @%p0 bra L; st m1": "m0",
    "mov m1,x5; mul m0,x0,x1; L: add m1,m1,m0; setp p0,m1,x4; @%p0 bra L; st m1": "",
    "setp p0,x3,x4; mul m0,x0,0f40400000; @%p0 bra L; add m3,m0,x3; st m3; L: st m0": "",
    "setp p0,x3,x4; mul m0,x0,0f40400000; @%p0 bra L; mul m3,m0,x3; st m3; L: add m4,m0,x4; st m4": "",
    "setp p0,x3,x4; mul m0,x0,0f40400000; @%p0 bra L; mul m3,x4,x5; add m2,m3,m0; st m2; L: st x3": "m3",
    "setp p0,x3,x4; mul m0,x0,0f40400000; @%p0 bra L; mul m3,x4,x5; add m2,m0,m3; st m2; L: st x3": "m0",
    "setp p0,x3,x4; mul m0,x0,0f40400000; @%p0 bra L; mul m1,x1,x2; add m3,m0,m1; st m3; L: add m4,m0,x5; st m4": "m1",
}
#: Instructions between two products that meet in one addition, and whether ptxas ends a basic block there: then the
#: first product is in another one, and the second is fused.
BETWEEN = {
    "add.rn.f32 %m3,%x4,%x5": False,
    "div.rn.f32 %m3,%x4,%x5": True,
    "div.rz.ftz.f32 %m3,%x4,%x5": True,
    "div.full.f32 %m3,%x4,%x5": False,
    "div.approx.f32 %m3,%x4,%x5": False,
    "rcp.rn.f32 %m3,%x4": True,
    "rcp.approx.f32 %m3,%x4": False,
    "sqrt.rn.ftz.f32 %m3,%x4": True,
    "sqrt.approx.f32 %m3,%x4": False,
    "ex2.approx.f32 %m3,%x4": False,
    "div.s32 %r1,%r2,%r3": True,
    "div.u32 %r1,%r2,%r3": False,
    "rem.s32 %r1,%r2,%r3": True,
    "rem.u32 %r1,%r2,%r3": False,
    "div.u64 %rd1,%rd2,%rd1": True,
    "membar.gl": True,
    "fence.acq_rel.gpu": True,
    "fence.proxy.async": False,
    "bar.sync 0": False,
    "@%p0 bar.sync 0": True,
    "shfl.sync.bfly.b32 %m3,%x4,1,31,-1": False,
    "@%p0 st.global.f32 [%rd2+64],%x4": True,
    "st.global.f32 [%rd2+64],%x4": False,
    "@%p0 ld.global.f32 %m3,[%rd1+64]": True,
    "@%p0 mov.f32 %m3,%x5": False,
    "@%p0 mul.rn.f32 %m3,%x4,%x5": False,
    "atom.global.add.u32 %r1,[%rd1+64],1": False,
    "ld.acquire.gpu.global.f32 %m3,[%rd1+64]": False,
}


def text(short, kind="f32"):
    """PTX of the short form; every input comes from memory, and every store goes to the next place."""
    bits, body, stores = {"f32": 4, "f64": 8}[kind], [], 0
    for part in short.replace("L: ", "L:; ").split("; "):
        head, _, rest = part.strip().partition(" ")
        guard = ""
        if head.startswith("@"):
            guard, (head, _, rest) = head + " ", rest.partition(" ")
        named = re.sub(r"\b([mxp]\d)\b", r"%\1", rest)
        if head == "st":
            body.append(f"st.global.{kind} [%rd2+{bits * stores}], {named};")
            stores += 1
        elif head in ("L:", "bra", "bar.sync"):
            body.append(f"{guard}{part.partition('bra')[1] or head} {rest}" + (";" if head != "L:" else ""))
        else:
            spelled = {"setp": f"setp.gt.{kind}", "fma": f"fma.rn.{kind}"}.get(head, f"{head}.{kind}")
            body.append(f"{guard}{spelled} {named};")
    loads = " ".join(f"ld.global.{kind} %x{each}, [%rd1+{bits * each}];" for each in range(6))
    declared = f".reg .{kind} %x<6>, %m<6>; .reg .b64 %rd<3>; .reg .pred %p<1>;"
    start = "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];"
    lines = "\n".join([declared, start, loads, *body])
    return f"{HEAD}.visible .entry k(.param .u64 x, .param .u64 y) {{ {lines}\nret; }}"


@pytest.mark.parametrize(("short", "fused"), CASES.items())
def test_what_ptxas_fuses_is_fused(short, fused):
    _, found = contract(assembly.parse(text(short)).functions["k"])
    assert {str(each.product.operands[0]).strip("%") for each in found} == set(fused.split())


#: Where a factor comes from, and whether ptxas multiplies in another basic block, where the product is used.
FACTORS = {
    "ld.param.f32 %m4,[a]": True,
    "ld.param.v2.f32 {%m3,%m4},[b]": True,
    "ld.param.f32 %m3,[b+4]; neg.f32 %m4,%m3": True,
    "ld.const.f32 %m4,[c+4]": True,
    "ld.global.f32 %m4,[g]": False,
    "ld.const.f32 %m4,[%rd1]": False,
    "ld.param.f32 %m3,[a]; add.f32 %m4,%m3,0f3F800000": False,
    "mov.u32 %r1,%ctaid.x; cvt.rn.f32.u32 %m4,%r1": False,
}


@pytest.mark.parametrize(("factor", "moves"), FACTORS.items())
def test_a_product_by_a_constant_moves_to_its_uses(factor, moves):
    written = text("setp p0,x3,x4; mul m0,x0,m4; @%p0 bra L; add m2,m0,x3; st m2; L: st x3")
    written = written.replace("mul.f32 %m0", f"{factor};\nmul.f32 %m0").replace("%rd<3>", "%rd<3>; .reg .b32 %r<2>")
    written = written.replace(".u64 y)", ".u64 y, .param .f32 a, .param .align 8 .b8 b[16])")
    written = written.replace(".visible", ".const .f32 c[2]; .global .f32 g;\n.visible")
    fused = contract(assembly.parse(written).functions["k"])[1]
    assert len(fused) == moves


@pytest.mark.parametrize(("between", "ends"), BETWEEN.items())
def test_where_ptxas_ends_a_block(between, ends):
    written = text("mul m0,x0,x1; mul m1,x2,x3; add m2,m0,m1; st m2").replace("%rd<3>", "%rd<3>; .reg .b32 %r<4>")
    written = written.replace("mul.f32 %m1", f"{between};\nmul.f32 %m1")
    (fused,) = contract(assembly.parse(written).functions["k"])[1]
    assert str(fused.product.operands[0]) == ("%m1" if ends else "%m0")


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("short", "meaning"),
    [
        ("mul m0,x0,x1; sub m1,m0,x4; st m1", lambda x: x[0] * x[1] - x[4]),
        ("mul m0,x0,x1; sub m1,x4,m0; st m1", lambda x: x[4] - x[0] * x[1]),
        ("mul m0,x0,x1; neg m1,m0; sub m2,x2,m1; st m2", lambda x: x[2] + x[0] * x[1]),
        ("mul m0,x0,x1; add x0,x0,x3; add m2,x2,m0; st m2", lambda x: x[2] + x[0] * x[1]),
    ],
)
def test_it_is_rounded_once(kind, short, meaning):
    exact, dtype = [1 + 2**-15, 1 + 2**-15, -1 - 2**-14, 3, 1 + 2**-14, 0], kind.replace("f", "float")
    x, once, twice = np.array(exact, dtype), np.zeros(1, dtype), np.zeros(1, dtype)
    module = assembly.parse(text(short, kind))
    simt.Kernel(module, "k")(1, 1, x, once)
    simt.Kernel(module, "k", fmad=False)(1, 1, x, twice)
    assert once == meaning(exact)  # float64 holds all of it
    if kind == "f32":
        assert twice == meaning([np.float32(each) for each in exact])
        assert once != twice


#: sinf(x) + expf(x) / (1e-39f + x * x) + sqrtf(x * 1e-40f) + powf(fabsf(x), 0.3f) + tanhf(x) + 1.0f / x with
#: --use_fast_math, and what an H200 makes of some numbers.
FAST = """
sin.approx.ftz.f32 %x0,%x5; mul.ftz.f32 %m0,%x5,0f3FB8AA3B; ex2.approx.ftz.f32 %m1,%m0;
fma.rn.ftz.f32 %m2,%x5,%x5,0f000AE398; div.approx.ftz.f32 %m3,%m1,%m2; add.ftz.f32 %m4,%x0,%m3;
mul.ftz.f32 %m0,%x5,0f000116C2; sqrt.approx.ftz.f32 %m1,%m0; add.ftz.f32 %m2,%m4,%m1;
abs.ftz.f32 %x1,%x5; lg2.approx.ftz.f32 %x1,%x1; mul.ftz.f32 %x1,%x1,0f3E99999A; ex2.approx.ftz.f32 %x1,%x1;
add.ftz.f32 %x1,%m2,%x1; tanh.approx.f32 %x2,%x5; add.ftz.f32 %x1,%x1,%x2; rcp.approx.ftz.f32 %x2,%x5;
add.ftz.f32 %x1,%x2,%x1; st.global.f32 [%rd2],%x1;
"""
ON_H200 = {0x407CED4B: 0x40ABD631, 0xBEB59E22: 0x40333012, 0xBF18EFBE: 0xBEBF02EC, 0x4097207C: 0x40DB1EE2}


def test_fast_quotients_are_rounded_as_on_a_gpu():
    kernel = tcemu.ptx.load(text("add x5,x5,0f00000000; st x0").replace("st.global.f32 [%rd2+0], %x0;", FAST))["k"]
    for x, y in ON_H200.items():
        given, got = np.full(6, x, np.uint32), np.zeros(1, np.uint32)
        kernel[1, 1](given, got)
        assert got == y


@pytest.mark.parametrize("head", ["div.approx", "div.full", "div.approx.ftz", "div.full.ftz"])
def test_a_quotient_that_is_fused_is_the_quotient(head):
    """Added to zero, in which nothing is rounded again."""
    flush = ".ftz" if "ftz" in head else ""
    module = assembly.parse(text(f"{head} m0,x0,x1; add{flush} m1,m0,0f80000000; st m1"))
    for one in (1.5, -3e38, 2e-39, np.inf, np.nan, 0.0):
        for other in (3.0, -1e-39, 2e38, 1e-45, np.inf, np.nan, 1.1754944e-38):
            x = np.array([one, other, 0, 0, 0, 0], np.float32)
            fused, alone = np.zeros(1, np.float32), np.zeros(1, np.float32)
            simt.Kernel(module, "k")(1, 1, x, fused)
            simt.Kernel(module, "k", fmad=False)(1, 1, x, alone)
            assert fused.tobytes() == alone.tobytes(), (one, other)


def test_a_kernel_says_what_it_fuses():
    kernel = simt.Kernel(assembly.parse(text("mul m0,x0,x1; add m1,m0,x2; st m1")), "k")
    assert [(each.product.opcode, each.addition.opcode) for each in kernel.fused] == [("mul.f32", "add.f32")]


def test_a_loaded_module_fuses_or_not():
    written = text("mul m0,x0,x1; add m1,m0,x2; st m1")
    x = np.array([1 + 2**-15, 1 + 2**-15, -1 - 2**-14, 0, 0, 0], np.float32)
    once, twice = np.zeros(1, np.float32), np.zeros(1, np.float32)
    tcemu.ptx.load(written)["k"][1, 1](x, once)
    tcemu.ptx.load(written, fmad=False)["k"][1, 1](x, twice)
    assert (once, twice) == (2**-30, 0)
