"""Tensor maps in memory: tensormap.replace, tensormap.cp_fenceproxy and fence.proxy.tensormap."""

import numpy as np
import pytest

import tcemu
from tcemu.errors import LaunchError, MemoryFault, OperandError
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import map_of, words_of

REPLACE, ACQUIRE = "tensormap.replace.tile", "fence.proxy.tensormap::generic.acquire.gpu"
PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
#: Where the map, the box and the mbarrier are in shared memory.
MAP, BOX, BAR = 0, 1024, 2048


def load(warp, described, coordinates, size):
    """Thread 0 copies a box into shared memory; the words (32,) from its start."""
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(BAR, 1)
        warp.fence_mbarrier_init()
        warp.mbarrier_arrive_expect_tx(BAR, size)
        warp.cp_async_bulk_tensor_shared_global(BOX, described, coordinates, BAR)
    warp.bar_warp_sync()
    warp.mbarrier_wait(BAR, 0)
    return warp.ld_shared(BOX + 4 * warp.laneid)


def replace(warp, field, *given, wide=False, space="shared::cta", at=MAP):
    with warp.only(warp.laneid == 0):
        warp.run(f"{REPLACE}.{field}.{space}.b1024.b{64 if wide else 32}", at, *given)


def test_a_map_is_its_words(row):
    maps = [
        TensorMap(4096, "f16", (64, 32), (128,), (16, 8)),
        TensorMap(1 << 33, "bf16", (64, 8, 4), (128, 1 << 33), (64, 8, 1), swizzle=128, fill="nan"),
        TensorMap(256, "u8", (1024,), (), (128,), element_strides=(1,)),
        TensorMap(512, "f32", (16, 4, 4, 4, 4), (64, 256, 1024, 4096), (4,) * 5, element_strides=(1, 2, 1, 1, 3)),
    ]
    for each in maps:
        with row(str(each)):
            assert map_of(words_of(each).tobytes()) == each


def test_a_map_that_changes_its_tensor():
    """As in a grouped GEMM: a template gets another address, size and stride, and is published in global memory."""

    def kernel(warp, x, y, maps, out):
        warp.st_shared(MAP + 4 * warp.laneid, words_of(TensorMap.of(x, (8, 4))))
        warp.bar_warp_sync()
        replace(warp, "global_address", int(y), wide=True)
        replace(warp, "global_dim", 0, 24)
        replace(warp, "global_dim", 1, 6)
        replace(warp, "global_stride", 0, 96, wide=True)
        warp.bar_warp_sync()
        warp.run(PUBLISH, maps, MAP, 128)
        warp.run(ACQUIRE, maps, 128)
        warp.st_global(out.at(warp.laneid), load(warp, maps, (16, 4), 128))

    x, y = np.zeros((16, 16), np.float32), np.arange(144, dtype=np.float32).reshape(6, 24)
    out = np.zeros(32, np.float32)
    tcemu.launch(kernel, args=(x, y, np.zeros((1, 128), np.uint8), out), shared=2056)
    expected = np.zeros((4, 8), np.float32)  # rows 4 and 5; beyond them are zeros
    expected[:2] = y[4:6, 16:24]
    assert np.array_equal(out.reshape(4, 8), expected)


def test_a_map_made_from_nothing():
    """As Triton does: every field of 128 zero bytes is set."""

    def kernel(warp, x, maps, out):
        warp.st_shared(MAP + 4 * warp.laneid, 0)
        warp.bar_warp_sync()
        replace(warp, "global_address", int(x), wide=True)
        for field, code in (("rank", 1), ("elemtype", 6), ("interleave_layout", 0), ("swizzle_mode", 1)):
            replace(warp, field, code)
        replace(warp, "fill_mode", 0)
        for ordinal, (box, size) in enumerate(((16, 16), (4, 32))):
            replace(warp, "box_dim", ordinal, box)
            replace(warp, "global_dim", ordinal, size)
            replace(warp, "element_stride", ordinal, 1)
        replace(warp, "global_stride", 0, 32, wide=True)
        warp.bar_warp_sync()
        warp.run(PUBLISH, maps, MAP, 128)
        warp.run(ACQUIRE, maps, 128)
        described = map_of(np.asarray(warp.ld_shared(MAP + 4 * warp.laneid))[:, 0].tobytes())
        assert described == TensorMap.of(x, (16, 4), swizzle=32)
        warp.st_global(out.at(warp.laneid), load(warp, maps, (0, 8), 128))

    x, out = np.arange(512, dtype=np.float16).reshape(32, 16), np.zeros(32, np.uint32)
    tcemu.launch(kernel, args=(x, np.zeros((1, 128), np.uint8), out), shared=2056)
    assert np.array_equal(np.sort(out.view(np.float16)), x[8:12].ravel())


