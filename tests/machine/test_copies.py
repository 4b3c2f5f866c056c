"""Copies in kernels: cp.async, bulk and tensor copies, mbarriers, under every policy and many orders of the warps."""

from collections import Counter

import numpy as np
import pytest

import tcemu
from tcemu.errors import Deadlock, MemoryFault, OperandError
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.mbarrier import Mbarrier
from tcemu.machine.tensor_map import TensorMap

POLICIES = ("early", "late", "random")
SEEDS = (0, 1, 2, 3)
every_policy = pytest.mark.parametrize("policy", POLICIES)
#: PTX ISA 9.1, 5.5.7: which unit of 16 bytes lies where in the lines of 128 bytes; then the pattern repeats.
TABLES = {
    0: ["01234567"],
    32: ["01234567", "10325476"],
    64: ["01234567", "10325476", "23016745", "32107654"],
    128: ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
}


def numbers(*shape: int, dtype: type = np.uint8, seed: int = 1) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def straightened(shared: np.ndarray, swizzle: int) -> np.ndarray:
    """Lines of 128 bytes with their units in order again, by the manual's table."""
    rows = TABLES[swizzle]
    found = shared.reshape(-1, 8, 16).copy()
    for line, units in enumerate(shared.reshape(-1, 8, 16)):
        for place, unit in enumerate(rows[line % len(rows)]):
            found[line, int(unit)] = units[place]
    return found.reshape(-1)


def dump(warp, out, first=0):
    """Bring shared memory out, from `first` on as much as `out` has, by warp 0."""
    if warp.warpid == 0:
        for at in range(0, out.nbytes, 512):
            lanes = at + 16 * warp.laneid
            with warp.only(lanes < out.nbytes):
                warp.st_global(out + lanes, warp.ld_shared(first + lanes, "v4.b32"), "v4.b32")


def one_lane(warp):
    return warp.only(warp.elect_sync())


