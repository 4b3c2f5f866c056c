"""Probes of global memory in the L2: how many sectors of 32 bytes an SM stores to it and loads from it in a clock.

Each warp accesses places of its own, and each copy other ones. "interval" is what an access takes one warp, with as
many in flight as there are copies, and "SM interval" what it takes the SM. The conditions include the sectors of an
access: the lanes' words follow each other, or fill the rows of an accumulator, four lanes each, or lie apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from tcemu.instructions import target_named
from tcemu.live.campaigns.measure.probe import Part, Probe
from tcemu.live.ptx import vector

COPIES, WARPS, SECTOR = 8, (1, 4, 8, 16), 32
_LANE = np.arange(32, dtype=np.uint32)
#: How the lanes' words lie.
_PLACES = ("in a row", "rows of four", "apart")


def _offsets(place: str, size: int) -> npt.NDArray[np.uint32]:
    rows: Mapping[str, int] = {"in a row": 32, "rows of four": 4, "apart": 1}
    count = rows[place]
    return _LANE // count * max(count * size, SECTOR) + _LANE % count * size


def sectors(target: str, version: str) -> Iterator[Probe]:
    """Stores and loads of each width, in each way to lie, by several numbers of warps."""
    if target_named(target).number < 70:
        return
    for width in (1, 2, 4):
        for place in _PLACES:
            for warps in WARPS:
                for verb in ("st", "ld"):
                    yield _probe(verb, width, place, warps)


def _probe(verb: str, width: int, place: str, warps: int) -> Probe:
    wide, offsets = {1: "", 2: ".v2", 4: ".v4"}[width], _offsets(place, 4 * width)
    opcode = f"st.global{wide}.b32" if verb == "st" else f"ld.relaxed.gpu.global{wide}.b32"
    span = int(offsets.max()) + 4 * width
    span += -span % 128
    count = len(np.unique(offsets // SECTOR)) * (max(4 * width, SECTOR) // SECTOR)

    def one(copy: int, _: str) -> str:
        held, to = vector(f"v{copy % COPIES}_", width) if width > 1 else f"%v{copy % COPIES}_0", f"[%own+{copy * span}]"
        return f"{opcode} {to}, {held};" if verb == "st" else f"{opcode} {held}, {to};"

    what = "interval" if warps == 1 else "SM interval"
    names = [f"%v{copy}_{i}" for copy in range(COPIES) for i in range(width)]
    room = 2 * COPIES * span
    return Probe(
        parts=(Part(opcode, what, {"sectors": count, "lanes": place, "warps": warps}, one, COPIES, warps),),
        threads=32 * warps,
        declare=f".reg .b32 {', '.join(names)}; .reg .b64 %own;",
        setup="\n".join(
            [f"mov.u32 {name}, 0;" for name in names]
            + [f"shr.u32 %h0, %thread, 5; mul.lo.u32 %h0, %h0, {room}; add.u32 %h0, %h0, %at;"]
            + ["cvt.u64.u32 %own, %h0; add.u64 %own, %own, %memory;"]
        ),
        sink="\n".join(f"st.volatile.global.b32 [%sink], {name};" for name in names),
        lanes=lambda _: np.tile(offsets, warps),
        memory=room * warps,
        name=f"sectors_{verb}_{width}_{place.replace(' ', '_')}_{warps}",
    )
