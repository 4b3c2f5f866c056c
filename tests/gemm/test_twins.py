"""The twins in CUDA C++ compile, and on a GPU of sm_90a they give the emulator's bits: pytest --live tests/gemm."""

import shutil
import subprocess

import hopper
import numpy as np
import pytest
from quick import spread, turn

import tcemu
from tcemu import sparse
from tcemu.formats import lookup
from tcemu.gemm import (
    attention,
    mma_pipeline,
    mma_sparse,
    split_k,
    twins,
    wgmma_cluster,
    wgmma_epilogue,
    wgmma_sparse,
    wgmma_stream,
    wgmma_tma,
    wmma_global,
)
from tcemu.instructions import parse

NVCC = shutil.which("nvcc")
PLANS = [wgmma_tma.Plan(element, columns=64) for element in wgmma_tma.IMMEDIATES] + [
    wgmma_tma.Plan("e4m3", promote=True),
    wgmma_tma.Plan("e5m2", columns=256, stages=2, promote=True),
    wgmma_tma.Plan("f16", columns=128, consumers=2, stages=4),
    wgmma_tma.Plan("bf16", columns=192, stages=6),
    wgmma_tma.Plan("s8", columns=32, consumers=3, stages=5),
]
SPARSE = [wgmma_sparse.SparsePlan(element, columns=64) for element in wgmma_tma.IMMEDIATES]
SPARSE += [wgmma_sparse.SparsePlan("f16", columns=128, consumers=2, stages=2)]
CLUSTERS = [
    wgmma_cluster.ClusterPlan(columns=64),
    wgmma_cluster.ClusterPlan("e4m3", columns=64, blocks=4, stages=2),
    wgmma_cluster.ClusterPlan("s8", columns=32, consumers=2, blocks=8),
    wgmma_cluster.ClusterPlan("bf16", columns=128, stages=4, in_flight=0),
]
STREAMS = [
    (wgmma_tma.Plan(columns=64), 3),
    (wgmma_tma.Plan("e5m2", columns=64, stages=2), 7),
    (wgmma_tma.Plan("s8", columns=32, consumers=2, stages=4), 13),
    (wgmma_tma.Plan("tf32", columns=64), 24),
]
SINGLE = ["wmma_global", "mma_pipeline", "mma_sparse", "wgmma_epilogue", "attention"]
#: What nvcc compiles: of the plans, every day others.
COMPILED = [*SINGLE, "wgmma_stream", *map(str, spread(PLANS + SPARSE + CLUSTERS, 8, first=turn(8)))]
each_plan = pytest.mark.parametrize("plan", PLANS, ids=str)


@pytest.fixture
def gpu(request):
    hopper.need(request, "the twins are")


def numbers(element, kind, shape, seed):
    """A matrix of a class of inputs."""
    rng, form = np.random.default_rng(seed), lookup(element)
    if form.kind == "integer":
        return rng.integers(-128, 128, shape).astype(form.dtype)
    whole = form.container // 8
    if kind == "normal":
        return rng.standard_normal(shape).astype(form.dtype)
    patterns = rng.integers(0, 1 << form.container, shape, np.uint32 if whole == 4 else f"uint{form.container}")
    if kind == "any bits":
        return patterns.view(form.dtype)
    mantissa = patterns & ((1 << form.container - 1 - form.exponent) - 1)  # of the whole container, tf32's padding too
    if kind == "subnormal":
        return mantissa.astype(patterns.dtype).view(form.dtype)
    return (rng.standard_normal(shape) * (1 << form.bias - 2)).astype(form.dtype)  # sums overflow


def same(ours, theirs):
    assert ours.dtype == theirs.dtype
    whole = f"u{ours.itemsize}"
    differ = np.flatnonzero(ours.view(whole) != theirs.view(whole))
    first = np.unravel_index(differ[0], ours.shape) if differ.size else ()
    assert not differ.size, f"{differ.size} of {ours.size} differ, the first at {first}"


@each_plan
@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
def test_hopper_kernel(gpu, plan, kind):
    m, n, k = plan.rows + 37, 2 * plan.columns - 3, 3 * plan.depth + 16
    a, b = numbers(plan.element, kind, (m, k), 1), numbers(plan.element, kind, (k, n), 2)
    same(wgmma_tma.multiply(a, b, plan, sanitizer="off")[0], twins.wgmma_tma(a, b, plan))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
@pytest.mark.parametrize("plan", CLUSTERS, ids=str)
def test_cluster(gpu, plan, kind):
    m, n, k = plan.rows + 37, (plan.blocks + 1) * plan.columns - 3, 5 * plan.depth + 16
    a, b = numbers(plan.element, kind, (m, k), 1), numbers(plan.element, kind, (k, n), 2)
    same(wgmma_cluster.multiply(a, b, plan, sanitizer="off")[0], twins.wgmma_cluster(a, b, plan))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
@pytest.mark.parametrize(("plan", "blocks"), STREAMS, ids=str)
def test_stream(gpu, plan, blocks, kind):
    m, n, k = plan.rows + 37, 2 * plan.columns - 3, 5 * plan.depth + 16
    a, b = numbers(plan.element, kind, (m, k), 1), numbers(plan.element, kind, (k, n), 2)
    same(wgmma_stream.multiply(a, b, blocks, plan, sanitizer="off")[0], twins.wgmma_stream(a, b, blocks, plan))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
