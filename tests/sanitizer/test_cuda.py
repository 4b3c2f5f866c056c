"""CUDA C++ kernels that break the rules of the sanitizer, one for each rule, and twins that do the same rightly.

cuda/faulty.cu has them, with the lines that are reported; cuda/faulty.sm_*.ptx is what NVRTC made of it.
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
from tcemu.simt.together import unset_registers

FOLDER = Path(__file__).parent / "cuda"
LINES = (FOLDER / "faulty.cu").read_text(encoding="utf-8").splitlines()
#: The kernels, with the type of what they get.
KERNELS = dict(re.findall(r'^extern "C" __global__ void (\w+)\((\w+)\* g\)', "\n".join(LINES), re.MULTILINE))
#: (blocks, threads of a block), where these are not one block of one warp.
SHAPES = {
    (
        2,
        32,
    ): "global_race sum_without_an_atomic lock_freed_by_a_store lock_without_a_fence stale_load "
    "swap_global swap_begins another_blocks_shared flag_found_at_once flag_and_data_on_one_line",
    (
        1,
        64,
    ): "exited_lanes swap_shared shared_race exited_threads mbarrier_init_fence source_overwritten_by_another "
    "wait_ignored freed_early proxy_fence_missing proxy_fence_thread "
    "proxy_fence_barrier flag_never_set_right barriers_parted_right",
    (
        1,
        128,
    ): "barrier_threads setmaxnreg_count unset_accumulator_of_wgmma wgmma_right wgmma_fence_first wgmma_uncommitted "
    "wgmma_unwaited wgmma_unwaited_by_an_atomic wgmma_unwaited_in_a_loop wgmma_wait_weak warpgroup_divergent "
    "wgmma_descriptors wgmma_fence_unneeded wgmma_fence_shape tile_layout",
    (1, 160): "warpgroup_start",
}
#: The lines of the matrix that kernels about tiles get, in words.
LINES_OF = {"swizzle_mismatch": 32, "tile_layout": 8}
#: The rule of a kernel whose name is not that of the rule.
RULE_OF = {
    "lock_without_a_fence": {"global-race", "lane-race"},
    "into_a_neighbour": {"out-of-range"},
    "wait_ignored": {"shared-race"},
    "sum_without_an_atomic": {"global-race", "lanes-disagree"},
    "lock_freed_by_a_store": {"global-race"},
    "wgmma_unwaited_by_an_atomic": {"wgmma-unwaited"},
    "wgmma_unwaited_in_a_loop": {"wgmma-unwaited"},
    "exited_lanes": {"exited-threads"},
    "beyond_constants": {"out-of-range"},
    "beyond_locals": {"out-of-range"},
    "beyond_malloc": {"out-of-range"},
    "freed": {"out-of-range"},
    "freed_early": {"global-race", "out-of-range"},
    "source_overwritten": {"global-race"},
    "source_overwritten_by_another": {"global-race"},
    "another_threads_local": {"out-of-range"},
    "another_blocks_shared": {"out-of-range"},
    "flag_found_at_once": {"stale-load"},
    "flag_and_data_on_one_line": {"stale-load"},
    "undefined_lanes_stored": {"absent-lanes"},
    "multiplied_after_an_exit": {"aligned-divergent"},
    "tcgen05_wait_for_one_of_two": {"tcgen05-wait"},
    "tcgen05_cells_unset": {"uninitialised-registers"},
    "unset_after_return": {"uninitialised-registers"},
    **{
        f"unset_{what}": {"uninitialised-registers"}
        for what in (
            "in_some_lanes",
            "condition",
            "index",
            "copy",
            "tail",
            "element",
            "element_of_a_caller",
            "accumulator",
            "accumulator_of_wgmma",
        )
    },
    "swap_global": {"global-race"},
    "swap_shared": {"shared-race"},
    "swap_lanes": {"lane-race"},
}
ORDERS = {}, {"policy": "early", "seed": 1}, {"policy": "random", "seed": 2}
#: What each byte of a register holds before anything is written to it, in these orders.
BYTES = 0, 0x4B, 0
#: Rules that no CUDA C++ breaks here, and why.
WITHOUT = {
    "wgmma-fence-touched": "the compiler decides where registers are written: behind the fence in right kernels too",
    "wmma-mixed": "fragments of nvcuda::wmma have types, and registers in PTX do not tell what loaded them",
    **dict.fromkeys(
        (name for name in RULES if name.startswith("tcgen05") and name != "tcgen05-wait"),
        "the corpus has it in Python only",
    ),
}


def shape_of(name):
    for shape, names in SHAPES.items():
        if name in names.split() or name.removesuffix("_right") in names.split():
            return shape
    return 1, 32


def target_of(name):
    return "sm_100a" if name.startswith(("cancel", "tcgen05")) else "sm_90a"


@pytest.fixture(scope="module")
def stored():
    """By target: the kernels as they are stored."""
    return {target: tcemu.ptx.load(FOLDER / f"faulty.{target}.ptx") for target in ("sm_90a", "sm_100a")}


def array_of(name):
    g = np.zeros(8192, np.float32 if KERNELS[name] == "float" else np.uint32)
    line = LINES_OF.get(name.removesuffix("_right"))
    return g if line is None else g.reshape(-1, line)


def reports_of(modules, name, **order):
    kernel = modules[target_of(name)][name]
    options = {"shared": 4096, "sanitizer": "collect", "operations": 100_000, **order}
    return kernel(*shape_of(name), array_of(name), **options).reports


def check(name, reports):
    if name.endswith("_right"):
        assert not reports
        return
    first = reports[0]
    assert first.rule in RULE_OF.get(name, {name.replace("_", "-")})
    assert Path(first.site.file).name == "faulty.cu"
    assert any("<- reported" in LINES[site.line - 1] for site in (first.site, *first.callers)), str(first)


@pytest.mark.parametrize("name", KERNELS)
def test_stored_ptx(stored, name, row):
    """In every order, whatever registers hold: whether a copy or a wgmma has ended by then makes no difference."""
    for order, byte in zip(ORDERS, BYTES, strict=True):
        with row(str(order)), unset_registers(byte):
            check(name, reports_of(stored, name, **order))


def test_functions_are_named_as_in_the_source(stored):
    (report,) = reports_of(stored, "mbarrier_arrivals")
    assert report.site.function == "arrive"
    assert [caller.function for caller in report.callers] == ["mbarrier_arrivals"]


@pytest.mark.parametrize("name", ["swap_global", "swap_shared", "swap_lanes"])
def test_a_plain_load_before_a_compare_and_swap(stored, name):
    for report in reports_of(stored, name):
        assert report.remedy.startswith("If the load gives the compare-and-swap the value that it expects, make the")
        assert ".load(cuda::memory_order_relaxed), or a load through a pointer to volatile" in report.remedy
        way = {"swap_global": "the thread whose", "swap_shared": "put bar.sync", "swap_lanes": "put bar.warp.sync"}
        assert f"for something else, order the two: {way[name]}" in report.remedy


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sum_without_an_atomic", "atomicAdd"),
        ("lock_freed_by_a_store", "atomicExch(&lock, 0) in its place. If not, order"),
        (
            "into_a_neighbour",
            "st.shared.u32 has an address that was computed from that of left, which is bytes 0 to 127",
        ),
        (
            "unset_element_of_a_caller",
            "a return, or an argument of a call, uses a value that was computed from a variable",
        ),
        (
            "tcgen05_cells_unset",
            "computed from a variable or a cell of Tensor Memory to which nothing had been assigned",
        ),
    ],
)
def test_words(stored, name, words):
    assert any(words in str(report) for report in reports_of(stored, name))


def test_every_rule_has_a_kernel():
    rules = {name.replace("_", "-") for name in KERNELS}
    assert set(RULES) - rules == set(WITHOUT)


@pytest.mark.slow
@pytest.mark.skipif(not tcemu.cuda.available(), reason="needs NVRTC")
def test_what_nvrtc_makes_of_it_today(row):
    modules = {target: tcemu.cuda.compile(FOLDER / "faulty.cu", arch=target) for target in ("sm_90a", "sm_100a")}
    for name in KERNELS:
        with row(name):
            check(name, reports_of(modules, name))


def test_errors_come_at_the_line(stored):
    with pytest.raises(TcemuError) as caught:
        stored["sm_90a"]["out_of_range"](1, 32, np.zeros(8192, np.uint32), sanitizer="off")
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
        with suppress(TcemuError):
            more = {"shared": 4096, "sanitizer": "off", "operations": 100_000, "observers": [watch]}
            stored[target_of(name)][name](*shape_of(name), array_of(name), **more)
        told.append([str(report) for report in watch.reports])
    assert told[0] == told[1]


#: What each kernel of cuda/pipelines.cu copies at a time; it writes each part backwards, but for `thread_scope`.
PIPELINES = {"two_stage": 128, "roles": 64, "thread_scope": 128, "in_a_scope": 128, "count": 64, "quits": 128}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.skipif(not tcemu.cuda.available(), reason="needs NVRTC")
def test_pipelines_of_cuda(target, row):
    """Objects of cuda::pipeline, which the last thread to leave destroys, are used rightly."""
    module, parts = tcemu.cuda.compile(FOLDER / "pipelines.cu", arch=target), 4
    for name, width in PIPELINES.items():
        for seed, policy in enumerate(("late", "early", "random")):
            with row(f"{name}, {policy}"):
                given = np.arange(1, 1 + parts * width, dtype=np.float32)
                found = np.zeros((parts, width), np.float32)
                module[name](1, 128, given, found, parts, seed=seed, policy=policy)
                wanted = given.reshape(parts, width)
                assert (found == (wanted if name == "thread_scope" else wanted[:, ::-1])).all()


IN_PARTS = """
__global__ void in_parts(int* out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    if (t < 16) {
        asm volatile("barrier.OPERATION 1, 64;" ::: "memory");
    } else if (t < 32) {
        s[t] = 1;
        asm volatile("barrier.OPERATION 1, 64;" ::: "memory");
    } else {
        asm volatile("barrier.sync 1, 64;" ::: "memory");
    }
    out[t] = s[(t + 16) % 32];
}
"""


@pytest.mark.parametrize(("operation", "rules"), [("arrive", {"lane-race"}), ("sync", set())])
@pytest.mark.skipif(not tcemu.cuda.available(), reason="needs NVRTC")
def test_lanes_that_come_to_a_barrier_in_parts_meet_where_they_wait(operation, rules):
    kernel = tcemu.cuda.compile(IN_PARTS.replace("OPERATION", operation))["in_parts"]
    for seed in range(4):
        reports = kernel(1, 64, np.zeros(64, np.int32), sanitizer="collect", seed=seed).reports
        assert {each.rule for each in reports} == rules


REUSED = """
__global__ void reused(int* g) {
    for (int i = 0; i < 8; ++i) {
        int* p = (int*)malloc(1 << 15);
        p[0] = i;
        p[100] = g[threadIdx.x];
        g[threadIdx.x] += p[0] + p[100];
        free(p);
    }
}
"""


@pytest.mark.skipif(not tcemu.cuda.available(), reason="needs NVRTC")
def test_what_malloc_gives_out_again_is_another_thread_s_own():
    """64 threads take 16 MiB one after the other; the heap has 8."""
    result = tcemu.cuda.compile(REUSED)["reused"](1, 64, np.zeros(64, np.int32), sanitizer="collect")
    assert not result.reports
