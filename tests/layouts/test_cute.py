"""Layouts that no recording has, against the traits of NVIDIA's CuTe (CUTLASS at 7107b05): maps as digits, facts only.

A map is [size, rows, columns] for each digit of the lane and of the slot, least significant first.
"""

from itertools import product

import pytest

import tcemu

SCALED = "mma.sync.aligned.m16n8k{}.row.col.kind::{}.block_scale.scale_vec::{}X.f32.e2m1.e2m1.f32.ue8m0"
LANES_A, LANES_B = [(2, 8, 0), (2, 0, 0), (8, 1, 0)], [(4, 0, 0), (8, 0, 1)]
BYTES, ACROSS = [(2, 4, 0), (2, 8, 0), (2, 0, 1), (2, 0, 2), (2, 0, 4)], [(2, 1, 0), (2, 2, 0), (2, 0, 8)]
WIDENED, ALONG = [(2, 0, 4), (2, 0, 8), (2, 1, 0), (2, 2, 0), (2, 4, 0)], [(2, 0, 1), (2, 0, 2)]
STORED, DOWN = [(2, 2, 0), (2, 4, 0), (2, 0, 1), (2, 0, 2), (2, 0, 4)], [(2, 1, 0), (2, 0, 8)]
MAPS = [
    (SCALED.format(64, "mxf4nvf4", 4), "scale_a", LANES_A, [(4, 0, 1)]),
    (SCALED.format(64, "mxf4nvf4", 4), "scale_b", LANES_B, [(4, 1, 0)]),
    (SCALED.format(64, "mxf4nvf4", 2), "scale_a", LANES_A, [(2, 0, 1)]),
    (SCALED.format(64, "mxf4nvf4", 2), "scale_b", LANES_B, [(2, 1, 0)]),
    (SCALED.format(32, "mxf8f6f4", 1), "scale_a", LANES_A, []),
    (SCALED.format(32, "mxf8f6f4", 1), "scale_b", LANES_B, []),
    ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", "", BYTES, ACROSS),
    ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8", "", BYTES, [*ACROSS, (2, 16, 0)]),
    ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64", "", WIDENED, ALONG),
    ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32", "", WIDENED, ALONG),
    ("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64", "", WIDENED, [*ALONG, (2, 8, 0), (2, 16, 0)]),
    ("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32", "", WIDENED, [*ALONG, (2, 8, 0), (2, 16, 0)]),
    ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8", "", STORED, DOWN),
    ("stmatrix.sync.aligned.m16n8.x2.trans.shared.b8", "", STORED, [*DOWN, (2, 8, 0)]),
    ("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8", "", STORED, [*DOWN, (2, 8, 0), (2, 16, 0)]),
]


def expanded(digits):
    """(row, column) of every number that the digits count, in ascending order."""
    counted = product(*(range(size) for size, _, _ in reversed(digits)))
    weights = [(row, column) for _, row, column in reversed(digits)]
    for number in counted:
        yield tuple(sum(i * weight[axis] for i, weight in zip(number, weights, strict=True)) for axis in (0, 1))


@pytest.mark.parametrize(("opcode", "role", "lanes", "slots"), MAPS)
def test_the_layout_is_that_of_cute(opcode, role, lanes, slots):
    fragments = tcemu.parse(opcode).fragments
    fragment = fragments[role] if role else next(iter(fragments.values()))
    for lane, base in enumerate(expanded(lanes)):
        for slot, offset in enumerate(expanded(slots)):
            # matrices lie one below the other; of scales, the axis in front is the thread_id, which picks a copy
            *batch, row, column = fragment.layout.position(lane, slot)
            place = (row if role else row + sum(batch) * fragment.shape[-2], column)
            assert place == (base[0] + offset[0], base[1] + offset[1]), (lane, slot)
