"""wgmma in kernels: what tcemu.run answers, to the bit; groups and waits; operands read late."""

import functools
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import greenlet
import marks
import numpy as np
import pytest
from quick import THOROUGH, turn
from wgmma_tiles import (
    ACCUMULATED,
    F16,
    IMAGE,
    ONES,
    PRODUCT,
    TILE_A,
    A,
    B,
    D,
    ended,
    mine,
    prepared,
    run_group,
)

import tcemu
from tcemu.instructions.wgmma import FAMILY
from tcemu.layouts import Descriptor
from tcemu.machine.launch import launch
from tcemu.machine.pending import Pending, Task
from tcemu.vectors import cases, classes

PACKAGE = str(Path(tcemu.__file__).parent)
POLICIES = ("late", "early", "random")
line = functools.partial(marks.line, __file__)


# ------------------------------------------------------------------------------------------------ as tcemu.run


def in_kernel(case, policy="late", seed=0):
    """The accumulator (128, n) that four warps hold after a wgmma and a wait for it."""
    parts = {}

    def kernel(warp):
        mine = slice(32 * warp.warpid, 32 * warp.warpid + 32)
        if warp.warpid == 0:
            warp.core.block.shared.bytes[: case.bytes.shape[-1]] = case.bytes[0]
        warp.bar_sync()
        operands = [value[0] if isinstance(value, np.ndarray) else value for value in case.operands]
        operands = [value[mine] if np.ndim(value) else value for value in operands]
        d = warp.registers(operands[0].shape[1], fill=0)
        d[...] = operands[0]
        warp.wgmma_fence()
        assert warp.run(case.instruction, d, *operands[1:]) is d
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        parts[warp.warpid] = d.bits.copy()

    launch(kernel, 1, 128, shared=case.bytes.shape[-1], policy=policy, seed=seed)
    return np.concatenate([parts[warp] for warp in range(4)])


def compare(row, instructions, asked_kinds):
    for number, instruction in enumerate(instructions):
        for kind in asked_kinds(instruction):
            for case in cases(instruction, kind, 1, "machine"):
                if len(case.operands[0]) > 1:
                    case = case.only(number % len(case.operands[0]))  # noqa: PLW2901
                with row(case.key):
                    expected = case.answer(functools.partial(tcemu.run, target="sm_90a"))[0]
                    assert np.array_equal(in_kernel(case, POLICIES[number % 3], number % 2), expected)


def test_the_sample_has_all_kinds_of_forms():
    """Every type and every other qualifier, dense and sparse, with the smallest n."""
    assert len(SAMPLE) == 2 * (3 + 1 + 8) + 2 * 8 + 1  # 16 bits, tf32, 8 bits with f16 and f32; integers; bits
    assert {instruction.shape.n for instruction in SAMPLE} == {8}


SAMPLE = [instruction for _, instruction in FAMILY.variants if instruction.shape.n == 8]


def test_one_form_of_each_kind_answers_as_tcemu_run(row):
    compare(row, SAMPLE, lambda instruction: [classes(instruction)[-1]])


@pytest.mark.slow
def test_forms_of_every_n_answer_as_tcemu_run(row):
    """One form of each n, every day another one."""
    forms = {}
    for _, form in FAMILY.variants:
        forms.setdefault(form.shape.n, []).append(form)
    asked = [form for each in forms.values() for form in (each if THOROUGH else [each[turn(len(each))]])]
    compare(row, asked, lambda instruction: [classes(instruction)[0]])


# ------------------------------------------------------------------------------------------------ groups and waits


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_wait_group_leaves_the_youngest_under_way(seed):
    def kernel(warp):
        prepared(warp)
        d = [warp.registers(4, fill=0) for _ in range(6)]
        for number, held in enumerate(d):
            warp.run(F16, held, A, B, *ONES)
            if number in (0, 2, 3):
                warp.wgmma_commit_group()  # groups 0: d0, 1: d1 d2, 2: d3; d4 and d5 in none
        assert [ended(warp, each) for each in d] == [False] * 6
        warp.wgmma_wait_group(3)
        assert [ended(warp, each) for each in d] == [False] * 6
        warp.wgmma_wait_group(2)
        assert [ended(warp, each) for each in d] == [True] + [False] * 5
        warp.wgmma_wait_group(np.int64(1))
        assert [ended(warp, each) for each in d] == [True] * 3 + [False] * 3
        warp.run("wgmma.wait_group.sync.aligned", 0)
        assert [ended(warp, each) for each in d] == [True] * 4 + [False] * 2
        warp.wgmma_wait_group(0)
        assert [ended(warp, each) for each in d] == [True] * 4 + [False] * 2
        warp.run("wgmma.commit_group.sync.aligned")
        warp.wgmma_commit_group()  # an empty group counts
        warp.wgmma_wait_group(1)
        assert all(ended(warp, each) for each in d)

    run_group(kernel, seed=seed)


