"""The timeline: what a kernel costs by the table of costs, and what a GPU took for the main loops of tcemu.gemm."""

import json

import numpy as np
import pytest
from places import GOLDEN
from quick import THOROUGH, some, spread, turn

import tcemu
from benchmarks import main_loops
from benchmarks import timeline as benchmark
from tcemu import gemm, sparse
from tcemu.errors import CostUnknown, OperandError
from tcemu.gemm import mma_pipeline, mma_sparse, split_k, wgmma_epilogue, wgmma_tma
from tcemu.launcher import observing
from tcemu.layouts import Descriptor
from tcemu.timing import Counters, Timeline, trace
from tcemu.timing.costs import costs

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
TABLE = costs("sm_90a")


def laid(kernel, block=32, grid=1, args=(), sms=132, **more):
    timeline = Timeline(sms=sms)
    tcemu.launch(kernel, grid, block, args, observers=[timeline], sanitizer="off", **more)
    return timeline


def units(timeline, unit):
    return [span for span in timeline.spans if span.unit == unit]


# ------------------------------------------------------------------------------------------------ one unit at a time


def chain(warp, count, accumulators):
    a, b = warp.registers(4, fill=0), warp.registers(2, fill=0)
    c = [warp.registers(4, fill=0) for _ in range(accumulators)]
    for number in range(count):
        c[number % accumulators] = warp.run(MMA, a, b, c[number % accumulators])


def starts(timeline):
    return [span.start for span in units(timeline, "tensor core")]


def test_a_chain_of_products_takes_the_measured_latency():
    steps = np.diff(starts(laid(chain, args=(10, 1))))
    assert steps == pytest.approx(np.full(9, 24.0), abs=0.5)  # TABLE: latency through c, 23.97 and 24.0


def test_independent_products_take_the_measured_interval():
    steps = np.diff(starts(laid(chain, args=(40, 8))))
    interval = TABLE.find(MMA, "interval", {"warps": 1}).median
    assert np.median(steps) == interval == 6.0


def test_warps_of_one_sub_partition_share_a_tensor_core():
    alone, together = (laid(chain, block=32 * warps, args=(40, 8)) for warps in (4, 8))
    assert {span.number for span in units(alone, "tensor core")} == {0, 1, 2, 3}
    busy = [sum(span.end - span.start for span in units(each, "tensor core")) for each in (alone, together)]
    assert busy == [4 * 40 * 6, 8 * 40 * 6]
    assert together.cycles > 1.7 * alone.cycles


def multiply(warp, count):
    c = warp.registers(64, fill=0)
    a = Descriptor.for_tile("f16", 64, 16, swizzle=0)
    b = Descriptor.for_tile("f16", 128, 16, swizzle=0, start=4096)
    warp.wgmma_fence()
    for _ in range(count):
        warp.run(WGMMA, c, a, b, 1, 1, 1, 0, 0)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)


def test_a_wgmma_occupies_all_four_tensor_cores_for_the_measured_interval():
    timeline = laid(multiply, block=128, args=(8,), shared=16384)
    spans = units(timeline, "tensor core")
    assert [span.number for span in spans] == 8 * [0, 1, 2, 3]
    assert [span.end - span.start for span in spans] == pytest.approx(32 * [64.0])  # TABLE: interval
    (group,) = timeline.groups
    whole = 7 * 64 + TABLE.find(WGMMA, "latency", {"a": "shared"}).median
    assert group.completed - spans[0].start == pytest.approx(whole)
    assert group.issued <= group.committed < group.completed <= group.waited
    assert timeline.busy == pytest.approx(8 * 64 / timeline.cycles)


@pytest.mark.parametrize(("stride", "wavefronts"), [(4, 1), (16, 4), (128, 32)])
def test_shared_memory_delivers_a_wavefront_in_a_cycle(stride, wavefronts):
    def load(warp):
        found = [warp.ld_shared(stride * warp.laneid) for _ in range(32)]
        warp.st_shared(4 * warp.laneid, found[-1])

    timeline = laid(load, block=256, shared=4096)
    least = 8 * 32 * wavefronts
    assert least <= timeline.cycles if wavefronts > 1 else True
    assert timeline.cycles < 1.2 * least + 400


# ------------------------------------------------------------------------------------------------ waits


