"""What lanes tell each other: shuffles, votes, elect; and which lanes take part."""

import re
from itertools import product

import numpy as np
import pytest

from tcemu.errors import IllegalInstruction, OperandError
from tcemu.machine.launch import launch
from tcemu.machine.registers import POISON

LANES = np.arange(32)
MODES = ("up", "down", "bfly", "idx")


def run(body, block=32, **options):
    """Launch one block; what `body` answered for each warp."""
    answers = {}

    def kernel(warp):
        answers[warp.warpid] = body(warp)

    launch(kernel, 1, block, shared=4096, **options)
    return answers[0] if len(answers) == 1 else [answers[warp] for warp in sorted(answers)]


def asked(mode, lane, b, c):
    """Which lane `lane` gets its value from: the pseudo-code of PTX ISA 9.1, 9.7.9.6, line by line."""
    bval, cval, mask = b & 0x1F, c & 0x1F, c >> 8 & 0x1F
    max_lane = (lane & mask) | (cval & ~mask & 0x1F)
    min_lane = lane & mask
    if mode == "up":
        j = lane - bval
        p = j >= max_lane
    elif mode == "down":
        j = lane + bval
        p = j <= max_lane
    elif mode == "bfly":
        j = lane ^ bval
        p = j <= max_lane
    else:
        j = min_lane | (bval & ~mask & 0x1F)
        p = j <= max_lane
    return j if p else lane


def operand_c(mode, width):
    """How __shfl_sync of CUDA C++ makes c of a width."""
    return (32 - width) << 8 | (0 if mode == "up" else 0x1F)


@pytest.mark.parametrize("mode", MODES)
def test_every_shuffle_of_every_width(mode):
    values = 1000 + LANES
    random = np.random.default_rng(1).integers(0, 64, 32)

    def body(warp):
        for width in (1, 2, 4, 8, 16, 32):
            for b in (*range(34), -1, 1 << 20, random):
                each = np.broadcast_to(b, 32)
                expected = [1000 + asked(mode, lane, int(each[lane]), operand_c(mode, width)) for lane in LANES]
                assert warp.shfl_sync(mode, values, b, width).tolist() == expected, (width, b)

    run(body)


@pytest.mark.parametrize("mode", MODES)
def test_shuffles_as_ptx_spells_them(mode):
    """Any c, also those that no width makes, and the membermask after it."""
    values, numbers = 1000 + LANES, np.random.default_rng(2)

    def body(warp):
        for c in (0, 0x1F, 0x1F1F, 0x0C07, 0x1803, *numbers.integers(0, 1 << 13, 60).tolist()):
            b = numbers.integers(0, 32, 32)
            expected = [1000 + asked(mode, lane, int(b[lane]), c) for lane in LANES]
            found = warp.run(f"shfl.sync.{mode}.b32", values, b, c, 0xFFFFFFFF)
            assert found.tolist() == expected, c

    run(body)


def test_a_shuffle_keeps_shape_and_type(row):
    def body(warp):
        for kind, width in product((np.uint32, np.int32, np.float32, np.uint64, np.float16, np.int64), (None, 1, 3)):
            with row(f"{np.dtype(kind)} {width}"):
                values = np.arange(32 * (width or 1)).astype(kind)
                values = values if width is None else values.reshape(32, width)
                found = warp.shfl_sync("bfly", values, 5)
                assert found.dtype == kind
                assert np.array_equal(found, values[LANES ^ 5])
                found[...] = 0
                assert values.any()  # a copy
        registers = warp.registers(2, fill=3)
        assert np.array_equal(warp.shfl_sync("idx", registers, 0), np.full((32, 2), 3))

    run(body)


def test_what_an_inactive_lane_would_give_is_poison():
    def body(warp):
        values = warp.laneid.astype(np.float32)
        with warp.only(warp.laneid < 16):
            found = warp.shfl_sync("bfly", values, 16)
            kept = warp.shfl_sync("bfly", values, 1)
        assert (found.view(np.uint32) == POISON).all()
        assert np.isnan(found).all()
        assert kept[:16].tolist() == [lane ^ 1 for lane in range(16)]
        assert (kept[16:].view(np.uint32) == POISON).all()
        with warp.only(False):
            nothing = warp.shfl_sync("idx", warp.laneid, 3)
        assert (nothing == POISON).all()
        assert values.tolist() == LANES.tolist()

    run(body)