def load_box(warp, made, at, shared, barrier, parity=0):
    """Arm, copy, wait: the whole of a tensor copy, by warp 0."""
    if warp.warpid == 0:
        with one_lane(warp):
            warp.mbarrier_init(barrier, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(barrier, made.bytes)
            warp.cp_async_bulk_tensor_shared_global(shared, made, at, barrier)
        warp.mbarrier_wait(barrier, parity)


# ------------------------------------------------------------------------------------------------ cp.async


@every_policy
@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async_copies_and_fills(policy, size):
    """Each lane its own bytes; behind src-size there are zeros."""
    source, out = numbers(32, 16), np.zeros((32, 16), np.uint8)

    def kernel(warp, source, out):
        for at in range(0, 512, 16):
            warp.st_shared(at + warp.laneid // 8 * 4, 0xFFFFFFFF)
        warp.cp_async(16 * warp.laneid, source + 16 * warp.laneid, size, warp.laneid % (size + 1))
        warp.cp_async_wait_all()
        dump(warp, out)

    launch(kernel, args=(source, out), shared=512, policy=policy)
    expected = np.full((32, 16), 255, np.uint8)
    for lane in range(32):
        taken = lane % (size + 1)
        expected[lane, :size] = 0
        expected[lane, :taken] = source[lane, :taken]
    assert np.array_equal(out, expected)


def test_cp_async_copies_cp_size_bytes_if_src_size_is_greater():
    """The manual leaves it undefined, and the sanitizer reports it; a register has no sign, so -1 is greater, too."""
    source, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)

    def kernel(warp, source, out):
        with warp.only(warp.laneid < 2):
            warp.cp_async(8 * warp.laneid, source.at(2 * warp.laneid), 8, np.where(warp.laneid == 0, 9, -1))
            warp.cp_async_wait_all()
            warp.st_global(out.at(2 * warp.laneid), warp.ld_shared(8 * warp.laneid, "v2.b32"), "v2.b32")

    found = tcemu.launch(kernel, args=(source, out), shared=16, sanitizer="collect")
    assert out[:4].tolist() == [0, 1, 2, 3]
    assert [(each.rule, each.lanes) for each in found.reports] == [("cp-async-src-size", (0, 1))]
    assert "a src-size of 9 in lane 0: it must be 0 to 8" in found.reports[0].message


def test_cp_async_reads_nothing_where_src_size_is_0():
    """An address outside of every array does no harm then, and is a fault otherwise."""
    source, out = numbers(32, 16), np.ones((32, 16), np.uint8)

    def kernel(warp, source, out, taken):
        far = np.where(warp.laneid < 16, source + 16 * warp.laneid, 1 << 30)
        warp.cp_async(16 * warp.laneid, far, 16, np.where(warp.laneid < 16, 16, taken))
        warp.cp_async_wait_all()
        dump(warp, out)

    launch(kernel, args=(source, out, 0), shared=512)
    assert np.array_equal(out[:16], source[:16])
    assert not out[16:].any()
    with pytest.raises(MemoryFault, match="lies outside global memory"):
        launch(kernel, args=(source, out, 1), shared=512)


@pytest.mark.parametrize("taken", [16, 0, 5, [0, 4, 8, 16] * 8, [*range(17), *range(15)]])
def test_cp_async_tells_the_bytes_that_it_reads(taken):
    """Observers hear of src-size bytes of each lane, and of all that is written."""
    heard, started = [], []

    def kernel(warp, source):
        started.append(int(source))
        warp.cp_async(16 * warp.laneid, source + 32 * warp.laneid, 16, np.asarray(taken))
        warp.cp_async_wait_all()

    launch(kernel, args=(numbers(32, 32),), shared=512, observers=[heard.append])
    (copy,) = [event.copy for event in heard if isinstance(event, events.CopyIssued)]
    space, addresses, size = copy.reads
    read = [at - started[0] + byte for at in addresses.tolist() for byte in range(size)]
    counts = np.broadcast_to(taken, 32).tolist()
    assert (space, read) == ("global", [32 * lane + byte for lane in range(32) for byte in range(counts[lane])])
    assert copy.writes[1].tolist() == list(range(0, 512, 16))
    assert (copy.writes[2], copy.bytes) == (16, 512)


def test_cp_async_waits_for_groups_from_the_oldest_on():
    """wait_group 1 after three groups: two are there, the youngest is not, unless the policy is early."""
    source, out = numbers(3, 512), np.zeros((3, 512), np.uint8)

    def kernel(warp, source, out):
        for group in range(3):
            warp.cp_async(512 * group + 16 * warp.laneid, source.at(group, 16 * warp.laneid), 16, cache="cg")
            warp.cp_async_commit_group()
        warp.cp_async_wait_group(1)
        dump(warp, out)

    launch(kernel, args=(source, out), shared=1536, policy="late")
    assert np.array_equal(out[:2], source[:2])
    assert not out[2].any()
    result = launch(kernel, args=(source, out), shared=1536, policy=["early", "late"])
    assert np.array_equal(out, source)
    (parting,) = result.parted
    assert (parting.argument, parting.index[0]) == (1, 2)


def test_what_stands_in_no_group_is_not_waited_for():
    source, out = numbers(512), np.zeros(512, np.uint8)

    def kernel(warp, source, out):
        warp.cp_async_commit_group()
        warp.cp_async(16 * warp.laneid, source + 16 * warp.laneid, 16)
        warp.cp_async_wait_group(0)
        dump(warp, out)

    launch(kernel, args=(source, out), shared=512)
    assert not out.any()


def test_groups_are_a_warp_s_own():
    source, out = numbers(2, 512), np.zeros((2, 512), np.uint8)

    def kernel(warp, source, out):
        warp.cp_async(512 * warp.warpid + 16 * warp.laneid, source.at(warp.warpid, 16 * warp.laneid), 16)
        warp.cp_async_commit_group()
        warp.bar_sync()
        if warp.warpid == 0:
            warp.cp_async_wait_group(0)
            dump(warp, out)

    launch(kernel, block=64, args=(source, out), shared=1024)
    assert np.array_equal(out[0], source[0])
    assert not out[1].any()


@every_policy
@pytest.mark.parametrize("noinc", [False, True])
def test_an_mbarrier_waits_for_cp_async(policy, noinc):
    """Without .noinc the count of init has only the ordinary arrivals; with it, the copies' too."""
    source, out = numbers(512), np.zeros(512, np.uint8)

    def kernel(warp, source, out):
        with one_lane(warp):
            warp.mbarrier_init(512, 64 if noinc else 32)
        warp.cp_async(16 * warp.laneid, source + 16 * warp.laneid, 16)
        warp.cp_async_mbarrier_arrive(512, noinc=noinc)
        warp.mbarrier_arrive(512)
        warp.mbarrier_wait(512, 0)
        dump(warp, out)

    launch(kernel, args=(source, out), shared=520, policy=policy)
    assert np.array_equal(out, source)


# ------------------------------------------------------------------------------------------------ bulk copies


@every_policy
def test_bulk_copies_count_their_bytes(policy):
    """Every lane copies its own 48 bytes in; one lane brings all of it out again."""
    source, out = numbers(32, 48), np.zeros((32, 48), np.uint8)

    def kernel(warp, source, out):
        with one_lane(warp):
            warp.mbarrier_init(2048, 1)
            warp.mbarrier_arrive_expect_tx(2048, 32 * 48)
        warp.bar_warp_sync()
        warp.cp_async_bulk_shared_global(48 * warp.laneid, source.at(warp.laneid, 0), 48, 2048)
        warp.mbarrier_wait(2048, 0)
        with one_lane(warp):
            warp.cp_async_bulk_global_shared(int(out), 0, 32 * 48)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)

    launch(kernel, args=(source, out), shared=2056, policy=policy)
    assert np.array_equal(out, source)


