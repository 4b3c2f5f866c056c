"""Fences of the generic proxy, and hints to the chip that change nothing here (PTX ISA 9.1, 9.7.13.4, 9.7.20)."""

from __future__ import annotations

import numpy.typing as npt

from tcemu.errors import OperandError, briefly, listing, shown
from tcemu.machine.core import Core
from tcemu.machine.orders import SCOPES
from tcemu.machine.tensor_map import TensorMap

FENCE, SLEEP, PREFETCH, GRID = "9.7.13.4", "9.7.20.2", "9.7.9.15", "9.7.13.13"
_SEMANTICS = ("acq_rel", "sc", "acquire", "release")
_LEVELS = ("cta", "gl", "sys")
_CACHES = ("L1", "L2")
_GRIDS = ("wait", "launch_dependents")


class Fences(Core):
    """fence, membar, nanosleep, prefetch, griddepcontrol."""

    def fence(self, semantics: str = "acq_rel", scope: str = "gpu") -> None:
        """fence (__threadfence and its kin): orders this thread's strong accesses before and after it.

        `semantics` is "acq_rel", "sc", "acquire" or "release", `scope` "cta", "cluster", "gpu" or "sys". A flag that is
        written behind a fence and read in front of one orders what stands around; the fence alone waits for nobody.
        """
        wanted = "acq_rel" if isinstance(semantics, str) and not semantics else semantics
        self._issue(f"fence.{_one_of('fence', wanted, _SEMANTICS)}.{_one_of('fence', scope, SCOPES)}")

    def membar(self, level: str = "gl") -> None:
        """membar: fence.sc under its old name; level is "cta", "gl" or "sys"."""
        self._issue(f"membar.{_one_of('membar', level, _LEVELS)}")

    def nanosleep(self, duration: npt.ArrayLike) -> None:
        """nanosleep: about `duration` nanoseconds, in which others go first. Here a wait has no length."""
        by = self._issue("nanosleep.u32")
        if by is not None:
            self._lanes_of(duration, "nanosleep: duration")
            self._block.scheduler.rest(self.index)

    def prefetch_global(self, level: str, addresses: npt.ArrayLike) -> None:
        """prefetch.global: bring lines into "L1" or "L2". Here memory has no caches, and nothing happens."""
        self._issue(f"prefetch.global.{_one_of('prefetch', level, _CACHES)}")
        self._lanes_of(addresses, "prefetch: addresses")

    def prefetch_tensormap(self, tensor_map: TensorMap) -> None:
        """prefetch.tensormap: bring a tensor map into the cache. Nothing happens here."""
        self._issue("prefetch.tensormap")
        if not isinstance(tensor_map, TensorMap):
            raise OperandError(f"prefetch.tensormap takes a TensorMap; got {briefly(tensor_map)} (PTX ISA {PREFETCH})")

    def griddepcontrol(self, action: str) -> None:
        """griddepcontrol: "wait" for the grid before this one, or "launch_dependents". Here grids come one by one."""
        self._issue(f"griddepcontrol.{_one_of('griddepcontrol', action, _GRIDS)}")


def _one_of(what: str, given: object, accepted: tuple[str, ...]) -> str:
    if not isinstance(given, str) or given not in accepted:
        raise OperandError(f"{what} has {listing(accepted)}; got {shown(given)}")
    return given
