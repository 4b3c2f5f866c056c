"""CUDA C++ without a GPU: NVRTC compiles it, and the kernels run on the machine.

    module = tcemu.cuda.compile("gemm.cu", "sm_90a", define={"TILE": 64})
    module["gemm"][grid, block](a, b, c)

In a notebook, `%load_ext tcemu.cuda`; then a cell that begins with `%%cuda` is CUDA C++, and its kernels are Python
names. It needs the extra `cuda`: NVRTC and CUDA's headers, on Linux and Windows. Stored PTX (tcemu.ptx) needs neither.

    module.py      compile: a source to a module; templates, on demand
    magic.py       %%cuda
    nvrtc.py       NVRTC, in a child process; compiler.py starts it and asks it
    toolkit.py     where NVRTC and the headers are
    options.py     NVRTC's options, and nvcc's
    device_code.py what of a source is compiled: the dialect tried, host code and lacking headers left out in turn
    headers.py     headers that NVRTC lacks, and those beside a source; include/ has C's and C++'s
    host_code.py   what of a file is for the device; one_branch.py, one branch of each #if
    messages.py    NVRTC's messages at the lines of the source
    spelling.py    misspelt names: what a source, or CUDA, has that is nearly the same
    stored.py      PTX of the course's cells, for a browser, which has no compiler
    triton.py      kernels of Triton
    program/       whole programs with main, which nvcc compiles: build.py, serve.py, runtime.cpp
"""

from typing import Any

from tcemu.cuda.toolkit import available

__all__ = ["Kernel", "Mapped", "Module", "Struct", "available", "compile", "struct", "tensor_map"]

#: Where the names come from: the compiler's process imports this package, and needs none of them.
_HOMES = {
    "Kernel": "tcemu.ptx", "Mapped": "tcemu.ptx", "Module": "tcemu.cuda.module", "Struct": "tcemu.ptx",
    "compile": "tcemu.cuda.module", "struct": "tcemu.ptx", "tensor_map": "tcemu.ptx",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tcemu.cuda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tcemu.cuda`: cells that begin with %%cuda. Raises MissingPackage without NVRTC."""
    from tcemu.cuda.magic import register

    register(shell)
