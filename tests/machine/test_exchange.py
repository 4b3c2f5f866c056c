"""Exchanges between lanes: shuffles, votes, elect; and which lanes take part."""

import functools
import re
from itertools import product

import numpy as np
import pytest

from tcemu.errors import IllegalInstruction, OperandError
from tcemu.machine.launch import launch
from tcemu.machine.registers import POISON

LANES = np.arange(32, dtype=np.int64)
MODES = ("up", "down", "bfly", "idx")


def run(body, block=32, **options):
    """Launch one block; what `body` answered for each warp."""
    answers = {}

    def kernel(warp):
        answers[warp.warpid] = body(warp)

    launch(kernel, 1, block, shared=4096, **options)
    return answers[0] if len(answers) == 1 else [answers[warp] for warp in sorted(answers)]


def source(mode, lane, b, c):
    """The lane that `lane` wants to read, and p: the pseudo-code of PTX ISA 9.1, 9.7.9.6, line by line."""
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
    return j, p


def asked(mode, lane, b, c):
    """Which lane `lane` gets its value from: its own where p is false."""
    j, p = source(mode, lane, b, c)
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


@pytest.mark.parametrize("mode", MODES)
def test_the_predicate_of_a_shuffle(mode):
    """PTX ISA 9.1, 9.7.9.6: p is the pseudo-code's pval; whether the lane that is read is active plays no part."""
    opcode, some = f"shfl.sync.{mode}.b32", LANES % 3 > 0

    def body(warp):
        for b, width in product((0, 1, 5, 16, 31), (4, 16, 32)):
            c = operand_c(mode, width)
            expected = [source(mode, lane, b, c)[1] for lane in range(32)]
            values, p = warp.run(opcode, LANES, b, c, both=True)
            assert p.tolist() == expected
            assert values.tolist() == warp.run(opcode, LANES, b, c).tolist()
            assert warp.shfl_sync(mode, LANES, b, width, both=True)[1].tolist() == expected
            with warp.only(some):
                assert warp.run(opcode, LANES, b, c, both=True)[1].tolist() == (some & expected).tolist()

    run(body)


def test_two_destinations(row):
    """PTX ISA 9.1, 9.7.13.10 and 9.7.13.14: match.all.sync may be without p, elect.sync without d."""

    def body(warp):
        with warp.only(LANES > 4):
            for values, d, alike in ((np.full(32, 3), 0xFFFFFFE0, True), (LANES, 0, False)):
                with row(f"match {alike}"):
                    masks, p = warp.run("match.all.sync.b32", values, both=True)
                    assert (masks.tolist(), p) == ([0] * 5 + [d] * 27, alike)
                    assert warp.run("match.all.sync.b32", values).tolist() == masks.tolist()
            with row("elect"):
                lane, p = warp.elect_sync(both=True)
                assert (lane, np.flatnonzero(p).tolist()) == (5, [5])
                assert np.array_equal(warp.run("elect.sync", both=True)[1], warp.run("elect.sync"))
        with row("elect nobody"), warp.only(False):
            assert warp.elect_sync(both=True)[0] == -1
        for opcode, operands in (("match.any.sync.b32", (LANES,)), ("bar.warp.sync", ()), ("activemask.b32", ())):
            with row(opcode), pytest.raises(OperandError, match=rf"{re.escape(opcode)} does not have two destinations"):
                warp.run(opcode, *operands, both=True)

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
        ("a list", lambda w: w.shfl_sync(["up"], w.laneid, 1), "got ['up'] (PTX ISA 9.1, 9.7.9.6 "),
        ("width", lambda w: w.shfl_sync("up", w.laneid, 1, 12), "a segment has 1, 2, 4, 8, 16 or 32 lanes; got 12"),
        ("no width", lambda w: w.shfl_sync("up", w.laneid, 1, None), "got None (PTX ISA 9.1, 9.7.9.6 "),
        ("values", lambda w: w.shfl_sync("up", w.laneid[:8], 1), "values must be numbers (32,) or (32, n); got int64"),
        ("predicates", lambda w: w.shfl_sync("up", w.laneid > 3, 1), "got bool (32,)"),
        ("3-d", lambda w: w.shfl_sync("up", np.zeros((32, 1, 1)), 1), "got float64 (32, 1, 1)"),
        ("by what", lambda w: w.shfl_sync("up", w.laneid, 1.0), "shfl.sync.up.b32: b must be one integer for all"),
        ("c", lambda w: w.run("shfl.sync.up.b32", w.laneid, 1, None), "shfl.sync.up.b32: c must be one integer"),
        ("what vote", lambda w: w.vote_sync([], True), "vote.sync: mode is text, as the opcode spells it; got []"),
        ("an int", lambda w: w.vote_sync("all", 1), f"must be bool (32,); got dtype {np.dtype(int)}, shape ()"),
        ("half", lambda w: w.vote_sync("all", np.ones(16, bool)), "shape (16,) (PTX ISA 9.1, 9.7.13.9 "),
        ("mask", lambda w: w.run("vote.sync.all.pred", True, 0xFF), "it, 0xffffffff; got 0x000000ff"),
        ("no mask", lambda w: w.run("elect.sync", None), "membermask must name the lanes"),
    ]  # fmt: skip
    for name, body, says in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(says)) as caught:
            run(body)
        assert "PTX ISA 9.1, 9.7." in str(caught.value)
    for name, body, says in (
        ("mode", lambda w: w.shfl_sync("xor", w.laneid, 1), "shfl.sync.xor.b32: '.xor' is not a qualifier of shfl"),
        ("vote", lambda w: w.vote_sync("most", True), "vote.sync.most.pred: '.most' is not a qualifier of vote"),
    ):
        with row(name), pytest.raises(IllegalInstruction, match=re.escape(says)):
            run(body)
    with pytest.raises(IllegalInstruction, match=r"elect\.sync does not exist on sm_80: it needs"):
        run(lambda warp: warp.elect_sync(), target="sm_80")


