"""Fragment layouts as one-line patterns, fragments, and tiles in shared memory with their descriptors.

A fragment is a layout, a number format, and how elements share registers.
"""

from tcemu.layouts.descriptor import Descriptor
from tcemu.layouts.diagnosis import Fault, diagnose
from tcemu.layouts.fragment import Fragment
from tcemu.layouts.layout import Layout
from tcemu.layouts.tensor_memory import (
    instruction_descriptor,
    lanes_of_warp,
    tcgen05_descriptor,
    tensor_memory_address,
)
from tcemu.layouts.tiles import copy_tile, read_tile

__all__ = [
    "Descriptor", "Fault", "Fragment", "Layout", "copy_tile", "diagnose", "instruction_descriptor", "lanes_of_warp",
    "read_tile", "tcgen05_descriptor", "tensor_memory_address",
]  # fmt: skip
