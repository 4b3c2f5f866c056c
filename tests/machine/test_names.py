"""What messages call the memory of a kernel whose front end names its arguments and variables."""

from __future__ import annotations

import numpy as np
import pytest

import tcemu
from tcemu.errors import MemoryFault
from tcemu.machine.allocation import Shared


def named(kernel, **names):
    kernel.argument_names = {int(place[1:]): name for place, name in names.items()}
    return kernel


def test_an_access_outside_an_argument_or_a_variable():
    def kernel(warp, which, a, table):
        with warp.only(warp.laneid == 3):
            warp.ld_global((a + 32, table + 20)[which])

    named(kernel, _1="argument A", _2="variable table")
    given = np.zeros(8, np.float32), np.zeros(4, np.float32)
    for which, says in enumerate(
        (r"0 bytes after the end of argument A \(256 to 288\)", "4 bytes after the end of variable table")
    ):
        with pytest.raises(MemoryFault, match=says):
            tcemu.launch(kernel, args=(which, *given), sanitizer="off")


def test_reports_and_partings():
    def kernel(warp, a):
        warp.st_global(a, warp.ctaid[0])

    named(kernel, _0="argument A")
    result = tcemu.launch(kernel, 2, args=(np.zeros(8, np.uint32),), sanitizer="collect")
    assert result.reports[0].what == "bytes 0 to 3 of argument A"

    def hasty(warp, source, out):
        warp.cp_async(4 * warp.laneid, source.at(warp.laneid), 4)
        warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * warp.laneid))

    named(hasty, _1="argument out")
    source, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    more = {"shared": 128, "policy": ("late", "early"), "sanitizer": "off"}
    (parted,) = tcemu.launch(hasty, args=(source, out), **more).parted
    assert str(parted).startswith("argument out at [1] is")


def test_variables_in_shared_memory():
    shared = Shared.placed(1040, {"tile": (0, (1024,), np.uint8), "full": (1024, 2, np.uint64)})

    def racing(warp):
        warp.st_shared(128 + 4 * warp.laneid, warp.warpid)

    def outside(warp):
        warp.ld_shared(1044)

    (report,) = tcemu.launch(racing, block=64, shared=shared, sanitizer="collect").reports
    assert report.what == "bytes 128 to 255 of shared memory (bytes 128 to 255 of tile)"
    with pytest.raises(MemoryFault, match="which has 1040 bytes in this launch: 4 bytes after the end of full"):
        tcemu.launch(outside, shared=shared, sanitizer="off")
    with pytest.raises(MemoryFault, match=r"which has 1040 bytes in this launch \("):
        tcemu.launch(lambda warp: warp.ld_shared(-4), shared=shared, sanitizer="off")
