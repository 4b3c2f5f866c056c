"""wgmma in kernels: several warpgroups, warps that disagree or do not come, operands that are wrong."""

import functools
import re

import marks
import numpy as np
import pytest
from wgmma_tiles import (
    F16,
    ONES,
    SPARSE,
    A,
    B,
    ended,
    prepared,
    run_group,
)

import tcemu
from tcemu.errors import Deadlock, LaunchError, MemoryFault, OperandError, UndefinedBehaviour
from tcemu.layouts import Descriptor
from tcemu.machine import events

POLICIES = ("late", "early", "random")
line = functools.partial(marks.line, __file__)


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
        times[warp.warpid] = warp.warpgroup

    heard = []
    with pytest.raises(LaunchError, match="does not belong to a whole warpgroup"):
        run_group(kernel, "late", 416, seed=seed)
    run_group(kernel, POLICIES[seed % 3], 384, seed=seed, observers=(heard.append,))
    assert sorted(times) == list(range(12))
    issued = [event.wgmma for event in heard if isinstance(event, events.WgmmaIssued)]
    assert [len([one for one in issued if one.warpgroup == group]) for group in range(3)] == [1, 3, 5]
    assert all([by.warp // 4 for by in one.bys] == [one.warpgroup] * 4 for one in issued)


def test_a_block_without_a_whole_warpgroup(row):
    for block, warp_index in ((64, 0), (96, 0), (160, 4)):

        def kernel(warp, warp_index=warp_index):
            if warp.warpid == warp_index:
                warp.run(F16, warp.registers(4, fill=0), A, B, *ONES)  # not enough of us

        says = f"{F16}: warp {warp_index} of block 0 at {line('not enough of us')} does not belong to a whole warpgroup"
        with row(str(block)), pytest.raises(LaunchError, match=re.escape(says)):
            run_group(kernel, block=block)


# ------------------------------------------------------------------------------------------------ warps that disagree


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_warps_that_come_to_different_instructions(seed):
    heard = []

    def kernel(warp):
        prepared(warp)
        if warp.warpid == 2:
            warp.wgmma_commit_group()  # another one
        else:
            warp.run(F16, warp.registers(4, fill=0), A, B, *ONES)  # the one

    with pytest.raises(LaunchError, match="the warps of warpgroup 0 must execute the same instruction") as caught:
        run_group(kernel, seed=seed, observers=(heard.append,))
    told = str(caught.value)
    assert f"at {line('another one')}" in told
    assert f"at {line('the one')}" in told
    assert f"reached {F16}" in told
    (event,) = (event for event in heard if isinstance(event, events.Disagreed))
    assert {each.opcode for each in event.instructions} == {F16, "wgmma.commit_group.sync.aligned"}
    assert 2 in [by.warp for by in event.bys]


def test_a_warp_that_does_not_come():
    def kernel(warp):
        if warp.warpid in (1, 3):
            return
        warp.wgmma_fence()  # two of four

    with pytest.raises(Deadlock) as caught:
        run_group(kernel)
    told = (
        f"warps 0, 2 wait since {line('two of four')} for warps 1 and 3 of warpgroup 0 to reach "
        "wgmma.fence.sync.aligned"
    )
    assert told in str(caught.value)
    assert "warps 1, 3 reached the end of the kernel" in str(caught.value)


def test_operands_on_which_the_warps_disagree(row):
    d = np.zeros((32, 4), np.uint32)
    cases = [
        ("wait", lambda w: w.wgmma_wait_group(w.warpid // 3), LaunchError, "N is 0, 0, 0 and 1 in the four warps"),
        ("scale_d", lambda w: w.run(F16, d, A, B, w.warpid > 0, 1, 1, 0, 0), OperandError, "scale_d is False in"),
        ("sign", lambda w: w.run(F16, d, A, B, 1, 1 - 2 * (w.warpid == 1), 1, 0, 0), OperandError, "imm_scale_a is"),
        ("count", lambda w: w.run(F16, d, A, B, *ONES[: 5 - w.warpid // 2]), OperandError, "8, 8, 7 and 7 operands"),
        ("where A is", lambda w: w.run(F16, d, d if w.warpid else A, B, 1, 1, 1, 0), OperandError, "a as a desc"),
        ("registers", lambda w: w.run(F16, d[:, : 4 - w.warpid], A, B, *ONES), OperandError, "d has shapes (32, 4), "),
    ]  # fmt: skip
    for name, body, kind, says in cases:
        with row(name), pytest.raises(kind, match=re.escape(says)) as caught:
            run_group(body)
        assert __file__ in str(caught.value)


def test_descriptors_that_differ_end_the_launch(row):
    """The manual does not specify which one counts; the sanitizer reports that, and without it the machine raises."""
    other = Descriptor.for_tile("f16", 8, 16, start=2176)
    d, a = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    cases = [
        ("b", lambda w: w.run(F16, d, A, other if w.warpid == 2 else B, *ONES), 2, (A, B), (A, other)),
        ("a", lambda w: w.run(F16, d, B if w.warpid else A, B, *ONES), 1, (A, B), (B, B)),
        ("registers", lambda w: w.run(F16, d, a, other if w.warpid > 2 else B, *ONES[:-1]), 3, (B,), (other,)),
    ]
    for name, body, warp, first, second in cases:
        heard = []
        says = f"{F16}: the warps of a warpgroup must give the same descriptors; warp 0 of block 0"
        with row(name):
            with pytest.raises(LaunchError, match=re.escape(says)) as caught:
                run_group(body, observers=(heard.append,))
            assert f"warp {warp} of block 0" in str(caught.value)
            assert f"{int(second[-1]):#018x}" in str(caught.value)
            (event,) = (event for event in heard if isinstance(event, events.DescriptorsDisagreed))
            assert [by.warp for by in event.bys] == [0, warp]
            assert event.descriptors == (tuple(map(int, first)), tuple(map(int, second)))
        with row(f"{name} sanitized"), pytest.raises(UndefinedBehaviour) as found:
            tcemu.launch(body, 1, 128, shared=4096)
        assert found.value.report.rule == "wgmma-descriptors"
        collected = tcemu.launch(body, 1, 128, shared=4096, sanitizer="collect")
        assert isinstance(collected.error, LaunchError)
        assert "wgmma-descriptors" in [report.rule for report in collected.reports]


def test_a_descriptor_may_be_any_number_with_its_bits():
    """An int, numpy's, an array of one number, or a Descriptor: to the four warps it is the same."""

    def kernel(warp):
        prepared(warp)
        d = warp.registers(4, fill=0)
        way = [int, lambda given: given, np.asarray, lambda given: np.uint64(int(given))][warp.warpid]
        warp.run(F16, d, way(A), way(B), [True, 1, np.bool_(True), np.array(1)][warp.warpid], np.int8(1), 1, 0, 0)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        assert ended(warp, d)

    run_group(kernel)


# ------------------------------------------------------------------------------------------------ wrong operands


def test_wrong_operands(row):
    r4, r8 = np.zeros((32, 4), np.uint32), np.zeros((32, 8), np.uint32)
    whole = np.zeros((128, 4), np.uint32)
    e = np.full(32, 0x44444444, np.uint32)
    cases = [
        ("no operands", F16, (), "takes d, a, b, scale_d, imm_scale_a, imm_scale_b, [imm_trans_a] and"),
        ("two", F16, (r4, A), "imm_trans_b; got 2 operands"),
        ("no immediates", F16, (r4, A, B), "imm_trans_b; got 3 operands"),
        ("too many", F16, (r4, A, B, *ONES, 0), "imm_trans_b; got 9 operands"),
        ("one too few", F16, (r4, A, B, *ONES[:-1]), "with A in a descriptor ends with scale_d, imm_scale_a"),
        ("one too many", F16, (r4, r4, B, *ONES), "with A in registers ends with scale_d, imm_scale_a"),
        ("d too wide", F16, (r8, A, B, *ONES), "d"),
        ("d of the warpgroup", F16, (whole, A, B, *ONES), "uint32 (32, n); got dtype uint32, shape (128, 4)"),
        ("d of floats", F16, (r4.astype(np.float32), A, B, *ONES), "got dtype float32"),
        ("d of nothing", F16, (None, A, B, *ONES), "got dtype object"),
        ("a of the warpgroup", F16, (r4, whole, B, *ONES[:-1]), "each warp gives its own 32 lanes"),
        ("a of doubles", F16, (r4, r4.astype(float), B, *ONES), "operand a (f16) must be uint32 registers"),
        ("a of a list", F16, (r4, [[1] * 4] * 32, B, *ONES[:-1]), "operand a (f16) must be uint32 registers"),
        ("a of nothing", F16, (r4, None, B, *ONES), "a is a matrix descriptor, 64 bits"),
        ("a ragged", F16, (r4, [[1], [1, 2]], B, *ONES), "not an array"),
        ("b of text", F16, (r4, A, "x", *ONES), "b is a matrix descriptor, 64 bits"),
        ("b for each warpgroup", F16, (r4, A, np.array([int(B)], np.uint64), *ONES), "b must be one value for"),
        ("scale_d for each lane", F16, (r4, A, B, np.arange(32) < 9, 1, 1, 0, 0), "lane 0 gives True, lane 9 gives"),
        ("scale_d of two", F16, (r4, A, B, 2, 1, 1, 0, 0), "scale_d is a predicate"),
        ("sign", F16, (r4, A, B, 1, 2, 1, 0, 0), "imm_scale_a is an immediate, -1 or 1; got 2"),
        ("major", F16, (r4, A, B, 1, 1, 1, 0, None), "imm_trans_b is an immediate"),
        ("no number", F16, (r4, A, B, 1, 1, 1, 0, {}), "imm_trans_b is an immediate, 0 or 1; got {}"),
        ("registers for b", F16, (r4, A, r4, *ONES), "one value for the whole warpgroup; got an array of shape"),
        ("metadata", SPARSE, (r4, A, B, r4, 0, 1, 1, 1, 0, 0), "metadata is one uint32 register per lane"),
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
        e = np.full(32, 0x44444444 if warp.warpid < 3 else 0x04444444, np.uint32)
        warp.run(SPARSE, warp.registers(4, fill=0), A, B, e, 0, False, 1, 1, 0, 0)
        reached.append(warp.warpid)

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
            assert __file__ in str(caught.value)
            (fault,) = (event for event in heard if isinstance(event, events.Faulted))
            assert (fault.kind, fault.space, fault.instruction.opcode) == ("bounds", "shared", F16)


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
        with row(f"run {junk!r}"), pytest.raises(OperandError, match="an immediate, an integer of at least 0"):
            run_group(lambda warp, junk=junk: warp.run("wgmma.wait_group.sync.aligned", junk))
