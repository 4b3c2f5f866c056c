"""The sanitizer takes the k steps of a wgmma loop for one mma_async, unless something happens in between."""

import pytest

import tcemu
from tcemu.layouts import Descriptor
from tcemu.sanitizer.wgmma_state import Step

MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
A_BYTES, B_BYTES, STEPS = 2048, 256, 4
TILES, MBARRIERS = STEPS * (A_BYTES + B_BYTES), 80


def initialise(warp):
    """Many mbarriers, which nobody uses."""
    with warp.only(warp.threads == 0):
        for place in range(MBARRIERS):
            warp.mbarrier_init(TILES + 8 * place, 1)


BETWEEN = {
    "nothing": lambda warp, d: None,
    "a read of the accumulator": lambda warp, d: d[:, 0] + 1,
    "a write to the accumulator": lambda warp, d: d.__setitem__((slice(None), 0), 0),
    "a fence": lambda warp, d: warp.wgmma_fence(),
    "a commit": lambda warp, d: warp.wgmma_commit_group(),
    "a commit and a wait": lambda warp, d: (warp.wgmma_commit_group(), warp.wgmma_wait_group(0)),
    "a barrier": lambda warp, d: warp.bar_sync(),
    "more mbarriers than rows of clocks have room for": lambda warp, d: initialise(warp),
    "a store to the next tile": lambda warp, d: warp.st_shared(A_BYTES * 3 + 4 * warp.threads, warp.threads),
    "a store to an earlier tile": lambda warp, d: warp.st_shared(4 * warp.threads, warp.threads),
}
#: What the sanitizer must not report.
SOUND = {"nothing", "more mbarriers than rows of clocks have room for", "a commit", "a commit and a wait", "a barrier"}


def reports_of(between, fences, waits):
    """What the sanitizer reports about four steps with something between the second and the third."""

    def kernel(warp):
        for first in range(0, TILES, 512):
            warp.st_shared(first + 4 * warp.threads, 0)
        warp.fence_proxy_async()
        warp.bar_sync()
        d = warp.registers(4, fill=0)
        if fences:
            warp.wgmma_fence()
        for step in range(STEPS):
            a = Descriptor.for_tile("f16", 64, 16, start=A_BYTES * step)
            b = Descriptor.for_tile("f16", 8, 16, start=A_BYTES * STEPS + B_BYTES * step)
            warp.run(MMA, d, a, b, step > 0, 1, 1, 0, 0)
            if step == 1:
                BETWEEN[between](warp, d)
        warp.wgmma_commit_group()
        if waits:
            warp.wgmma_wait_group(0)
        warp.st_shared(4 * warp.threads, d[:, 0])

    found = tcemu.launch(kernel, block=128, shared=TILES + 8 * MBARRIERS, sanitizer="collect").reports
    return {(each.rule, each.by.site.line, each.earlier and each.earlier.by.site.line) for each in found}


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("fences", [True, False])
@pytest.mark.parametrize("between", BETWEEN)
def test_it_reports_what_it_would_report_step_by_step(between, fences, waits, monkeypatch):
    together = reports_of(between, fences, waits)
    monkeypatch.setattr(Step, "repeats", lambda *_: False)
    assert together == reports_of(between, fences, waits)
    if fences and waits:
        assert bool(together) == (between not in SOUND)