def test_warps_wait_for_the_last_one_at_a_barrier():
    def late(warp):
        if warp.warpid == 3:
            chain(warp, 20, 1)
        warp.bar_sync()

    timeline = laid(late, block=128)
    waits = {span.warp: span for span in units(timeline, "warp") if span.what == "barrier"}
    assert set(waits) == {0, 1, 2, 3}
    assert waits[0].end - waits[0].start > 19 * 24 > waits[3].end - waits[3].start
    after = TABLE.find("bar.sync", "interval", {"warps": 4}).median
    assert waits[3].end - waits[3].start == pytest.approx(after, abs=2)
    assert len({span.end for span in waits.values()}) == 1


def test_a_wait_for_a_copy_takes_the_measured_latency():
    def copying(warp, source):
        warp.cp_async(16 * warp.laneid, source.at(4 * warp.laneid), 16, cache="cg")
        warp.cp_async_commit_group()
        warp.cp_async_wait_group(0)

    timeline = laid(copying, args=(np.zeros(128, np.float32),), shared=512)
    (group,) = timeline.groups
    assert group.completed - group.issued == pytest.approx(275.5, abs=1)  # TABLE: cp.async.cg of 512 bytes from the L2
    (wait,) = [span for span in units(timeline, "warp") if span.waits and span.what == "copy"]
    assert wait.end == group.completed == group.waited


def test_a_producer_is_waited_for_and_waits_itself():
    timeline = Timeline()
    a, b = np.ones((64, 1024), np.float16), np.ones((1024, 128), np.float16)
    wgmma_tma.multiply(a, b, wgmma_tma.Plan(stages=2), observers=[timeline])
    causes = {(span.warp, span.what) for span in units(timeline, "warp") if span.waits}
    assert {(0, "copy"), (4, "mbarrier")} <= causes  # consumers wait for copies, the producer for empty stages
    assert max(timeline.waited, key=timeline.waited.get) == "copy"
    faster = Timeline()
    wgmma_tma.multiply(a, b, wgmma_tma.Plan(stages=4), observers=[faster])
    assert faster.cycles < 0.7 * timeline.cycles
    assert faster.busy > timeline.busy


PLANS = [wgmma_tma.Plan("e4m3", promote=True), wgmma_tma.Plan(consumers=2, in_flight=0)]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_shares_add_up_and_nothing_overlaps(plan):
    timeline = Timeline()
    dtype = tcemu.formats.lookup(plan.element).dtype
    a, b = np.ones((plan.rows, 512), dtype), np.ones((512, plan.columns), dtype)
    wgmma_tma.multiply(a, b, plan, observers=[timeline], sanitizer="off")
    assert timeline.busy + sum(timeline.waited.values()) == pytest.approx(1)
    for unit in ("warp", "tensor core"):
        rows = {}
        for span in units(timeline, unit):
            assert span.start >= rows.get(span.number, 0) - 1e-9, span
            rows[span.number] = span.end if span.waits or unit != "warp" else span.start
    assert all(group.completed > group.issued for group in timeline.groups)


# ------------------------------------------------------------------------------------------------ blocks


def test_blocks_that_fit_run_together_and_others_after_each_other():
    one = laid(chain, args=(40, 1))
    both = laid(chain, grid=2, args=(40, 1), sms=1)
    assert both.blocks[0][0] == both.blocks[1][0] == 0
    apart = laid(chain, grid=2, args=(40, 1), sms=1, shared=120 << 10)
    assert apart.cycles == pytest.approx(2 * one.cycles)
    assert apart.blocks[1][0] == apart.blocks[0][1]
    assert laid(chain, grid=2, args=(40, 1)).cycles == one.cycles, "each on its own SM"


def test_work_grows_with_the_number_of_blocks():
    few, many = (laid(chain, grid=grid, args=(8, 2), sms=300) for grid in (3, 300))
    assert len(many.spans) == 100 * len(few.spans)


def test_a_timeline_keeps_the_latest_launch():
    timeline = Timeline()
    for count in (20, 10):
        tcemu.launch(chain, 1, 32, (count, 1), observers=[timeline], policy=("late", "early"))
    assert len(units(timeline, "tensor core")) == 10


def test_it_says_what_is_missing():
    with pytest.raises(OperandError, match="sms= must be a number of SMs"):
        Timeline(sms=0)
    timeline = Timeline()
    assert (timeline.cycles, timeline.busy, timeline.waited) == (0, 0, {})
    tcemu.launch(chain, 1, 32, (4, 1), observers=[timeline], target="sm_80")
    with pytest.raises(CostUnknown, match="there is no table of costs for sm_80"):
        _ = timeline.cycles
    other = Timeline(TABLE)
    tcemu.launch(chain, 1, 32, (4, 1), observers=[other], target="sm_80")
    assert other.cycles > 3 * 24


