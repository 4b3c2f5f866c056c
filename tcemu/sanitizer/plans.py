"""What logs with the same sorts of accesses have in common, and with the same warps: found out once for all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcemu.machine.events import Accesses, AccessTable, By
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.records import Ordinary, key_of

if TYPE_CHECKING:
    from types import ModuleType

_SPACES = {"shared": 0, "global": 1, "generic": 2}
#: The most sets of warps whose origins are kept.
_MOST = 4096


class Logs(NamedTuple):
    """The logs of several warps of a block, as Accesses has them, one behind the other.

    `begins` are the words where they begin; `warps` are numbered as in the events of the block. `legs` are 0 for what
    comes first, and one more for what comes after each barrier at which all warps of the block have met.
    """

    block: int
    slot: int
    table: AccessTable
    warps: Sequence[int]
    begins: Sequence[int]
    words: Array
    legs: Sequence[int]

    def end(self, log: int) -> int:
        """The word behind one of them."""
        return self.begins[log + 1] if log + 1 < len(self.begins) else len(self.words)

    def event(self, log: int) -> Accesses:
        """The event of one of them."""
        words = self.words[self.begins[log] : self.end(log)]
        return Accesses(self.block, self.warps[log], self.table, words.view(np.uint8), self.slot)

    def leg(self, log: int, word: int) -> Logs:
        """What is left, from a word of a log on, of the leg of this log."""
        end = bisect_right(self.legs, self.legs[log])
        begins = [0, *(begin - word for begin in self.begins[log + 1 : end])]
        words = self.words[word : self.end(end - 1)]
        return self._replace(warps=self.warps[log:end], begins=begins, words=words, legs=[0] * (end - log))


def rows_of(table: AccessTable) -> tuple[Array, Array]:
    """For each instruction: the group whose accesses share a record, the space, whether it writes, its bytes, .nc.

    Then an array for a number of each group.
    """
    kept: tuple[Array, Array] | None = table.kept.get(rows_of)
    if kept is None:
        rows = np.zeros((len(table.words), 5), np.int64)
        groups: dict[object, int] = {}
        for number, row in table.rows.items():
            group = groups.setdefault((row.site, row.instruction.opcode, row.space, row.writes), len(groups))
            rows[number] = group, _SPACES[row.space], row.writes, row.size, "nc" in row.instruction.words
        kept = table.kept[rows_of] = rows, np.zeros(len(groups), np.int64)
    return kept


class Plan:
    """What logs with the same sorts of accesses have in common: of each sort its row, its mask and its lanes."""

    def __init__(self, table: AccessTable, sorts: list[list[int]], kernels: ModuleType) -> None:
        self.rows = [table.rows[number] for number, *_ in sorts]
        self.masks, self.logs = [mask for _, mask, *_ in sorts], [log for *_, log in sorts]
        #: by sort, the instruction and the mask
        self.kinds = [(number, mask) for number, mask, *_ in sorts]
        self.lanes = [table.lanes(mask) for mask in self.masks]
        spaces = [space for _, _, space, *_ in sorts]
        #: the sorts of accesses to shared memory, the logs with loads among them, and whether there are stores
        self.near = [sort for sort, space in enumerate(spaces) if space == kernels.SHARED]
        self.loads = sorted({self.logs[sort] for sort in self.near if not self.rows[sort].writes})
        self.stores = any(self.rows[sort].writes for sort in self.near)
        #: the sorts of accesses to shared memory for numpy, and of each the place of its record among the new ones
        keys = [(self.logs[sort], key_of(*self._by(sort))) for sort in self.near]
        self.unlike = dict.fromkeys(keys)
        places = {key: place for place, key in enumerate(self.unlike)}
        self.which, self.places = np.array(self.near, np.intp), np.array([places[key] for key in keys], np.int64)
        #: by sort, the number of its log; the logs with loads from any memory
        self.log = np.array(self.logs, np.intp)
        self.loaded = sorted({log for log, row in zip(self.logs, self.rows, strict=True) if not row.writes})
        #: whether there are accesses to global memory
        self.far = kernels.GLOBAL in spaces
        #: by sort, and once more for the records of none: stores to global memory; stores to shared memory and loads
        #: from global memory
        self.far_stores, self.followed = np.zeros((2, len(sorts) + 2), bool)
        for sort, (row, space) in enumerate(zip(self.rows, spaces, strict=True)):
            self.far_stores[sort] = row.writes and space == kernels.GLOBAL
            self.followed[sort] = row.writes != (space == kernels.GLOBAL)
        self.keeps, self.follows = bool(self.far_stores.any()), bool(self.followed.any())
        #: by block and warps: see `owners`
        self._owners: dict[tuple[int, tuple[int, ...]], Owners] = {}

    def _by(self, sort: int) -> tuple[By, str, bool]:
        row = self.rows[sort]
        return By(-1, -1, self.masks[sort], row.site), row.instruction.opcode, row.writes

    def owners(self, block: int, warps: tuple[int, ...]) -> Owners:
        """What accesses of these sorts by these warps, of one log each, have in common."""
        owners = self._owners.get((block, warps))
        if owners is None:
            if len(self._owners) == _MOST:
                self._owners.clear()
            owners = self._owners[block, warps] = Owners(self, block, warps)
        return owners


class Owners:
    """What accesses of the same sorts by the same warps have in common: their origins, and what their records share."""

    def __init__(self, plan: Plan, block: int, warps: tuple[int, ...]) -> None:
        self.bys = [
            By(block, warps[log], mask, row.site)
            for log, mask, row in zip(plan.logs, plan.masks, plan.rows, strict=True)
        ]
        self._plan = plan

    @cached_property
    def logs(self) -> list[tuple[int, int]]:
        """The logs with accesses to shared memory, and the warp of each."""
        return sorted({(self._plan.logs[sort], self.bys[sort].warp) for sort in self._plan.near})

    @cached_property
    def records(self) -> Ordinary:
        """What is needed to make new records of accesses to shared memory."""
        plan = self._plan
        firsts = {place: sort for sort, place in reversed([*zip(plan.near, plan.places.tolist(), strict=True)])}
        sorts = [firsts[place] for place in range(len(firsts))]
        bys, opcodes = [self.bys[sort] for sort in sorts], [plan.rows[sort].instruction.opcode for sort in sorts]
        numbers, keys = np.array([by.warp for by in bys], np.intp), [key for _, key in plan.unlike]
        callers = [callers_of(by) for by in bys]
        warps: list[tuple[int, ...]] = [(by.warp,) for by in bys]
        return Ordinary(bys, opcodes, callers, warps, numbers, keys, plan.log[sorts])
