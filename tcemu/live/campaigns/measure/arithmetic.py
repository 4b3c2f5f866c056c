"""Probes of ordinary arithmetic: of each pipe an instruction or two, shuffles, and 2^x as a polynomial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from types import MappingProxyType

import numpy as np

from tcemu.instructions import target_named
from tcemu.live.campaigns.measure.probe import Part, Probe

#: Values that one warp works on in turn; warps of a block, for 1, 2 and 4 in each sub-partition.
CHAINS, WARPS = 8, (1, 4, 8, 16)


def _f32(value: float) -> str:
    """A number as PTX writes it."""
    return f"0f{np.float32(value).view(np.uint32):08X}"


#: The polynomial of tcemu.gemm.attention, the highest power first; what rounds to an integer; the least argument.
_FIRST, *_REST = map(_f32, (0.0013266971, 0.00967546, 0.055507425, 0.24022122, 0.69314694, 1.0))
_ROUND, _BACK, _LEAST = map(_f32, (1.5 * 2**23, -1.5 * 2**23, -126))

_Texts = Mapping[str, str]
#: The PTX of one copy, by opcode or name: {d} is read and written, {k} another register, {t} names of its own.
TEXTS: _Texts = MappingProxyType(
    {
        "add.rn.f32": "add.rn.f32 {d}, {d}, {k};",
        "mul.rn.f32": "mul.rn.f32 {d}, {d}, {k};",
        "fma.rn.f32": "fma.rn.f32 {d}, {d}, {k}, {k};",
        "max.f32": "max.f32 {d}, {d}, {k};",
        "div.rn.f32": "div.rn.f32 {d}, {d}, {k};",
        "cvt.rn.f16x2.f32": "cvt.rn.f16x2.f32 {d}, {d}, {k};",
        "ex2.approx.ftz.f32": "ex2.approx.ftz.f32 {d}, {d};",
        "setp.lt.s32; selp.b32": ".reg .pred %p{t}; setp.lt.s32 %p{t}, {d}, {k}; selp.b32 {d}, {k}, %thread, %p{t};",
        "shl.b32; add.s32": ".reg .b32 %s{t}; shl.b32 %s{t}, {d}, 23; add.s32 {d}, %s{t}, {k};",
        "shfl.sync.bfly.b32": "shfl.sync.bfly.b32 {d}, {d}, 1, 31, -1;",
        "mad.lo.s32": "mad.lo.s32 {d}, {d}, {k}, {k};",
        "mad.wide.u32": ".reg .b64 %w{t}; mad.wide.u32 %w{t}, {d}, {k}, %memory; cvt.u32.u64 {d}, %w{t};",
        "prmt.b32": "prmt.b32 {d}, {d}, {k}, 0x6140;",
        "lop3.b32": "lop3.b32 {d}, {d}, {k}, %thread, 0x6A;",
        "shf.l.wrap.b32": "shf.l.wrap.b32 {d}, {d}, {k}, 5;",
        "popc.b32": "popc.b32 {d}, {d};",
        "dp4a.s32.s32": "dp4a.s32.s32 {d}, {d}, {k}, {k};",
        "cvt.f32.f16": ".reg .b16 %c{t}; cvt.u16.u32 %c{t}, {d}; cvt.f32.f16 {d}, %c{t};",
        "cvt.rn.f32.s32": "cvt.rn.f32.s32 {d}, {d};",
        "cvt.rni.s32.f32": "cvt.rni.s32.f32 {d}, {d};",
        "cvt.rn.satfinite.e4m3x2.f32": ".reg .b16 %c{t}; cvt.rn.satfinite.e4m3x2.f32 %c{t}, {d}, {k}; "
        "cvt.u32.u16 {d}, %c{t};",
        "cvt.rn.f16x2.e4m3x2": ".reg .b16 %c{t}; cvt.u16.u32 %c{t}, {d}; cvt.rn.f16x2.e4m3x2 {d}, %c{t};",
        "fma.rn.f16x2": "fma.rn.f16x2 {d}, {d}, {k}, {k};",
        "fma.rn.bf16x2": "fma.rn.bf16x2 {d}, {d}, {k}, {k};",
        **{
            f"{name}.{form}x2": f"{name}.{form}x2 {{d}}, {{d}}, {{k}};"
            for form in ("f16", "bf16")
            for name in ("add", "mul")  # max, and so all of a chain but its first one, ptxas leaves out
        },
        "fma.rn.f16": ".reg .b16 %c{t}, %o{t}; mov.b32 {{%c{t}, _}}, {d}; mov.b32 {{%o{t}, _}}, {k}; "
        "fma.rn.f16 %c{t}, %c{t}, %o{t}, %o{t}; mov.b32 {d}, {{%c{t}, %c{t}}};",
        "rsqrt.approx.ftz.f32": "rsqrt.approx.ftz.f32 {d}, {d};",
        "lg2.approx.ftz.f32": "lg2.approx.ftz.f32 {d}, {d};",
        "tanh.approx.f32": "tanh.approx.f32 {d}, {d};",
        "ex2.approx.f16x2": "ex2.approx.f16x2 {d}, {d};",
        "fma.rn.f64": ".reg .f64 %z{t}; mov.b64 %z{t}, {{{d}, {k}}}; fma.rn.f64 %z{t}, %z{t}, %z{t}, %z{t}; "
        "mov.b64 {{{d}, _}}, %z{t};",
        "setp.lt.s32; vote.sync.ballot.b32": ".reg .pred %p{t}; setp.lt.s32 %p{t}, {d}, {k}; "
        "vote.sync.ballot.b32 {d}, %p{t}, -1;",
        "redux.sync.add.s32": "redux.sync.add.s32 {d}, {d}, -1;",
        "2^x": "".join(
            [
                ".reg .b32 %s{t}, %r{t}, %y{t};",
                f"max.f32 {{d}}, {{d}}, {_LEAST}; add.rn.f32 %s{{t}}, {{d}}, {_ROUND};",
                f"add.rn.f32 %r{{t}}, %s{{t}}, {_BACK}; sub.rn.f32 %r{{t}}, {{d}}, %r{{t}};",
                f"mov.b32 %y{{t}}, {_FIRST};",
                *(f"fma.rn.f32 %y{{t}}, %y{{t}}, %r{{t}}, {each};" for each in _REST),
                "shl.b32 %s{t}, %s{t}, 23; add.u32 {d}, %y{t}, %s{t};",
            ]
        ),
    }
)
#: The first target that has an instruction, if the oldest ones do not.
_FROM = {
    "cvt.rn.f16x2.f32": 80,
    "fma.rn.bf16x2": 80,
    "redux.sync.add.s32": 80,
    "cvt.rn.satfinite.e4m3x2.f32": 89,
    "cvt.rn.f16x2.e4m3x2": 89,
}


def arithmetic(target: str, version: str) -> Iterator[Probe]:
    """A probe for each instruction and number of warps."""
    for number, (name, text) in enumerate(TEXTS.items()):
        if target_named(target).number < _FROM.get(name, 0):
            continue
        for warps in WARPS:
            yield _probe(name, text, warps, f"arithmetic_{number}_{warps}")


def _probe(name: str, text: str, warps: int, kernel: str) -> Probe:
    unique = count()

    def one(chain: int) -> str:
        return "{" + text.format(d=f"%v{chain}", k=f"%k{chain % 4}", t=next(unique)) + "}"

    what = "interval" if warps == 1 else "SM interval"
    turns = Part(name, what, {"warps": warps}, lambda copy, _: one(copy % CHAINS), 2 * CHAINS, warps)
    chain = Part(name, "latency", {"warps": 1}, lambda *_: one(0), CHAINS)
    return Probe(
        parts=(chain, turns) if warps == 1 else (turns,),
        threads=32 * warps,
        declare=f".reg .b32 %v<{CHAINS}>, %k<4>;",
        setup="\n".join(
            ["ld.volatile.global.u32 %h0, [%memory];"]  # zeros, which the assembler cannot know
            # a value for each lane: the assembler drops a shuffle of equal ones
            + [f"mad.lo.u32 %v{each}, %lane, 64, {0x3F800000 + 0x1000 * each};" for each in range(CHAINS)]
            + [f"or.b32 %k{each}, %h0, {0x3F800100 + 0x100 * each};" for each in range(4)]
        ),
        sink="\n".join(f"st.volatile.global.b32 [%sink], %v{each};" for each in range(CHAINS)),
        name=kernel,
    )
