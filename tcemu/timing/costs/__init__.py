"""What instructions cost in clock cycles: tables measured on GPUs by ``tcemu measure``, one file for each target.

    table = costs("sm_90a")
    table.find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "latency", {"through": "c"}).median
    table.find("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", "interval", {"a": "shared"}).median

The rows of flags in global memory and of clusters were measured a day after the others, those of ordinary arithmetic
two days after, and of add, mul and fma in 16 bits a week after, on other H200s with the same driver:
`tcemu measure --suite "arithmetic" --suite "blocks" FOLDER`. A row of two blocks is a turn: from one block's operation
until the other block's wait for it has returned.

A cost is a median over several launches, with quartiles. It was measured in one block on one SM, with everything else
idle and with operands in the same registers each time, so it is a lower bound for the cost of the instruction in a
kernel.

How far to trust it: repeated runs on an H200 agreed within a tenth of a cycle for latencies and for intervals of one
warp or warpgroup, within 5 percent for intervals of many warps, and within 15 percent for copies from L2, which depend
on where in the L2 the data are; copies from global memory differed by up to a half. If the chip lacks an instruction
(mma.sync of fp8, of 4-bit integers, and m8n8k4 of f16 on sm_90a), the cost is that of the sequence with which the
driver's assembler replaces it; there, the surrounding code changes it by a tenth or more.

Fences are not a property of the chip alone. membar.gl and fence.acq_rel.gpu took 265 cycles on an H200 with nothing
pending, 414 after a store to global memory and 388 after a load; on an H100 671 in every case. fence.proxy.async took
145 to 331 cycles on the one and 551 to 579 on the other. What stays in the SM costs the same on both: membar.cta 8
cycles, fence.proxy.async.shared::cta 10.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from tcemu.errors import CostUnknown, briefly, did_you_mean, listing
from tcemu.instructions import target_named

__all__ = ["COLUMNS", "WHAT", "Cost", "CostTable", "costs", "read"]

#: What is measured.
WHAT = {
    "latency": "from one that is issued to the next, which needs its result: a chain; for copies and wgmma until the "
    "wait for it returns, one at a time",
    "interval": "from one that is issued to the next, which does not wait for its result, by one warp (wgmma: one "
    "warpgroup; bulk copies: one thread)",
    "SM interval": "the same, of all warps of the SM together: cycles of the SM for each",
}


@dataclass(frozen=True)
class Cost:
    """One row: what one instruction costs, in clock cycles of the SM.

    >>> from tcemu.timing.costs import costs
    >>> mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    >>> cost = costs("sm_90a").find(mma, "latency", {"through": "c"})  # each one needs the last one's D as its C
    >>> cost.what, cost.median, cost.runs  # the median is in clock cycles
    ('latency', 23.97, 15)
    """

    #: The opcode with all its qualifiers, or the name of a sequence.
    instruction: str
    #: A word of WHAT.
    what: str
    #: The conditions: {"warps": 16}, {"a": "registers", "in flight": 4}, {"wavefronts": 2}.
    how: Mapping[str, str | int] = field(hash=False)
    median: float
    #: Lower and upper quartile.
    quartiles: tuple[float, float]
    #: Number of launches.
    runs: int
    #: Cycles per iteration of the loop, the clock and the ends of the pipeline, which the cost excludes.
    overhead: float

    def __str__(self) -> str:
        how = "".join(f", {name} {value}" for name, value in self.how.items())
        low, high = self.quartiles
        return f"{self.instruction} {self.what}{how}: {self.median:g} cycles ({low:g} to {high:g})"


COLUMNS = tuple(column.name for column in fields(Cost))


@dataclass(frozen=True)
class CostTable:
    """All costs of a target.

    >>> from tcemu.timing.costs import costs
    >>> table = costs("sm_90a")
    >>> table.provenance["gpu"], len(table) > 5000
    ('NVIDIA H200', True)
    >>> mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    >>> sorted({cost.what for cost in table.of(mma)})
    ['SM interval', 'interval', 'latency']
    >>> print(table.find(mma, "latency", {"through": "a"}))
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 latency, through a: 24 cycles (24 to 24)
    """

    target: str
    #: GPU, driver, PTX version, date, command, the SM's clock in MHz.
    provenance: Mapping[str, Any]
    rows: tuple[Cost, ...]

    def __iter__(self) -> Iterator[Cost]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, instruction: str) -> tuple[Cost, ...]:
        """All rows of an instruction."""
        return self._by_instruction.get(str(instruction), ())

    def find(self, instruction: str, what: str = "latency", how: Mapping[str, str | int] | None = None) -> Cost:
        """The cost under exactly the conditions `how`, otherwise under the only conditions that include them.

        Raises CostUnknown, which lists the conditions, if there is no such cost or more than one.
        """
        if how is not None and not isinstance(how, Mapping):
            raise CostUnknown(f"conditions must be a dict such as {{'warps': 4}}; got {briefly(how)}")
        if not isinstance(what, str):
            raise CostUnknown(f"what was measured must be {listing(map(repr, WHAT))}; got {briefly(what)}")
        asked = dict(how or {})
        rows = [row for row in self.of(instruction) if row.what == what]
        exact = [row for row in rows if row.how == asked]
        wider = [row for row in rows if asked.items() <= row.how.items()]
        for costs in (exact, wider):
            if len(costs) == 1:
                return costs[0]
        raise CostUnknown(self._why_not(str(instruction), what, asked, wider or rows))

    def _why_not(self, instruction: str, what: str, how: Mapping[str, str | int], rows: list[Cost]) -> str:
        if not self.of(instruction):
            names = list(self._by_instruction)
            return f"there is no measurement of {instruction[:120]} on {self.target}.{did_you_mean(instruction, names)}"
        if not rows:
            held = {row.what for row in self.of(instruction)}
            known = listing((word for word in WHAT if word in held), "and")
            return f"{instruction} on {self.target}: only {known} were measured, not {what!r}"
        ways = listing((str(dict(row.how)) for row in rows[:12]), "and")
        return f"{instruction}, {what}, {dict(how)} on {self.target}: no row or more than one matches; there are {ways}"

    @cached_property
    def _by_instruction(self) -> Mapping[str, tuple[Cost, ...]]:
        groups: dict[str, list[Cost]] = {}
        for row in self.rows:
            groups.setdefault(row.instruction, []).append(row)
        return {name: tuple(rows) for name, rows in groups.items()}


def costs(target: str = "sm_90a") -> CostTable:
    """The table of a target. Raises CostUnknown where there is none, TargetError for a target that does not exist.

    >>> from tcemu.timing.costs import costs
    >>> wgmma = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"
    >>> print(costs("sm_90a").find(wgmma, "interval", {"a": "shared"}))
    wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 interval, a shared: 128 cycles (128 to 128)
    >>> costs("sm_80")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tcemu.errors.CostUnknown: there is no table of costs for sm_80, ...
    """
    return _measured(str(target_named(target)))


@cache
def _measured(chip: str) -> CostTable:
    path = files(__name__) / f"{chip}.json"
    if not path.is_file():
        known = sorted(
            each.name.removesuffix(".json") for each in files(__name__).iterdir() if each.name.endswith(".json")
        )
        raise CostUnknown(
            f"there is no table of costs for {chip}, only for {listing(known, 'and')}; `tcemu measure` makes one"
        )
    return read(path)


def read(path: Path | Traversable) -> CostTable:
    """The table in a file that ``tcemu measure`` wrote.

    >>> from importlib.resources import files
    >>> from tcemu.timing.costs import read
    >>> read(files("tcemu.timing.costs") / "sm_90a.json").target
    'sm_90a'
    """
    held = json.loads(path.read_text(encoding="utf-8"))
    return CostTable(held["provenance"]["target"], held["provenance"], tuple(_row(row) for row in held["rows"]))


def _row(row: list[Any]) -> Cost:
    instruction, what, how, median, (low, high), runs, overhead = row
    return Cost(instruction, what, how, float(median), (float(low), float(high)), int(runs), float(overhead))
