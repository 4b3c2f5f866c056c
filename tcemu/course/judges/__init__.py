"""The judges: of functions, arrays, crafted inputs and kernels, and of maps, registers and sums with them.

Each collects plain arrays from an answer and marks them in a second step. What is right comes from the emulator and
its tables when it is asked for, so no solution is stored.
"""

from tcemu.course.judges.crafted import Crafted
from tcemu.course.judges.descriptors import Descriptors
from tcemu.course.judges.function import Function
from tcemu.course.judges.kernel import Kernel
from tcemu.course.judges.maps import registers_of, what_map, where_map
from tcemu.course.judges.sums import fused_sum, sums
from tcemu.course.judges.values import Values

__all__ = [
    "Crafted", "Descriptors", "Function", "Kernel", "Values", "fused_sum", "registers_of", "sums", "what_map",
    "where_map",
]  # fmt: skip
