"""Data movement: ld, st, cvta, mapa, shfl, prefetch (PTX ISA 9.1, 9.7.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly, is_whole
from tcemu.machine.addresses import generic as generic_of
from tcemu.machine.methods.opcodes import access_form, form, text
from tcemu.machine.registers import WARP, Registers
from tcemu.machine.tensor_map import TensorMap

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def generic(self: Warp, shared_address: npt.ArrayLike) -> Any:
    """cvta.shared (9.7.9.20): generic addresses from those in shared memory, an int or int64 array of their shape."""
    array = self.core.values(shared_address)
    if array.dtype.kind not in "iu":
        raise OperandError(f"cvta.shared: addresses are integers; got dtype {array.dtype} (PTX ISA 9.7.9.20)")
    address = generic_of(array.astype(np.int64), self.core.block.slot)
    return address if array.ndim else int(address)


def mapa(self: Warp, address: npt.ArrayLike, cta: npt.ArrayLike) -> Any:
    """mapa.shared::cluster (9.7.9.23): the same place in the shared memory of the block with rank `cta` of the cluster.

    Returns an int or, if an operand is an array (32,), an int64 array (32,).
    """
    return self.core.execute("mapa.shared::cluster.u32", address, cta)


def getctarank(self: Warp, address: npt.ArrayLike) -> Any:
    """getctarank.shared::cluster (9.7.9.24): the rank of the block whose shared memory the address lies in."""
    return self.core.execute("getctarank.shared::cluster.u32", address)


def ld_shared(self: Warp, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
    """ld.shared (9.7.9.8): load registers (32, n); `access` is the type, with a vector size in front: "b32", "v4.b32".

    An `order` makes the load strong: "volatile", "relaxed" or "acquire", optionally with a scope ("acquire.cta").
    """
    opcode = access_form("ld", "shared", access, order)
    return self.core.execute(opcode, addresses)  # type: ignore[no-any-return]


def ld_global(self: Warp, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
    """ld.global (9.7.9.8): like ld_shared, from global memory; a pointer is the address of its first byte."""
    opcode = access_form("ld", "global", access, order)
    return self.core.execute(opcode, addresses)  # type: ignore[no-any-return]


def st_shared(
    self: Warp, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
) -> None:
    """st.shared (9.7.9.11): store values (32, n), (32,) or one for all; floats of the element's width keep their bits.

    An `order` makes the store strong: "volatile", "relaxed" or "release", optionally with a scope.
    """
    self.core.execute(access_form("st", "shared", access, order), addresses, values)


def st_global(
    self: Warp, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
) -> None:
    """st.global (9.7.9.11): like st_shared, to global memory."""
    self.core.execute(access_form("st", "global", access, order), addresses, values)


def ld_shared_cluster(self: Warp, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
    """ld.shared::cluster (9.7.9.8): like ld_shared, from the shared memory of any block of the cluster (see `mapa`)."""
    opcode = access_form("ld", "shared::cluster", access, order)
    return self.core.execute(opcode, addresses)  # type: ignore[no-any-return]


def st_shared_cluster(
    self: Warp, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
) -> None:
    """st.shared::cluster (9.7.9.11): like st_shared, to the shared memory of any block of the cluster."""
    self.core.execute(access_form("st", "shared::cluster", access, order), addresses, values)


def st_async(
    self: Warp, addresses: npt.ArrayLike, values: npt.ArrayLike, mbarrier: npt.ArrayLike, access: str = "b32"
) -> None:
    """st.async (9.7.9.12): store values in the cluster's shared memory, asynchronously; `mbarrier` counts the bytes.

    The mbarrier is in the same block as the destination.
    """
    opcode = form("st.async.shared::cluster.mbarrier::complete_tx::bytes", text("st.async", "access", access))
    self.core.execute(opcode, addresses, values, mbarrier)


def shfl_sync(
    self: Warp, mode: str, values: npt.ArrayLike, lane: npt.ArrayLike, width: int = WARP, *, both: bool = False
) -> Any:
    """shfl.sync (9.7.9.6): each lane gets another lane's value, in the shape, (32,) or (32, n), and dtype of `values`.

    `mode` is "idx", "up", "down" or "bfly"; `lane` is its operand, one for all or (32,); only five bits count;
    `width` is the number of lanes in a segment. Values from or for inactive lanes are poison. With `both`, returns
    (values, p): the predicate p, bool (32,), is false in lanes whose source lies outside their segment.
    """
    opcode = form("shfl.sync", text("shfl.sync", "mode", mode), "b32")
    if not is_whole(width) or width not in (1, 2, 4, 8, 16, 32):
        raise OperandError(
            f"shfl.sync: a segment has 1, 2, 4, 8, 16 or 32 lanes; got {briefly(width)} (PTX ISA 9.7.9.6)"
        )
    clamp = (WARP - int(width)) << 8 | (0 if mode == "up" else WARP - 1)
    return self.core.execute(opcode, values, lane, clamp, both=both)


def prefetch_global(self: Warp, level: str, addresses: npt.ArrayLike) -> None:
    """prefetch.global (9.7.9.15): bring lines into the cache "L1" or "L2". Here, without caches, nothing happens."""
    self.core.execute(form("prefetch.global", text("prefetch", "level", level)), addresses)


def prefetch_tensormap(self: Warp, tensor_map: TensorMap) -> None:
    """prefetch.tensormap (9.7.9.15): bring a tensor map into the cache. This machine has no caches: nothing happens."""
    self.core.execute("prefetch.tensormap", tensor_map)
