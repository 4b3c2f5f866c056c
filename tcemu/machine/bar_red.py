"""bar.red: a barrier of the block that counts, or joins, predicates (PTX ISA 9.1, 9.7.13.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing, shown
from tcemu.machine.barriers import SECTION, WARP
from tcemu.machine.core import Core

#: Modes, and the type that their opcode ends in.
_MODES = {"popc": "u32", "and": "pred", "or": "pred"}


class BarrierReductions(Core):
    """__syncthreads_count, __syncthreads_and, __syncthreads_or."""

    def bar_red(self, mode: str, predicate: npt.ArrayLike, barrier: int = 0, threads: int | None = None) -> Any:
        """bar.red: as bar_sync, and the answer is how many threads' predicates are true, or whether all, or any, are.

        mode is "popc" (an int), "and" or "or" (a bool); `predicate` is bool (32,), or one for all.
        """
        if not isinstance(mode, str) or mode not in _MODES:
            raise OperandError(f"bar.red has the modes {listing(_MODES)}; got {shown(mode)} (PTX ISA {SECTION})")
        by = self._issue(f"bar.red.{mode}.{_MODES[mode]}", aligned=True)
        if by is None:
            return 0 if mode == "popc" else mode == "and"
        given = self._values(predicate)
        if given.dtype != np.bool_ or given.shape not in ((), (WARP,)):
            raise OperandError(
                f"bar.red: a predicate is bool (32,); got dtype {given.dtype}, shape {given.shape} (PTX ISA {SECTION})"
            )
        mine = np.broadcast_to(given, (WARP,))[self._active]
        barriers, votes = self._block.barriers, self._block.kept.setdefault("bar.red", {})
        generation = barriers.arrive(by, barrier, threads, waits=True)
        here = votes.setdefault((barrier, generation), [0, 0])
        here[0] += int(mine.sum())
        here[1] += len(mine)
        votes.pop((barrier, generation - 2), None)  # nobody can still be there
        self._wait(
            by, "barrier", barrier, lambda: barriers.passed(barrier, generation), lambda: barriers.missing(barrier)
        )
        true, asked = here
        return {"popc": true, "and": true == asked, "or": true > 0}[mode]

    def _bar_red(self, mode: str, barrier: int, threads: Any, predicate: npt.ArrayLike | None = None) -> Any:
        """bar.red with PTX's operands: barrier, threads where they are given, predicate."""
        if predicate is None:
            return self.bar_red(mode, threads, barrier)
        return self.bar_red(mode, predicate, barrier, threads)