def test_bulk_stores_read_when_they_land():
    """What is written to the source before wait_group.read is what arrives: the copy had not read it yet."""
    out = np.zeros(16, np.uint32)

    def kernel(warp, out, waits):
        with one_lane(warp):
            for value in (1, 2):
                warp.st_shared(0, np.full((32, 4), value, np.uint32), "v4.b32")
                if value == 1:
                    warp.cp_async_bulk_global_shared(int(out), 0, 16)
                    warp.cp_async_bulk_commit_group()
                    if waits:
                        warp.cp_async_bulk_wait_group(0, read=True)

    for waits, found in ((True, 1), (False, 2)):
        launch(kernel, args=(out, waits), shared=16)
        assert out.tolist() == [found] * 4 + [0] * 12


# ------------------------------------------------------------------------------------------------ tensor copies


@every_policy
@pytest.mark.parametrize("swizzle", TABLES)
@pytest.mark.parametrize("offset", [0, 128, 640])
def test_boxes_lie_in_shared_memory_as_the_manual_says(policy, swizzle, offset):
    source = numbers(40, 256, dtype=np.uint16)
    width, rows = (swizzle or 128) // 2, 32
    out = np.zeros(1024 + 128 * rows, np.uint8)

    def kernel(warp, source, out):
        made = TensorMap.of(source, (width, rows), swizzle=swizzle)
        load_box(warp, made, (width, 5), offset, out.nbytes)
        dump(warp, out)

    launch(kernel, args=(source, out), shared=len(out) + 8, policy=policy)
    found = straightened(out, swizzle)[offset:][: 2 * width * rows].view(np.uint16).reshape(rows, width)
    assert np.array_equal(found, source[5:37, width : 2 * width])
    assert np.count_nonzero(out) <= 2 * width * rows


@pytest.mark.parametrize("fill", ["zeros", "nan"])
@pytest.mark.parametrize("at", [(-8, -2), (48, 12), (56, -5), (64, 0), (0, 16), (-16, 0)])
def test_boxes_over_the_edge(fill, at):
    """The mbarrier counts the whole box, wherever it is, even if all of it is outside the tensor."""
    source = np.random.default_rng(4).random((16, 64)).astype(np.float16)
    out = np.zeros((8, 16), np.float16)

    def kernel(warp, source, out):
        made = TensorMap.of(source, (16, 8), fill=fill)
        load_box(warp, made, at, 0, 256)
        dump(warp, out)

    launch(kernel, args=(source, out), shared=264)
    expected = np.full((8, 16), 0 if fill == "zeros" else np.nan, np.float16)
    for row, column in np.ndindex(8, 16):
        x, y = at[0] + column, at[1] + row
        if 0 <= x < 64 and 0 <= y < 16:
            expected[row, column] = source[y, x]
    assert np.array_equal(out, expected, equal_nan=True)


