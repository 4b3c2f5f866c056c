"""What an operation of a timeline costs, in clock cycles: read from a table of measured costs, or assumed.

    prices = Prices(costs("sm_90a"))
    prices.mma(instruction).interval

Everything that the table has comes from the table. What was not measured in isolation is an assumption, in one
place: `ASSUMED`, with what it stands for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tcemu.errors import CostUnknown
from tcemu.instructions import Instruction, parse
from tcemu.machine.events import SELECTED_SOURCE
from tcemu.timing.accesses import LINE, SECTOR
from tcemu.timing.costs import WHAT, CostTable
from tcemu.timing.pipes import Rate, Work, pipe_of, work_of

if TYPE_CHECKING:
    from tcemu.machine.events import Stretch
    from tcemu.timing.operations import Op

#: Sub-partitions of an SM.
PARTITIONS = 4

#: What is not in the table of costs, in clock cycles unless it says otherwise. The values fit the main loops of
#: benchmarks/timeline.py best; a compiler's ordinary instructions around an operation are part of them.
ASSUMED: Mapping[str, float] = MappingProxyType(
    {
        # a warp's next instruction, if it depends on nothing
        "issue": 2,
        # addresses of an access to shared or global memory: how long they keep the warp, and issue slots
        "addresses": 2,
        # the same for cp.async; and for the choice of its source, if the kernel takes another one outside the matrix:
        # in mma_pipeline on an H200, a copy without it took 13 to 16 cycles of a warp, and the choice 46 to 62
        "copy addresses": 16,
        "copy slots": 6,
        "source": 68,
        "source slots": 19,
        # from an arrival at an mbarrier until its phase is complete
        "phase": 20,
        # a test of an mbarrier whose phase is complete
        "try_wait": 70,
        # from the completion of a phase until a warp that waits for it continues
        "wake": 45,
        # the descriptors of a wgmma, which have to go into uniform registers: how long they keep the warp, and the
        # issue slots, for which warpgroups wait that have a warp in the same sub-partition
        "descriptors": 44,
        "descriptor slots": 28,
        # to start a bulk copy, and until the warp's next instruction of another kind may change its operands
        "bulk": 30,
        "bulk operands": 140,
        # a line of 128 bytes more that a store to global memory touches: a warp that stores eight rows of two f32 took
        # 9.3 cycles with seven others and 10.4 with three, where the same sectors beside each other take 7.9
        "lines": 0.25,
        # how much later an SM's first copy lands, and the first by each tensor map, which comes from the L2
        "first copy": 130,
        "tensor map": 240,
        # setmaxnreg: 370 to 470 from the barrier before it to the next instruction, in two kernels on an H200
        "setmaxnreg": 400,
        # how long 128 bytes that a product reads or a bulk copy writes occupy the way of data while stores are on it:
        # 0.4 to 0.8 by the parts of wgmma_persistent on an H200; this fits its whole times on an H100
        "line": 0.5,
        # shfl, vote, elect and the like
        "exchange": 23,
        # sectors of 32 bytes that an SM copies or loads from the L2 in a cycle
        "sectors": 4,
        # a warp's next ordinary instruction of an unknown kind; each takes one issue slot
        "arithmetic": 2,
        # the result of such an instruction
        "result": 5,
        # registers of a thread that hold no values of the kernel, but addresses and counters: ptxas's for wgmma_tma
        "registers": 26,
    }
)

_BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_TENSOR = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
_STORE = "cp.async.bulk.global.shared::cta.bulk_group"
_CG = "cp.async.cg.shared.global"
_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


class Price(NamedTuple):
    """What one operation costs: how long it keeps its unit busy, and how long until its result is there."""

    interval: float
    latency: float


class Curve:
    """A measured quantity between measured points: straight lines, continued beyond the last one."""

    def __init__(self, points: Mapping[float, float]) -> None:
        self.x = sorted(points)
        self.y = [points[x] for x in self.x]

    def __call__(self, x: float) -> float:
        """The value at `x`."""
        if len(self.x) == 1 or x <= self.x[0]:
            return self.y[0]
        right = min(max(bisect_left(self.x, x), 1), len(self.x) - 1)
        left = right - 1
        slope = (self.y[right] - self.y[left]) / (self.x[right] - self.x[left])
        return self.y[left] + slope * (x - self.x[left])


class Prices:
    """The prices of operations on one target."""

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self._mma: dict[tuple[str, str], Price] = {}
        self._shared: dict[str, tuple[Curve, Curve]] = {}
        self._plain: dict[str, Price] = {}
        self._rates: dict[str, Rate] = {}
        self._works: dict[Stretch | tuple[str, int], Work] = {}

    # ------------------------------------------------------------------------------------------ tensor core

    def mma(self, instruction: Instruction) -> Price:
        """mma.sync and similar instructions of one warp, on the tensor core of its sub-partition."""
        key = instruction.opcode, ""
        if key not in self._mma:
            self._mma[key] = self._find_mma(instruction)
        return self._mma[key]

    def _find_mma(self, instruction: Instruction) -> Price:
        rows = self.table.of(instruction.opcode)
        if rows:
            interval = self.table.find(instruction.opcode, "interval", {"warps": 1}).median
            latency = max(row.median for row in rows if row.what == "latency")
            return Price(interval, latency)
        known = self._find_mma(parse(_MMA))  # wmma, which is several mma.sync
        share = _products(instruction) / _products(parse(_MMA))
        return Price(known.interval * share, known.latency + known.interval * (share - 1))

    def wgmma(self, instruction: Instruction, a: str) -> Price:
        """wgmma of a warpgroup, on all four tensor cores; the latency is until a wait for it would return."""
        key = instruction.opcode, a
        if key not in self._mma:
            medians = [self.table.find(instruction.opcode, what, {"a": a}).median for what in ("interval", "latency")]
            self._mma[key] = Price(*medians)
        return self._mma[key]

    def switch(self, instruction: Instruction, warpgroups: int) -> float:
        """How much longer a wgmma takes if another warpgroup's came before it, of this number of warpgroups."""
        of_two, of_four = (self._switches[number](instruction.shape.n) for number in (2, 4))
        return of_two + (of_four - of_two) * min(max(warpgroups - 2, 0) / 2, 1)

    @cached_property
    def _switches(self) -> Mapping[int, Curve]:
        """By the number of warpgroups, what it adds to the interval, by columns: measured for f16."""
        by_count: dict[int, dict[float, float]] = {2: {}, 4: {}}
        for columns in range(8, 257, 8):
            opcode = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16"
            for row in self.table.of(opcode):
                if row.what == "SM interval" and row.how["a"] == "shared":
                    alone = self.table.find(opcode, "interval", {"a": "shared"}).median
                    by_count[int(row.how["warpgroups"])][columns] = row.median - alone
        return {warpgroups: Curve(points) for warpgroups, points in by_count.items()}

    # ------------------------------------------------------------------------------------------ shared memory

    def shared(self, instruction: Instruction, wavefronts: int) -> Price:
        """An access to shared memory: how long it keeps its warp's path to the banks busy, and until its result."""
        interval, latency = self._curves(instruction)
        return Price(interval(wavefronts), latency(wavefronts))

    def _curves(self, instruction: Instruction) -> tuple[Curve, Curve]:
        curves = self._shared.get(instruction.opcode)
        if curves is None:
            name = instruction.opcode if self.table.of(instruction.opcode) else "ld.shared.b32"
            loads = "latency" if any(row.what == "latency" for row in self.table.of(name)) else ""
            latency = self._curve(name if loads else "ld.shared.b32", "latency", "wavefronts", warps=1)
            curves = self._curve(name, "interval", "wavefronts", warps=1), latency
            self._shared[instruction.opcode] = curves
        return curves

    # ------------------------------------------------------------------------------------------ copies

    @cached_property
    def _bulk(self) -> Mapping[str, tuple[Curve, Curve]]:
        l2 = {"source": "L2"}
        return {
            _BULK: (self._curve(_BULK, "interval", "bytes", **l2), self._curve(_BULK, "latency", "bytes", **l2)),
            _TENSOR: (
                self._curve(_TENSOR, "interval", "bytes", swizzle=128, **l2),
                self._curve(_TENSOR, "latency", "bytes", swizzle=128, **l2),
            ),
            _STORE: (
                self._curve(_STORE, "interval", "bytes"),
                self._curve(_STORE, "latency", "bytes", until="written"),
            ),
        }

    def copy(self, size: int) -> Price:
        """cp.async of a warp, `size` bytes in all: how long its path is busy, and until the copy has landed.

        Copies come from the L2, also with .ca: nothing has been read before.
        """
        return Price(self._copy_rate * size, self._copy_rows[min(self._copy_rows)])

    @cached_property
    def _copy_rows(self) -> Mapping[int, float]:
        """The latency of copies of one warp, one after the other, by their bytes."""
        rows = [row for row in self.table.of(_CG) if row.what == "latency"]
        return {int(row.how["bytes"]): row.median for row in rows if (row.how["source"], row.how["warps"]) == ("L2", 1)}

    @cached_property
    def _copy_rate(self) -> float:
        """Cycles for each additional byte."""
        least, most = min(self._copy_rows), max(self._copy_rows)
        return (self._copy_rows[most] - self._copy_rows[least]) / (most - least)

    def bulk(self, instruction: Instruction, size: int, *, writes: bool) -> Price:
        """A bulk copy of `size` bytes: how long the copy engine is busy, and until it has landed."""
        name = _STORE if writes else _TENSOR if ".tensor" in instruction.family else _BULK
        engine, latency = self._bulk[name]
        most = engine.x[-1]
        return Price(size * engine(most) / most, latency(size))

    @cached_property
    def copied(self) -> float:
        """What bulk copies need of the way of data meanwhile: a part of it."""
        engine, _ = self._bulk[_TENSOR]
        return ASSUMED["line"] * engine.x[-1] / LINE / engine.y[-1]

    def reads(self, instruction: Instruction, a: str) -> float:
        """What a wgmma needs of it, to read its operands in shared memory."""
        columns = instruction.shape.n * (2 if ".sp" in instruction.opcode else 1)
        lines = (columns + (instruction.shape.m if a == "shared" else 0)) * SECTOR / LINE  # K has 32 bytes
        return min(ASSUMED["line"] * lines / self.wgmma(instruction, a).interval, 1)

    # ------------------------------------------------------------------------------------------ the rest

    @cached_property
    def _barrier(self) -> Curve:
        return self._curve("bar.sync", "interval", "warps")

    def barrier(self, warps: int) -> float:
        """From the last arrival until the warps continue."""
        return self._barrier(warps)

    @cached_property
    def _cluster(self) -> Curve:
        return self._curve("barrier.cluster", "latency", "blocks")

    def cluster(self, blocks: int) -> float:
        """From the last arrival at the barrier of a cluster until the warps continue."""
        return self._cluster(blocks)

    @cached_property
    def load(self) -> float:
        """A load from the L2 into registers: one that may not take what an L1 holds."""
        return self.table.find("ld.relaxed.gpu").median

    def store(self, size: int, sectors: int, lines: int) -> float:
        """How long a store of `size` bytes keeps the way to the L2 busy: longer for sectors that it fills in part.

        Those that were measured fill their lines of four sectors; others take longer for each line more.
        """
        whole, part = self._stored
        each = whole if size >= SECTOR * sectors else part
        return sectors * each + max(lines - sectors * SECTOR / LINE, 0) * ASSUMED["lines"]

    @cached_property
    def _stored(self) -> tuple[float, float]:
        """Cycles of a whole sector, and of one that is written in part."""
        rows = (("st.global.v2.b32", "rows of four"), ("st.global.b32", "rows of four"))
        found = [self.table.find(name, "SM interval", {"lanes": lanes, "warps": 4}) for name, lanes in rows]
        whole, part = (each.median / int(each.how["sectors"]) for each in found)
        return whole, part

    @cached_property
    def remote(self) -> float:
        """From an arrival at an mbarrier of another block until a wait there returns."""
        return self.table.find("mbarrier.arrive.shared::cluster; mbarrier.try_wait").median

    def handed_on(self, instruction: Instruction) -> float:
        """From an operation that sets a flag or counter until a load in another block has found that.

        Without .release, there is no fence in it.
        """
        name = "st.release.gpu" if instruction.family == "st" else "red.release.gpu"
        whole = self.table.find(f"{name}; ld.acquire.gpu").median
        released = {"release", "acq_rel"} & set(instruction.opcode.split("."))
        return whole if released else whole - self.table.find("membar.gl", "interval").median

    def plain(self, instruction: Instruction) -> Price:
        """Any other instruction: how long it keeps its warp, and until its result."""
        price = self._plain.get(instruction.opcode)
        if price is None:
            price = self._plain[instruction.opcode] = self._find_plain(instruction)
        return price

    def _find_plain(self, instruction: Instruction) -> Price:
        family = instruction.family
        for name in (family, instruction.opcode, instruction.opcode.split(".sync")[0]):
            rows = [row for row in self.table.of(name) if row.what == "interval"]
            if rows:
                late = [row.median for row in self.table.of(name) if row.what == "latency"]
                return Price(rows[0].median, max([rows[0].median, *late]))
        if family.startswith("mbarrier.arrive"):
            interval = self.table.find("mbarrier.arrive", "interval", {"warps": 1}).median
            return Price(interval, interval)
        if family.startswith("mbarrier") and "wait" in family:
            return Price(ASSUMED["try_wait"], ASSUMED["try_wait"])
        if family == "setmaxnreg":
            return Price(ASSUMED["setmaxnreg"], ASSUMED["setmaxnreg"])
        return Price(ASSUMED["issue"], ASSUMED["exchange"] if family.endswith(".sync") else ASSUMED["result"])

    def work(self, op: Op) -> Work:
        """The kernel's own arithmetic, all of one opcode, or a stretch of a kernel in PTX."""
        key = op.stretch or (op.opcode, op.number)
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = (
                work_of(op.stretch, self._rate) if op.stretch else self._of_one(op.opcode, op.number)
            )
        return work

    def _of_one(self, opcode: str, number: int) -> Work:
        rate = self._rate(opcode)
        return Work(rate.slots * number, {opcode: rate.pipe * number}, max(rate.interval * number, rate.latency))

    def _rate(self, opcode: str) -> Rate:
        """As measured, if the instruction was; otherwise as the pipe."""
        rate = self._rates.get(opcode)
        if rate is None:
            rate = self._rates[opcode] = self._find_rate(opcode)
        return rate

    def _find_rate(self, opcode: str) -> Rate:
        if opcode == SELECTED_SOURCE:
            return Rate(ASSUMED["source"], ASSUMED["source"], opcode, 1, ASSUMED["source slots"])
        if opcode == "arithmetic":  # what a kernel in Python does without tcemu.gemm.scalar
            return Rate(ASSUMED["arithmetic"], ASSUMED["result"], opcode, 1)
        rows, pipe = self._measured(opcode), pipe_of(opcode)
        if not all(rows.values()):
            return Rate(pipe.interval, self._measured(pipe.like)["latency"][0], pipe.name, pipe.interval)
        clocks = max(PARTITIONS * min(rows["SM interval"]), 1)
        return Rate(max(rows["interval"][0], 1), rows["latency"][0], pipe.name, clocks)

    def _measured(self, opcode: str) -> dict[str, list[float]]:
        return {what: [row.median for row in self.table.of(opcode) if row.what == what] for what in WHAT}

    def _curve(self, name: str, what: str, by: str, **how: str | int) -> Curve:
        rows = [row for row in self.table.of(name) if row.what == what and how.items() <= row.how.items()]
        points = {float(row.how[by]): row.median for row in rows if by in row.how}
        if not points:
            problem = f"there is no measurement of the {what} of {name} on {self.table.target}"
            raise CostUnknown(f"{problem}, which a timeline needs; `tcemu measure` measures it")
        return Curve(points)


def _products(instruction: Instruction) -> float:
    """Products of an instruction on matrices in registers, in units of products of 16 bits."""
    shape, a = instruction.shape, instruction.fragments["a"]
    return float(shape.m * shape.n * shape.k * a.container.form.bits / 16)
