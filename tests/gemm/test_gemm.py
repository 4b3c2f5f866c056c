"""Complete kernels: to the bit what tcemu.matmul answers, whatever the inputs, the order of the warps, the policy."""

import re

import numpy as np
import pytest
from quick import some, spread

import tcemu
from tcemu import sparse
from tcemu.errors import LaunchError, OperandError
from tcemu.formats import lookup
from tcemu.gemm import (
    attention,
    mma_pipeline,
    mma_sparse,
    scalar,
    split_k,
    store,
    wgmma_epilogue,
    wgmma_sparse,
    wgmma_tma,
    wmma_global,
)
from tcemu.layouts import Descriptor, copy_tile
from tcemu.machine import events

POLICIES = ("late", "early", "random")
#: Kernels with the sizes (m, n, k) of a block and a step, and what a launch needs.
KERNELS = {wmma_global: (32, 32, 16), mma_pipeline: (64, 64, 32), wgmma_tma: (64, 128, 64)}
HOPPER = wgmma_tma.DEFAULT.mma
#: Blocks down and across, steps along k.
SIZES = [(1, 1, 1), (2, 1, 2), (1, 2, 3), (2, 2, 5), (1, 1, 8)]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda module: module.__name__.rpartition(".")[2])


def matrices(kernel, size, kind, seed=1):
    """A (m, k) and B (k, n) of f16 for a number of blocks and steps."""
    m, n, k = (count * unit for count, unit in zip(size, KERNELS[kernel], strict=True))
    numbers = np.random.default_rng(seed)
    return [INPUTS[kind](numbers, shape) for shape in ((m, k), (k, n))]


def with_specials(numbers, shape):
    """One in eight is a zero, an infinity or a NaN."""
    found = numbers.standard_normal(shape).astype(np.float16)
    special = numbers.choice(np.array([0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFD55], np.uint16), shape)
    return np.where(numbers.random(shape) < 1 / 8, special.view(np.float16), found)


INPUTS = {
    "normal": lambda numbers, shape: numbers.standard_normal(shape).astype(np.float16),
    "subnormal": lambda numbers, shape: numbers.integers(0, 0x0400, shape, np.uint16).view(np.float16),
    "large": lambda numbers, shape: (numbers.standard_normal(shape) * 3e4).clip(-65504, 65504).astype(np.float16),
    "specials": with_specials,
    "any bits": lambda numbers, shape: numbers.integers(0, 1 << 16, shape, np.uint16).view(np.float16),
}


def check(kernel, size, kind, **options):
    a, b = matrices(kernel, size, kind)
    expected = tcemu.matmul(a, b, instruction=HOPPER if kernel is wgmma_tma else kernel.MMA)
    found, result = kernel.multiply(a, b, **options)
    assert found.dtype == np.float32
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
    assert (result.parted, result.reports, result.error) == ([], [], None)
    assert result.blocks == size[0] * size[1]
    return result


@each_kernel
def test_every_input_under_every_policy(row, kernel):
    for number, kind in some(enumerate(INPUTS), 2):
        with row(kind):
            check(kernel, SIZES[number % 2], kind, policy=POLICIES, seed=number)


@each_kernel
def test_sizes(row, kernel):
    for number, size in enumerate(some(SIZES[2:4], 1)):
        with row(str(size)):
            check(kernel, size, "normal", seed=number, sanitizer="off")


