"""Atomic operations: atom, red, red.async (PTX ISA 9.1, 9.7.13.5 to 9.7.13.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tcemu.machine.methods.opcodes import access_form, form, text
from tcemu.machine.registers import Registers

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def atom_shared(
    self: Warp,
    operation: str,
    addresses: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    *,
    order: str = "",
) -> Registers:
    """atom.shared (9.7.13.5): return the old values, registers (32, 1); `operation` is "add.u32", "cas.b32" etc.

    `cas` compares with `b` and stores `c`. `order` is "relaxed", "acquire", "release" or "acq_rel", optionally with
    a scope.
    """
    return _atom(self, "shared", operation, addresses, b, c, order)


def atom_global(
    self: Warp,
    operation: str,
    addresses: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    *,
    order: str = "",
) -> Registers:
    """atom.global (9.7.13.5): like atom_shared; but additions of f32 flush subnormals to zero."""
    return _atom(self, "global", operation, addresses, b, c, order)


def red_shared(self: Warp, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
    """red.shared (9.7.13.6): like atom_shared, but returns nothing; without "exch", "cas" and the orders of a read."""
    self.core.execute(access_form("red", "shared", operation, order), addresses, b)


def red_global(self: Warp, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
    """red.global (9.7.13.6): like red_shared, on global memory."""
    self.core.execute(access_form("red", "global", operation, order), addresses, b)


def atom_shared_cluster(
    self: Warp,
    operation: str,
    addresses: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    *,
    order: str = "",
) -> Registers:
    """atom.shared::cluster (9.7.13.5): like atom_shared, in the shared memory of any block of the cluster."""
    return _atom(self, "shared::cluster", operation, addresses, b, c, order)


def red_shared_cluster(
    self: Warp, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = ""
) -> None:
    """red.shared::cluster (9.7.13.6): like red_shared, in the shared memory of any block of the cluster."""
    self.core.execute(access_form("red", "shared::cluster", operation, order), addresses, b)


def red_async(self: Warp, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, mbarrier: npt.ArrayLike) -> None:
    """red.async (9.7.13.7): like st_async, but combines each value with the one at the destination: "add.u32"."""
    start = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
    self.core.execute(form(start, text("red.async", "operation", operation)), addresses, b, mbarrier)


def _atom(self: Warp, space: str, operation: str, addresses: Any, b: Any, c: Any, order: str) -> Registers:
    opcode = access_form("atom", space, operation, order)
    operands = (b,) if c is None else (b, c)
    return self.core.execute(opcode, addresses, *operands)  # type: ignore[no-any-return]
