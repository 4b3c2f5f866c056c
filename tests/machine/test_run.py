"""warp.run in a kernel: the results of tcemu.run, bit for bit; every opcode of the machine; errors about others."""

import functools
import inspect
import re
from itertools import product

import numpy as np
import pytest
from forms import BARRIER, OWN, TARGETS, TENSOR, ends, home
from forms import operands as legal
from quick import DAY, spread

import tcemu
from tcemu.errors import IllegalInstruction, MemoryFault, OperandError
from tcemu.instructions import FAMILIES
from tcemu.machine import dispatch, events
from tcemu.machine.im2col import Im2colMap
from tcemu.machine.launch import launch
from tcemu.machine.miscellaneous import RegisterPool
from tcemu.machine.registers import Bank, Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.manual import named
from tcemu.vectors import cases, classes

#: Families of one warp, and a target that has all of their forms.
WARP_FAMILIES = [
    family for family in FAMILIES if family.execute is not None and "mma_async" not in family.distinguishing
]
#: Forms of a family that are asked in a kernel, unless everything is asked.
FORMS = 12
LOAD_C = "wmma.load.c.sync.aligned.row.m16n16k16.f32"
STORE_D = "wmma.store.d.sync.aligned.row.m16n16k16.f32"
X4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
ST1 = "stmatrix.sync.aligned.m8n8.x1.shared.b16"


def sample(family):
    """A form for each combination of words other than shapes, or all forms."""
    found = {}
    for words, instruction in family.variants:
        found.setdefault(tuple(sorted((slot, word) for slot, word in words.items() if slot != "shape")), instruction)
    return list(found.values())


def in_kernel(case, target, as_registers):
    """The result of warp.run for a case of one warp: registers, or the bytes after a store."""
    operands = [value[0] if isinstance(value, np.ndarray) else value for value in case.operands]
    given = case.bytes[0].copy() if case.space == "memory" else np.zeros(1, np.uint8)
    answers = []

    def kernel(warp, buffer):
        mine = [Registers(Bank(x.copy(), warp.core)) if as_registers and np.ndim(x) == 2 else x for x in operands]
        if case.space == "shared":
            warp.core.block.shared.bytes[: case.bytes.size] = case.bytes[0]
            if not case.instruction.words.get("ss"):
                mine[0] = warp.generic(mine[0])
        elif case.space:
            mine[0] = int(buffer) + np.asarray(mine[0], np.int64)
        answers.append(warp.run(case.instruction, *mine))
        answers.append(warp.core.block.shared.bytes[: case.bytes.size].copy() if case.space == "shared" else None)

    launch(kernel, 1, 32, (given,), shared=8192, target=target)
    found, shared = answers
    return (given if case.space == "memory" else shared) if found is None else found.bits