# ------------------------------------------------------------------------------------------------ reductions, matches


def test_every_reduction_of_lanes(row):
    """PTX ISA 9.1, 9.7.13.12, on integers without a bound; sums wrap around at 32 bits."""
    random = np.random.default_rng(5)
    by_hand = {
        "add": sum, "min": min, "max": max,
        "and": lambda held: functools.reduce(int.__and__, held), "or": lambda held: functools.reduce(int.__or__, held),
        "xor": lambda held: functools.reduce(int.__xor__, held),
    }  # fmt: skip

    def body(warp):
        for name, mask in (("all", LANES >= 0), ("some", LANES % 5 == 2), ("one", LANES == 9)):
            bits = random.integers(0, 1 << 32, 32, np.uint32)
            for operation, kind in product(by_hand, ("u32", "s32", "b32")):
                if (kind == "b32") != (operation in ("and", "or", "xor")):
                    continue
                spelling = f"{operation}.{kind}"
                values = bits.view(np.int32) if kind == "s32" else bits
                with row(f"{spelling} {name}"), warp.only(mask):
                    expected = by_hand[operation]([int(value) for value in values[mask]]) % (1 << 32)
                    held = warp.registers(1)
                    held[...] = bits[:, None]
                    for given in (values, held, bits.astype(np.int64)):
                        found = warp.redux_sync(spelling, given)
                        assert (found.shape, found.dtype) == (((32, 1)), np.uint32)
                        assert found.bits[:, 0].tolist() == [expected if here else POISON for here in mask]
        with row("one for all"):
            assert warp.redux_sync("add.u32", 3).bits[0, 0] == 96
        with row("opcode"):
            assert warp.run("redux.sync.max.s32", -LANES, 0xFFFFFFFF).bits[5, 0] == 0
        with row("nobody"), warp.only(False):
            assert warp.redux_sync("add.u32", 1).unwritten() == (0,)

    run(body)


@pytest.mark.parametrize(
    "opcode", [f"{op}{nan}{size}" for op in ("min", "max") for nan in ("", ".NaN") for size in ("", ".abs")]
)
def test_reductions_of_floats(opcode):
    """PTX ISA 9.1, 9.7.13.12: NaNs do not count, unless .NaN makes one the result."""
    values = np.float32([3, -7, np.nan, -0.0, 0.0, 2.5, -np.inf, 1e-40] * 4)
    least, nan = opcode.startswith("min"), np.uint32(0x7FFFFFFF)

    def body(warp):
        for mask in (LANES >= 0, LANES % 8 < 2, LANES == 2, (LANES == 3) | (LANES == 4), LANES == 1):
            held = np.abs(values[mask]) if "abs" in opcode else values[mask]
            known = sorted(held[~np.isnan(held)], key=lambda each: (each, not np.signbit(each)))
            missing = not known or ("NaN" in opcode and len(known) < len(held))
            expected = nan if missing else known[0 if least else -1].view(np.uint32)
            with warp.only(mask):
                for given in (values, values.view(np.uint32)):
                    found = warp.run(f"redux.sync.{opcode}.f32", given).bits[:, 0]
                    assert found.tolist() == [expected if here else POISON for here in mask]

    run(body, target="sm_100a")


