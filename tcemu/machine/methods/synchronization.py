"""Synchronisation of threads and lanes: barriers, fences, votes, griddepcontrol (PTX ISA 9.1, 9.7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tcemu.machine.methods.opcodes import form, text
from tcemu.machine.registers import Registers

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp

#: The types of votes, if they are not .pred.
_VOTES = {"ballot": "b32"}


def vote_sync(self: Warp, mode: str, predicate: npt.ArrayLike) -> Any:
    """vote.sync (9.7.13.9): whether the predicate is true in "all" active lanes, in "any", or the same in all ("uni").

    Returns a bool or, for the mode "ballot", an int with one bit for each lane. If no lane is active, "all" and
    "uni" are true.
    """
    opcode = form("vote.sync", text("vote.sync", "mode", mode), _VOTES.get(mode, "pred"))
    return self.core.execute(opcode, predicate)


def match_sync(self: Warp, mode: str, values: npt.ArrayLike) -> Any:
    """match.sync (9.7.13.10): the lanes that have the same value, one bit for each.

    "any" returns for each lane the mask of the lanes with its value, uint32 (32,). "all" returns (masks, p): the
    active lanes if they all have the same value, and 0 otherwise; p is true in the first case.
    """
    opcode = form("match", text("match.sync", "mode", mode), "sync.b32")
    return self.core.execute(opcode, values, both=mode == "all")


def redux_sync(self: Warp, operation: str, values: npt.ArrayLike) -> Registers:
    """redux.sync (9.7.13.12): combine the active lanes' values ("add.u32", "min.s32", "and.b32"), for all of them."""
    opcode = form("redux.sync", text("redux.sync", "operation", operation))
    return self.core.execute(opcode, values)  # type: ignore[no-any-return]


def activemask(self: Warp) -> int:
    """activemask (9.7.13.11): the active lanes, one bit for each."""
    return self.core.execute("activemask.b32")  # type: ignore[no-any-return]


def elect_sync(self: Warp, *, both: bool = False) -> Any:
    """elect.sync (9.7.13.14): a predicate, bool (32,), that is true in one active lane, the first.

    With `both`, returns (d, p): d is the number of that lane, or -1 if no lane is active.
    """
    return self.core.execute("elect.sync", both=both)


def bar_warp_sync(self: Warp) -> None:
    """bar.warp.sync (__syncwarp; 9.7.13.2): the active lanes wait for each other, and then see what each wrote."""
    self.core.execute("bar.warp.sync")


def bar_sync(self: Warp, barrier: int = 0, threads: int | None = None) -> None:
    """bar.sync (__syncthreads; 9.7.13.1): wait until `threads` threads, by default all of the block, have arrived."""
    self.core.execute("bar.sync", barrier, *(() if threads is None else (threads,)))


def bar_arrive(self: Warp, barrier: int, threads: int) -> None:
    """bar.arrive (9.7.13.1): arrive at the barrier without waiting."""
    self.core.execute("bar.arrive", barrier, threads)


def bar_red(self: Warp, mode: str, predicate: npt.ArrayLike, barrier: int = 0, threads: int | None = None) -> Any:
    """bar.red (9.7.13.1): like bar_sync; then return how many predicates are true, or whether all or any of them are.

    `mode` is "popc" (returns an int), "and" or "or" (return a bool); `predicate` is bool (32,), or one for all.
    """
    opcode = form("bar.red", text("bar.red", "mode", mode), "u32" if mode == "popc" else "pred")
    return self.core.execute(opcode, barrier, *(() if threads is None else (threads,)), predicate)


def barrier_cluster_arrive(self: Warp, order: str = "release") -> None:
    """barrier.cluster.arrive (9.7.13.3): arrive at the cluster's barrier; "relaxed" publishes nothing done before."""
    self.core.execute(form("barrier.cluster.arrive", text("barrier.cluster.arrive", "order", order)))


def barrier_cluster_wait(self: Warp) -> None:
    """barrier.cluster.wait (9.7.13.3): wait until all threads of the cluster have arrived, and see what they did."""
    self.core.execute("barrier.cluster.wait.acquire")


def fence(self: Warp, semantics: str = "acq_rel", scope: str = "gpu") -> None:
    """fence (__threadfence etc.; 9.7.13.4): order the strong accesses of each thread before it with those after it.

    `semantics` is "acq_rel", "sc", "acquire" or "release"; `scope` is "cta", "cluster", "gpu" or "sys". A flag that
    one thread writes after a fence and another reads before a fence orders the accesses of the two around it. A fence
    by itself does not wait.
    """
    order = text("fence", "semantics", semantics) or "acq_rel"
    self.core.execute(form("fence", order, text("fence", "scope", scope)))


def membar(self: Warp, level: str = "gl") -> None:
    """membar (9.7.13.4): the old name of fence.sc; `level` is "cta", "gl" or "sys"."""
    self.core.execute(form("membar", text("membar", "level", level)))


def fence_proxy_async(self: Warp, space: str = "") -> None:
    """fence.proxy.async (9.7.13.4): make what the active lanes wrote visible to the async proxy.

    `space` is "", "shared::cta", "shared::cluster" or "global". The fence orders each thread's own accesses only;
    other threads need a barrier after it.
    """
    self.core.execute(form("fence.proxy.async", text("fence.proxy.async", "space", space)))


def fence_mbarrier_init(self: Warp) -> None:
    """fence.mbarrier_init.release.cluster (9.7.13.4): make these lanes' new mbarriers visible to bulk copies."""
    self.core.execute("fence.mbarrier_init.release.cluster")


def griddepcontrol(self: Warp, action: str) -> None:
    """griddepcontrol (9.7.13.13): "wait" for the grid before this one in the stream, or "launch_dependents".

    After the latter, the next grid may begin. Both matter only for a launch with programmatic_stream_serialization in
    a tcemu.Stream.
    """
    self.core.execute(form("griddepcontrol", text("griddepcontrol", "action", action)))