@pytest.mark.parametrize("stages", mma_pipeline.STAGES)
def test_pipeline(gpu, stages, kind):
    a, b = numbers("f16", kind, (100, 168), 1), numbers("f16", kind, (168, 136), 2)
    same(mma_pipeline.multiply(a, b, stages, sanitizer="off")[0], twins.mma_pipeline(a, b, stages))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
@pytest.mark.parametrize("splits", [1, 3, 6])
def test_split_k(gpu, splits, kind):
    a, b = numbers("f16", kind, (100, 168), 1), numbers("f16", kind, (168, 136), 2)
    same(split_k.multiply(a, b, splits, sanitizer="off")[0], twins.split_k(a, b, splits))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
@pytest.mark.parametrize("plan", [PLANS[0], PLANS[1], wgmma_tma.Plan("f16", consumers=2, stages=2)], ids=str)
def test_epilogue(gpu, plan, kind):
    a, b = numbers(plan.element, kind, (100, 168), 1), numbers(plan.element, kind, (168, 136), 2)
    bias = numbers("f32", kind, (136,), 3)
    same(wgmma_epilogue.multiply(a, b, bias, plan, sanitizer="off")[0], twins.wgmma_epilogue(a, b, bias, plan))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (100, 150), (1, 1), (130, 257)])
def test_attention(gpu, queries, keys, kind):
    q, k, v = (numbers("f16", kind, (rows, 64), seed) for seed, rows in enumerate((queries, keys, keys)))
    same(attention.attend(q, k, v, sanitizer="off")[0], twins.attention(q, k, v))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow"])
def test_sparse(gpu, kind):
    a, b = numbers("f16", kind, (100, 168), 1), numbers("f16", kind, (168, 136), 2)
    a = sparse.prune(a, mma_sparse.MMA)
    same(mma_sparse.multiply(a, b, sanitizer="off")[0], twins.mma_sparse(a, b))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow"])
@pytest.mark.parametrize("plan", SPARSE, ids=str)
def test_sparse_hopper_kernel(gpu, plan, kind):
    m, n, k = plan.rows + 37, plan.columns - 3, 5 * plan.depth + 16
    a, b = numbers(plan.element, kind, (m, k), 1), numbers(plan.element, kind, (k, n), 2)
    a = sparse.prune(a, plan.mma)
    same(wgmma_sparse.multiply(a, b, plan, sanitizer="off")[0], twins.wgmma_sparse(a, b, plan))


@pytest.mark.live_gpu
@pytest.mark.parametrize("kind", ["normal", "subnormal", "overflow", "any bits"])
def test_wmma(gpu, kind):
    a, b = numbers("f16", kind, (64, 48), 1), numbers("f16", kind, (48, 96), 2)
    same(wmma_global.multiply(a, b, sanitizer="off")[0], twins.wmma_global(a, b))


# ---------------------------------------------------------------------------------------------------- without a GPU


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", COMPILED)
def test_the_twins_compile(name, tmp_path):
    plans = {str(plan): plan for plan in PLANS + SPARSE}
    clusters = {str(plan): plan for plan in CLUSTERS}
    defined, text = {}, ""
    if name in plans:
        halved = ["wgmma_sparse", wgmma_sparse.SELECTOR] if plans[name] in SPARSE else []
        text, defined = twins.hopper_source(plans[name], *halved)
    elif name in clusters:
        text, defined = twins.cluster_source(clusters[name])
    elif name in ("wgmma_epilogue", "wgmma_stream"):
        text, defined = twins.hopper_source(wgmma_tma.DEFAULT, name)
    elif name == "attention":
        text = twins.attention_source()
    elif name == "mma_pipeline":
        text, defined = twins.source(name, twins.inline(parse(mma_pipeline.MMA), "mma")), {"STAGES": 3}
    elif name == "mma_sparse":
        text = twins.source(name, twins.inline(mma_sparse.MMA, "mma", [mma_sparse.SELECTOR]))
    else:
        text = twins.source(name)
    (tmp_path / "twin.cu").write_text(text)
    options = [f"-I{twins.FOLDER}", *(f"-D{word}={value}" for word, value in defined.items())]
    command = [NVCC, "-arch=sm_90a", "-cubin", "-Werror=all-warnings", "-o", "twin.cubin", *options, "twin.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert not done.stderr  # nor is wgmma serialised


def test_an_instruction_becomes_a_function():
    found = twins.inline(parse("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"), "mma")
    assert found == (
        "__device__ inline void mma(float (&d)[4], u32 (&a)[4], u32 (&b)[2]) {\n"
        '    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 '
        '{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"\n'
        '        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])\n'
        '        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));\n}\n'
    )
    small = parse("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8")
    found = twins.inline(small, "wgmma", described=True)
    assert "int (&d)[4], u64 a, u64 b, u32 scale_d" in found
    assert f"{{ .reg .pred p; setp.ne.b32 p, %6, 0; {small} {{%0, %1, %2, %3}}, %4, %5, p; }}" in found


def test_each_instruction_of_a_plan_is_there():
    for plan in PLANS:
        assert plan.mma == tcemu.parse(str(plan.mma))
        assert plan.shared <= 227 * 1024
