"""Tensor copies of im2col mode: against silicon, a convolution, and what the driver of an H100 accepts."""

import itertools
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from im2col_copies import CORNER_BITS, MISALIGNED, MODES, REFUSED, WAYS, Taken, golden, image, stores

import tcemu
from tcemu.errors import OperandError
from tcemu.machine.events import CopyIssued
from tcemu.machine.global_memory import Pointer
from tcemu.machine.im2col import Im2colMap
from tcemu.machine.tensor_map import ELEMENTS, TensorMap
from tcemu.machine.tensor_map_words import words_of

FILE = golden()
COPIES = [(Taken.of(row), answer) for *row, answer in FILE["copies"]]
#: Reductions that a GPU executes and the manual does not have.
UNDOCUMENTED = {(way, element) for way in ("add", "tile add") for element in ("tf32", "f64")}


@pytest.mark.parametrize("rank", CORNER_BITS)
def test_what_the_gpu_answered(rank):
    asked = [(copy, answer) for copy, answer in COPIES if copy.map.rank == rank]
    assert len(asked) > 150
    asked = [each for each in asked if (each[0].way, each[0].map.element) not in UNDOCUMENTED]
    wrong = [f"{copy}: GPU {answer}, emulator {copy.answer()}" for copy, answer in asked if copy.answer() != answer]
    assert not wrong, f"{len(wrong)} of {len(asked)}: {wrong[:3]}"


def test_what_was_asked():
    for rank in CORNER_BITS:
        ran = [copy.map for copy, answer in COPIES if copy.map.rank == rank and not answer.startswith("CUDA")]
        maps = [made for made in ran if isinstance(made, Im2colMap)]
        assert {made.element for made in maps} == set(ELEMENTS)
        assert {made.swizzle for made in maps} == set(MODES)
        assert {step for made in maps for step in made.element_strides[1:]} >= {1, 2, 3}
        assert min(min(made.lower) for made in maps) < 0 < max(max(made.upper) for made in maps)
    assert {copy.map.fill for copy, _ in COPIES} == {"zeros", "nan"}
    assert {answer for _, answer in COPIES if answer.startswith("CUDA")} == {REFUSED, MISALIGNED}
    assert {"gpu", "target", "date", "command", "row"} <= set(FILE["provenance"])