def test_votes():
    numbers = np.random.default_rng(3)
    masks = [np.ones(32, bool), np.zeros(32, bool), LANES == 31, *(numbers.random((20, 32)) < 0.5)]

    def body(warp):
        for mask, given in product(masks, masks):
            with warp.only(mask):
                taking = [bool(given[lane]) for lane in range(32) if mask[lane]]
                assert warp.vote_sync("all", given) is all(taking)
                assert warp.vote_sync("any", given) is any(taking)
                assert warp.vote_sync("uni", given) is (len(set(taking)) <= 1)
                assert warp.vote_sync("ballot", given) == sum(
                    1 << lane for lane in LANES.tolist() if mask[lane] and given[lane]
                )
        assert warp.vote_sync("ballot", True) == 0xFFFFFFFF
        assert warp.run("vote.sync.ballot.b32", LANES < 4, 0xFFFFFFFF) == 15
        assert warp.run("vote.sync.any.pred", LANES < 0) is False
        assert isinstance(warp.vote_sync("ballot", True), int)

    run(body)


def test_elect_takes_one_lane_that_takes_part():
    def body(warp):
        assert warp.elect_sync().tolist() == [True] + [False] * 31
        for first in range(32):
            with warp.only(warp.laneid >= first):
                chosen = warp.elect_sync()
                assert chosen.sum() == 1
                assert chosen[first:].any()
        with warp.only(False):
            assert not warp.elect_sync().any()
        with warp.only(warp.run("elect.sync", 0xFFFFFFFF)):
            assert warp.active.sum() == 1

    run(body)


# ------------------------------------------------------------------------------------------------ who takes part


def test_only_narrows_and_widens_again():
    def body(warp):
        assert warp.active.all()
        with warp.only(warp.laneid < 16):
            with warp.only(warp.laneid % 2 == 0):
                assert np.flatnonzero(warp.active).tolist() == list(range(0, 16, 2))
                with warp.only(True):
                    assert warp.active.sum() == 8
                with warp.only([lane == 30 for lane in range(32)]):
                    assert not warp.active.any()
            assert warp.active.sum() == 16
            with pytest.raises(ZeroDivisionError), warp.only(False):
                1 / 0  # noqa: B018 - it shall raise
            assert warp.active.sum() == 16
        assert warp.active.all()
        warp.active[...] = False  # a copy
        assert warp.active.all()

    run(body)


def test_only_takes_a_mask_and_nothing_else(row):
    def body(warp):
        for junk in (
            1,
            0xFFFFFFFF,
            np.ones(31, bool),
            np.ones((32, 1), bool),
            warp.laneid,
            None,
            "all",
            [[True], [1, 2]],
        ):
            says = r"a mask of lanes is bool \(32,\)|not an array"
            with row(repr(junk)), pytest.raises(OperandError, match=says), warp.only(junk):
                pass
        assert warp.active.all()

    run(body)


def test_without_active_lanes_nothing_is_done():
    heard = []

    def body(warp):
        ones = np.ones((32, 4), np.uint32)
        with warp.only(False):
            heard.clear()
            loaded = warp.ld_shared(-1, "v4.b32")
            warp.st_shared(-1, 5)
            warp.st_global(3, ones, "v4.b32")
            warp.bar_sync()
            warp.bar_arrive(99, 7)
            warp.bar_warp_sync()
            warp.mbarrier_init(3, 0)
            warp.mbarrier_wait(3, 0)
            warp.cp_async(1, 1, 16)
            warp.cp_async_wait_group(0)
            warp.wgmma_fence()
            warp.wgmma_wait_group(0)
            warp.setmaxnreg("inc", 240)
            warp.fence_proxy_async()
            assert warp.mbarrier_test_wait(3, 0) is False
            assert warp.vote_sync("all", False) is True
            assert warp.vote_sync("any", True) is False
            assert warp.vote_sync("ballot", True) == 0
            matrix = warp.run("ldmatrix.sync.aligned.m8n8.x2.shared.b16", -1)
            product = warp.run("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", ones, ones, ones)
            assert warp.run("stmatrix.sync.aligned.m8n8.x2.shared.b16", -1, ones[:, :2]) is None
            d = warp.registers(4, fill=9)
            form = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
            assert warp.run(form, d, 0, 0, True, 1, 1, 0, 0) is d
            assert (d.bits == 9).all()
        for found, shape, kind in (
            (loaded, (32, 4), np.uint32),
            (matrix, (32, 2), np.uint32),
            (product, (32, 2), np.uint64),
        ):
            assert (found.shape, found.dtype) == (shape, kind)
            assert (found.bits == POISON).all()
            assert found.unwritten() == tuple(range(shape[1]))
        assert not warp.core.block.shared.bytes.any()

    run(body, observers=(heard.append,))
    assert {event.name for event in heard} <= {"Touched", "Exited", "BlockEnded"}


