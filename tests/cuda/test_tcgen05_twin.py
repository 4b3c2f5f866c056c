"""CUDA C++ with tcgen05, compiled for sm_100a, on the emulator: the bits of the Python kernel, in every order."""

import numpy as np
import pytest

from tcemu import microscaling
from tcemu.gemm import shipped, tcgen05_attention, tcgen05_nvfp4, tcgen05_tma, twins


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("blocks", "policy"), [(0, "late"), (1, "early"), (1, "random")])
def test_the_twin_gives_the_bits_of_the_python_kernel(nvrtc, blocks, policy, group):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((208, 144)).astype(np.float16), rng.standard_normal((144, 264)).astype(np.float16)
    wanted, _ = tcgen05_tma.multiply(a, b, sanitizer="off")
    with twins.emulated(sanitizer="collect", policy=policy) as launches:
        d = twins.tcgen05_tma(a, b, tcgen05_tma.Plan(group=group), blocks=blocks)
    assert np.array_equal(d.view(np.uint32), wanted.view(np.uint32))
    assert [report for launch in launches for report in launch.reports] == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize("plan", [tcgen05_nvfp4.Plan(), tcgen05_nvfp4.Plan(columns=256, accumulators=1, stages=2)])
def test_the_twin_with_scales(nvrtc, plan, policy):
    rng = np.random.default_rng(2)
    given = [*microscaling.quantise(rng.standard_normal((136, 288)), "nvfp4")]
    given += microscaling.quantise(rng.standard_normal((288, 264)), "nvfp4", axis=-2)
    wanted, _ = tcgen05_nvfp4.multiply(*given, plan, sanitizer="off")
    with twins.emulated(sanitizer="collect", policy=policy) as launches:
        d = shipped.tcgen05_nvfp4(*given, plan, blocks=1)
    assert np.array_equal(d.view(np.uint32), wanted.view(np.uint32))
    assert [report for launch in launches for report in launch.reports] == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["early", "late", "random"])
def test_the_twin_of_attention(nvrtc, policy):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((rows, 64)).astype(np.float16) for rows in (150, 300, 300))
    wanted, _ = tcgen05_attention.attend(8 * q, k, v, sanitizer="off")
    with twins.emulated(sanitizer="collect", policy=policy) as launches:
        found = shipped.tcgen05_attention(8 * q, k, v)
    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32))
    assert [report for launch in launches for report in launch.reports] == []
