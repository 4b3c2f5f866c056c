"""wgmma in kernels: what tcemu.run answers, to the bit; groups and waits; operands read late; warps that disagree."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

import tcemu
from tcemu.errors import Deadlock, LaunchError, MemoryFault, OperandError
from tcemu.instructions.wgmma import FAMILY
from tcemu.layouts import Descriptor
from tcemu.live.cases import cases, kinds
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.pending import Pending, Task
from tcemu.machine.registers import POISON

POLICIES = ("late", "early", "random")
HERE = Path(__file__)
F16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"
ONES = (True, 1, 1, 0, 0)


def line(mark):
    """`file:number` of the line of this file that ends with a comment `# mark`."""
    (number,) = (n for n, text in enumerate(HERE.read_text().split("\n"), 1) if text.endswith(f"# {mark}"))
    return f"{HERE}:{number}"


# ------------------------------------------------------------------------------------------------ as tcemu.run


def in_kernel(case, policy="late", seed=0):
    """The accumulator (128, n) that four warps hold after a wgmma and a wait for it."""
    parts = {}

    def kernel(warp):
        mine = slice(32 * warp.index, 32 * warp.index + 32)
        if warp.index == 0:
            warp._block.shared.bytes[: case.bytes.shape[-1]] = case.bytes[0]
        warp.bar_sync()
        operands = [value[0] if isinstance(value, np.ndarray) else value for value in case.operands]
        operands = [value[mine] if np.ndim(value) else value for value in operands]
        d = warp.registers(operands[0].shape[1], fill=0)
        d[...] = operands[0]
        warp.wgmma_fence()
        assert warp.run(case.instruction, d, *operands[1:]) is d
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        parts[warp.index] = d.bits.copy()

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
    compare(row, SAMPLE, lambda instruction: [kinds(instruction)[-1]])


@pytest.mark.slow
def test_every_form_answers_as_tcemu_run(row):
    compare(row, [instruction for _, instruction in FAMILY.variants], lambda instruction: [kinds(instruction)[0]])


# ------------------------------------------------------------------------------------------------ groups and waits

#: A tile of A and one of B at 0 and 2048, and what is there: whole numbers, so that sums are exact.
A, B = Descriptor.for_tile("f16", 64, 16), Descriptor.for_tile("f16", 8, 16, start=2048)
NUMBERS = np.random.default_rng(4)
TILE_A, TILE_B = NUMBERS.integers(-8, 9, (64, 16)), NUMBERS.integers(-8, 9, (8, 16))
PRODUCT = (TILE_A @ TILE_B.T).astype(np.float32)
D = tcemu.parse(F16).fragments["d"]
ACCUMULATED = D.pack(PRODUCT)


def lay(bytes_, descriptor, matrix):
    """Write a matrix (mn, k) of f16 where a descriptor says."""
    for i, j in np.ndindex(*matrix.shape):
        at = descriptor.address(i, j, "f16")
        bytes_[at : at + 2] = np.frombuffer(np.float16(matrix[i, j]).tobytes(), np.uint8)


IMAGE = np.zeros(4096, np.uint8)
lay(IMAGE, A, TILE_A)
lay(IMAGE, B, TILE_B)


def prepared(warp):
    """Both tiles in shared memory."""
    if warp.index % 4 == 0:
        warp._block.shared.bytes[:4096] = IMAGE
    warp.bar_sync()
    warp.wgmma_fence()


def mine(warp):
    return slice(32 * (warp.index % 4), 32 * (warp.index % 4) + 32)


def ended(warp, registers, times=1):
    """Whether registers hold `times` the product; if not they are under way and show nothing."""
    seen = registers.copy()
    if registers.pending:
        assert (seen == POISON).all()
        assert "result under way" in repr(registers)
        return False
    assert np.array_equal(
        D.unpack(np.tile(seen, (4, 1)))[16 * (warp.index % 4) :][:16], times * PRODUCT[mine_rows(warp)]
    )
    return True


def mine_rows(warp):
    """A warp of a warpgroup has 16 rows of D."""
    return slice(16 * (warp.index % 4), 16 * (warp.index % 4) + 16)


def run_group(kernel, policy="late", block=128, **options):
    return launch(kernel, 1, block, shared=4096, policy=policy, **options)


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
            assert d.pending == number + 1
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
        seen.setdefault(policy, {})[warp.index] = found

    for policy in POLICIES:
        run_group(kernel, policy, seed=1)
        assert all(found == sorted(found) for found in seen[policy].values())
    assert not any(any(found) for found in seen["late"].values())
    assert all(all(found) for found in seen["early"].values())
    assert all(set(found) == {False, True} for found in seen["random"].values())


def test_what_is_under_way_ends_in_order_under_every_policy():
    """The first one overwrites D, the others add to it; another accumulator lies between."""

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
    assert (issued.aligned, issued.opcode, [role for role, _ in issued.operands]) == (True, F16, ["d"])
    wgmma = heard[4].wgmma
    assert [by.warp for by in wgmma.bys] == [0, 1, 2, 3]
    assert {str(by.site) for by in wgmma.bys} == {line("issued here")}
    assert (wgmma.warpgroup, wgmma.group, wgmma.a, len(wgmma.d)) == (0, 0, (), 4)
    assert wgmma.descriptors == ((int(A), int(B)),) * 4
    (role_a, at_a, size_a), (role_b, at_b, size_b) = wgmma.reads
    assert (role_a, size_a, role_b, size_b) == ("a", 2, "b", 2)
    assert sorted(at_a) == list(range(0, 2048, 2))
    assert sorted(at_b) == list(range(2048, 2304, 2))
    committed, waited = (
        next(event for event in heard if event.name == f"Wgmma{name}") for name in ("Committed", "Waited")
    )
    assert (committed.group, waited.below) == (0, 1)


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
        with warp.only(warp.lanes < 16):
            warp.st_shared((0 if form == "a" else 2048) + 64 * warp.index + 4 * warp.lanes, 0)
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
        warp.st_global(nan.at(warp.lanes), 0x7FC12345)

    nan, out = np.full(32, np.nan, np.float32), np.zeros((128, 4), np.uint32)
    for seed in range(4):
        assert run_group(kernel, POLICIES, args=(nan, out), seed=seed).parted == []
        assert np.array_equal(out, ACCUMULATED)


def test_an_accumulator_may_be_a_numpy_array():
    """It is not the accumulator then: its registers come back."""

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


# ------------------------------------------------------------------------------------------------ several warpgroups


@pytest.mark.parametrize("seed", range(6))
def test_warpgroups_do_not_wait_for_each_other(seed):
    times = {}

    def kernel(warp):
        prepared(warp)
        d = warp.registers(4, fill=0)
        for _ in range(1 + 2 * warp.warpgroup):
            warp.wgmma_fence()
            warp.run(F16, d, A, B, *ONES)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(0)
        assert ended(warp, d, 1 + 2 * warp.warpgroup)
        times[warp.index] = warp.warpgroup

    heard = []
    with pytest.raises(LaunchError, match="belongs to no whole warpgroup"):
        run_group(kernel, "late", 416, seed=seed)
    run_group(kernel, POLICIES[seed % 3], 384, seed=seed, observers=(heard.append,))
    assert sorted(times) == list(range(12))
    issued = [event.wgmma for event in heard if isinstance(event, events.WgmmaIssued)]
    assert [len([one for one in issued if one.warpgroup == group]) for group in range(3)] == [1, 3, 5]
    assert all([by.warp // 4 for by in one.bys] == [one.warpgroup] * 4 for one in issued)


def test_a_block_without_a_whole_warpgroup(row):
    for block, warp_index in ((64, 0), (96, 0), (160, 4)):

        def kernel(warp, warp_index=warp_index):
            if warp.index == warp_index:
                warp.run(F16, warp.registers(4, fill=0), A, B, *ONES)  # not enough of us

        says = f"{F16}: warp {warp_index} of block 0 at {line('not enough of us')} belongs to no whole warpgroup"
        with row(str(block)), pytest.raises(LaunchError, match=re.escape(says)):
            run_group(kernel, block=block)


# ------------------------------------------------------------------------------------------------ warps that disagree


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_warps_that_come_to_different_instructions(seed):
    heard = []

    def kernel(warp):
        prepared(warp)
        if warp.index == 2:
            warp.wgmma_commit_group()  # another one
        else:
            warp.run(F16, warp.registers(4, fill=0), A, B, *ONES)  # the one

    with pytest.raises(LaunchError, match="the warps of warpgroup 0 must execute the same instruction") as caught:
        run_group(kernel, seed=seed, observers=(heard.append,))
    told = str(caught.value)
    assert f"at {line('another one')}" in told
    assert f"at {line('the one')}" in told
    assert f"came to {F16}" in told or f"to {F16} (PTX" in told
    (event,) = (event for event in heard if isinstance(event, events.Disagreed))
    assert set(event.opcodes) == {F16, "wgmma.commit_group.sync.aligned"}
    assert 2 in [by.warp for by in event.bys]


def test_a_warp_that_does_not_come():
    def kernel(warp):
        if warp.index in (1, 3):
            return
        warp.wgmma_fence()  # two of four

    with pytest.raises(Deadlock) as caught:
        run_group(kernel)
    told = (
        f"warps 0, 2 wait since {line('two of four')} for warp 1, 3 of warpgroup 0 to come to wgmma.fence.sync.aligned"
    )
    assert told in str(caught.value)
    assert "warps 1, 3 came to the end of the kernel" in str(caught.value)


def test_operands_on_which_the_warps_disagree(row):
    d = np.zeros((32, 4), np.uint32)
    cases = [
        ("wait", lambda w: w.wgmma_wait_group(w.index // 3), LaunchError, "to leave [0, 0, 0, 1] groups"),
        ("scale_d", lambda w: w.run(F16, d, A, B, w.index > 0, 1, 1, 0, 0), OperandError, "operand 3 is False, True"),
        ("sign", lambda w: w.run(F16, d, A, B, 1, 1 - 2 * (w.index == 1), 1, 0, 0), OperandError, "1, -1, 1 and 1"),
        ("count", lambda w: w.run(F16, d, A, B, *ONES[: 5 - w.index // 2]), OperandError, "8, 8, 7 and 7 operands"),
        ("where A is", lambda w: w.run(F16, d, d if w.index else A, B, 1, 1, 1, 0), OperandError, "operand 1"),
        ("registers", lambda w: w.run(F16, d[:, : 4 - w.index], A, B, *ONES), OperandError, "operand 0 has shapes"),
    ]  # fmt: skip
    for name, body, kind, says in cases:
        with row(name), pytest.raises(kind, match=re.escape(says)) as caught:
            run_group(body)
        assert str(HERE) in str(caught.value)


# ------------------------------------------------------------------------------------------------ wrong operands


def test_wrong_operands(row):
    r4, r8 = np.zeros((32, 4), np.uint32), np.zeros((32, 8), np.uint32)
    whole = np.zeros((128, 4), np.uint32)
    e = np.full(32, 0x44444444, np.uint32)
    cases = [
        ("no operands", F16, (), "takes d, a, b_descriptor"),
        ("two", F16, (r4, A), "got 2 operands"),
        ("no immediates", F16, (r4, A, B), "d, a, b, scale_d and its immediates"),
        ("too many", F16, (r4, A, B, *ONES, 0), "got 6 of them"),
        ("d too wide", F16, (r8, A, B, *ONES), "d"),
        ("d of the warpgroup", F16, (whole, A, B, *ONES), "uint32 (32, n); got dtype uint32, shape (128, 4)"),
        ("d of floats", F16, (r4.astype(np.float32), A, B, *ONES), "got dtype float32"),
        ("d of nothing", F16, (None, A, B, *ONES), "got dtype object"),
        ("a of the warpgroup", F16, (r4, whole, B, *ONES[:-1]), "each warp gives its own 32 lanes"),
        ("a of doubles", F16, (r4, r4.astype(float), B, *ONES), "a is a matrix descriptor"),
        ("a ragged", F16, (r4, [[1], [1, 2]], B, *ONES), "not an array"),
        ("b of text", F16, (r4, A, "x", *ONES), "operand 2 is a matrix descriptor"),
        ("b for each warpgroup", F16, (r4, A, np.array([int(B)], np.uint64), *ONES), "one of everything else"),
        ("scale_d for each lane", F16, (r4, A, B, np.ones(32, bool), 1, 1, 0, 0), "one of everything else"),
        ("scale_d of two", F16, (r4, A, B, 2, 1, 1, 0, 0), "scale_d is a predicate"),
        ("sign", F16, (r4, A, B, 1, 2, 1, 0, 0), "imm_scale_a is an immediate, -1 or 1; got 2"),
        ("major", F16, (r4, A, B, 1, 1, 1, 0, None), "imm_trans_b is an immediate"),
        ("metadata", SPARSE, (r4, A, B, r4, 0, 1, 1, 1, 0, 0), "metadata is one uint32 register a lane"),
        ("selector", SPARSE, (r4, A, B, e, 2, 1, 1, 1, 0, 0), "the selector is an immediate"),
        ("illegal metadata", SPARSE, (r4, A, B, e * 0, 0, 1, 1, 1, 0, 0), "2:4 sparsity takes"),
    ]  # fmt: skip
    for name, opcode, operands, says in cases:
        for policy in ("late", "early"):
            with row(f"{name} {policy}"):
                with pytest.raises(OperandError, match=re.escape(says)) as caught:
                    run_group(lambda warp, o=opcode, a=operands: warp.run(o, *a), policy)
                assert "PTX ISA" in str(caught.value)


def test_metadata_are_checked_when_they_are_issued():
    reached = []

    def kernel(warp):
        prepared(warp)
        e = np.full(32, 0x44444444 if warp.index < 3 else 0x04444444, np.uint32)
        warp.run(SPARSE, warp.registers(4, fill=0), A, B, e, 0, False, 1, 1, 0, 0)
        reached.append(warp.index)

    with pytest.raises(OperandError, match=r"metadata of lane \d+, bits 31:28 .* is 0b0000; 2:4 sparsity takes"):
        run_group(kernel)
    assert not reached


def test_metadata_that_is_overwritten_before_the_wait():
    def kernel(warp):
        prepared(warp)
        e = warp.registers(1, fill=0x44444444)
        warp.run(SPARSE, warp.registers(4, fill=0), A, B, held := e[:, 0], 0, False, 1, 1, 0, 0)  # with metadata
        held[...] = 0
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)

    with pytest.raises(OperandError, match=r"is 0b0000; 2:4 sparsity takes .*warp 0 of block 0 at ") as caught:
        run_group(kernel)
    assert line("with metadata") in str(caught.value)
    run_group(kernel, "early")


def test_tiles_beyond_shared_memory(row):
    beyond = Descriptor.for_tile("f16", 8, 16, start=4096 - 128)
    empty = np.zeros((32, 4), np.uint32)
    cases = [("b", (A, beyond)), ("a", (Descriptor.for_tile("f16", 64, 16, start=2064), B))]
    for role, descriptors in cases:
        heard = []
        with row(role):
            says = rf"element of {role}: address \d+, 2 bytes, lies outside shared memory, which has 4096 bytes"
            with pytest.raises(MemoryFault, match=says) as caught:
                run_group(lambda warp, d=descriptors: warp.run(F16, empty, *d, *ONES), observers=(heard.append,))
            assert str(HERE) in str(caught.value)
            (fault,) = (event for event in heard if isinstance(event, events.Faulted))
            assert (fault.kind, fault.space, fault.opcode) == ("bounds", "shared", F16)


def test_a_wrong_operand_ends_the_launch_even_if_it_is_caught():
    """The other three warps have gone through with it."""

    def kernel(warp):
        try:
            warp.run(F16, np.zeros((32, 8), np.uint32), A, B, *ONES)
        except OperandError:
            warp.bar_sync()

    with pytest.raises(OperandError, match="8 registers a lane where 4 are needed"):
        run_group(kernel)


def test_numbers_that_wait_group_does_not_take(row):
    for junk in (-1, 0.0, None, True, "0", np.zeros(1, int), [0]):
        with row(repr(junk)), pytest.raises(OperandError, match=r"an integer|an immediate"):
            run_group(lambda warp, junk=junk: warp.wgmma_wait_group(junk))
        with row(f"run {junk!r}"), pytest.raises(OperandError, match="an immediate, an integer from 0 on"):
            run_group(lambda warp, junk=junk: warp.run("wgmma.wait_group.sync.aligned", junk))
