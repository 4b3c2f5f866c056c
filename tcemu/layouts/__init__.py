"""Fragment layouts as one-line patterns, fragments, and tiles in shared memory with their descriptors.

A fragment is a layout, a number format, and how elements share registers.
"""

from tcemu.layouts.descriptor import Descriptor
from tcemu.layouts.diagnosis import Fault, diagnose
from tcemu.layouts.fragment import Fragment
from tcemu.layouts.layout import Layout
from tcemu.layouts.tiles import copy_tile, read_tile

__all__ = ["Descriptor", "Fault", "Fragment", "Layout", "copy_tile", "diagnose", "read_tile"]