def test_what_replace_is_not_given(row):
    cases = [
        (lambda w, m: w.run(f"{REPLACE}.box_dim.shared::cta.b1024.b32", 0, 5, 1), OperandError, "to 4; got 5"),
        (lambda w, m: w.run(f"{REPLACE}.global_stride.global.b1024.b64", m, 4, 1), OperandError, "to 3; got 4"),
        (lambda w, m: w.run(f"{REPLACE}.rank.shared::cta.b1024.b32", 8, 1), MemoryFault, "multiple of 64"),
        (lambda w, m: w.run(f"{REPLACE}.rank.shared::cta.b1024.b32", 4096, 1), MemoryFault, "2056 bytes"),
        (lambda w, m: w.run(PUBLISH, m, 0, 64), OperandError, "the size must be 128, the bytes of a tensor map"),
        (lambda w, m: w.run(PUBLISH, m + 128 * w.laneid, 0, 128), OperandError, "one address for all active lanes"),
        (lambda w, m: load(w, m, (0,), 16), OperandError, "are not a tensor map that a copy can use"),
        (lambda w, m: load(w, w.generic(0), (0,), 16), MemoryFault, "lies in shared memory, not in global memory"),
        (lambda w, m: load(w, m + 8, (0,), 16), MemoryFault, "multiple of 64"),
    ]
    for number, (body, kind, says) in enumerate(cases):
        with row(f"{number} {says}"), pytest.raises(kind) as caught:
            tcemu.launch(body, args=(np.zeros(8192, np.uint8),), shared=2056, sanitizer="off")
        assert says in str(caught.value), str(caught.value)


def test_numbers_that_no_map_has(row):
    good = words_of(TensorMap(4096, "f16", (64, 32), (128,), (16, 8)))
    for word, value, says in [
        (2, 5, "minus 1, 0 to 4; got 5"),
        (3, 16, "15 b6x16_p32; got 16"),
        (3, 8, "got f32.ftz"),
        (4, 1, "no"),
        (5, 4, "3 128; got 4"),
        (6, 2, "1 nan; got 2"),
        (13, 12, "multiple of 16 bytes"),
    ]:
        words = good.copy()
        words[word] = value
        with row(f"{word} {value}"), pytest.raises(OperandError) as caught:
            map_of(words.tobytes())
        assert says in str(caught.value)


# ------------------------------------------------------------------------------------------------ the sanitizer


def published(warp, x, maps, how):
    """Lane 0 changes a map in global memory and uses it."""
    warp.st_global(maps + 4 * warp.laneid, words_of(TensorMap.of(x, (8, 4))))
    warp.bar_warp_sync()
    replace(warp, "global_dim", 0, 8, space="global", at=maps)
    with warp.only(warp.laneid == 0):
        if "release" in how:
            warp.run("fence.proxy.tensormap::generic.release.gpu")
        if "acquire" in how:
            warp.run(ACQUIRE, maps, 128)
    load(warp, maps, (0, 0), 128)


def test_a_map_that_is_used_without_its_fences():
    args = np.zeros((16, 16), np.float32), np.zeros(128, np.uint8)
    for how, missing in (("", "release"), ("release", "acquire"), ("acquire", "release")):
        with pytest.raises(LaunchError) as caught:
            tcemu.launch(published, args=(*args, how), shared=2056)
        report = caught.value.report
        assert report.rule == "proxy-fence-missing"
        assert f"fence.proxy.tensormap::generic.{missing}" in report.message
        assert report.site.function == "load"
    tcemu.launch(published, args=(*args, "release acquire"), shared=2056)
