"""The tables of faulty and correct kernels for the sanitizer's tests, and what the kernels share.

Every kernel is called as kernel(warp, g), where g points to BYTES bytes of global memory. The line that a faulty one
is to be reported at ends in a comment "<- reported".
"""

import inspect
from dataclasses import dataclass, field

import numpy as np

from tcemu.errors import TcemuError, UndefinedBehaviour
from tcemu.layouts import Descriptor
from tcemu.machine.launch import launch
from tcemu.sanitizer import Sanitizer
from tcemu.sanitizer.rules import EXAMPLES

#: Global memory that a kernel may use.
BYTES = 1 << 15
MARK = "# <- reported"


@dataclass(frozen=True)
class Row:
    """A kernel, how it is launched, and for a faulty one the rule it breaks."""

    kernel: object
    rule: str = ""
    options: dict = field(default_factory=dict)

    @property
    def name(self):
        return self.kernel.__name__

    @property
    def lines(self):
        """The lines one of which is to be reported: more than one where a mistake shows at different places."""
        lines, first = inspect.getsourcelines(self.kernel)
        marked = [first + number for number, text in enumerate(lines) if text.rstrip().endswith(MARK)]
        assert marked, f"{self.name} has no marked line"
        return marked

    def marks(self, report):
        """Whether the report is of a marked line, or of a function that a marked line calls."""
        return not {site.line for site in (report.site, *report.callers)}.isdisjoint(self.lines)

    def launch(self, mode="collect", **options):
        """The sanitizer after a launch, whether or not the launch came to its end."""
        sanitizer = Sanitizer(mode)
        given = {"block": 128, "shared": 8192, **self.options, **options}
        try:
            launch(self.kernel, args=(np.zeros(BYTES, np.uint8),), observers=(sanitizer,), **given)
        except UndefinedBehaviour:
            raise
        except TcemuError:
            assert sanitizer.reports, "the launch failed without a report"
        return sanitizer


#: The smallest kernel for each rule comes from the package, which shows it to readers.
FAULTY: list[Row] = [Row(each.kernel, rule, dict(each.options)) for rule, each in EXAMPLES.items()]
CORRECT: list[Row] = []


def faulty(rule, **options):
    """Put a kernel into the table of those that break `rule`."""

    def add(kernel):
        FAULTY.append(Row(kernel, rule, options))
        return kernel

    return add


def correct(**options):
    """Put a kernel into the table of those that break none."""

    def add(kernel):
        CORRECT.append(Row(kernel, "", options))
        return kernel

    return add


# ------------------------------------------------------------------------------------------------ what kernels share

MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
#: D of 64 x 8 in four registers, A of 64 x 16, B of 8 x 16, without a swizzle.
A, B, A_BYTES, B_BYTES = 0, 2048, 2048, 256
IMMEDIATES = (1, 1, 0, 0)


def tiles(stage=0):
    """Descriptors of A and B in a stage of 4096 bytes."""
    first = 4096 * stage
    a = Descriptor.for_tile("f16", 64, 16, swizzle=0, start=first + A)
    return a, Descriptor.for_tile("f16", 8, 16, swizzle=0, start=first + B)


def fill(warp, stage=0):
    """Threads 0 to 127 store the tiles of A and B."""
    first = 4096 * stage + 16 * warp.threads
    with warp.only(warp.threads < 128):
        warp.st_shared(first + A, 0, "v4.b32")
    with warp.only(warp.threads < 16):
        warp.st_shared(first + B, 0, "v4.b32")


def mma(warp, d, stage=0, scale_d=1):
    """One mma_async on the tiles of a stage."""
    return warp.run(MMA, d, *tiles(stage), scale_d, *IMMEDIATES)


def ready(warp, stage=0):
    """The tiles of a stage, stored, fenced and behind a barrier."""
    fill(warp, stage)
    warp.fence_proxy_async()
    warp.bar_sync()


def finish(warp):
    """Commit and wait for everything."""
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)


def one(warp):
    """Only one lane of this warp."""
    return warp.only(warp.elect_sync())


def barrier(warp, *addresses, count=1):
    """Initialise mbarriers by one lane of warp 0, and let everybody know."""
    if warp.warpid == 0:
        with one(warp):
            for address in addresses:
                warp.mbarrier_init(address, count)
            warp.fence_mbarrier_init()
    warp.bar_sync()


def load(warp, to, source, size, full, expect=None):
    """One lane arms `full` and copies `size` bytes."""
    with one(warp):
        warp.mbarrier_arrive_expect_tx(full, size if expect is None else expect)
        warp.cp_async_bulk_shared_global(to, source, size, full)
