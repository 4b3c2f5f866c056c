"""Running probes on the GPU, and making the table of costs from them."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tcemu.errors import TcemuError, listing
from tcemu.live.campaigns.measure.arithmetic import arithmetic
from tcemu.live.campaigns.measure.barriers import barriers
from tcemu.live.campaigns.measure.blocks import blocks
from tcemu.live.campaigns.measure.copies import copies
from tcemu.live.campaigns.measure.memory import accesses
from tcemu.live.campaigns.measure.probe import Part, Probe
from tcemu.live.campaigns.measure.products import products
from tcemu.live.campaigns.measure.sectors import sectors
from tcemu.live.campaigns.measure.warpgroups import closer, warpgroups
from tcemu.live.process.client import Worker
from tcemu.live.process.device import Device, device
from tcemu.timing.costs import COLUMNS, WHAT, Cost
from tcemu.version import __version__

Suite = Callable[[str, str], Iterator[Probe]]
#: Called while it runs, with how many are done, of how many, and of what.
Progress = Callable[[int, int, str], None]

#: Makes the probes of a suite, from target and PTX version.
SUITES: dict[str, Suite] = {
    "barriers": barriers,
    "copies": copies,
    "shared memory": accesses,
    "mma": products,
    "wgmma closer": closer,
    "wgmma": warpgroups,
    "arithmetic": arithmetic,
    "blocks": blocks,
    "sectors": sectors,
}
#: Only this target has these.
_HOPPER = ("wgmma closer", "wgmma")
RUNS = 15
#: Launches before the ones that count.
_WARM = 2


def measure(
    folder: str | Path,
    suites: Sequence[str] = tuple(SUITES),
    runs: int = RUNS,
    progress: Progress | None = None,
    command: str = "tcemu.live.campaigns.measure.measure(folder)",
) -> Path:
    """Measure this machine's GPU, write `folder`/TARGET.json and return its path.

    `suites` are names of SUITES, `runs` launches of each kernel. Rows of the same instruction and conditions in the
    file are replaced, the others stay. Raises GpuUnavailable without a GPU.

    >>> from tcemu.live.campaigns.measure import measure
    >>> measure("costs", suites=["barriers"])  # on a GPU  # doctest: +SKIP
    PosixPath('costs/sm_90a.json')
    """
    chip = device()
    names = [name for name in suites if name not in _HOPPER or chip.target == "sm_90a"]
    if unknown := [name for name in names if name not in SUITES]:
        raise TcemuError(f"there is no suite {unknown[0]!r}; there are {listing(SUITES, 'and')}")
    probes = [(name, probe) for name in names for probe in SUITES[name](chip.target, chip.ptx)]
    tell = progress or (lambda *_: None)
    _compile([probe for _, probe in probes], chip, tell)
    bench = Bench(chip)
    rows: list[Cost] = []
    for number, (name, probe) in enumerate(probes):
        rows += bench.rows(probe, runs)
        tell(number + 1, len(probes), name)
    path = Path(folder) / f"{chip.target}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    provenance = bench.provenance(runs, command)
    bench.close()
    path.write_text(text(provenance, _merged(path, rows)), encoding="utf-8")
    return path


def _compile(probes: list[Probe], chip: Device, tell: Progress) -> None:
    """Have several processes compile the kernels: the driver keeps what it has compiled for other processes too."""
    count = min(8, os.cpu_count() or 1)
    if len(probes) < 50 or count == 1:
        return

    def some(index: int) -> None:
        bench = Bench(chip)
        mine = probes[index::count]
        for number, probe in enumerate(mine):
            bench.ask(probe, 1)
            if index == 0:
                tell(number + 1, len(mine), "compiling")
        bench.close()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(some, range(count)))


class Bench:
    """A GPU that runs probes, in its own process."""

    def __init__(self, chip: Device) -> None:
        self.chip = chip
        self.failures: dict[str, str] = {}
        self._start()

    def _start(self) -> None:
        self.worker = Worker()
        self.base = 0
        self.base = int(self._sink("st.global.u64 [%sink], %g3;", "cvt.u64.u32 %g3, %base;")[0])

    def _sink(self, sink: str, setup: str) -> Any:
        """The values that a kernel of one warp stores, one for each thread."""
        job = Probe((), setup=setup, sink=sink, name="alone").job(self.chip.ptx, self.chip.target, self.base)
        return self.worker.ask(job).arrays["sink"]

    def clock(self) -> float:
        """The SM's clock in MHz, measured over 20 ms."""
        setup = """mov.u64 %start, %globaltimer; mov.u64 %g0, %clock64;
            SPIN: mov.u64 %end, %globaltimer; mov.u64 %g1, %clock64; sub.u64 %g2, %end, %start;
            setp.lt.u64 %more, %g2, 20000000; @%more bra SPIN;
            sub.u64 %g3, %g1, %g0; mul.lo.u64 %g3, %g3, 1000; div.u64 %g3, %g3, %g2;"""
        return float(self._sink("st.global.u64 [%sink], %g3;", setup)[0])

    def ask(self, probe: Probe, trips: int | None = None) -> Any:
        """The clocks of one launch; None if it failed, and then `failures` says why."""
        if probe.name in self.failures:
            return None
        try:
            return self.worker.ask(probe.job(self.chip.ptx, self.chip.target, self.base, trips)).arrays["times"]
        except TcemuError as error:
            self.failures[probe.name] = str(error)
            if not self.worker.alive:
                self._start()
            return None

    def rows(self, probe: Probe, runs: int) -> list[Cost]:
        """The costs of a probe's parts; none if it does not run."""
        clocks = [self.ask(probe) for _ in range(_WARM + runs)][_WARM:]
        if any(times is None for times in clocks):
            return []
        readings = np.array([probe.read(times) for times in clocks])
        return [
            _cost(part, values[:, 0], values[:, 1])
            for part, values in zip(probe.parts, readings.swapaxes(0, 1), strict=True)
        ]

    def provenance(self, runs: int, command: str) -> dict[str, Any]:
        """Where and how the table was made."""
        chip = self.chip
        return {
            "gpu": chip.name,
            "target": chip.target,
            "driver": chip.driver,
            "cuda": chip.cuda,
            "ptx": chip.ptx,
            "sm_clock_mhz": self.clock(),
            "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            "command": command,
            "tcemu": __version__,
            "python": platform.python_version(),
            "runs": runs,
            "failed": self.failures,
        }

    def close(self) -> None:
        """End the process."""
        self.worker.stop()


def _cost(part: Part, cycles: Any, overhead: Any) -> Cost:
    low, median, high = (round(float(x), 2) for x in np.percentile(cycles, (25, 50, 75)))
    around = round(float(np.median(overhead)), 1)
    return Cost(part.instruction, part.what, dict(part.how), median, (low, high), len(cycles), around)


def _key(row: Sequence[Any]) -> tuple[Any, ...]:
    return row[0], row[1], tuple(row[2].items())


def _merged(path: Path, rows: list[Cost]) -> list[list[Any]]:
    """The file's rows, with these replacing those with the same key, and new ones at the end."""
    held = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    table = {_key(row): row for row in held}
    table |= {_key(row): row for row in (list(asdict(cost).values()) for cost in rows)}
    return list(table.values())


def text(provenance: dict[str, Any], rows: list[list[Any]]) -> str:
    """The file's text: a line for each row of the table."""
    head = {"provenance": provenance, "unit": "cycles", "what": WHAT, "columns": list(COLUMNS)}
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    return json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n'