def test_what_is_added_to_one_accumulator_ends_in_order():
    def kernel(warp):
        prepared(warp)
        d = warp.registers(4, fill=0)
        for number in range(3):
            warp.run(F16, d, A, B, *ONES)
            assert d.pending
            assert len(d.bank.pending) == number + 1
        warp.wgmma_commit_group()
        warp.run(F16, d, A, B, *ONES)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
        assert not ended(warp, d)
        assert np.array_equal(d.bits, D.pack(3 * PRODUCT)[mine(warp)])
        warp.wgmma_wait_group(0)
        assert ended(warp, d, 4)
        warp.wgmma_fence()
        warp.run(F16, d, A, B, False, -1, 1, 0, 0)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        assert ended(warp, d, -1)

    run_group(kernel)


def test_a_policy_decides_when_results_appear():
    seen = {}

    def kernel(warp):
        prepared(warp)
        d = warp.registers(4, fill=0)
        warp.run(F16, d, A, B, *ONES)
        warp.wgmma_commit_group()
        found = []
        for _ in range(20):
            found.append(ended(warp, d))
            warp.bar_sync()
        warp.wgmma_wait_group(0)
        assert ended(warp, d)
        seen.setdefault(policy, {})[warp.warpid] = found

    for policy in POLICIES:
        run_group(kernel, policy, seed=1)
        assert all(found == sorted(found) for found in seen[policy].values())
    assert not any(any(found) for found in seen["late"].values())
    assert all(all(found) for found in seen["early"].values())
    assert all(set(found) == {False, True} for found in seen["random"].values())


def test_what_is_under_way_ends_in_order_under_every_policy():
    """The first one overwrites D, the others add to it; one on another accumulator is between them."""

    def kernel(warp):
        prepared(warp)
        d, other = warp.registers(4, fill=77), warp.registers(4, fill=0)
        for number in range(4):
            warp.run(F16, d, A, B, number > 0, 1, 1, 0, 0)
            warp.run(F16, other, A, B, number > 1, 1, 1, 0, 0)
            warp.wgmma_commit_group()
        for _ in range(5):
            warp.bar_sync()
        warp.wgmma_wait_group(0)
        assert ended(warp, d, 4)
        assert ended(warp, other, 3)

    for seed in range(12):
        run_group(kernel, "random", seed=seed)


def test_tasks_end_after_what_stands_before_them():
    def pending():
        order, under_way = [], Pending("late")
        tasks = [Task(name[0], functools.partial(order.append, name)) for name in ("a1", "b1", "a2", "b2", "a3")]
        for task in tasks:
            under_way.add(task)
        return order, under_way, tasks

    order, under_way, tasks = pending()
    under_way.finish([tasks[2], tasks[0]])
    assert order == ["a1", "a2"]
    assert under_way.step()
    assert order == ["a1", "a2", "b1"]
    under_way.finish_all()
    assert order == ["a1", "a2", "b1", "b2", "a3"]
    assert not under_way.step()


def test_what_nobody_waits_for_ends_with_the_block():
    heard = []

    def kernel(warp, committed):
        prepared(warp)
        warp.run(F16, warp.registers(4, fill=0), A, B, *ONES)
        if committed:
            warp.wgmma_commit_group()

    for committed in (False, True):
        heard.clear()
        run_group(functools.partial(kernel, committed=committed), observers=(heard.append,))
        last = [event.name for event in heard[-6:]]
        assert last == ["Exited"] * 4 + ["WgmmaEnded", "BlockEnded"]


def test_the_events_of_a_warpgroup():
    heard = []

    def kernel(warp):
        prepared(warp)
        d = warp.registers(4, fill=0)
        warp.run(F16, d, A, B, *ONES)  # issued here
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)

    run_group(kernel, observers=(heard.append,))
    fenced = max(number for number, event in enumerate(heard) if event.name == "WgmmaFenced")
    heard = [event for event in heard[fenced + 1 :] if event.name not in ("Touched", "Exited", "BlockEnded")]
    names = [event.name for event in heard]
    assert names == [
        *["Issued"] * 4, "WgmmaIssued", *["Issued"] * 4, "WgmmaCommitted", *["Issued"] * 4, "WgmmaEnded", "WgmmaWaited"
    ]  # fmt: skip
    issued = heard[0]
    assert (issued.instruction.aligned, issued.opcode, [role for role, _ in issued.operands]) == (True, F16, ["d"])
    wgmma = heard[4].wgmma
    assert [by.warp for by in wgmma.bys] == [0, 1, 2, 3]
    assert {str(by.site) for by in wgmma.bys} == {line("issued here")}
    assert (wgmma.warpgroup, wgmma.group, wgmma.a, len(wgmma.d)) == (0, 0, (), 4)
    (role_a, at_a, size_a), (role_b, at_b, size_b) = wgmma.reads
    assert (role_a, size_a, role_b, size_b) == ("a", 2, "b", 2)
    assert sorted(at_a) == list(range(0, 2048, 2))
    assert sorted(at_b) == list(range(2048, 2304, 2))
    committed, waited = (
        next(event for event in heard if event.name == f"Wgmma{name}") for name in ("Committed", "Waited")
    )
    assert (committed.group, waited.below) == (0, 1)


