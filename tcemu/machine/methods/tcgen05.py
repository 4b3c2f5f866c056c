"""Tensor Memory and tcgen05 (PTX ISA 9.1, 9.7.16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tcemu.errors import OperandError, briefly
from tcemu.machine.methods.opcodes import form, text
from tcemu.machine.registers import Registers

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def tcgen05_alloc(self: Warp, address: npt.ArrayLike, n_columns: int, *, cta_group: int = 1) -> None:
    """tcgen05.alloc (9.7.16.7.1): wait for columns of Tensor Memory, and write their address to shared memory."""
    opcode = form("tcgen05.alloc", _group(cta_group), "sync.aligned.shared::cta.b32")
    self.core.execute(opcode, address, n_columns)


def tcgen05_dealloc(self: Warp, taddr: npt.ArrayLike, n_columns: int, *, cta_group: int = 1) -> None:
    """tcgen05.dealloc (9.7.16.7.1): free what one tcgen05_alloc has allocated."""
    self.core.execute(form("tcgen05.dealloc", _group(cta_group), "sync.aligned.b32"), taddr, n_columns)


def tcgen05_relinquish_alloc_permit(self: Warp, *, cta_group: int = 1) -> None:
    """tcgen05.relinquish_alloc_permit (9.7.16.7.1): the block allocates no more."""
    self.core.execute(form("tcgen05.relinquish_alloc_permit", _group(cta_group), "sync.aligned"))


def tcgen05_ld(self: Warp, taddr: npt.ArrayLike, what: str, *split: int) -> Registers:
    """tcgen05.ld (9.7.16.8.3): load registers (32, n), which hold the values after tcgen05_wait_ld.

    `what` is shape, number and, perhaps, packing: "32x32b.x8", "16x256b.x2.pack::16b". A .16x32bx2 takes a number of
    columns: how much further on the second half of the lanes is.
    """
    words = text("tcgen05.ld", "what to load", what)
    registers: Registers = self.core.execute(form("tcgen05.ld.sync.aligned", words, "b32"), taddr, *split)
    return registers


def tcgen05_st(self: Warp, taddr: npt.ArrayLike, values: npt.ArrayLike, what: str, *split: int) -> None:
    """tcgen05.st (9.7.16.8.4): store registers (32, n), visible after tcgen05_wait_st; `what` is as for ld."""
    words = text("tcgen05.st", "what to store", what)
    self.core.execute(form("tcgen05.st.sync.aligned", words, "b32"), taddr, *split, values)


def tcgen05_wait_ld(self: Warp) -> None:
    """tcgen05.wait::ld (9.7.16.8.5): wait for all tcgen05_ld of this warp."""
    self.core.execute("tcgen05.wait::ld.sync.aligned")


def tcgen05_wait_st(self: Warp) -> None:
    """tcgen05.wait::st (9.7.16.8.5): wait for all tcgen05_st of this warp."""
    self.core.execute("tcgen05.wait::st.sync.aligned")


def tcgen05_cp(self: Warp, taddr: npt.ArrayLike, descriptor: Any, what: str, *, cta_group: int = 1) -> None:
    """tcgen05.cp (9.7.16.9.2): copy a matrix from shared memory to Tensor Memory, once for each active lane.

    `what` is the shape and what follows it: "128x256b", "32x128b.warpx4", "128x128b.b8x16.b4x16_p64".
    """
    words = text("tcgen05.cp", "what to copy", what)
    self.core.execute(form("tcgen05.cp", _group(cta_group), words), taddr, descriptor)


def tcgen05_mma(
    self: Warp, kind: str, d: npt.ArrayLike, a: Any, b: Any, idesc: int, *operands: Any, cta_group: int = 1
) -> None:
    """tcgen05.mma (9.7.16.10.9.1): D = A B, plus D if `enable_input_d`, once for each active lane.

    `kind` is "f16" or another kind, with what follows it: "mxf4nvf4.block_scale.block16". d is an address in Tensor
    Memory, a one or a descriptor of shared memory, b a descriptor. `operands` are those after the instruction
    descriptor, in PTX's order; the last is enable_input_d.
    """
    words = text("tcgen05.mma", "the kind", kind)
    opcode = form("tcgen05.mma", _group(cta_group), f"kind::{words}")
    self.core.execute(opcode, d, a, b, idesc, *operands)


def tcgen05_commit(
    self: Warp, mbarrier: npt.ArrayLike, cta_mask: npt.ArrayLike | None = None, *, cta_group: int = 1
) -> None:
    """tcgen05.commit (9.7.16.12.1): arrive at the mbarrier when this thread's mma, cp and shift so far have ended.

    With `cta_mask`, so does the mbarrier at the same place of each block of the cluster whose bit is set.
    """
    many = "" if cta_mask is None else "multicast::cluster"
    opcode = form("tcgen05.commit", _group(cta_group), "mbarrier::arrive::one.shared::cluster", many, "b64")
    self.core.execute(opcode, mbarrier, *([] if cta_mask is None else [cta_mask]))


def tcgen05_fence_before_thread_sync(self: Warp) -> None:
    """tcgen05.fence::before_thread_sync (9.7.16.11.1): stands before the barrier that tells other threads."""
    self.core.execute("tcgen05.fence::before_thread_sync")


def tcgen05_fence_after_thread_sync(self: Warp) -> None:
    """tcgen05.fence::after_thread_sync (9.7.16.11.1): stands after the wait, before what relies on other threads."""
    self.core.execute("tcgen05.fence::after_thread_sync")


def _group(cta_group: object) -> str:
    if type(cta_group) is not int or cta_group not in (1, 2):
        raise OperandError(f"cta_group must be 1, for one block, or 2, for a pair; got {briefly(cta_group)}")
    return f"cta_group::{cta_group}"