def kernels():
    """Every kernel of tcemu.gemm, small."""
    a, b = np.ones((64, 128), np.float16), np.ones((128, 64), np.float16)
    square = np.ones((64, 64), np.float16)
    return {
        "wmma_global": lambda **more: gemm.wmma_global.multiply(a, b, **more),
        "mma_pipeline": lambda **more: mma_pipeline.multiply(a, b, 4, **more),
        "mma_sparse": lambda **more: mma_sparse.multiply(sparse.prune(a, mma_sparse.MMA), b, **more),
        "wgmma_tma": lambda **more: wgmma_tma.multiply(a, b, wgmma_tma.Plan(columns=64), **more),
        "wgmma_sparse": lambda **more: gemm.wgmma_sparse.multiply(
            sparse.prune(a, gemm.wgmma_sparse.DEFAULT.mma), b, gemm.wgmma_sparse.SparsePlan(columns=64), **more
        ),
        "wgmma_epilogue": lambda **more: wgmma_epilogue.multiply(
            a, b, np.ones(64, np.float32), wgmma_tma.Plan(columns=64), **more
        ),
        "attention": lambda **more: gemm.attention.attend(square, square, square, **more),
    }


@pytest.mark.parametrize("name", kernels())
def test_cycles_do_not_depend_on_the_order_in_which_the_machine_runs_warps(name):
    found = []
    for seed, policy in ((0, "late"), (0, "early"), (7, "random")):
        timeline = Timeline()
        kernels()[name](observers=[timeline], sanitizer="off", seed=seed, policy=policy)
        found.append(timeline)
    assert 0 < found[0].busy < 1
    assert [each.cycles for each in found] == pytest.approx(3 * [found[0].cycles])
    assert found[1].waited == pytest.approx(found[0].waited)


def test_a_launch_that_ends_early_is_laid_out_as_far_as_it_went():
    def stuck(warp):
        chain(warp, 4, 1)
        warp.mbarrier_init(0, 2)
        warp.mbarrier_wait(0, 0)

    timeline = Timeline()
    with pytest.raises(tcemu.LaunchError):
        tcemu.launch(stuck, shared=64, observers=[timeline], sanitizer="off")
    assert len(units(timeline, "tensor core")) == 4
    assert timeline.cycles > 3 * 24


#: What `nvcc -arch=sm_90a -Xptxas -v` of CUDA 13.0 says of the twins of `kernels`.
PTXAS = {
    "mma_pipeline": 92,
    "mma_sparse": 64,
    "wgmma_tma": 58,
    "wgmma_sparse": 62,
    "wgmma_epilogue": 58,
}


@pytest.mark.parametrize("name", PTXAS)
def test_registers_are_estimated_from_those_that_hold_values_at_the_same_time(name):
    timeline = Timeline()
    kernels()[name](observers=[timeline], sanitizer="off")
    assert timeline.registers == pytest.approx(PTXAS[name], rel=0.25), "an estimate"


def test_registers_of_f64_count_twice():
    def sums(warp, dtype):
        held = [warp.registers(4, fill=0, dtype=dtype) for _ in range(10)]
        for each in held:
            each[:] = 1
        for each in held:
            each[:] = each[:] + 1

    few, many = (laid(sums, args=(dtype,)) for dtype in (np.uint32, np.uint64))
    assert many.registers - few.registers == 40


def test_registers_decide_how_many_blocks_an_sm_holds():
    def crowded(warp):
        held = [warp.registers(8) for _ in range(16)]
        for each in held + held:
            each[:] = 1

    assert laid(crowded, block=256).resident == 1  # 154 registers, so 160 for each of 256 threads: 40 of 64 Ki
    assert laid(crowded, block=128).resident == 3


# ------------------------------------------------------------------------------------------------ other views