@every_policy
@pytest.mark.parametrize("swizzle", TABLES)
def test_boxes_come_back(policy, swizzle):
    """Loaded and stored elsewhere, tile by tile: the edges of the target stay as they are outside."""
    source, target = numbers(50, 64, dtype=np.int32), np.zeros((50, 64), np.int32)
    width = (swizzle or 64) // 4

    def kernel(warp, source, target):
        first, second = (TensorMap.of(each, (width, 16), swizzle=swizzle) for each in (source, target))
        x, y, _ = warp.ctaid
        load_box(warp, first, (width * x, 16 * y), 0, 4096)
        with one_lane(warp):
            warp.cp_async_bulk_tensor_global_shared(second, (width * x, 16 * y), 0)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)

    launch(kernel, grid=(64 // width, 4), args=(source, target), shared=4104, policy=policy)
    assert np.array_equal(target, source)


def test_tensors_of_every_rank():
    """Coordinates are innermost first, shapes are not."""
    for shape in ((64,), (6, 64), (3, 4, 32), (2, 3, 4, 32), (2, 2, 3, 4, 16)):
        source, out = numbers(*shape, dtype=np.uint16), np.zeros(16 * 4 ** (len(shape) - 1), np.uint16)
        at = tuple(8 if axis == 0 else 1 for axis in range(len(shape)))

        def kernel(warp, source, out, at=at):
            made = TensorMap.of(source, (16, *[4] * (len(at) - 1)))
            load_box(warp, made, at, 0, 16384)
            dump(warp, out)

        launch(kernel, args=(source, out), shared=16392)
        padded = np.pad(source, [(0, 5)] * (len(shape) - 1) + [(0, 16)])
        box = padded[tuple(slice(place, place + (16 if axis == 0 else 4)) for axis, place in enumerate(at))[::-1]]
        assert np.array_equal(out, box.reshape(-1))


# ------------------------------------------------------------------------------------------------ pipelines


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_pipeline_of_stages(policy, seed, stages):
    """A producer warp, three consumer warps that add up what comes, full and empty mbarriers; 7 tiles."""
    source, sums = numbers(7, 32, 32, dtype=np.uint32), np.zeros((3, 32), np.uint32)
    full, empty = 4096 * stages, 4096 * stages + 8 * stages

    def kernel(warp, source, sums):
        made = TensorMap.of(source, (32, 32, 1), swizzle=128)
        if warp.warpid == 3:
            with one_lane(warp):
                for stage in range(stages):
                    warp.mbarrier_init(full + 8 * stage, 1)
                    warp.mbarrier_init(empty + 8 * stage, 3)
        warp.bar_sync()
        for tile in range(7):
            stage, turn = tile % stages, tile // stages
            if warp.warpid == 3:
                with one_lane(warp):
                    warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
                    warp.mbarrier_arrive_expect_tx(full + 8 * stage, made.bytes)
                    warp.cp_async_bulk_tensor_shared_global(4096 * stage, made, (0, 0, tile), full + 8 * stage)
                continue
            warp.mbarrier_wait(full + 8 * stage, turn % 2)
            total = warp.ld_global(sums.at(warp.warpid, warp.laneid))[:, 0]
            for row in range(warp.warpid, 32, 3):
                unit = warp.laneid // 4 ^ row % 8
                total = total + warp.ld_shared(4096 * stage + 128 * row + 16 * unit + 4 * (warp.laneid % 4))[:, 0]
            warp.st_global(sums.at(warp.warpid, warp.laneid), total)
            with one_lane(warp):
                warp.mbarrier_arrive(empty + 8 * stage)

    launch(kernel, block=128, args=(source, sums), shared=4096 * stages + 16 * stages, policy=policy, seed=seed)
    expected = [source[:, row::3].sum(axis=(0, 1), dtype=np.uint32) for row in range(3)]
    assert np.array_equal(sums, expected)


def test_a_producer_that_does_not_wait_for_empty_stages_is_found_out():
    """It overwrites what has not been read: with some order of the warps the sums differ from policy to policy."""
    source, out = numbers(4, 512), np.zeros((4, 512), np.uint8)

    def kernel(warp, source, out):
        if warp.warpid == 0:
            with one_lane(warp):
                warp.mbarrier_init(512, 1)
        warp.bar_sync()
        for tile in range(4):
            if warp.warpid == 0:
                with one_lane(warp):
                    warp.mbarrier_arrive_expect_tx(512, 512)
                    warp.cp_async_bulk_shared_global(0, source.at(tile, 0), 512, 512)
            warp.mbarrier_wait(512, tile % 2)
            if warp.warpid == 1:
                lanes = 16 * warp.laneid
                warp.st_global(out.at(tile, lanes), warp.ld_shared(lanes, "v4.b32"), "v4.b32")

    found = []
    for seed in range(1, 9):
        try:
            launch(kernel, block=64, args=(source, out), shared=520, seed=seed, policy="early")
            found.append(np.array_equal(out, source))
        except Deadlock:  # the phase that warp 1 waits for came and went
            found.append(False)
    assert not all(found)


@every_policy
def test_a_loop_that_looks_until_the_bytes_are_there(policy):
    source, out = numbers(256), np.zeros(256, np.uint8)

    def kernel(warp, source, out):
        with one_lane(warp):
            warp.mbarrier_init(512, 1)
            warp.mbarrier_arrive_expect_tx(512, 256)
            warp.cp_async_bulk_shared_global(0, int(source), 256, 512)
        while not warp.mbarrier_test_wait(512, 0):
            pass
        dump(warp, out)

    launch(kernel, args=(source, out), shared=520, policy=policy)
    assert np.array_equal(out, source)


# ------------------------------------------------------------------------------------------------ mbarriers as memory


def test_an_mbarrier_is_eight_bytes_of_shared_memory():
    """The bytes there are an mbarrier's 64 bits; every operation changes them, and inval makes them 0."""
    out = np.zeros(4, np.uint64)

    def kernel(warp, out):
        with one_lane(warp):
            for number, operation in enumerate(
                (
                    lambda: warp.mbarrier_init(64, 3),
                    lambda: warp.mbarrier_arrive(64, 2),
                    lambda: warp.mbarrier_expect_tx(64, 48),
                    lambda: warp.mbarrier_inval(64),
                )
            ):
                operation()
                warp.st_global(out.at(number), warp.ld_shared(64, "b64"), "b64")

    launch(kernel, args=(out,), shared=128)
    found = [str(Mbarrier.decode(bits)) for bits in out[:3].tolist()]
    assert found == [
        "phase 0 waits for 3 arrivals and 0 bytes",
        "phase 0 waits for 1 arrival and 0 bytes",
        "phase 0 waits for 1 arrival and 48 bytes",
    ]
    assert out[3] == 0


def box(source, *, swizzle=0):
    return TensorMap.of(source, (64, 16), swizzle=swizzle)


def test_a_copy_that_no_lane_makes_is_none():
    def kernel(warp, source):
        with warp.only(warp.laneid > 99):
            warp.cp_async(1, 0, 16)
            warp.cp_async_bulk_shared_global(1, 1, 16, 99)
            warp.cp_async_bulk_tensor_shared_global(1, box(source), (0, 0), 99)
            warp.cp_async_bulk_commit_group()
            warp.mbarrier_arrive(3)

    assert not launch(kernel, args=(np.zeros((32, 64), np.float16),)).counts


# ------------------------------------------------------------------------------------------------ what observers hear


def test_the_events_of_a_tensor_copy():
    """Issued and armed, then landed, then the phase is complete, then the wait succeeds."""
    heard = []

    def kernel(warp, source):
        load_box(warp, TensorMap.of(source, (32, 4), swizzle=64), (16, 30), 128, 512)

    launch(kernel, args=(np.zeros((32, 64), np.float16),), shared=520, observers=[heard.append])
    wanted = (events.CopyIssued, events.CopyLanded, events.MbarrierArrived, events.MbarrierCompleted)
    names = [event.name for event in heard if isinstance(event, (*wanted, events.MbarrierWaited))]
    assert names == ["MbarrierArrived", "CopyIssued", "CopyLanded", "MbarrierCompleted", "MbarrierWaited"]
    (copy,) = [event.copy for event in heard if isinstance(event, events.CopyIssued)]
    assert (copy.kind, copy.bytes, copy.mbarrier, copy.phase, copy.group) == ("bulk", 256, 512, 0, -1)
    space, far, size = copy.reads
    assert (space, size) == ("global", 16)
    assert (far - far[0]).tolist() == [0, 16, 32, 48, 128, 144, 160, 176], "two rows of four lie in the tensor"
    space, near, size = copy.writes
    assert (space, size) == ("shared", 16)
    lines = ["10325476", "10325476", "23016745", "23016745"]  # line 1 and 2 of the 64-byte pattern
    expected = [
        128 * (1 + row // 2) + 16 * lines[row].index(str(4 * (row % 2) + unit)) for row in range(4) for unit in range(4)
    ]
    assert near.tolist() == expected


def test_the_events_of_a_tensor_store():
    """Only elements in the tensor are read and written; the bytes that are counted are the whole box's."""
    heard = []

    def kernel(warp, target):
        with one_lane(warp):
            warp.cp_async_bulk_tensor_global_shared(TensorMap.of(target, (16, 4)), (56, 30), 128)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)

    launch(kernel, args=(np.zeros((32, 64), np.float16),), shared=512, observers=[heard.append])
    names = [event.name for event in heard if "Cop" in event.name]
    assert names == ["CopyIssued", "CopiesCommitted", "CopyLanded", "CopiesWaited"]
    (copy,) = [event.copy for event in heard if isinstance(event, events.CopyIssued)]
    assert (copy.bytes, copy.group, copy.mbarrier) == (128, 0, -1)
    assert copy.reads[0] == "shared"
    assert copy.reads[1].tolist() == [128, 160]
    assert (copy.writes[1] - copy.writes[1][0]).tolist() == [0, 128]


@pytest.mark.parametrize(("length", "written"), [(50, 52), (64, 52)])
def test_a_store_writes_behind_a_tensor_that_ends_inside_a_unit(length, written):
    """A tensor of 50 floats: if the array continues behind it, 2 of its elements are lost; otherwise nothing shows."""
    out, next_to_it = np.zeros(length, np.float32), np.zeros(4, np.float32)

    def kernel(warp, out, _):
        with one_lane(warp):
            for at in range(0, 128, 4):
                warp.st_shared(at, np.float32(1).view(np.uint32))
            warp.fence_proxy_async()
            for at in (0, 24, 48):
                warp.cp_async_bulk_tensor_global_shared(TensorMap(int(out), "f32", (50,), (), (24,)), (at,), 0)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)

    launch(kernel, args=(out, next_to_it), shared=128)
    assert np.flatnonzero(out).tolist() == list(range(min(length, written)))
    assert not next_to_it.any()


def test_a_box_that_starts_inside_a_unit_is_a_fault():
    heard = []

    def kernel(warp, source):
        load_box(warp, TensorMap.of(source, (32, 4)), (4, 0), 128, 512)

    with pytest.raises(MemoryFault, match=r"multiple of 8 elements of f16: 0 or 8; got \(4, 0\)"):
        launch(kernel, args=(np.zeros((32, 64), np.float16),), shared=520, observers=[heard.append])
    (fault,) = [event for event in heard if isinstance(event, events.Faulted)]
    assert (fault.kind, fault.space) == ("alignment", "global")


def test_the_events_of_cp_async():
    heard = []

    def kernel(warp, source):
        with warp.only(warp.laneid < 2):
            warp.cp_async(16 * warp.laneid, source + 16 * warp.laneid, 16)
        warp.cp_async_commit_group()
        warp.cp_async_wait_group(0)

    launch(kernel, args=(numbers(64),), shared=32, observers=[heard.append])
    names = [event.name for event in heard if "Cop" in event.name]
    assert names == ["CopyIssued", "CopiesCommitted", "CopyLanded", "CopiesWaited"]
    (copy,) = [event.copy for event in heard if isinstance(event, events.CopyIssued)]
    assert (copy.kind, copy.group, copy.bytes, copy.lanes.tolist()) == ("cp.async", 0, 32, [0, 1])
    assert copy.writes[1].tolist() == [0, 16]


def test_opcodes_do_what_methods_do():
    source, out = numbers(32, 64, dtype=np.uint16), np.zeros((2, 16, 64), np.uint16)

    def kernel(warp, source, out):
        made = box(source, swizzle=128)
        with one_lane(warp):
            warp.run("mbarrier.init.shared::cta.b64", 4096, 1)
            warp.run("fence.mbarrier_init.release.cluster")
            warp.run("mbarrier.arrive.expect_tx.shared::cta.b64", 4096, 2 * made.bytes)
            opcode = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            for row in range(2):
                warp.run(opcode, 2048 * row, made, (0, 16 * row), 4096)
        warp.run("mbarrier.try_wait.parity.shared::cta.b64", 4096, 0)
        with one_lane(warp):
            for row in range(2):
                back = TensorMap.of(out, (64, 16, 1), swizzle=128)
                warp.run("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group", back, (0, 0, row), 2048 * row)
            warp.run("cp.async.bulk.commit_group")
            warp.run("cp.async.bulk.wait_group.read", 0)

    result = launch(kernel, args=(source, out), shared=4104)
    assert np.array_equal(out.reshape(32, 64), source)
    assert isinstance(result.counts, Counter)


# ------------------------------------------------------------------------------------------------ hints, prefetches


@every_policy
def test_cache_hints_with_and_without_a_policy(policy, row):
    """With .L2::cache_hint the policy is the last operand, and needed; other hints take none."""
    source, out = numbers(8, 512), np.zeros((8, 512), np.uint8)
    hint, value = "L2::cache_hint", 0x14F0000000000000

    def kernel(warp, source, out):
        lanes, made = 16 * warp.laneid, TensorMap.of(source, (16, 1))
        with one_lane(warp):
            warp.mbarrier_init(4096, 1)
        warp.bar_warp_sync()
        warp.run(f"cp.async.cg.shared.global.{hint}.L2::128B", lanes, source.at(0, lanes), 16, value)
        warp.run("cp.async.cg.shared.global.L2::256B", 512 + lanes, source.at(1, lanes), 16)
        warp.run(f"cp.async.ca.shared.global.{hint}", 1024 + lanes, source.at(2, lanes), 16, 16, value)
        warp.cp_async_wait_all()
        with one_lane(warp):
            load = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
            warp.mbarrier_arrive_expect_tx(4096, 1024 + 16)
            warp.run(f"{load}.{hint}", 1536, source.at(3, 0), 512, 4096, value)
            warp.run(load, 2048, source.at(4, 0), 512, 4096)
            tensor = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
            warp.run(f"{tensor}.{hint}", 2560, made, (0, 5), 4096, value)
            warp.mbarrier_wait(4096, 0)
            back = "cp.async.bulk.global.shared::cta.bulk_group"
            warp.run(f"{back}.{hint}", int(out), 0, 1536, np.uint64(value))
            warp.run(back, out.at(3, 0), 1536, 1040)
            warp.run("cp.async.bulk.prefetch.L2.global", int(source), 64)
            warp.run(f"cp.async.bulk.prefetch.L2.global.{hint}", int(source), 64, value)
            warp.run("cp.async.bulk.prefetch.tensor.2d.L2.global.tile", made, (0, 0))
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)
            for opcode, given in (
                (f"cp.async.cg.shared.global.{hint}", (0, int(source), 16)),
                (f"{load}.{hint}", (0, int(source), 16, 4096)), (back, (int(out), 0, 16, value)),
                (f"ld.global.{hint}.b32", (int(source),)), ("ld.global.L2::128B.b32", (int(source), value)),
            ):  # fmt: skip
                with row(f"{opcode} {len(given)}"), pytest.raises(OperandError, match=rf"takes .*got {len(given)} "):
                    warp.run(opcode, *given)
            for junk in ("x", None, 1.5, np.zeros(3, int)):
                with row(f"policy {junk!r}"), pytest.raises(OperandError, match="cache_policy must be one integer"):
                    warp.run(f"ld.global.{hint}.b32", int(source), junk)

    launch(kernel, args=(source, out), shared=4104, policy=policy)
    assert np.array_equal(out[:5], source[:5])
    assert np.array_equal(out[5, :16], source[5, :16])
    assert not out[5, 16:].any()


