"""Scale factors in blocks of 128 by 4, beside cuBLAS's formula in plain loops and torchao's rearrangement."""

import numpy as np
import pytest

from tcemu import TcemuError
from tcemu.layouts import blocked_offset, from_blocked, order_of_scales, to_blocked

SHAPES = [(128, 4), (256, 8), (128, 8), (1, 1), (130, 5), (33, 4), (300, 13)]


def by_formula(scales):
    """CuBLAS's documentation, 1D block scaling: the offset in a 128x4 tile, and the tiles in rows."""
    rows, columns = scales.shape
    across = -(-columns // 4)
    out = np.zeros(-(-rows // 128) * across * 512, scales.dtype)
    for outer in range(rows):
        for inner in range(columns):
            tile = outer // 128 * across + inner // 4
            out[tile * 512 + outer % 32 * 16 + outer % 128 // 32 * 4 + inner % 4] = scales[outer, inner]
    return out


def as_torchao_does(padded):
    """The rearrangement of torchao.prototype.mx_formats.utils.to_blocked, for whole blocks."""
    rows, columns = padded.shape
    blocks = padded.reshape(rows // 128, 128, columns // 4, 4).transpose(0, 2, 1, 3)
    return blocks.reshape(-1, 4, 32, 4).swapaxes(1, 2).reshape(-1)


@pytest.mark.parametrize("shape", SHAPES)
def test_both_ways(shape):
    scales = np.random.default_rng(0).integers(1, 255, shape).astype(np.uint8)
    blocked = to_blocked(scales)
    assert np.array_equal(blocked, by_formula(scales))
    assert np.array_equal(from_blocked(blocked, *shape), scales)
    assert np.array_equal(from_blocked(blocked.reshape(-1, 16), *shape), scales)  # as torch returns it
    rows, columns = np.indices(shape)
    assert np.array_equal(blocked[blocked_offset(rows, columns, shape[1])], scales)
    assert np.array_equal(to_blocked(scales.T, axis=-2), blocked)
    assert np.array_equal(from_blocked(blocked, *shape, axis=-2), scales.T)
    assert blocked.sum(dtype=int) == scales.sum(dtype=int)  # the padding is zeros


def test_whole_blocks_are_torchaos():
    scales = np.arange(384 * 12).reshape(384, 12)
    assert np.array_equal(to_blocked(scales), as_torchao_does(scales))


def test_batches_keep_their_axes():
    scales = np.arange(2 * 3 * 140 * 6).reshape(2, 3, 140, 6)
    blocked = to_blocked(scales)
    assert blocked.shape == (2, 3, 2 * 2 * 512)
    assert np.array_equal(blocked[1, 2], by_formula(scales[1, 2]))
    assert np.array_equal(from_blocked(blocked, 140, 6), scales)


def test_the_order_of_a_buffer_is_recognised(row):
    scales = np.random.default_rng(0).integers(0, 255, (256, 8)).astype(np.uint8)
    for buffer, orders in (
        (scales, ["rows"]),
        (scales.T, ["columns"]),
        (to_blocked(scales), ["blocked"]),
        (to_blocked(scales)[::-1], []),
        (np.full(2048, 7, np.uint8), []),
    ):
        with row(f"{orders} {buffer[0]}"):
            assert order_of_scales(buffer, scales) == orders
    same = np.full((128, 4), 7, np.uint8)
    assert order_of_scales(same, same) == ["rows", "columns", "blocked"]
    assert order_of_scales(to_blocked(scales), scales.T, axis=-2) == ["blocked"]


def test_what_does_not_fit_is_told(row):
    for call, says in (
        (lambda: from_blocked(np.zeros(128 * 8), 128, 9), "take 1 by 3 blocks of 128 by 4, which are 1536 numbers"),
        (lambda: from_blocked(np.zeros((130, 5)), 130, 5), "130 by 5 without padding: is it still in rows?"),
        (lambda: to_blocked(np.zeros(4)), r"must be an array \(..., rows, columns\); got shape \(4,\)"),
        (lambda: to_blocked(np.zeros((4, 4)), axis=0), "axis must be -1"),
        (lambda: from_blocked(np.zeros(512), 0, 4), "at least one row and one column"),
        (lambda: blocked_offset(0, 4, 4), "has columns 0 to 3; got 4"),
        (lambda: blocked_offset(-1, 0, 4), "at least 0"),
        (lambda: order_of_scales(np.zeros(4), np.zeros((2, 2), np.float32)), "elements of 8 bytes"),
    ):
        with row(says), pytest.raises(TcemuError, match=says):
            call()
