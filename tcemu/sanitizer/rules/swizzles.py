"""The rule about swizzles: a tile is read with the one that it was copied with.

The rule, the smallest kernel that breaks it, and the section that checks it.
"""

from __future__ import annotations

from typing import Any

from tcemu.machine.events import Wgmma, WgmmaIssued
from tcemu.machine.tensor_map import TensorMap
from tcemu.sanitizer.block import Block, Handlers, section
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.report import Earlier
from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, barrier, finish

rules(
    Rule(
        "swizzle-mismatch",
        "a tile is copied and read with different swizzles",
        "9.7.15.5.1",
        "A swizzle exchanges units of 16 bytes within shared memory. The tensor map of the copy and the matrix "
        "descriptor of wgmma must name the same one, or the product has elements in the wrong places.",
        "Give the tensor map and the descriptor the same swizzle: none, 32, 64 or 128 bytes.",
        "warning",
    ),
)


@breaks("swizzle-mismatch")
def a_box_with_a_swizzle_and_a_descriptor_without(warp: Any, g: Any) -> None:
    barrier(warp, 4096)
    box = TensorMap(int(g), "f16", (16, 64), (32,), (16, 64), swizzle=32)
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(4096, box.bytes)
        warp.cp_async_bulk_tensor_shared_global(0, box, (0, 0), 4096)
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, TILES[0], TILES[0], *ORDINARY)  # <- reported
    finish(warp)


@section
class Swizzles:
    """The tiles that the wgmmas of a block read, and the tensor copies that filled them."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.handlers: Handlers = {WgmmaIssued: self._issued}

    def _issued(self, event: WgmmaIssued) -> None:
        wgmma = event.wgmma
        for (role, addresses, size), swizzle in zip(wgmma.reads, wgmma.swizzles, strict=True):
            shadow = self._block.shadow
            copy = int(shadow.written[shadow.tile(addresses, size)[0]]) >> 5
            if self._block.records.swizzles.get(copy, swizzle) != swizzle:
                self._report(wgmma, role, copy, self._block.shadow.tile(addresses, size), swizzle)

    def _report(self, wgmma: Wgmma, role: str, copy: int, cells: Array, swizzle: int) -> None:
        records, what = self._block.records, self._block.shadow.extent(cells)
        message = (
            f"{wgmma.instruction} reads {what} ({role.upper()}) {_told(swizzle)}, but {records.opcode[copy]} filled "
            f"them {_told(records.swizzles[copy])}: units of 16 bytes are not where the other expects them"
        )
        earlier = Earlier(records.by[copy], records.opcode[copy], records.callers[copy])
        self._block.report("swizzle-mismatch", wgmma.bys[0], message, what=what, earlier=earlier)


def _told(swizzle: int) -> str:
    """``with a swizzle of 128 bytes``."""
    return f"with a swizzle of {swizzle} bytes" if swizzle else "without a swizzle"
