"""tcemu.timing.Timeline: an observer that lays a launch out in clock cycles.

The machine executes a kernel without a clock. A timeline records what each warp did, and afterwards lays it out in
cycles, as an SM would have run it, with the costs that were measured on a GPU (tcemu.timing.costs). What the model
leaves out: the caches (copies come from the L2), other SMs' traffic, registers and the instructions that compute
addresses, of which it assumes a fixed number (`tcemu.timing.prices.ASSUMED`). Blocks wait for each other as
`tcemu.timing.flags` says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tcemu.errors import OperandError, briefly, counted
from tcemu.machine.events import Event, Sourced
from tcemu.timing.costs import CostTable, costs
from tcemu.timing.prices import PARTITIONS, Prices
from tcemu.timing.recording import Recorder
from tcemu.timing.simulation import lay_out, registers, resident
from tcemu.timing.spans import Group, Laid, Span

#: SMs of an H100 and an H200.
SMS = 132


class _Shares(NamedTuple):
    """Cycles of tensor core that one SM used, and what it waited for."""

    busy: float
    waited: Mapping[str, float]


class Timeline:
    """An observer for tcemu.launch; afterwards it says when each operation ran, in clock cycles of an SM.

    `table` holds the costs (by default those of the launch's target), `sms` is the number of SMs: block b runs on SM
    b mod `sms`, with as many blocks at a time as threads and shared memory allow. The result is that of the latest
    launch; if it tried several policies, of the last one. Raises CostUnknown where a cost is needed that was not
    measured.

    >>> from tcemu.gemm import wgmma_tma
    >>> from tcemu.timing import Timeline
    >>> timeline = Timeline()
    >>> A, B = np.ones((64, 512), np.float16), np.ones((512, 128), np.float16)
    >>> D, result = wgmma_tma.multiply(A, B, observers=[timeline])
    >>> 2000 < timeline.cycles < 6000  # 8 steps of 64 along K, 256 cycles of tensor core each, and what is around them
    True
    >>> 0.3 < timeline.busy < 1  # of the tensor core's cycles
    True
    >>> max(timeline.waited, key=timeline.waited.get)  # the first copies; nothing can begin before they are there
    'copy'
    """

    #: what it needs beside the events that all observers get
    also = (Sourced,)

    def __init__(self, table: CostTable | None = None, sms: int = SMS) -> None:
        if isinstance(sms, bool) or not isinstance(sms, int) or sms < 1:
            raise OperandError(f"sms= must be a number of SMs, at least 1; got {briefly(sms)}")
        self._table, self._sms = table, sms
        self._recorder = Recorder()
        self._held: tuple[list[Laid], list[Group]] | None = None
        self._counted: _Shares | None = None

    def __call__(self, event: Event) -> None:
        """Receive an event of the machine."""
        self._held = self._counted = None
        self._recorder(event)

    # ------------------------------------------------------------------------------------------ results

    @property
    def cycles(self) -> float:
        """From the start of the first block to the end of the last one."""
        return max((each.end for each in self._laid), default=0.0)

    @property
    def busy(self) -> float:
        """The share of the time in which the tensor cores of the SMs with a product were busy, from 0 to 1."""
        return self._shares.busy / self._whole if self._whole else 0.0

    @property
    def waited(self) -> dict[str, float]:
        """What the tensor cores waited for, as shares of the time; with `busy` they add up to 1.

        "copy" (data in flight), "barrier", "mbarrier" (another warp), "cluster", "flag" (another block), "product" (the
        result of a product before), "shared memory", "global memory", "issue" (other instructions), "epilogue" (all
        that came after the last product). The largest comes first. Empty if there was no product.
        """
        shares = {cause: cycles / self._whole for cause, cycles in self._shares.waited.items()} if self._whole else {}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    @property
    def spans(self) -> list[Span]:
        """What took time: operations and waits of warps, products, copies; in the order of their starts."""
        return sorted((span for each in self._laid for span in each.spans), key=lambda span: (span.start, span.end))

    @property
    def groups(self) -> list[Group]:
        """Groups of copies and products, and phases of mbarriers that copies end on."""
        return sorted(self._lay_out()[1], key=lambda group: group.issued)

    @property
    def handovers(self) -> list[Span]:
        """The waits that a warp of another block ended: by a flag, at the barrier of a cluster, at an mbarrier.

        A span's `block` and `warp` waited, from `start` to `end`, for those in `ender`.

        >>> from tcemu.timing import Timeline
        >>> def kernel(warp, flag):
        ...     if warp.ctaid[0] == 1:
        ...         warp.st_global(flag.at(0), 1, order="release")
        ...     while warp.ctaid[0] == 0 and not warp.ld_global(flag.at(0), order="acquire")[0, 0]:
        ...         pass
        >>> timeline = Timeline()
        >>> result = tcemu.launch(kernel, grid=2, args=(np.zeros(1, np.uint32),), observers=[timeline])
        >>> (wait,) = timeline.handovers
        >>> wait.block, wait.what, wait.ender  # warp 0 of block 1 ended it
        (0, 'flag', (1, 0))
        """
        return [span for span in self.spans if span.ender is not None and span.ender[0] != span.block]

    @property
    def blocks(self) -> dict[int, tuple[float, float]]:
        """Start and end of each block, by its number."""
        return dict(sorted(item for each in self._laid for item in each.blocks.items()))

    @property
    def resident(self) -> int:
        """How many blocks an SM holds at a time: threads, shared memory and `registers` decide; 0 without a launch.

        >>> from tcemu.timing import Timeline
        >>> timeline = Timeline()
        >>> result = tcemu.launch(lambda warp: warp.bar_sync(), block=256, shared=56 << 10, observers=[timeline])
        >>> timeline.resident  # 4 x 57 KiB
        4
        """
        return max((resident(trace) for trace in self._recorder.launch.blocks.values()), default=0)

    @property
    def registers(self) -> int:
        """How many registers a thread needs: an estimate; 0 without a launch.

        A kernel in Python does not say what a compiler would make of it. Counted are the registers that hold values at
        the same time, in the warp with the most; a fixed number stands for addresses and counters. For tcemu.gemm,
        the estimate is what ptxas reports for wgmma_tma and wgmma_sparse, 67 for 64 in mma_sparse and 74 for 92 in
        mma_pipeline. It is too high for promotion (90 for 78) and for wmma (50 for 32), whose fragments hold elements
        twice, and too low where a kernel computes with arrays of numpy, as attention does (82 for 140).

        >>> from tcemu.gemm import wgmma_tma
        >>> from tcemu.timing import Timeline
        >>> timeline = Timeline()
        >>> A, B = np.ones((64, 128), np.float16), np.ones((128, 128), np.float16)
        >>> D, result = wgmma_tma.multiply(A, B, observers=[timeline])
        >>> timeline.registers  # 64 accumulators and 26 others
        90
        """
        return max((registers(trace) for trace in self._recorder.launch.blocks.values()), default=0)

    def sites(self) -> dict[str, dict[str, float]]:
        """For each line of the kernel, the cycles that its warps spent there, by what they waited for, or "issue".

        The line with the most comes first.

        >>> from tcemu.timing import Timeline
        >>> timeline = Timeline()
        >>> result = tcemu.launch(lambda warp: warp.bar_sync(), block=128, observers=[timeline])
        >>> ((line, spent),) = timeline.sites().items()
        >>> sorted(spent), spent["barrier"] > spent["issue"]
        (['barrier', 'issue'], True)
        """
        cycles: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for each in self._laid:
            for span in each.spans:
                if span.unit == "warp":
                    cycles[str(span.site)][span.what if span.waits else "issue"] += span.end - span.start
        order = sorted(cycles, key=lambda site: -sum(cycles[site].values()))
        return {site: dict(cycles[site]) for site in order}

    def __str__(self) -> str:
        waits = ", ".join(f"{cause} {share:.0%}" for cause, share in self.waited.items() if share >= 0.005)
        blocks = counted(len(self._recorder.launch.blocks), "block")
        summary = f"{blocks}, {self.cycles:,.0f} cycles; tensor core busy {self.busy:.0%}"
        return f"{summary}, waiting for {waits}" if waits else summary

    def __repr__(self) -> str:
        return f"<Timeline: {self}>"

    # ------------------------------------------------------------------------------------------ layout

    @property
    def _laid(self) -> list[Laid]:
        return self._lay_out()[0]

    def _lay_out(self) -> tuple[list[Laid], list[Group]]:
        if self._held is None:
            launch = self._recorder.launch
            prices = Prices(self._table or costs(self._recorder.target)) if launch.blocks else None
            self._held = lay_out(launch, prices, self._sms) if prices else ([], [])
        return self._held

    @property
    def _whole(self) -> float:
        """Cycles of tensor core that there were, over all SMs with a product."""
        return PARTITIONS * sum(each.end for each in self._laid if has_products(each))

    @property
    def _shares(self) -> _Shares:
        if self._counted is None:
            busy = [attribute(each) for each in self._laid if has_products(each)]
            waited: dict[str, float] = defaultdict(float)
            for each in busy:
                for cause, cycles in each.waited.items():
                    waited[cause] += cycles
            self._counted = _Shares(sum(each.busy for each in busy), waited)
        return self._counted


def has_products(laid: Laid) -> bool:
    """Whether tensor cores of an SM computed anything."""
    return any(span.unit == "tensor core" for span in laid.spans)


def attribute(laid: Laid) -> _Shares:
    """What the tensor cores of one SM did and waited for.

    A gap between two products is what the warp that issued the second one did in the gap: its waits by what they were
    for, everything else as "issue".
    """
    waits: dict[tuple[int, int], list[Span]] = defaultdict(list)
    cores: list[list[Span]] = [[] for _ in range(PARTITIONS)]
    for span in laid.spans:
        if span.unit == "tensor core":
            cores[span.number].append(span)
        elif span.unit == "warp" and span.waits:
            waits[span.block, span.number].append(span)
    waited: dict[str, float] = defaultdict(float)
    busy = 0.0
    for core in cores:
        end = 0.0
        for span in sorted(core, key=lambda each: each.start):
            if span.start > end:
                _blame(waits[span.block, span.warp], end, span.start, waited)
            busy += max(0.0, span.end - max(span.start, end))
            end = max(end, span.end)
        waited["epilogue"] += max(0.0, laid.end - end)
    return _Shares(busy, {cause: cycles for cause, cycles in waited.items() if cycles})


def _blame(waits: Sequence[Span], start: float, end: float, waited: dict[str, float]) -> None:
    """Divide a gap among the waits of a warp, which are in order and do not overlap."""
    left = end - start
    for number in range(max(0, bisect_left(waits, start, key=lambda span: span.end)), len(waits)):
        span = waits[number]
        if span.start >= end:
            break
        cycles = max(0.0, min(span.end, end) - max(span.start, start))
        cause = "issue" if span.what == "tensor core" else span.what
        waited[cause] += cycles
        left -= cycles
    waited["issue"] += left
