"""The sliders that launch a kernel: the policy, the seed and the kernel's own parameters decide what is drawn."""

from functools import partial

import numpy as np
import pytest

import tcemu
from tcemu.errors import OperandError
from tcemu.show import widgets

LAUNCH = partial(tcemu.launch, block=64, shared=256, sanitizer="collect")
X, Y = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)


def reversed_through_shared_memory(warp, x, y, barrier):
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(warp.threads)))
    if barrier:
        warp.bar_sync()
    warp.st_global(y.at(warp.threads), warp.ld_shared(252 - 4 * warp.threads))


def explorer(**choices):
    return widgets.order_of_a_kernel(LAUNCH, reversed_through_shared_memory, (X, Y), right=X[::-1], **choices)


def test_a_parameter_of_the_kernel_is_a_list():
    order = explorer(barrier=(True, False))
    assert order.values == {"barrier": "True", "policy": "late", "seed": 0}
    assert order.picture.title == ("Block 0 in order: no broken rule; 64 of 64 elements are right; policy late, seed 0")
    assert "shared-race" in order.set(barrier="False").title


def test_the_seed_changes_the_order_and_the_result():
    """Without the barrier, it depends on the order of the warps what the first one reads."""
    order = explorer(barrier=(False,))
    counts = {order.set(seed=seed).title.split("; ")[1] for seed in range(8)}
    assert len(counts) > 1
    assert all(text.endswith("of 64 elements are right") for text in counts)


def test_without_an_answer_nothing_is_counted():
    order = widgets.order_of_a_kernel(LAUNCH, reversed_through_shared_memory, (X, Y), barrier=(True,))
    assert order.set(policy="random", seed=3).title == "Block 0 in order: no broken rule; policy random, seed 3"


def test_the_arrays_stay_as_they_are():
    explorer(barrier=(True,)).set(policy="early")
    assert not Y.any()


def test_a_parameter_without_values_is_refused():
    with pytest.raises(OperandError, match="barrier has no values"):
        explorer(barrier=())