def test_every_match_of_lanes(row):
    """PTX ISA 9.1, 9.7.13.10: the mask of the lanes with my value; .all: all of them, and a predicate."""
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6] * 4)

    def body(warp):
        for name, mask in (("all", LANES >= 0), ("some", LANES % 3 > 0), ("none", LANES > 99)):
            with row(name), warp.only(mask):
                active = [lane for lane in range(32) if mask[lane]]
                found = warp.match_sync("any", values)
                expected = [sum(1 << other for other in active if values[other] == values[lane]) for lane in range(32)]
                assert found.tolist() == [each if mask[lane] else 0 for lane, each in enumerate(expected)]
                same, alike = warp.match_sync("all", np.full(32, 7))
                whole = sum(1 << lane for lane in active)
                assert (same.tolist(), alike) == ([whole if mask[lane] else 0 for lane in range(32)], bool(active))
                differing, alike = warp.match_sync("all", values)
                assert (any(differing), alike) == (False, False)
        with row("64 bits"):
            wide = np.where(LANES == 3, np.int64(1 << 40), 0)
            assert warp.run("match.any.sync.b64", wide, 0xFFFFFFFF)[3] == 8
            assert warp.run("match.any.sync.b64", np.full(32, (1 << 64) - 1, np.uint64))[0] == 0xFFFFFFFF
            assert warp.match_sync("any", wide)[3] == 0xFFFFFFFF  # of 32 bits they are all 0
        with row("signs"):
            assert warp.match_sync("any", np.where(LANES < 16, -1, 0xFFFFFFFF))[0] == 0xFFFFFFFF
        with row("registers"):
            assert warp.match_sync("any", warp.registers(1, fill=4))[31] == 0xFFFFFFFF

    run(body)


def test_the_mask_of_active_lanes():
    def body(warp):
        found = [warp.activemask()]
        for mask in (LANES < 5, LANES == 31, LANES > 99):
            with warp.only(mask):
                found.append(warp.activemask())
        return found

    assert run(body) == [0xFFFFFFFF, 0x1F, 1 << 31, 0]
    assert run(body, block=40)[1] == [0xFF, 0x1F, 0, 0]


def test_lanes_that_answer_are_the_kernel_s_to_change():
    def body(warp):
        for mine in (warp.elect_sync(), warp.active, warp.run("elect.sync")):
            mine[5] = True
        assert np.flatnonzero(warp.elect_sync()).tolist() == [0]

    run(body)


def test_membermasks(row):
    """The last operand of PTX; kernels may leave it out."""

    def body(warp):
        for name, mask, opcode, operands in (
            ("shfl", 0xFFFF, "shfl.sync.bfly.b32", (LANES, 1, 31)), ("vote", 0xFFFF, "vote.sync.all.pred", (True,)),
            ("match", 0xFFFF, "match.any.sync.b32", (LANES,)), ("redux", 0xFFFF, "redux.sync.add.u32", (LANES,)),
            ("elect", 0xFFFF, "elect.sync", ()), ("bar", 0xFFFF, "bar.warp.sync", ()),
        ):  # fmt: skip
            with warp.only(LANES < 16):
                with row(name):
                    warp.run(opcode, *operands, mask)
                    warp.run(opcode, *operands, np.uint32(mask))
                    warp.run(opcode, *operands, np.full(32, mask, np.uint32))
                    warp.run(opcode, *operands)
                elsewhere = () if name == "shfl" else (0xFFFFFFFF,)
                for wrong in (*elsewhere, 0, -2, None, True, "x", LANES):
                    who = "0x00000001" if wrong is LANES else "0x0000ffff"  # lane 0 alone gives the mask 0
                    says = rf"{re.escape(opcode)}: the membermask must name the lanes that execute it, {who}; got"
                    with row(f"{name} {wrong!r}"), pytest.raises(OperandError, match=says):
                        warp.run(opcode, *operands, wrong)

    run(body)
