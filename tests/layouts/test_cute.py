"""Layouts that no recording has, against the traits of NVIDIA's CuTe (CUTLASS at 7107b05): maps as digits, facts only.

A map is [size, rows, columns] for each digit of the lane and of the slot, least significant first.
"""

from itertools import product

import pytest

import tcemu
from tcemu.errors import LayoutError

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
F64 = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
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


#: The layouts of the traits of CuTe's atoms (mma_traits_sm80.hpp, mma_traits_sm90_gmma.hpp), without underscores.
ATOMS = [
    (F16, "a", "((4,8),(2,2,2)):((32,1),(16,8,128))"),  # SM80_16x8x16_F32F16F16F32_TN
    (F16, "b", "((4,8),(2,2)):((16,1),(8,64))"),
    (F16, "c", "((4,8),(2,2)):((32,1),(16,8))"),  # SM80_16x8_Row
    (F64, "a", "((4,8),1):((8,1),0)"),  # SM80_8x8x4_F64F64F64F64_TN
    (F64, "c", "((4,8),2):((16,1),8)"),
    (S8, "a", "((4,8),(4,2,2)):((64,1),(16,8,256))"),  # SM80_16x8x32_S32S8S8S32_TN
    (S8, "b", "((4,8),(4,2)):((32,1),(8,128))"),
    ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "d", "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))"),
]


@pytest.mark.parametrize(("opcode", "role", "line"), ATOMS)
def test_the_line_is_that_of_cutes_atom(opcode, role, line):
    assert tcemu.parse(opcode).fragments[role].cute == line


def test_a_copy_has_the_stride_0_and_a_batch_no_line():
    assert tcemu.layouts.Layout("g t -> (u g) t", u=2, g=8, t=4).cute() == "((8,2),4):((1,0),8)"
    with pytest.raises(LayoutError, match="a batch of 4"):
        _ = tcemu.parse("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32").fragments["a"].cute
