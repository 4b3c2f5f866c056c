"""Kernels in PTX text, ready to launch on the machine with numpy arrays.

What a user writes:

    module = tcemu.ptx.load("kernel.ptx")
    module["matmul"][grid, block](a, b, c)

    module.py      a module: its kernels and variables by name
    kernel.py      a kernel: kernel[grid, block](...)
    signature.py   its parameters: C's types, names, sizes
    types.py       THE TABLE of C's types
    arguments.py   arguments, checked against the parameters
    struct.py      structs by value
"""

from tcemu.machine.mapped import Mapped, tensor_map
from tcemu.ptx.kernel import Kernel
from tcemu.ptx.module import Module, load
from tcemu.ptx.struct import Struct, struct

__all__ = ["Kernel", "Mapped", "Module", "Struct", "load", "struct", "tensor_map"]
