"""NVFP4 with tcgen05: to the bit one instruction after the other, and exact where no bit is lost."""

import re
import shutil
import subprocess

import numpy as np
import pytest

import tcemu
from tcemu import microscaling
from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.gemm import tcgen05_nvfp4, twins
from tcemu.instructions.tcgen05_product import Product

PLANS = [tcgen05_nvfp4.Plan(), tcgen05_nvfp4.Plan(columns=256, accumulators=1, stages=2)]
POLICIES = ["early", "late", "random"]


def quantised(m, n, k):
    rng = np.random.default_rng(m + n + k)
    a = microscaling.quantise(rng.standard_normal((m, k)), "nvfp4")
    return *a, *microscaling.quantise(rng.standard_normal((k, n)), "nvfp4", axis=-2)


def any_scales(m, n, k):
    """Elements and scales of all sizes, so that sums lose bits."""
    rng = np.random.default_rng(m)
    element, scale = lookup("e2m1").dtype, lookup("ue4m3").dtype
    a, b = (rng.integers(0, 16, shape).astype(np.uint8).view(element) for shape in ((m, k), (k, n)))
    scales = [rng.integers(0, 0x7F, shape).astype(np.uint8).view(scale) for shape in ((m, k // 16), (k // 16, n))]
    return a, scales[0], b, scales[1]


def exact(a, scales_a, b, scales_b):
    """In float64, which has room for every sum here."""
    left = microscaling.dequantise(a, scales_a, "nvfp4")
    return left @ microscaling.dequantise(b, scales_b, "nvfp4", axis=-2)


def one_after_the_other(a, scales_a, b, scales_b):
    """D by one tcgen05.mma for each 64 elements of K and tile of 128 by 128, from zero."""
    (m, k), n = a.shape, b.shape[1]
    product = Product.of(tcemu.parse(f"tcgen05.mma.cta_group::1.kind::{tcgen05_nvfp4.KIND}", "sm_100a"),
                         tcgen05_nvfp4.DEFAULT.idesc, "sm_100a")  # fmt: skip
    down, right, deep = -m % 128, -n % 128, -k % 64
    bits = [np.ascontiguousarray(each).view(np.uint8) for each in (a, b, scales_a, scales_b)]
    sizes = [(down, deep), (deep, right), (down, deep // 16), (deep // 16, right)]
    a, b, scales_a, scales_b = (np.pad(each, ((0, y), (0, x))) for each, (y, x) in zip(bits, sizes, strict=True))
    d = np.zeros((len(a), b.shape[1]), np.uint32)
    for y, x in np.ndindex(len(a) // 128, b.shape[1] // 128):
        rows, columns = slice(128 * y, 128 * y + 128), slice(128 * x, 128 * x + 128)
        for step in range(len(b) // 64):
            at, of = slice(64 * step, 64 * step + 64), slice(4 * step, 4 * step + 4)
            d[rows, columns] = product.compute(
                a[rows, at][None], b[at, columns][None], d[rows, columns][None],
                scale_a=scales_a[rows, of][None], scale_b=scales_b[of, columns][None],
            )[0]  # fmt: skip
    return d[:m, :n]


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_order_gives_the_bits_of_one_instruction_after_the_other(plan, policy):
    """One block works through all tiles: stages, accumulators and the scales in Tensor Memory are used again."""
    given = any_scales(200, 264, 416)
    d, result = tcgen05_nvfp4.multiply(*given, plan, blocks=1, policy=policy, seed=3, sanitizer="collect")
    assert np.array_equal(d.view(np.uint32), one_after_the_other(*given))
    assert result.reports == []


def test_where_no_bit_is_lost_sums_are_exact():
    given = quantised(136, 40, 288)
    d, _ = tcgen05_nvfp4.multiply(*given, sanitizer="off")
    assert np.array_equal(d.astype(float), exact(*given))


def test_with_any_scales_bits_are_lost():
    """So the other test compares more than exact sums."""
    given = any_scales(200, 264, 416)
    assert (one_after_the_other(*given).view(np.float32) != exact(*given)).any()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_ptxas_takes_the_twin(tmp_path):
    text, define = twins.blackwell_source(tcgen05_nvfp4.DEFAULT, "tcgen05_nvfp4")
    (tmp_path / "twin.cu").write_text(text)
    options = [f"-I{twins.FOLDER}", *(f"-D{word}={value}" for word, value in define.items())]
    command = ["nvcc", "-arch=sm_100a", "-cubin", "-o", "twin.cubin", *options, "twin.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_copier_that_does_not_wait_is_reported(monkeypatch):
    """The commit covers tcgen05.cp too: without the wait for it, scales are overwritten while they are copied."""
    empty = {tcgen05_nvfp4.DEFAULT.empty(stage) for stage in range(tcgen05_nvfp4.DEFAULT.stages)}
    wait = tcgen05_nvfp4.Warp.mbarrier_wait
    monkeypatch.setattr(
        tcgen05_nvfp4.Warp, "mbarrier_wait", lambda warp, at, parity: None if at in empty else wait(warp, at, parity)
    )
    _, result = tcgen05_nvfp4.multiply(*quantised(128, 128, 1024), sanitizer="collect")
    assert {report.rule for report in result.reports} >= {"overwritten-early"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: np.ones((128, 64), np.float16)}, "both float4_e2m1fn, with k a multiple of 32"),
        ({1: np.ones((128, 2), lookup("ue4m3").dtype)}, "scales must be float8_e4m3fn, (128, 4) and (4, 128)"),
        ({3: np.ones((4, 128), np.float32)}, "got float8_e4m3fn (128, 4) and float32 (4, 128)"),
        ({4: tcgen05_nvfp4.Plan(columns=64)}, "the plan must have e2m1, 128 or 256 columns, group=1"),
        ({4: tcgen05_nvfp4.Plan(columns=256)}, "and scales in 512 columns of Tensor Memory; got Plan"),
    ],
)  # fmt: skip
def test_what_is_refused(change, message):
    given = [*quantised(128, 128, 64), tcgen05_nvfp4.DEFAULT]
    for place, value in change.items():
        given[place] = value
    with pytest.raises(OperandError, match=re.escape(message)):
        tcgen05_nvfp4.multiply(*given)
