"""The special registers that a function reads: from the warp, filled in when it starts (PTX ISA 9.1, chapter 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tcemu.machine.warp import Warp

_AXES = "xyz"
#: Read anew each time: the executor does it, not native code.
CLOCKS = frozenset({"clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"})


#: They have the same value in the same warp of every block.
_ALIKE = ("tid", "ntid", "nctaid", "laneid", "warpid", "nwarpid", "lanemask", "nclusterid", "cluster_nctaid", "nsmid")


class SpecialRegister(NamedTuple):
    """A special register: its bits, and its value in a warp, one number or one for each lane.

    `alike`: the same warp of every block has the same value.
    """

    bits: int
    read: Callable[[Warp], Any]
    alike: bool


def _plain(name: str, bits: int = 32) -> SpecialRegister:
    return SpecialRegister(bits, lambda warp: getattr(warp, name), name.startswith(_ALIKE))


def _axis(name: str, axis: int) -> SpecialRegister:
    return SpecialRegister(32, lambda warp: getattr(warp, name)[axis], name.startswith(_ALIKE))


#: THE TABLE of special registers by name; the dynamic shared memory is the executor's to know.
SPECIAL: dict[str, SpecialRegister] = {
    **{
        f"{name}.{_AXES[axis]}": _axis(name, axis)
        for name in (
            "tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid",
        )
        for axis in range(3)
    },
    **{
        name: _plain(name)
        for name in (
            "laneid", "warpid", "nwarpid", "smid", "nsmid", "cluster_ctarank", "cluster_nctarank",
            "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge",
            "envreg1", "envreg2", *(f"reserved_smem_offset_{each}" for each in ("begin", "end", "cap", "1")),
            "total_smem_size", "aggr_smem_size", "dynamic_smem_size",
        )
    },
    "gridid": _plain("gridid", 64),
    "is_explicit_cluster": _plain("is_explicit_cluster", 1),
    "current_graph_exec": _plain("current_graph_exec", 64),
}  # fmt: skip
