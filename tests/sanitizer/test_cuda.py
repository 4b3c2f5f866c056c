"""CUDA C++ kernels that break the rules of the sanitizer, one for each rule, and twins that do the same rightly.

cuda/faulty.cu has them, with the lines that are reported; cuda/faulty.ptx is what NVRTC made of it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from quick import some

import tcemu.cuda
import tcemu.ptx
from tcemu.errors import TcemuError
from tcemu.sanitizer import RULES, Sanitizer

FOLDER = Path(__file__).parent / "cuda"
LINES = (FOLDER / "faulty.cu").read_text(encoding="utf-8").splitlines()
#: The kernels, with the type of what they get.
KERNELS = dict(re.findall(r'^extern "C" __global__ void (\w+)\((\w+)\* g\)', "\n".join(LINES), re.MULTILINE))
#: (blocks, threads of a block), where these are not one block of one warp.
SHAPES = {
    (2, 32): "global_race lock_without_a_fence stale_load",
    (1, 64): "shared_race exited_threads mbarrier_init_fence proxy_fence_missing proxy_fence_thread "
    "proxy_fence_barrier flag_never_set_right barriers_parted_right",
    (1, 128): "barrier_threads setmaxnreg_count wgmma_right wgmma_fence_first wgmma_uncommitted "
    "wgmma_unwaited wgmma_wait_weak warpgroup_divergent wgmma_descriptors",
    (1, 160): "warpgroup_start",
}
#: The rule of a kernel whose name is not that of the rule.
RULE_OF = {"lock_without_a_fence": {"global-race", "lane-race"}}
#: Rules that CUDA C++ cannot break here: the registers that a compiler assigns are not the kernel's, fragments of
#: nvcuda::wmma have types, and try_cancel needs a newer target; and warnings about tiles, which need no new kernels.
WITHOUT = {
    "uninitialised-registers", "wgmma-fence-touched", "wgmma-fence-shape", "wgmma-fence-unneeded", "wmma-mixed",
    "cancel-after-failure", "cancel-response", "swizzle-mismatch", "tile-layout",
}  # fmt: skip
#: Not reported yet: native code does not say which registers it reads.
UNSEEN = {"wgmma_unwaited", "wgmma_wait_weak"}


def shape_of(name):
    for shape, names in SHAPES.items():
        if name in names.split() or name.removesuffix("_right") in names.split():
            return shape
    return 1, 32


@pytest.fixture(scope="module")
def stored():
    return tcemu.ptx.load(FOLDER / "faulty.ptx")


def reports_of(module, name):
    g = np.zeros(8192, np.float32 if KERNELS[name] == "float" else np.uint32)
    return module[name](*shape_of(name), g, shared=4096, sanitizer="collect", operations=100_000).reports


def check(name, reports):
    if name.endswith("_right"):
        assert not reports
        return
    first = reports[0]
    assert first.rule in RULE_OF.get(name, {name.replace("_", "-")})
    assert Path(first.site.file).name == "faulty.cu"
    assert any("<- reported" in LINES[site.line - 1] for site in (first.site, *first.callers)), str(first)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.xfail(strict=True)) if name in UNSEEN else name for name in KERNELS],
)
def test_stored_ptx(stored, name):
    check(name, reports_of(stored, name))


def test_functions_are_named_as_in_the_source(stored):
    (report,) = reports_of(stored, "mbarrier_arrivals")
    assert re.fullmatch(r"(.*::)?arrive(\(.*\))?", report.site.function)
    assert [caller.function for caller in report.callers] == ["mbarrier_arrivals"]


def test_every_rule_has_a_kernel():
    rules = {name.replace("_", "-") for name in KERNELS}
    assert set(RULES) - rules == WITHOUT


@pytest.mark.slow
@pytest.mark.skipif(not tcemu.cuda.available(), reason="needs NVRTC")
def test_what_nvrtc_makes_of_it_today(row):
    module = tcemu.cuda.compile(FOLDER / "faulty.cu", arch="sm_90a")
    for name in set(KERNELS) - UNSEEN:
        with row(name):
            check(name, reports_of(module, name))


def test_errors_come_at_the_line(stored):
    with pytest.raises(TcemuError) as caught:
        stored["out_of_range"](1, 32, np.zeros(8192, np.uint32), sanitizer="off")
    line = 1 + LINES.index("  g[8192 - 16 + lane()] = 1;  // <- reported")
    assert "lane 16: address 33024, 4 bytes, lies outside global memory: 0 bytes after the end of" in str(caught.value)
    assert f"faulty.cu:{line})" in str(caught.value)


class Singly:
    """A sanitizer that gets each native access by itself."""

    def __init__(self):
        self.inner = Sanitizer("collect")
        self.hears, self.follows, self.once = self.inner.hears, self.inner.follows, self.inner.once

    def __call__(self, event):
        self.inner(event)

    @property
    def reports(self):
        return self.inner.reports


@pytest.mark.parametrize("name", some(KERNELS, 12))
def test_batches_change_no_report(stored, name):
    pytest.importorskip("numba")
    told = []
    for watch in (Sanitizer("collect"), Singly()):
        g = np.zeros(8192, np.float32 if KERNELS[name] == "float" else np.uint32)
        with suppress(TcemuError):
            more = {"shared": 4096, "sanitizer": "off", "operations": 100_000, "observers": [watch]}
            stored[name](*shape_of(name), g, **more)
        told.append([str(report) for report in watch.reports])
    assert told[0] == told[1]