def test_the_last_warp_of_a_block_may_not_be_full():
    """45 threads: lanes 13 to 31 of warp 1 are not there, whatever a mask says."""

    def body(warp):
        there = warp.threads < 45
        with warp.only(True):
            warp.st_shared(4 * warp.threads, 1)
        warp.bar_sync()
        assert warp.vote_sync("ballot", True) == (0xFFFFFFFF if warp.warpid == 0 else 0x1FFF)
        ones = warp.ld_shared(4 * warp.threads)
        return there, warp.active, ones.bits[:, 0], warp.core.block.shared.bytes.view(np.uint32)[:64].copy()

    for there, active, ones, memory in run(body, block=45):
        assert np.array_equal(there, active)
        assert np.array_equal(ones, np.where(there, 1, POISON))
        assert memory.tolist() == [1] * 45 + [0] * 19


def test_where_each_thread_is():
    """Threads are numbered x first, then y, then z (PTX ISA 9.1, 10: %tid, %ctaid)."""
    seen = []

    def kernel(warp):
        x, y, z = warp.tid
        assert warp.ntid == (5, 3, 4)
        assert warp.nctaid == (2, 3, 2)
        assert warp.warpgroup == 0
        with warp.only(True):
            seen.extend(
                (warp.ctaid, int(a), int(b), int(c)) for a, b, c, on in zip(x, y, z, warp.active, strict=True) if on
            )

    launch(kernel, (2, 3, 2), (5, 3, 4))
    blocks = [(i, j, k) for k in range(2) for j in range(3) for i in range(2)]
    threads = [(i, j, k) for k in range(4) for j in range(3) for i in range(5)]
    assert seen == [(block, *thread) for block in blocks for thread in threads]


def test_what_a_warp_knows_cannot_be_changed():
    def body(warp):
        for array in (warp.laneid, warp.threads, *warp.tid):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        assert warp.laneid.tolist() == LANES.tolist()

    run(body)


# ------------------------------------------------------------------------------------------------ wrong operands


def test_wrong_operands(row):
    cases = [
        ("no mode", lambda w: w.shfl_sync(None, w.laneid, 1), "shfl.sync: mode is text, as the opcode spells it"),
        ("a list", lambda w: w.shfl_sync(["up"], w.laneid, 1), "got ['up'] (PTX ISA 9.7.9.6)"),
        ("width", lambda w: w.shfl_sync("up", w.laneid, 1, 12), "a segment has 1, 2, 4, 8, 16 or 32 lanes; got 12"),
        ("no width", lambda w: w.shfl_sync("up", w.laneid, 1, None), "got None (PTX ISA 9.7.9.6)"),
        ("values", lambda w: w.shfl_sync("up", w.laneid[:8], 1), "values are numbers (32,) or (32, n); got int64 (8,)"),
        ("predicates", lambda w: w.shfl_sync("up", w.laneid > 3, 1), "got bool (32,)"),
        ("3-d", lambda w: w.shfl_sync("up", np.zeros((32, 1, 1)), 1), "got float64 (32, 1, 1)"),
        ("by what", lambda w: w.shfl_sync("up", w.laneid, 1.0), "shfl.sync.up.b32: b is one integer for all lanes"),
        ("c", lambda w: w.run("shfl.sync.up.b32", w.laneid, 1, None), "shfl.sync.up.b32: c is one integer"),
        ("what vote", lambda w: w.vote_sync([], True), "vote.sync: mode is text, as the opcode spells it; got []"),
        ("an int", lambda w: w.vote_sync("all", 1), "a predicate is bool (32,); got dtype int64, shape ()"),
        ("half", lambda w: w.vote_sync("all", np.ones(16, bool)), "shape (16,) (PTX ISA 9.7.13.9)"),
        ("mask", lambda w: w.run("vote.sync.all.pred", True, 0xFF), "lanes that execute it, 0xffffffff; got 255"),
        ("no mask", lambda w: w.run("elect.sync", None), "membermask must name the lanes"),
    ]  # fmt: skip
    for name, body, says in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(says)) as caught:
            run(body)
        assert "PTX ISA 9.7." in str(caught.value)
    for name, body, says in (
        ("mode", lambda w: w.shfl_sync("xor", w.laneid, 1), "shfl.sync.xor.b32: '.xor' is not a qualifier of shfl"),
        ("vote", lambda w: w.vote_sync("most", True), "vote.sync.most.pred: '.most' is not a qualifier of vote"),
    ):
        with row(name), pytest.raises(IllegalInstruction, match=re.escape(says)):
            run(body)
    with pytest.raises(IllegalInstruction, match=r"elect\.sync does not exist on sm_80: it needs"):
        run(lambda warp: warp.elect_sync(), target="sm_80")
