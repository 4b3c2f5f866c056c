"""The methods of a warp, by chapter of the PTX manual: short forms of `warp.run`. The class Warp has the table of them.

Each is a function of a warp, which it calls self, as any method does.
"""

__all__ = [
    "adoption",
    "asynchronous_copy",
    "atomics",
    "calls",
    "data_movement",
    "lanes_and_registers",
    "mbarriers",
    "miscellaneous",
    "opcodes",
    "synchronization",
    "tcgen05",
    "warpgroup_matrix",
]