@pytest.mark.slow
@each_kernel
def test_every_seed_size_and_policy(row, kernel):
    """Never does a result depend on the policy, nor does the sanitizer find anything."""
    for seed in spread(range(25), 8):
        kind, size = list(INPUTS)[seed // 5], SIZES[seed % 5]
        with row(f"{seed} {kind} {size}"):
            check(kernel, size, kind, seed=seed, policy=POLICIES)


@each_kernel
def test_small_whole_numbers_are_exact(kernel):
    m, n, k = KERNELS[kernel]
    numbers = np.random.default_rng(8)
    a, b = numbers.integers(-8, 9, (m, 2 * k)), numbers.integers(-8, 9, (2 * k, n))
    found, _ = kernel.multiply(a.astype(np.float16), b.astype(np.float16), sanitizer="off")
    assert np.array_equal(found, a @ b)


def test_matrices_may_lie_in_memory_as_they_like():
    a, b = matrices(mma_pipeline, (1, 1, 2), "normal")
    expected = tcemu.matmul(a, b, instruction=mma_pipeline.MMA)
    for given in ((np.asfortranarray(a), b), (a[::-1][::-1], np.repeat(b, 2, axis=1)[:, ::2])):
        assert np.array_equal(mma_pipeline.multiply(*given, sanitizer="off")[0], expected)


def test_what_each_kernel_executes():
    """As many of each instruction as the tiles need: the pipeline copies each element of A and B once for a block."""
    result = check(wmma_global, (2, 1, 3), "normal")
    assert result.counts[wmma_global.MMA] == result.counts[wmma_global.LOAD_A] == 2 * 4 * 3
    assert result.counts[wmma_global.STORE] == 2 * 4
    result = check(mma_pipeline, (1, 2, 3), "normal")
    assert result.counts[mma_pipeline.MMA] == 2 * (64 * 64 * 96) // (16 * 8 * 16)
    assert result.counts["cp.async.cg.shared.global"] == 2 * 3 * (64 * 32 + 32 * 64) * 2 // (16 * 32)
    assert result.counts["bar.sync"] == 2 * 3 * 4
    result = check(wgmma_tma, (1, 1, 4), "normal")
    assert result.counts[str(HOPPER)] == 4 * (4 * 64 // 16)
    boxes = result.counts["cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"]
    assert boxes == 4 * 2  # A and B


def test_targets():
    a, b = matrices(wmma_global, (1, 1, 1), "normal")
    for target in ("sm_75", "sm_80", "sm_90", "sm_120a"):
        found, result = wmma_global.multiply(a, b, target=target, sanitizer="off")
        expected = tcemu.matmul(a, b, instruction=wmma_global.MMA, target=target)
        assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
        assert result.target == target


def test_lines_of_the_kernels_are_told():
    heard = []
    check(mma_pipeline, (1, 1, 1), "normal", observers=(heard.append,))
    sites = {event.by.site for event in heard if isinstance(event, events.Issued)}
    assert {site.file for site in sites} == {mma_pipeline.__file__, store.__file__}
    functions = {site.function.partition(".")[0] for site in sites}
    assert functions == {"accumulate", "copy", "multiply_stage", "store"}


# ---------------------------------------------------------------------------------------------------- plans and edges

#: Rows and columns that are no multiple of a tile, and units of 16 bytes along K.
EDGES = [(1, 8, 1), (63, 64, 5), (65, 72, 9), (36, 136, 17)]
PLANS = [wgmma_tma.Plan(element, columns=64) for element in wgmma_tma.IMMEDIATES] + [
    wgmma_tma.Plan("e4m3", columns=64, consumers=2, stages=2),
    wgmma_tma.Plan("bf16", columns=32, stages=6),
    wgmma_tma.Plan("s8", columns=96, consumers=3, stages=4),
]


def padded(matrix, rows, columns):
    """The matrix with zeros up to the next multiples of a tile's rows and columns."""
    m, n = matrix.shape
    return np.pad(matrix, [(0, -m % rows), (0, -n % columns)])


def in_tiles(a, b, instruction, m, n, k):
    """tcemu.matmul's result for matrices that are not whole tiles."""
    whole = tcemu.matmul(padded(a, m, k), padded(b, k, n), instruction=instruction)
    return whole[: len(a), : b.shape[1]]


def of_type(element, shape, seed):
    rng, form = np.random.default_rng(seed), lookup(element)
    drawn = rng.integers(-128, 128, shape) if form.kind == "integer" else rng.standard_normal(shape)
    return drawn.astype(form.dtype)


def equal(found, expected):
    return found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("plan", some(PLANS, 4), ids=str)
def test_hopper_plans_and_edges(row, plan):
    unit = 16 * plan.depth // wgmma_tma.LINE
    for m, n, units in spread(EDGES, 2, first=PLANS.index(plan)):
        with row(f"{m} x {n} x {units * unit}"):
            a, b = of_type(plan.element, (m, units * unit), 1), of_type(plan.element, (units * unit, n - 1), 2)
            found, result = wgmma_tma.multiply(a, b, plan, policy=POLICIES, seed=m)
            assert equal(found, in_tiles(a, b, plan.mma, plan.rows, plan.columns, plan.depth))
            assert (result.parted, result.reports) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("element", ["e4m3", "e5m2"])
def test_promoted_sums_are_added_in_f32(element):
    plan = wgmma_tma.Plan(element, columns=64, promote=True)
    a, b = of_type(element, (64, 512), 1), of_type(element, (512, 64), 2)
    expected = np.zeros((64, 64), np.float32)
    for k in range(0, 512, 128):
        expected += tcemu.matmul(a[:, k : k + 128], b[k : k + 128], instruction=plan.mma)
    found, result = wgmma_tma.multiply(a, b, plan, policy=POLICIES)
    assert equal(found, expected)
    assert not equal(found, tcemu.matmul(a, b, instruction=plan.mma))
    assert (result.parted, result.reports) == ([], [])


@pytest.mark.parametrize("stages", some(mma_pipeline.STAGES, 2))
def test_stages_and_edges_of_the_pipeline(row, stages):
    for m, n, units in spread(EDGES, 2, first=stages):
        with row(f"{m} x {n} x {8 * units}"):
            a, b = of_type("f16", (m, 8 * units), 1), of_type("f16", (8 * units, n), 2)
            found, result = mma_pipeline.multiply(a, b, stages, policy=POLICIES, seed=m)
            assert equal(found, in_tiles(a, b, mma_pipeline.MMA, 64, 64, 32))
            assert (result.parted, result.reports) == ([], [])


def test_stages_that_a_pipeline_cannot_have():
    good = np.zeros((64, 64), np.float16)
    for stages in (1, 6, 2.5, None, "3"):
        with pytest.raises(OperandError, match="stages= must be 2 to 5"):
            mma_pipeline.multiply(good, good, stages)


@pytest.mark.slow
def test_split_k_adds_its_parts_in_order(row):
    for splits, (m, n, units) in zip((1, 3, 5), some(EDGES, 3), strict=False):
        depth = 8 * units + 128
        with row(f"{splits} splits of {m} x {n} x {depth}"):
            a, b = of_type("f16", (m, depth), 1), of_type("f16", (depth, n), 2)
            found, launches = split_k.multiply(a, b, splits, policy=POLICIES, seed=m)
            steps = [split_k.part(index, splits, depth) for index in range(splits)]
            assert [step for part in steps for step in part] == list(range(-(-depth // 32)))
            ends = [slice(32 * part.start, 32 * part.stop) for part in steps]
            parts = [in_tiles(a[:, here], b[here], split_k.MMA, 64, 64, 32) for here in ends]
            assert equal(found, sum(parts[1:], parts[0]))
            assert all((result.parted, result.reports) == ([], []) for result in launches)


def test_splits_that_cannot_be():
    good = np.zeros((64, 64), np.float16)
    for splits in (0, 3, 1.5, None):
        with pytest.raises(OperandError, match="splits= must be 1 to 2, the steps of 32 along K; got"):
            split_k.multiply(good, good, splits)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [PLANS[0], wgmma_tma.Plan("bf16", consumers=2, stages=2)], ids=str)
def test_epilogue(row, plan):
    for m, n, units in some(EDGES, 2):
        with row(f"{m} x {n} x {8 * units}"):
            a, b = of_type(plan.element, (m, 8 * units), 1), of_type(plan.element, (8 * units, n), 2)
            bias = of_type("f32", (n,), 3)
            found, result = wgmma_epilogue.multiply(a, b, bias, plan, policy=POLICIES, seed=m)
            total = in_tiles(a, b, plan.mma, plan.rows, plan.columns, plan.depth) + bias
            assert equal(found, np.where(total > 0, total, 0).astype(np.float16))
            assert (result.parted, result.reports) == ([], [])


def test_what_the_epilogue_refuses():
    good, bias = np.zeros((64, 64), np.float16), np.zeros(64, np.float32)
    for plan in (wgmma_tma.Plan("e4m3"), wgmma_tma.Plan(columns=96), wgmma_tma.Plan(promote=True)):
        with pytest.raises(OperandError, match="the plan must have f16 or bf16, a multiple of 64 columns"):
            wgmma_epilogue.multiply(good, good, bias, plan)
    for wrong in (None, bias[:8], bias.astype(np.float16)):
        with pytest.raises(OperandError, match=r"bias must be float32 \(64,\)"):
            wgmma_epilogue.multiply(good, good, wrong)


def attention_by_tiles(q, k, v):
    """The same arithmetic on whole rows: tcemu.matmul for the products, one tile of keys after the other."""
    rows, keys = len(q), len(k)
    q, k, v = (padded(each, 64, 64) for each in (q, k, v))
    largest, total = np.full(len(q), -np.inf, np.float32), np.zeros(len(q), np.float32)
    out = np.zeros(q.shape, np.float32)
    for tile in range(0, len(k), 64):
        s = tcemu.matmul(q, np.ascontiguousarray(k[tile : tile + 64].T), instruction=mma_pipeline.MMA)
        s[:, np.arange(tile, tile + 64) >= keys] = -np.inf
        before, largest = largest, np.maximum(largest, s.max(axis=1))
        offset = largest * -attention.SCALE
        p = attention.exp2(scalar.fma(s, attention.SCALE, offset[:, None]))
        factor = attention.exp2(scalar.fma(before, attention.SCALE, offset))
        # a lane adds up its pairs, 8 columns apart; then neighbouring lanes, then pairs of lanes
        lanes = np.add.accumulate(p.reshape(-1, 8, 4, 2).swapaxes(1, 2).reshape(-1, 4, 16), axis=2)[:, :, -1]
        here = (lanes[:, 0] + lanes[:, 1]) + (lanes[:, 2] + lanes[:, 3])
        total = scalar.fma(total, factor, here)
        values = np.ascontiguousarray(v[tile : tile + 64])
        out = tcemu.matmul(p.astype(np.float16), values, out * factor[:, None], instruction=mma_pipeline.MMA)
    return (out / total[:, None])[:rows]


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "keys"), spread([(70, 200), (64, 64), (1, 1), (130, 129)], 2))
def test_attention(queries, keys):
    q, k, v = (of_type("f16", (rows, 64), seed) for seed, rows in enumerate((queries, keys, keys)))
    found, result = attention.attend(q, k, v, policy=POLICIES, seed=keys)
    assert (result.parted, result.reports) == ([], [])
    assert equal(found, attention_by_tiles(q, k, v))
    exact = q.astype(float) @ k.T.astype(float) / 8
    weights = np.exp(exact - exact.max(axis=1, keepdims=True))
    assert np.abs(found - weights @ v.astype(float) / weights.sum(axis=1, keepdims=True)).max() < 1e-3


def test_the_exponential_is_close_and_exact_at_whole_numbers():
    x = np.linspace(-126, 0, 100_001).astype(np.float32)
    assert np.abs(attention.exp2(x).astype(float) / 2.0 ** x.astype(float) - 1).max() < 2**-22
    whole = np.arange(-126, 1).astype(np.float32)
    assert np.array_equal(attention.exp2(whole), 2.0**whole)
    assert np.array_equal(attention.exp2(np.float32([-127, -1e30, -np.inf])), np.float32([2.0**-126] * 3))


def test_what_attention_refuses():
    good = np.zeros((8, 64), np.float16)
    for q, k, v in ((good[:, :32], good, good), (good, good, good[:4]), (good, None, good), (good[:0], good, good)):
        with pytest.raises(OperandError, match=r"q must be float16 \(queries, 64\), k and v \(keys, 64\)"):
            attention.attend(q, k, v)


def one_at_a_time(a, b):
    """A B by tcemu.run, one mma.sp after the other."""
    mma, rows = mma_sparse.MMA, len(a)
    a, b = padded(a, 64, 32), padded(b, 32, 8)
    values, metadata = mma_sparse.packed(a)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    for tile in range(len(values)):
        for n in range(0, b.shape[1], 8):
            c = np.zeros((32, 4), np.uint32)
            for step, (held, codes) in enumerate(zip(values[tile], metadata[tile], strict=True)):
                right = mma.fragments["b"].pack(b[32 * step : 32 * step + 32, n : n + 8])
                c = tcemu.run(mma, held, right, c, codes, mma_sparse.SELECTOR)
            d[16 * tile : 16 * tile + 16, n : n + 8] = mma.fragments["d"].unpack(c)
    return d[:rows]


@pytest.mark.slow
def test_sparse_kernel(row):
    for m, n, units in some(EDGES, 2):
        with row(f"{m} x {n} x {8 * units}"):
            a, b = of_type("f16", (m, 8 * units), 1), of_type("f16", (8 * units, n), 2)
            a = sparse.prune(a, mma_sparse.MMA)
            found, result = mma_sparse.multiply(a, b, policy=POLICIES, seed=m)
            assert equal(found, np.ascontiguousarray(one_at_a_time(a, b)[:, :n]))
            assert (result.parted, result.reports) == ([], [])


def one_wgmma_at_a_time(a, b, plan):
    """A B by tcemu.run, one sparse wgmma after the other, B without a swizzle."""
    mma, rows, columns = plan.mma, len(a), b.shape[1]
    a, b = padded(a, plan.rows, 2 * plan.depth), padded(b, 2 * plan.depth, plan.columns)
    values, metadata = wgmma_sparse.packed(a, plan)
    d = np.zeros((len(a), b.shape[1]), mma.types["d"].dtype)
    for down in range(0, len(a), 64):
        for right in range(0, b.shape[1], plan.columns):
            c = np.zeros((128, plan.columns // 2), np.uint32)
            for step, k in enumerate(range(0, len(b), plan.k)):
                held = mma.fragments["a"].pack(values[down : down + 64, k // 2 : (k + plan.k) // 2])
                tile = np.ascontiguousarray(b[k : k + plan.k, right : right + plan.columns].T)
                described = Descriptor.for_tile(plan.element, plan.columns, plan.k)
                shared = np.zeros(plan.columns * plan.k * tile.itemsize, np.uint8)
                copy_tile(tile, shared, described, element=plan.element)
                immediates = wgmma_tma.IMMEDIATES[plan.element]
                # with A in registers there is no imm_trans_a
                immediates = immediates[:2] + immediates[3:]
                codes = metadata[down // 64, step]
                c = tcemu.run(mma, c, held, described, codes, 0, 1, *immediates, shared=shared)
            d[down : down + 64, right : right + plan.columns] = mma.fragments["d"].unpack(c)
    return np.ascontiguousarray(d[:rows, :columns])


def test_sparse_plans_that_cannot_be():
    plan = wgmma_sparse.SparsePlan(columns=64, in_flight=2)
    with pytest.raises(OperandError, match="in_flight must be 0 or 1; got 2: products in flight still"):
        wgmma_sparse.multiply(np.zeros((64, 128), np.float16), np.zeros((128, 64), np.float16), plan)


@pytest.mark.slow
@pytest.mark.parametrize("element", some(wgmma_tma.IMMEDIATES, 2))
def test_sparse_hopper_kernel(element):
    plan = wgmma_sparse.SparsePlan(element, columns=32, consumers=2, stages=2)
    a, b = of_type(element, (100, 5 * plan.depth), 1), of_type(element, (5 * plan.depth, 40), 2)
    a = sparse.prune(a, plan.mma)
    found, result = wgmma_sparse.multiply(a, b, plan, policy=POLICIES, seed=1)
    assert equal(found, one_wgmma_at_a_time(a, b, plan))
    assert (result.parted, result.reports) == ([], [])


def test_the_sparse_kernel_refuses_a_dense_matrix():
    with pytest.raises(OperandError, match="prune"):
        mma_sparse.multiply(np.ones((64, 64), np.float16), np.ones((64, 64), np.float16))


def test_matrices_that_do_not_fit(row):
    good = np.zeros((64, 64), np.float16)
    told = "A must be (m, k) and B (k, n), both float16, with n a multiple of 8 and k of 8"
    cases = [
        ("n", (good, good[:, :31])),
        ("k", (good[:, :12], good[:12])),
        ("depths", (good, good[:32])),
        ("empty", (good[:, :0], good[:0])),
        ("f32", (good.astype(np.float32), good)),
        ("no array", (good.tolist(), good)),
        ("nothing", (None, good)),
        ("ragged", ([[1], [1, 2]], good)),
        ("flat", (good.reshape(-1), good)),
        ("stacked", (good[None], good[None])),
    ]  # fmt: skip
    for name, given in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(told)):
            mma_pipeline.multiply(*given)
    with pytest.raises(OperandError, match=r"with k a multiple of 8; got float16 \(64, 12\) and float16 \(12, 64\)"):
        wgmma_tma.multiply(good[:, :12], good[:12])
    with pytest.raises(OperandError, match="both int8, with k a multiple of 16; got float16"):
        wgmma_tma.multiply(good, good, wgmma_tma.Plan("s8"))
    with pytest.raises(OperandError, match="m a multiple of 32, n of 32 and k of 16"):
        wmma_global.multiply(good[:31], good)
    with pytest.raises(LaunchError, match="policy must be"):
        wmma_global.multiply(good, good, policy="soon")


@each_kernel
def test_every_event_names_its_block(kernel):
    """One block after the other, from its start to its end: no event needs to be asked where its block's number is."""
    heard = []
    check(kernel, (1, 2, 2), "normal", observers=(heard.append,))
    starts = [number for number, event in enumerate(heard) if isinstance(event, events.BlockStarted)]
    assert len(starts) == 2
    for first, end in zip(starts, [*starts[1:], len(heard)], strict=True):
        assert isinstance(heard[end - 1], events.BlockEnded)
        assert {event.block for event in heard[first:end]} == {heard[first].block}


def test_large_matrices_get_larger_tiles_and_the_same_bits():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((512, 64)).astype(np.float16), rng.standard_normal((64, 512)).astype(np.float16)
    found, result = wgmma_tma.multiply(a, b, sanitizer="off")
    assert result.blocks == 4 * 2
    assert np.array_equal(found, tcemu.matmul(a, b, instruction=HOPPER))
