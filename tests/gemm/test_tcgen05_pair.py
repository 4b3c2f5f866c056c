"""A pair of blocks gives the bits of one block, in every order."""

import numpy as np
import pytest

from tcemu.gemm import tcgen05_pair, tcgen05_tma


def factors(m, n, k):
    rng = np.random.default_rng(m + n + k)
    return rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)


@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize("pairs", [0, 1])
def test_a_pair_gives_the_bits_of_one_block(policy, pairs):
    """One pair alone works through four tiles."""
    a, b = factors(300, 200, 208)
    wanted, _ = tcgen05_tma.multiply(a, b, sanitizer="off")
    d, result = tcgen05_pair.multiply(a, b, pairs=pairs, policy=policy, seed=pairs, sanitizer="collect")
    assert result.reports == []
    assert np.array_equal(d.view(np.uint32), wanted.view(np.uint32))


def test_another_type_and_plan():
    plan = tcgen05_tma.Plan("s8", columns=64, stages=2, accumulators=1)
    rng = np.random.default_rng(2)
    a, b = rng.integers(-128, 128, (256, 288), np.int8), rng.integers(-128, 128, (288, 64), np.int8)
    d, _ = tcgen05_pair.multiply(a, b, plan, sanitizer="off")
    assert np.array_equal(d, a.astype(np.int32) @ b.astype(np.int32))
