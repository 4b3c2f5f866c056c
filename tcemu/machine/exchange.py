"""What lanes of a warp tell each other, and barriers: shuffles, votes, elect, bar (PTX ISA 9.1, 9.7.9.6 and 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError, OperandError, briefly, listing, shown
from tcemu.instructions import parse
from tcemu.machine.barriers import WARP
from tcemu.machine.core import Array, Core
from tcemu.machine.events import ProxyFenced, RegistersMoved, WarpSynced
from tcemu.machine.registers import POISON

#: The lane that each lane asks, from (own lane, operand, first lane of its segment, end of it).
_SHUFFLES: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "idx": lambda _, by, first, end: first + by % (end - first),
    "up": lambda lane, by, first, _: np.where(lane - by >= first, lane - by, lane),
    "down": lambda lane, by, _, end: np.where(lane + by < end, lane + by, lane),
    "bfly": lambda lane, by, _, end: np.where((lane ^ by) < end, lane ^ by, lane),
}
_VOTES: dict[str, Callable[[Array], Any]] = {
    "all": lambda given: bool(given.all()),
    "any": lambda given: bool(given.any()),
    "uni": lambda given: bool(given.all() or not given.any()),
}


class Exchange(Core):
    """Shuffles, votes, barriers, fences."""

    def shfl_sync(self, mode: str, values: npt.ArrayLike, lane: npt.ArrayLike, width: int = WARP) -> Array:
        """shfl.sync: each lane's value of another lane, in the shape (32,) or (32, n) and dtype of `values`.

        mode is "idx", "up", "down" or "bfly", `lane` its operand (one, or one a lane), `width` the lanes of a segment.
        What an inactive lane would give is poison.
        """
        if mode not in _SHUFFLES:
            raise OperandError(f"shfl.sync has the modes {listing(_SHUFFLES)}; got {shown(mode)} (PTX ISA 9.7.9.6)")
        if width not in (1, 2, 4, 8, 16, 32):
            raise OperandError(f"shfl.sync: a segment has 1, 2, 4, 8, 16 or 32 lanes; got {briefly(width)}")
        held = self._values(values)
        if held.ndim not in (1, 2) or len(held) != WARP:
            raise OperandError(f"shfl.sync: values are (32,) or (32, n); got shape {held.shape}")
        by = self._lanes_of(lane, "shfl.sync: lane")
        if self._issue(f"shfl.sync.{mode}.b32") is None:
            return held.copy()
        first = self.lanes // width * width
        asked = _SHUFFLES[mode](self.lanes, by, first, first + width)
        found = held[asked]
        if held.dtype.kind in "iu":
            found[~self._active[asked]] = POISON & np.iinfo(held.dtype).max
        return np.asarray(found)

    def vote_sync(self, mode: str, predicate: npt.ArrayLike) -> Any:
        """vote.sync: "all", "any" or "uni" of the active lanes' predicates as a bool, or "ballot", bits as an int."""
        given = self._values(predicate)
        if given.dtype != np.bool_ or given.shape not in ((), (WARP,)):
            raise OperandError(f"vote.sync: a predicate is bool (32,); got dtype {given.dtype}, shape {given.shape}")
        if mode not in _VOTES and mode != "ballot":
            raise OperandError(
                f"vote.sync has the modes {listing([*_VOTES, 'ballot'])}; got {shown(mode)} (PTX ISA 9.7.13.8)"
            )
        self._issue(f"vote.sync.{mode}")
        lanes = np.broadcast_to(given, (WARP,))
        if mode == "ballot":
            return int(np.packbits(lanes & self._active, bitorder="little").view("<u4")[0])
        return _VOTES[mode](lanes[self._active])

    def elect_sync(self) -> Array:
        """elect.sync: a predicate, bool (32,), that is true in one active lane (the first)."""
        self._issue("elect.sync")
        chosen = np.zeros(WARP, bool)
        chosen[self._active.argmax()] = self._active.any()
        return chosen

    # ---------------------------------------------------------------------------------------- barriers

    def bar_warp_sync(self) -> None:
        """bar.warp.sync (__syncwarp): the active lanes meet, and see what each of them wrote."""
        by = self._issue("bar.warp.sync")
        if by is not None:
            self._block.tell(WarpSynced, by)

    def bar_sync(self, barrier: int = 0, threads: int | None = None) -> None:
        """bar.sync (__syncthreads): wait until `threads` threads, by default the block's, came to this barrier."""
        by = self._issue("bar.sync", aligned=True)
        if by is None:
            return
        barriers = self._block.barriers
        generation = barriers.arrive(by, barrier, threads, waits=True)
        self._wait(
            by, "barrier", barrier, lambda: barriers.passed(barrier, generation), lambda: barriers.missing(barrier)
        )

    def bar_arrive(self, barrier: int, threads: int) -> None:
        """bar.arrive: count this warp at the barrier, and go on."""
        by = self._issue("bar.arrive", aligned=True)
        if by is not None:
            self._block.barriers.arrive(by, barrier, threads, waits=False)

    # ---------------------------------------------------------------------------------------- fences, registers

    def fence_proxy_async(self, space: str = "") -> None:
        """fence.proxy.async: what these lanes wrote before becomes visible to the async proxy.

        `space` is "", "shared::cta", "shared::cluster" or "global". It orders this thread's own accesses: other threads
        need a barrier after it.
        """
        if not isinstance(space, str):
            raise OperandError(f"fence.proxy.async: a state space is text; got {shown(space)} (PTX ISA 9.7.13.4)")
        found = parse(f"fence.proxy.async{'.' if space else ''}{space}", self.target)
        by = self._issue(str(found))
        if by is not None:
            self._block.tell(ProxyFenced, by, found.facts["spaces"])

    def setmaxnreg(self, action: Literal["inc", "dec"], count: int) -> None:
        """setmaxnreg.{inc,dec}.sync.aligned.u32: how many registers a thread of this warp may use from now on.

        .inc waits until other warps have given back enough. Raises LaunchError for a count that is no multiple of 8
        from 24 to 256, or that goes the other way.
        """
        section = "PTX ISA 9.7.20.5"
        if action not in ("inc", "dec"):
            raise OperandError(f"setmaxnreg is .inc or .dec; got {shown(action)} ({section})")
        if isinstance(count, bool) or count not in range(24, 257, 8):
            raise LaunchError(f"setmaxnreg takes a multiple of 8 from 24 to 256; got {briefly(count)} ({section})")
        by = self._issue(f"setmaxnreg.{action}.sync.aligned.u32", aligned=True)
        if by is None:
            return
        pool = self._block.kept.setdefault("registers", {"free": 0})
        have = pool.setdefault(self.index, self._block.shape.registers)
        more = count - have
        if more and (more > 0) != (action == "inc"):
            raise LaunchError(f"setmaxnreg.{action} to {count}: warp {self.index} has {have} ({section})")
        if action == "inc":
            what = f"{more} registers a thread, which setmaxnreg.dec of other warps must give back ({section})"
            self._wait(by, "registers", 0, lambda: bool(pool["free"] >= more), lambda: what)
        pool["free"] -= more
        pool[self.index] = count
        self._block.tell(RegistersMoved, by, action, count)
