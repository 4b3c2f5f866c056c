"""Complete kernels: to the bit what tcemu.matmul answers, whatever the inputs, the order of the warps, the policy."""

import re

import numpy as np
import pytest
from quick import some

import tcemu
from tcemu.errors import LaunchError, OperandError
from tcemu.gemm import mma_pipeline, wgmma_tma, wmma_global
from tcemu.machine import events

POLICIES = ("late", "early", "random")
#: Kernels with the sizes (m, n, k) of a block and a step, and what a launch needs.
KERNELS = {wmma_global: (32, 32, 16)} | {kernel: (kernel.M, kernel.N, kernel.K) for kernel in (mma_pipeline, wgmma_tma)}
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
    expected = tcemu.matmul(a, b, instruction=kernel.MMA)
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
    for seed in range(21):
        kind, size = list(INPUTS)[seed // 5 % 5], SIZES[seed % 5]
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
    assert result.counts["bar.sync"] == 2 * 3 * 2 * 4
    result = check(wgmma_tma, (1, 1, 4), "normal")
    assert result.counts[wgmma_tma.MMA] == 4 * (4 * 64 // 16)
    assert (
        result.counts["cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"] == 4 * 3
    )  # A, half of B, half of B


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
    assert {site.file for site in sites} == {mma_pipeline.__file__}
    functions = {site.function.partition(".")[0] for site in sites}
    assert functions == {"kernel", "copy_stage", "multiply_stage"}


def test_matrices_that_do_not_fit(row):
    good = np.zeros((64, 64), np.float16)
    told = "A must be (m, k) and B (k, n), both float16, with m a multiple of 64, n of 64 and k of 32"
    cases = [
        ("m", (good[:63], good)),
        ("n", (good, good[:, :32])),
        ("k", (good[:, :16], good[:16])),
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
    with pytest.raises(OperandError, match=r"n of 128 and k of 64; got float16 \(64, 64\) and float16 \(64, 64\)"):
        wgmma_tma.multiply(good, good)
    with pytest.raises(OperandError, match="multiple of 32, n of 32 and k of 16"):
        wmma_global.multiply(good[:31], good)
    with pytest.raises(LaunchError, match="policy is"):
        wmma_global.multiply(good, good, policy="soon")
