"""Judges where a tile is stored in shared memory: each unit in its own place, and no bank conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import all_called, function, wholes
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import counted
from tcemu.show.shared_tile import shared_rows
from tcemu.timing.wavefronts import wavefronts

Array = npt.NDArray[Any]

_LOAD, _STORE = "ldmatrix.sync.aligned.m8n8.x1.shared.b16", "st.shared.v4.b32"
_UNIT, _ROWS = 16, 8


@dataclass(frozen=True)
class Placement:
    """Judges a function (row, unit) -> address of a tile of `rows` x `units` 16-byte units within `size` bytes.

    Every unit has a place of its own. ldmatrix reads each unit of each 8 rows, and 8 lanes at a time store the units in
    the order of rows; the score is the wavefronts of both, and they must be as few as possible.

    >>> from tcemu.course import Given
    >>> from tcemu.course.judges.placement import Placement
    >>> judge = Placement(rows=8, units=8, size=1024)
    >>> judge.mark(judge.collect(lambda row, unit: 128 * row + 16 * unit, Given()), Given()).says.partition(": ")[0]
    'Unit 0 of rows 0 to 7 takes 8 wavefronts'
    """

    rows: int
    units: int
    size: int
    how: str = "wavefronts of loads and stores"

    @property
    def cases_in_all(self) -> int:
        """How many results the function has, all of which are looked at."""
        return self.rows * self.units

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Ask for every unit."""
        names = ("row", "unit")
        learner = function(answer, names)
        title = getattr(learner, "__name__", "answer")
        cases = list(product(range(self.rows), range(self.units)))
        results = zip(cases, all_called(learner, names, cases), strict=True)
        places = [wholes(result, ("address",), f"{title}{case}")[0] for case, result in results]
        limit = 1 << 31
        return {"addresses": np.array([max(-limit, min(each, limit)) for each in places], np.int64)}

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Places first, then the conflicts of loads, then those of stores."""
        where = evidence["addresses"].reshape(self.rows, self.units)
        says, mistake, share = self._misplaced(where)
        if says:
            return Finding(False, says, mistake, share)
        loads = self._loads(where)
        stores = wavefronts(np.resize(where.reshape(-1, _ROWS), (where.size // _ROWS, 32)), _STORE)
        # four copies of the same 8 lanes: a quarter of the wavefronts of each store counts
        writes = np.asarray(stores.count) // 4
        total = int(loads.sum() + writes.sum())
        scores = {"wavefronts": total}
        if (loads > 1).any():
            group, unit = (int(each) for each in np.argwhere(loads > 1)[0])
            first, count = _ROWS * group, int(loads[group, unit])
            says = f"Unit {unit} of rows {first} to {first + _ROWS - 1} takes {count} wavefronts: "
            says += self._shared(where, first, unit)
            return Finding(False, says, self._named(where), 0.5, (shared_rows(where, unit, first),), scores)
        if (writes > 1).any():
            first = int(np.argmax(writes > 1)) * _ROWS
            says = f"Loads have no conflict, but a store of the units {first} to {first + _ROWS - 1}, counted by rows, "
            says += f"takes {int(writes.max())} wavefronts."
            return Finding(False, says, self._named(where), 0.75, (), scores)
        return Finding(True, f"No conflict: {counted(total, 'wavefront')} in all.", share=1.0, scores=scores)

    def _misplaced(self, where: Array) -> tuple[str, str, float]:
        """What is wrong with the places: the first unit, the mistake's name, and how much is right."""
        outside = (where < 0) | (where + _UNIT > self.size)
        crooked = where % _UNIT != 0
        twice = np.ones(where.size, bool)
        twice[np.unique(where, return_index=True)[1]] = False
        for wrong, what, mistake in (
            (crooked, f"is not a multiple of {_UNIT}, so ldmatrix faults", self._unit_mistake(where)),
            (outside, f"is outside the tile's {self.size} bytes", self._padded(where)),
            (twice.reshape(where.shape), "holds another unit already", "Two units have the same place."),
        ):
            if wrong.any():
                row, unit = (int(each) for each in np.argwhere(wrong)[0])
                says = f"Unit {unit} of row {row}: the address {int(where[row, unit])} {what}."
                return says, mistake, 0.4 * float(1 - wrong.mean())
        return "", "", 0.0

    def _unit_mistake(self, where: Array) -> str:
        if where.max() < self.rows * self.units:
            return "These are numbers of units. An address counts bytes: a unit has 16."
        return "The swizzle acts on whole units of 16 bytes: XOR the number of the unit, and multiply afterwards."

    def _padded(self, where: Array) -> str:
        steps = np.diff(where, axis=0)
        if (steps > _UNIT * self.units).all():
            return "This is padding, for which there is no room here: permute units within the tile instead."
        return "The XOR reaches beyond the units of a row: use a number that is smaller than the number of units."

    def _loads(self, where: Array) -> Array:
        """(groups of 8 rows, units): wavefronts of ldmatrix."""
        asked = where.reshape(-1, _ROWS, self.units).swapaxes(1, 2)
        return np.asarray(wavefronts(np.concatenate([asked] * 4, axis=-1), _LOAD).count)

    def _shared(self, where: Array, first: int, unit: int) -> str:
        lines = where[first : first + _ROWS, unit] // _UNIT % 8
        busiest = np.bincount(lines.astype(np.intp, copy=False)).argmax()
        together = [first + int(row) for row in np.flatnonzero(lines == busiest)]
        return f"rows {', '.join(map(str, together))} are in the same four banks."

    def _named(self, where: Array) -> str:
        """The mistake by its name, from what the addresses have in common."""
        row, unit = np.indices(where.shape)
        plain = _UNIT * (self.units * row + unit)
        if np.array_equal(where, plain):
            return "The rows lie one after the other: nothing is swizzled yet."
        if np.array_equal(where, plain ^ _UNIT * (row % self.units)):
            return (
                f"You XOR with row % {self.units}. But {8 // self.units} rows share a line of 128 bytes, so rows that "
                "start in the same bank get the same number. Use the number of the line."
            )
        columns = _UNIT * (self.rows * unit + row)
        if np.array_equal(where, columns):
            return "You store the tile by columns of units. That suits the loads, but units of one row share banks."
        return "Rows that start in the same bank need different units."
