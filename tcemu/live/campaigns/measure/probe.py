"""A probe: pieces of PTX to be timed, and the kernel that times them.

Each part of a probe becomes two loops, one with its copies and one with twice as many. Both run the same number of
times and are timed with clock64. The cost is what the second half of the copies adds; the loop, the clock and the start
and end of the pipeline take the same time in both and cancel. That time is reported as the overhead.

Everything runs twice within a launch and the second run counts, so that code and data are in the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions import target_named
from tcemu.live.process.job import Argument, Job
from tcemu.live.ptx import SHARED, module

Array = npt.NDArray[Any]

#: Number of iterations of a loop.
TRIPS = 32
#: Conditions of a measurement: {"warps": 16}.
How = Mapping[str, str | int]


#: The PTX of copy number i; the second argument makes labels unique, different in each copy.
Body = Callable[[int, str], str]


def always(text: str) -> Body:
    """The same PTX for each copy."""
    return lambda *_: text


@dataclass(frozen=True)
class Part:
    """One piece of PTX to be timed."""

    instruction: str
    #: A word of tcemu.timing.costs.WHAT.
    what: str
    how: How
    body: Body
    #: Copies in the shorter loop.
    copies: int
    #: Number of instructions that one copy represents, of all warps together.
    per: int = 1
    #: PTX after a loop, before its clock is read, that waits for the last copies. {tag} stands for a unique label.
    settle: str = ""
    #: PTX at the end of each iteration.
    each_trip: str = ""


@dataclass(frozen=True)
class Probe:
    """A kernel of one block, or of a few, that times its parts one after the other.

    Its PTX may use %thread, %lane, %base (the block's shared memory), %memory (bytes in global memory), %at
    (this thread's word of `lanes`), and what it declares itself.
    """

    parts: tuple[Part, ...]
    threads: int = 32
    declare: str = ""
    setup: str = ""
    #: Ends the kernel: uses results, so that the assembler keeps the code that computes them.
    sink: str = ""
    #: Bytes of shared memory, and their initial contents as a function of the address where they begin.
    shared: int = 1024
    image: Callable[[int], Array] | None = None
    #: A word for each thread (usually an address), as a function of the address where shared memory begins.
    lanes: Callable[[int], Array] | None = None
    #: Bytes of global memory that the probe reads.
    memory: int = 256
    trips: int = TRIPS
    #: Blocks, and whether they are a cluster.
    blocks: int = 1
    clustered: bool = False
    #: The kernel's name: no two probes have the same.
    name: str = field(default="probe")

    @property
    def warps(self) -> int:
        """Warps of the block."""
        return (self.threads + 31) // 32

    def ptx(self, version: str, target: str) -> str:
        """The module; its entry is called `name`."""
        lines = [
            _HEAD.format(
                bytes=SHARED,
                words=self.shared // 4,
                threads=self.threads,
                stride=32 * len(self.parts),
                fence="fence.proxy.async;" if target_named(target).number >= 90 else "",
            ),
            self.declare,
            self.setup,
            "mov.u32 %again, 0;",
            "AGAIN:",
        ]
        for index, part in enumerate(self.parts):
            for half in (0, 1):
                lines += self._loop(part, 2 * index + half, part.copies * (1 + half))
        lines += ["add.u32 %again, %again, 1; setp.lt.u32 %more, %again, 2; @%more bra AGAIN;", self.sink, "ret;"]
        tuning = f".maxntid {self.threads} .minnctapersm 1"
        if self.clustered:
            tuning += f" .explicitcluster .reqnctapercluster {self.blocks}"
        return module(version, target, self.name, _PARAMETERS, lines, shared=True, tuning=tuning)

    def _loop(self, part: Part, number: int, copies: int) -> list[str]:
        times = f"[%times+{number * 16}]"
        return [
            "bar.sync 0; mov.u32 %count, 0; mov.u64 %start, %clock64;",
            f"LOOP{number}:",
            '.pragma "nounroll";',
            *(part.body(copy, f"{number}_{copy}") for copy in range(copies)),
            part.each_trip,
            f"add.u32 %count, %count, 1; setp.lt.u32 %more, %count, %trips; @%more bra LOOP{number};",
            part.settle.replace("{tag}", f"_END{number}"),
            "mov.u64 %end, %clock64;",
            f"@%first st.global.v2.u64 {times}, {{%start, %end}};",
        ]

    def job(self, version: str, target: str, base: int, trips: int | None = None) -> Job:
        """One launch of it."""
        image = np.zeros(self.shared, np.uint8) if self.image is None else self.image(base)
        lanes = np.zeros(self.threads, np.uint32) if self.lanes is None else self.lanes(base)
        memory = np.zeros(self.memory, np.uint8)
        arguments = (
            Argument("image", "in", np.ascontiguousarray(image).view(np.uint8)),
            Argument("lanes", "in", np.ascontiguousarray(lanes, np.uint32)),
            Argument("memory", "in", memory),
            Argument("times", "out", None, (self.warps, len(self.parts), 2, 2), "<u8"),
            Argument("trips", "scalar", np.uint32(self.trips if trips is None else trips)),
            Argument("sink", "out", None, (self.threads,), "<u8"),
        )
        code = self.ptx(version, target)
        return Job("ptx", code, self.name, (self.blocks,), (self.threads,), arguments, shared=self.shared)

    def read(self, times: Array) -> list[tuple[float, float]]:
        """(cycles of an instruction, overhead in cycles per iteration) for each part, from the clocks of one launch."""
        start, end = times[..., 0].min(axis=0), times[..., 1].max(axis=0)
        short, long = (end - start).astype(np.int64).T
        return [
            ((long[i] - short[i]) / (self.trips * part.copies * part.per), (2 * short[i] - long[i]) / self.trips)
            for i, part in enumerate(self.parts)
        ]


_PARAMETERS = {"image": "u64", "lanes": "u64", "memory": "u64", "times": "u64", "trips": "u32", "sink": "u64"}
#: Registers that every probe has; shared memory is filled from the image.
_HEAD = """\
.reg .b32 %thread, %lane, %base, %at, %count, %trips, %again, %h<4>;
.reg .b64 %memory, %times, %sink, %start, %end, %g<4>;
.reg .pred %first, %more;
mov.u32 %thread, %tid.x; and.b32 %lane, %thread, 31; setp.eq.u32 %first, %lane, 0; mov.u32 %base, {bytes};
ld.param.u64 %memory, [memory]; ld.param.u64 %times, [times]; ld.param.u64 %sink, [sink]; ld.param.u32 %trips, [trips];
ld.param.u64 %g0, [lanes]; mad.wide.u32 %g0, %thread, 4, %g0; ld.volatile.global.u32 %at, [%g0];
ld.param.u64 %g1, [image]; mov.u32 %h0, %thread;
FILL:
setp.ge.u32 %more, %h0, {words}; @%more bra FILLED;
mad.wide.u32 %g2, %h0, 4, %g1; ld.global.u32 %h1, [%g2]; shl.b32 %h2, %h0, 2; add.u32 %h2, %h2, %base;
st.shared.u32 [%h2], %h1; add.u32 %h0, %h0, {threads}; bra FILL;
FILLED:
shr.u32 %h3, %thread, 5; mad.wide.u32 %times, %h3, {stride}, %times; mad.wide.u32 %sink, %thread, 8, %sink;
{fence} bar.sync 0;"""
