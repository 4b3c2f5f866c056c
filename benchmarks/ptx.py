"""Kernels in PTX, beside numpy: python benchmarks/ptx.py.

Straight code: what an instruction of a warp takes, as a multiple of what numpy takes to add 32 floats in a long array.
Loads and stores, which check every lane's address, in the same unit. Then a load with the sanitizer, as a multiple of
one without it. Straight code should be below 15 ns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.turns import best
from tcemu import assembly, simt

#: Instructions of the loop's body, and how often the loop goes round.
BODY, TURNS = 100, 2000
_HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 turns)
{
    .reg .pred %p<2>;  .reg .b32 %r<20>;  .reg .f32 %f<20>;  .reg .b64 %rd<4>;
    .shared .align 4 .b8 tile[1024];
    ld.param.u64 %rd1, [out];  ld.param.u32 %r1, [turns];  mov.u32 %r2, %tid.x;  mov.u32 %r4, tile;
    mul.wide.u32 %rd2, %r2, 4;  add.s64 %rd1, %rd1, %rd2;  shl.b32 %r3, %r2, 2;  add.u32 %r3, %r3, %r4;
    mov.f32 %f1, 0f3F800000;  mov.f32 %f2, 0f3F800001;  st.shared.u32 [%r3], %r2;
$loop:
"""
_TAIL = """
    sub.u32 %r1, %r1, 1;  setp.ne.u32 %p1, %r1, 0;  @%p1 bra $loop;
    st.global.u32 [%rd1], %r10;  st.global.f32 [%rd1], %f10;
    ret;
}
"""
#: The instruction of each body; {d} is one of several registers.
KINDS = {
    "fma.rn.f32": "fma.rn.f32 %f{d}, %f1, %f2, %f{d};",
    "mad.lo.s32": "mad.lo.s32 %r{d}, %r2, %r{d}, %r3;",
    "ld.shared.u32": "ld.shared.u32 %r{d}, [%r3];",
    "st.shared.u32": "st.shared.u32 [%r3], %r{d};",
    "ld.global.u32": "ld.global.u32 %r{d}, [%rd1];",
    "st.global.u32": "st.global.u32 [%rd1], %r{d};",
}


def kernel(instruction: str) -> simt.Kernel:
    """A loop of this instruction."""
    body = "\n".join(f"    {instruction.format(d=10 + number % 8)}" for number in range(BODY))
    return simt.Kernel(assembly.parse(_HEAD + body + _TAIL), "k")


def main() -> None:
    """Measure and print."""
    out, long = np.zeros(32, np.float32), np.zeros(1 << 14, np.float32)
    made = {name: kernel(instruction) for name, instruction in KINDS.items()}

    def run(name: str, sanitizer: str = "off") -> None:
        made[name](1, 32, out, TURNS, sanitizer=sanitizer)

    def add() -> None:
        for _ in range(100):
            np.add(long, long, out=long)

    works = [add, *(lambda name=name: run(name) for name in KINDS)]
    numpy, *ours = best(works, clock=time.process_time)
    one = numpy / 100 / (len(long) / 32)
    print(f"numpy adds 32 floats in {1e9 * one:.1f} ns; a warp takes for an instruction")
    for name, seconds in zip(KINDS, ours, strict=True):
        each = seconds / BODY / TURNS
        print(f"    {name:<14} {1e9 * each:5.1f} ns, {each / one:5.1f} times as long")
    plain, watched = best([lambda: run("ld.shared.u32"), lambda: run("ld.shared.u32", "raise")], 3)
    print(f"with the sanitizer, ld.shared.u32 takes {watched / plain:.0f} times as long")


if __name__ == "__main__":
    main()
