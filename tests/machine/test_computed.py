"""Computations of a kernel with tcemu.gemm.scalar are reported: how often, and on which line."""

import numpy as np

import tcemu
from tcemu.gemm import attention, scalar
from tcemu.machine import events


class Heard:
    """Keeps the events of ordinary arithmetic."""

    def __init__(self):
        self.found = []

    def __call__(self, event):
        if isinstance(event, events.Computed):
            self.found.append(event)


def launched(kernel, block=32, **more):
    heard = Heard()
    tcemu.launch(kernel, 1, block, observers=[heard], **more)
    return heard.found


def test_an_instruction_computes_32_values():
    def kernel(warp):
        scalar.add(np.zeros(32), 1)
        scalar.fma(np.zeros((32, 4)), 1, np.zeros((32, 1)))
        scalar.cvt_f16x2(np.zeros((32, 2)), 1)
        scalar.maximum(1, 2)

    found = [(event.opcode, event.count) for event in launched(kernel)]
    assert found == [("add.rn.f32", 1), ("fma.rn.f32", 4), ("cvt.rn.f16x2.f32", 2), ("max.f32", 1)]


def test_it_comes_from_the_warp_that_computes_and_from_its_line():
    def kernel(warp):
        for _ in range(warp.warpid):
            scalar.mul(np.zeros(32), 2)

    for order in ({}, {"seed": 5}):
        found = launched(kernel, block=128, **order)
        assert sorted(event.by.warp for event in found) == [1, 2, 2, 3, 3, 3]
        assert {event.by.site.function.rsplit(".", 1)[-1] for event in found} == {"kernel"}


def test_nothing_is_reported_outside_a_kernel():
    heard = Heard()
    tcemu.launch(lambda warp: warp.bar_sync(), observers=[heard])
    scalar.add(1, 2)
    attention.exp2(np.zeros(64, np.float32))
    assert heard.found == []


def test_a_selection_takes_one_or_the_other():
    found = scalar.select([True, False], np.float32([1, 2]), np.float32(-np.inf))
    assert found.dtype == np.float32
    assert found.tolist() == [1, -np.inf]


def test_shift_and_add_is_one_instruction_on_the_bits():
    found = scalar.shift_add(np.uint32([1, 2**32 - 3, 0]).view(np.float32), 23, np.float32([1.5, 1, 1]))
    assert found.tolist() == [3, 0.125, 1]  # 2^1 * 1.5, 2^-3 * 1, 2^0 * 1

    def kernel(warp):
        scalar.shift_add(np.zeros((32, 2), np.float32), 23, np.zeros((32, 1), np.float32))

    assert [(event.opcode, event.count) for event in launched(kernel)] == [("shl.b32; add.s32", 2)]