def test_prefetches_change_nothing_and_check_their_operands(row):
    def kernel(warp, source):
        made = TensorMap.of(source, (64, 16))
        warp.run("prefetch.global.L2", source + 4 * warp.laneid)
        warp.run("prefetch.global.L2::evict_last", int(source))
        warp.run("prefetchu.L1", int(source))
        warp.run("cp.async.bulk.prefetch.tensor.2d.L2.global", made, (8, 3))
        for opcode, given, says in (
            ("prefetch.global.L1", ("x",), "address must be one integer"),
            ("cp.async.bulk.prefetch.L2.global", (int(source), "x"), "size must be one integer"),
            ("cp.async.bulk.prefetch.tensor.2d.L2.global", (0.5, (0, 0)), "takes a TensorMap, or the address of one"),
            ("cp.async.bulk.prefetch.tensor.3d.L2.global", (made, (0, 0, 0)), "copies a box of 3 dimensions"),
            ("cp.async.bulk.prefetch.tensor.2d.L2.global", (made, (0,)), "needs 2 coordinates"),
        ):
            with row(f"{opcode} {given}"), pytest.raises(OperandError, match=says):
                warp.run(opcode, *given)
        assert not warp.core.block.shared.bytes.any()

    heard = []
    launch(kernel, args=(numbers(32, 64, dtype=np.uint16),), shared=64, observers=[heard.append])
    assert not any(isinstance(event, events.Accessed | events.CopyIssued) for event in heard)
    with pytest.raises(MemoryFault, match="multiple of 8 elements"):
        launch(
            lambda w, p: w.run("cp.async.bulk.prefetch.tensor.2d.L2.global", TensorMap.of(p, (64, 16)), (4, 0)),
            args=(numbers(32, 64, dtype=np.uint16),),
        )


