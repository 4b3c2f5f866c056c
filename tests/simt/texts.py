"""Small kernels in PTX for tests: a body between a usual beginning and end."""

from __future__ import annotations

from tcemu import assembly, simt

_REGISTERS = (
    "\n    .reg .pred %p<20>;  .reg .b16 %h<20>;  .reg .b32 %r<60>;  .reg .f32 %f<20>;  .reg .b64 %rd<30>;"
    "  .reg .f64 %fd<20>;\n"
)


def text_of(body: str, parameters: str = ".param .u64 out", before: str = "", target: str = "sm_90a") -> str:
    """A module with one kernel, `k`: %rd0 is the address of the thread's word of `out`, and %r0 is %tid.x."""
    head = f".version 8.5\n.target {target}\n.address_size 64\n{before}\n"
    start = "    ld.param.u64 %rd1, [out];\n    mov.u32 %r0, %tid.x;\n    mad.wide.u32 %rd0, %r0, 4, %rd1;\n"
    return f"{head}.visible .entry k({parameters})\n{{{_REGISTERS}{start}{body}\n    ret;\n}}\n"


def kernel(body: str, parameters: str = ".param .u64 out", before: str = "", target: str = "sm_90a") -> simt.Kernel:
    """That kernel, loaded."""
    return simt.Kernel(assembly.parse(text_of(body, parameters, before, target), "test.ptx"), "k")