def calls_of(wgmmas):
    """The calls of functions of the package while a kernel runs, by file."""

    def kernel(warp):
        d = warp.registers(128, fill=0)
        a = Descriptor.for_tile("f16", 64, 16)
        b = Descriptor.for_tile("f16", 256, 16, start=2048)
        for _ in range(wgmmas):
            warp.wgmma_fence()
            warp.run("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", d, a, b, True, 1, 1, 0, 0)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(0)

    found = Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found[frame.f_code.co_filename] += 1

    before = greenlet.settrace(lambda *_: sys.setprofile(count))  # each greenlet has a profiler of its own
    try:
        launch(kernel, 1, 128, shared=10240)
    finally:
        greenlet.settrace(before)
        sys.setprofile(None)
    return found


@pytest.mark.skipif(find_spec("numba") is None, reason="the reference computes in steps")
def test_a_wgmma_goes_straight_down():
    """Few calls of few files from the kernel's line to the kernel that computes, so that a reader can follow it."""
    calls_of(8)  # the first ones bind, decode and compile
    one = calls_of(6) - calls_of(5)
    assert len(one) <= 15, sorted(one)
    assert one.total() <= 240


# ------------------------------------------------------------------------------------------------ operands read late


def doubled_late(warp, out, form):
    """Wrong: an operand is overwritten between the issue and the wait."""
    prepared(warp)
    d = warp.registers(4, fill=0)
    a = warp.registers(4, fill=0)
    a[...] = tcemu.parse(F16).fragments["a"].pack(TILE_A.astype(np.float16))[mine(warp)]
    warp.wgmma_fence()
    if form == "registers":
        warp.run(F16, d, a, B, True, 1, 1, 0)
        a[...] = 0
    else:
        warp.run(F16, d, A, B, *ONES)
        warp.bar_sync()
        with warp.only(warp.laneid < 16):
            warp.st_shared((0 if form == "a" else 2048) + 64 * warp.warpid + 4 * warp.laneid, 0)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    warp.st_global(out.at(warp.threads, 0), d, "v4.b32")


@pytest.mark.parametrize("form", ["a", "b", "registers"])
def test_operands_are_read_when_it_ends(form):
    outcomes = {}
    for policy in ("late", "early"):
        outcomes[policy] = np.zeros((128, 4), np.uint32)
        run_group(functools.partial(doubled_late, form=form), policy, args=(outcomes[policy],))
    assert np.array_equal(outcomes["early"], ACCUMULATED)
    image = IMAGE.copy()
    if form != "registers":
        image[(0 if form == "a" else 2048) :][:256] = 0
    empty = np.zeros((128, 4), np.uint32)
    expected = empty if form == "registers" else tcemu.run(F16, empty, A, B, *ONES, shared=image)
    assert np.array_equal(outcomes["late"], expected)
    assert not np.array_equal(expected, ACCUMULATED)


@pytest.mark.parametrize("form", ["a", "b", "registers"])
def test_a_result_that_depends_on_the_policy_is_told(form):
    out = np.zeros((128, 4), np.uint32)
    other = np.zeros((128, 4), np.uint32)
    result = run_group(functools.partial(doubled_late, form=form), ("early", "late"), args=(out,))
    run_group(functools.partial(doubled_late, form=form), "late", args=(other,))
    (parting,) = result.parted
    place = tuple(int(i) for i in np.argwhere(out != other)[0])
    assert np.array_equal(out, ACCUMULATED)  # the first policy's
    assert (parting.argument, parting.index, parting.policies) == (0, place, ("early", "late"))
    assert parting.values == (out[place], other[place])
    assert "the result depends on the policy" in str(parting)


def test_a_result_that_depends_on_no_policy_is_not_told():
    def kernel(warp, nan, out):
        prepared(warp)
        d = warp.registers(4, fill=0)
        warp.run(F16, d, A, B, *ONES)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        warp.st_global(out.at(warp.threads, 0), d, "v4.b32")
        warp.st_global(nan.at(warp.laneid), 0x7FC12345)

    nan, out = np.full(32, np.nan, np.float32), np.zeros((128, 4), np.uint32)
    for seed in range(4):
        assert run_group(kernel, POLICIES, args=(nan, out), seed=seed).parted == []
        assert np.array_equal(out, ACCUMULATED)


def test_an_accumulator_may_be_a_numpy_array():
    """It is not the accumulator then: new registers are returned."""

    def kernel(warp):
        prepared(warp)
        given = np.ones((32, 4), np.uint32)
        d = warp.run(F16, given, A, B, False, 1, 1, 0, 0)
        assert d is not given
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        assert ended(warp, d)
        assert (given == 1).all()

    run_group(kernel)