def test_a_byte_that_differs_is_seen():
    copy, answer = next(each for each in COPIES if not each[1].startswith("CUDA"))
    for which in (0, 1):
        memories = copy.emulated()
        assert copy.told(memories) == answer
        memories[which][len(memories[which]) // 2] ^= 1
        assert copy.told(memories) != answer


# ------------------------------------------------------------------------------------------------ convolutions


@pytest.mark.parametrize(("filter_", "padding", "stride"), [(3, 1, 1), (3, 0, 2), (5, 2, 3), (1, 0, 1), (2, 1, 2)])
@pytest.mark.parametrize("spaces", [1, 2, 3])
def test_a_convolution_as_a_matrix_product(spaces, filter_, padding, stride):
    """One load for each place of the filter makes the matrix of an implicit GEMM, for any padding and stride."""
    random = np.random.default_rng(spaces)
    channels, images, sizes = 8, 2, (4, 5, 6)[:spaces]
    x = random.integers(-3, 4, (images, *sizes, channels)).astype(np.float32)
    weights = random.integers(-3, 4, (*[filter_] * spaces, channels, 4)).astype(np.float32)
    outputs = [(size + 2 * padding - filter_) // stride + 1 for size in sizes]
    padded = np.pad(x, [(0, 0), *[(padding, padding)] * spaces, (0, 0)])
    expected = np.zeros((images, *outputs, 4), np.float32)
    for place in itertools.product(*map(range, outputs)):
        window = padded[:, *(slice(stride * at, stride * at + filter_) for at in place)]
        expected[:, *place] = np.tensordot(window, weights, spaces + 1)
    made = Im2colMap.of(
        Pointer(0, x.dtype, x.shape),
        (channels, images * int(np.prod(outputs))),
        element_strides=(1, *[stride] * spaces, 1),
        lower=[-padding] * spaces,
        upper=[padding - filter_ + 1] * spaces,
    )
    found = np.zeros((made.box[1], 4), np.float32)
    for place in itertools.product(range(filter_), repeat=spaces):
        shared = np.full(made.bytes, 255, np.uint8)
        made.load(x.reshape(-1).view(np.uint8), shared, 0, (0, *[-padding] * spaces, 0), offsets=place[::-1])
        found += shared.view(np.float32).reshape(-1, channels) @ weights[place]
    assert np.array_equal(found, expected.reshape(-1, 4))


def test_pixels_go_through_the_bounding_box():
    made = image(4, lower=(-1, 1), upper=(-3, -2), element_strides=(1, 2, 1, 1))
    assert made.pixels((0, 1, 2, 0))[:6] == [(1, 2, 0), (-1, 1, 1), (1, 1, 1), (-1, 2, 1), (1, 2, 1), (-1, 1, 2)]
    assert made.pixels((0, 1, 2, 0), (3, 1))[:2] == [(4, 3, 0), (2, 2, 1)]
    assert (made.bytes, made.shared_bytes) == (8 * 2 * 30, 8 * 2 * 30)
    told = "30 pixels of 8 channels of a tensor 8 × 6 × 5 × 2 of u16, bounding box (-1, 1) to (3, 3), no swizzle"
    assert str(made) == told


# ------------------------------------------------------------------------------------------------ kernels


def test_each_block_of_a_multicast_gets_the_pixels():
    x = np.arange(2 * 5 * 6 * 8, dtype=np.uint16).reshape(2, 5, 6, 8)
    out = np.zeros((2, 32, 8), np.uint16)

    def kernel(warp, x, out):
        made = Im2colMap.of(x, (8, 32), lower=(-1, -1), upper=(1, 1))
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(4096, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(4096, made.bytes)
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        with warp.only((warp.laneid == 0) & (warp.cluster_ctarank == 0)):
            warp.cp_async_bulk_tensor_shared_global(0, made, (0, -1, -1, 0), 4096, offsets=(1, 2), cta_mask=3)
        warp.mbarrier_wait(4096, 0)
        values = warp.ld_shared(16 * warp.laneid, "b128")
        warp.st_global(out + 16 * (32 * warp.cluster_ctarank + warp.laneid), values, "b128")

    tcemu.launch(kernel, 2, 32, (x, out), shared=4104, cluster=2)
    expected = np.zeros((32, 8), np.uint16)
    for row, (w, h, n) in enumerate(replace(image(4), box=(8, 32)).pixels((0, -1, -1, 0), (1, 2))):
        if 0 <= w < 6 and 0 <= h < 5 and n < 2:
            expected[row] = x[n, h, w]
    assert np.array_equal(out, [expected, expected])
    assert expected.any()


def one(opcode, made, *operands, observers=()):
    """A kernel of one lane that executes a copy of zeros, by a map whose address counts from the array."""

    def kernel(warp, _):
        with warp.only(warp.laneid == 0):
            if "mbarrier" in opcode:
                warp.mbarrier_init(8192, 1)
                warp.fence_mbarrier_init()
                warp.mbarrier_arrive_expect_tx(8192, made.bytes)
            warp.run(opcode, *operands)
            if "mbarrier" in opcode:
                warp.mbarrier_wait(8192, 0)

    return tcemu.launch(kernel, 1, 32, (np.zeros(4096, np.uint8),), shared=8200, observers=observers)


LOAD = "cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes"
PREFETCH = "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col"


def test_observers_hear_which_bytes_are_read_and_written():
    """Of 30 pixels, those in the tensor are read, and all are written."""
    made, seen = replace(image(4), address=512, upper=(0, 0)), []
    one(LOAD, made, 0, made, (0, -1, -1, 0), 8192, (0, 0), observers=[seen.append])
    (copy,) = [event.copy for event in seen if isinstance(event, CopyIssued)]
    inside = [place for place in made.pixels((0, -1, -1, 0)) if min(place) >= 0]
    assert copy.reads[1].tolist() == [512 + 16 * w + 96 * h + 480 * n for w, h, n in inside]
    assert copy.writes[1].tolist() == list(range(0, 480, 16))
    assert copy.bytes == 480


@pytest.mark.parametrize("opcode", [LOAD, PREFETCH])
@pytest.mark.parametrize(
    ("at", "offsets", "told"),
    [
        ((0, -2, 0, 0), (0, 0), "must start in the bounding box, (-1, -1) to below (7, 6) without channels and images"),
        ((0, 0, 6, 0), (0, 0), "got coordinates (0, 0, 6, 0). A GPU stops with an illegal instruction (PTX ISA 9"),
        ((0, 0, 0, 0), (0,), "needs 2 offsets, W first, each 0 to 255; got (0,) (PTX ISA 9.1, 5.5.4"),
        ((0, 0, 0, 0), (0, 256), "each 0 to 255; got (0, 256)"),
        ((0, 0, 0, 0), (0, -1), "each 0 to 255; got (0, -1)"),
        ((0, 0, 0), (0, 0), "needs 4 coordinates of 32 bits each"),
    ],
)
def test_coordinates_and_offsets_that_do_not_fit(opcode, at, offsets, told):
    operands = (0, image(4), at, 8192, offsets) if opcode == LOAD else (image(4), at, offsets)
    with pytest.raises(OperandError, match=re.escape(told)):
        one(opcode, image(4), *operands)


def test_maps_of_the_other_mode():
    made = image(4)
    tiled = TensorMap(0, "u16", made.sizes, made.strides, (8, 2, 2, 2))
    with pytest.raises(OperandError, match="im2col mode and takes a map of cuTensorMapEncodeIm2col; got one of cuTens"):
        one(LOAD, tiled, 0, tiled, (0,) * 4, 8192, (0, 0))
    for opcode, *operands in (
        (LOAD.replace("im2col", "tile"), 0, made, (0,) * 4, 8192),
        ("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group", made, (0,) * 4, 0),
    ):
        with pytest.raises(OperandError, match="takes a map of cuTensorMapEncodeTiled; got one of cuTensorMapEncodeIm"):
            one(opcode, made, *operands)
    with pytest.raises(OperandError, match=r"a copy in tile mode has no offsets; got \(0, 0\)"):
        tiled.pieces((0,) * 4, offsets=(0, 0))
    with pytest.raises(OperandError, match="only tensor maps of tile mode have words; got one of cuTensorMapEncodeIm"):
        words_of(made)


@pytest.mark.parametrize("way", ["store", "add"])
def test_a_store_needs_a_bounding_box_inside_the_tensor(way):
    for corners in ({"lower": (0, -1), "upper": (0, 0)}, {"lower": (0, 0), "upper": (1, 0)}):
        made = replace(image(4, **corners), element="u32", box=(4, 30))
        with pytest.raises(OperandError, match="lies inside the tensor, with no lower below 0 and no upper above 0"):
            one(WAYS[way][1].format(4), made, made, (0,) * 4, 0)


def test_a_store_puts_back_what_a_load_took():
    """Pixels of a bounding box inside the tensor: each image with a border that stays as it was."""
    x = np.arange(2 * 5 * 6 * 8, dtype=np.uint16).reshape(2, 5, 6, 8)
    out = np.zeros_like(x)

    def kernel(warp, x, out):
        corners = {"lower": (1, 1), "upper": (-1, -1)}
        source, target = (Im2colMap.of(each, (8, 24), **corners) for each in (x, out))
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(8192, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(8192, source.bytes)
            warp.cp_async_bulk_tensor_shared_global(0, source, (0, 1, 1, 0), 8192, offsets=(0, 0))
            warp.mbarrier_wait(8192, 0)
            warp.cp_async_bulk_tensor_global_shared(target, (0, 1, 1, 0), 0)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)

    tcemu.launch(kernel, 1, 32, (x, out), shared=8200)
    expected = np.zeros_like(x)
    expected[:, 1:4, 1:5] = x[:, 1:4, 1:5]
    assert np.array_equal(out, expected)


def test_stores_that_were_asked():
    ran = {(copy.way, copy.map.element) for copy, answer in COPIES if not answer.startswith("CUDA")}
    assert ran >= {*stores()}
    assert {element for way, element in ran if way == "tile and"} == {"u32", "s32", "u64"}
    assert {copy.map.rank for copy, answer in COPIES if copy.way == "store" and answer.startswith("CUDA")} == {3, 4, 5}


# ------------------------------------------------------------------------------------------------ maps

GOOD = {"address": 1 << 20, "element": "u16", "sizes": (32, 5, 6, 7), "strides": (64, 320, 1920), "box": (16, 32)}
LONG = {"sizes": (32, 70000, 7), "strides": (64, 4480000)}
WIDE = {"sizes": (32, 500, 500, 7), "strides": (64, 32000, 16000000)}
DEEP = {"sizes": (32, 50, 50, 50, 7), "strides": (64, 3200, 160000, 8000000)}


@pytest.mark.parametrize(
    "change",
    [
        {"box": (8, 1)},
        {"box": (256, 1024)},
        {"box": (248, 257)},
        {"element": "f64", "box": (2, 1)},
        {"element": "u8", "box": (256, 1)},
        *(LONG | {corner: (limit,)} for corner in ("lower", "upper") for limit in (-32768, 32767)),
        *(WIDE | {corner: (0, limit)} for corner in ("lower", "upper") for limit in (-128, 127)),
        *(DEEP | {corner: (0, 0, limit)} for corner in ("lower", "upper") for limit in (-16, 15)),
        {"upper": (-4, 0)},
        {"lower": (4, 5)},
        {"lower": (-5, 0), "upper": (-9, 0)},
        {"lower": (2, 0), "upper": (-2, 0)},
        {"element_strides": (8, 8, 1, 8)},
        {"swizzle": 32, "box": (16, 32)},
        {"swizzle": 64, "box": (24, 32)},
        {"swizzle": 128, "box": (64, 32)},
        {"element": "f16", "fill": "nan"},
        {"address": 0, "strides": (0, 320, (1 << 40) - 16)},
        {"sizes": (32, 5, 6, 1 << 32)},
    ],
)
def test_what_the_driver_accepts(change):
    """Each of these was put to cuTensorMapEncodeIm2col."""
    made = Im2colMap(**(GOOD | change))
    assert made.mode == "im2col"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sizes": (32, 5), "strides": (64,)}, "it must have 3 to 5 dimensions; got sizes (32, 5)"),
        ({"box": (16, 4, 4)}, "4 sizes need 2 box; got (16, 4, 4)"),
        ({"lower": (1,)}, "4 sizes need 2 lower; got (1,)"),
        ({"upper": (0, 0.5)}, "upper: not a whole number: 0.5"),
        ({"box": (0, 32)}, "box must be 1 to 256 channels and 1 to 1024 pixels; got (0, 32)"),
        ({"box": (264, 32)}, "box must be 1 to 256 channels"),
        ({"box": (16, 0)}, "1 to 1024 pixels; got (16, 0)"),
        ({"box": (16, 1025)}, "1 to 1024 pixels; got (16, 1025)"),
        ({"box": (12, 32)}, "a multiple of 16 bytes; box (12, 32) has 24"),
        ({"element": "u8", "box": (8, 32)}, "a multiple of 16 bytes; box (8, 32) has 8"),
        *((LONG | {"lower": (to,)}, "lower must be -32768 to 32767 for 3 dimensions") for to in (-32769, 32768)),
        *((WIDE | {"upper": (to, 0)}, "upper must be -128 to 127 for 4 dimensions") for to in (-129, 128)),
        *((DEEP | {"lower": (0, to, 0)}, "lower must be -16 to 15 for 5 dimensions") for to in (-17, 16)),
        ({"upper": (-5, 0)}, "the bounding box is empty: it goes from (0, 0) to below (0, 6), the sizes (5, 6)"),
        ({"lower": (0, 6)}, "the bounding box is empty"),
        ({"lower": (-5, 0), "upper": (-10, 0)}, "the bounding box is empty"),
        ({"element_strides": (9, 1, 1, 1)}, "element_strides must be 1 to 8"),
        ({"element_strides": (1, 1, 1, 0)}, "element_strides must be 1 to 8"),
        ({"swizzle": 32, "box": (24, 32)}, "with a swizzle of 32 bytes it has at most 32"),
        ({"swizzle": 128, "box": (72, 32)}, "with a swizzle of 128 bytes it has at most 128"),
        ({"fill": "nan"}, "for floats only; u16 is not a float"),
        ({"address": 8}, "must start at a multiple of 16; got address 8"),
        ({"strides": (72, 320, 1920)}, "multiples of 16 bytes"),
        ({"sizes": (0, 5, 6, 7)}, "sizes must be 1 to 4294967296"),
    ],
)
def test_what_the_driver_does_not_accept(change, told):
    with pytest.raises(OperandError) as error:
        Im2colMap(**(GOOD | change))
    assert told in str(error.value)
    assert "(cuTensorMapEncodeIm2col, PTX ISA 9.1, 5.5 " in str(error.value) or "not a whole number" in str(error.value)


def test_maps_of_whole_arrays():
    array = Pointer(512, np.dtype(ml_dtypes.bfloat16), (2, 5, 6, 64))
    made = Im2colMap.of(array, (64, 30), swizzle=128, fill="nan", lower=(-1, -1), upper=(-1, -1))
    strides, corners = (128, 768, 3840), ((-1, -1), (-1, -1))
    assert made == Im2colMap(512, "bf16", (64, 6, 5, 2), strides, (64, 30), 128, "nan", (1, 1, 1, 1), *corners)
    assert Im2colMap.of(array, (64, 30)).lower == (0, 0)
    mapped = tcemu.live.tensor_map(np.zeros((2, 5, 64), np.float16), (64, 30), lower=(-1,), upper=(1,))
    assert mapped.tensor_map == Im2colMap(0, "f16", (64, 5, 2), (128, 640), (64, 30), lower=(-1,), upper=(1,))
