"""cp.reduce.async.bulk: elements in shared memory combined with those in global memory (PTX ISA 9.7.9.25.4.2)."""

import re

import ml_dtypes
import numpy as np
import pytest

import tcemu
from tcemu.errors import IllegalInstruction, MemoryFault, OperandError
from tcemu.instructions import copies
from tcemu.machine import events
from tcemu.machine.launch import launch

POLICIES = ("early", "late", "random")
#: The semantics of PTX ISA 9.1, 9.7.13.5, on integers without a bound.
INTEGERS = {
    "and": lambda r, s: r & s, "or": lambda r, s: r | s, "xor": lambda r, s: r ^ s, "add": lambda r, s: r + s,
    "min": min, "max": max,
    "inc": lambda r, s: 0 if r >= s else r + 1, "dec": lambda r, s: s if r == 0 or r > s else r - 1,
}  # fmt: skip
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def reduced(opcode, there, given, *, warps=1, policy="late", seed=0, more=()):
    """`there` after each warp has combined `given` with it."""
    out, source = there.copy(), given.view(np.uint32)

    def kernel(warp, out, source):
        for at in range(0, source.nbytes, 128):
            lanes = at + 4 * warp.laneid
            with warp.only((lanes < source.nbytes) & (warp.warpid == 0)):
                warp.st_shared(lanes, warp.ld_global(source + lanes))
        warp.fence_proxy_async()
        warp.bar_sync()
        with warp.only(warp.elect_sync()):
            warp.run(opcode, int(out), 0, out.nbytes, *more)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)

    result = tcemu.launch(kernel, 1, 32 * warps, (out, source), shared=given.nbytes, policy=policy, seed=seed,
                          sanitizer="collect")  # fmt: skip
    assert [report.rule for report in result.reports if report.severity == "error"] == []
    return out


def forms():
    """Into global memory; tests/machine/test_clusters.py has those into shared memory."""
    return [form for _, form in copies.REDUCE.variants if not form.unsupported and not form.facts.completes]


def test_every_integer_operation(row):
    random = np.random.default_rng(3)
    for form in forms():
        operation, kind = form.words["op"], form.words["type"]
        if kind in FLOATS:
            continue
        width, dtype = int(kind[1:]), np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
        there, given = (random.integers(0, 1 << 63, 64, np.uint64).astype(dtype.str.replace("i", "u")).view(dtype) * 3
                        for _ in range(2))  # fmt: skip
        given = np.where(random.random(64) < 0.3, there, given)
        expected = [INTEGERS[operation](int(r), int(s)) % (1 << width) for r, s in zip(there, given, strict=True)]
        with row(str(form)):
            found = reduced(form, there, given)
            assert [int(value) % (1 << width) for value in found] == expected


def test_every_operation_of_floats(row):
    """Sums round to nearest even, as ml_dtypes and numpy do; subnormal f32 are zeros, subnormal halves are not."""
    numbers = np.array([0.0, 1.0, -2.5, 3e-5, 2.0**-14, -(2.0**-15), 1e4, np.inf])
    for form in forms():
        operation, kind = form.words["op"], form.words["type"]
        if kind not in FLOATS:
            continue
        there, given = numbers.astype(FLOATS[kind]), (numbers[::-1] * 0.75).astype(FLOATS[kind])
        ways = {"add": lambda r, s: r + s, "min": np.minimum, "max": np.maximum}
        with row(str(form)):
            assert np.array_equal(reduced(form, there, given), ways[operation](there, given))
    tiny = 2.0**-149
    add = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.{}"
    four = np.array([tiny, -tiny, 2.0**-126, 1], np.float32)
    with row("subnormal f32"):
        found = reduced(add.format("f32"), four, np.array([tiny, -tiny, -(2.0**-127), tiny], np.float32))
        assert found.view(np.uint32).tolist() == [0, 0x80000000, *np.array([2.0**-126, 1], np.float32).view(np.uint32)]
    with row("subnormal f16"):
        small = np.full(8, 2.0**-24, np.float16)
        assert np.array_equal(reduced(add.format("noftz.f16"), small, small), 2 * small)


@pytest.mark.parametrize("policy", POLICIES)
def test_several_warps_add_to_one_place(policy):
    for seed in range(3):
        there, given = np.arange(32, dtype=np.uint32), np.full(32, 1000, np.uint32)
        opcode = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
        assert np.array_equal(reduced(opcode, there, given, warps=4, policy=policy, seed=seed), there + 4000)


def test_a_cache_policy_changes_nothing(row):
    """With .L2::cache_hint it is the last operand, and needed; without, it is one too many."""
    there, given = np.arange(4, dtype=np.uint32), np.ones(4, np.uint32)
    hinted = "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.u32"
    assert np.array_equal(reduced(hinted, there, given, more=(0x12F0000000000000,)), there + 1)
    for opcode, more, says in (
        (hinted, (), "takes destination, source, size and cache_policy; got 3 operands"),
        (hinted.replace(".L2::cache_hint", ""), (0,), "takes destination, source and size; got 4 operands"),
    ):
        with row(says), pytest.raises(OperandError, match=says):
            reduced(opcode, there, given, more=more)


def test_what_is_heard_and_when_it_lands():
    heard, out = [], np.zeros(4, np.uint32)

    def kernel(warp, out):
        with warp.only(warp.elect_sync()):
            warp.st_shared(0, np.full((32, 4), 5, np.uint32), "v4.b32")
            warp.run("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32", int(out), 0, 16)
            warp.cp_async_bulk_commit_group()
            warp.st_shared(0, np.full((32, 4), 9, np.uint32), "v4.b32")  # it has not read yet
            warp.cp_async_bulk_wait_group(0)

    launch(kernel, 1, 32, (out,), shared=16, observers=[heard.append])
    assert out.tolist() == [9] * 4
    (copy,) = [event.copy for event in heard if isinstance(event, events.CopyIssued)]
    assert (copy.kind, copy.bytes, copy.group, copy.mbarrier) == ("bulk", 16, 0, -1)
    assert (copy.reads[0], copy.writes[0]) == ("shared", "global")
    assert copy.opcode == "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32"
    assert [event.name for event in heard if "Cop" in event.name] == [
        "CopyIssued", "CopiesCommitted", "CopyLanded", "CopiesWaited"
    ]  # fmt: skip


def test_what_it_does_not_take(row):
    opcode = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    cases = [
        (lambda w, p: w.run(opcode, int(p), 0, 8), MemoryFault, "the size must be a multiple of 16 bytes; got 8"),
        (lambda w, p: w.run(opcode, p + 8, 0, 16), MemoryFault, "not a multiple of 16"),
        (lambda w, p: w.run(opcode, p + 64, 0, 16), MemoryFault, "0 bytes after the end of argument 0"),
        (lambda w, p: w.run(opcode, int(p), 0, "x"), OperandError, "size must be one integer for all lanes"),
        (lambda w, p: w.run(opcode.replace("add.u32", "add.f16"), int(p), 0, 16), IllegalInstruction, ".noftz"),
    ]
    for deed, kind, says in cases:
        with row(says), pytest.raises(kind, match=re.escape(says)):
            launch(lambda warp, p, deed=deed: deed(warp, p), 1, 32, (np.zeros(16, np.uint32),), shared=64)
