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

SHUFFLE, VOTE, REGISTERS = "9.7.9.6", "9.7.13.8", "9.7.20.5"

#: The lane that each lane asks, from (own lane, operand b, first lane of its segment, segment mask), and whether it
#: lies inside, from (it, the segment's bound). A lane that would ask outside asks itself.
_SHUFFLES: dict[str, tuple[Callable[[Array, Array, Array, Array], Array], Callable[[Array, Array], Array]]] = {
    "idx": (lambda _, b, first, segment: first | b & ~segment, np.less_equal),
    "up": (lambda lane, b, _, __: lane - b, np.greater_equal),
    "down": (lambda lane, b, _, __: lane + b, np.less_equal),
    "bfly": (lambda lane, b, _, __: lane ^ b, np.less_equal),
}
_WIDTHS = (1, 2, 4, 8, 16, 32)
_VOTES: dict[str, Callable[[Array], Any]] = {
    "all": lambda given: bool(given.all()),
    "any": lambda given: bool(given.any()),
    "uni": lambda given: bool(given.all() or not given.any()),
}


class Exchange(Core):
    """Shuffles, votes, barriers, fences."""

    def shfl_sync(self, mode: str, values: npt.ArrayLike, lane: npt.ArrayLike, width: int = WARP) -> Array:
        """shfl.sync: each lane's value of another lane, in the shape (32,) or (32, n) and dtype of `values`.

        mode is "idx", "up", "down" or "bfly", `lane` its operand (one, or one a lane), of which five bits count,
        `width` the lanes of a segment. What an inactive lane would give or get is poison.
        """
        self._check_mode(mode)
        if not isinstance(width, int | np.integer) or width not in _WIDTHS:
            raise OperandError(
                f"shfl.sync: a segment has {listing(_WIDTHS)} lanes; got {briefly(width)} (PTX ISA {SHUFFLE})"
            )
        return self._shfl_sync(mode, values, lane, (WARP - int(width)) << 8 | (0 if mode == "up" else WARP - 1))

    def _shfl_sync(self, mode: str, values: npt.ArrayLike, lane: npt.ArrayLike, clamp: npt.ArrayLike) -> Array:
        """shfl.sync with PTX's operands b and c: the segment mask from bit 8 of c on, the clamp value below."""
        self._check_mode(mode)
        by = self._issue(f"shfl.sync.{mode}.b32")
        b, c = self._lanes_of(lane, "shfl.sync: b") & 31, self._lanes_of(clamp, "shfl.sync: c")
        segment = c >> 8 & 31
        first, bound = self.lanes & segment, self.lanes & segment | c & 31 & ~segment
        source, inside = _SHUFFLES[mode]
        asked = source(self.lanes, b, first, segment)
        asked = np.where(inside(asked, bound), asked, self.lanes)
        with self.only(np.isin(self.lanes, asked[self._active])):  # what nobody asks for is not read
            held = self._values(values)
        if held.ndim not in (1, 2) or len(held) != WARP or held.dtype.kind not in "iuf" or held.dtype.itemsize > 8:
            raise OperandError(
                f"shfl.sync: values are numbers (32,) or (32, n); got {held.dtype} {held.shape} (PTX ISA {SHUFFLE})"
            )
        given = held.astype(held.dtype.newbyteorder("="))
        bits = given.view(f"u{given.dtype.itemsize}")
        taking = self._active & self._active[asked] & (by is not None)
        found = np.asarray(bits[asked])
        found[~taking] = POISON & np.iinfo(bits.dtype).max
        return found.view(given.dtype)

    @staticmethod
    def _check_mode(mode: object) -> None:
        if not isinstance(mode, str) or mode not in _SHUFFLES:
            raise OperandError(f"shfl.sync has the modes {listing(_SHUFFLES)}; got {shown(mode)} (PTX ISA {SHUFFLE})")

    def vote_sync(self, mode: str, predicate: npt.ArrayLike) -> Any:
        """vote.sync: "all", "any" or "uni" of the active lanes' predicates as a bool, or "ballot", bits as an int.

        Where no lane is active all and uni are true, as of nothing everything is.
        """
        if not isinstance(mode, str) or (mode not in _VOTES and mode != "ballot"):
            raise OperandError(
                f"vote.sync has the modes {listing([*_VOTES, 'ballot'])}; got {shown(mode)} (PTX ISA {VOTE})"
            )
        self._issue(f"vote.sync.{mode}")
        given = self._values(predicate)
        if given.dtype != np.bool_ or given.shape not in ((), (WARP,)):
            raise OperandError(
                f"vote.sync: a predicate is bool (32,); got dtype {given.dtype}, shape {given.shape} (PTX ISA {VOTE})"
            )
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
            self._block.tell(ProxyFenced, by, found.facts.spaces)

    def setmaxnreg(self, action: Literal["inc", "dec"], count: int) -> None:
        """setmaxnreg.{inc,dec}.sync.aligned.u32: how many registers a thread of this warp may use from now on.

        .inc waits until other warps have given back enough. A warp begins with as many as the launch has room for; as
        a kernel may be compiled for fewer, its first .inc may be to fewer. Raises OperandError for a count that is no
        multiple of 8 from 24 to 256, LaunchError for one that goes the other way.
        """
        section = f"PTX ISA {REGISTERS}"
        if not isinstance(action, str) or action not in ("inc", "dec"):
            raise OperandError(f"setmaxnreg is .inc or .dec; got {shown(action)} ({section})")
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count not in range(24, 257, 8):
            raise OperandError(f"setmaxnreg takes a multiple of 8 from 24 to 256; got {briefly(count)} ({section})")
        by = self._issue(f"setmaxnreg.{action}.sync.aligned.u32", aligned=True)
        if by is None:
            return
        pool = self._block.kept.setdefault("registers", {"free": 0})
        first = self.index not in pool
        have = pool.setdefault(self.index, self._block.shape.registers)
        more = 0 if first and action == "inc" and count < have else count - have
        if more and (more > 0) != (action == "inc"):
            told = f"setmaxnreg.{action} to {count}: warp {self.index} has {have} registers a thread ({section})"
            self._block.fail(LaunchError(told))
        if action == "inc":
            what = f"{more} registers a thread, which setmaxnreg.dec of other warps must give back ({section})"
            self._wait(by, "registers", 0, lambda: bool(pool["free"] >= more), lambda: what)
        pool["free"] -= more
        pool[self.index] = count
        self._block.tell(RegistersMoved, by, action, count)