def test_the_trace_has_every_span():
    timeline = laid(multiply, block=128, args=(2,), shared=16384)
    made = json.loads(json.dumps(trace(timeline)))
    spans = [event for event in made["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == len(timeline.spans)
    names = {event["args"]["name"] for event in made["traceEvents"] if event["ph"] == "M"}
    assert {"block 0", "warp 3", "tensor core 2"} <= names
    assert [event["ph"] for event in made["traceEvents"] if "id" in event] == ["b", "e"]


def test_launches_inside_other_functions_are_observed():
    seen = []

    def begin(kernel):
        seen.append((kernel.__name__, Timeline(), Counters()))
        return seen[-1][1:]

    a = np.ones((64, 64), np.float16)
    with observing(begin):
        split_k.multiply(a, a, 2)
    split_k.multiply(a, a, 2)
    assert len(seen) == 2, "the products and their sum; not the launches afterwards"
    assert all(timeline.cycles > 0 and counters.total.issued for _, timeline, counters in seen)


# ------------------------------------------------------------------------------------------------ counters


def test_counters_count_conflicts_by_line():
    counters = Counters()

    def transposed(warp, tile):
        row = warp.laneid
        for column in range(4):
            warp.st_shared(tile * row + 4 * column, row)  # 32 rows: all in one bank, unless a row is padded

    for tile, conflicts in ((128, 4 * 31), (132, 0)):
        counters = Counters()
        tcemu.launch(transposed, 1, 32, (tile,), shared=32 * 132, observers=[counters])
        (line,) = [line for line in counters.lines if line.wavefronts]
        assert (line.opcode, line.issued, line.conflicts) == ("st.shared.b32", 4, conflicts)
        assert line.shared_written == 4 * 128
        assert line.site.function.endswith("transposed")


def test_counters_count_sectors_and_bytes():
    counters = Counters()

    def reading(warp, source):
        warp.ld_global(source.at(warp.laneid))  # 128 bytes in a row: 4 sectors
        warp.ld_global(source.at(8 * warp.laneid))  # a sector for each lane
        warp.ld_global(source.at(np.zeros(32, np.int64)))  # one for all

    tcemu.launch(reading, 2, 32, (np.zeros(256, np.float32),), observers=[counters])
    assert sorted(line.sectors for line in counters.lines) == [2, 8, 64]  # two blocks
    assert counters.total.global_read == 2 * 3 * 128
    assert counters.issued["ld.global.b32"] == 6
    table = str(counters).splitlines()
    assert table[0].split() == [
        "line", "instruction", "issued", "wavefronts", "conflicts", "shared", "bytes", "global", "bytes", "sectors",
        "fetched", "bytes", "copied", "bytes",
    ]  # fmt: skip
    assert table[-1].split() == ["all", "6", "-", "-", "-", "768", "74", "-", "-"]


def test_the_counts_of_a_kernel_follow_from_its_sizes():
    counters = Counters()
    m, n, k = 128, 64, 96
    a, b = np.ones((m, k), np.float16), np.ones((k, n), np.float16)
    mma_pipeline.multiply(a, b, observers=[counters])
    products = m * n * k // (16 * 8 * 16)
    assert counters.issued[MMA] == products
    assert counters.total.copied == (m // 64) * (n // 64) * 2 * k * (64 + 64)
    assert counters.total.global_written == 4 * m * n
    assert counters.total.wavefronts == products // 2 * 4, "an ldmatrix of 4 wavefronts for every two products"
    assert counters.total.conflicts == 0


def test_a_multicast_reads_once_and_delivers_to_each_block():
    """A box of 512 bytes goes to both blocks of a cluster, and 128 bytes by st.async from each block to the other."""
    counters = Counters()

    def kernel(warp, x):
        other, elected = 1 - warp.cluster_ctarank, warp.elect_sync()
        with warp.only(elected):
            warp.mbarrier_init(1024, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(1024, 512 + 128)
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        if warp.cluster_ctarank == 0:
            with warp.only(elected):
                warp.cp_async_bulk_shared_global(0, x, 512, 1024, cta_mask=3)
        warp.st_async(warp.mapa(512 + 4 * warp.laneid, other), 1, warp.mapa(1024, other))
        warp.mbarrier_wait(1024, 0)
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()

    tcemu.launch(kernel, 2, 32, (np.zeros(128, np.float32),), shared=1032, cluster=2, observers=[counters])
    total = counters.total
    assert (total.fetched, total.copied, total.sectors) == (512, 2 * 512 + 2 * 128, 512 // 32)


def test_copies_read_only_what_there_is():
    """The rest of a copy with a src-size is zeros, which nothing reads."""
    counters = Counters()

    def kernel(warp, x):
        warp.cp_async(16 * warp.laneid, x.at(4 * warp.laneid), 16, np.where(warp.laneid < 8, 16, 0))
        warp.cp_async_wait_all()

    tcemu.launch(kernel, args=(np.zeros(128, np.float32),), shared=512, observers=[counters])
    assert (counters.total.fetched, counters.total.copied) == (8 * 16, 512)


# ------------------------------------------------------------------------------------------------ silicon


MEASURED = benchmark.measured()
EVERY = [*main_loops.SETTINGS, *main_loops.UNSEEN]


def test_every_setting_was_measured_once():
    names = [str(setting) for part in benchmark.PARTS.values() for setting in part]
    assert len(set(names)) == len(names) >= 30
    assert set(names) == set(MEASURED)


@pytest.mark.slow
@pytest.mark.parametrize("setting", some([EVERY[0], EVERY[13], EVERY[24], EVERY[-4]], 2), ids=str)
def test_some_main_loops_take_what_a_gpu_took(setting):
    assert benchmark.predicted(setting) == pytest.approx(MEASURED[str(setting)], rel=0.25)


@pytest.mark.parametrize("columns", [32, 64])
def test_two_warpgroups_with_small_tiles_wait_for_issue_slots(columns):
    """Alone, each would be done with its descriptors before the next stage is there."""
    setting = main_loops.Hopper(wgmma_tma.Plan(columns=columns, consumers=2, stages=4))
    assert benchmark.predicted(setting) == pytest.approx(MEASURED[str(setting)], rel=0.1)


@pytest.mark.slow
def test_main_loops_take_what_a_gpu_took():
    """A quarter of them, others every day; what holds for nearly all of them holds for fewer of a quarter."""
    settings = spread(EVERY, 4, turn(4))
    most, order = (0.9, 0.85) if THOROUGH else (0.8, 0.7)
    ours = [benchmark.predicted(setting) for setting in settings]
    theirs = [MEASURED[str(setting)] for setting in settings]
    ratios = np.array(ours) / np.array(theirs)
    assert np.mean(np.abs(ratios - 1) <= 0.15) >= most
    assert np.abs(ratios - 1).max() <= 0.3
    assert benchmark.tau(ours, theirs) >= order


COUNTED = json.loads((GOLDEN / "sm_90a-counters.json").read_text(encoding="utf-8"))
COPIES, TENSOR = ("cp.async.ca", "cp.async.cg"), ("mma.", "wmma.mma", "wgmma.mma_async")


def count_of(kernel):
    counters, size = Counters(), COUNTED["size"]
    a, b = np.ones((size, size), np.float16), np.ones((size, size), np.float16)
    more = {"observers": [counters], "sanitizer": "off"}
    if kernel == "mma_pipeline, no swizzle":
        with main_loops.Pipeline(3, swizzled=False).placed():
            mma_pipeline.multiply(a, b, **more)
    elif kernel == "mma_sparse":
        mma_sparse.multiply(sparse.prune(a, mma_sparse.MMA), b, **more)
    elif kernel == "wgmma_epilogue":
        wgmma_epilogue.multiply(a, b, np.zeros(size, np.float32), **more)
    else:
        getattr(gemm, kernel).multiply(a, b, **more)
    return counters


def ours(counters, what):
    """What Nsight Compute calls `what`, from our counters."""
    lines = counters.lines

    def total(name, *words):
        return sum(getattr(line, name) for line in lines if not words or line.opcode.startswith(words))

    return {
        "wavefronts of loads": total("wavefronts", "ld"),
        "wavefronts of stores": total("wavefronts", "st"),
        "conflicts": total("conflicts"),
        "sectors of loads": total("sectors", "ld", *COPIES, "wmma.load"),
        "sectors of stores": total("sectors", "st", "wmma.store"),
        "ldmatrix": total("issued", "ldmatrix"),
        "cp.async": total("issued", *COPIES),
        "tensor instructions": total("issued", *TENSOR),
    }[what]


#: How often a GPU executes what is one instruction in PTX: wmma.mma is two mma.sync.
SEVERAL = {("wmma_global", "tensor instructions"): 2}
#: What cannot be compared: wmma.load is many loads on a GPU, which touch the same sectors again and again; what comes
#: from the L2 depends on the L1.
APART = {("wmma_global", "sectors of loads"), *((kernel, "sectors from L2") for kernel in COUNTED["kernels"])}


@pytest.mark.parametrize("kernel", COUNTED["kernels"])
def test_counters_are_those_of_nsight_compute(kernel, row):
    counters = count_of(kernel)
    for what, theirs in COUNTED["kernels"][kernel].items():
        if (kernel, what) not in APART:
            with row(what):  # ncu's wavefronts and conflicts are now and then a few too many
                found = ours(counters, what) * SEVERAL.get((kernel, what), 1)
                assert found == pytest.approx(theirs, rel=0.001, abs=4)
