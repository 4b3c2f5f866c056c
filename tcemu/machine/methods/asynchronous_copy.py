"""Asynchronous copies: cp.async, cp.async.bulk and cp.async.bulk.tensor (PTX ISA 9.1, 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import flag
from tcemu.errors import OperandError, briefly
from tcemu.machine.global_memory import Pointer
from tcemu.machine.methods.opcodes import form, text
from tcemu.machine.tensor_map import TensorMap

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def cp_async(
    self: Warp,
    destination: npt.ArrayLike,
    source: npt.ArrayLike,
    size: int,
    src_size: npt.ArrayLike | None = None,
    *,
    cache: str = "ca",
) -> None:
    """cp.async (9.7.9.25.3.1): each active lane starts to copy `size` bytes (4, 8 or 16) from global to shared memory.

    Only `src_size` bytes of the source are read (an integer, or (32,)); zeros fill the rest. `cache` is "ca" or,
    for 16 bytes, "cg".
    """
    opcode = form("cp.async", text("cp.async", "cache", cache), "shared.global")
    self.core.execute(opcode, destination, source, size, *(() if src_size is None else (src_size,)))


def cp_async_commit_group(self: Warp) -> None:
    """cp.async.commit_group (9.7.9.25.3.2): this warp's cp.async that are not in a group yet become a group."""
    self.core.execute("cp.async.commit_group")


def cp_async_wait_group(self: Warp, pending: int) -> None:
    """cp.async.wait_group N (9.7.9.25.3.3): wait until at most the N latest groups of this warp are pending."""
    self.core.execute("cp.async.wait_group", pending)


def cp_async_wait_all(self: Warp) -> None:
    """cp.async.wait_all (9.7.9.25.3.3): wait for every cp.async of this warp, committed or not."""
    self.core.execute("cp.async.wait_all")


def cp_async_mbarrier_arrive(self: Warp, address: npt.ArrayLike, *, noinc: bool = False) -> None:
    """cp.async.mbarrier.arrive (9.7.13.15.15): each active lane arrives once its cp.async so far have ended.

    Without .noinc the phase expects that many more arrivals, so the count of mbarrier_init need not include them.
    """
    self.core.execute(form("cp.async.mbarrier.arrive", "noinc" if flag(noinc, "noinc") else "", "shared.b64"), address)


def cp_async_bulk_shared_global(
    self: Warp,
    destination: npt.ArrayLike,
    source: npt.ArrayLike,
    size: npt.ArrayLike,
    mbarrier: npt.ArrayLike,
    *,
    cta_mask: int | None = None,
) -> None:
    """cp.async.bulk.shared::cta.global (9.7.9.25.4.1): each active lane starts to copy `size` bytes into shared memory.

    The copy completes on `mbarrier`, which counts its bytes. Addresses and sizes are multiples of 16. With
    `cta_mask` (.multicast::cluster), the bytes go to the same place in each block of the cluster whose rank has a
    bit there, and its mbarrier at the same place counts them.
    """
    opcode = f"cp.async.bulk.{_into(cta_mask)}"
    self.core.execute(opcode, destination, source, size, mbarrier, *(() if cta_mask is None else (cta_mask,)))


def cp_async_bulk_shared_cluster(
    self: Warp, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike, mbarrier: npt.ArrayLike
) -> None:
    """cp.async.bulk.shared::cluster.shared::cta (9.7.9.25.4.1): copy `size` bytes to the block that has `mbarrier`.

    `source` is in the block's own shared memory.
    """
    opcode = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    self.core.execute(opcode, destination, source, size, mbarrier)


def cp_async_bulk_global_shared(
    self: Warp, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike
) -> None:
    """cp.async.bulk.global.shared::cta.bulk_group (9.7.9.25.4.1): copy `size` bytes to global memory."""
    self.core.execute("cp.async.bulk.global.shared::cta.bulk_group", destination, source, size)