@every_policy
def test_arrivals_for_copies_with_and_without_noinc(policy):
    """Without .noinc the phase expects as many more; with it, the count of init has them (PTX ISA 9.7.13.15.15)."""
    source = numbers(512)
    heard = []

    def kernel(warp, source):
        with warp.only(warp.laneid < 2):
            warp.mbarrier_init(512 + 8 * warp.laneid, np.where(warp.laneid == 0, 1, 17))
        warp.bar_warp_sync()
        warp.cp_async(16 * warp.laneid, source + 16 * warp.laneid, 16)
        with warp.only(warp.laneid < 16):
            warp.run("cp.async.mbarrier.arrive.shared.b64", 512)
        with warp.only(warp.laneid >= 16):
            warp.run("cp.async.mbarrier.arrive.noinc.b64", warp.generic(520))
        with warp.only(warp.laneid < 2):
            warp.mbarrier_arrive(512 + 8 * warp.laneid)
            warp.mbarrier_wait(512 + 8 * warp.laneid, 0)
        assert np.array_equal(warp.ld_shared(16 * warp.laneid, "v4.b32").view(np.uint8).reshape(-1), numbers(512))

    launch(kernel, args=(source,), shared=528, policy=policy, observers=[heard.append])
    arrived = [(event.address, event.count) for event in heard if isinstance(event, events.MbarrierArrived)]
    assert sorted(arrived) == [(512, 1), (512, 16), (520, 1), (520, 16)]
    assert len([event for event in heard if isinstance(event, events.MbarrierCompleted)]) == 2
