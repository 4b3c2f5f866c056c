"""The kernel with tcgen05: to the bit what tcemu.matmul answers for mma.sync of sm_100a, which has the same sums."""

import shutil
import subprocess

import numpy as np
import pytest

import tcemu
from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.gemm import tcgen05_tma, twins
from tcemu.layouts import instruction_descriptor

#: mma.sync with as many products in a sum, by the type of A and B.
SAME_SUMS = {
    "f16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "bf16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "tf32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "e4m3": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "s8": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
}


def factors(element, m, n, k, seed=1):
    """A and B around 0."""
    rng, form = np.random.default_rng(seed), lookup(element)
    numbers = [rng.integers(-128, 128, shape) if form.kind == "integer" else rng.standard_normal(shape)
               for shape in ((m, k), (k, n))]  # fmt: skip
    return [each.astype(form.dtype) for each in numbers]


def wanted(element, a, b):
    return tcemu.matmul(a, b, instruction=SAME_SUMS[element], target="sm_100a")


@pytest.mark.parametrize("element", SAME_SUMS)
def test_every_type_gives_the_bits_of_mma_sync(element):
    plan = tcgen05_tma.Plan(element, columns=64)
    a, b = factors(element, 144, 72, 2 * plan.depth + 32)
    d, result = tcgen05_tma.multiply(a, b, plan, sanitizer="collect")
    assert np.array_equal(d.view(np.uint32), wanted(element, a, b).view(np.uint32))
    assert result.reports == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_every_order_gives_the_same_bits(policy, blocks):
    """One block alone works through four tiles: each accumulator is used twice, and each stage again and again."""
    a, b = factors("f16", 208, 264, 208)
    d, result = tcgen05_tma.multiply(a, b, blocks=blocks, policy=policy, seed=blocks, sanitizer="collect")
    assert np.array_equal(d.view(np.uint32), wanted("f16", a, b).view(np.uint32))
    assert result.reports == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize("pairs", [0, 1])
def test_a_pair_gives_the_bits_of_one_block(policy, pairs):
    """One pair alone works through four tiles."""
    a, b = factors("f16", 304, 200, 208)
    plan = tcgen05_tma.Plan(group=2)
    d, result = tcgen05_tma.multiply(a, b, plan, blocks=pairs, policy=policy, seed=pairs, sanitizer="collect")
    assert np.array_equal(d.view(np.uint32), wanted("f16", a, b).view(np.uint32))
    assert result.reports == []


@pytest.mark.parametrize("plan", [
    tcgen05_tma.Plan(accumulators=1, stages=2), tcgen05_tma.Plan(columns=256), tcgen05_tma.Plan(columns=16, stages=1)
])  # fmt: skip
def test_every_plan_gives_the_same_bits(plan):
    a, b = factors("f16", 128, 272, 144)
    d, result = tcgen05_tma.multiply(a, b, plan, blocks=2, sanitizer="collect")
    assert np.array_equal(d.view(np.uint32), wanted("f16", a, b).view(np.uint32))
    assert result.reports == []
    assert plan.idesc == instruction_descriptor(128, plan.columns)


def test_a_pair_of_another_type_and_plan():
    plan = tcgen05_tma.Plan("s8", columns=64, stages=2, accumulators=1, group=2)
    a, b = factors("s8", 256, 64, 288)
    d, _ = tcgen05_tma.multiply(a, b, plan, sanitizer="off")
    assert np.array_equal(d, a.astype(np.int32) @ b.astype(np.int32))


def test_other_shapes_are_refused():
    with pytest.raises(OperandError, match="k"):
        tcgen05_tma.multiply(np.ones((128, 64), np.float16), np.ones((32, 128), np.float16))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("plan", [tcgen05_tma.Plan(), tcgen05_tma.Plan("s8"), tcgen05_tma.Plan(group=2)], ids=str)
def test_ptxas_takes_the_twin(plan, tmp_path):
    sources = []
    with twins.instead(lambda text, define, *_: sources.append((text, define))):
        twins.tcgen05_tma(*factors(plan.element, 128, 128, 64), plan)
    text, define = sources[0]
    (tmp_path / "twin.cu").write_text(text)
    options = [f"-I{twins.FOLDER}", *(f"-D{word}={value}" for word, value in define.items())]
    command = ["nvcc", "-arch=sm_100a", "-cubin", "-o", "twin.cubin", *options, "twin.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_copy_that_does_not_wait_for_the_tensor_core_is_reported(monkeypatch):
    """The mbarrier `empty` is what orders the copy after the products that read the stage."""
    plan = tcgen05_tma.Plan(stages=2)
    wait = tcgen05_tma.Warp.mbarrier_wait
    empty = {plan.empty(stage) for stage in range(plan.stages)}
    monkeypatch.setattr(
        tcgen05_tma.Warp, "mbarrier_wait", lambda warp, at, parity: None if at in empty else wait(warp, at, parity)
    )
    a, b = factors("f16", 128, 128, 320)
    _, result = tcgen05_tma.multiply(a, b, plan, sanitizer="collect")
    assert result.reports[0].rule == "overwritten-early"