def cp_async_bulk_tensor_shared_global(
    self: Warp,
    destination: npt.ArrayLike,
    tensor_map: TensorMap | npt.ArrayLike,
    coordinates: Sequence[int],
    mbarrier: npt.ArrayLike,
    *,
    offsets: Sequence[int] = (),
    cta_mask: int | None = None,
) -> None:
    """cp.async.bulk.tensor (9.7.9.27.1.2): each active lane starts to copy a box of the tensor into shared memory.

    `tensor_map` is a constant, or the address in global memory of a map that the kernel has made or changed
    (tensormap.replace; tcemu.machine.tensor_map_words).
    `coordinates` are those of the box's first element, innermost first. The copy completes on `mbarrier`, which
    counts the whole box, `tensor_map.bytes`. With `cta_mask` (.multicast::cluster), the box goes to the same place
    in each block of the cluster whose rank has a bit there, and its mbarrier at the same place counts it.

    With an Im2colMap (tcemu.machine.im2col) it copies pixels, at `offsets`, W first; zeros if there are none.
    """
    mode = tensor_map.mode if isinstance(tensor_map, TensorMap) else "tile"
    opcode = form("cp.async.bulk.tensor", _dimensions(tensor_map, coordinates), mode, _into(cta_mask))
    more = (*((offsets,) if mode == "im2col" else ()), *(() if cta_mask is None else (cta_mask,)))
    self.core.execute(opcode, destination, tensor_map, coordinates, mbarrier, *more)


def cp_async_bulk_tensor_global_shared(
    self: Warp, tensor_map: TensorMap | npt.ArrayLike, coordinates: Sequence[int], source: npt.ArrayLike
) -> None:
    """cp.async.bulk.tensor (9.7.9.27.1.2): each active lane starts to copy the box at `source` into the tensor.

    With an Im2colMap (tcemu.machine.im2col) it copies pixels; the map's bounding box must lie inside the tensor.
    """
    mode = "im2col_no_offs" if isinstance(tensor_map, TensorMap) and tensor_map.mode == "im2col" else "tile"
    ends = f"global.shared::cta.{mode}.bulk_group"
    opcode = form("cp.async.bulk.tensor", _dimensions(tensor_map, coordinates), ends)
    self.core.execute(opcode, tensor_map, coordinates, source)


def cp_async_bulk_commit_group(self: Warp) -> None:
    """cp.async.bulk.commit_group (9.7.9.27.2.1): this warp's bulk copies to global memory so far become a group."""
    self.core.execute("cp.async.bulk.commit_group")


def cp_async_bulk_wait_group(self: Warp, pending: int, *, read: bool = False) -> None:
    """cp.async.bulk.wait_group N (9.7.9.27.2.2): wait until at most the N latest groups are pending.

    With `read` (.read) wait only until the other groups have read their sources, which may then be overwritten.
    """
    self.core.execute(form("cp.async.bulk.wait_group", "read" if flag(read, "read") else ""), pending)


def _into(cta_mask: int | None) -> str:
    """The qualifiers of a copy into shared memory: the block's, or that of the blocks that a mask names."""
    counted = "global.mbarrier::complete_tx::bytes"
    return f"shared::cta.{counted}" if cta_mask is None else f"shared::cluster.{counted}.multicast::cluster"


def _dimensions(tensor_map: Any, coordinates: Any) -> str:
    """The rank of a tensor map or, for a map in memory, that of the coordinates."""
    if isinstance(tensor_map, TensorMap):
        return f"{tensor_map.rank}d"
    if isinstance(tensor_map, Pointer | int | np.integer | np.ndarray) and isinstance(coordinates, Sequence):
        return f"{len(coordinates)}d"
    message = f"a tensor copy takes a TensorMap, or the address of one in global memory; got {briefly(tensor_map)}"
    raise OperandError(f"{message} (PTX ISA 9.7.9.27.1)")
