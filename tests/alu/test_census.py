"""The ordinary instructions of 221 public kernels: SGEMM_CUDA, cuda_hgemm, llm.c, fast.cu and others."""

from rows import rows

from tcemu import alu

#: By mnemonic; what only simt executes is not here: mov, bra, call, ret, st.param, trap.
CENSUS = """
add: cc.u32 f16 f32 f64 rn.f32 rn.f64 s32 s64 u64
setp: eq.b32 eq.b64 eq.f32 eq.f64 eq.s32 eq.s64 ge.f32 ge.s32 ge.s64 ge.u32 ge.u64 geu.f32 gt.f32 gt.f64 gt.s32 gt.s64
setp: gt.u32 gt.u64 gtu.f32 gtu.f64 le.f64 le.s32 le.u32 le.u64 leu.f32 lt.f32 lt.f64 lt.s32 lt.s64 lt.u32 lt.u64
setp: ltu.f32 ltu.f64 ne.b32 ne.b64 ne.s32 ne.s64 neu.f32 neu.f64
mul: f16 f32 f64 hi.s32 hi.u32 lo.s32 lo.s64 lo.u32 rn.f32 rn.f64 wide.s32 wide.u16 wide.u32
shl: b32 b64
cvt: f32.bf16 f32.f16 f64.f32 rm.f32.s32 rmi.f32.f32 rn.bf16.f32 rn.f16.f32 rn.f16.f64 rn.f16x2.f32 rn.f32.f64
cvt: rn.f32.s32 rn.f32.u32 rn.f64.s32 rn.f64.s64 rni.f32.f32 rni.s32.f32 rni.s32.f64 rp.f32.s32 rz.f32.s32 rzi.f32.f32
cvt: rzi.f64.f64 rzi.s32.f32 s64.s32 sat.f32.f32 u16.u32 u32.u64 u64.u32
and: b16 b32 b64 pred
mad: lo.cc.u32 lo.s32 lo.s64 wide.s32 wide.u32
sub: cc.u32 f32 f64 s32 s64
shr: s32 s64 u16 u32 u64
fma: rm.f32 rn.bf16x2 rn.f16x2 rn.f32 rn.f64
div: full.f32 rn.f32 rn.f64 s32 s64 u32
or: b32 b64 pred
selp: b32 b64 f32 f64 u32 u64
not: b32 b64 pred
xor: b32 b64 pred
neg: f32 f64 s32 s64
max: f32 s32 u32
rcp: approx.ftz.f32 approx.ftz.f64 rn.f32 rn.f64
ex2: approx.f32 approx.ftz.f32
rem: s32
sqrt: approx.ftz.f32 rn.f32 rn.f64
bfi: b32 b64
min: s32 u32
bfe: s32 u32
abs: f32 f64
rsqrt: approx.f32
clz: b32 b64
copysign: f32 f64
addc: cc.u32 u32
bfind: shiftamt.u32
brev: b32
lg2: approx.f32
madc: hi.cc.u32 hi.u32 lo.cc.u32
popc: b32
subc: cc.u32 u32
prmt: b32
"""


def _opcodes():
    for line in CENSUS.strip().splitlines():
        mnemonic, _, forms = line.partition(": ")
        yield from (f"{mnemonic}.{form}" for form in forms.split())


@rows("opcode", _opcodes())
def test_the_table_has_what_kernels_use(opcode):
    assert alu.find(opcode) is not None