def compare(row, instructions, some_kinds):
    """`some_kinds` of inputs, or any bits: the machine has the arithmetic of tcemu.run, whatever the inputs."""
    asked = 0
    for instruction in instructions:
        target = home(instruction)
        if not target:
            continue
        for kind in some_kinds & set(classes(instruction)) or {"bits"}:
            every = list(cases(instruction, kind, 1, "machine"))
            for case in every[:: max(len(every) // 6, 1)]:
                with row(case.key):
                    expected = case.answer(functools.partial(tcemu.run, target=target))[0]
                    assert np.array_equal(in_kernel(case, target, asked % 2 == 0), expected)
                asked += 1
    return asked


@pytest.mark.parametrize("family", WARP_FAMILIES, ids=lambda family: family.name)
def test_one_form_of_each_kind_answers_as_tcemu_run(row, family):
    some = sample(family)
    assert compare(row, some[:: max(len(some) // 12, 1)], {"specials"})


@pytest.mark.slow
@pytest.mark.parametrize("family", WARP_FAMILIES, ids=lambda family: family.name)
def test_every_form_answers_as_tcemu_run(row, family):
    """About FORMS of each family, others every day: the quick test has one of each kind."""
    every = [instruction for _, instruction in family.variants]
    assert compare(row, spread(every, max(len(every) // FORMS, 1), DAY), {"specials"})


def test_a_warp_family_is_asked_of_each_kind():
    names = {family.name for family in WARP_FAMILIES}
    assert names == {
        "mma", "mma.sp", "mma.block_scale", "wmma.load", "wmma.store", "wmma.mma", "ldmatrix", "stmatrix", "movmatrix"
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ generic addresses


def one(kernel, *args, shared=8192, **options):
    answers = []
    launch(lambda warp, *given: answers.append(kernel(warp, *given)), 1, 32, args, shared=shared, **options)
    return answers[0]


def test_generic_addresses_mean_the_memory_they_lie_in():
    data = np.arange(2048, dtype=np.float32)
    tile = data[:256].reshape(16, 16)

    def kernel(warp, p):
        warp.core.block.shared.bytes[: data.nbytes] = data.view(np.uint8) ^ 1
        near = warp.run(LOAD_C, warp.generic(1024), 16)
        far = warp.run(LOAD_C, p + 1024, 16)
        rows = warp.run(X4.replace(".shared", ""), warp.generic(16 * warp.laneid))
        assert np.array_equal(rows, warp.run(X4, 16 * warp.laneid))
        warp.run(STORE_D, warp.generic(2048), far, 16)
        warp.run(STORE_D, p + 2048, near, 16)
        return near.bits, far.bits, warp.core.block.shared.bytes[2048:3072].copy()

    before = data.copy()
    near, far, stored = one(kernel, data)
    fragment = tcemu.parse(LOAD_C).fragments["c"]
    flipped = (before.view(np.uint8) ^ 1).view(np.float32)
    assert np.array_equal(fragment.unpack(far), tile + 256)
    assert np.array_equal(fragment.unpack(near), flipped[256:512].reshape(16, 16))
    assert np.array_equal(stored.view(np.float32), before[256:512])
    assert np.array_equal(data[512:768], flipped[256:512])


def test_a_pointer_may_be_given_by_every_lane_alike(row):
    data = np.arange(256, dtype=np.float32)

    def kernel(warp, p):
        alone = warp.run(LOAD_C, p, 16)
        assert np.array_equal(warp.run(LOAD_C, np.full(32, p), 16), alone)
        assert np.array_equal(warp.run(LOAD_C, warp.registers(1, fill=int(p))[:, 0], 16), alone)
        said = LOAD_C.replace(".f32", ".global.f32")
        for where in (p + 4 * (warp.laneid == 7), p + 64 * warp.laneid):
            lane = int(np.flatnonzero(where != p)[0])
            with row(str(where)), pytest.raises(OperandError, match=f"lane {lane} gives a different pointer .*All"):
                warp.run(said, where, 16)
        assert np.array_equal(warp.run(LOAD_C, p, np.full(32, 16)), alone)
        with row("stride"), pytest.raises(OperandError, match=r"lane 9 gives a different stride .*: value 32, not 16"):
            warp.run(said, p, 16 + 16 * (warp.laneid == 9))

    one(kernel, data)


def test_accesses_are_told_and_checked(row):
    data, heard = np.arange(64, dtype=np.float32), []
    cases = [
        ("ldmatrix", X4, lambda _: (np.where(np.arange(32) == 9, 8184, 0),), "alignment", "lane 9: address 8184"),
        ("behind it", X4, lambda _: (np.where(np.arange(32) == 9, 8192, 0),), "bounds", "lane 9: address 8192"),
        ("between arrays", LOAD_C, lambda p: (p, 16), "bounds", "(across|after) the end of argument 0"),
        ("no array", LOAD_C.replace(".f32", ".global.f32"), lambda _: (0, 16), "bounds", "it is the null pointer"),
        ("in the window", LOAD_C, lambda _: ((1 << 40) + 8160, 16), "bounds", "lies outside"),
        ("misaligned", LOAD_C, lambda p: (p + 4, 16), "alignment", "not a multiple of 16"),
        ("a store", STORE_D, lambda p: (p, np.zeros((32, 8), np.uint32), 16), "bounds", "after the end of argument 0"),
    ]  # fmt: skip
    for name, opcode, operands, kind, says in cases:
        heard.clear()
        with row(name):
            with pytest.raises(MemoryFault, match=says) as caught:
                one(
                    lambda warp, p, *_, o=opcode, a=operands: warp.run(o, *a(p)),
                    data,
                    data * 0,
                    observers=(heard.append,),
                )
            (fault,) = (event for event in heard if isinstance(event, events.Faulted))
            assert fault.kind == kind
            assert f"warp 0 of block 0 at {__file__}" in str(caught.value)
            assert not any(isinstance(event, events.Accessed) for event in heard)
    heard.clear()
    one(lambda warp, _: warp.run(X4, 16 * warp.laneid), data, observers=(heard.append,))
    (access,) = (event for event in heard if isinstance(event, events.Accessed))
    assert (access.size, access.collective, access.writes, access.space) == (16, True, False, "shared")
    assert access.addresses.tolist() == (16 * np.arange(32)).tolist()
    assert access.lanes.tolist() == list(range(32))


def test_the_events_of_an_instruction():
    heard = []
    opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"

    def kernel(warp):
        a, c = warp.registers(4, fill=0), warp.registers(4, fill=0)
        heard.clear()
        return a, c, warp.run(opcode, a, np.zeros((32, 2), np.uint32), c)

    a, c, d = one(kernel, observers=(heard.append,))
    issued, *touched = heard[:4]
    assert (issued.name, issued.instruction.aligned, issued.opcode) == ("Issued", True, opcode)
    assert issued.operands == (("a", a), ("c", c))
    assert [(event.registers, event.writes, event.which) for event in touched] == [
        (a, False, (0, 1, 2, 3)), (c, False, (0, 1, 2, 3)), (d, True, (0, 1, 2, 3)),
    ]  # fmt: skip
    assert d.origin == (issued.instruction, "d", "sm_90a")


# ------------------------------------------------------------------------------------------------ the machine's opcodes


def speak(instruction, given, target="sm_90a", observers=()):
    """Run one instruction in one warp."""
    return one(lambda warp: warp.run(instruction, *given), target=target, observers=observers, policy="early")


def made_of(pointer, words):
    """A tensor map of an array of 64 KB that fits an instruction with these words."""
    rank = int(words.get("dim", "2d")[0])
    sizes, strides = (16, 4, 4, 4, 4)[:rank], (64, 256, 1024, 4096)[: rank - 1]
    if words.get("mode", "").startswith("im2col"):
        return Im2colMap(int(pointer), "u32", sizes, strides, (4, 16))
    return TensorMap(int(pointer), "u32", sizes, strides, (4,) * rank)


@pytest.mark.slow
def test_every_form_of_the_table_runs(row):
    """The first and the last of each row, with each hint, with and without the operands that may be left out."""
    assert len(ends()) > 700
    for target, lanes in product(TARGETS, (32, 128)):
        forms = [form for form in ends() if home(form) == target and (form.family.startswith("wgmma")) == (lanes > 32)]
        forms = [form for form in forms if not form.family.startswith(TENSOR)]
        heard = {}

        def observer(event, heard=heard):
            if isinstance(event, events.Issued):
                heard[event.by.warp] = event.opcode

        def kernel(warp, p, forms=forms, heard=heard):
            for instruction in forms:
                made = made_of(p, instruction.words)
                for optional in {False, any(each.optional for each in instruction.sources)}:
                    warp.mbarrier_init(BARRIER, 64)
                    warp.core.block.state(RegisterPool).free = 256
                    with row(f"{instruction} {optional} {warp.warpid}"):
                        if instruction.family == "barrier.cluster.wait":
                            warp.barrier_cluster_arrive()
                        warp.run(instruction, *legal(instruction, warp, p, made, optional=optional))
                        assert heard[warp.warpid] == instruction.opcode
                        if instruction.family == "barrier.cluster.arrive":
                            warp.barrier_cluster_wait()

        if forms:
            launch(kernel, 1, lanes, (np.zeros((256, 64), np.float32),), shared=8192, target=target,
                   observers=(observer,), policy="early")  # fmt: skip


def test_every_family_has_what_executes_it():
    """Those that are refused have none; "*" executes what tcemu.run does."""
    executed = set(dispatch._BINDERS) - {"*"}
    alone = {family.name for family in FAMILIES if family.execute is not None} - {"wgmma"}
    assert executed == {family.name for family in OWN} | {"wgmma"}
    refused = {family.name for family in FAMILIES} - executed - alone
    assert refused == {
        "cvta", "isspacep", "membar.proxy", "multimem.cp.async.bulk",
        "multimem.cp.reduce.async.bulk", "multimem.ld_reduce", "multimem.red", "multimem.st", "st.bulk",
        "tcgen05.shift",
    }  # fmt: skip


def test_what_the_machine_refuses_says_why(row):
    """Every row of the table that the machine does not execute, by name, with the reason and the section."""
    for family in FAMILIES:
        for row_ in family.rows:
            instruction = tcemu.parse(family.spelling.write(row_.ends[0]))
            target = home(instruction)
            if not instruction.unsupported or not target:
                continue
            says = f"{instruction}: {instruction.unsupported} ({named(instruction.section)})"
            with row(instruction.opcode), pytest.raises(IllegalInstruction, match=re.escape(says)):
                one(lambda warp, i=instruction: warp.run(i), target=target)
    cases = [
        ("fence.proxy.alias", "the machine has only the generic and the asynchronous proxy"),
        ("ld.const.b32", "the machine has no .const memory"),
        ("multimem.red.global.add.u32", "it needs multimem addresses"),
    ]
    for opcode, says in cases:
        with row(f"by name: {opcode}"), pytest.raises(IllegalInstruction, match=re.escape(says)):
            one(lambda warp, o=opcode: warp.run(o))


def test_other_spellings(row):
    """Qualifiers in another order, as the assembler takes them, blanks and a semicolon."""
    cases = [
        ("ld.u16.shared::cta", "ld.shared::cta.u16", (2,)),
        ("shfl.sync.b32.bfly", "shfl.sync.bfly.b32", (np.arange(32), 1, 31)),
        (" vote.sync.uni.pred ; ", "vote.sync.uni.pred", (True,)),
        ("ld.weak.shared.b32", "ld.weak.shared.b32", (0,)),
    ]
    for spelt, opcode, given in cases:
        heard = []
        with row(spelt):
            speak(spelt, given, observers=(heard.append,))
            assert [event.opcode for event in heard if isinstance(event, events.Issued)][-1] == opcode


def test_operands_that_are_too_many_or_too_few(row):
    for family in OWN:
        instruction = next(form for form in ends() if form.family == family.name)
        sources = instruction.sources
        least = sum(not each.optional for each in sources)
        for count in {0, least - 1, len(sources) + 1} - {-1}:
            if least <= count <= len(sources):
                continue
            told = rf"{re.escape(str(instruction))} takes .+; got {count} operands? \(.*9.1, {instruction.section}"
            with row(f"{instruction} of {count}"), pytest.raises(OperandError, match=told):
                speak(instruction, [0] * count, home(instruction))
    cases = [
        ("bar.sync", (0, 32, 1), "bar.sync takes barrier and [threads]; got 3 operands"),
        ("st.shared.b32", (0,), "st.shared.b32 takes address and b; got 1 operand"),
        ("wgmma.wait_group.sync.aligned", (), "takes N; got 0 operands"),
        ("fence.proxy.async", (1,), "takes no operands; got 1 operand (PTX ISA 9.1, 9.7.13.4 "),
    ]
    for opcode, given, says in cases:
        with row(f"{opcode} {given}"), pytest.raises(OperandError, match=re.escape(says)):
            speak(opcode, given)


def test_words_that_are_wrong_find_the_nearest(row):
    cases = [
        ("bar.synk", "Nearest legal form: bar.sync (PTX ISA 9.1, 9.7.13.1 "),
        ("elect", "Nearest legal form: elect.sync"),
        ("elect.sync.aligned", "Nearest legal form: elect.sync"),
        ("mbarrier.arrives.shared::cta.b64", "Nearest legal form: mbarrier.arrive.shared::cta.b64"),
        ("mbarrier.try_wait.parity.b32", "Nearest legal form: mbarrier.try_wait.parity.b64"),
        ("mbarrier.init.b32", "Nearest legal form: mbarrier.init.b64"),
        ("cp.async.cg.shared.shared", "Nearest legal form: cp.async.cg.shared.global"),
        ("cp.async.commit_groups", "Nearest legal form: cp.async.commit_group (PTX ISA 9.1, 9.7.9.25.3.2 "),
        ("cp.async.bulk.tensor.6d.global.shared::cta.tile.bulk_group", ".dim must be .1d, .2d, .3d, .4d or .5d."),
        ("setmaxnreg.keep.sync.aligned.u32", "Nearest legal form: setmaxnreg.inc.sync.aligned.u32"),
        ("fence.mbarrier_init", "Nearest legal form: fence.mbarrier_init.release.cluster"),
        ("shfl.idx.b32", "Nearest legal form: shfl.sync.idx.b32"),
        ("shfl.sync.xor.b32", "'.xor' is not a qualifier of shfl. Did you mean 'bfly'? .mode must be .up, .down"),
        ("vote.all", "Nearest legal form: vote.sync.all.pred"),
        ("ld.local.b32", "the machine has no .local memory: a kernel's variables are Python's"),
        ("ld.global.v3.b32", "'.v3' is not a qualifier of ld. Did you mean 'v4'? .vec must be .v2, .v4 or .v8."),
        ("st.shared.v2.b128", "Nearest legal form: st."),
        ("ldu.global.b32", "no instruction is called 'ldu'. Did you mean 'ld'?"),
        ("atom.add", "the .type qualifier is missing; it must be .b32"),
        ("red.shared.exch.b32", ".op must be .and, .or, .xor, .add, .inc, .dec, .min or .max"),
        ("add.f32", "kernels in CUDA C++ and PTX execute it, but not those in Python: ordinary arithmetic is Python's"),
        ("createpolicy.fractional.L2::evict_last.b64", "this machine has no caches. Any integer can be a cache_policy"),
        ("discard.global.L2", "whose bytes are then undefined. Leave it out"),
        ("applypriority.global.L2::evict_normal", "it only advises caches, and this machine has none. Leave it out"),
        ("trap", "it ends the launch. Raise an exception of your own"),
        ("brkpt", "Call Python's breakpoint()"),
        ("mov.u32", "special registers are attributes of the warp: warp.laneid for %laneid"),
        ("bra", "the control flow of a kernel is Python's"),
        ("Bar.sync", "PTX is written in lower case. Nearest legal form: bar.sync"),
        ("x" * 10_000, "no instruction is called 'xxx"),
        ("ldmatrix.sync.aligned.m8n8.x3.shared.b16", "Nearest legal form: ldmatrix"),
        ("mma.sync.aligned.m16n8k17.row.col.f32.f16.f16.f32", "m16n8k16"),
        ("wgmma.fences.sync.aligned", "Nearest legal form: wgmma.fence.sync.aligned"),
        ("fence.proxy.async.local", "fence.proxy.async"),
        ("", "an empty string is not an instruction"),
        ("bar.sync 0;", "operands are separate arguments"),
        ("atom.add [x], 1", "operands are separate arguments"),
    ]
    for opcode, says in cases:
        with row(opcode[:60]):
            with pytest.raises(IllegalInstruction, match=re.escape(says)) as caught:
                speak(opcode, ())
            assert len(str(caught.value)) < 600
    for junk in (None, 5, b"bar.sync", ["bar.sync"], {"bar": "sync"}):
        with row(repr(junk)), pytest.raises(IllegalInstruction):
            one(lambda warp, junk=junk: warp.run(junk))


def test_gates(row):
    """Each family's first form on targets that do not have it."""
    refused = 0
    for family in OWN:
        instruction = next(form for form in ends() if form.family == family.name)
        for target in ("sm_75", "sm_80", "sm_90"):
            if instruction.gate.admits(tcemu.instructions.target_named(target)):
                continue
            refused += 1
            needs = f"does not exist on {target}: it needs"
            with row(f"{instruction} {target}"), pytest.raises(IllegalInstruction, match=needs):
                one(lambda warp, i=instruction: warp.run(i), target=target)
    assert refused > 30
    # PTX ISA 9.1, Target ISA Notes of each
    cases = [
        ("sm_75", lambda w: w.cp_async(0, 256, 16), "sm_80"),
        ("sm_75", lambda w: w.cp_async_wait_all(), "sm_80"),
        ("sm_75", lambda w: w.mbarrier_init(0, 1), "sm_80"),
        ("sm_80", lambda w: w.mbarrier_arrive_expect_tx(0, 1), "sm_90"),
        ("sm_80", lambda w: w.mbarrier_wait(0, 0), "sm_90"),
        ("sm_80", lambda w: w.elect_sync(), "sm_90"),
        ("sm_80", lambda w: w.fence_proxy_async(), "sm_90"),
        ("sm_80", lambda w: w.cp_async_bulk_wait_group(0), "sm_90"),
        ("sm_80", lambda w: w.wgmma_fence(), "sm_90a"),
        ("sm_90", lambda w: w.wgmma_commit_group(), "sm_90a"),
        ("sm_100a", lambda w: w.wgmma_wait_group(0), "sm_90a"),
        ("sm_90", lambda w: w.setmaxnreg("dec", 24), "sm_90a"),
        ("sm_90", lambda w: w.run("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 0, 0, 0), "sm_90a"),
        ("sm_80", lambda w: w.run("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", 0, 0, 0), "sm_89"),
    ]  # fmt: skip
    for target, body, needed in cases:
        with row(f"{target} {inspect.getsource(body).strip()}"), pytest.raises(IllegalInstruction, match=needed):
            one(body, target=target)


# ------------------------------------------------------------------------------------------------ operands of others


def test_a_kernel_gives_the_operands_of_one_warp(row):
    pair = np.zeros((2, 32, 4), np.uint32)
    cases = [
        ("mma", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (pair, pair[..., :2], pair)),
        ("some", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (pair[0], pair[0, :, :2], pair)),
        ("ldmatrix", X4, (np.zeros((2, 32), int),)),
        ("stmatrix", ST1, (np.arange(64).reshape(2, 32) * 16, pair[0, :, :1])),
        ("registers of stmatrix", ST1, (16 * np.arange(32), pair[..., :1])),
        ("wmma.load", LOAD_C, (np.array([[1 << 40, 1 << 40]]), 16)),
        ("stride", STORE_D, (1 << 40, np.zeros((32, 8), np.uint32), np.array([16, 16]))),
        ("registers", STORE_D, (1 << 40, np.zeros((2, 32, 8), np.uint32), 16)),
    ]
    for name, opcode, operands in cases:
        written = []

        def kernel(warp, opcode=opcode, operands=operands, written=written):
            try:
                warp.run(opcode, *operands)
            finally:
                written.append(warp.core.block.shared.bytes.any())

        with row(name):
            with pytest.raises(OperandError, match="in a kernel each warp gives its own 32 lanes"):
                one(kernel)
            assert written == [False]


def test_wrong_operands_are_told_as_tcemu_run_tells_them(row):
    zeros = np.zeros((32, 4), np.uint32)
    cases = [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ()),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (zeros, zeros, zeros)),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (zeros, zeros[:, :2], zeros.astype(float))),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (None, "x", object())),
        (X4, ()),
        (X4, (zeros,)),
        (X4, (0.5,)),
        (X4, (0, 1)),
        (LOAD_C, (None,)),
        (LOAD_C, (1 << 40, "x")),
        (STORE_D, (1 << 40, zeros, 16)),
        (STORE_D, (1 << 40,)),
        (ST1, (16 * np.arange(32), zeros)),
        ("movmatrix.sync.aligned.m8n8.trans.b16", (zeros,)),
    ]  # fmt: skip
    for number, (opcode, operands) in enumerate(cases):
        with row(f"{number} {opcode}"):
            with pytest.raises(OperandError, match=re.escape(opcode.split(".")[0])) as caught:
                one(lambda warp, o=opcode, a=operands: warp.run(o, *a))
            assert "PTX ISA" in str(caught.value)
