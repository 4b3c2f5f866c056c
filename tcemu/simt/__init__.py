"""PTX functions on the machine: 32 lanes in lane groups, registers, memory, calls."""

from tcemu.simt.arguments import Packed
from tcemu.simt.contraction import Fused
from tcemu.simt.errors import KernelAssertion, Unsupported
from tcemu.simt.kernel import Kernel, Prepared
from tcemu.simt.printed import printing
from tcemu.simt.variables import Variables

__all__ = ["Fused", "Kernel", "KernelAssertion", "Packed", "Prepared", "Unsupported", "Variables", "printing"]
